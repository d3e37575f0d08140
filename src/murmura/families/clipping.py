"""What bounds do to signals that are drawn: how many they move, and the bias that this brings.

    bias = E xi(clip(s)) - E xi(s)
         = int_{s < low} (xi(low) - xi(s)) dF(s)  +  int_{s > high} (xi(high) - xi(s)) dF(s)

Whole numbers are summed. For a tail of reals the probability p of what lies beyond is the
variable, p = q e^-v with q all of the tail, so that the integrand is smooth however far it goes.
A family of one's own is drawn from instead: its law is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmura.families.base import Array, Family

POINTS, DEPTH = 200, 60.0  # of the rule for a tail; e^-60 of a tail is left out
DRAWS = 200_000  # of a family whose law is not known
TERMS = 10_000_000  # whole numbers of a tail that are summed at most


@dataclass(frozen=True, eq=False)
class Clipping:
    """Shares of signals that bounds move, and E xi(clip(s)) - E xi(s) for each coordinate."""

    below: float
    above: float
    bias: Array

    @property
    def share(self) -> float:
        """Of all signals."""
        return self.below + self.above


def drawn_clipping(family: Family, parameters: Mapping[str, Any]) -> Clipping | None:
    """What the bounds do to signals with these parameters; None without bounds."""
    if family.bounds is None:
        return None
    laws = _laws(family, parameters)
    if laws is None:
        return _by_draws(family, parameters)
    parts = [_scalar(family, law, k if len(laws) > 1 else None) for k, law in enumerate(laws)]
    below, above = max(p.below for p in parts), max(p.above for p in parts)
    return Clipping(below, above, np.concatenate([p.bias for p in parts]))


def _scalar(family: Family, law: Any, coordinate: int | None) -> Clipping:
    """One signal, or one coordinate of a vector signal, whose statistic is itself."""
    support = family.support

    def xi(s: Array) -> Array:
        return s[..., None] if coordinate is not None else family.raw_columns(s)

    low, high = np.float64(support.low), np.float64(support.high)
    if support.integer:
        below, above = float(law.cdf(low - 1)), float(law.sf(high))
        bias = _summed(xi, law, low, -1) + _summed(xi, law, high, 1)
    else:
        below, above = float(law.cdf(low)), float(law.sf(high))
        bias = _tail(xi, law.ppf, low, below) + _tail(xi, law.isf, high, above)
    return Clipping(below, above, np.asarray(bias))


def _tail(xi: Callable[[Array], Array], quantile: Any, end: Any, q: float) -> Array:
    """int_0^q (xi(end) - xi(quantile(p))) dp with p = q e^-v."""
    if q <= 0:
        return np.zeros(1)
    v, weights = np.polynomial.legendre.leggauss(POINTS)
    v, weights = (v + 1) * DEPTH / 2, weights * DEPTH / 2
    p = q * np.exp(-v)
    gap = xi(np.array([end]))[0] - xi(np.asarray(quantile(p)))
    return np.asarray((gap * (weights * p)[:, None]).sum(axis=0))


def _summed(xi: Callable[[Array], Array], law: Any, end: Any, step: int) -> Array:
    """sum over k beyond the end of P(k) (xi(end) - xi(k))."""
    if not np.isfinite(end):
        return np.zeros(1)
    last = law.mean() + step * DEPTH * (1 + law.std())
    count = int(min(max(step * (last - end), 0) + DEPTH, TERMS))
    k = end + step * np.arange(1, count + 1)
    gap = xi(np.array([end]))[0] - xi(k)
    return np.asarray((gap * np.asarray(law.pmf(k))[:, None]).sum(axis=0))


def _by_draws(family: Family, parameters: Mapping[str, Any]) -> Clipping:
    s = family.sample(np.random.default_rng(0), (DRAWS,), **parameters)
    clipped = family.support.clip(s)
    gap = family.raw_columns(clipped) - family.raw_columns(s)
    axes = tuple(range(1, s.ndim))
    below, above = ((test(clipped, s)).any(axis=axes).mean() for test in (np.greater, np.less))
    return Clipping(float(below), float(above), np.asarray(gap.mean(axis=0)))


def _laws(family: Family, parameters: Mapping[str, Any]) -> list[Any] | None:
    """The law of each coordinate of a signal, by scipy; None if it is not known."""
    from scipy import stats

    given = {name: np.asarray(value, dtype=np.float64) for name, value in parameters.items()}
    o: Any = family
    table: dict[str, Callable[..., Any]] = {
        "normal": lambda mu: stats.norm(mu, o.sigma),
        "log-normal": lambda mu: stats.lognorm(o.sigma, scale=np.exp(mu)),
        "log-normal-1p": lambda mu: _Log1p(
            stats.truncnorm(-mu / o.sigma, np.inf, loc=mu, scale=o.sigma)
        ),
        "bernoulli": lambda p: stats.bernoulli(p),
        "poisson": lambda rate: stats.poisson(rate),
        "geometric": lambda p: stats.geom(p),
        "exponential": lambda rate: stats.expon(scale=1 / rate),
        "gamma-known-shape": lambda rate: stats.gamma(o.shape, scale=1 / rate),
        "gamma-known-rate": lambda shape: stats.gamma(shape, scale=1 / o.rate),
        "pareto": lambda alpha: stats.pareto(alpha, scale=o.minimum),
        "weibull": lambda scale: stats.weibull_min(o.shape, scale=scale),
        "laplace": lambda scale: stats.laplace(o.location, scale),
        "normal-both": lambda mu, sigma: stats.norm(mu, sigma),
    }
    if not family.sensitivity_is_proved:
        return None  # a family of one's own may take any name
    if family.name in table:
        return [table[family.name](**given)]
    if family.name == "multivariate-normal":
        spread = np.sqrt(np.diagonal(np.asarray(o.sigma)))
        return [stats.norm(m, d) for m, d in zip(given["mu"], spread, strict=True)]
    return None


@dataclass(frozen=True, eq=False)
class _Log1p:
    """s = e^x - 1 for x of a given law."""

    x: Any

    def cdf(self, s: Any) -> Any:
        return self.x.cdf(np.log1p(s))

    def sf(self, s: Any) -> Any:
        return self.x.sf(np.log1p(s))

    def ppf(self, p: Any) -> Any:
        return np.expm1(self.x.ppf(p))

    def isf(self, p: Any) -> Any:
        return np.expm1(self.x.isf(p))
