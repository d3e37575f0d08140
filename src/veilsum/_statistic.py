"""What moves: how far a statistic can go when a record changes, as public numbers.

A family, a question or the weight of a neighbour states a `Statistic`; every mechanism, plan and price
reads it, and nothing else about what is hidden. xi(s) is the statistic of one record s, and s, s' are
adjacent records:

    l1 >= ||xi(s) - xi(s')||_1,    l2 >= ||xi(s) - xi(s')||_2,    low <= xi(s) <= high by component.

Sums. A record that moves moves a sum of records by what it moves its own statistic: `total` has the
same norms, and the bounds of the sum.

Grids. Rounding to floor(x/step + 1/2) moves a coordinate by at most ceil(d) steps if it moves by d, so
`steps` pays one more step a coordinate but one; values that are multiples of the step pay nothing. Norms
come from floating-point work and may be low in the last places, so they are raised by a factor of
1 + 2^-50 first; a value that is computed within `error` may be 2 error further off in each coordinate.

Scale rules. Where the noise follows the signal (smooth sensitivity), `scale` has S(s), and l1 is its
maximum. Noise that must cover a neighbour's weight too is that of `at_least(weight)`, the larger of both:
max(S, w) is as smooth as S.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum.errors import PrivacyError, SignalError

if TYPE_CHECKING:
    from veilsum.families.support import Support

Array = NDArray[np.float64]

LOOSE = 1 + 1e-9  # between two norms that were rounded
ROUND_UP = 1 + Fraction(1, 2**50)  # four units in the last place of a norm computed in floats


class Status(StrEnum):
    """Whether a guarantee, or a number it rests on, is proved, claimed, estimated, refuted or absent.

    Examples
    --------
    >>> Status("proved") is Status.PROVED
    True
    """

    PROVED = "proved"
    CLAIMED = "claimed"  # by the paper, or by the author of a family
    ESTIMATED = "estimated"  # rests on a number estimated from samples
    REFUTED = "refuted"  # claimed, and broken by an audit or a derivation
    NONE = "none"

    @property
    def rank(self) -> int:
        """How little it says: 0 for what is proved, more for what is estimated, claimed, refuted, absent."""
        return _BY_RANK.index(self)


_BY_RANK = (Status.PROVED, Status.ESTIMATED, Status.CLAIMED, Status.REFUTED, Status.NONE)


@dataclass(frozen=True, eq=False)
class ScaleRule:
    """A sensitivity S(s) that is read off the signal, and so is as private as the signal.

    Parameters
    ----------
    rule : callable
        s -> S(s), vectorised.
    statistic : callable
        xi, vectorised.
    smoothing : float
        gamma: S(s) <= e^gamma S(s') for adjacent s, s'.
    radius : float
        How far apart adjacent signals are at most.
    domain : Support
        Where signals must lie.
    least : float
        The minimum of S over the domain, or less, which sets the grid of an exact release; 0 where
        none is derived.

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum.families import Support
    >>> rule = ScaleRule(lambda s: 0.5 / s, np.log, 0.1, 1.0, Support(1.0, 9.0))
    >>> rule.at([1.0, 2.0]).tolist()
    [0.5, 0.25]
    """

    rule: Callable[[Array], Array]
    statistic: Callable[[Array], ArrayLike]
    smoothing: float
    radius: float
    domain: Support
    least: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that no rule has."""
        if not self.radius > 0:
            raise PrivacyError(f"radius must be a number above 0; found {self.radius}")
        if not (math.isfinite(self.smoothing) and self.smoothing >= 0):
            raise PrivacyError(f"smoothing must be at least 0; found {self.smoothing}")

    def at(self, signals: ArrayLike) -> Array:
        """S(s) for every signal of the domain; an error names a signal by its index alone."""
        s = np.asarray(signals, dtype=np.float64)
        outside = self.domain.violations(s)
        if outside.any():
            first = tuple(int(k) for k in np.argwhere(outside)[0])
            raise SignalError(
                f"{int(outside.sum())} of {outside.size} signals lie outside the domain of the "
                f"sensitivity ({self.domain.describe()}), the first at index {first}; clip them "
                "first"
            )
        return np.asarray(self.rule(s), dtype=np.float64)

    def at_least(self, weight: float, times: float = 1.0) -> ScaleRule:
        """max(times S, weight), as smooth as S, of times xi."""
        return replace(
            self, rule=_Larger(self.rule, times, weight),
            statistic=self.statistic if times == 1 else _Multiple(self.statistic, times),
            least=max(self.least * times, weight) if self.least else 0.0,
        )  # fmt: skip


@dataclass(frozen=True)
class _Larger:
    rule: Callable[[Array], Array]
    times: float
    weight: float

    def __call__(self, s: Array) -> Array:
        return np.maximum(self.times * self.rule(s), self.weight)


@dataclass(frozen=True)
class _Multiple:
    statistic: Callable[[Array], ArrayLike]
    times: float

    def __call__(self, s: Array) -> Array:
        return self.times * np.asarray(self.statistic(s), dtype=np.float64)


@dataclass(frozen=True)
class Statistic:
    """How far a statistic can move, between which bounds it lies, and whether that is proved.

    Parameters
    ----------
    l1 : float
        The largest l1 distance between the statistics of two adjacent records; inf for none.
    l2 : float, optional
        The same in l2 norm; the l1 norm, which is never less, without it or where that is smaller.
    dimension : int
        The number of components.
    low, high : float or sequence of float
        Public bounds, for each component or for all alike; infinite for none.
    step : float, optional
        Of which every value is a whole multiple, 1 for counts; None for real numbers.
    error : float
        How far a computed component may be from the true one; infinite where nothing is known.
    status : Status
        Whether these numbers are proved; without it they are their author's claim.
    reason : str
        Why.
    scale : ScaleRule, optional
        The sensitivity at a signal, where the noise follows the signal.
    mass : float, optional
        What the components of every value add up to, 1 for a category; None where that varies.

    Raises
    ------
    PrivacyError
        If a number cannot be what it stands for.

    Examples
    --------
    A histogram with 20 public bins, in which a person moves from one bin to another:

    >>> bins = Statistic(l1=2.0, l2=2**0.5, dimension=20, low=0.0, high=1.0, step=1.0)
    >>> bins.steps(1.0)
    (2, 1.4142135623730965)
    >>> bins.total(records=969).high[0]
    969.0
    """

    l1: float
    l2: float | None = None
    dimension: int = 1
    low: Any = -math.inf
    high: Any = math.inf
    step: float | None = None
    error: float = 0.0
    status: Status = Status.CLAIMED
    reason: str = ""
    scale: ScaleRule | None = None
    mass: float | None = None

    def __post_init__(self) -> None:
        """Take bounds by component; refuse what is no norm, bound or step."""
        l2 = self.l1 if self.l2 is None else min(self.l1, self.l2)
        object.__setattr__(self, "l2", float(l2))
        object.__setattr__(self, "l1", float(self.l1))
        if not (self.l1 >= 0 and l2 >= 0):
            raise PrivacyError(f"a sensitivity must be at least 0; found {self.l1} and {self.l2}")
        if not (isinstance(self.dimension, int | np.integer) and self.dimension >= 1):
            raise PrivacyError(f"dimension must be a whole number above 0; found {self.dimension}")
        if math.isfinite(self.l1) and l2 * math.sqrt(self.dimension) * LOOSE < self.l1:
            raise PrivacyError(
                f"a move of {self.l1:g} in l1 norm over {self.dimension} components is at least "
                f"{self.l1 / math.sqrt(self.dimension):g} in l2 norm; found {l2:g}"
            )
        if not self.error >= 0:
            raise PrivacyError(f"error must be at least 0; found {self.error}")
        for name in ("low", "high"):
            ends = np.asarray(getattr(self, name), dtype=float)
            if ends.shape not in ((), (self.dimension,)):
                raise PrivacyError(
                    f"{name} must be one number, or one for each of {self.dimension} components; found "
                    f"{ends.size}"
                )
            object.__setattr__(self, name, tuple(np.broadcast_to(ends, self.dimension).tolist()))
        if not all(a <= b for a, b in zip(self.low, self.high, strict=True)):
            raise PrivacyError("bounds of a statistic need low <= high in each component")
        if self.step is not None and not 0 < self.step < math.inf:
            raise PrivacyError(f"step must be a number above 0; found {self.step}")

    @property
    def finite(self) -> bool:
        """Whether some finite noise hides the move."""
        return math.isfinite(self.l1)

    @property
    def bounded(self) -> bool:
        """Whether every component has finite bounds."""
        return all(map(math.isfinite, (*self.low, *self.high)))

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.step is not None and self.step == round(self.step)

    @property
    def one_of_k(self) -> bool:
        """Whether every value is 1 in one component and 0 in all others."""
        unit = set(self.low) == {0.0} and set(self.high) == {1.0}
        return self.mass == 1 and self.step == 1 and unit

    @property
    def range(self) -> tuple[Array, Array]:
        """The bounds as arrays of shape (dimension,)."""
        return np.array(self.low), np.array(self.high)

    def at(self, signals: ArrayLike) -> Array:
        """The sensitivity at every signal: S(s) where there is a scale rule, else l1."""
        if self.scale is not None:
            return self.scale.at(signals)
        return np.full(np.shape(signals), self.l1)

    def total(self, records: int | None = None) -> Statistic:
        """The sum over records, of which one moves: the same norms, between other bounds.

        Parameters
        ----------
        records : int, optional
            How many are added up; without it there are no bounds.
        """
        if records is None:
            return replace(self, low=-math.inf, high=math.inf, mass=None)
        return replace(
            self, low=[records * end for end in self.low], high=[records * end for end in self.high],
            mass=None if self.mass is None else records * self.mass,
        )  # fmt: skip

    def between(self, low: ArrayLike, high: ArrayLike) -> Statistic:
        """The same, between these bounds."""
        return replace(self, low=low, high=high)

    def clip(self, values: ArrayLike) -> Array:
        """Values of shape (..., dimension), or of one component, within the bounds."""
        x = np.asarray(values, dtype=np.float64)
        if self.dimension == 1:
            return np.clip(x, self.low[0], self.high[0])
        return np.clip(x, self.low, self.high)

    def at_least(self, weight: float, times: float = 1.0) -> Statistic:
        """max(times xi, weight): noise that hides a move of either, one at a time.

        Agent i sends sum_j a_ij nu_j + xi_i + noise: a neighbour's estimate that moves by 1 moves it
        by a_ij, its signal by at most l1.

        Parameters
        ----------
        weight : float
            The largest weight of a neighbour.
        times : float
            What the statistic is multiplied by.
        """
        if not (0 <= weight < math.inf and 0 <= times < math.inf):
            raise PrivacyError(
                f"weights must be finite numbers of at least 0; found {weight} and {times}"
            )
        return replace(
            self, l1=max(times * self.l1, weight), l2=None, low=-math.inf, high=math.inf, step=None,
            mass=None, error=self.error * max(times, 1.0),
            scale=None if self.scale is None else self.scale.at_least(weight, times),
        )  # fmt: skip

    def distance(self, released: bool = True) -> Fraction:
        """The l1 norm with what floats may have done to it: raised, and twice the error a coordinate."""
        error = self.error if released else 0.0
        if not math.isfinite(error):
            raise PrivacyError(
                "nothing limits how far a computed value of this statistic is from the true one; "
                "give public bounds"
            )
        return ROUND_UP * Fraction(self.l1) + 2 * self.dimension * Fraction(error)

    def steps(self, step: float | Fraction) -> tuple[int, float]:
        """The l1 and l2 norms in steps of a grid, rounding to it paid for.

        Parameters
        ----------
        step : float
            Of the grid.

        Returns
        -------
        (int, float)
        """
        g, l2 = Fraction(step), float(self.l2 or 0.0) * float(ROUND_UP)
        if self.step is not None and not self.error and (Fraction(self.step) / g).denominator == 1:
            l1 = math.ceil(Fraction(self.l1) / g)
            return l1, min(float(l1), l2 / float(g))
        l1 = math.ceil(self.distance() / g) + self.dimension - 1
        extra = 1 + 2 * Fraction(self.error) / g
        return l1, min(float(l1), l2 / float(g) + math.sqrt(self.dimension) * float(extra))
