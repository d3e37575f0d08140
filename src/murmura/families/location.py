"""Normal laws with a known spread: of the signal, of its logarithm, of log(1 + s)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from murmura import _validate
from murmura.errors import FamilyError
from murmura.families import moduli, roots
from murmura.families.base import Array, Sensitivity, Size
from murmura.families.scalar import POSITIVE, REAL, ScalarFamily
from murmura.families.support import Support


@dataclass(frozen=True)
class Normal(ScalarFamily):
    """s ~ N(mu, sigma^2), sigma known:  xi(s) = s,  E xi = mu,  Var xi = sigma^2."""

    sigma: float

    name: ClassVar[str] = "normal"
    parameters: ClassVar[tuple[str, ...]] = ("mu",)
    formula: ClassVar[str] = "s"
    modulus: ClassVar[str] = "min(radius, high - low)"
    natural_support: ClassVar[Support] = REAL

    def __post_init__(self) -> None:
        """Refuse a spread that is not positive."""
        super().__post_init__()
        _validate.positive(FamilyError, sigma=self.sigma)

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = sigma^2."""
        return (self.sigma**2, 0.0, 0.0)

    def _xi(self, s: Array) -> Array:
        return s.copy()

    def _expectation(self, theta: Array) -> Array:
        return theta.copy()

    def _variance(self, theta: Array) -> Array:
        return self.sigma**2 + 0 * theta

    def _inverse(self, m: Array) -> Array:
        return m

    def _sensitivity(self, radius: float) -> Sensitivity:
        return moduli.linear(self.support, radius)

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.normal(theta, self.sigma, size)


@dataclass(frozen=True)
class LogNormal(Normal):
    """log s ~ N(mu, sigma^2), sigma known:  xi(s) = log s,  E xi = mu,  Var xi = sigma^2.

    The sensitivity is infinite without a floor: a reading of 0 is -inf, and near 0 the logarithm
    moves without limit. Real meters send zeros: give `bounds=(floor, None)`, or take LogNormal1p.
    """

    name: ClassVar[str] = "log-normal"
    formula: ClassVar[str] = "log s"
    statistic_is_log: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(log(1 + radius/low), log(high/low)), infinite without a floor"
    natural_support: ClassVar[Support] = POSITIVE

    @property
    def remedy(self) -> str:
        """The floor that log s needs, or the family that needs none."""
        if self.support.open_low:
            return (
                "use LogNormal1p (log(1 + s)), or bounds=(floor, None) on the family with "
                "signals.clip(floor, None)"
            )
        return super().remedy

    def _xi(self, s: Array) -> Array:
        return np.log(s)

    def _sensitivity(self, radius: float) -> Sensitivity:
        return moduli.log(self.support, radius, instead=", or use LogNormal1p (log(1 + s))")

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.lognormal(theta, self.sigma, size)


@dataclass(frozen=True)
class LogNormal1p(Normal):
    """log(1 + s) ~ N(mu, sigma^2) truncated to [0, inf), sigma known:  xi(s) = log(1 + s).

    E xi = mu + sigma h(a) = sigma g(a),  Var xi = sigma^2 (1 - h(a) g(a)),  a = -mu/sigma,
    with h(a) = phi(a)/Phi(-a) and g(a) = h(a) - a.

    Truncated because s >= 0 means log(1 + s) >= 0; it stays an exponential family in mu with the
    statistic xi. The derivative of xi is at most 1, so that a zero costs nothing (erratum 2).
    mu is the location before truncation: it may be negative, and falls to -inf as E xi nears 0.
    """

    name: ClassVar[str] = "log-normal-1p"
    formula: ClassVar[str] = "log(1 + s)"
    modulus: ClassVar[str] = "log(1 + min(radius, high - low)/(1 + low)), low >= 0"
    natural_support: ClassVar[Support] = Support(low=0.0)

    @property
    def mean_domain(self) -> tuple[float, float]:
        """E xi > 0."""
        return (0.0, math.inf)

    @property
    def variance_in_mean(self) -> None:  # type: ignore[override]
        """Var xi is no polynomial of E xi."""
        return

    def _xi(self, s: Array) -> Array:
        return np.log1p(s)

    def _expectation(self, theta: Array) -> Array:
        return self.sigma * roots.excess(-theta / self.sigma)[0]

    def _variance(self, theta: Array) -> Array:
        return self.sigma**2 * roots.excess(-theta / self.sigma)[1]

    def _inverse(self, m: Array) -> Array:
        return np.where(m == 0, -math.inf, -self.sigma * roots.inverse_excess(m / self.sigma))

    def _sensitivity(self, radius: float) -> Sensitivity:
        return moduli.log1p(self.support, radius)

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        """expm1(mu - sigma Phi^{-1}(u Phi(mu/sigma))), in logarithms so that no tail underflows."""
        from scipy.special import log_ndtr, ndtri_exp

        log_u = np.log1p(-rng.random(size))
        x = theta - self.sigma * ndtri_exp(log_u + log_ndtr(theta / self.sigma))
        return np.asarray(np.expm1(np.maximum(x, 0.0)))
