"""A sensitivity estimated from samples of slopes (Wood and Zhang 1996).

    L = max ||xi(s) - xi(s')||_1 / ||s - s'||_1,      sensitivity = L radius

Slopes of random pairs that lie close together stay below L. The largest of a batch is one draw
from a law with the end point L, and the largest of many tends to a reverse Weibull law,

    P(largest <= x) = exp(-((u - x)/w)^v),   x <= u,

the only limit of maxima with a finite end point (Fisher and Tippett). Its location u, fitted to
the maxima of many batches by maximum likelihood, estimates L: larger than the largest slope seen.

An estimate proves nothing: a narrow steep place that no sample hit is not in it. With u the
profile likelihood gives a spread, which measures the fit and not that risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.sensitivity.base import ESTIMATED, Array, SensitivityBound
from murmura.privacy.sensitivity.derivatives import _box

LEAST_SHAPE = 1.0  # below it the likelihood has no maximum: it grows without limit as u -> max x
FLAT = 1e-9  # maxima that differ by less than this, relatively, are one number


@dataclass(frozen=True)
class ReverseWeibull:
    """P(X <= x) = exp(-((location - x)/scale)^shape), with the spread of the location."""

    location: float
    scale: float
    shape: float
    spread: tuple[float, float]


class _Profile(NamedTuple):
    shape: Array
    scale: Array
    log_likelihood: Array


def fit_reverse_weibull(maxima: ArrayLike, confidence: float = 0.95) -> ReverseWeibull:
    """Maximise the profile likelihood of u, shape at least 1; spread by the likelihood ratio.

    The interval {u : 2 (l(u*) - l(u)) <= chi^2_1(confidence)} is approximate, and is open (inf)
    at the top when the maxima do not show an end point.
    """
    from scipy.special import chdtri

    x = np.sort(np.asarray(maxima, dtype=np.float64).ravel())
    if x.size < 10 or not np.isfinite(x).all():
        raise PrivacyError(f"a fit needs 10 finite maxima or more; found {x.size}")
    top, width = float(x[-1]), float(x[-1] - x[0])
    if width <= FLAT * abs(top):
        return ReverseWeibull(top, width, math.inf, (top, top))
    _validate.probability(PrivacyError, confidence=confidence)
    offsets = width * np.geomspace(1e-6, 1e2, 801)
    profile = _profile(x, top + offsets)
    k = int(profile.log_likelihood.argmax())
    drop = float(chdtri(1, 1 - confidence)) / 2
    inside = np.flatnonzero(profile.log_likelihood >= profile.log_likelihood[k] - drop)
    low = top if inside[0] == 0 else top + float(offsets[inside[0]])
    high = math.inf if inside[-1] == offsets.size - 1 else top + float(offsets[inside[-1]])
    best = float(top + offsets[k])
    return ReverseWeibull(best, float(profile.scale[k]), float(profile.shape[k]), (low, high))


def _profile(x: Array, u: Array) -> _Profile:
    """The best shape and scale for every location u, and the log likelihood they give.

    With z = u - x the likelihood equation of the shape is
    sum z^v log z/sum z^v - 1/v = mean log z, whose left side grows in v: bisection.
    """
    log_z = np.log(u[:, None] - x)
    mean = log_z.mean(axis=1)
    above = log_z - log_z.max(axis=1, keepdims=True)

    def excess(v: Array) -> Array:
        weight = np.exp(v[:, None] * above)
        return np.asarray((weight * log_z).sum(1) / weight.sum(1) - 1 / v - mean)

    a, b = np.full(u.size, LEAST_SHAPE), np.full(u.size, 1e6)
    for _ in range(60):
        v = np.sqrt(a * b)
        right = excess(v) < 0
        a, b = np.where(right, v, a), np.where(right, b, v)
    v = a  # LEAST_SHAPE itself where the equation has its root below
    log_w = log_z.max(axis=1) + np.log(np.exp(v[:, None] * above).mean(axis=1)) / v
    likelihood = x.size * (np.log(v) - v * log_w + (v - 1) * mean - 1)
    return _Profile(v, np.exp(log_w), likelihood)


def estimate(
    statistic: Callable[[Array], ArrayLike],
    low: ArrayLike,
    high: ArrayLike,
    rng: np.random.Generator,
    *,
    radius: float = 1.0,
    closeness: float = 1e-3,
    batches: int = 200,
    pairs: int = 100,
    confidence: float = 0.95,
) -> SensitivityBound:
    """L radius with L the location of a reverse Weibull law of the maxima of `batches` batches.

    Numbers `low`, `high` take signals of shape (p,); vectors of length k take (p, k), and pairs
    that differ in one coordinate, where the l1 slope has its maximum (see `gradient`). Each pair
    lies within `closeness` of the width, and no nearer than a tenth of that. Points are drawn from
    the domain, never taken from real signals: a sensitivity fitted to those would be as private
    as they are.
    """
    _validate.positive(PrivacyError, radius=radius, closeness=closeness)
    _validate.at_least(PrivacyError, 10, batches=batches)
    _validate.at_least(PrivacyError, 2, pairs=pairs)
    scalar = np.ndim(low) == 0 and np.ndim(high) == 0
    a, b = _box(low, high)
    slopes = _slopes(statistic, a, b, rng, batches * pairs, min(closeness, 1.0), scalar)
    fit = fit_reverse_weibull(slopes.reshape(batches, pairs).max(axis=1), confidence)
    return SensitivityBound(
        kind="estimated",
        status=ESTIMATED,
        reason=f"a fit to the largest of {batches * pairs} slopes: a steeper place may exist",
        largest=fit.location * radius,
        radius=radius,
        spread=(fit.spread[0] * radius, fit.spread[1] * radius),
    )


def _slopes(
    statistic: Callable[[Array], ArrayLike],
    a: Array,
    b: Array,
    rng: np.random.Generator,
    count: int,
    closeness: float,
    scalar: bool,
) -> Array:
    """||xi(s) - xi(s')||_1/|s_j - s'_j| for random s and a random coordinate j."""
    s = rng.uniform(a, b, (count, a.size))
    j = rng.integers(a.size, size=count)
    row, width = np.arange(count), (b - a)[j]
    step = rng.uniform(0.1, 1.0, count) * closeness * width
    there = s.copy()
    there[row, j] += np.where(s[row, j] + step > b[j], -step, step)
    there = np.clip(there, a, b)
    one, two = (statistic(p[:, 0] if scalar else p) for p in (s, there))
    move = np.abs(np.asarray(one, dtype=np.float64) - np.asarray(two, dtype=np.float64))
    if move.shape[:1] != (count,) or not np.isfinite(move).all():
        raise PrivacyError(
            f"the statistic must map {count} signals of the domain to as many finite statistics; "
            f"found shape {move.shape}"
        )
    apart = np.abs(there - s)[row, j]
    return np.asarray(move.reshape(count, -1).sum(axis=1) / apart)
