"""Whole-number laws: a yes or no, a count, a waiting time in trials. A move is a whole number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from murmura.families import moduli
from murmura.families.base import Array, Sensitivity, Size
from murmura.families.scalar import ScalarFamily
from murmura.families.support import Support


@dataclass(frozen=True)
class _Count(ScalarFamily):
    """xi(s) = s on whole numbers:  sensitivity = min(floor(radius), high - low)."""

    formula: ClassVar[str] = "s"
    modulus: ClassVar[str] = "min(floor(radius), high - low)"

    def _xi(self, s: Array) -> Array:
        return s.copy()

    def _sensitivity(self, radius: float) -> Sensitivity:
        return moduli.linear(self.support, radius)


@dataclass(frozen=True)
class Bernoulli(_Count):
    """s = 1 with probability p, else 0:  xi(s) = s,  E xi = p,  Var xi = p(1 - p)."""

    name: ClassVar[str] = "bernoulli"
    parameters: ClassVar[tuple[str, ...]] = ("p",)
    natural_support: ClassVar[Support] = Support(low=0.0, high=1.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0, high=1.0)

    @property
    def mean_domain(self) -> tuple[float, float]:
        """0 <= E xi <= 1."""
        return (0.0, 1.0)

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = m - m^2."""
        return (0.0, 1.0, -1.0)

    def _expectation(self, theta: Array) -> Array:
        return theta.copy()

    def _variance(self, theta: Array) -> Array:
        return theta * (1 - theta)

    def _inverse(self, m: Array) -> Array:
        return m

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return (rng.random(size) < theta).astype(np.float64)


@dataclass(frozen=True)
class Poisson(_Count):
    """s ~ Poisson(rate):  xi(s) = s,  E xi = Var xi = rate."""

    name: ClassVar[str] = "poisson"
    parameters: ClassVar[tuple[str, ...]] = ("rate",)
    natural_support: ClassVar[Support] = Support(low=0.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0)

    @property
    def mean_domain(self) -> tuple[float, float]:
        """E xi >= 0."""
        return (0.0, math.inf)

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = m."""
        return (0.0, 1.0, 0.0)

    def _expectation(self, theta: Array) -> Array:
        return theta.copy()

    def _variance(self, theta: Array) -> Array:
        return theta.copy()

    def _inverse(self, m: Array) -> Array:
        return m

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.poisson(theta, size).astype(np.float64)


@dataclass(frozen=True)
class Geometric(_Count):
    """s = trials up to the first success:  xi(s) = s,  E xi = 1/p,  Var xi = (1 - p)/p^2."""

    name: ClassVar[str] = "geometric"
    parameters: ClassVar[tuple[str, ...]] = ("p",)
    natural_support: ClassVar[Support] = Support(low=1.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0, high=1.0, open_low=True)

    @property
    def mean_domain(self) -> tuple[float, float]:
        """E xi >= 1."""
        return (1.0, math.inf)

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = m^2 - m."""
        return (0.0, -1.0, 1.0)

    def _expectation(self, theta: Array) -> Array:
        return 1 / theta

    def _variance(self, theta: Array) -> Array:
        return (1 - theta) / theta**2

    def _inverse(self, m: Array) -> Array:
        return 1 / m

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.geometric(theta, size).astype(np.float64)
