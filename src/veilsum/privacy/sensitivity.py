"""Smooth sensitivity: in closed form for xi = log s, numerically for any statistic.

    S(s) = max_y e^{-gamma |s - y|/radius} LS(y),
    LS(y) = max { |xi(z) - xi(y)| : |z - y| <= radius },      y, z over the whole domain

It is what the noise of a data-dependent scale needs (Nissim, Raskhodnikova and Smith 2007):

1. S(s) >= LS(s): take y = s.
2. S(s) <= e^gamma S(s') for adjacent s, s': with d(s, y) = |s - y|/radius the triangle inequality
   gives d(s', y) <= d(s, y) + 1, so every term of S(s) is at most e^gamma times that of S(s').

Distance is counted in moves of size `radius`, the unit of adjacency; e^{-gamma |s - y|} is the
case radius = 1, and smooth in no other. Nissim et al. count whole moves, ceil(|s - y|/radius),
which obeys the triangle inequality too and gives the least smooth bound of all. Counting
fractions costs at most a factor e^gamma (a tenth at eps = 1, delta = 0.01), is continuous in s and
guarantees more: signals that differ by a fraction f of the radius have S within e^{gamma f}.

The maximum over y sits at a few public points or at s itself: LS falls at most at the rate gamma
wherever it is not a peak, so S is the upper envelope of tents over the peaks of LS.

Numerically, for any statistic:

- integers: every y of the domain is evaluated; proved.
- reals, with a Lipschitz constant L stated by the author: an upper bound of S on a lattice, which
  is itself smooth; proved if L is right, hence claimed. An L that the lattice contradicts raises
  `PrivacyError`.
- reals without one: the peaks of LS are searched for and polished. Accurate to rounding where the
  lattice resolves every turning point of xi, but a search proves nothing; estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _extras, _validate
from veilsum._statistic import Array, ScaleRule, Statistic, Status
from veilsum.errors import PrivacyError
from veilsum.families import Support
from veilsum.families.support import number

__all__ = ["as_published", "smooth", "smooth_log", "smoothing"]

MOST_POINTS = 10_000_000
GOLDEN = (math.sqrt(5) - 1) / 2


def smoothing(epsilon: float, delta: float) -> float:
    """gamma = eps/(2 ln(2/delta)), which Nissim et al. (Cor. 2.4) pair with Lap(2 S/eps).

    It holds up to eps = 7 (11 for delta <= 0.01), fails beyond, and is far from tight at small
    eps: `SmoothLaplaceMechanism` computes the exact delta.

    Parameters
    ----------
    epsilon, delta : float
        Above 0.

    Returns
    -------
    float
        gamma.

    Raises
    ------
    PrivacyError
        If a number is outside its range.

    Examples
    --------
    >>> round(smoothing(1.0, 0.01), 4)
    0.0944
    """
    _validate.positive(PrivacyError, epsilon=epsilon, delta=delta)
    _validate.probability(PrivacyError, delta=delta)
    return epsilon / (2 * math.log(2 / delta))


def factor_as_published(epsilons: Array, delta: float) -> Array:
    """2 S s / radius as published: 2/(e gamma) with gamma = eps/(2 ln(2/delta)) (erratum 2)."""
    return 4 * math.log(2 / delta) / (math.e * epsilons)


def envelope(s: Array, points: Array, heights: Array, rate: float) -> Array:
    """max_j heights_j e^{-rate |s - points_j|}, the points in increasing order.

    By running maxima of log h + rate y (points left of s) and log h - rate y (right of s), in
    O(log m) per signal and without overflow.

    Examples
    --------
    >>> envelope(np.array([0.0, 1.0]), np.array([1.0]), np.array([2.0]), rate=0.0).round(9).tolist()
    [2.0, 2.0]
    """
    offset, at = points - points[0], np.asarray(s) - points[0]
    with np.errstate(divide="ignore"):
        log = np.log(heights)
    left = np.maximum.accumulate(log + rate * offset)
    right = np.maximum.accumulate((log - rate * offset)[::-1])[::-1]
    k = np.searchsorted(offset, at, side="right")  # offset[k - 1] <= s < offset[k]
    below = np.where(k > 0, left[np.maximum(k - 1, 0)] - rate * at, -math.inf)
    above = np.where(k < points.size, right[np.minimum(k, points.size - 1)] + rate * at, -math.inf)
    return np.asarray(np.exp(np.maximum(below, above)))


@dataclass(frozen=True, eq=False)
class _LogRule:
    """S(s) = max(LS(s), tents over the public points)."""

    low: float
    high: float
    radius: float
    points: Array
    rate: float

    def local(self, y: Array) -> Array:
        """LS(y) = max(log(y/max(low, y - radius)), log(min(high, y + radius)/y))."""
        down = np.minimum(self.radius, y - self.low) / y
        up = np.minimum(self.radius, self.high - y) / y
        return np.maximum(-np.log1p(-down), np.log1p(up))

    def __call__(self, s: Array) -> Array:
        tents = envelope(s, self.points, self.local(self.points), self.rate)
        return np.maximum(self.local(s), tents)


def smooth_log(
    low: float, high: float = math.inf, *, smoothing: float, radius: float = 1.0
) -> Statistic:
    """S for xi = log s on [low, high], low > 0: a maximum over s and six public points.

    Going down log moves by D(y) = log(y/max(low, y - r)), going up by U(y) = log(min(high, y+r)/y),
    and D >= U wherever y - r >= low. With weights e^{-k|s-y|}, k = gamma/r:

    - y >= low + r: LS = log(y/(y - r)) falls, so look left of s only. (log LS + k y)' =
      k - r/(y (y - r) log(y/(y - r))), whose last term falls in y: no interior maximum, so the
      best y is s or low + r.
    - y < low + r, going down, LS = log(y/low) rises, so look right of s only: (log LS - k y)' =
      1/(y log(y/low)) - k vanishes once, at y = low e^{W(1/(k low))}.
    - y < low + r, going up, look left of s only: log((y + r)/y) has no interior maximum as above,
      which leaves low and high - r; log(high/y) has one, at y = high e^{W_0(-1/(k high))}, if real.

    W is Lambert's function. Every candidate is evaluated with LS itself, so that one that does not
    apply does no harm; with S >= LS(s) and all six points public, S is exact.

    Parameters
    ----------
    low, high : float
        The public bounds of the signals, 0 < low < high.
    smoothing : float
        gamma.
    radius : float
        By how much a signal may move.

    Returns
    -------
    Statistic
        Proved, with a scale rule.

    Raises
    ------
    PrivacyError
        If a number is outside its range.

    Examples
    --------
    >>> bound = smooth_log(0.5, 20.0, smoothing=smoothing(1.0, 0.01))
    >>> bound.at([0.5, 5.0, 20.0]).round(3).tolist()
    [1.099, 0.79, 0.192]
    """
    domain = Support(low, high)
    check_radius(radius, domain)
    _validate.positive(PrivacyError, low=low, smoothing=smoothing)
    rate = smoothing / radius
    points = np.unique(np.clip(_log_points(low, high, radius, rate), low, min(high, 1e300)))
    rule = _LogRule(low, high, radius, points, rate)
    step = min(radius, high - low)
    return Statistic(
        math.log1p(step / low),
        status=Status.PROVED,
        reason=f"the exact smooth sensitivity of log s for {domain.describe()}",
        scale=ScaleRule(rule, np.log, smoothing, radius, domain, _least_log(low, high, radius)),
    )


def _least_log(low: float, high: float, radius: float) -> float:
    """The local sensitivity of log s, which the smooth one is no less than, is no less than this.

    Where a whole radius fits above or below s, log s moves by at least log(1 + r/high); where none
    does, both ends are within reach, and one of them is log(high/low)/2 away.
    """
    return min(math.log1p(radius / high), math.log(high / low) / 2)


def _log_points(low: float, high: float, radius: float, rate: float) -> Array:
    lambertw = _extras.load("scipy.special").lambertw
    wrightomega = _extras.load("scipy.special").wrightomega
    # low e^{W(x)} with x = 1/(rate low) is 1/(rate W(x)), and W(x) = wrightomega(log x).
    peak = 1 / (rate * float(wrightomega(-math.log(rate * low)).real))
    points = [low, low + radius, peak]
    if math.isfinite(high):
        points += [high, high - radius]
        if rate * high >= math.e:
            points.append(high * math.exp(float(lambertw(-1 / (rate * high)).real)))
    return np.array(points)


@dataclass(frozen=True)
class _PublishedRule:
    epsilon: float
    delta: float
    radius: float

    def __call__(self, s: Array) -> Array:
        twice = factor_as_published(np.array(self.epsilon), self.delta)
        return twice * self.radius / (2 * s)


def as_published(epsilon: float, delta: float, radius: float = 1.0) -> Statistic:
    """S(s) = radius/(e gamma s), gamma = eps/(2 ln(2/delta)), as published for xi = log s.

    Claimed, and refuted (erratum 2): it takes k/s for the move of log s over a distance k, which
    is neither right downwards, log(s/(s - k)) > k/s, nor smooth: S(s)/S(s') = s'/s has no bound
    on s > 0, where the true smooth sensitivity is infinite. On a domain with a public floor noise of
    this scale may be private all the same: `veilsum.privacy.published` computes what it spends.

    Parameters
    ----------
    epsilon, delta : float
        Above 0.
    radius : float
        By how much a signal may move.

    Returns
    -------
    Statistic
        Refuted, on s > 0.

    Examples
    --------
    >>> as_published(1.0, 0.01).at([0.5, 5.0]).round(3).tolist()
    [7.797, 0.78]
    """
    gamma = smoothing(epsilon, delta)
    _validate.positive(PrivacyError, radius=radius)
    domain = Support(0.0, open_low=True)
    return Statistic(
        math.inf,
        status=Status.REFUTED,
        reason=f"the paper's 1/(e gamma s) with gamma = {number(gamma)} is not smooth (erratum 2)",
        scale=ScaleRule(_PublishedRule(epsilon, delta, radius), np.log, gamma, radius, domain),
    )


def smooth(
    statistic: Callable[[Array], ArrayLike],
    domain: Support,
    *,
    smoothing: float,
    radius: float = 1.0,
    lipschitz: float | None = None,
    resolution: int = 1 << 14,
) -> Statistic:
    """S(s) for a vectorised statistic of one number on a bounded domain.

    Parameters
    ----------
    statistic : callable
        xi, from an array of signals to an array of the same shape.
    domain : Support
        Bounded.
    smoothing : float
        gamma.
    radius : float
        By how much a signal may move.
    lipschitz : float, optional
        The largest |xi(s) - xi(s')|/|s - s'|: turns the search into an upper bound that holds if
        the constant does. Not used for integers.
    resolution : int
        The number of cells of the lattice. Not used for integers.

    Returns
    -------
    Statistic
        Proved for integers, claimed with a Lipschitz constant, else estimated.

    Raises
    ------
    PrivacyError
        If the domain is not bounded, a value of the statistic is not finite, or the lattice
        contradicts `lipschitz`.

    Examples
    --------
    >>> bound = smooth(np.square, Support(0, 9, integer=True), smoothing=0.5)
    >>> bound.status, bound.at([0.0, 9.0]).round(3).tolist()
    (<Status.PROVED: 'proved'>, [1.839, 17.0])
    """
    check_radius(radius, domain)
    _validate.positive(PrivacyError, smoothing=smoothing)
    _validate.at_least(PrivacyError, 16, resolution=resolution)
    if not math.isfinite(domain.high - domain.low):
        raise PrivacyError(
            f"smooth sensitivity needs a bounded domain; found {domain.describe()}; give bounds"
        )
    if domain.integer:
        return _over_integers(statistic, domain, math.floor(radius), smoothing)
    if lipschitz is not None:
        return _certified(statistic, domain, radius, smoothing, lipschitz, resolution)
    return _searched(statistic, domain, radius, smoothing, resolution)


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
    statistic: Callable[[Array], ArrayLike],
    tents: _Tents,
    status: Status,
    how: str,
    domain: Support,
    radius: float,
) -> Statistic:
    return Statistic(
        min(float(tents.heights.max()), tents.cap),
        status=status,
        reason=f"{how} for {domain.describe()}",
        scale=ScaleRule(tents, statistic, tents.rate * radius, radius, domain),
    )


def _values(statistic: Callable[[Array], ArrayLike], points: Array) -> Array:
    xi = np.asarray(statistic(points), dtype=np.float64)
    if xi.shape != points.shape or not np.isfinite(xi).all():
        raise PrivacyError(
            f"the statistic must map {points.shape} signals of the domain to as many finite "
            f"numbers; found shape {xi.shape}, {int((~np.isfinite(xi)).sum())} not finite"
        )
    return xi


def _moves(xi: Array, cells: int) -> Array:
    """LS on a lattice: the largest |xi_k - xi_j| with |k - j| <= cells, by running extremes."""
    maximum_filter1d = _extras.load("scipy.ndimage").maximum_filter1d
    minimum_filter1d = _extras.load("scipy.ndimage").minimum_filter1d
    size = 2 * min(cells, xi.size) + 1
    most = maximum_filter1d(xi, size, mode="nearest")
    least = minimum_filter1d(xi, size, mode="nearest")
    return np.asarray(np.maximum(most - xi, xi - least))


def _over_integers(
    statistic: Callable[[Array], ArrayLike], domain: Support, radius: int, gamma: float
) -> Statistic:
    """The maximum over every whole number of the domain: the definition itself."""
    count = domain.high - domain.low + 1
    if count > MOST_POINTS:
        raise PrivacyError(f"{number(count)} values are too many to evaluate; give narrower bounds")
    y = np.arange(domain.low, domain.high + 1)
    tents = _Tents(y, _moves(_values(statistic, y), radius), gamma / radius)
    return _bound(
        statistic,
        tents,
        Status.PROVED,
        "the exact smooth sensitivity over all values",
        domain,
        float(radius),
    )


def _certified(
    statistic: Callable[[Array], ArrayLike],
    domain: Support,
    radius: float,
    gamma: float,
    lipschitz: float,
    resolution: int,
) -> Statistic:
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
    return _bound(statistic, tents, Status.CLAIMED, how, domain, radius)


@dataclass(frozen=True, eq=False)
class _Local:
    """LS(y) = max |xi(z) - xi(y)| over the ends of the window and the turning points in it."""

    statistic: Callable[[Array], ArrayLike]
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
    statistic: Callable[[Array], ArrayLike],
    domain: Support,
    radius: float,
    gamma: float,
    resolution: int,
) -> Statistic:
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
        statistic,
        tents,
        Status.ESTIMATED,
        "a search for the steepest places, which may miss one",
        domain,
        radius,
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


def check_radius(radius: float, domain: Support) -> None:
    """Raise unless the radius is finite and above 0, and at least 1 where signals are integers."""
    _validate.positive(PrivacyError, radius=radius)
    if domain.integer and radius < 1:
        raise PrivacyError(
            f"radius must be at least 1 for whole numbers; found {number(radius)}: "
            "no two signals are adjacent, so the guarantee would be empty"
        )
