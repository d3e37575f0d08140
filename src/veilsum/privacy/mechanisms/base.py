"""What a mechanism is: an input, noise, and an output whose distribution hides the input.

    |log P(z | x) - log P(z | x')| <= eps    for all outputs z and adjacent inputs x, x'

One object answers every question about the noise: which statistics it takes (`misfit`, `fit`), its `scale`
and `variance`, fast floating-point draws for simulation (`sample`), exact draws that may leave an agent
(`release`), how far sums of its noise reach (`sum_quantile`), what an audit attacks (`pairs`, `weakened`)
and the privacy event that an accountant charges (`event`). Nobody asks for its class.

A mechanism is one file of this package: a class with a `name` registers itself, and simulation, agents,
theory, audits and the contract suites know it by that. An event kind of its own goes into the same file.

Two claims are kept apart. `ideal_status` is about the distribution above, in real numbers. `status`
is about the bits that `release` returns. `sample` makes no claim: floating-point noise is fast and
not private, because the holes in its support tell x from x' (`auditing.support_attack`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum._registry import Registry
from veilsum._statistic import Statistic, Status
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import ADDS_UP, PrivacyEvent
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.exact.grid import finite_floats

Array = NDArray[np.float64]
Input = float | tuple[float, ...]  # of one release: a number, or a vector
Pair = tuple[Input, Input]

PURE_REASON = "the log density moves by at most epsilon between adjacent inputs"
MOST_ERROR = 2.0**-20  # of a sensitivity, by floats; beyond, it would swell the noise
COMPUTABLE = (1e-12, 700.0)  # epsilons whose exponentials and coins are computed
MOST_EPSILON = COMPUTABLE[1]

MECHANISMS: Registry[type[Mechanism]]


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
    requested: ClassVar[bool] = True  # whether a privacy request can name it
    takes_delta: ClassVar[bool] = False  # whether a delta buys less noise
    adds: ClassVar[bool] = True  # noise that does not depend on the input, as sums of inputs need
    uniforms: ClassVar[int] = 0  # per draw, what `from_uniforms` needs; 0: it draws otherwise
    scalar: ClassVar[bool] = False  # whether a vector statistic would cost more than epsilon
    suitable: ClassVar[Statistic] = Statistic(1.0, low=0.0, high=1.0, step=1.0)  # that it takes
    delta = 0.0  # not annotated: a subclass has it as a field

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a mechanism of the package."""
        super().__init_subclass__(**options)
        MECHANISMS.enlist(cls)

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """Why the mechanism does not take such a statistic, as "mechanism x ..."; "" if it does.

        Parameters
        ----------
        statistic
            What moves, and how far.
        epsilon, delta
            What one release may cost.
        """
        if not cls.requested:
            return "is not for a statistic by itself"
        if statistic.scale is not None:
            return "has a public scale, and this one follows the signal"
        if delta and not cls.takes_delta:
            return "is pure: a delta buys nothing; leave it out"
        if cls.scalar and statistic.dimension > 1:
            return f"is for one number, and the statistic has {statistic.dimension}"
        return ""

    @classmethod
    def fit(
        cls, statistic: Statistic, epsilon: float, delta: float = 0.0, released: bool = False
    ) -> Mechanism:
        """The mechanism for a statistic that it takes.

        Parameters
        ----------
        statistic, epsilon, delta
            As of `misfit`.
        released
            Whether it must cover what floats do to the statistic, for an exact release.
        """
        misfit = cls.misfit(statistic, epsilon, delta)
        if misfit:
            raise PrivacyError(f"mechanism {cls.name} {misfit}")
        return cls._fitted(statistic, epsilon, delta, statistic.error if released else 0.0)

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Mechanism:
        """The mechanism, of a statistic that fits and is computed within an error."""
        raise PrivacyError(f"mechanism {cls.name} is not made from a statistic")

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """Instances that the contract suites test and the audits attack."""
        return ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Adjacent inputs, the worst ones among them: what an audit attacks."""
        return ()

    def weakened(self, missing: float) -> Mechanism:
        """The mechanism without that part of its noise, under the same claim: an audit must find it."""
        return replace(self, epsilon=min(self.epsilon / (1 - missing), MOST_EPSILON))

    def part(self, share: float) -> Self:
        """The mechanism for one of several releases, which may cost that part of what one may.

        Parameters
        ----------
        share
            Above 0; releases whose shares add up to 1 cost together what this one costs.
        """
        raise PrivacyError(f"mechanism {self.name}: {ADDS_UP.format(name='its')}")

    @property
    def ideal_status(self) -> Status:
        """The status of the guarantee for the ideal distribution, in real numbers.

        What is proved is proved in this package; of a class from elsewhere it is its author's claim.
        """
        ours = type(self).__module__.startswith(f"{MECHANISMS.package}.")
        return Status.PROVED if ours else Status.CLAIMED

    @property
    def status(self) -> Status:
        """The status of the guarantee for the bits that `release` returns."""
        return self.ideal_status

    @property
    def reason(self) -> str:
        """Why `ideal_status` is what it is."""
        proved = self.ideal_status is Status.PROVED
        return PURE_REASON if proved else f"the author of mechanism {self.name} states it"

    @property
    @abstractmethod
    def worst_variance(self) -> float:
        """The largest variance over all inputs."""

    def variance_over(self, statistic: Statistic) -> float:
        """The largest variance over the values of a statistic."""
        return self.worst_variance

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

    def sum_quantile(
        self, weights: Array, times: Array, confidence: float, normal_variance: float = 0.0
    ) -> float:
        """x with P(|sum_k p_k d_k + normal| <= x) >= confidence, d_k independent noise.

        Chebyshev's inequality, where nothing better is known.

        Parameters
        ----------
        weights, times
            p_k >= 0, and how many draws have this weight.
        confidence
            Above 0 and below 1.
        normal_variance
            Of an independent normal number that is added.
        """
        variance = self.worst_variance * float((times * weights**2).sum())
        return math.sqrt((variance + normal_variance) / (1 - confidence))

    def quantile(self, confidence: float) -> float:
        """How far the noise of one release is from 0 at most, with that probability."""
        if not 0 < confidence < 1:
            raise PrivacyError(f"confidence must be above 0 and below 1; found {confidence:g}")
        return self.sum_quantile(np.ones(1), np.ones(1), confidence)

    def clip(self, x: ArrayLike) -> Array:
        """Inputs within the bounds that the mechanism has: floats may be beyond by a last digit."""
        return np.asarray(x, dtype=np.float64)

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """One noised number for each value, in floating point: for simulation only.

        Parameters
        ----------
        values
            Inputs that the mechanism takes; a vector lies along the last axis.
        rng
            Where the randomness comes from.
        """
        x = np.asarray(values, dtype=np.float64)
        return self.from_uniforms(x, rng.random((self.uniforms, *x.shape)))

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """Turn `uniforms` numbers of (0, 1) per value into a draw: what `sample` is made of."""
        raise PrivacyError(
            f"mechanism {self.name} is not a function of uniform numbers, which a simulation draws for it; "
            "state how many it needs (uniforms = 1) and define from_uniforms(x, u), u of shape "
            "(uniforms, *x.shape)"
        )

    @abstractmethod
    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[Any]:
        """One noised number for each value, drawn exactly: what may leave an agent.

        Parameters
        ----------
        values
            Finite inputs that the mechanism takes.
        entropy
            Where the random bytes come from: the operating system, except in tests.
        """

    def release_sum(self, rows: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[Any]:
        """The sum of several statistics with the noise of one, drawn exactly."""
        raise PrivacyError(
            f"mechanism {self.name} is for one reading, and the sum of a batch needs noise that is "
            "added to it; use laplace, or leave batches out"
        )

    @property
    def exponent(self) -> int | None:
        """Every release is a multiple of 2^exponent; None where there is no grid."""
        return None

    @abstractmethod
    def privacy_loss(self, x: Any, other: Any) -> float:
        """sup_z |log P(z | x) - log P(z | other)|: at most epsilon if adjacent."""

    def spent_delta(self, x: Any, other: Any) -> float:
        """The delta that a pair costs at epsilon: 0 for a pure mechanism and adjacent inputs."""
        return 0.0 if self.privacy_loss(x, other) <= self.epsilon * (1 + 1e-12) else 1.0

    def loss_between(self, x: Array, other: Array) -> float:
        """The loss of a statistic, whose coordinates have noise of their own."""
        pairs = zip(self.clip(x), self.clip(other), strict=True)
        return sum(self.privacy_loss(float(a), float(b)) for a, b in pairs)

    def event(self, released: bool = False) -> PrivacyEvent:
        """The privacy event of one release, as an accountant charges it.

        Parameters
        ----------
        released
            Whether the event is that of `release`, on its grid, or of the ideal distribution.
        """
        return PrivacyEvent.of(self.epsilon, self.delta)


class _Mechanisms(Registry[type[Mechanism]]):
    """Only what is a mechanism, under its own name."""

    def add(self, name: str, thing: type[Mechanism]) -> None:
        """Refuse what `best` could not make."""
        if not (isinstance(thing, type) and issubclass(thing, Mechanism)):
            raise PrivacyError(
                f"a mechanism is a class that derives from Mechanism; found {thing!r}"
            )
        missing = sorted(getattr(thing, "__abstractmethods__", ()))
        if missing:
            raise PrivacyError(f"mechanism {name} must define {', '.join(missing)}")
        if thing.name != name:
            raise PrivacyError(f"mechanism {name} calls itself {thing.name!r}; add it by that name")
        super().add(name, thing)


MECHANISMS = _Mechanisms("mechanism", "veilsum.privacy.mechanisms", PrivacyError)


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
    requested: ClassVar[bool] = False

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

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x."""
        return x

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """x."""
        return finite_floats(values)

    def privacy_loss(self, x: float, other: float) -> float:
        """0 for equal inputs, else infinite."""
        return 0.0 if x == other else math.inf

    def weakened(self, missing: float) -> Self:
        """Itself."""
        return self

    def event(self, released: bool = False) -> PrivacyEvent:
        """There is none: a release without noise has no finite cost."""
        raise PrivacyError("a release without noise has no finite privacy cost")


def computable(epsilon: float) -> str:
    """Why a mechanism whose exponentials are computed does not take this epsilon; "" if it does."""
    if COMPUTABLE[0] <= epsilon <= COMPUTABLE[1]:
        return ""
    return f"takes epsilon from {COMPUTABLE[0]:g} to {COMPUTABLE[1]:g}; found {epsilon:g}"


def check_epsilon(epsilon: float) -> None:
    """Raise for an epsilon whose exponential is not computed."""
    _validate.positive(PrivacyError, epsilon=epsilon)
    if computable(epsilon):
        raise PrivacyError(
            f"epsilon must be between {COMPUTABLE[0]:g} and {COMPUTABLE[1]:g} for this mechanism; "
            f"found {epsilon:g}; the mechanism laplace takes any epsilon"
        )


def check_bounds(low: float, high: float) -> None:
    """Raise unless low < high are finite."""
    if not (math.isfinite(high - low) and low < high):
        raise PrivacyError(f"bounds must be finite with low < high; found ({low}, {high})")
