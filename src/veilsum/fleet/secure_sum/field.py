"""The integers modulo p = 2^61 - 1: sums, matrix products, uniform elements and polynomials.

An element takes 8 bytes; 2^x of it is a rotation of 61 bits. A product of matrices is nine products of
limbs of 21 bits in float64: 3 * 600 * 2^42 < 2^53, so every one of them is exact. A word of 61 random bits
is a uniform element once the word p is left out.

A polynomial of degree < t is given by its values at t points. `lagrange` is the matrix that takes them to
other points; `decode` finds the points that do not lie on it. With w_i = 1/prod_j (x_i - x_j), the sums

    S_j = sum_i w_i y_i x_i^j,    j = 0 .. m - t - 1

are 0 exactly if all m values lie on a polynomial of degree < t. Otherwise S_j = sum of a_i x_i^j over the
wrong points alone, a recurrence whose shortest form (Berlekamp and Massey) has the wrong points as roots.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

Elements = NDArray[np.uint64]

P = (1 << 61) - 1
TAG = b"veilsum secure sum 1"
SPARE = 3  # words that stand in for p; more are needed with a probability below 2^-150
_P = np.uint64(P)
_LIMB = 21
_BLOCK = 600  # terms of an exact product
_LOW31 = np.uint64((1 << 31) - 1)


def rotated(x: Elements, bits: int) -> Elements:
    """2^bits x for x < 2^61 (p counts as 0, and may be the result)."""
    bits %= 61
    if bits == 0:
        return x
    kept = np.uint64((1 << (61 - bits)) - 1)
    out: Elements = ((x & kept) << np.uint64(bits)) | (x >> np.uint64(61 - bits))
    return out


def negated(x: Elements) -> Elements:
    """-x."""
    out: Elements = (_P - x) % _P
    return out


def plus(a: Elements, b: Elements) -> Elements:
    """a + b, by element."""
    out: Elements = (a + b) % _P
    return out


def times(a: Elements, b: Elements) -> Elements:
    """a b, by element: three products of halves."""
    a0, a1, b0, b1 = a & _LOW31, a >> np.uint64(31), b & _LOW31, b >> np.uint64(31)
    middle = (a1 * b0 + a0 * b1) % _P
    high = rotated(a1 * b1 % _P, 62)
    out: Elements = (a0 * b0 % _P + rotated(middle, 31) + high) % _P
    return out


def product(a: Elements, b: Elements) -> Elements:
    """The matrix product."""
    out: Elements = np.zeros((a.shape[0], b.shape[1]), np.uint64)
    for low in range(0, a.shape[1], _BLOCK):
        x, y = _limbs(a[:, low : low + _BLOCK]), _limbs(b[low : low + _BLOCK])
        for s in range(5):
            pairs = [(i, s - i) for i in range(3) if 0 <= s - i < 3]
            part = sum((x[i] @ y[j] for i, j in pairs), np.zeros(1))
            out = (out + rotated(part.astype(np.uint64) % _P, _LIMB * s)) % _P
    return out


def _limbs(x: Elements) -> list[NDArray[np.float64]]:
    mask = np.uint64((1 << _LIMB) - 1)
    return [((x >> np.uint64(_LIMB * i)) & mask).astype(np.float64) for i in range(3)]


def total_of(x: Elements) -> Elements:
    """The sum over the first axis, of up to 2^30 terms."""
    low = (x & _LOW31).sum(axis=0, dtype=np.uint64) % _P
    high = (x >> np.uint64(31)).sum(axis=0, dtype=np.uint64) % _P
    out: Elements = (low + rotated(high, 31)) % _P
    return out


def powers(x: Elements, count: int) -> Elements:
    """Rows x_i, x_i^2, .., x_i^count."""
    out = x.reshape(-1, 1)
    while out.shape[1] < count:
        out = np.hstack([out, times(out, out[:, -1:])])
    return out[:, :count]


def joined(*parts: bytes) -> bytes:
    """One text of several parts: nothing else has the same."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in (TAG, *parts))


def digest(*parts: bytes) -> bytes:
    """32 bytes that name the parts; the first says what they are."""
    return hashlib.sha256(joined(*parts)).digest()


def stream(length: int, *parts: bytes) -> bytes:
    """The bytes of `length` uniform elements, of an extendable output."""
    return hashlib.shake_256(joined(*parts)).digest(8 * (length + SPARE))


def elements(streams: Sequence[bytes], length: int) -> Elements:
    """One row of uniform elements for each stream."""
    drawn = np.frombuffer(b"".join(streams), "<u8").astype(np.uint64, copy=False) & _P
    rows = drawn.reshape(len(streams), length + SPARE)
    out = rows[:, :length].copy()
    for row in np.flatnonzero((out == _P).any(axis=1)):
        out[row] = rows[row][rows[row] != _P][:length]
    return out


def uniform(length: int, *parts: bytes) -> Elements:
    """Uniform elements that the parts determine."""
    out: Elements = elements([stream(length, *parts)], length)[0]
    return out


def to_bytes(x: Elements) -> bytes:
    """Eight bytes an element, least significant first."""
    return x.astype("<u8").tobytes()


def from_bytes(data: bytes) -> Elements | None:
    """The elements, or None if the bytes are not those of elements below p."""
    if len(data) % 8:
        return None
    x = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    return None if (x >= _P).any() else x


@lru_cache(1 << 14)
def _inverse(x: int) -> int:
    return pow(x, -1, P)


def _times_all(factors: Sequence[int]) -> int:
    return reduce(lambda a, b: a * b % P, factors, 1)


@lru_cache(64)
def _weights(nodes: tuple[int, ...]) -> list[int]:
    return [_inverse(_times_all([x - y for y in nodes if y != x])) for x in nodes]


@lru_cache(64)
def lagrange(nodes: tuple[int, ...], at: tuple[int, ...]) -> Elements:
    """The matrix that takes values at the nodes to values at the points `at`, none of them in both."""
    weights, rows = _weights(nodes), []
    for z in at:
        whole = _times_all([z - y for y in nodes])
        rows.append(
            [whole * w % P * _inverse(z - x) % P for x, w in zip(nodes, weights, strict=True)]
        )
    return np.array(rows, np.uint64).reshape(len(at), len(nodes))


def decode(points: tuple[int, ...], values: Elements, t: int) -> list[int] | None:
    """The points on the polynomial of degree < t that misses at most (m - t)/2 of the m values.

    There is one such polynomial at most; None if there is none. The points are above 0.
    """
    checks = len(points) - t
    if checks < 0:
        return None
    terms = [int(y) * w % P for y, w in zip(values.tolist(), _weights(points), strict=True)]
    syndromes = []
    for _ in range(checks):
        syndromes.append(sum(terms) % P)
        terms = [a * x % P for a, x in zip(terms, points, strict=True)]
    locator = _recurrence(syndromes)
    wrong = {x for x in points if _at(locator, x) == 0}
    if len(wrong) != len(locator) - 1 or 2 * len(wrong) > checks:
        return None
    return [x for x in points if x not in wrong]


def _at(coefficients: Sequence[int], x: int) -> int:
    """The value at x, highest power first."""
    return reduce(lambda y, a: (y * x + a) % P, coefficients, 0)


def _recurrence(sequence: Sequence[int]) -> list[int]:
    """The shortest 1, c_1, .., c_L with s_n + c_1 s_(n-1) + .. + c_L s_(n-L) = 0 (Berlekamp, Massey)."""
    current, before = [1], [1]
    length, since, last = 0, 1, 1
    for n in range(len(sequence)):
        off = sum(a * sequence[n - i] for i, a in enumerate(current[: length + 1])) % P
        if off == 0:
            since += 1
            continue
        factor = off * pow(last, -1, P) % P
        changed = current + [0] * (len(before) + since - len(current))
        for i, b in enumerate(before):
            changed[i + since] = (changed[i + since] - factor * b) % P
        if 2 * length <= n:
            length, before, last, since = n + 1 - length, current, off, 1
        else:
            since += 1
        current = changed
    return (current + [0] * length)[: length + 1]
