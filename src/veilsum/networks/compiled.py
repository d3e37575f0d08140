"""Compiled loops over rows, links and points; imported only where a network is large.

Where numba is not installed, the same loops are interpreted: slow, and with the same results.

Callers fix the types (indices int32, weights float64, links int32 and read-only), so that each
loop is compiled once and loaded from the cache from then on. All of them take time in proportion to
the links.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Bools, Floats, Indices

try:
    from numba import njit, prange
except ModuleNotFoundError:
    prange: Any = range  # type: ignore[no-redef]

    def njit(**_: Any) -> Any:  # type: ignore[no-redef]
        """Leave a loop as it is."""
        return lambda loop: loop


Pointers = NDArray[np.int64]
ROUNDING = 1e-12  # a self weight below this is rounding: on regular graphs 1 - d * (1/d) is 0


@njit(cache=True)
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


@njit(cache=True, parallel=True)
def move_rows(
    old_indptr: Any, old_indices: Indices, old_data: Floats, order: Pointers, place: Indices,
    indptr: Pointers, indices: Indices, data: Floats,
) -> None:  # fmt: skip
    """Row k of the new matrix is row order[k] of the old one, its columns renamed and sorted."""
    for k in prange(len(order)):
        start, source = indptr[k], old_indptr[order[k]]
        stop = indptr[k + 1]
        for e in range(stop - start):
            indices[start + e] = place[old_indices[source + e]]
            data[start + e] = old_data[source + e]
        _sort_pairs(indices[start:stop], data[start:stop])


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True, parallel=True)
def fill_rows(indptr: Any, indices: Indices, ratio: float, constant: float, data: Floats) -> None:
    """a_ij = ratio/max(d_i, d_j) + constant for i != j, and a_ii = 1 - sum over j of a_ij."""
    for i in prange(len(indptr) - 1):
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
        data[own] = left if abs(left) >= ROUNDING else 0.0


@njit(cache=True)
def _hash(low: np.uint64, high: np.uint64, bits: np.uint64) -> np.uint64:
    """64 well mixed bits of a weight and its place: SplitMix64's last step, twice."""
    z = (low << np.uint64(32)) | high
    for word in (np.uint64(0x9E3779B97F4A7C15), bits):
        z += word
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


@njit(cache=True)
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


@njit(cache=True, parallel=True)
def is_sound(
    indptr: Any, indices: Indices, data: Floats, bits: NDArray[np.uint64], tolerance: float
) -> bool:
    """Whether every row is sorted, has its diagonal, is positive, sums to 1; and A = A'.

    What stands above the diagonal is what stands below it if the hashes of both add up to the same
    (bits: the data as integers): one pass in the order of memory, where looking every a_ji up is a
    walk all over it. A wrong matrix passes with odds of 2^-64.
    """
    good, balance = 0, np.uint64(0)
    for i in prange(len(indptr) - 1):
        fine, hashes = _row(indptr, indices, data, bits, np.int64(i), tolerance)
        good += fine
        balance += hashes
    return good == len(indptr) - 1 and balance == 0


# Components by union-find: parent[i] leads from i towards its component's root, the least agent
# that it was joined with.


@njit(cache=True)
def find(parent: Indices, i: int) -> int:
    """The root of i; the way there is halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True)
def unite(parent: Indices, i: int, j: int) -> bool:
    """Join the components of i and j; False if they were one already."""
    a, b = find(parent, i), find(parent, j)
    if a == b:
        return False
    parent[max(a, b)] = min(a, b)
    return True


@njit(cache=True)
def roots_of_links(links: Indices, size: int) -> Indices:
    """(n,): the root of every agent, for undirected links."""
    parent = np.arange(size).astype(np.int32)
    for e in range(len(links)):
        unite(parent, links[e, 0], links[e, 1])
    return flat(parent)


@njit(cache=True)
def roots_of_rows(indptr: Any, indices: Indices) -> Indices:
    """(n,): the root of every agent, for the rows of a symmetric matrix."""
    parent = np.arange(len(indptr) - 1).astype(np.int32)
    for i in range(len(parent)):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] > i:
                unite(parent, i, indices[e])
    return flat(parent)


@njit(cache=True)
def unite_all(parent: Indices, pairs: Indices) -> Bools:
    """Join the ends of every pair, leaving parents flat: which pairs joined two components."""
    joined = np.empty(len(pairs), np.bool_)
    for e in range(len(pairs)):
        joined[e] = unite(parent, pairs[e, 0], pairs[e, 1])
    flat(parent)
    return joined


@njit(cache=True)
def flat(parent: Indices) -> Indices:
    """Every agent straight below its root: a root is less than all that it leads."""
    for i in range(len(parent)):
        parent[i] = parent[parent[i]]
    return parent


@njit(cache=True)
def numbered(parent: Indices) -> Indices:
    """(n,): components 0, 1, ... in the order of their least agents, from flat parents."""
    ids, count = np.empty(len(parent), np.int32), 0
    for i in range(len(parent)):
        if parent[i] == i:
            ids[i] = count
            count += 1
        else:
            ids[i] = ids[parent[i]]
    return ids


@njit(cache=True)
def _mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's output for a state (Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def attached(size: int, links: int, seed: np.uint64) -> NDArray[np.int32]:
    """(m, 2): agents `links`, ... each choose `links` earlier ones, in proportion to degree.

    A uniform entry of the list of all ends so far is an agent in proportion to its degree; one
    chosen already is drawn again. The first to choose takes all before it, a star.
    """
    out = np.empty(((size - links) * links, 2), np.int32)
    ends, state, at = out.reshape(-1), seed, 0
    for i in range(links, size):
        first = at
        while at < first + links:
            if i == links:
                j = np.int32(at)
            else:
                state += np.uint64(0x9E3779B97F4A7C15)
                # 53 bits scaled to the ends there are: a bias below 2^-20 of any agent's chance
                u = np.float64(_mixed(state) >> np.uint64(11)) * 2.0**-53
                j = ends[int(u * (2 * first))]
            fresh = True
            for e in range(first, at):
                fresh = fresh and out[e, 1] != j
            if fresh:
                out[at, 0], out[at, 1] = i, j
                at += 1
    return out


@dataclass(frozen=True, eq=False)
class Cells:
    """`members` by cell; cell (r, c) holds those from starts[r * columns + c] on."""

    points: Floats  # in the order of the members
    members: Indices
    starts: Indices
    rows: int
    columns: int
    low: Floats
    side: float

    @classmethod
    def of(cls, points: Floats, least_side: float = 0.0) -> Cells:
        """Cells of at least that side, and no more of them than about one for two points."""
        low = points.min(axis=0)
        extent = points.max(axis=0) - low
        even = math.sqrt(2 * max(float(extent[0] * extent[1]), 0.0) / len(points))
        side = max(least_side, even, 2 * float(extent.max()) / len(points)) or 1.0
        columns, rows = (int(e / side) + 1 for e in extent)
        starts, members = _deal(points, float(low[0]), float(low[1]), side, rows, columns)
        return cls(points[members], members, starts, rows, columns, low, side)

    def pairs(self, radius: float) -> Indices:
        """(m, 2): every pair at most `radius` apart, where no cell's side is below the radius."""
        grid = (self.points, self.members, self.starts, self.rows, self.columns, radius**2)
        nothing = np.empty((0, 2), np.int32)
        ends = np.zeros(self.rows + 1, np.int64)
        _close(*grid, ends, nothing, True)
        counts = np.cumsum(ends)
        links = np.empty((counts[-1], 2), np.int32)
        _close(*grid, counts, links, False)
        return links

    def shortest_ways(self, parent: Indices, largest: int) -> Indices:
        """(k, 2): for each component but `largest`, an agent of it and its nearest stranger."""
        x, y = (float(v) for v in self.low)
        grid = (self.points, self.members, self.starts, self.rows, self.columns, x, y, self.side)
        own, other = _nearest(*grid, parent, largest)
        return np.stack([own[own >= 0], other[own >= 0]], axis=1)


@njit(cache=True)
def _deal(
    points: Floats, x: float, y: float, side: float, rows: int, columns: int
) -> tuple[Indices, Indices]:
    """The first member of every cell, and the members: a counting sort."""
    starts = np.zeros(rows * columns + 1, np.int32)
    cell = np.empty(len(points), np.int32)
    for i in range(len(points)):
        r = min(int((points[i, 1] - y) / side), rows - 1)
        c = min(int((points[i, 0] - x) / side), columns - 1)
        cell[i] = r * columns + c
        starts[cell[i] + 1] += 1
    for k in range(rows * columns):
        starts[k + 1] += starts[k]
    members, cursor = np.empty(len(points), np.int32), starts[:-1].copy()
    for i in range(len(points)):
        members[cursor[cell[i]]] = i
        cursor[cell[i]] += 1
    return starts, members


@njit(cache=True, parallel=True)
def _close(
    points: Floats, members: Indices, starts: Indices, rows: int, columns: int, square: float,
    ends: Any, links: Indices, counting: bool,
) -> None:  # fmt: skip
    """Count each row's pairs into ends[r + 1], or write them to links from ends[r] on.

    A point meets those after it in its cell and the next one, and the three cells below.
    """
    for r in prange(rows):
        at = 0 if counting else ends[r]
        for c in range(columns):
            k = r * columns + c
            beside = starts[k + 2] if c + 1 < columns else starts[k + 1]
            first, last = 0, 0
            if r + 1 < rows:
                first = starts[k + columns - (c > 0)]
                last = starts[k + columns + 1 + (c + 1 < columns)]
            for a in range(starts[k], starts[k + 1]):
                for part in range(2):
                    low = a + 1 if part == 0 else first
                    high = beside if part == 0 else last
                    for b in range(low, high):
                        dx, dy = points[a, 0] - points[b, 0], points[a, 1] - points[b, 1]
                        if dx * dx + dy * dy <= square:
                            if not counting:
                                links[at, 0], links[at, 1] = members[a], members[b]
                            at += 1
        if counting:
            ends[r + 1] = at


@njit(cache=True)
def _nearest(
    points: Floats, members: Indices, starts: Indices, rows: int, columns: int, x: float, y: float,
    side: float, parent: Indices, largest: int,
) -> tuple[Indices, Indices]:  # fmt: skip
    """Rings of cells around each point, as long as they can improve on its component's best."""
    best = np.full(len(parent), np.inf)
    own, other = np.full(len(parent), -1, np.int32), np.full(len(parent), -1, np.int32)
    for a in range(len(points)):
        root = find(parent, members[a])
        if root == largest:
            continue
        r = min(int((points[a, 1] - y) / side), rows - 1)
        c = min(int((points[a, 0] - x) / side), columns - 1)
        for ring in range(max(rows, columns)):
            reach = max(ring - 1, 0) * side
            if reach * reach > best[root]:
                break
            for v in range(max(r - ring, 0), min(r + ring, rows - 1) + 1):
                step = 1 if ring == 0 or abs(v - r) == ring else 2 * ring
                for w in range(c - ring, c + ring + 1, step):
                    if w < 0 or w >= columns:
                        continue
                    k = v * columns + w
                    for b in range(starts[k], starts[k + 1]):
                        dx, dy = points[a, 0] - points[b, 0], points[a, 1] - points[b, 1]
                        apart = dx * dx + dy * dy
                        if apart < best[root] and find(parent, members[b]) != root:
                            best[root], own[root], other[root] = apart, members[a], members[b]
    return own, other
