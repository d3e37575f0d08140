"""Staircase noise: the least variance among additive noise for a fixed sensitivity.

Geng and Viswanath (2014): with b = e^{-eps} and a step width g in (0, 1), in units of Delta,

    density(z) = a b^k        for k <= |z| < k + g,           k = 0, 1, 2, ...
    density(z) = a b^{k+1}    for k + g <= |z| < k + 1,       a = (1 - b)/(2 (g + b (1 - g)))

A stair falls by e^{-eps} once in every Delta: any two points at most Delta apart lie on the same
step or on two that follow one another, so the density changes by at most e^eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmura.privacy.mechanisms.base import AdditiveNoise, Array


@dataclass(frozen=True)
class Staircase(AdditiveNoise):
    """The staircase law with the step width that gives the least variance.

    For large eps the variance is about Delta^2 (b/2)^{2/3}, exponentially below Laplace's
    2 Delta^2/eps^2; for small eps the two agree.
    """

    name: ClassVar[str] = "staircase"

    @property
    def width(self) -> float:
        """g = ((b (1 + b)/2)^{1/3} - b)/(1 - b), between 0 and 1/2.

        It is the printed -b/(1-b) + (b - 2b^2 + 2b^4 - b^5)^{1/3}/(2^{1/3} (1-b)^2), for
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

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Delta sign (k + (upper stair: g U; lower stair: g + (1 - g) U)), k geometric."""
        g, b = self.width, math.exp(-self.epsilon)
        k = rng.geometric(-math.expm1(-self.epsilon), shape) - 1
        upper = rng.random(shape) < g / (g + b * (1 - g))
        u, positive = rng.random(shape), rng.random(shape) < 0.5
        size = k + np.where(upper, g * u, g + (1 - g) * u)
        return np.asarray(self.sensitivity * np.where(positive, size, -size), dtype=np.float64)

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
    def _top(self) -> float:
        g, b = self.width, math.exp(-self.epsilon)
        return -math.expm1(-self.epsilon) / (2 * (g + b * (1 - g)))


def staircase_variance(width: float, epsilon: float) -> float:
    """Var/Delta^2 = b(1+b)/(1-b)^2 + (b/(1-b) (g^2 + b(1-g^2)) + (g^3 + b(1-g^3))/3)/(g + b(1-g)).

    Sum z^2 over stairs: the integral over [k, k+g] is k^2 g + k g^2 + g^3/3, over [k+g, k+1] it is
    k^2 (1-g) + k (1-g^2) + (1-g^3)/3; then sum b^k = 1/(1-b), sum k b^k = b/(1-b)^2 and
    sum k^2 b^k = b(1+b)/(1-b)^3.
    """
    g, b, p = width, math.exp(-epsilon), -math.expm1(-epsilon)
    first = b / p * (g**2 + b * (1 - g**2))
    second = (g**3 + b * (1 - g**3)) / 3
    return b * (1 + b) / p**2 + (first + second) / (g + b * (1 - g))
