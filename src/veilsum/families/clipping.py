"""The effect of bounds on synthetic signals: how many they move, and the bias that this brings.

    bias = E xi(clip(s)) - E xi(s)
         = int_{s < low} (xi(low) - xi(s)) dF(s)  +  int_{s > high} (xi(high) - xi(s)) dF(s)

Whole numbers are summed. For a tail of reals the probability p of what lies beyond is the
variable, p = q e^-v with q all of the tail, so that the integrand is smooth however far it goes.
A custom family is sampled instead: its distribution is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from veilsum._types import Family
from veilsum.families.base import Array

POINTS, DEPTH = 200, 60.0  # of the rule for a tail; e^-60 of a tail is left out
DRAWS = 200_000  # of a family whose distribution is not known
TERMS = 10_000_000  # whole numbers of a tail that are summed at most


@dataclass(frozen=True, eq=False)
class Clipping:
    """Fractions of signals that bounds move, and E xi(clip(s)) - E xi(s) for each coordinate."""

    below: float
    above: float
    bias: Array

    @property
    def fraction(self) -> float:
        """Of all signals."""
        return self.below + self.above


def drawn_clipping(family: Family, parameters: Mapping[str, Any]) -> Clipping | None:
    """What the bounds do to signals with these parameters; None without bounds."""
    if family.bounds is None:
        return None
    distributions = family.marginals(**parameters)
    if distributions is None:
        return _by_draws(family, parameters)
    parts = [
        _scalar(family, distribution, k if len(distributions) > 1 else None)
        for k, distribution in enumerate(distributions)
    ]
    below, above = max(p.below for p in parts), max(p.above for p in parts)
    return Clipping(below, above, np.concatenate([p.bias for p in parts]))


def _scalar(family: Family, distribution: Any, coordinate: int | None) -> Clipping:
    """One signal, or one coordinate of a vector signal, whose statistic is itself."""
    support = family.support

    def xi(s: Array) -> Array:
        return s[..., None] if coordinate is not None else family.raw_columns(s)

    low, high = np.float64(support.low), np.float64(support.high)
    if support.integer:
        below, above = float(distribution.cdf(low - 1)), float(distribution.sf(high))
        bias = _summed(xi, distribution, low, -1) + _summed(xi, distribution, high, 1)
    else:
        below, above = float(distribution.cdf(low)), float(distribution.sf(high))
        bias = _tail(xi, distribution.ppf, low, below) + _tail(xi, distribution.isf, high, above)
    return Clipping(below, above, np.asarray(bias))


def _tail(xi: Callable[[Array], Array], quantile: Any, end: Any, q: float) -> Array:
    """int_0^q (xi(end) - xi(quantile(p))) dp with p = q e^-v."""
    if q <= 0:
        return np.zeros(1)
    v, weights = _rule()
    p = q * np.exp(-v)
    gap = xi(np.array([end]))[0] - xi(np.asarray(quantile(p)))
    return np.asarray((gap * (weights * p)[:, None]).sum(axis=0))


@cache
def _rule() -> tuple[Array, Array]:
    """Nodes and weights of a Gauss rule on (0, DEPTH); they take a while to compute."""
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    rule = np.asarray((nodes + 1) * DEPTH / 2), np.asarray(weights * DEPTH / 2)
    for each in rule:
        each.setflags(write=False)
    return rule


def _summed(xi: Callable[[Array], Array], distribution: Any, end: Any, step: int) -> Array:
    """sum over k beyond the end of P(k) (xi(end) - xi(k))."""
    if not np.isfinite(end):
        return np.zeros(1)
    last = distribution.mean() + step * DEPTH * (1 + distribution.std())
    count = int(min(max(step * (last - end), 0) + DEPTH, TERMS))
    k = end + step * np.arange(1, count + 1)
    gap = xi(np.array([end]))[0] - xi(k)
    return np.asarray((gap * np.asarray(distribution.pmf(k))[:, None]).sum(axis=0))


def _by_draws(family: Family, parameters: Mapping[str, Any]) -> Clipping:
    s = family.sample(np.random.default_rng(0), (DRAWS,), **parameters)
    clipped = family.support.clip(s)
    gap = family.raw_columns(clipped) - family.raw_columns(s)
    axes = tuple(range(1, s.ndim))
    below, above = ((test(clipped, s)).any(axis=axes).mean() for test in (np.greater, np.less))
    return Clipping(float(below), float(above), np.asarray(gap.mean(axis=0)))
