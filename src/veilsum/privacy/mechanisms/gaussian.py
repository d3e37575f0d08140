"""Gaussian noise, by the l2 norm of a move: (epsilon, delta), for vectors and sums of them.

    release(x) = x + N(0, sigma^2) on every coordinate,    sigma = z D2,    D2 >= ||x - x'||_2

Cost. N(x, sigma^2 I) and N(x', sigma^2 I) have the Renyi divergence alpha/(2 z^2) at every order (zCDP
with rho = 1/(2 z^2)), and z is the least that gives (epsilon, delta) by it (`cost`). Divergences of
releases add up: k of them are one with z/sqrt(k). m readings that move together are one with z/m.

Exact release. On the grid X is discrete Gaussian, P(X = k) proportional to exp(-k^2/(2 s^2)), and for
every shift by whole numbers, D2 steps long, the divergence is at most alpha D2^2/(2 s^2) as well (Canonne,
Kamath and Steinke 2020, theorem 14: the sum over k of exp(-(k - mu)^2/(2 s^2)) is largest at whole mu). So
s = z times the l2 steps, rounding paid, costs what the ideal noise costs. A draw is theirs too (algorithm
3): Y discrete Laplace of scale t = floor(s) + 1, kept with probability exp(-(|Y| - s^2/t)^2/(2 s^2)).
Fractions and bits of the operating system, nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import (
    LEAST_EPSILON,
    EventKind,
    Parameter,
    PrivacyEvent,
)
from veilsum.privacy.exact.coins import bernoulli_exp
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import Integers, integers
from veilsum.privacy.laws import DiscreteLaplace, Law
from veilsum.privacy.laws.base import ERROR, Floats
from veilsum.privacy.mechanisms.additive import GridMechanism
from veilsum.privacy.mechanisms.base import Array, Mechanism

GAUSSIAN = "gaussian"
NORMAL = NormalDist()


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """X on the integers with P(X = k) proportional to exp(-k^2/(2 v)).

    Parameters
    ----------
    variance : Fraction
        v, in grid steps squared; the variance itself is never more.
    """

    variance: Fraction

    name: ClassVar[str] = "Gaussian"

    @property
    def _sd(self) -> float:
        return math.sqrt(self.variance)

    def part(self, beta: Fraction) -> Law:
        """The law itself for all of it: sums of discrete Gaussian draws are of another law."""
        if beta != 1:
            raise PrivacyError("discrete Gaussian draws do not add up to one; use Skellam noise")
        return self

    def summed(self, draws: Fraction) -> Law:
        """The law of that much variance, which the sum is close to: within e^(-pi^2 v) a draw, about."""
        return DiscreteGaussian(self.variance * Fraction(draws))

    def shrunk(self, fraction: float) -> Self:
        """The same law with that fraction of its deviation."""
        return replace(self, variance=self.variance * Fraction(fraction) ** 2)

    def draw(self, count: int, entropy: Entropy = SYSTEM) -> Integers:
        """Draw exactly: proposals of the discrete Laplace, thinned."""
        checked(entropy)
        t = math.isqrt(math.floor(self.variance)) + 1
        proposals, found = DiscreteLaplace(Fraction(t)), list[int]()
        while len(found) < count:
            for y in proposals.draw(2 * (count - len(found)), entropy).tolist():
                gap = abs(y) - self.variance / t
                if bernoulli_exp(gap * gap / (2 * self.variance), entropy):
                    found.append(y)
        return integers(found[:count])

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """A rounded normal draw."""
        return np.rint(rng.normal(0.0, self._sd, size)).astype(np.int64)

    def epsilon(self, l1: int, l2: float, dimension: int = 1, delta: float = 0.0) -> float:
        """By its divergence."""
        return cost(self._sd / l2, delta)

    def event(
        self, epsilon: float, l1: int, l2: float, dimension: int, delta: float
    ) -> PrivacyEvent:
        """With the multiplier."""
        return PrivacyEvent(epsilon, delta, GAUSSIAN, self._sd / l2)

    def log_characteristic(self, u: Floats) -> Floats:
        """log of sum_j exp(-v (u + 2 pi j)^2/2) over its value at 0 (Poisson's summation)."""
        reach = math.ceil(9 / (2 * math.pi * self._sd)) + 1
        turns = 2 * math.pi * np.arange(-reach, reach + 1)

        def total(at: Floats) -> Floats:
            found = np.exp(-float(self.variance) * (at[:, None] + turns) ** 2 / 2)
            return np.asarray(found.sum(axis=1))

        with np.errstate(divide="ignore"):  # far from 0 it is below the least float: log 0
            found = np.log(total(np.asarray(u)))
        return np.asarray(found - math.log(float(total(np.zeros(1))[0])))

    def moment(self, odds: float) -> tuple[float, float]:
        """E e^(sX) <= e^(s^2 v/2), at s = e^odds/sqrt(v)."""
        return math.exp(odds) / self._sd, math.exp(2 * odds) / 2

    def furthest(self) -> float:
        """From phi(u) <= exp(-2 v u^2/pi^2)."""
        return math.pi * math.sqrt(math.log(1 / ERROR) / 2) / self._sd


@dataclass(frozen=True)
class GaussianMechanism(GridMechanism):
    """x + N(0, sigma^2),  sigma = z D2,  z the least multiplier that its divergence allows.

    Parameters
    ----------
    epsilon
        The privacy loss that is not exceeded, but with probability `delta`.
    sensitivity
        D2: the largest l2 distance between the statistics of two adjacent records.
    dimension
        How many coordinates the statistic has.
    input_error
        How far, at most, a coordinate of the computed statistic is from the true one.
    delta
        Above 0.
    share
        The part of the divergence that (epsilon, delta) allows, where several releases divide it.

    Examples
    --------
    >>> mechanism = GaussianMechanism(1.0, sensitivity=1.0, delta=1e-6)
    >>> round(mechanism.sigma, 2), mechanism.release([0.0, 3.5]).shape
    (4.53, (2,))
    """

    delta: float = 0.0
    share: float = 1.0

    name: ClassVar[str] = GAUSSIAN
    takes_delta: ClassVar[bool] = True
    uniforms: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse a delta of 0."""
        super().__post_init__()
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.positive(PrivacyError, delta=self.delta)

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """It needs a delta."""
        return super().misfit(statistic, epsilon, delta) or (
            "" if delta else "needs a delta above 0"
        )

    @staticmethod
    def norm(statistic: Statistic) -> float:
        """The l2 norm."""
        return float(statistic.l2 or statistic.l1)

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """At delta = 0.01, for statistics that move by 1 and by 2."""
        return cls(1.0, 1.0, delta=0.01), cls(1.0, 2.0, delta=0.01)

    @property
    def multiplier(self) -> float:
        """z, over the root of the share."""
        return multiplier(float(self.epsilon), float(self.delta)) / math.sqrt(self.share)

    @property
    def sigma(self) -> float:
        """z D2."""
        return self.multiplier * self.sensitivity

    @property
    def statistic(self) -> Statistic:
        """Of coordinates that all move, if there are several."""
        l1 = self.sensitivity * math.sqrt(self.dimension)
        return Statistic(l1, self.sensitivity, self.dimension, error=self.input_error)

    @property
    def worst_variance(self) -> float:
        """sigma^2."""
        return self.sigma**2

    @property
    def reason(self) -> str:
        """Why the guarantee holds."""
        return "the Renyi divergence between adjacent inputs is at most that of Gaussian noise"

    def part(self, share: float) -> Self:
        """Noise of 1/share times the variance."""
        return replace(self, share=self.share * share)

    def weakened(self, missing: float) -> Self:
        """Noise for a smaller move."""
        return replace(self, sensitivity=self.sensitivity * (1 - missing))

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + sigma sqrt(-2 log(1 - u)) cos(2 pi u')."""
        size = np.sqrt(-2 * np.log1p(-u[0]))
        return np.asarray(x + self.sigma * size * np.cos(2 * math.pi * u[1]))

    def log_density(self, noise: ArrayLike) -> Array:
        """-z^2/(2 sigma^2) - log(sigma sqrt(2 pi))."""
        z = np.asarray(noise, dtype=np.float64) / self.sigma
        return np.asarray(-z * z / 2 - math.log(self.sigma * math.sqrt(2 * math.pi)))

    def cdf(self, noise: ArrayLike) -> Array:
        """Phi(z/sigma)."""
        z = np.asarray(noise, dtype=np.float64) / self.sigma
        return np.asarray(np.vectorize(NORMAL.cdf, otypes=[float])(z))

    def privacy_loss(self, x: float, other: float) -> float:
        """No bound but for equal inputs: hence delta."""
        return 0.0 if x == other else math.inf

    def spent_delta(self, x: float, other: float) -> float:
        """Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m), m = |x - x'|/sigma: what the ideal noise costs."""
        m = abs(x - other) / self.sigma
        if m == 0:
            return 0.0
        near, far = m / 2 - self.epsilon / m, -m / 2 - self.epsilon / m
        return max(NORMAL.cdf(near) - math.exp(self.epsilon) * NORMAL.cdf(far), 0.0)

    @property
    def unit(self) -> float:
        """The deviation of a release."""
        return self.granularity * math.sqrt(self.law.variance)

    @property
    def cumulants(self) -> tuple[float, float]:
        """1 and 0."""
        return 1.0, 0.0

    def characteristic(self, u: Array) -> Array:
        """exp(-u^2/2)."""
        return np.asarray(np.exp(-u * u / 2))

    def release_variance(self, x: ArrayLike) -> Array:
        """Of the discrete Gaussian, at most."""
        return np.full(np.shape(x), self.unit**2)

    @cached_property
    def law(self) -> DiscreteGaussian:
        """The noise of a release in grid steps: z times the l2 steps, squared, rounded up."""
        moved = Fraction(self.statistic.steps(Fraction(2) ** self.exponent)[1])
        return DiscreteGaussian(Fraction(math.ceil((Fraction(self.multiplier) * moved) ** 2)))

    def _draw(self, count: int, entropy: Entropy) -> Integers:
        return self.law.draw(count, entropy)

    def event(self, released: bool = False) -> PrivacyEvent:
        """With the multiplier, by which several compose."""
        z = multiplier(float(self.epsilon), float(self.delta))
        return PrivacyEvent(self.epsilon, self.delta, GAUSSIAN, z).part(self.share)


def cost(z: float, delta: float) -> float:
    """The least epsilon of Gaussian noise z times the move, by its divergence at any order above 1.

    The order is searched for by its logarithm above 1; every order gives a bound that holds.
    """

    def bound(log: float) -> float:
        more = math.exp(log)  # order - 1
        divergence = (1 + more) / (2 * z * z)
        return divergence - math.log1p(1 / more) - (math.log(delta) + math.log1p(more)) / more

    low, high = -30.0, 60.0
    for _ in range(90):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if bound(first) <= bound(second) else (first, high)
    return max(0.0, bound((low + high) / 2))


@lru_cache(maxsize=256)
def multiplier(epsilon: float, delta: float) -> float:
    """The least z that costs at most (epsilon, delta), within a part in 10^9, and never less."""
    low, high = 0.0, 1.0
    while cost(high, delta) > epsilon:
        high *= 2
        if high > 2.0**60:
            raise PrivacyError(
                f"no Gaussian noise gives epsilon = {epsilon:g} at delta = {delta:g}; spend more"
            )
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle, delta) > epsilon else (low, middle)
    return high


class _GaussianKind(EventKind):
    """Gaussian noise: `parameter` is z, its deviation over the l2 norm of the move."""

    name = GAUSSIAN

    def checked(self, event: PrivacyEvent) -> Parameter:
        z = math.nan if event.parameter is None else _validate.as_float(event.parameter)
        if not (z > 0 and event.delta > 0):
            raise PrivacyError(
                "mechanism gaussian needs a delta above 0 and as parameter its deviation over the l2 "
                f"sensitivity; found delta = {event.delta:g} and {event.parameter}"
            )
        least = cost(z, event.delta)
        if event.epsilon < least * (1 - 1e-9):
            raise PrivacyError(
                f"Gaussian noise of {z:g} times the sensitivity costs epsilon = {least:g} at delta = "
                f"{event.delta:g}; found {event.epsilon:g}"
            )
        return z

    def times(self, event: PrivacyEvent, readings: int) -> PrivacyEvent:
        return self._of(_validate.as_float(event.parameter) / readings, event.delta)

    def part(self, event: PrivacyEvent, share: float) -> PrivacyEvent:
        return self._of(_validate.as_float(event.parameter) / math.sqrt(share), event.delta)

    def together(self, events: Counter[PrivacyEvent], delta: float) -> PrivacyEvent:
        """sum 1/z^2 = 1/z'^2."""
        each = (n / _validate.as_float(event.parameter) ** 2 for event, n in events.items())
        return self._of(1 / math.sqrt(math.fsum(each)), delta)

    def _of(self, z: float, delta: float) -> PrivacyEvent:
        return PrivacyEvent(max(cost(z, delta), LEAST_EPSILON), delta, self.name, z)

    def renyi(self, event: PrivacyEvent, order: int) -> float:
        return order / (2 * _validate.as_float(event.parameter) ** 2)

    def apart(self, event: PrivacyEvent) -> float:
        return 0.0
