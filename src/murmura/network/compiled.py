"""Compiled loops over rows and links; imported only where a network is large.

Callers fix the types (indices int32, weights float64, links int32 and read-only), so that each
loop is compiled once and found in the cache from then on. All of them take time in proportion to
the links.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Pointers = NDArray[np.int64]
Indices = NDArray[np.integer[Any]]  # of 32 bits
Floats = NDArray[np.float64]

DUST = 1e-12  # a self weight below this is rounding: on regular graphs 1 - d * (1/d) is 0


@numba.njit(cache=True)
def _sort_pairs(keys: Any, values: Any) -> None:
    """Sort keys in place and move the values along: Shell's sort, an insertion for short rows."""
    count, gap = len(keys), 1
    while gap < count // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, value, j = keys[i], values[i], i
            while j >= gap and keys[j - gap] > key:
                keys[j], values[j] = keys[j - gap], values[j - gap]
                j -= gap
            keys[j], values[j] = key, value
        gap //= 3


@numba.njit(cache=True, parallel=True)
def move_rows(
    old_indptr: Any, old_indices: Indices, old_data: Floats, order: Pointers, place: Indices,
    indptr: Pointers, indices: Indices, data: Floats,
) -> None:  # fmt: skip
    """Row k of the new matrix is row order[k] of the old one, its columns renamed and sorted."""
    for k in numba.prange(len(order)):
        start, source = indptr[k], old_indptr[order[k]]
        stop = indptr[k + 1]
        for e in range(stop - start):
            indices[start + e] = place[old_indices[source + e]]
            data[start + e] = old_data[source + e]
        _sort_pairs(indices[start:stop], data[start:stop])


@numba.njit(cache=True)
def cuthill_mckee(indptr: Any, indices: Indices, starts: Pointers) -> Pointers:
    """The agents breadth first, each one's new neighbours by the length of their rows."""
    size, filled, head = len(indptr) - 1, 0, 0
    order, lengths = np.empty(size, np.int64), np.empty(size, np.int64)
    seen = np.zeros(size, np.bool_)
    for start in starts:
        if seen[start]:
            continue
        seen[start], order[filled] = True, start
        filled += 1
        while head < filled:
            i, first = order[head], filled
            head += 1
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if not seen[j]:
                    seen[j], order[filled], lengths[filled] = True, j, indptr[j + 1] - indptr[j]
                    filled += 1
            _sort_pairs(lengths[first:filled], order[first:filled])
    return order


@numba.njit(cache=True)
def survey_links(links: Indices, directed: bool) -> tuple[int, bool]:
    """The first link from an agent to itself (-1 if none); whether all are sorted and distinct."""
    ordered = True
    for e in range(len(links)):
        i, j = links[e, 0], links[e, 1]
        if i == j:
            return e, False
        if not directed and i > j:
            ordered = False
        if e > 0:
            before = links[e - 1, 0]
            if before > i or (before == i and links[e - 1, 1] >= j):
                ordered = False
    return -1, ordered


@numba.njit(cache=True)
def sort_links(links: Indices, size: int, directed: bool) -> Indices:
    """The links sorted, each once, (i, j) with i < j unless directed: by counting, not comparing.

    They are dealt to the rows of their first end, each short row is sorted and copies are skipped.
    """
    indptr = np.zeros(size + 1, np.int64)
    for e in range(len(links)):
        i, j = links[e, 0], links[e, 1]
        indptr[(i if directed or i < j else j) + 1] += 1
    for i in range(size):
        indptr[i + 1] += indptr[i]
    ends, cursor = np.empty(len(links), np.int32), indptr[:-1].copy()
    for e in range(len(links)):
        i, j = links[e, 0], links[e, 1]
        if not directed and i > j:
            i, j = j, i
        ends[cursor[i]] = j
        cursor[i] += 1
    kept = 0
    for i in range(size):
        start, stop = indptr[i], indptr[i + 1]
        _sort_pairs(ends[start:stop], ends[start:stop])
        for e in range(start, stop):
            kept += e == start or ends[e] != ends[e - 1]
    out, k = np.empty((kept, 2), np.int32), 0
    for i in range(size):
        for e in range(indptr[i], indptr[i + 1]):
            if e == indptr[i] or ends[e] != ends[e - 1]:
                out[k, 0], out[k, 1] = i, ends[e]
                k += 1
    return out


@numba.njit(cache=True)
def lay_rows(links: Indices, size: int) -> tuple[Pointers, Indices]:
    """indptr and indices of the rows of sorted undirected links, every diagonal included.

    Links come by their first end i, so that row r receives its lower neighbours in order before
    its own links come up: no row needs sorting.
    """
    indptr = np.ones(size + 1, np.int64)
    indptr[0] = 0
    for e in range(len(links)):
        indptr[links[e, 0] + 1] += 1
        indptr[links[e, 1] + 1] += 1
    for i in range(size):
        indptr[i + 1] += indptr[i]
    indices, cursor, e = np.empty(indptr[size], np.int32), indptr[:-1].copy(), 0
    for i in range(size):
        at = cursor[i]
        indices[at] = i
        while e < len(links) and links[e, 0] == i:
            j = links[e, 1]
            at += 1
            indices[at] = j
            indices[cursor[j]] = i
            cursor[j] += 1
            e += 1
    return indptr, indices


@numba.njit(cache=True, parallel=True)
def fill_rows(indptr: Any, indices: Indices, ratio: float, constant: float, data: Floats) -> None:
    """a_ij = ratio/max(d_i, d_j) + constant for i != j, and a_ii = 1 - sum over j of a_ij."""
    for i in numba.prange(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        own, taken = start, 0.0
        for e in range(start, stop):
            j = indices[e]
            if j == i:
                own = e
            else:
                larger = max(stop - start, indptr[j + 1] - indptr[j]) - 1
                data[e] = ratio / larger + constant
                taken += data[e]
        left = 1.0 - taken
        data[own] = left if abs(left) >= DUST else 0.0


@numba.njit(cache=True, parallel=True)
def largest_neighbours(indptr: Any, indices: Indices, data: Floats) -> Floats:
    """(n,): max over j != i of a_ij; 0 for an agent alone."""
    found = np.zeros(len(indptr) - 1)
    for i in numba.prange(len(found)):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                found[i] = max(found[i], data[e])
    return found


@numba.njit(cache=True)
def has_self_weight(indptr: Any, indices: Indices, data: Floats) -> bool:
    """Whether some a_ii > 0; the first one ends the search."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] == i and data[e] > 0.0:
                return True
    return False


@numba.njit(cache=True)
def _hash(low: np.uint64, high: np.uint64, bits: np.uint64) -> np.uint64:
    """64 well mixed bits of a weight and its place: SplitMix64's last step, twice."""
    z = (low << np.uint64(32)) | high
    for word in (np.uint64(0x9E3779B97F4A7C15), bits):
        z += word
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


@numba.njit(cache=True)
def _row(
    indptr: Any, indices: Indices, data: Floats, bits: NDArray[np.uint64], i: Any, tolerance: float
) -> tuple[bool, np.uint64]:
    """Whether row i is as it should be; the hashes right of its diagonal less those left of it."""
    total, own, good, last, hashes = 0.0, 0, True, -1, np.uint64(0)
    for e in range(indptr[i], indptr[i + 1]):
        j, a = indices[e], data[e]
        good = good and last < j < len(indptr) - 1 and (a > 0.0 or (a == 0.0 and i == j))
        last, total = j, total + a
        if j > i:
            hashes += _hash(np.uint64(i), np.uint64(j), bits[e])
        elif j < i:
            hashes -= _hash(np.uint64(j), np.uint64(i), bits[e])
        else:
            own += 1
    return good and own == 1 and abs(total - 1.0) <= tolerance, hashes


@numba.njit(cache=True, parallel=True)
def is_sound(
    indptr: Any, indices: Indices, data: Floats, bits: NDArray[np.uint64], tolerance: float
) -> bool:
    """Whether every row is sorted, has its diagonal, is positive, sums to 1; and A = A'.

    What stands above the diagonal is what stands below it if the hashes of both add up to the same
    (bits: the data as integers): one pass in the order of memory, where looking every a_ji up is a
    walk all over it. A wrong matrix passes with odds of 2^-64.
    """
    good, balance = 0, np.uint64(0)
    for i in numba.prange(len(indptr) - 1):
        fine, hashes = _row(indptr, indices, data, bits, np.int64(i), tolerance)
        good += fine
        balance += hashes
    return good == len(indptr) - 1 and balance == 0
