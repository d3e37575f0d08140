"""A sensitivity estimated from samples of slopes (Wood and Zhang 1996).

    L = max ||xi(s) - xi(s')||_1 / ||s - s'||_1,      sensitivity = L radius

Slopes of random pairs that lie close together stay below L. The largest of a batch is one draw
from a law with the end point L, and the largest of many tends to a reverse Weibull law,

    P(largest <= x) = exp(-((u - x)/w)^v),   x <= u,

the only limit of maxima with a finite end point (Fisher and Tippett). Wood and Zhang fit its
location u to the maxima of many batches and take it for L. Measured, u falls below L in nearly
every run, and the likelihood's interval for u does not cover L at its level (in 4 of 40 runs for
s^2): with shapes v below 2 the likelihood is not regular. Noise for u would be too small.

So the sensitivity here is the upper end of an interval that covers. If the chance of a slope
within y of L goes with y^v, the largest slope X_1 and the second largest X_2 obey (de Haan 1981)

    P((L - X_1)/(X_1 - X_2) <= c) = (c/(1 + c))^v,

and L <= X_1 + c (X_1 - X_2) with the stated confidence for c/(1 + c) = confidence^{1/v}. A smooth
statistic of d coordinates has v <= d: d where it is steepest at a corner of the domain, d/2 inside.

An estimate proves nothing: a narrow steep place that no sample hit is not in it.
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
ROUNDING = 1e-8  # of slopes over steps of 1e-7 of the width
FLAT = 1e-9  # maxima that differ by less than this, relatively, are one number


@dataclass(frozen=True)
class ReverseWeibull:
    """P(X <= x) = exp(-((location - x)/scale)^shape), with the spread of the location.

    The spread says how well the fit is determined. It is no confidence interval of an end point:
    for shapes below 2 it covers far less often than stated; `upper_end` covers.
    """

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

    The interval {u : 2 (l(u*) - l(u)) <= chi^2_1(confidence)} is open (inf) at the top when the
    maxima do not show an end point. It does not cover the end point at its level when the shape is
    below 2, as for most slopes.
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


def upper_end(slopes: ArrayLike, shape: float = 1.0, confidence: float = 0.95) -> float:
    """X_1 + c (X_1 - X_2), c/(1 + c) = confidence^{1/shape}: above the end point so often."""
    _validate.probability(PrivacyError, confidence=confidence)
    _validate.positive(PrivacyError, shape=shape)
    x = np.asarray(slopes, dtype=np.float64).ravel()
    if x.size < 2 or not np.isfinite(x).all():
        raise PrivacyError(f"an end needs 2 finite slopes or more; found {x.size}")
    second, first = np.partition(x, x.size - 2)[-2:].tolist()
    share = confidence ** (1 / shape)
    return float((first + share / (1 - share) * (first - second)) * (1 + ROUNDING))


def estimate(
    statistic: Callable[[Array], ArrayLike],
    low: ArrayLike,
    high: ArrayLike,
    rng: np.random.Generator,
    *,
    radius: float = 1.0,
    closeness: float = 1e-6,
    batches: int = 200,
    pairs: int = 500,
    confidence: float = 0.95,
) -> SensitivityBound:
    """L radius, with L above the steepest slope of a smooth statistic in `confidence` of all runs.

    `largest` is the upper end of `spread`, whose lower end is the steepest slope that was seen and
    so is certain. The location that Wood and Zhang fit to the maxima of `batches` batches is in
    the reason; it is too small as a rule.

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
    top, end = float(slopes.max()), upper_end(slopes, float(a.size), confidence)
    return SensitivityBound(
        kind="estimated",
        status=ESTIMATED,
        reason=(
            f"the two largest of {batches * pairs} slopes, at a confidence of {confidence:g} for a "
            f"smooth statistic (the fit of Wood and Zhang says {fit.location * radius:.6g}, as a "
            "rule too little): a narrow steep place that no sample hit may exist"
        ),
        largest=end * radius,
        radius=radius,
        spread=(top * radius, end * radius),
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
