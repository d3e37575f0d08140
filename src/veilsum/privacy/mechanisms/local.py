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
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import SignalError
from veilsum.privacy.exact.coins import bernoulli, exp_bracket, uniform_below
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import finite_floats, floor_log2
from veilsum.privacy.mechanisms.base import (
    Array,
    BoundedSignal,
    Mechanism,
    check_bounds,
    check_epsilon,
)

HYBRID_FROM = math.log(
    (-5 + 2 * math.cbrt(6353 - 405 * math.sqrt(241)) + 2 * math.cbrt(6353 + 405 * math.sqrt(241)))
    / 27
)
"""eps*, about 0.61: up to here the two-point mechanism alone is best in the worst case."""

GRID = 40  # bits between half the width and the grid of a two-point release
PIECE = 20  # bits between the width of the centre piece and the grid of a piecewise release
BITS = 128  # precision of the rational constants
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

    def __post_init__(self) -> None:
        """Refuse an epsilon that is not positive or bounds that hold no two values."""
        check_epsilon(self.epsilon)
        check_bounds(self.low, self.high)

    @property
    def domain(self) -> BoundedSignal:
        """[low, high], any two values adjacent."""
        return BoundedSignal(self.low, self.high)

    @property
    def sensitivity(self) -> float:
        """high - low."""
        return self.high - self.low

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


@dataclass(frozen=True)
class DuchiMechanism(LocalMechanism):
    """t -> +C with probability (1 + t/C)/2, else -C,  C = coth(eps/2),  Var = C^2 - t^2.

    E = C (1 + t/C)/2 - C (1 - t/C)/2 = t. The odds of +C go from (1 - 1/C)/2 to (1 + 1/C)/2, a
    ratio of (C + 1)/(C - 1) = e^eps. At t = -1 or 1 it is Warner's randomised response.

    The exact release is M + R or M - R, R the least multiple of the grid with R >= h coth(eps/2), h
    = max |x - M|. P(M + R) = (1 + (x - M)/R)/2, a rational number, so the mean is x (up to rounding
    to a float); the
    ratio between two values is at most (R + h)/(R - h) <= e^eps, for (R + h)/(R - h) falls in R and
    is e^eps at h coth(eps/2).

    Parameters
    ----------
    epsilon
        The privacy loss between any two values.
    low, high
        The public bounds of the value.

    Examples
    --------
    >>> mechanism = DuchiMechanism(epsilon=1.0, low=0.0, high=1.0)
    >>> round(mechanism.worst_variance, 4)
    1.1707
    >>> len(set(mechanism.release([0.3] * 64).tolist())) <= 2
    True
    """

    name: ClassVar[str] = "duchi"
    uniforms: ClassVar[int] = 1

    @property
    def reach(self) -> float:
        """C = (e^eps + 1)/(e^eps - 1)."""
        return 1 / math.tanh(self.epsilon / 2)

    @property
    def exponent(self) -> int:
        """2^-40 of half the width."""
        width = Fraction(self.high) - Fraction(self.low)
        return max(floor_log2(width / 2) - GRID, FEWEST_BITS)

    @cached_property
    def output(self) -> Fraction:
        """R, the least multiple of the grid that is at least h coth(eps/2)."""
        g = Fraction(2) ** self.exponent
        high = Fraction(exp_bracket(Fraction(float(self.epsilon)), BITS)[1], 2**BITS)  # >= e^-eps
        return math.ceil(self.radius * (1 + high) / (1 - high) / g) * g

    def release_variance(self, x: ArrayLike) -> Array:
        """R^2 - (x - M)^2."""
        return np.asarray(float(self.output) ** 2 - (np.asarray(x) - float(self.middle)) ** 2)

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The probabilities of M + R and M - R."""
        up = self._up(Fraction(float(x)))
        return {self.middle + self.output: up, self.middle - self.output: 1 - up}

    def _up(self, x: Fraction) -> Fraction:
        return (1 + (x - self.middle) / self.output) / 2

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        up = bernoulli(self._up(x), entropy)
        return self.middle + self.output if up else self.middle - self.output

    def _variance(self, t: Array) -> Array:
        return self.reach**2 - t**2

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        return np.where(u[0] < (1 + t / self.reach) / 2, self.reach, -self.reach)

    def _loss(self, t: float, u: float) -> float:
        over = 2 / math.expm1(self.epsilon)  # C - 1, exact where C rounds to 1
        up, down = (over + (1 + t)) / (over + (1 + u)), (over + (1 - t)) / (over + (1 - u))
        return max(abs(math.log(up)), abs(math.log(down)))


@dataclass(frozen=True)
class PiecewiseMechanism(LocalMechanism):
    """t -> uniform on [l, l + C - 1] with probability e/(e + 1), else on the rest of [-C, C].

    e = e^{eps/2},  C = (e + 1)/(e - 1),  l = (C + 1) t/2 - (C - 1)/2. The densities near t and
    away from it, p = e (e - 1)/(2 (e + 1)) and p/e^2, do not depend on t: their ratio is e^eps.
    E = t, for the excess mass p (1 - 1/e^2) (C - 1) = (e - 1)/e has its centre at (C + 1) t/2 =
    t e/(e - 1).

    The exact release is one of N grid points around M, N = c + n. A centre piece of c consecutive
    points, at one of n + 1 positions, has weight E for each point, the other n points weight 1, with
    a rational E <= e^eps. The sum of the weights, Z = c E + n, is the same for every position, so
    every probability is E/Z or 1/Z. The position is rounded at random between the two nearest, so
    that the mean is x (up to rounding to a float): a mixture,
    whose probabilities lie between 1/Z and E/Z as well. Any
    two of them have a ratio of at most E <= e^eps. n is the least number for which positions reach
    both bounds: with the centre piece m away from M the mean is (E - 1) c m/Z, and |m| <= n/2.

    Parameters
    ----------
    epsilon
        The privacy loss between any two values.
    low, high
        The public bounds of the value.

    Examples
    --------
    >>> mechanism = PiecewiseMechanism(epsilon=4.0)
    >>> round(mechanism.worst_variance, 4)
    0.2414
    >>> mechanism.release([-1.0, 0.25]).shape
    (2,)
    """

    name: ClassVar[str] = "piecewise"
    uniforms: ClassVar[int] = 2

    @property
    def reach(self) -> float:
        """C = (e^{eps/2} + 1)/(e^{eps/2} - 1)."""
        return 1 / math.tanh(self.epsilon / 4)

    @cached_property
    def exponent(self) -> int:
        """2^-20 of the centre piece's width, (C - 1) (high - low)/2, and of the bounds."""
        width = Fraction(self.high) - Fraction(self.low)
        return max(floor_log2(min(self._piece, width)) - PIECE, FEWEST_BITS)

    @property
    def _piece(self) -> Fraction:
        """About (C - 1) (high - low)/2 = (high - low)/(e^{eps/2} - 1)."""
        over = Fraction(math.expm1(min(float(self.epsilon) / 2, 600.0)))
        return (Fraction(self.high) - Fraction(self.low)) / over

    @cached_property
    def ratio(self) -> Fraction:
        """E, a rational number a little below e^eps."""
        bits = BITS + 2 * math.ceil(self.epsilon)
        return Fraction(2**bits, exp_bracket(Fraction(float(self.epsilon)), bits)[1])

    @cached_property
    def points(self) -> tuple[int, int]:
        """c and n: how many grid points the centre piece has, and how many lie around it.

        h (c E + n) <= (E - 1) c g n/2 for the mean to reach x = M + h; c + n is odd, so that the
        points around M are multiples of g.
        """
        g, h, E = Fraction(2) ** self.exponent, self.radius, self.ratio
        c = max(1, round(self._piece / g), math.floor(2 * h / (g * (E - 1))) + 1)
        n = math.ceil(h * c * E / (g * (E - 1) * c / 2 - h))
        return c, n + (c + n + 1) % 2

    def _position(self, x: Fraction) -> tuple[int, Fraction]:
        """The lower of two positions 0..n of the centre piece, and the chance of the upper one.

        Position k has its centre (k - n/2) g from M.
        """
        (c, n), E = self.points, self.ratio
        m = (x - self.middle) * (c * E + n) / ((E - 1) * c) / Fraction(2) ** self.exponent
        place = min(max(m + Fraction(n, 2), Fraction(0)), Fraction(n))
        lower = min(math.floor(place), n - 1)
        return lower, place - lower

    def _value(self, k: int) -> Fraction:
        """The k-th of the N points, symmetric around M."""
        c, n = self.points
        return self.middle + (k - (c + n - 1) // 2) * Fraction(2) ** self.exponent

    def release_variance(self, x: ArrayLike) -> Array:
        """E (z - M)^2 - (x - M)^2: sums of squares over all points and over the centre piece."""
        (c, n), E, g = self.points, self.ratio, Fraction(2) ** self.exponent
        whole = _squares(c + n)
        found = []
        for value in np.ravel(x):
            y = Fraction(float(value)) - self.middle
            lower, upper = self._position(Fraction(float(value)))
            m = lower - Fraction(n, 2)
            centre = (1 - upper) * m**2 + upper * (m + 1) ** 2
            piece = c * centre + _squares(c)
            found.append(float(g**2 * (whole + (E - 1) * piece) / (c * E + n) - y**2))
        return np.array(found).reshape(np.shape(x))

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The probability of each of the N points."""
        (c, n), E = self.points, self.ratio
        lower, upper = self._position(Fraction(float(x)))
        found = {}
        for k in range(c + n):
            near = (1 - upper) * (lower <= k < lower + c) + upper * (lower < k <= lower + c)
            found[self._value(k)] = (1 + (E - 1) * near) / (c * E + n)
        return found

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        (c, n), E = self.points, self.ratio
        lower, upper = self._position(x)
        start = lower + bernoulli(upper, entropy)
        if bernoulli(c * E / (c * E + n), entropy):
            return self._value(start + uniform_below(c, entropy))
        k = uniform_below(n, entropy)
        return self._value(k if k < start else k + c)

    def _variance(self, t: Array) -> Array:
        over = math.expm1(self.epsilon / 2)
        return t**2 / over + (over + 4) / (3 * over**2)

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        C = self.reach
        left = (C + 1) * t / 2 - (C - 1) / 2
        near = u[0] < 1 / (1 + math.exp(-self.epsilon / 2))
        inside = left + (C - 1) * u[1]
        outside = -C + (C + 1) * u[1]
        outside = np.where(outside < left, outside, outside + (C - 1))
        return np.asarray(np.where(near, inside, outside))

    def _loss(self, t: float, u: float) -> float:
        return 0.0 if t == u else self.epsilon


@dataclass(frozen=True)
class HybridMechanism(LocalMechanism):
    """Piecewise with probability a = 1 - e^{-eps/2} if eps > eps* = 0.61, else Duchi alone.

    The coin does not look at t, so the loss is the larger of the two. Both are unbiased, so
    Var = a Var_piecewise + (1 - a) Var_duchi, linear in t^2 with the slope
    a/(e^{eps/2} - 1) - (1 - a): zero at this a. For given t^2 it is linear in a, so the least
    worst case is at a = 0, at this kink or at 1; a = 0 wins up to eps*. The exact release tosses a
    coin of the rational probability that the float a is, and then releases exactly with either.

    Parameters
    ----------
    epsilon
        The privacy loss between any two values.
    low, high
        The public bounds of the value.

    Examples
    --------
    >>> hybrid = HybridMechanism(epsilon=1.0, low=0.0, high=1.0)
    >>> round(2 / 1.0**2 / hybrid.worst_variance, 2)  # Laplace's variance over it
    1.87
    """

    name: ClassVar[str] = "hybrid"
    uniforms: ClassVar[int] = 3

    @property
    def piecewise_probability(self) -> float:
        """a, the probability of the piecewise mechanism."""
        return -math.expm1(-self.epsilon / 2) if self.epsilon > HYBRID_FROM else 0.0

    @property
    def reach(self) -> float:
        """The larger reach of those in use."""
        piecewise, duchi = self.parts
        return max(piecewise.reach, duchi.reach) if self.piecewise_probability else duchi.reach

    @cached_property
    def parts(self) -> tuple[PiecewiseMechanism, DuchiMechanism]:
        """The two mechanisms."""
        bounds = (self.epsilon, self.low, self.high)
        return PiecewiseMechanism(*bounds), DuchiMechanism(*bounds)

    @property
    def exponent(self) -> int:
        """The finer grid of those in use."""
        piecewise, duchi = self.parts
        if not self.piecewise_probability:
            return duchi.exponent
        return min(piecewise.exponent, duchi.exponent)

    def release_variance(self, x: ArrayLike) -> Array:
        """a Var_piecewise + (1 - a) Var_duchi, of their releases."""
        (piecewise, duchi), a = self.parts, self.piecewise_probability
        return a * piecewise.release_variance(x) + (1 - a) * duchi.release_variance(x)

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The mixture."""
        a, found = Fraction(self.piecewise_probability), dict[Fraction, Fraction]()
        for part, weight in zip(self.parts, (a, 1 - a), strict=True):
            if weight:
                for value, p in part.pmf(x).items():
                    found[value] = found.get(value, Fraction(0)) + weight * p
        return found

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        piecewise, duchi = self.parts
        first = bernoulli(Fraction(self.piecewise_probability), entropy)
        return piecewise._draw(x, entropy) if first else duchi._draw(x, entropy)

    def _variance(self, t: Array) -> Array:
        (piecewise, duchi), a = self.parts, self.piecewise_probability
        return a * piecewise._variance(t) + (1 - a) * duchi._variance(t)

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        piecewise, duchi = self.parts
        first = u[0] < self.piecewise_probability
        return np.where(first, piecewise._from_uniforms(t, u[1:]), duchi._from_uniforms(t, u[1:2]))

    def _loss(self, t: float, u: float) -> float:
        piecewise, duchi = self.parts
        near = piecewise._loss(t, u) if self.piecewise_probability else 0.0
        return max(near, duchi._loss(t, u))


def _squares(count: int) -> Fraction:
    """sum of (k - (count - 1)/2)^2 over k = 0..count - 1."""
    return Fraction(count * (count**2 - 1), 12)
