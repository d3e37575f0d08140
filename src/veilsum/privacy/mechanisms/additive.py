"""Additive noise: release(x) = x + noise, for a fixed sensitivity.

    LaplaceMechanism             density ~ e^{-|z| eps/Delta}: any statistic, scalar or vector
    DiscreteLaplaceMechanism     the same on the integers: less variance, nothing is rounded
    StaircaseMechanism           the least variance among all additive noise, for one number

The exact releases of real statistics lie on a grid g = 2^exponent:

    released = from_grid(to_grid(x) + X),    X on the integers, drawn exactly.

Proof. Let x and x' be adjacent, ||x - x'||_1 <= Delta. On the grid they lie at most `steps` apart
(`exact.grid`), and P(X = k - to_grid(x)) changes by at most e^eps between integers `steps` apart.
For Laplace noise, P(X = k) ~ exp(-|k|/t) with t = steps/eps, so each vector k of grid points has

    P(k | x)/P(k | x') = prod_c exp((|k_c - x'_c| - |k_c - x_c|)/t) <= exp(steps/t) = exp(eps)

by the triangle inequality; for the staircase, |k| and |k'| that differ by at most `steps` lie on
the same stair or on two consecutive ones. X has exactly that distribution (`exact.discrete`,
`exact.coins`), t is a fraction and no float, and what follows is a function of k, the same for
every input. No step of this is approximate.

Floats are taken as the fractions that they are. A sensitivity is itself the result of
floating-point work and may have come out low, so it is raised by a factor 1 + 2^-50 (four units in
its last place). If the statistic was computed with an absolute error, say log s within
`input_error`, two neighbours may be 2 input_error further apart in each coordinate, and the noise
covers this as well.

Not covered: how long a release takes (numbers beyond 2^61 grid steps take a slower path).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy.accounting.events import DISCRETE_LAPLACE, LAPLACE, PrivacyEvent
from veilsum.privacy.exact.coins import WeightCoin, uniform_below
from veilsum.privacy.exact.discrete import DiscreteLaplace, Integers, integers
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked, octets
from veilsum.privacy.exact.grid import (
    finite_floats,
    floor_log2,
    from_grid,
    paid_steps,
    saturate,
    to_grid,
    whole_numbers,
)
from veilsum.privacy.mechanisms.base import (
    Array,
    Domain,
    IntegerStatistic,
    Mechanism,
    RealStatistic,
    check_epsilon,
)

ROUND_UP = 1 + Fraction(1, 2**50)
FINEST = -1074  # exponent of the smallest float
LARGEST_LOG2 = 960  # of a scale: the noise must remain a float


@dataclass(frozen=True)
class AdditiveMechanism(Mechanism):
    """release(x) = x + noise, symmetric, of a distribution that does not depend on x.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent statistics.
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals.
    dimension
        How many coordinates of the statistic one signal moves.
    input_error
        How far, at most, a coordinate of the computed statistic is from the true one.
    """

    sensitivity: float
    dimension: int = 1
    input_error: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that no noise can serve."""
        _validate.positive(PrivacyError, epsilon=self.epsilon, sensitivity=self.sensitivity)
        _validate.at_least(PrivacyError, 1, dimension=self.dimension)
        if not 0 <= self.input_error < math.inf:
            raise PrivacyError(
                f"input_error must be a finite number of at least 0; found {self.input_error}"
            )

    @property
    def domain(self) -> Domain:
        """A real statistic of this sensitivity."""
        return RealStatistic(self.sensitivity)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws of the noise, in floating point."""
        return self.sample(np.zeros(shape), rng)

    @abstractmethod
    def log_density(self, noise: ArrayLike) -> Array:
        """The log density (or log probability) of the noise."""

    @abstractmethod
    def cdf(self, noise: ArrayLike) -> Array:
        """P(noise <= z)."""

    def variance(self, x: ArrayLike) -> Array:
        """The same for every x."""
        return np.full(np.shape(x), self.worst_variance)

    def privacy_loss(self, x: float, other: float) -> float:
        """eps |x - x'|/sensitivity, for noise whose log density falls at a constant rate."""
        return self.epsilon * abs(x - other) / self.sensitivity


@dataclass(frozen=True)
class GridMechanism(AdditiveMechanism):
    """Additive noise for real statistics, released on a grid of a power of two.

    The granularity is about scale/2^40, and at most sensitivity/2^20, so rounding raises the scale
    by less than dimension parts in 2^19.
    """

    def __post_init__(self) -> None:
        """Check every number, and that floats can hold the noise."""
        super().__post_init__()
        if floor_log2(self.distance / Fraction(float(self.epsilon))) > LARGEST_LOG2:
            raise PrivacyError(
                f"sensitivity {self.sensitivity:g} at epsilon {self.epsilon:g} needs noise beyond "
                "what a float can hold; bound the signals, or raise epsilon"
            )

    @cached_property
    def distance(self) -> Fraction:
        """(1 + 2^-50) Delta + 2 dimension input_error: how far apart neighbours can be."""
        error = 2 * int(self.dimension) * Fraction(float(self.input_error))
        return ROUND_UP * Fraction(float(self.sensitivity)) + error

    @cached_property
    def exponent(self) -> int:
        """The granularity is 2^exponent."""
        scale = self.distance / Fraction(float(self.epsilon))
        wanted = min(floor_log2(scale) - 40, floor_log2(self.distance) - 20)
        return max(wanted, FINEST)

    @property
    def granularity(self) -> float:
        """g = 2^exponent: every release is a multiple of it."""
        return math.ldexp(1.0, self.exponent)

    @cached_property
    def steps(self) -> int:
        """How many grid steps apart two neighbours can be, rounding included."""
        return paid_steps(self.distance / Fraction(2) ** self.exponent, int(self.dimension))

    @abstractmethod
    def _draw(self, count: int, entropy: Entropy) -> Integers:
        """X in grid steps, drawn exactly."""

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """from_grid(to_grid(x) + X) for each value: a new release each time it is called."""
        checked(entropy)
        array = finite_floats(values)
        points = to_grid(array.ravel(), self.exponent)
        released = from_grid(points + self._draw(points.size, entropy), self.exponent)
        return released.reshape(array.shape)

    def release_sum(self, rows: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """from_grid(sum_k to_grid(x_k) + X), of several statistics that are released as one.

        Each row goes to the grid by itself and the sum is one of integers, so a row that moves
        within the sensitivity moves the sum by at most `steps`: it is as protected as if it were
        released alone.
        """
        checked(entropy)
        array = finite_floats(rows)
        points = np.array([to_grid(row, self.exponent) for row in array], dtype=object).sum(axis=0)
        return from_grid(points + self._draw(points.size, entropy), self.exponent)


@dataclass(frozen=True)
class LaplaceMechanism(GridMechanism):
    """density(z) = e^{-|z|/b}/(2b),  b = sensitivity/eps,  Var = 2 b^2.

    |z - x| changes by at most |x - x'| <= sensitivity, so the log density changes by at most
    sensitivity/b = eps (Th. 1 and 2 of the paper). All losses are attained, in the tails. The exact
    release draws discrete Laplace noise of scale steps/eps in grid steps (see the module).

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent statistics.
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals.
    dimension
        How many coordinates of the statistic one signal moves.
    input_error
        How far, at most, a coordinate of the computed statistic is from the true one.

    Examples
    --------
    >>> mechanism = LaplaceMechanism(epsilon=0.5, sensitivity=1.0)
    >>> mechanism.scale, mechanism.worst_variance
    (2.0, 8.0)
    >>> mechanism.release([1.0, 2.0]).shape
    (2,)
    """

    name: ClassVar[str] = "laplace"
    uniforms: ClassVar[int] = 1

    @property
    def scale(self) -> float:
        """b = sensitivity/eps."""
        return self.sensitivity / self.epsilon

    @property
    def worst_variance(self) -> float:
        """2 b^2."""
        return 2 * self.scale**2

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """x + Lap(b). Simulation only."""
        x = np.asarray(values, dtype=np.float64)
        return x + rng.laplace(0.0, self.scale, x.shape)

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + b sign(u - 1/2) (-log(1 - |2u - 1|))."""
        centred = 2 * u[0] - 1
        return np.asarray(x - self.scale * np.sign(centred) * np.log1p(-np.abs(centred)))

    def log_density(self, noise: ArrayLike) -> Array:
        """-|z|/b - log 2b."""
        return np.asarray(-np.abs(noise) / self.scale - math.log(2 * self.scale))

    def cdf(self, noise: ArrayLike) -> Array:
        """e^{z/b}/2 below 0, 1 - e^{-z/b}/2 above."""
        z = np.asarray(noise, dtype=np.float64) / self.scale
        half = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, half, 1 - half)

    @cached_property
    def discrete(self) -> DiscreteLaplace:
        """The noise of a release in grid steps, of scale steps/eps."""
        return DiscreteLaplace(self.steps / Fraction(float(self.epsilon)))

    @property
    def release_scale(self) -> float:
        """g steps/eps, the scale of a release's noise, as a float that is never below it."""
        return rounded_up(self.discrete.scale * Fraction(2) ** self.exponent)

    def release_variance(self, x: ArrayLike) -> Array:
        """g^2 2r/(1 - r)^2, about 2 b^2."""
        found = (self.granularity * math.sqrt(self.discrete.variance)) ** 2
        return np.full(np.shape(x), found)

    @property
    def release_reason(self) -> str:
        """Why the guarantee of a release holds, as the end of a sentence."""
        return (
            f"the noise is discrete Laplace of scale {self.release_scale:.6g} on multiples of "
            f"2^{self.exponent}, drawn exactly from the operating system's entropy, and rounding "
            "to that grid is paid for in the scale"
        )

    def _draw(self, count: int, entropy: Entropy) -> Integers:
        return self.discrete.draw(count, entropy)

    def event(self, released: bool = False) -> PrivacyEvent:
        """Laplace noise on a fixed sensitivity; of a release, discrete Laplace over `steps`."""
        if released:
            return PrivacyEvent(self.epsilon, mechanism=DISCRETE_LAPLACE, parameter=self.steps)
        return PrivacyEvent(self.epsilon, mechanism=LAPLACE)


@dataclass(frozen=True)
class DiscreteLaplaceMechanism(AdditiveMechanism):
    """P(k) = (1 - q)/(1 + q) q^|k|,  q = e^{-eps/sensitivity},  Var = 2 q/(1 - q)^2.

    For whole numbers that move by a whole `sensitivity`. P(k - x)/P(k - x') is at most
    q^{-|x - x'|} = e^{eps |x - x'|/sensitivity} <= e^eps. For sensitivity 1 no mechanism at all
    is better (Ghosh, Roughgarden and Sundararajan 2009). The variance is below Laplace's 2 b^2,
    for q/(1 - q)^2 = 1/(4 sinh^2(1/(2b))) <= b^2.

    The grid of a release is the integers, so nothing is rounded and eps is spent to the last bit. A
    release beyond 64 bits becomes the largest integer of its sign, which is post-processing.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent statistics.
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals, a whole number.
    dimension
        How many coordinates of the statistic one signal moves.
    input_error
        Must be 0: whole numbers are exact.

    Examples
    --------
    >>> mechanism = DiscreteLaplaceMechanism(epsilon=1.0, sensitivity=1)
    >>> round(mechanism.worst_variance, 4)
    1.8413
    >>> mechanism.release([3, 5]).dtype
    dtype('int64')
    """

    sensitivity: float = 1

    name: ClassVar[str] = "discrete-laplace"
    uniforms: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not a whole number."""
        super().__post_init__()
        if self.sensitivity != round(self.sensitivity):
            raise PrivacyError(
                "the sensitivity of an integer statistic must be a whole number; "
                f"found {self.sensitivity}; round it up to {math.ceil(self.sensitivity)}"
            )
        if self.input_error:
            raise PrivacyError("a whole number has no input error")

    @property
    def domain(self) -> Domain:
        """A whole-number statistic of this sensitivity."""
        return IntegerStatistic(int(self.sensitivity))

    @property
    def exponent(self) -> int:
        """0: the integers."""
        return 0

    @property
    def granularity(self) -> float:
        """1: the integers."""
        return 1.0

    @property
    def q(self) -> float:
        """e^{-eps/sensitivity}."""
        return math.exp(-self.epsilon / self.sensitivity)

    @property
    def scale(self) -> float:
        """Delta/eps, as a float that is never below it."""
        return rounded_up(self.discrete.scale)

    @property
    def worst_variance(self) -> float:
        """2 q/(1 - q)^2 = 1/(2 sinh^2(eps/(2 sensitivity)))."""
        half = self.epsilon / (2 * self.sensitivity)
        return 2 * (math.exp(-half) / -math.expm1(-2 * half)) ** 2

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + G - G' for whole x, two geometric draws floor(log u/log q).

        Other x would show through the noise, and are refused.
        """
        broken = ~(x == np.round(x))
        if broken.any():
            first = tuple(int(k) for k in np.argwhere(broken)[0])
            raise SignalError(
                f"{int(broken.sum())} of {x.size} values are not whole numbers, the first at "
                f"index {first}; use LaplaceMechanism or StaircaseMechanism"
            )
        rate = self.epsilon / self.sensitivity
        one, other = np.floor(-np.log1p(-u) / rate)
        return np.asarray(x + one - other)

    def log_density(self, noise: ArrayLike) -> Array:
        """log P(k) on whole numbers, -inf elsewhere."""
        k = np.asarray(noise, dtype=np.float64)
        rate = self.epsilon / self.sensitivity
        return np.where(k == np.round(k), math.log(math.tanh(rate / 2)) - rate * np.abs(k), -np.inf)

    def cdf(self, noise: ArrayLike) -> Array:
        """q^{-k}/(1 + q) for k = floor(z) below 0, 1 - q^{k+1}/(1 + q) from 0 on."""
        k = np.floor(np.asarray(noise, dtype=np.float64))
        rate = self.epsilon / self.sensitivity
        below = np.exp(rate * np.minimum(k, 0)) / (1 + self.q)
        above = 1 - np.exp(-rate * (np.maximum(k, 0) + 1)) / (1 + self.q)
        return np.where(k < 0, below, above)

    @cached_property
    def discrete(self) -> DiscreteLaplace:
        """The noise of a release, of scale Delta/eps."""
        return DiscreteLaplace(int(self.sensitivity) / Fraction(float(self.epsilon)))

    @property
    def release_reason(self) -> str:
        """Why the guarantee of a release holds, as the end of a sentence."""
        return (
            f"the noise is discrete Laplace of scale {self.scale:.6g} on the integers, drawn "
            "exactly from the operating system's entropy"
        )

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """x + X for each whole number x: a new release each time it is called."""
        checked(entropy)
        points = whole_numbers(values)
        released: NDArray[Any] = saturate(points + self.discrete.draw(points.size, entropy))
        return released.reshape(np.shape(values))

    def release_sum(self, rows: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """sum_k x_k + X, of several whole-number statistics that are released as one."""
        checked(entropy)
        whole = whole_numbers(rows).astype(object).reshape(np.shape(rows))
        points = whole.sum(axis=0)
        return saturate(points + self.discrete.draw(points.size, entropy))

    def event(self, released: bool = False) -> PrivacyEvent:  # noqa: ARG002 - the same distribution
        """Discrete Laplace on a grid of which the sensitivity is so many steps."""
        return PrivacyEvent(
            self.epsilon, mechanism=DISCRETE_LAPLACE, parameter=int(self.sensitivity)
        )


@dataclass(frozen=True)
class StaircaseMechanism(GridMechanism):
    """The least variance among additive noise for one number (Geng and Viswanath 2014).

    With b = e^{-eps} and a step width g in (0, 1), in units of Delta,

        density(z) = a b^k        for k <= |z| < k + g,           k = 0, 1, 2, ...
        density(z) = a b^{k+1}    for k + g <= |z| < k + 1,       a = (1 - b)/(2 (g + b (1 - g)))

    A stair falls by e^{-eps} once in every Delta: any two points at most Delta apart lie on the same
    step or on two consecutive ones, so the density changes by at most e^eps. For large eps the
    variance is about Delta^2 (b/2)^{2/3}, exponentially below Laplace's 2 Delta^2/eps^2; for small
    eps the two agree.

    The exact release has the same stairs on the grid: with D = `steps` and G = the points of the
    upper stair, |X| = D q + r has weight b^{q + [r >= G]}. q is geometric of ratio b, independent of
    r; the upper stair has the probability G/(G + (D - G) b), an exact coin; r is uniform on its
    stair; the sign is fair, with -0 refused.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent statistics.
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals.
    dimension
        Must be 1.
    input_error
        How far, at most, a coordinate of the computed statistic is from the true one.

    Examples
    --------
    >>> mechanism = StaircaseMechanism(epsilon=4.0, sensitivity=1.0)
    >>> round(mechanism.worst_variance / (2 / 4.0**2), 2)  # over Laplace's
    0.52
    """

    name: ClassVar[str] = "staircase"
    uniforms: ClassVar[int] = 4
    scalar: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a vector: coordinates that move by fractions of Delta would each cost epsilon."""
        super().__post_init__()
        check_epsilon(self.epsilon)
        if self.dimension != 1:
            raise PrivacyError("staircase noise is for one number; use laplace for a vector")

    @property
    def width(self) -> float:
        """g = ((b (1 + b)/2)^{1/3} - b)/(1 - b), between 0 and 1/2.

        It is the published -b/(1-b) + (b - 2b^2 + 2b^4 - b^5)^{1/3}/(2^{1/3} (1-b)^2), for
        b - 2b^2 + 2b^4 - b^5 = b (1 - b)^3 (1 + b); written with expm1 so that small eps is safe.
        """
        p = -math.expm1(-self.epsilon)
        rise = (math.log1p(-p / 2) + 2 * self.epsilon) / 3  # b e^rise = (b (1 + b)/2)^{1/3}
        if self.epsilon > 1:
            return (math.exp(rise - self.epsilon) - math.exp(-self.epsilon)) / p
        return min(math.exp(-self.epsilon) * math.expm1(rise) / p, 0.5)

    @property
    def worst_variance(self) -> float:
        """Delta^2 variance(g, eps) at the best g: Delta^2 ((b (1+b)/2)^{2/3} + b)/(1 - b)^2."""
        return self.sensitivity**2 * staircase_variance(self.width, self.epsilon)

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + Delta sign (k + (upper stair: g U; lower stair: g + (1 - g) U)), k geometric."""
        g, b = self.width, math.exp(-self.epsilon)
        k = np.floor(-np.log1p(-u[0]) / self.epsilon)
        upper = u[1] < g / (g + b * (1 - g))
        size = k + np.where(upper, g * u[2], g + (1 - g) * u[2])
        return np.asarray(x + self.sensitivity * np.where(u[3] < 0.5, size, -size))

    def log_density(self, noise: ArrayLike) -> Array:
        """log a - eps (number of stairs below the top), per unit of z."""
        z = np.abs(np.asarray(noise, dtype=np.float64)) / self.sensitivity
        stairs = np.floor(z) + (z - np.floor(z) >= self.width)
        return np.asarray(math.log(self._top / self.sensitivity) - self.epsilon * stairs)

    def cdf(self, noise: ArrayLike) -> Array:
        """1/2 + sign(z) P(0 < noise <= |z|)."""
        signed = np.asarray(noise, dtype=np.float64) / self.sensitivity
        z, g, b = np.abs(signed), self.width, math.exp(-self.epsilon)
        k = np.floor(z)
        part = np.minimum(z - k, g) + b * np.maximum(z - k - g, 0)
        beyond = np.exp(-self.epsilon * k) * (0.5 - self._top * part)
        return np.asarray(np.where(signed < 0, beyond, 1 - beyond))

    def privacy_loss(self, x: float, other: float) -> float:
        """eps ceil(|x - x'|/Delta): even a small move can cross a stair."""
        return self.epsilon * math.ceil(abs(x - other) / self.sensitivity)

    @property
    def upper_steps(self) -> int:
        """G, how many of the D grid points of a stair pair lie on the upper stair."""
        return min(max(1, round(self.width * self.steps)), self.steps - 1)

    def release_variance(self, x: ArrayLike) -> Array:
        """g^2 sum k^2 P(X = k): sums of squares over the two stairs, by closed forms."""
        D, G, eps = self.steps, self.upper_steps, self.epsilon
        b, p = math.exp(-eps), -math.expm1(-eps)
        mass = Fraction(b) * (D - G) + G  # sum of the weights of r
        first = (Fraction(_sum(G, 1)) + Fraction(b) * (_sum(D, 1) - _sum(G, 1))) / mass
        second = (Fraction(_sum(G, 2)) + Fraction(b) * (_sum(D, 2) - _sum(G, 2))) / mass
        q1, q2 = b / p, b * (1 + b) / p**2  # E q, E q^2
        squares = float(D * D) * q2 + 2 * D * q1 * float(first) + float(second)
        zero = p / float(mass)  # P(|X| = 0) before -0 is refused
        found = squares / (1 - zero / 2) * self.granularity**2
        return np.full(np.shape(x), found)

    def _draw(self, count: int, entropy: Entropy) -> Integers:
        """+-(D q + r) with -0 refused."""
        D, G = self.steps, self.upper_steps
        gamma = Fraction(float(self.epsilon))
        stairs, coin = DiscreteLaplace(1 / gamma), WeightCoin(gamma, G, D - G)
        found: list[int] = []
        while len(found) < count:
            block = count - len(found)
            quotients = stairs.geometric(block, entropy).tolist()
            signs = (octets(entropy, block) >= 128).tolist()
            for q, negative in zip(quotients, signs, strict=True):
                upper = coin.toss(entropy)
                r = uniform_below(G, entropy) if upper else G + uniform_below(D - G, entropy)
                size = D * q + r
                if size or not negative:
                    found.append(-size if negative else size)
        return integers(found)

    @property
    def _top(self) -> float:
        g, b = self.width, math.exp(-self.epsilon)
        return -math.expm1(-self.epsilon) / (2 * (g + b * (1 - g)))


def staircase_variance(width: float, epsilon: float) -> float:
    """Var/Delta^2 = b(1+b)/(1-b)^2 + (b/(1-b) (g^2 + b(1-g^2)) + (g^3 + b(1-g^3))/3)/(g + b(1-g)).

    Sum z^2 over stairs: the integral over [k, k+g] is k^2 g + k g^2 + g^3/3, over [k+g, k+1] it is
    k^2 (1-g) + k (1-g^2) + (1-g^3)/3; then sum b^k = 1/(1-b), sum k b^k = b/(1-b)^2 and
    sum k^2 b^k = b(1+b)/(1-b)^3.

    Parameters
    ----------
    width
        g, the width of the upper stair, in units of Delta, between 0 and 1.
    epsilon
        The privacy loss; b = e^{-epsilon}.

    Returns
    -------
    float
        The variance of staircase noise in units of Delta^2.

    Examples
    --------
    >>> round(staircase_variance(0.3, 1.0), 3)
    1.933
    """
    g, b, p = width, math.exp(-epsilon), -math.expm1(-epsilon)
    first = b / p * (g**2 + b * (1 - g**2))
    second = (g**3 + b * (1 - g**3)) / 3
    return b * (1 + b) / p**2 + (first + second) / (g + b * (1 - g))


def rounded_up(exact: Fraction) -> float:
    """The least float that is not below a fraction, or the next one."""
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def _sum(n: int, power: int) -> int:
    """0 + 1 + ... + (n - 1), or the sum of their squares."""
    return n * (n - 1) // 2 if power == 1 else (n - 1) * n * (2 * n - 1) // 6
