"""Several rounds a pass: rows are taken through T rounds while they are in the cache.

Row i of round k + 1 reads the rows near i after round k. Where all of them lie within a small reach,
a thread advances round 1 by a few blocks of rows, round 2 by as many a reach behind, and so on: a
block comes from memory once for T rounds. Each thread has a part of the rows. A part shrinks by a
reach from round to round at the edges it shares with others; when both sides of an edge are done,
what they left out, a wedge that grows by as much, is taken by whoever finished last:

    round 3          ======          ======
    round 2        ==========      ==========       parts first, in any order,
    round 1      ==============  ==============     then the wedges between them

Two states serve all rounds: round k + 1 may overwrite what round k - 1 left in a block as soon as
all that read the block have done round k; they lie within its reach, which covers those who read a
block and those that it reads. Steps are a matter of order alone: every number is the one that rounds
taken one by one compute.

Rows must be in an order of small reach (`layout.arranged`). Links that lead anywhere, as in power-law
graphs and small worlds, leave none, and rounds are taken one by one.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]  # (steps, 3): round, first block, last block

BLOCK = 128  # rows of a block: `kernel.BLOCK`, which is not imported before it is needed
STEP = 8  # blocks that a round advances by at a time
CACHE = 8_000_000  # bytes that the rows under way may have: of a thread's part of the last cache
MOST = 8  # rounds a pass: what a block costs to fetch is a small part by then
SHORT = 128.0  # bytes of a row with one run: weights, indices, estimates


class Reach(NamedTuple):
    """The blocks that a block and all before it read or are read by: the last; and the first of
    it and all after it. Both never decrease."""

    last: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def typical(self) -> float:
        """How many blocks a block's reach extends to either side, on average."""
        own = np.arange(len(self.last))
        return float(max((self.last - own).mean(), (own - self.first).mean()))

    @property
    def short(self) -> bool:
        """Whether the cache holds what several rounds a pass need, with one run."""
        return self._rounds(SHORT) > 1

    @property
    def lead(self) -> int:
        """How many rows ahead of itself a row reads, or a little more; 0 where that is no help."""
        return int(self.typical + 2) * BLOCK if self.short else 0

    def rounds(self, row: float) -> int:
        """How many rounds a pass takes while rows of so many bytes stay in the cache; at least 1."""
        return max(min(self._rounds(row), MOST), 1)

    def _rounds(self, row: float) -> int:
        held = (self.typical + 1) * BLOCK * row  # of each round
        return int(CACHE // held)


def reach_of(indptr: NDArray[Any], indices: NDArray[Any]) -> Reach:
    """The reach of each block of rows, from the compressed rows of a square matrix."""
    first, last = cast(Any, _reach)(indptr, indices, BLOCK)
    return Reach(np.maximum.accumulate(last), np.minimum.accumulate(first[::-1])[::-1].copy())


@numba.njit(cache=True, nogil=True)
def _reach(indptr, indices, block):
    rows = len(indptr) - 1
    count = (rows + block - 1) // block
    first, last = np.arange(count), np.arange(count)
    for b in range(count):
        start, stop = indptr[b * block], indptr[min(rows, (b + 1) * block)]
        for e in range(start, stop):
            other = indices[e] // block
            first[b], last[b] = min(first[b], other), max(last[b], other)
            first[other], last[other] = min(first[other], b), max(last[other], b)
    return first, last


class Tiling(NamedTuple):
    """The steps of each part, and those of the wedge between parts p and p + 1."""

    parts: list[Steps]
    wedges: list[Steps]


def start(
    plan: Tiling, work: Callable[[Steps], None], submit: Callable[..., Future[Any]]
) -> list[Future[Any]]:
    """Begin the work of all parts; a wedge follows the later of its two parts, in the same thread."""
    lock, arrived = Lock(), [0] * len(plan.wedges)

    def take(part: int) -> None:
        work(plan.parts[part])
        for wedge in (part - 1, part):
            if 0 <= wedge < len(arrived):
                with lock:
                    arrived[wedge] += 1
                    both = arrived[wedge] == 2
                if both:
                    work(plan.wedges[wedge])

    return [submit(take, part) for part in range(len(plan.parts))]


def plan(reach: Reach, rounds: int, parts: int, step: int = STEP) -> Tiling:
    """The order of blocks for so many rounds and so many parts.

    Parts are as many as asked, or fewer where an edge would reach across one.
    """
    edges = _edges(reach, rounds, parts)
    trapezoids = [_trapezoid(reach, a, b, rounds) for a, b in pairwise(edges)]
    made = [_wavefront(reach, lows, highs, step) for lows, highs in trapezoids]
    wedges = [
        _steps([(k, left[1][k], right[0][k]) for k in range(rounds)])
        for left, right in pairwise(trapezoids)
    ]
    return Tiling(made, wedges)


def _edges(reach: Reach, rounds: int, parts: int) -> list[int]:
    """Where blocks are cut, so that every part keeps a block in the last round."""
    count = len(reach.last)
    for wanted in range(parts, 1, -1):
        edges = [count * p // wanted for p in range(wanted + 1)]
        shapes = [_trapezoid(reach, a, b, rounds) for a, b in pairwise(edges)]
        if all(lows[-1] < highs[-1] for lows, highs in shapes):
            return edges
    return [0, count]


def _trapezoid(reach: Reach, begin: int, end: int, rounds: int) -> tuple[list[int], list[int]]:
    """The first and last block of each round: what reads nothing beyond the round before."""
    count = len(reach.last)
    lows, highs = [begin], [end]
    for _ in range(rounds - 1):
        lows.append(_behind(reach.first, lows[-1]) if begin else 0)
        highs.append(_behind(reach.last, highs[-1]) if end < count else count)
    return lows, highs


def _behind(reach: NDArray[np.int64], edge: int) -> int:
    """The first block whose reach is not below the edge."""
    return int(np.searchsorted(reach, edge))


def _wavefront(reach: Reach, lows: list[int], highs: list[int], step: int) -> Steps:
    """Round after round, each up to the last block whose reach the round before has covered."""
    done, found = list(lows), []
    for front in range(min(lows[0] + step, highs[0]), highs[0] + step, step):
        to = min(front, highs[0])
        for k, high in enumerate(highs):
            if k:
                to = high if to == highs[k - 1] else min(high, _behind(reach.last, to))
            if to > done[k]:
                found.append((k, done[k], to))
                done[k] = to
            to = done[k]
    return _steps(found)


def _steps(found: list[tuple[int, int, int]]) -> Steps:
    return np.array([step for step in found if step[1] < step[2]], dtype=np.int64).reshape(-1, 3)
