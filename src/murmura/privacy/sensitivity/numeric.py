"""Smooth sensitivity of any statistic: exact for whole numbers, bounded or searched for reals.

    S(s) = max_y e^{-gamma |s - y|/radius} LS(y)

- whole numbers: every y of the domain is looked at; proved.
- reals, with a Lipschitz constant L that the author vouches for: an upper bound of S on a lattice,
  which is itself smooth; proved if L is right, hence claimed. An L that the lattice refutes is
  refused.
- reals without one: the peaks of LS are searched for and polished. Accurate to rounding where the
  lattice sees every turning point of xi, but a search proves nothing; estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.families import Support
from murmura.families.support import number
from murmura.privacy.guarantee import Status
from murmura.privacy.sensitivity.base import (
    CLAIMED,
    ESTIMATED,
    PROVED,
    Array,
    SensitivityBound,
    check_radius,
)
from murmura.privacy.sensitivity.definition import envelope

Statistic = Callable[[Array], ArrayLike]

MOST_POINTS = 10_000_000
GOLDEN = (math.sqrt(5) - 1) / 2


def smooth(
    statistic: Statistic,
    domain: Support,
    *,
    smoothing: float,
    radius: float = 1.0,
    lipschitz: float | None = None,
    resolution: int = 1 << 14,
) -> SensitivityBound:
    """S(s) for a vectorised statistic of one number on a bounded domain.

    `lipschitz`, the largest |xi(s) - xi(s')|/|s - s'|, turns the search into an upper bound
    that holds if the constant does; `resolution` is the number of cells of the lattice. Whole
    numbers need neither.
    """
    check_radius(radius, domain)
    _validate.positive(PrivacyError, smoothing=smoothing)
    _validate.at_least(PrivacyError, 16, resolution=resolution)
    if not math.isfinite(domain.high - domain.low):
        raise PrivacyError(
            f"smooth sensitivity needs a bounded domain; found {domain.describe()}; give bounds"
        )
    if domain.integer:
        found = _whole(statistic, domain, math.floor(radius), smoothing)
    elif lipschitz is not None:
        found = _certified(statistic, domain, radius, smoothing, lipschitz, resolution)
    else:
        found = _searched(statistic, domain, radius, smoothing, resolution)
    return replace(found, statistic=statistic)


@dataclass(frozen=True, eq=False)
class _Tents:
    """S(s) = min(cap, max(own(s), tents over the points))."""

    points: Array
    heights: Array
    rate: float
    cap: float = math.inf
    own: Callable[[Array], Array] | None = None

    def __call__(self, s: Array) -> Array:
        tents = envelope(s, self.points, self.heights, self.rate)
        S = tents if self.own is None else np.maximum(self.own(s), tents)
        return np.minimum(S, self.cap)


def _bound(
    tents: _Tents, status: Status, how: str, domain: Support, radius: float
) -> SensitivityBound:
    return SensitivityBound(
        kind="smooth",
        status=status,
        reason=f"{how} for {domain.describe()}",
        largest=min(float(tents.heights.max()), tents.cap),
        radius=radius,
        rule=tents,
        smoothing=tents.rate * radius,
        domain=domain,
    )


def _values(statistic: Statistic, points: Array) -> Array:
    xi = np.asarray(statistic(points), dtype=np.float64)
    if xi.shape != points.shape or not np.isfinite(xi).all():
        raise PrivacyError(
            f"the statistic must map {points.shape} signals of the domain to as many finite "
            f"numbers; found shape {xi.shape}, {int((~np.isfinite(xi)).sum())} not finite"
        )
    return xi


def _moves(xi: Array, cells: int) -> Array:
    """LS on a lattice: the largest |xi_k - xi_j| with |k - j| <= cells, by running extremes."""
    from scipy.ndimage import maximum_filter1d, minimum_filter1d

    size = 2 * min(cells, xi.size) + 1
    most = maximum_filter1d(xi, size, mode="nearest")
    least = minimum_filter1d(xi, size, mode="nearest")
    return np.asarray(np.maximum(most - xi, xi - least))


def _whole(statistic: Statistic, domain: Support, radius: int, gamma: float) -> SensitivityBound:
    """The maximum over every whole number of the domain: the definition itself."""
    count = domain.high - domain.low + 1
    if count > MOST_POINTS:
        raise PrivacyError(f"{number(count)} values are too many to look at; give narrower bounds")
    y = np.arange(domain.low, domain.high + 1)
    tents = _Tents(y, _moves(_values(statistic, y), radius), gamma / radius)
    return _bound(
        tents, PROVED, "the exact smooth sensitivity over all values", domain, float(radius)
    )


def _certified(
    statistic: Statistic,
    domain: Support,
    radius: float,
    gamma: float,
    lipschitz: float,
    resolution: int,
) -> SensitivityBound:
    """min(L r, e^{gamma w/(2 r)} max_j e^{-gamma |s - y_j|/r} (LS_{r+w}(y_j) + L w)) >= S(s).

    Move y and z to their nearest lattice points: xi moves by at most L w/2 at either, z - y grows
    by at most w, |s - y| falls by at most w/2. So no term of S(s) is missed. Tents are
    gamma-smooth, a constant is, and so is the smaller of two smooth bounds.
    """
    _validate.positive(PrivacyError, lipschitz=lipschitz)
    y, w = np.linspace(domain.low, domain.high, resolution + 1, retstep=True)
    rate, cells = gamma / radius, math.floor(radius / float(w)) + 1
    xi = _values(statistic, y)
    steepest = float(np.abs(np.diff(xi)).max() / w)
    if steepest > lipschitz * (1 + 1e-6):
        raise PrivacyError(
            f"lipschitz = {number(lipschitz)} is too small: the statistic moves by "
            f"{number(steepest)} per unit between two points of the lattice"
        )
    moves = _moves(xi, cells) + lipschitz * float(w)
    heights = moves * math.exp(rate * float(w) / 2)
    tents = _Tents(y, heights, rate, cap=lipschitz * min(radius, domain.high - domain.low))
    how = f"an upper bound, if xi moves by at most {number(lipschitz)} per unit as stated,"
    return _bound(tents, CLAIMED, how, domain, radius)


@dataclass(frozen=True, eq=False)
class _Local:
    """LS(y) = max |xi(z) - xi(y)| over the ends of the window and the turning points in it."""

    statistic: Statistic
    domain: Support
    radius: float
    turns: Array
    extremes: Array

    def __call__(self, y: Array) -> Array:
        low = np.maximum(y - self.radius, self.domain.low)
        high = np.minimum(y + self.radius, self.domain.high)
        xi = _values(self.statistic, y)
        ends = [np.abs(_values(self.statistic, end) - xi) for end in (low, high)]
        move = np.maximum(*ends)
        for at, value in zip(self.turns, self.extremes, strict=True):
            inside = (low <= at) & (at <= high)
            move = np.maximum(move, np.where(inside, np.abs(value - xi), 0))
        return move


def _searched(
    statistic: Statistic, domain: Support, radius: float, gamma: float, resolution: int
) -> SensitivityBound:
    """Turning points of xi, then peaks of log LS + k y and log LS - k y, each polished.

    Left of s the best y is s or a local maximum of LS e^{ky}, right of s of LS e^{-ky}, k =
    gamma/radius. LS has kinks where its window meets a turning point or an end of the domain:
    those are candidates too. Every candidate is evaluated with LS, so nothing is overstated.
    """
    rate, y = gamma / radius, np.linspace(domain.low, domain.high, resolution + 1)

    def xi(points: Array) -> Array:
        return _values(statistic, points)

    turns = np.concatenate([_peaks(xi, y), _peaks(lambda p: -xi(p), y)])
    local = _Local(statistic, domain, radius, turns, xi(turns))
    kinks = np.concatenate([turns, [domain.low, domain.high]])
    kinks = np.concatenate([kinks, kinks - radius, kinks + radius])
    kinks = kinks[(kinks >= domain.low) & (kinks <= domain.high)]
    y = np.unique(np.concatenate([y, kinks]))

    def tilted(slope: float) -> Callable[[Array], Array]:
        def log(points: Array) -> Array:
            with np.errstate(divide="ignore"):
                return np.log(local(points)) + slope * (points - domain.low)

        return log

    peaks = [_peaks(tilted(slope), y) for slope in (rate, -rate, 0.0)]  # 0: the largest S of all
    points = np.unique(np.concatenate([kinks, *peaks]))
    tents = _Tents(points, local(points), rate, own=local)
    return _bound(
        tents, ESTIMATED, "a search for the steepest places, which may miss one", domain, radius
    )


def _peaks(f: Callable[[Array], Array], y: Array) -> Array:
    """Interior local maxima of f: bracketed by the lattice y, polished by golden section."""
    v = f(y)
    k = np.flatnonzero((v[1:-1] > v[:-2]) & (v[1:-1] >= v[2:])) + 1
    if k.size == 0:
        return np.empty(0)
    a, b, middle = y[k - 1], y[k + 1], y[k]
    for _ in range(80):
        reach = GOLDEN * (b - a)
        c, d = b - reach, a + reach
        right = f(c) < f(d)
        a, b = np.where(right, c, a), np.where(right, b, d)
    polished = (a + b) / 2
    return np.asarray(np.where(f(polished) >= v[k], polished, middle))
