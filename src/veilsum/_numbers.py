"""Numbers for people, rounded up: a promise that is printed is never stronger than what holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

ROUNDING = 1e-12  # of sums of epsilons, as a budget allows it: 0.1 + 0.2 is printed as 0.3


def upward(value: float, digits: int = 4) -> str:
    """An epsilon, a delta or odds, at least 0: small ones with an exponent, large ones with commas."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    if value >= 10**digits:
        return f"{math.ceil(value * (1 - ROUNDING)):,}"
    return f"{rounded_up(value, digits):.{digits}g}"


def rounded_up(value: float, digits: int = 4) -> float:
    """So many significant digits, and never less than the value but for `ROUNDING`."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return float(context.create_decimal(value * (1 - ROUNDING)))
