"""Laplace noise, and its twin for whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmura.errors import PrivacyError, SignalError
from murmura.privacy.mechanisms.base import AdditiveNoise, Array


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """density(z) = e^{-|z|/b}/(2b),  b = sensitivity/eps,  Var = 2 b^2.

    |z - x| changes by at most |x - x'| <= sensitivity, so the log density changes by at most
    sensitivity/b = eps (Th. 1 and 2 of the paper). All losses are attained, in the tails.
    """

    name: ClassVar[str] = "laplace"

    @property
    def scale(self) -> float:
        """b = sensitivity/eps."""
        return self.sensitivity / self.epsilon

    @property
    def worst_variance(self) -> float:
        """2 b^2."""
        return 2 * self.scale**2

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws of Lap(b)."""
        return rng.laplace(0.0, self.scale, shape)

    def log_density(self, noise: ArrayLike) -> Array:
        """-|z|/b - log 2b."""
        return np.asarray(-np.abs(noise) / self.scale - math.log(2 * self.scale))

    def cdf(self, noise: ArrayLike) -> Array:
        """e^{z/b}/2 below 0, 1 - e^{-z/b}/2 above."""
        z = np.asarray(noise, dtype=np.float64) / self.scale
        half = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, half, 1 - half)


@dataclass(frozen=True)
class DiscreteLaplace(AdditiveNoise):
    """P(k) = (1 - q)/(1 + q) q^|k|,  q = e^{-eps/sensitivity},  Var = 2 q/(1 - q)^2.

    For whole numbers that move by a whole `sensitivity`. P(k - x)/P(k - x') is at most
    q^{-|x - x'|} = e^{eps |x - x'|/sensitivity} <= e^eps. For sensitivity 1 no mechanism at all
    is better (Ghosh, Roughgarden and Sundararajan 2009). The variance is below Laplace's 2 b^2,
    for q/(1 - q)^2 = 1/(4 sinh^2(1/(2b))) <= b^2.
    """

    name: ClassVar[str] = "discrete-laplace"

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not a whole number."""
        super().__post_init__()
        if self.sensitivity != round(self.sensitivity):
            raise PrivacyError(
                "the sensitivity of an integer statistic must be a whole number; "
                f"found {self.sensitivity}; round it up to {math.ceil(self.sensitivity)}"
            )

    @property
    def q(self) -> float:
        """e^{-eps/sensitivity}."""
        return math.exp(-self.epsilon / self.sensitivity)

    @property
    def worst_variance(self) -> float:
        """2 q/(1 - q)^2 = 1/(2 sinh^2(eps/(2 sensitivity)))."""
        half = self.epsilon / (2 * self.sensitivity)
        return 2 * (math.exp(-half) / -math.expm1(-2 * half)) ** 2

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """The difference of two geometric draws."""
        p = -math.expm1(-self.epsilon / self.sensitivity)
        return (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(np.float64)

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

    def release(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """x + noise for whole x; others would show through the noise, and are refused."""
        x = np.asarray(values, dtype=np.float64)
        broken = ~(x == np.round(x))
        if broken.any():
            first = tuple(int(k) for k in np.argwhere(broken)[0])
            raise SignalError(
                f"{int(broken.sum())} of {x.size} values are not whole numbers, the first at "
                f"index {first}; use Laplace or Staircase"
            )
        return x + self.noise(x.shape, rng)
