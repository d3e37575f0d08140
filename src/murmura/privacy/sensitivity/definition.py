"""Smooth sensitivity by its definition, and in closed form for xi = log s.

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
promises more: signals that differ by a fraction f of the radius have S within e^{gamma f}.

The maximum over y sits at a few public points or at s itself: LS falls at most at the rate gamma
wherever it is not a peak, so S is the upper envelope of tents over the peaks of LS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.families import Support
from murmura.families.support import number
from murmura.privacy.sensitivity.base import PROVED, REFUTED, Array, SensitivityBound, check_radius


def smoothing(epsilon: float, delta: float) -> float:
    """gamma = eps/(2 ln(2/delta)), which Nissim et al. (Cor. 2.4) pair with Lap(2 S/eps).

    It is safe up to eps = 7 (11 for delta <= 0.01), breaks beyond, and is far from tight at small
    eps: `SmoothLaplace` has the exact delta.
    """
    _validate.positive(PrivacyError, epsilon=epsilon, delta=delta)
    _validate.probability(PrivacyError, delta=delta)
    return epsilon / (2 * math.log(2 / delta))


def printed_smoothing(epsilons: Array, delta: float) -> Array:
    """2 S s / radius as printed: 2/(e gamma) with gamma = eps/(2 ln(2/delta)) (erratum 2)."""
    return 4 * math.log(2 / delta) / (math.e * epsilons)


def envelope(s: Array, points: Array, heights: Array, rate: float) -> Array:
    """max_j heights_j e^{-rate |s - points_j|}, the points in increasing order.

    By running maxima of log h + rate y (points left of s) and log h - rate y (right of s), in
    O(log m) per signal and without overflow.
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
) -> SensitivityBound:
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
    """
    domain = Support(low, high)
    check_radius(radius, domain)
    _validate.positive(PrivacyError, low=low, smoothing=smoothing)
    rate = smoothing / radius
    points = np.unique(np.clip(_log_points(low, high, radius, rate), low, min(high, 1e300)))
    rule = _LogRule(low, high, radius, points, rate)
    step = min(radius, high - low)
    return SensitivityBound(
        kind="smooth",
        status=PROVED,
        reason=f"the exact smooth sensitivity of log s for {domain.describe()}",
        largest=math.log1p(step / low),
        radius=radius,
        rule=rule,
        smoothing=smoothing,
        domain=domain,
        statistic=np.log,
    )


def _log_points(low: float, high: float, radius: float, rate: float) -> Array:
    from scipy.special import lambertw, wrightomega

    # low e^{W(x)} with x = 1/(rate low) is 1/(rate W(x)), and W(x) = wrightomega(log x).
    peak = 1 / (rate * float(wrightomega(-math.log(rate * low)).real))
    points = [low, low + radius, peak]
    if math.isfinite(high):
        points += [high, high - radius]
        if rate * high >= math.e:
            points.append(high * math.exp(float(lambertw(-1 / (rate * high)).real)))
    return np.array(points)


@dataclass(frozen=True)
class _PrintedRule:
    epsilon: float
    delta: float
    radius: float

    def __call__(self, s: Array) -> Array:
        twice = printed_smoothing(np.array(self.epsilon), self.delta)
        return twice * self.radius / (2 * s)


def printed(epsilon: float, delta: float, radius: float = 1.0) -> SensitivityBound:
    """S(s) = radius/(e gamma s), gamma = eps/(2 ln(2/delta)), as printed for xi = log s.

    Claimed, and refuted (erratum 2): it takes k/s for the move of log s over a distance k, which
    is right neither downwards, log(s/(s - k)) > k/s, nor smooth: S(s)/S(s') = s'/s has no bound
    on s > 0, where the true smooth sensitivity is infinite.
    """
    gamma = smoothing(epsilon, delta)
    _validate.positive(PrivacyError, radius=radius)
    return SensitivityBound(
        kind="smooth-printed",
        status=REFUTED,
        reason=f"the paper's 1/(e gamma s) with gamma = {number(gamma)} is not smooth (erratum 2)",
        largest=math.inf,
        radius=radius,
        rule=_PrintedRule(epsilon, delta, radius),
        smoothing=gamma,
        domain=Support(0.0, open_low=True),
        statistic=np.log,
    )
