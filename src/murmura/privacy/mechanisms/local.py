"""Local mechanisms for a bounded value, where any two values of [low, high] are adjacent.

All map x to [-1, 1], t = (2x - low - high)/(high - low), release an unbiased number for t of a
bounded law, and map back: the variance is (high - low)^2/4 times that for t.

    two-point (Duchi, Jordan and Wainwright 2018)   Var = C^2 - t^2,              C = coth(eps/2)
    piecewise (Wang et al. 2019)                    Var = t^2/(e^{eps/2} - 1) + (e^{eps/2} + 3)
                                                          / (3 (e^{eps/2} - 1)^2)
    hybrid (Wang et al. 2019)                       a coin between the two: the worst case is best
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError, SignalError
from murmura.privacy.guarantee import Status
from murmura.privacy.mechanisms.base import PURE, Array

HYBRID_FROM = math.log(
    (-5 + 2 * math.cbrt(6353 - 405 * math.sqrt(241)) + 2 * math.cbrt(6353 + 405 * math.sqrt(241)))
    / 27
)
"""eps*, about 0.61: up to here the two-point mechanism alone is best in the worst case."""


@dataclass(frozen=True)
class LocalMechanism(ABC):
    """An unbiased release of a value of [low, high]; any two values are adjacent."""

    epsilon: float
    low: float = -1.0
    high: float = 1.0

    name: ClassVar[str]
    delta: ClassVar[float] = 0.0
    ideal_status: ClassVar[Status] = Status.PROVED
    reason: ClassVar[str] = PURE
    status: ClassVar[Status] = Status.NONE  # mechanisms.base.FLOATING

    def __post_init__(self) -> None:
        """Refuse an epsilon that is not positive or bounds that hold no two values."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        if not (math.isfinite(self.high - self.low) and self.low < self.high):
            raise PrivacyError(
                f"bounds must be finite with low < high; found ({self.low}, {self.high})"
            )

    @property
    def half_width(self) -> float:
        """(high - low)/2, what one unit of t is worth."""
        return (self.high - self.low) / 2

    @property
    def worst_variance(self) -> float:
        """The variance is linear in t^2, so the worst is at the middle or at an end."""
        ends = np.array([(self.low + self.high) / 2, self.high])
        return float(self.variance(ends).max())

    def mean(self, x: ArrayLike) -> Array:
        """E release(x) = x."""
        return np.array(x, dtype=np.float64)

    def variance(self, x: ArrayLike) -> Array:
        """(half width)^2 times the variance for t."""
        return self.half_width**2 * self._variance(self._unit(x))

    def release(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """An unbiased number for every value. Simulation only."""
        middle = (self.low + self.high) / 2
        return middle + self.half_width * self._release(self._unit(values), rng)

    def privacy_loss(self, x: float, other: float) -> float:
        """sup_z |log density(z | x) - log density(z | x')|, at most eps for any two values."""
        t, u = self._unit([x, other])
        return self._loss(float(t), float(u))

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
    def _variance(self, t: Array) -> Array: ...

    @abstractmethod
    def _release(self, t: Array, rng: np.random.Generator) -> Array: ...

    @abstractmethod
    def _loss(self, t: float, u: float) -> float: ...


@dataclass(frozen=True)
class Duchi(LocalMechanism):
    """t -> +C with probability (1 + t/C)/2, else -C,  C = coth(eps/2),  Var = C^2 - t^2.

    E = C (1 + t/C)/2 - C (1 - t/C)/2 = t. The odds of +C go from (1 - 1/C)/2 to (1 + 1/C)/2, a
    ratio of (C + 1)/(C - 1) = e^eps. At t = -1 or 1 it is Warner's randomised response.
    """

    name: ClassVar[str] = "duchi"

    @property
    def reach(self) -> float:
        """C = (e^eps + 1)/(e^eps - 1)."""
        return 1 / math.tanh(self.epsilon / 2)

    def _variance(self, t: Array) -> Array:
        return self.reach**2 - t**2

    def _release(self, t: Array, rng: np.random.Generator) -> Array:
        plus = rng.random(t.shape) < (1 + t / self.reach) / 2
        return np.where(plus, self.reach, -self.reach)

    def _loss(self, t: float, u: float) -> float:
        over = 2 / math.expm1(self.epsilon)  # C - 1, exact where C rounds to 1
        up, down = (over + (1 + t)) / (over + (1 + u)), (over + (1 - t)) / (over + (1 - u))
        return max(abs(math.log(up)), abs(math.log(down)))


@dataclass(frozen=True)
class Piecewise(LocalMechanism):
    """t -> uniform on [l, l + C - 1] with probability e/(e + 1), else on the rest of [-C, C].

    e = e^{eps/2},  C = (e + 1)/(e - 1),  l = (C + 1) t/2 - (C - 1)/2. The densities near t and
    away from it, p = e (e - 1)/(2 (e + 1)) and p/e^2, do not depend on t: their ratio is e^eps.
    E = t, for the excess mass p (1 - 1/e^2) (C - 1) = (e - 1)/e has its centre at (C + 1) t/2 =
    t e/(e - 1).
    """

    name: ClassVar[str] = "piecewise"

    @property
    def reach(self) -> float:
        """C = (e^{eps/2} + 1)/(e^{eps/2} - 1)."""
        return 1 / math.tanh(self.epsilon / 4)

    def _variance(self, t: Array) -> Array:
        over = math.expm1(self.epsilon / 2)
        return t**2 / over + (over + 4) / (3 * over**2)

    def _release(self, t: Array, rng: np.random.Generator) -> Array:
        C = self.reach
        left = (C + 1) * t / 2 - (C - 1) / 2
        near = rng.random(t.shape) < 1 / (1 + math.exp(-self.epsilon / 2))
        inside = left + (C - 1) * rng.random(t.shape)
        outside = -C + (C + 1) * rng.random(t.shape)
        outside = np.where(outside < left, outside, outside + (C - 1))
        return np.where(near, inside, outside)

    def _loss(self, t: float, u: float) -> float:
        return 0.0 if t == u else self.epsilon


@dataclass(frozen=True)
class Hybrid(LocalMechanism):
    """Piecewise with probability a = 1 - e^{-eps/2} if eps > eps* = 0.61, else Duchi alone.

    The coin does not look at t, so the loss is the larger of the two. Both are unbiased, so
    Var = a Var_piecewise + (1 - a) Var_duchi, linear in t^2 with the slope
    a/(e^{eps/2} - 1) - (1 - a): zero at this a. For given t^2 it is linear in a, so the least
    worst case is at a = 0, at this kink or at 1; a = 0 wins up to eps*.
    """

    name: ClassVar[str] = "hybrid"

    @property
    def share(self) -> float:
        """a, the probability of the piecewise mechanism."""
        return -math.expm1(-self.epsilon / 2) if self.epsilon > HYBRID_FROM else 0.0

    @property
    def parts(self) -> tuple[Piecewise, Duchi]:
        """The two mechanisms for t in [-1, 1]."""
        return Piecewise(self.epsilon), Duchi(self.epsilon)

    def _variance(self, t: Array) -> Array:
        piecewise, duchi = self.parts
        return self.share * piecewise._variance(t) + (1 - self.share) * duchi._variance(t)

    def _release(self, t: Array, rng: np.random.Generator) -> Array:
        piecewise, duchi = self.parts
        first = rng.random(t.shape) < self.share
        return np.where(first, piecewise._release(t, rng), duchi._release(t, rng))

    def _loss(self, t: float, u: float) -> float:
        piecewise, duchi = self.parts
        return max(piecewise._loss(t, u) if self.share else 0.0, duchi._loss(t, u))
