"""Discrete Laplace noise for whole numbers: the same on the integers, and nothing is rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy.accounting.events import DISCRETE_LAPLACE, PrivacyEvent
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import saturate, whole_numbers
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.mechanisms.additive import AdditiveMechanism, rounded_up
from veilsum.privacy.mechanisms.base import Array, Pair


@dataclass(frozen=True)
class DiscreteLaplaceMechanism(AdditiveMechanism):
    """P(k) = (1 - q)/(1 + q) q^|k|,  q = e^{-eps/sensitivity},  Var = 2 q/(1 - q)^2.

    For whole numbers that move by a whole `sensitivity`. P(k - x)/P(k - x') is at most
    q^{-|x - x'|} = e^{eps |x - x'|/sensitivity} <= e^eps. For sensitivity 1 no mechanism at all
    is better (Ghosh, Roughgarden and Sundararajan 2009). The variance is below Laplace's 2 b^2,
    for q/(1 - q)^2 = 1/(4 sinh^2(1/(2b))) <= b^2.

    The grid of a release is the integers, so nothing is rounded and eps is spent to the last bit. A
    release beyond 64 bits becomes the largest integer of its sign, which is post-processing.

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

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """For whole numbers only."""
        why = super().misfit(statistic, epsilon, delta)
        return why or ("" if statistic.whole else "needs a statistic of whole numbers")

    @staticmethod
    def norm(statistic: Statistic) -> float:
        """The l1 norm, a whole number."""
        return math.ceil(statistic.l1) if math.isfinite(statistic.l1) else statistic.l1

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Whole numbers apart by the sensitivity, and by 1."""
        move = float(self.sensitivity)
        return (0.0, move), (0.0, 1.0), (1000.0, 1000.0 + move)

    @property
    def cumulants(self) -> tuple[float, float]:
        """2q/(1-q)^2 and 2q (1 + 4q + q^2)/(1-q)^4."""
        q = self.q
        return 2 * q / (1 - q) ** 2, 2 * q * (1 + 4 * q + q * q) / (1 - q) ** 4

    def characteristic(self, u: Array) -> Array:
        """(1-q)^2/(1 - 2q cos u + q^2)."""
        q = self.q
        return np.asarray((1 - q) ** 2 / (1 - 2 * q * np.cos(u) + q * q))

    @property
    def lattice(self) -> float:
        """1: the integers."""
        return 1.0

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
        return rounded_up(self.law.scale)

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
    def law(self) -> DiscreteLaplace:
        """The noise of a release, of scale Delta/eps."""
        return DiscreteLaplace(int(self.sensitivity) / Fraction(float(self.epsilon)))

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """x + X for each whole number x: a new release each time it is called."""
        checked(entropy)
        points = whole_numbers(values)
        released: NDArray[Any] = saturate(points + self.law.draw(points.size, entropy))
        return released.reshape(np.shape(values))

    def release_sum(self, rows: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """sum_k x_k + X, of several whole-number statistics that are released as one."""
        checked(entropy)
        whole = whole_numbers(rows).astype(object).reshape(np.shape(rows))
        points = whole.sum(axis=0)
        return saturate(points + self.law.draw(points.size, entropy))

    def event(self, released: bool = False) -> PrivacyEvent:
        """Discrete Laplace on a grid of which the sensitivity is so many steps."""
        return PrivacyEvent(
            self.epsilon, mechanism=DISCRETE_LAPLACE, parameter=int(self.sensitivity)
        )
