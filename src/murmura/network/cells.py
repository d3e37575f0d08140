"""Points in a grid of square cells: who is within a radius of whom, and who is nearest.

Compiled, and imported only where needed. Points are kept in the order of their cells, so that a
cell and its neighbours on either side are one stretch of memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from murmura.network.forest import find

Indices = NDArray[np.integer[Any]]  # of 32 bits
Floats = NDArray[np.float64]


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


@numba.njit(cache=True)
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


@numba.njit(cache=True, parallel=True)
def _close(
    points: Floats, members: Indices, starts: Indices, rows: int, columns: int, square: float,
    ends: Any, links: Indices, counting: bool,
) -> None:  # fmt: skip
    """Count each row's pairs into ends[r + 1], or write them to links from ends[r] on.

    A point meets those after it in its cell and the next one, and the three cells below.
    """
    for r in numba.prange(rows):
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


@numba.njit(cache=True)
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
