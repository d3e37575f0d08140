"""Local mechanisms for a bounded value, where any two values of [low, high] are adjacent.

All map x to [-1, 1], t = (2x - low - high)/(high - low), release an unbiased number for t of a
bounded distribution, and map back: the variance is (high - low)^2/4 times that for t.

    two-point (Duchi, Jordan and Wainwright 2018)   Var = C^2 - t^2,              C = coth(eps/2)
    piecewise (Wang et al. 2019)                    Var = t^2/(e^{eps/2} - 1) + (e^{eps/2} + 3)
                                                          / (3 (e^{eps/2} - 1)^2)
    hybrid (Wang et al. 2019)                       a coin between the two: the worst case is best

The exact releases lie on a grid of a power of two. All their probabilities are rational, because
the constants of the mechanism (its reach, the ratio e^eps) are replaced by rational ones on the safe
side; so every draw is a comparison of integers, the guarantee holds exactly, and the mean of a
draw is exactly x, a float being the fraction that it is. The proofs are in the classes. `release`
returns the draw rounded to a float: post-processing, which moves the mean by up to that rounding.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import LARGEST, finite_floats
from veilsum.privacy.mechanisms.base import (
    Array,
    Mechanism,
    Pair,
    check_bounds,
    check_epsilon,
    computable,
)
from veilsum.privacy.noise_quantile import bounded_and_normal

LAST_DIGITS = 1e-9  # of the width
FEWEST_BITS = -1022  # of the exponent of a grid: outputs stay normal floats


@dataclass(frozen=True)
class LocalMechanism(Mechanism):
    """An unbiased release of a value of [low, high]; any two values are adjacent.

    Parameters
    ----------
    epsilon
        The privacy loss between any two values.
    low, high
        The public bounds of the value.
    """

    low: float = -1.0
    high: float = 1.0

    scalar: ClassVar[bool] = True
    adds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse an epsilon that is not positive or bounds that hold no two values."""
        check_epsilon(self.epsilon)
        check_bounds(self.low, self.high)
        if not abs(self.low) + abs(self.high) + self.reach * self.half_width < LARGEST / 4:
            raise PrivacyError(
                f"outputs for bounds ({self.low:g}, {self.high:g}) at epsilon {self.epsilon:g} are "
                "beyond what a float can hold; narrow the bounds, or raise epsilon"
            )

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """For one number between public bounds, at an epsilon whose exponential is computed."""
        why = super().misfit(statistic, epsilon, delta) or computable(epsilon)
        if not why and not statistic.bounded:
            return "needs a statistic between public bounds; give the family bounds=(low, high)"
        return why

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Self:
        return cls(epsilon, statistic.low[0], statistic.high[0])

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """Between -1 and 1, and between other bounds."""
        return cls(1.0), cls(1.0, 0.25, 3.0)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Both ends, and the middle against either."""
        middle = (self.low + self.high) / 2
        return (self.low, self.high), (self.low, middle), (middle, self.high)

    def variance_over(self, statistic: Statistic) -> float:
        """The worst over the values: at an end, or at the one nearest the middle."""
        middle = (self.low + self.high) / 2
        whole = [v for v in (math.floor(middle), math.ceil(middle)) if self.low <= v <= self.high]
        return float(self.variance([self.high, *(whole if statistic.whole else [middle])]).max())

    def clip(self, x: ArrayLike) -> Array:
        """Within [low, high], where only a last digit was missing: what is further out is refused."""
        values = np.asarray(x, dtype=np.float64)
        inside = np.clip(values, self.low, self.high)
        return np.where(np.abs(values - inside) <= LAST_DIGITS * self.sensitivity, inside, values)

    def sum_quantile(
        self, weights: Array, times: Array, confidence: float, normal_variance: float = 0.0
    ) -> float:
        """Bernstein's inequality."""
        return bounded_and_normal(
            (self.reach + 1) * self.half_width, self.worst_variance, weights, times, confidence,
            normal_variance, self.lattice,
        )  # fmt: skip

    @property
    def sensitivity(self) -> float:
        """high - low."""
        return self.high - self.low

    @property
    def lattice(self) -> float:
        """How far apart outputs are, where there are so few that an interval must know; 0 elsewhere."""
        return 0.0

    @property
    def half_width(self) -> float:
        """(high - low)/2, what one unit of t is worth."""
        return (self.high - self.low) / 2

    @property
    @abstractmethod
    def reach(self) -> float:
        """C, the largest output for t in [-1, 1]."""

    @property
    def worst_variance(self) -> float:
        """The variance is linear in t^2, so the worst is at the middle or at an end."""
        ends = np.array([(self.low + self.high) / 2, self.high])
        return float(self.variance(ends).max())

    def variance(self, x: ArrayLike) -> Array:
        """(half width)^2 times the variance for t."""
        return self.half_width**2 * self._variance(self._unit(x))

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """The output for t, mapped back."""
        middle = (self.low + self.high) / 2
        return middle + self.half_width * self._from_uniforms(self._unit(x), u)

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """One exact draw for each value, a multiple of 2^exponent: a new release each time."""
        checked(entropy)
        array = finite_floats(values)
        self._unit(array)  # refuses what is outside
        drawn = [float(self._draw(Fraction(float(x)), entropy)) for x in array.ravel()]
        return np.array(drawn, dtype=np.float64).reshape(array.shape)

    def privacy_loss(self, x: float, other: float) -> float:
        """sup_z |log P(z | x) - log P(z | x')|, at most eps for any two values."""
        t, u = self._unit([x, other])
        return self._loss(float(t), float(u))

    @property
    @abstractmethod
    def exponent(self) -> int:
        """Every release is a multiple of 2^exponent."""

    @cached_property
    def middle(self) -> Fraction:
        """M: the multiple of 2^exponent nearest to the middle of the bounds."""
        g = Fraction(2) ** self.exponent
        return round((Fraction(self.low) + Fraction(self.high)) / (2 * g)) * g

    @cached_property
    def radius(self) -> Fraction:
        """h = max(high - M, M - low): |x - M| <= h for all values."""
        return max(Fraction(self.high) - self.middle, self.middle - Fraction(self.low))

    def _unit(self, x: ArrayLike) -> Array:
        values = np.asarray(x, dtype=np.float64)
        outside = ~((values >= self.low) & (values <= self.high))
        if outside.any():
            first = tuple(int(k) for k in np.argwhere(outside)[0])
            raise SignalError(
                f"{int(outside.sum())} of {outside.size} values lie outside [{self.low}, "
                f"{self.high}], the first at index {first}; clip them first"
            )
        return (values - (self.low + self.high) / 2) / self.half_width

    @abstractmethod
    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The exact probability of every output of `release(x)`: for tests on coarse grids."""

    @abstractmethod
    def _variance(self, t: Array) -> Array: ...

    @abstractmethod
    def _from_uniforms(self, t: Array, u: Array) -> Array: ...

    @abstractmethod
    def _loss(self, t: float, u: float) -> float: ...

    @abstractmethod
    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction: ...
