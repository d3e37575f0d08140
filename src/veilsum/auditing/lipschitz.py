"""Sensitivity as radius times a Lipschitz constant: from derivatives, or estimated from slopes.

From derivatives
    Signals s in R^k are adjacent when ||s - s'||_1 <= radius; xi(s) in R^m has the Jacobian J(s),
    rows for the statistic, columns for the signal. On a box (or any convex domain)

        ||xi(s) - xi(s')||_1 <= integral ||J(s + t v) v||_1 dt
                             <= radius max_s max_j sum_i |J_ij(s)|

    since ||J v||_1 <= sum_j |v_j| ||J e_j||_1: the largest column sum. It is this l1 norm that
    counts under independent Laplace noise of one scale b, whose log density moves by
    ||xi - xi'||_1/b.

    - m = 1, a scalar statistic of a vector signal: the largest absolute partial derivative,
      ||grad xi||_inf, as the paper has it (Sec. 3).
    - k = 1, a vector statistic of a scalar signal: sum_i |xi_i'|. The largest partial derivative
      would be too small, by a factor of up to m.

    Both are attained along a coordinate axis, so they are the least Lipschitz constants.

From samples of slopes (Wood and Zhang 1996)

        L = max ||xi(s) - xi(s')||_1 / ||s - s'||_1,      sensitivity = L radius

    Slopes of random pairs that lie close together stay below L. The largest of a batch is one draw
    from a distribution with the end point L, and the largest of many tends to a reverse Weibull
    distribution,

        P(largest <= x) = exp(-((u - x)/w)^v),   x <= u,

    the only limit of maxima with a finite end point (Fisher and Tippett). Wood and Zhang fit its
    location u to the maxima of many batches and take it for L. Measured, u falls below L in nearly
    every run, and the likelihood's interval for u does not cover L at its level (in 4 of 40 runs
    for s^2): with shapes v below 2 the likelihood is not regular. Noise for u would be too small.

    So the sensitivity here is the upper end of an interval that covers. If the probability of a
    slope within y of L is proportional to y^v, the largest slope X_1 and the second largest X_2
    satisfy (de Haan 1981)

        P((L - X_1)/(X_1 - X_2) <= c) = (c/(1 + c))^v,

    and L <= X_1 + c (X_1 - X_2) with the stated confidence for c/(1 + c) = confidence^{1/v}. A
    smooth statistic of d coordinates has v <= d: d where it is steepest at a corner of the domain,
    d/2 inside.

    An estimate proves nothing: a narrow steep place that no sample hit is not in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _extras, _validate
from veilsum._statistic import Array, Statistic, Status
from veilsum.errors import PrivacyError
from veilsum.families.support import number

Jacobian = Callable[[Array], ArrayLike]

MOST_POINTS = 1 << 20  # of a lattice
LEAST_SHAPE = 1.0  # below it the likelihood has no maximum: it grows without limit as u -> max x
ROUNDING = 1e-8  # of slopes over steps of 1e-7 of the width
FLAT = 1e-9  # maxima that differ by less than this, relatively, are one number


def column_sums(jacobian: ArrayLike) -> Array:
    """max_j sum_i |J_ij| for Jacobians (..., m, k): the norm of J from l1 to l1.

    Parameters
    ----------
    jacobian : array_like
        Of shape (..., m, k).

    Returns
    -------
    ndarray
        Of shape (...).

    Examples
    --------
    >>> float(column_sums([[1.0, -2.0], [3.0, 1.0]]))
    4.0
    """
    return np.asarray(np.abs(np.asarray(jacobian, dtype=np.float64)).sum(axis=-2).max(axis=-1))


def gradient(
    jacobian: Jacobian,
    low: ArrayLike,
    high: ArrayLike,
    *,
    radius: float = 1.0,
    change: float | None = None,
    points: int = 1 << 14,
) -> Statistic:
    """Delta = radius max_s max_j sum_i |J_ij(s)| over the box low <= s <= high.

    Parameters
    ----------
    jacobian : callable
        From (p, k) signals to (p, k) gradients of a scalar statistic, or (p, m, k) Jacobians.
    low, high : array_like
        The corners of the box.
    radius : float
        By how much a signal may move, in l1 norm.
    change : float, optional
        A bound, stated by the author, on how much the column sums change per unit of ||s||_1: with
        it the largest value on the lattice plus change times half a cell is an upper bound,
        claimed; without it the largest value on the lattice is polished, and estimated.
    points : int
        About how many points the lattice has.

    Returns
    -------
    Statistic
        Claimed or estimated.

    Raises
    ------
    PrivacyError
        If the box is not finite, or a derivative is not finite on it.

    Examples
    --------
    >>> gradient(lambda s: 2 * s, 0.0, 3.0).l1
    6.0
    """
    a, b = _box(low, high)
    _validate.positive(PrivacyError, radius=radius)
    lattice, half = _lattice(a, b, points)
    steepest = _norms(jacobian, lattice)
    if change is not None:
        _validate.positive(PrivacyError, change=change)
        worst = float(steepest.max()) + change * half
        how = f"column sums that change by at most {number(change)} per unit as stated"
        return _bound(worst * radius, radius, how, Status.CLAIMED)
    worst = _polish(jacobian, a, b, lattice[np.argsort(steepest)[-8:]])
    return _bound(
        worst * radius, radius, "the steepest place that a search found", Status.ESTIMATED
    )


def _bound(value: float, radius: float, how: str, status: Status) -> Statistic:
    return Statistic(
        value,
        status=status,
        reason=f"{how}: at most {number(value / radius)} per unit in l1 norm",
    )


def _box(low: ArrayLike, high: ArrayLike) -> tuple[Array, Array]:
    ends = np.broadcast_arrays(
        np.atleast_1d(np.asarray(low, dtype=np.float64)),
        np.atleast_1d(np.asarray(high, dtype=np.float64)),
    )
    a, b = (np.array(end) for end in ends)
    if a.ndim != 1 or not (np.isfinite(a).all() and np.isfinite(b).all() and (a < b).all()):
        raise PrivacyError(
            "a box needs finite ends with low < high in every coordinate; "
            f"found low={a.tolist()}, high={b.tolist()}"
        )
    return a, b


def _lattice(a: Array, b: Array, points: int) -> tuple[Array, float]:
    """Lattice points of the box, and the l1 distance to the nearest one at most."""
    k = a.size
    if 2**k > MOST_POINTS:
        raise PrivacyError(f"a lattice in {k} dimensions has too many corners; bound J by hand")
    _validate.at_least(PrivacyError, 2, points=points)
    each = max(2, math.floor(min(points, MOST_POINTS) ** (1 / k) + 1e-9))
    axes = [np.linspace(low, high, each) for low, high in zip(a, b, strict=True)]
    grid = np.array(list(itertools.product(*axes)))
    return grid, float(((b - a) / (each - 1)).sum() / 2)


def _norms(jacobian: Jacobian, s: Array) -> Array:
    J = np.asarray(jacobian(s), dtype=np.float64)
    J = J[:, None, :] if J.ndim == 2 else J
    if J.ndim != 3 or J.shape[0] != s.shape[0] or J.shape[2] != s.shape[1]:
        raise PrivacyError(
            f"the jacobian must map (p, k) = {s.shape} signals to (p, k) or (p, m, k); "
            f"found {J.shape}"
        )
    norms = column_sums(J)
    if not np.isfinite(norms).all():
        raise PrivacyError("the derivative is not finite on the whole box; give narrower bounds")
    return norms


def _polish(jacobian: Jacobian, a: Array, b: Array, starts: Array) -> float:
    """The largest column sum near the best lattice points, by a pattern search in the box."""
    best, at, step = _norms(jacobian, starts), starts.copy(), (b - a) / 4
    moves = np.concatenate([np.eye(a.size), -np.eye(a.size)])
    while (step > 1e-12 * (b - a)).any():
        near = np.clip(at[:, None, :] + moves * step, a, b)
        found = _norms(jacobian, near.reshape(-1, a.size)).reshape(near.shape[:2])
        k = found.argmax(axis=1)
        row = np.arange(at.shape[0])
        better = found[row, k] > best
        at[better], best[better] = near[row, k][better], found[row, k][better]
        step = step if better.any() else step / 2
    return float(best.max())


@dataclass(frozen=True)
class ReverseWeibull:
    """P(X <= x) = exp(-((location - x)/scale)^shape), with the spread of the location.

    The spread measures how well the fit is determined. It is not a confidence interval of an end
    point: for shapes below 2 it covers far less often than stated; `upper_end` covers.

    Attributes
    ----------
    location, scale, shape : float
        The parameters.
    spread : tuple of float
        The likelihood-ratio interval of the location.

    Examples
    --------
    >>> ReverseWeibull(2.0, 1.0, 1.0, (1.9, 2.2)).location
    2.0
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
    maxima do not determine an end point. It does not cover the end point at its level when the
    shape is below 2, as for most slopes.

    Parameters
    ----------
    maxima : array_like
        Largest slopes of batches, 10 or more.
    confidence : float
        Of the spread.

    Returns
    -------
    ReverseWeibull
        The fit.

    Raises
    ------
    PrivacyError
        If there are fewer than 10 maxima, or one is not finite.

    Examples
    --------
    >>> fit_reverse_weibull([2.0] * 10).location
    2.0
    """
    chdtri = _extras.load("scipy.special").chdtri
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
    """X_1 + c (X_1 - X_2), c/(1 + c) = confidence^{1/shape}: above the end point so often.

    Parameters
    ----------
    slopes : array_like
        2 or more.
    shape : float
        v of the distribution near its end point.
    confidence : float
        With which the result exceeds the end point.

    Returns
    -------
    float
        The upper end.

    Raises
    ------
    PrivacyError
        If there are fewer than 2 slopes, or one is not finite.

    Examples
    --------
    >>> round(upper_end([1.0, 2.0], confidence=0.5), 6)
    3.0
    """
    _validate.probability(PrivacyError, confidence=confidence)
    _validate.positive(PrivacyError, shape=shape)
    x = np.asarray(slopes, dtype=np.float64).ravel()
    if x.size < 2 or not np.isfinite(x).all():
        raise PrivacyError(f"an end needs 2 finite slopes or more; found {x.size}")
    second, first = np.partition(x, x.size - 2)[-2:].tolist()
    level = confidence ** (1 / shape)
    return float((first + level / (1 - level) * (first - second)) * (1 + ROUNDING))


class Estimate(NamedTuple):
    """How far a statistic moves, estimated, and the largest move that was seen: the truth is no less."""

    statistic: Statistic
    seen: float


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
) -> Estimate:
    """L radius, with L above the steepest slope of a smooth statistic in `confidence` of all runs.

    The steepest slope that was sampled is certain. The location that Wood and Zhang fit
    to the maxima of the batches is in the reason; it is usually too small. Points are sampled from the
    domain, never taken from real signals: a sensitivity fitted to those would be as private as they are.

    Parameters
    ----------
    statistic : callable
        xi, from signals (p,), or (p, k) for vectors, to (p, ...).
    low, high : float or array_like
        The domain: numbers for scalar signals, vectors of length k for vectors, whose pairs differ
        in one coordinate, where the l1 slope has its maximum (see `gradient`).
    rng : numpy.random.Generator
        The source of randomness.
    radius : float
        By how much a signal may move.
    closeness : float
        Each pair lies within this part of the width, and no nearer than a tenth of that.
    batches, pairs : int
        How many batches, and pairs in each.
    confidence : float
        With which the bound holds for a smooth statistic.

    Returns
    -------
    Estimate
        The statistic, estimated, and the move that was seen.

    Raises
    ------
    PrivacyError
        If an argument is outside its range, or a value of the statistic is not finite.

    Examples
    --------
    >>> found = estimate(np.square, 0.0, 1.0, np.random.default_rng(1), pairs=100)
    >>> found.statistic.status, bool(1.99 < found.seen <= 2.0 < found.statistic.l1)
    (<Status.ESTIMATED: 'estimated'>, True)
    """
    _validate.positive(PrivacyError, radius=radius, closeness=closeness)
    _validate.at_least(PrivacyError, 10, batches=batches)
    _validate.at_least(PrivacyError, 2, pairs=pairs)
    scalar = np.ndim(low) == 0 and np.ndim(high) == 0
    a, b = _box(low, high)
    slopes = _slopes(statistic, a, b, rng, batches * pairs, min(closeness, 1.0), scalar)
    fit = fit_reverse_weibull(slopes.reshape(batches, pairs).max(axis=1), confidence)
    top, end = float(slopes.max()), upper_end(slopes, float(a.size), confidence)
    moved = Statistic(
        end * radius,
        status=Status.ESTIMATED,
        reason=(
            f"the two largest of {batches * pairs} slopes, at a confidence of {confidence:g} for a "
            f"smooth statistic (the fit of Wood and Zhang is {fit.location * radius:.6g}, usually "
            "too small): a narrow steep place that no sample hit may exist"
        ),
    )
    return Estimate(moved, top * radius)


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
    distance = np.abs(there - s)[row, j]
    return np.asarray(move.reshape(count, -1).sum(axis=1) / distance)
