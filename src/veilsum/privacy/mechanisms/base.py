"""What a mechanism is: an input, noise, and an output whose distribution hides the input.

    |log P(z | x) - log P(z | x')| <= eps    for all outputs z and adjacent inputs x, x'

One object answers every question about the noise: which inputs it takes (`domain`), its `scale` and
`variance`, fast floating-point draws for simulation (`sample`), exact draws that may leave an agent
(`release`), and the privacy event that an accountant charges (`event`). The simulator, the theory,
the audits and the agents ask the same object.

Two claims are kept apart. `ideal_status` is about the distribution above, in real numbers. `status`
is about the bits that `release` returns. `sample` makes no claim: floating-point noise is fast and
not private, because the holes in its support tell x from x' (`auditing.support_attack`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.exact.grid import finite_floats
from veilsum.privacy.guarantee import Status

Array = NDArray[np.float64]

PURE_REASON = "the log density moves by at most epsilon between adjacent inputs"


@dataclass(frozen=True)
class RealStatistic:
    """A real statistic: x and x' are adjacent when ||x - x'||_1 <= sensitivity.

    Parameters
    ----------
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals.

    Examples
    --------
    >>> RealStatistic(2.0).sensitivity
    2.0
    """

    sensitivity: float

    def __post_init__(self) -> None:
        """Refuse a sensitivity that no finite noise serves."""
        _validate.positive(PrivacyError, sensitivity=self.sensitivity)

    def variance(self, mechanism: Mechanism) -> float:
        """The variance, the same for every x."""
        return mechanism.worst_variance


@dataclass(frozen=True)
class IntegerStatistic(RealStatistic):
    """A whole-number statistic that moves by at most a whole `sensitivity`.

    Parameters
    ----------
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals, a whole number.

    Examples
    --------
    >>> IntegerStatistic(1).sensitivity
    1
    """

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not a whole number."""
        super().__post_init__()
        _validate.at_least(PrivacyError, 1, sensitivity=self.sensitivity)  # type: ignore[arg-type]


@dataclass(frozen=True)
class BoundedSignal:
    """A value of [low, high]; any two values are adjacent unless `sensitivity` says less.

    Parameters
    ----------
    low, high
        The public bounds.
    integer
        Whether only whole numbers occur.
    sensitivity
        How far apart two adjacent values can be: high - low by default.

    Examples
    --------
    >>> BoundedSignal(0.0, 4.0).sensitivity
    4.0
    """

    low: float
    high: float
    integer: bool = False
    sensitivity: float = math.inf

    def __post_init__(self) -> None:
        """Refuse bounds that are not finite, not in order or, for whole numbers, not whole."""
        check_bounds(self.low, self.high)
        if self.integer and not (self.low == round(self.low) and self.high == round(self.high)):
            raise PrivacyError(f"bounds must be whole numbers; found ({self.low}, {self.high})")
        if not self.sensitivity > 0:
            raise PrivacyError(f"sensitivity must be above 0; found {self.sensitivity}")
        object.__setattr__(self, "sensitivity", min(self.sensitivity, self.high - self.low))

    def variance(self, mechanism: Mechanism) -> float:
        """The worst over the domain: at an end, or at the value nearest the middle."""
        middle = (self.low + self.high) / 2
        values = np.array([self.high, math.floor(middle) if self.integer else middle])
        return float(mechanism.variance(values).max())


Domain = RealStatistic | IntegerStatistic | BoundedSignal


@dataclass(frozen=True)
class Mechanism(ABC):
    """Noise with a guarantee, a mean and a variance.

    Parameters
    ----------
    epsilon
        The privacy loss that is never exceeded, except with probability `delta`.

    Examples
    --------
    >>> from veilsum.privacy import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(epsilon=0.5, sensitivity=1.0)
    >>> isinstance(mechanism, Mechanism), mechanism.worst_variance, str(mechanism.status)
    (True, 8.0, 'proved')
    """

    epsilon: float

    name: ClassVar[str]
    uniforms: ClassVar[int] = 0  # per draw, what `from_uniforms` needs; 0: it draws otherwise
    scalar: ClassVar[bool] = False  # whether a vector statistic would cost more than epsilon
    delta = 0.0  # not annotated: a subclass has it as a field

    @property
    @abstractmethod
    def domain(self) -> Domain | None:
        """What goes in and which inputs are adjacent; None where the signal itself goes in."""

    @property
    def ideal_status(self) -> Status:
        """The status of the guarantee for the ideal distribution, in real numbers."""
        return Status.PROVED

    @property
    def status(self) -> Status:
        """The status of the guarantee for the bits that `release` returns."""
        return Status.PROVED

    @property
    def reason(self) -> str:
        """Why `ideal_status` is what it is."""
        return PURE_REASON

    @property
    @abstractmethod
    def worst_variance(self) -> float:
        """The largest variance over all inputs."""

    @property
    def scale(self) -> float:
        """The noise's scale: sqrt(worst_variance/2), that of Laplace noise of this variance."""
        return math.sqrt(self.worst_variance / 2)

    def mean(self, x: ArrayLike) -> Array:
        """E sample(x) = x: every mechanism here is unbiased."""
        return np.array(x, dtype=np.float64)

    @abstractmethod
    def variance(self, x: ArrayLike) -> Array:
        """Var sample(x) for every input."""

    def release_variance(self, x: ArrayLike) -> Array:
        """Var release(x): the ideal variance, and what the grid adds to it."""
        return self.variance(x)

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """One noised number for each value, in floating point: for simulation only.

        Parameters
        ----------
        values
            Inputs of the domain.
        rng
            Where the randomness comes from.

        Returns
        -------
        Array
            An array of the shape of `values`.
        """
        x = np.asarray(values, dtype=np.float64)
        return self.from_uniforms(x, rng.random((self.uniforms, *x.shape)))

    def from_uniforms(self, x: Array, u: Array) -> Array:  # noqa: ARG002 - of those that do
        """Turn `uniforms` numbers of (0, 1) per value into a draw: what `sample` is made of."""
        raise PrivacyError(f"mechanism {self.name} is not a function of uniform numbers")

    @abstractmethod
    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[Any]:
        """One noised number for each value, drawn exactly: what may leave an agent.

        Parameters
        ----------
        values
            Finite inputs of the domain.
        entropy
            Where the random bytes come from: the operating system, except in tests.

        Returns
        -------
        NDArray
            An array of the shape of `values`; each call is a new release.
        """

    @property
    def exponent(self) -> int | None:
        """Every release is a multiple of 2^exponent; None where there is no grid."""
        return None

    @abstractmethod
    def privacy_loss(self, x: float, other: float) -> float:
        """sup_z |log P(z | x) - log P(z | other)|: at most epsilon if adjacent."""

    def event(self, released: bool = False) -> PrivacyEvent:  # noqa: ARG002 - of additive noise
        """The privacy event of one release, as an accountant charges it.

        Parameters
        ----------
        released
            Whether the event is that of `release`, on its grid, or of the ideal distribution.
        """
        return PrivacyEvent(self.epsilon)


@dataclass(frozen=True)
class IdentityMechanism(Mechanism):
    """release(x) = x: no noise, no privacy; the mechanism of `NoPrivacy`.

    Parameters
    ----------
    epsilon
        Infinite: no loss is excluded.

    Examples
    --------
    >>> IdentityMechanism().release([1.5, -2.0]).tolist()
    [1.5, -2.0]
    """

    epsilon: float = math.inf

    name: ClassVar[str] = "none"

    @property
    def domain(self) -> None:
        """Anything goes in."""
        return None

    @property
    def ideal_status(self) -> Status:
        """None: nothing is hidden."""
        return Status.NONE

    @property
    def status(self) -> Status:
        """None: nothing is hidden."""
        return Status.NONE

    @property
    def reason(self) -> str:
        """Why there is no guarantee."""
        return "no noise is added"

    @property
    def worst_variance(self) -> float:
        """0."""
        return 0.0

    def variance(self, x: ArrayLike) -> Array:
        """0 for every input."""
        return np.zeros(np.shape(x))

    def from_uniforms(self, x: Array, u: Array) -> Array:  # noqa: ARG002
        """x."""
        return x

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:  # noqa: ARG002
        """x."""
        return finite_floats(values)

    def privacy_loss(self, x: float, other: float) -> float:
        """0 for equal inputs, else infinite."""
        return 0.0 if x == other else math.inf

    def event(self, released: bool = False) -> PrivacyEvent:  # noqa: ARG002
        """There is none: a release without noise has no finite cost."""
        raise PrivacyError("a release without noise has no finite privacy cost")


COMPUTABLE = (1e-12, 700.0)  # epsilons whose exponentials and coins are computed


def check_epsilon(epsilon: float) -> None:
    """Raise for an epsilon whose exponential is not computed."""
    _validate.positive(PrivacyError, epsilon=epsilon)
    if not COMPUTABLE[0] <= epsilon <= COMPUTABLE[1]:
        raise PrivacyError(
            f"epsilon must be between {COMPUTABLE[0]:g} and {COMPUTABLE[1]:g} for this mechanism; "
            f"found {epsilon:g}; the mechanism laplace takes any epsilon"
        )


def check_bounds(low: float, high: float) -> None:
    """Raise unless low < high are finite."""
    if not (math.isfinite(high - low) and low < high):
        raise PrivacyError(f"bounds must be finite with low < high; found ({low}, {high})")
