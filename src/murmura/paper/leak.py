"""What the printed smooth sensitivity really spends: exact, pair by pair (erratum 2).

The mechanism log s + Lap(b(s)), b = 2 S/eps, S = 1/(e gamma s), gamma = eps/(2 ln(2/delta)), spends

    delta' = max over events of P_s(E) - e^eps P_s'(E) = integral of (f_s - e^eps f_s')+

between s and s', which `laplace_delta` has in closed form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from murmura.privacy.mechanisms.smooth_laplace import laplace_delta


class Laplace(NamedTuple):
    """A law by its mode and scale."""

    mode: float
    scale: float


def printed(s: float, epsilon: float, delta: float) -> Laplace:
    """The law of what is released for a signal s."""
    return Laplace(math.log(s), 4 * math.log(2 / delta) / (math.e * epsilon**2 * s))


def spent(one: Laplace, other: Laplace, epsilon: float) -> float:
    """The integral of (f - e^epsilon g)+."""
    return laplace_delta(other.mode - one.mode, one.scale, other.scale, epsilon)


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
