"""What a family is: a sufficient statistic, its support, how fast it moves, what it estimates.

A signal s follows an exponential family, and all that an estimate needs of it is xi(s):

    E xi(s) = mean(theta)    so that    theta = parameter(average of xi(s_i))

`moves(radius)` is what a mechanism may know of it, a `Statistic`: the exact modulus of continuity of xi
on the public support, in the l1 norm and in the l2 norm,

    sup { ||xi(s) - xi(s')|| : ||s - s'||_1 <= radius, both in the support },

and the least and largest xi(s). A modulus is at most (largest derivative) x radius, and often less. With
independent Laplace noise on each coordinate of a vector statistic it is the l1 norm that counts; the
paper's largest absolute partial derivative is right only for one coordinate of the statistic at a time.
Noise with a delta follows the l2 norm.

Each family states these itself, exactly, in `_moves`. Nothing is looked up or guessed: of a class that
changes `_xi` and does not state `_moves` no range is known, and the l1 norm stands for the l2 norm.

A family is one file of this package, or a class in one: a class with a `name` registers itself, and
scenarios, the command line, the docs and the contract suites know it by that, and by its `examples`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum._registry import Registry
from veilsum._statistic import Statistic, Status
from veilsum.errors import FamilyError, SignalError
from veilsum.families.support import Bounds, Metric, Support, number

Array = NDArray[np.float64]
Size = int | tuple[int, ...]
Specimen = tuple[
    Mapping[str, Any], Mapping[str, Any]
]  # options of a family, parameters to draw with

RELATIVE = 2.0**-49  # of a statistic, what floating-point operations change
LARGEST = float(np.finfo(np.float64).max)
SIGNAL = ("s", "s, a vector")  # formulas of statistics that are the signal itself

FAMILIES: Registry[type[ExponentialFamily]]


@dataclass(frozen=True, eq=False)
class Interval:
    """A parameter with its confidence interval: low <= value <= high, numbers or arrays alike.

    Parameters
    ----------
    value, low, high : ndarray
        The estimate and the ends.

    Examples
    --------
    >>> from veilsum import families
    >>> found = families.Normal(sigma=1.0).interval(3.0, 0.01)["mu"]
    >>> found.low.round(3), found.high.round(3)
    (np.float64(2.804), np.float64(3.196))
    """

    value: Array
    low: Array
    high: Array


class Example(NamedTuple):
    """A family, and parameters to draw signals with.

    Parameters
    ----------
    family : ExponentialFamily
        The family, without bounds.
    parameters : mapping
        A number or an array for each of its parameters.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Bernoulli.examples()
    (Example(family=Bernoulli(bounds=None), parameters={'p': 0.3}),)
    """

    family: ExponentialFamily
    parameters: Mapping[str, ArrayLike]


@dataclass(frozen=True)
class ExponentialFamily(ABC):
    """A sufficient statistic xi(s) with its support, its sensitivity and its inverse.

    `sample`, `mean` and `covariance` describe the distribution without bounds: clipping what falls
    outside (`Signals.clip`, `support.clip`), and the bias that this brings, are up to the caller.

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Bounds on the signal, in its own units. They are public: choose them before a signal is
        read. They narrow the support, hence the sensitivity, and nothing else.

    Attributes
    ----------
    name : str
        The name in a scenario, such as "log-normal".
    parameters : tuple of str
        The unknown parameters, such as ("mu",).
    formula, modulus : str
        The statistic and its sensitivity as formulas, for people: no decision depends on them.
    statistic_is_exact, statistic_is_log : bool
        Whether xi(s) has no rounding beyond that of s; whether it is log s + constant, whose smooth
        sensitivity is known.
    support : Support
        Where signals must lie.
    example : (mapping, mapping)
        Options of a family without bounds, and parameters to draw signals with.

    Examples
    --------
    >>> from veilsum import families
    >>> isinstance(families.Bernoulli(), families.ExponentialFamily)
    True
    """

    bounds: Bounds | None = field(default=None, kw_only=True)

    statistic_is_exact: ClassVar[bool] = False
    statistic_is_log: ClassVar[bool] = False
    example: ClassVar[Specimen | None] = None
    _positive: ClassVar[tuple[str, ...]] = ()  # options that are numbers above 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a family of the package."""
        super().__init_subclass__(**options)
        FAMILIES.enlist(cls)

    def __post_init__(self) -> None:
        """Raise for options that are not positive, and for bounds that leave nothing of the support."""
        for name in self._positive:
            _validate.positive(FamilyError, **{name: getattr(self, name)})
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _pair(self.bounds))
        self.natural_support.within(self.bounds)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """What the contract suites test, of `example`; `describe` has a row for the first."""
        if cls.example is None:
            return ()
        options, parameters = cls.example
        return (Example(cls(**options), parameters),)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in a scenario, such as "log-normal"."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of the unknown parameters, such as ("mu",)."""

    @property
    @abstractmethod
    def formula(self) -> str:
        """The statistic as a formula, such as "log s"."""

    @property
    @abstractmethod
    def modulus(self) -> str:
        """The sensitivity as a formula in `radius`, `low` and `high`."""

    @property
    @abstractmethod
    def natural_support(self) -> Support:
        """The support of the distribution before bounds."""

    @property
    def support(self) -> Support:
        """Where signals must lie: the natural support within the bounds."""
        return self.natural_support.within(self.bounds)

    @property
    def dimension(self) -> int:
        """The length of the statistic."""
        return 1

    @property
    def signal_shape(self) -> tuple[int, ...]:
        """The shape of one signal: () for a number, (d,) for a vector."""
        return ()

    @property
    def metric(self) -> Metric:
        """How the distance between two signals is measured."""
        return Metric.L1 if self.signal_shape else Metric.ABSOLUTE

    @property
    def mean_domain(self) -> tuple[float, float]:
        """The values that a coordinate of E xi can take, as (low, high)."""
        return (-math.inf, math.inf)

    @property
    def variance_in_mean(self) -> tuple[float, float, float] | None:
        """(a, b, c) with Var xi = a + b m + c m^2 at E xi = m, by coordinate; None if it is not."""
        return None

    @property
    def remedy(self) -> str:
        """What to do about signals outside the support."""
        support = self.support
        if support.integer:
            return "check the column and its units, or choose a family of real-valued signals"
        if math.isfinite(support.low) or math.isfinite(support.high):
            ends = (support.low, support.high)
            low, high = (number(e) if math.isfinite(e) else "None" for e in ends)
            return f"clip them to the public bounds first: signals.clip({low}, {high})"
        return "remove or fill the readings that are not numbers"

    def statistic(self, signals: ArrayLike) -> Array:
        """xi(s): the shape of the signals for dimension 1, (..., dimension) for a vector.

        Outside the support the sensitivity guarantees nothing: a signal there is an error, which has the
        index of the first one and never its value.
        """
        s = _validate.real_array(SignalError, signals=signals)
        self._check_shape(s)
        if not self.support.contains(s):
            outside = self.support.violations(s)
            first = tuple(int(k) for k in np.argwhere(outside)[0])
            raise SignalError(
                f"{int(outside.sum())} of {outside.size} signals lie outside the support of "
                f"{self.name} ({self.support.describe()}), the first at index {first}; "
                f"{self.remedy}"
            )
        with np.errstate(over="ignore"):
            return self._finite(self._xi(s), s)

    def raw_columns(self, signals: Array) -> Array:
        """`columns` without the check of the support, for what is asked beyond the bounds."""
        outer = signals.shape[: signals.ndim - len(self.signal_shape)]
        return np.asarray(self._xi(signals), dtype=np.float64).reshape((*outer, self.dimension))

    def first_not_finite(self, signals: Array) -> int | None:
        """The first row of signals, all in the support, whose statistic is not finite, or None."""
        with np.errstate(all="ignore"):
            xi = np.asarray(self._xi(signals), dtype=np.float64)
        wrong = ~np.isfinite(xi).reshape(len(signals), -1).all(axis=-1)
        return int(np.argmax(wrong)) if wrong.any() else None

    def _finite(self, xi: Any, s: Array) -> Array:
        """xi(s), if it is a finite real number for every signal; where it is not is named."""
        values = _validate.real_array(FamilyError, **{f"xi(s) of {self.name}": xi})
        if not np.isfinite(values).all():
            first = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0][: s.ndim])
            raise FamilyError(
                f"the statistic of {self.name} is not finite for "
                f"{int((~np.isfinite(values)).sum())} of {values.size} signals inside its support "
                f"({self.support.describe()}), the first at index {first}; narrow the bounds, or "
                "change the statistic"
            )
        return values

    def columns(self, signals: ArrayLike) -> Array:
        """xi(s), always of shape (..., dimension)."""
        s = _validate.real_array(SignalError, signals=signals)
        outer = s.shape[: s.ndim - len(self.signal_shape)]
        return self.statistic(s).reshape((*outer, self.dimension))

    def moves(self, radius: float = 1.0) -> Statistic:
        """What is public about xi(s) for signals that move by at most `radius`: norms, bounds, step.

        It is proved where the class itself says so (`_proved = True`): a subclass does not inherit
        that, since it may change the statistic or the support. A radius of inf stands for any two
        values of the support.

        Examples
        --------
        >>> from veilsum import families
        >>> both = families.NormalBoth(bounds=(-2.0, 3.0)).moves(radius=math.inf)
        >>> both.l1, both.low, both.high
        (5.0, (-2.5, 0.0), (2.5, 1.25))
        >>> families.Normal(sigma=1.0).moves(radius=2.0).reason
        's is the statistic, and moves by at most 2'
        """
        found = self._moves(self._adjacency(radius))
        if not self._states_moves:
            found = replace(found, l2=found.l1, low=-math.inf, high=math.inf, mass=None)
        proved = bool(type(self).__dict__.get("_proved", False))
        return replace(
            found,
            dimension=self.dimension,
            step=1.0 if proved and self.statistic_is_exact and self.support.integer else None,
            error=self._error() if proved and not self.statistic_is_exact else 0.0,
            status=Status.PROVED if proved else Status.CLAIMED,
        )

    def _error(self) -> float:
        """How far a computed xi(s) can be from the true one: 2^-49 max |xi| on the support.

        An identity or a one-hot code is exact. Any other statistic here (log, log(1 + s), log(s/m),
        powers, |s - m|) is at most two operations, each within 4 units in the last place, and the
        largest |xi| lies at an end of the public support. A custom family is taken at its author's
        word in this too.
        """
        s = self.support
        low = math.nextafter(s.low, math.inf) if s.open_low else s.low
        high = math.nextafter(s.high, -math.inf) if s.open_high else s.high
        ends = np.clip(np.array([low, high]), -LARGEST, LARGEST)
        with np.errstate(over="ignore"):
            return RELATIVE * float(np.max(np.abs(self.raw_columns(ends))))

    def _adjacency(self, radius: float) -> float:
        """`adjacency` of a radius that makes two signals adjacent."""
        check_radius(radius)
        if self.support.integer and radius < 1 and self.metric is not Metric.DISCRETE:
            raise FamilyError(
                f"radius must be at least 1 for whole numbers; found {number(radius)}: "
                "no two signals are adjacent: the guarantee would be empty"
            )
        return self.adjacency(radius)

    @property
    def _states_moves(self) -> bool:
        """Whether `_moves` is of this statistic: by the class that defines `_xi`, or one below."""
        own = (c for c in type(self).__mro__ if "_moves" in vars(c) or "_xi" in vars(c))
        return "_moves" in vars(next(own))

    def adjacency(self, radius: float) -> float:
        """The largest distance between two adjacent signals: the radius, rounded down for whole numbers."""
        whole = self.support.integer and math.isfinite(radius)
        return float(math.floor(radius)) if whole else float(radius)

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """Signals of shape size + signal_shape from the distribution without bounds."""

    def marginals(self, **parameters: Any) -> list[Any] | None:
        """The distribution of each coordinate of a signal, frozen, from scipy.stats; None if unknown.

        A subclass outside this package may change the distribution: it has none unless it says so.
        """
        if not type(self).__dict__.get("_proved", False):
            return None
        return self._marginals(
            **{k: np.asarray(v, dtype=np.float64) for k, v in parameters.items()}
        )

    def _marginals(self, **parameters: Array) -> list[Any] | None:  # noqa: ARG002 - not known here
        return None

    @abstractmethod
    def mean(self, **parameters: ArrayLike) -> Array:
        """E xi, of shape (dimension,), or (..., dimension) for arrays of parameters."""

    @abstractmethod
    def covariance(self, **parameters: ArrayLike) -> Array:
        """Cov xi, of shape (..., dimension, dimension)."""

    @abstractmethod
    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """The inverse of `mean`, for (..., dimension) estimates at once.

        Noise can push an estimate out of the domain of E xi: it is then moved to the nearest
        edge (a Bernoulli mean of -0.02 gives p = 0; a mean waiting time of -0.1 gives rate = inf).
        The result, edges included, is valid for `mean` and `covariance`; at an edge the covariance is
        its limit, often 0.
        """

    @abstractmethod
    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """Confidence intervals for every parameter, from an estimate of E xi and its covariance.

        The covariance is that of the estimate: sampling, privacy noise and disagreement between agents
        added up.
        """

    @abstractmethod
    def _xi(self, s: Array) -> Array: ...

    @abstractmethod
    def _moves(self, radius: float) -> Statistic: ...

    def _check_shape(self, s: Array) -> None:
        shape = self.signal_shape
        if shape and s.shape[-len(shape) :] != shape:
            raise SignalError(
                f"{self.name} takes signals of shape (..., {', '.join(map(str, shape))}); "
                f"found shape {s.shape}"
            )

    def _check_names(self, parameters: Mapping[str, Any]) -> None:
        if set(parameters) != set(self.parameters):
            raise FamilyError(
                f"{self.name} takes the parameters {', '.join(self.parameters)}; "
                f"found {', '.join(parameters) or 'none'}"
            )

    def _means(self, mean: ArrayLike) -> Array:
        """The estimate as an array (..., dimension); a bare number will do for dimension 1."""
        m = _validate.real_array(FamilyError, mean=mean)
        m = m.reshape(1) if m.ndim == 0 else m
        if m.shape[-1] != self.dimension:
            raise FamilyError(
                f"mean must have shape (..., {self.dimension}) for {self.name}; found {m.shape}"
                + ("; use mean[..., None]" if self.dimension == 1 else "")
            )
        return m

    def _covariances(self, covariance: ArrayLike) -> Array:
        """The covariance as an array (..., dimension, dimension); likewise."""
        c = _validate.real_array(FamilyError, covariance=covariance)
        d = self.dimension
        c = c.reshape(1, 1) if c.ndim == 0 else c
        if c.shape[-2:] != (d, d):
            raise FamilyError(
                f"covariance must have shape (..., {d}, {d}) for {self.name}; found {c.shape}"
            )
        if (np.diagonal(c, axis1=-2, axis2=-1) < 0).any():
            raise FamilyError("covariance must have no negative variance on its diagonal")
        return c

    def _margins(self, covariance: ArrayLike, confidence: float) -> Array:
        """z sqrt(diag(covariance)), of shape (..., dimension)."""
        variances = np.diagonal(self._covariances(covariance), axis1=-2, axis2=-1)
        return quantile(confidence) * np.sqrt(variances)


FAMILIES = Registry("family", "veilsum.families", FamilyError)


def quantile(confidence: float) -> float:
    """z with P(|N(0, 1)| <= z) = confidence."""
    if not 0 < _validate.as_float(confidence) < 1:
        raise FamilyError(
            "confidence must lie strictly between 0 and 1; found "
            f"{_validate.found(confidence)}; try 0.95"
        )
    return NormalDist().inv_cdf((1 + confidence) / 2)


def check_radius(radius: Any) -> None:
    """Raise unless the radius is a number above 0; inf is."""
    if not _validate.as_float(radius) > 0:
        raise FamilyError(
            f"radius must be a number above 0; found {_validate.found(radius)}; it is how far a "
            "signal may move, in its own units"
        )


def _pair(bounds: Any) -> Bounds:
    try:
        low, high = bounds
    except (TypeError, ValueError):
        low = high = "no pair"
    ends = [None if end is None else _validate.as_float(end) for end in (low, high)]
    words = any(
        end is not None and math.isnan(number) and not isinstance(end, float)
        for end, number in zip((low, high), ends, strict=True)
        if number is not None
    )
    if isinstance(bounds, str | bytes) or words:
        raise FamilyError(
            "bounds must be a pair (low, high) of numbers or None; found "
            f"{_validate.found(bounds)}; try (0.0, 10.0), or (0.0, None)"
        )
    return (ends[0], ends[1])
