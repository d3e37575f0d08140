"""How far xi can move when s moves by `radius` inside [low, high]: the `Statistic` of each xi.

    omega(radius) = sup { |xi(s) - xi(s')| : low <= s, s' <= high, |s - s'| <= radius }

For an increasing xi the worst pair is as far apart as allowed and sits where xi is steepest: at
the low end if xi is concave (log s, log(1 + s), s^k with k <= 1), at the high end if it is convex.

A sensitivity that is too small breaks the guarantee, so every value here is rounded up: polynomials
are computed in rational arithmetic, logarithms and powers without cancellation (log1p, expm1) and
then raised by a few units in the last place. (s + r)^k - s^k, as it stands, is 0 for a small r:
no noise at all.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilsum._statistic import Statistic
from veilsum.families.support import Support, number

_ULPS = 8 * 2.0**-52  # log1p, expm1, pow and three roundings are each off by at most one of them
_LEAST = 5e-324  # the smallest positive float
_SMALL = 2.0**-900  # quotients below may have lost digits to underflow


def linear(support: Support, radius: float) -> Statistic:
    """xi(s) = s:  omega = min(radius, high - low)."""
    width = difference(support.high, support.low)
    if math.isinf(min(radius, width)):
        return Statistic(math.inf, reason=_unbounded("s"))
    if width <= radius:
        return Statistic(width, reason=f"s is the statistic, and stays within {support.describe()}")
    return Statistic(radius, reason=f"s is the statistic, and moves by at most {number(radius)}")


def log(support: Support, radius: float, instead: str) -> Statistic:
    """xi(s) = log s:  omega = log(1 + step/low), step = min(radius, width); infinite at low = 0."""
    low, high = support.low, support.high
    if low <= 0:
        return Statistic(
            math.inf,
            reason="near 0 a small change of s changes log s by any amount: give bounds=(floor, None) with "
            f"a public floor above 0{instead}",
        )
    step = min(radius, difference(high, low))
    if math.isinf(step):
        return Statistic(math.inf, reason=_unbounded("log s"))
    value = _above(_log_ratio(step, low))
    if high - low <= radius:
        return Statistic(value, reason=f"log s spans log({number(high)}/{number(low)})")
    return Statistic(
        value,
        reason=f"log s is steepest at its floor: it moves by at most "
        f"log(1 + {number(radius)}/{number(low)})",
    )


def log1p(support: Support, radius: float) -> Statistic:
    """xi(s) = log(1 + s):  omega = log((1 + low + step)/(1 + low)), step = min(radius, width)."""
    low, step = support.low, min(radius, difference(support.high, support.low))
    if math.isinf(step):
        return Statistic(math.inf, reason=_unbounded("log(1 + s)"))
    return Statistic(
        _above(math.log1p(step / (1 + low))),
        reason=f"log(1 + s) is steepest at s = {number(low)}: it moves by at most "
        f"log(1 + {number(step)}/{number(1 + low)})",
    )


def power(support: Support, radius: float, k: float) -> Statistic:
    """xi(s) = s^k:  omega = (low + step)^k - low^k if k <= 1, high^k - (high - step)^k if k > 1."""
    if k == 1:
        return linear(support, radius)
    low, high = support.low, support.high
    step = min(radius, difference(high, low))
    if math.isinf(step) or (k > 1 and math.isinf(high)):
        return Statistic(math.inf, reason=_unbounded(f"s^{number(k)}", steep=k > 1))
    near, far = (low, low + step) if k < 1 else (high - step, high)
    value = _above(_risen(low, step, k) if k < 1 else _fallen(high, step, k))
    if not math.isfinite(value):
        return Statistic(
            math.inf, reason=f"s^{number(k)} overflows at the bounds: give narrower ones"
        )
    return Statistic(
        value,
        reason=f"s^{number(k)} is steepest at its {'low' if k <= 1 else 'high'} end: it moves by at "
        f"most {number(far)}^{number(k)} - {number(near)}^{number(k)}",
    )


def distance(support: Support, radius: float, centre: float) -> Statistic:
    """xi(s) = |s - c|:  omega = min(radius, max xi - min xi), for xi moves at most as s does."""
    low, high = support.low, support.high
    inside = low <= centre <= high
    ends = difference(centre, low), difference(high, centre)
    value = min(radius, max(ends) if inside else difference(high, low))
    why = f"|s - location| moves by at most {number(value)}, as s itself does"
    if math.isinf(value):
        why = _unbounded("|s - location|")
    return Statistic(value, reason=why).between(*distances(support, centre))


def centre_and_width(support: Support) -> tuple[float, float]:
    """The middle and the width of public bounds, as floats; 0 and 1 where one of them is missing."""
    width = support.high - support.low
    return (support.low + width / 2, width) if math.isfinite(width) else (0.0, 1.0)


def squared_about(s: NDArray[np.float64], c: float, w: float) -> NDArray[np.float64]:
    """(s - c, (s - c)^2/w) in a last axis of 2."""
    u = s - c
    return np.stack([u, u * (u / w)], axis=-1)


def centred_and_squared(support: Support, radius: float) -> Statistic:
    """xi(s) = (s - c, (s - c)^2/w), c the middle and w the width of the bounds:

        l1 = 2 t - t^2/w,    l2 = t sqrt(1 + (1 - t/w)^2),    t = min(radius, w); w for the whole value.

    From s to s + t the change is (t, t (2 (s - c) + t)/w), and |2 (s - c) + t| <= w - t. Both norms grow
    with t up to w: their derivatives have the signs of 2 (1 - t/w) and of 2 - 3 r + 2 r^2 > 0, r = t/w.
    The middle and the width are floats, so 2 |s - c| may exceed w in the last digits: what is computed,
    in fractions, is t (1 + (v - t)/w) for 2 |s - c| <= v, at t or where it turns.
    """
    middle, width = centre_and_width(support)
    with np.errstate(over="ignore"):
        ends = squared_about(np.array([support.low, support.high]), middle, width)
    low, high = [float(ends[0, 0]), 0.0], [float(ends[1, 0]), float(ends[:, 1].max())]
    if not np.isfinite(ends).all():
        why = _unbounded("(s - centre)^2", steep=True)
        return Statistic(math.inf, dimension=2, reason=why).between(low, high)
    c, w = Fraction(middle), Fraction(width)
    down, up = c - Fraction(support.low), Fraction(support.high) - c
    v, whole = 2 * max(down, up), down + up
    t = whole if math.isinf(radius) else min(Fraction(radius), whole)
    l1 = ceiling(max(each * (1 + (v - each) / w) for each in (t, min(t, (w + v) / 2))))
    l2 = _above(root(t * t * (1 + ((v - t) / w) ** 2)))
    why = (
        "s and its square, both about the middle of the bounds, move by at most "
        f"{number(l1)} together, in l1 norm, for {support.describe()}"
    )
    return Statistic(l1, l2, 2, low, high, reason=why)


def box(support: Support, radius: float, dimension: int) -> Statistic:
    """xi(s) = s, a vector whose coordinates lie in [low, high]:  l1 = min(radius, d (high - low))."""
    width = difference(support.high, support.low)
    whole = ceiling(dimension * Fraction(width)) if width < math.inf else width
    value = min(radius, whole)
    why = f"the vector s moves by at most {number(value)} in l1 norm"
    if math.isinf(value):
        why = "any two vectors may be arbitrarily far apart: give bounds"
    l2 = _box_l2(support, radius, dimension)
    return Statistic(value, l2, dimension, support.low, support.high, reason=why)


def _box_l2(support: Support, radius: float, dimension: int) -> float:
    """xi(s) = s, a vector, in l2, for moves of `radius` in l1 within a box of some width.

    ||v||_2 is convex, so largest at a corner of { ||v||_1 <= radius, |v_k| <= width }: as many
    components as possible move by the width, one by what remains.
    """
    width = difference(support.high, support.low)
    if math.isinf(width):
        return radius
    edge = Fraction(width)
    whole = dimension if math.isinf(radius) else min(dimension, Fraction(radius) // edge)
    rest = Fraction(0) if whole == dimension else Fraction(radius) - whole * edge
    return root(whole * edge**2 + rest**2)


def distances(support: Support, centre: float) -> tuple[float, float]:
    """The least and largest |s - c| on the support."""
    ends = abs(support.low - centre), abs(support.high - centre)
    return 0.0 if support.low <= centre <= support.high else min(ends), max(ends)


def root(exact: Fraction) -> float:
    """The square root of a fraction, rounded up."""
    shift = max(0, 64 - (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2)
    top = exact.numerator << 2 * shift
    scaled = math.isqrt(top // exact.denominator)
    inexact = scaled**2 * exact.denominator != top
    return ceiling(Fraction(scaled + inexact, 1 << shift))


def ceiling(exact: Fraction) -> float:
    """The least float that is not below a fraction; inf if none is so large."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def difference(high: float, low: float) -> float:
    """high - low, rounded up."""
    if math.isinf(high) or math.isinf(low):
        return high - low
    return ceiling(Fraction(high) - Fraction(low))


def _above(value: float) -> float:
    """A little above a number that was computed to a few units in the last place."""
    return value * (1 + _ULPS) + 4 * _LEAST


def _log_ratio(step: float, low: float) -> float:
    """log((low + step)/low), whichever is the larger."""
    ratio = step / low
    return math.log1p(ratio) if math.isfinite(ratio) else math.log(step) - math.log(low)


def _risen(low: float, step: float, k: float) -> float:
    """(low + step)^k - low^k = far^k (1 - e^-x),  x = k log(1 + step/low),  0 < k < 1."""
    if low == 0:
        return float(step**k)
    far = low + step
    top = far**k if math.isfinite(far) else 2**k * (low / 2 + step / 2) ** k
    return _difference(top, k, _log_ratio(step, low), step, low)


def _fallen(high: float, step: float, k: float) -> float:
    """high^k - (high - step)^k = high^k (1 - e^-x),  x = -k log(1 - step/high),  k > 1."""
    try:
        top = high**k
    except OverflowError:
        return math.inf
    part = step / high
    return _difference(top, k, math.inf if part >= 1 else -math.log1p(-part), step, high)


def _difference(top: float, k: float, logarithm: float, step: float, end: float) -> float:
    """top (1 - e^-x),  x = k logarithm; where step/end is tiny it stands for the logarithm."""
    if logarithm >= _SMALL:
        return top * -math.expm1(-k * logarithm)
    x = _quotient(k, step, over=end)
    return top * -math.expm1(-x) if x >= _SMALL else _quotient(top, k, step, over=end)


def _quotient(*factors: float, over: float) -> float:
    """The product of the factors over a divisor, with no underflow on the way."""
    mantissa, exponent = math.frexp(over)
    mantissa, exponent = 1 / mantissa, -exponent
    for factor in factors:
        m, e = math.frexp(factor)
        mantissa, exponent = mantissa * m, exponent + e
    return math.ldexp(mantissa, exponent)


def _unbounded(xi: str, steep: bool = False) -> str:
    if steep:
        return f"{xi} grows ever steeper, so no noise hides a move far out: give bounds=(low, high)"
    return f"any two values of {xi} may be arbitrarily far apart: give bounds, or a finite radius"
