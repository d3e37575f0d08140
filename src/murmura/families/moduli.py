"""Moduli of continuity: how far xi can move when s moves by `radius` inside [low, high].

    omega(radius) = sup { |xi(s) - xi(s')| : low <= s, s' <= high, |s - s'| <= radius }

For an increasing xi the worst pair is as far apart as allowed and sits where xi is steepest: at
the low end if xi is concave (log s, log(1 + s), s^k with k <= 1), at the high end if it is convex.
"""

from __future__ import annotations

import math

import numpy as np

from murmura.families.base import Sensitivity
from murmura.families.support import Support, number


def linear(support: Support, radius: float) -> Sensitivity:
    """xi(s) = s:  omega = min(radius, high - low)."""
    width = support.high - support.low
    if math.isinf(min(radius, width)):
        return Sensitivity(math.inf, _unbounded("s"))
    if width <= radius:
        return Sensitivity(width, f"s is the statistic, and stays within {support.describe()}")
    return Sensitivity(radius, f"s is the statistic, and moves by at most {number(radius)}")


def log(support: Support, radius: float, instead: str) -> Sensitivity:
    """xi(s) = log s:  omega = min(log(1 + radius/low), log(high/low)), infinite at low = 0."""
    low, high = support.low, support.high
    if low <= 0:
        return Sensitivity(
            math.inf,
            "log s falls without limit as s nears 0, so no noise hides a move there: give "
            f"bounds=(floor, None) with a floor above 0{instead}",
        )
    value = min(math.log1p(radius / low), math.log(high) - math.log(low))
    if math.isinf(value):
        return Sensitivity(math.inf, _unbounded("log s"))
    if high - low <= radius:
        return Sensitivity(value, f"log s spans log({number(high)}/{number(low)})")
    return Sensitivity(
        value,
        f"log s is steepest at its floor: it moves by at most "
        f"log(1 + {number(radius)}/{number(low)})",
    )


def log1p(support: Support, radius: float) -> Sensitivity:
    """xi(s) = log(1 + s):  omega = log((1 + low + step)/(1 + low)), step = min(radius, width)."""
    low, step = support.low, min(radius, support.high - support.low)
    if math.isinf(step):
        return Sensitivity(math.inf, _unbounded("log(1 + s)"))
    return Sensitivity(
        math.log1p(step / (1 + low)),
        f"log(1 + s) is steepest at s = {number(low)}: it moves by at most "
        f"log(1 + {number(step)}/{number(1 + low)})",
    )


def power(support: Support, radius: float, k: float) -> Sensitivity:
    """xi(s) = s^k:  omega = (low + step)^k - low^k if k <= 1, high^k - (high - step)^k if k > 1."""
    low, high = support.low, support.high
    step = min(radius, high - low)
    if math.isinf(step) or (k > 1 and math.isinf(high)):
        return Sensitivity(math.inf, _unbounded(f"s^{number(k)}", steep=k > 1))
    near, far = (low, low + step) if k <= 1 else (high - step, high)
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(np.power(np.float64(far), k) - np.power(np.float64(near), k))
    if not math.isfinite(value):
        return Sensitivity(math.inf, f"s^{number(k)} overflows at the bounds: give narrower ones")
    return Sensitivity(
        value,
        f"s^{number(k)} is steepest at its {'low' if k <= 1 else 'high'} end: it moves by at "
        f"most {number(far)}^{number(k)} - {number(near)}^{number(k)}",
    )


def distance(support: Support, radius: float, centre: float) -> Sensitivity:
    """xi(s) = |s - c|:  omega = min(radius, max xi - min xi), for xi moves at most as s does."""
    ends = abs(support.low - centre), abs(support.high - centre)
    inside = support.low <= centre <= support.high
    reach = max(ends) if inside else support.high - support.low
    value = min(radius, reach)
    if math.isinf(value):
        return Sensitivity(math.inf, _unbounded("|s - location|"))
    return Sensitivity(value, f"|s - location| moves by at most {number(value)}, as s itself does")


def first_two_powers(support: Support, radius: float) -> Sensitivity:
    """xi(s) = (s, s^2):  omega = max over 0 <= t <= step of t + t max(|2 low + t|, |2 high - t|).

    From s to s + t the l1 change is t + t|2s + t|, convex in s, so s = low or s = high - t. Along
    t it grows, save for a hump at |end| + 1/2 where the far end lies across 0.
    """
    low, high = support.low, support.high
    if math.isinf(high - low):
        return Sensitivity(math.inf, _unbounded("s^2", steep=True))
    step = min(radius, high - low)
    moves = (step, min(step, abs(low) + 0.5), min(step, abs(high) + 0.5))
    value = max(t + t * max(abs(2 * low + t), abs(2 * high - t)) for t in moves)
    return Sensitivity(
        value,
        f"s and s^2 together move by at most {number(value)} in l1 norm for {support.describe()}",
    )


def _unbounded(xi: str, steep: bool = False) -> str:
    if steep:
        return f"{xi} grows ever steeper, so no noise hides a move far out: give bounds=(low, high)"
    return f"any two values of {xi} may be arbitrarily far apart: give bounds, or a finite radius"
