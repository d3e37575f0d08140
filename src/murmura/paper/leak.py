"""What the printed smooth sensitivity really spends: exact, pair by pair (erratum 2).

The mechanism log s + Lap(b(s)), b = 2 S/eps, S = 1/(e gamma s), gamma = eps/(2 ln(2/delta)), spends

    delta' = max over events of P_s(E) - e^eps P_s'(E) = integral of (f_s - e^eps f_s')+

between s and s'. The logarithm of f_s/f_s' is linear between the two modes and beyond them, so the
integral runs over a few intervals, whose ends and masses are in closed form.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

FAR = 1e4  # in scales: no mass lies beyond


class Laplace(NamedTuple):
    """A law by its mode and scale."""

    mode: float
    scale: float

    def log_density(self, y: float) -> float:
        """-|y - mode|/scale - log(2 scale)."""
        return -abs(y - self.mode) / self.scale - math.log(2 * self.scale)

    def mass(self, low: float, high: float) -> float:
        """P(low < y < high)."""
        return self._cdf(high) - self._cdf(low)

    def _cdf(self, y: float) -> float:
        z = (y - self.mode) / self.scale
        return math.exp(z) / 2 if z < 0 else 1 - math.exp(-z) / 2


def printed(s: float, epsilon: float, delta: float) -> Laplace:
    """The law of what is released for a signal s."""
    return Laplace(math.log(s), 4 * math.log(2 / delta) / (math.e * epsilon**2 * s))


def spent(one: Laplace, other: Laplace, epsilon: float) -> float:
    """The integral of (f - e^epsilon g)+."""

    def excess(y: float) -> float:
        return one.log_density(y) - other.log_density(y) - epsilon

    far = FAR * max(one.scale, other.scale)
    low, high = sorted((one.mode, other.mode))
    ends = [low - far, low, high, high + far]
    total = 0.0
    for a, b in pairwise(ends):
        u, v = excess(a), excess(b)
        if u <= 0 and v <= 0:
            continue
        root = a + (b - a) * u / (u - v) if u * v < 0 else (a if v > 0 else b)
        left, right = (root, b) if v > 0 else (a, root)
        if u > 0 and v > 0:
            left, right = a, b
        total += one.mass(left, right) - math.exp(epsilon) * other.mass(left, right)
    return total


class Worst(NamedTuple):
    """The pair that spends most, and what it spends."""

    delta: float
    s: float
    other: float


def worst(low: float, epsilon: float, delta: float, high: float = 1e3, points: int = 400) -> Worst:
    """The pair s, s + 1 with s >= low that spends most, either way round."""
    found = Worst(0.0, low, low + 1)
    for s in np.geomspace(low, high, points).tolist():
        a, b = printed(s, epsilon, delta), printed(s + 1, epsilon, delta)
        found = max(found, Worst(spent(a, b, epsilon), s, s + 1))
        found = max(found, Worst(spent(b, a, epsilon), s + 1, s))
    return found
