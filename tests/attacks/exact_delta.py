"""The delta that Laplace noise of two scales and places spends at an epsilon, exactly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def laplace_delta(x: Any, b: Any, x2: Any, b2: Any, epsilon: Any) -> Any:
    """max(0, p - e^epsilon q) integrated, p = Lap(x, b) and q = Lap(x2, b2), numbers each.

    log p/q is linear between the kinks x and x2: where it exceeds epsilon is a few intervals, whose
    probabilities the distribution functions give.
    """

    def excess(y: Any) -> Any:
        return np.log(b2 / b) - np.abs(y - x) / b + np.abs(y - x2) / b2 - epsilon

    low, high = min(x, x2), max(x, x2)
    far = 800 * max(b, b2)
    knots = [low - far, low, high, high + far]
    cuts = [low - far]
    for left, right in pairwise(knots):
        a, c = excess(np.float64(left)), excess(np.float64(right))
        if a * c < 0:
            cuts.append(left + (right - left) * a / (a - c))
        cuts.append(right)
    total = 0.0
    for left, right in pairwise(cuts):
        if excess((left + right) / 2) > 0:
            ends = (-np.inf if left == knots[0] else left, np.inf if right == knots[-1] else right)
            mass = _mass(ends, x, b) - np.exp(epsilon) * _mass(ends, x2, b2)
            total += max(mass, 0.0)
    return float(total)


def _mass(ends: Any, x: Any, b: Any) -> Any:
    """P[left < y < right], without cancellation in the tails."""
    left, right = ((e - x) / b for e in ends)
    if left >= 0:
        return (np.exp(-left) - np.exp(-right)) / 2
    if right <= 0:
        return (np.exp(right) - np.exp(left)) / 2
    return 1 - np.exp(left) / 2 - np.exp(-right) / 2
