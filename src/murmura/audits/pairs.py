"""Adjacent inputs to attack: all over the domain, its edges above all.

Two signals are adjacent when they differ by at most the radius. The worst pairs lie a full radius
apart, and where the statistic is steep or the noise small: at the edges of the domain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

INNER = (0.001, 0.01, 0.1, 1.0, 3.0)  # tried inside open or unbounded supports


def adjacent(family: Any, radius: float) -> list[tuple[float, float]]:
    """Pairs of scalar signals of a family at most `radius` apart, edges of its support included."""
    support = family.support
    low, high = float(support.low), float(support.high)
    step = min(family.adjacency(radius), high - low)
    starts = sorted(set(_starts(low, high, step, bool(support.integer))))
    pairs = [(s, min(s + step, high)) for s in starts]
    return [(a, b) for a, b in pairs if a != b and not support.violations(np.array([a, b])).any()]


def _starts(low: float, high: float, step: float, integer: bool) -> list[float]:
    """Where pairs begin: both edges, the middle, and a few points near the lower edge."""
    base = low if math.isfinite(low) else 0.0
    starts = [base + (math.ceil(x) if integer else x) for x in INNER]
    if math.isfinite(high):
        middle = (base + high - step) / 2
        starts += [high - step, math.floor(middle) if integer else middle]
    return [base, *(s for s in starts if low <= s <= high - step)]
