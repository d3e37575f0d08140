"""How far the gradient of one record's logistic likelihood can be from that of another: R times `spread`.

    (sigma(b'x) - y) x = sigma(b'u) u,   u = x for y = 0, u = -x for y = 1,   |u| <= R

since sigma(t) - 1 = -sigma(-t). So gradients lie in a set that b alone shapes: at the angle phi to b they are
at most R r(phi) long, with M = R |b| and r the largest p sigma(p M cos phi), 0 <= p <= 1,

    r = sigma(M cos phi)                     where M cos phi >= -z,   z sigma(z) = 1,   z = 1.2785
    r = (z - 1)/(M |cos phi|)                elsewhere,   as sigma(-z) = 1 - 1/z

and two of them, which are furthest apart on opposite sides of b, have the distance R D,

    D^2 = max over phi, psi of r(phi)^2 + r(psi)^2 - 2 r(phi) r(psi) cos(phi + psi):   1 at b = 0, 2 at most.

A point of the outline moves by at most 1 + M/4 a radian (|dr/dphi| <= M/4), so the maximum over a grid of
angles h apart is at most h (1 + M/4) short, which is added. Gradients over D/2 move by 2 R at any b.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from veilsum.questions.columns import Floats

PEAK = 1.2784645427610738  # z
ANGLES = 513
TABLE = np.concatenate([np.linspace(0.0, 6.0, 25), np.geomspace(7.0, 60.0, 12)])


def sigmoid(t: Floats) -> Floats:
    """1/(1 + e^-t)."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * t)))


@lru_cache(maxsize=1024)
def spread(m: float) -> float:
    """D at M = m, or a little more; never above 2."""
    phi = np.linspace(0.0, math.pi, ANGLES)
    t = m * np.cos(phi)
    r = np.where(t >= -PEAK, sigmoid(t), (PEAK - 1) / np.maximum(-t, PEAK))
    square = r[:, None] ** 2 + r**2 - 2 * np.outer(r, r) * np.cos(phi[:, None] + phi)
    most = math.sqrt(float(square.max()))
    return min(2.0, most + math.pi / (ANGLES - 1) * (1 + m / 4) + 1e-9)


def spreads(m: Floats) -> Floats:
    """The same of many, between the entries of a table: for simulations."""
    return np.asarray(np.interp(m, TABLE, _table()))


@lru_cache(maxsize=1)
def _table() -> Floats:
    return np.array([spread(float(m)) for m in TABLE])
