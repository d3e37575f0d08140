"""Second moments of a record, in whole steps, and how far one record moves them.

    z = (1, v_1, ..., v_m),  v_i in [-1, 1]:   the entries v_i and v_i v_j (i <= j),   p = m + 1

Replaced by w. With a = (v + w)/2, b = (v - w)/2 (so |a_i| + |b_i| <= 1),

    v_i - w_i = 2 b_i,    v_i v_j - w_i w_j = 2 (a_i b_j + a_j b_i).

Let B_i = |b_i|, A_i = |a_i| <= 1 - B_i, and S = sum B_i.

    l1    <= 2 S + 2 (sum A)(sum B) + 2 sum A_i B_i <= 2 S + 2 (m - S) S + 2 S - 2 sum B_i^2
          <= 2 (m + 2) S - 2 S^2 (m + 1)/m                   (S^2 <= m sum B_i^2)
          <= m (m + 2)^2/(2 (m + 1)),   at S = m (m + 2)/(2 (m + 1))

which all v_i = 1 against all w_i = -1/(m + 1) attain.

    l2^2   = 4 (|b|^2 (1 + |a|^2) + (a.b)^2) + 8 sum a_i^2 b_i^2
          <= 4 (S (p - S) - (p - 1/2) C + 2 C^2),             C = sum B_i (1 - B_i) <= m/4,

since sum B^2 = S - C, sum A^2 <= m - S - C and B^2 (1 - B)^2 <= B (1 - B)/4. It falls in C, as 4 C <= m <
p - 1/2, and C is concave in B: at a given S = k + r, k whole, it is least where all B_i but one are 0 or 1, C
= r (1 - r). On [k, k + 1], S (p - S) is its chord plus r (1 - r), so for p >= 2 the chord is above it all:

    l2^2  <= 4 max_k k (p - k) = 4 floor(p^2/4),    attained where floor(p/2) of the v_i change sign.

A record may be out: then v = 0 against w, and the number of records is an entry (1) as well: K entries, l1 =
K and l2 = sqrt K. Rounding v_i to whole steps k_i of [-G, G] comes first, then k_i k_j are whole numbers and
nothing is left to pay: rounded records are records.

Clipped records, |x|, |w| <= N, with a constant c and the entries c x_i and x_i x_j: with t = x.w,

    l2^2  <= c^2 |x - w|^2 + ||xx' - ww'||^2  =  c^2 |x - w|^2 + |x|^4 + |w|^4 - 2 t^2
          <= 2 c^2 (N^2 - t) + 2 N^4 - 2 t^2  <=  2 (N^2 + c^2/2)^2,   at t = -c^2/2,

as it grows with either length at a given t. It is attained from two variables on: ||.|| counts products of
two different entries twice, and along the axes (x + w)/|x + w| +- (x - w)/|x - w| there are none.
l1 <= sqrt(entries) l2, or what the box around the ball allows.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilsum._statistic import Statistic, Status
from veilsum.questions.columns import Floats

G = (
    1 << 13
)  # steps from 0 to 1: products stay exact in floats, and far below 2^63 for 10^10 records
UNIT = G * G  # of a product
LOOSE = 1 + 2**-30  # a clipped record, computed in floats


def pairs(size: int, counted: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places i <= j of a symmetric matrix that are released; (0, 0), the number, only if private."""
    i, j = np.triu_indices(size)
    start = 0 if counted else 1
    return i[start:], j[start:]


def box_norms(m: int, constant: float = 1.0) -> tuple[float, float]:
    """l1 and l2 of the replacement of one record by another, in units of a product.

    With a constant c <= m + 1 for the 1 of z and entries c v_i: l1 = m (m + 1 + c)^2/(2 (m + 1)), and l2^2 =
    4 max_k k (c^2 + m - k) for m >= 2 by the same argument. One variable and c^2 < 1/2: the maximum of
    4 B^2 (c^2 + 4 (1 - B)^2), at B = (3 - sqrt(1 - 2 c^2))/4.

    >>> [round(box_norms(m)[0], 3) for m in (1, 2, 3)]
    [2.25, 5.333, 9.375]
    """
    l1 = m * (m + 1 + constant) ** 2 / (2 * (m + 1))
    square = constant**2
    if m == 1 and square < 1 / 2:
        b = (3 - math.sqrt(1 - 2 * square)) / 4
        return l1, 2 * b * math.sqrt(square + 4 * (1 - b) ** 2)
    return l1, 2 * math.sqrt(max(k * (square + m - k) for k in range(1, m + 1)))


def box_statistic(m: int, counted: bool) -> Statistic:
    """Of the moments of m variables in [-1, 1]."""
    l1, l2 = box_norms(m)
    entries = len(pairs(m + 1, counted)[0])
    return Statistic(
        math.floor(l1 * UNIT + 1e-3), l2 * UNIT, entries, low=-UNIT, high=UNIT, step=1.0,
        status=Status.PROVED, reason="second moments of variables between public bounds",
    )  # fmt: skip


def products(k: Floats, counted: bool) -> Floats:
    """(records, entries): k_i k_j in whole steps, for k (records, p) in whole steps, k_0 the constant."""
    i, j = pairs(k.shape[1], counted)
    return np.asarray(k[:, i] * k[:, j])


def symmetric(values: Floats, size: int, counted: bool, number: float = 0.0) -> Floats:
    """The matrix of released entries, (0, 0) being the public number of records where it is not one."""
    i, j = pairs(size, counted)
    found = np.zeros((size, size))
    found[0, 0] = number
    found[i, j] = values
    found[j, i] = values
    return found


@lru_cache(maxsize=1024)
def ball_statistic(d: int, norm: float, c: float, partial: bool) -> Statistic:
    """The smaller of what the ball |v| <= N and the box |v_i| <= min(1, N) allow."""
    entries = len(pairs(d + 1, partial)[0])
    side = min(1.0, norm)
    l1, l2 = (side**2 * x for x in box_norms(d, c / side))
    ball = math.sqrt(2) * (norm**2 + c * c / 2)
    l1, l2 = min(l1, math.sqrt(d + d * (d + 1) / 2) * ball), min(l2, ball)
    if partial:
        flat = min(math.sqrt(d) * norm, d * side)
        l1 = max(l1, c * c + c * flat + (flat**2 + min(norm, math.sqrt(d) * side) ** 2) / 2)
        l2 = max(l2, norm**2 + c * c)
    return Statistic(
        math.floor(l1 * UNIT * LOOSE), min(l1, l2) * UNIT * LOOSE, entries, low=-UNIT, high=UNIT,
        step=1.0, status=Status.PROVED, reason="second moments of clipped records",
    )  # fmt: skip


@lru_cache(maxsize=1024)
def gradient_statistic(d: int, norm: float, c: float) -> Statistic:
    """Twice the length of x, and a step for the rounding of each entry."""
    l2 = 2 * LOOSE * G * math.hypot(norm, c) + math.sqrt(d + 1)
    return Statistic(
        math.floor(math.sqrt(d + 1) * l2), l2, d + 1, low=-2 * G - 1, high=2 * G + 1, step=1.0,
        status=Status.PROVED, reason="gradients of clipped records, by the diameter of their set",
    )  # fmt: skip
