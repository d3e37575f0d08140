"""A rank's part of a network: its rows, whom they hear beyond it, and who hears them elsewhere.

Rows stand as [interior | boundary]: first those that hear agents of this rank alone, then those
that also hear others. The estimates of those others, the halo, follow the rank's own, ordered by
place and so by owner: what one rank sends here is one stretch of memory. The entries of a row keep
their order, so that its sum is rounded as on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import swap
from murmura.cluster.partition import Partition, Places

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows of a matrix, from place `first` on, with places as columns."""

    first: int
    indptr: NDArray[np.int64]
    columns: NDArray[Any]  # whole numbers of 32 or 64 bits
    data: Floats

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1


@dataclass(frozen=True, eq=False)
class Part:
    """What one rank holds; rows and columns are numbered as in its own memory."""

    places: Places  # (own + halo,): the place of each row of the estimates
    agents: NDArray[np.uint32]  # (own + halo,): the agent of each
    interior: int
    own: int
    indptr: NDArray[Any]  # unsigned, as the kernel has them
    indices: NDArray[np.uint32]
    weights: Floats
    sends: list[tuple[int, NDArray[np.intp]]]  # (rank, the rows that it hears)
    receives: list[tuple[int, int, int]]  # (rank, first row, the row after the last)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(own,): the entries of each row."""
        starts: NDArray[np.int64] = self.indptr.astype(np.int64)
        return starts[1:] - starts[:-1]

    @property
    def halo(self) -> int:
        """How many agents of other ranks are heard here."""
        return len(self.places) - self.own


def localise(comm: Any, partition: Partition, rows: Rows, splits: bool = True) -> Part:
    """Renumber the rows of this rank and tell the others which of their agents it hears.

    Unless it `splits`, rows stay in the order of their places and all count as boundary.
    """
    first, count = rows.first, rows.count
    heard = rows.columns.astype(np.int64)
    foreign = (heard < first) | (heard >= first + count)
    number = np.repeat(np.arange(count), np.diff(rows.indptr))
    boundary = np.full(count, not splits)
    boundary[number[foreign]] = True
    order = np.argsort(boundary, kind="stable")
    local = np.empty(count, dtype=np.int64)
    local[order] = np.arange(count)
    halo = np.unique(heard[foreign])
    columns = np.empty(len(rows.columns), dtype=np.uint32)
    columns[~foreign] = local[heard[~foreign] - first]
    columns[foreign] = count + np.searchsorted(halo, heard[foreign])
    indptr, entries = _moved(rows.indptr, order)
    stretches = list(pairwise(np.searchsorted(halo, partition.starts).tolist()))
    asked = swap(comm, [halo[a:b] for a, b in stretches])
    places = np.concatenate([order + first, halo])
    return Part(
        places=places,
        agents=partition.agents(places).astype(np.uint32),
        interior=count - int(boundary.sum()),
        own=count,
        indptr=indptr.astype(np.uint32 if len(entries) < 2**32 else np.uint64),
        indices=columns[entries],
        weights=rows.data[entries],
        sends=[(q, local[wanted - first]) for q, wanted in enumerate(asked) if len(wanted)],
        receives=[(q, count + a, count + b) for q, (a, b) in enumerate(stretches) if b > a],
    )


def _moved(indptr: NDArray[Any], order: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The row pointers of rows taken in an order, and where each of their entries was."""
    lengths = np.diff(indptr)[order]
    moved = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(indptr[:-1][order] - moved[:-1], lengths)
    return moved, shift + np.arange(moved[-1])


def rows_of(network: Any, t: int, partition: Partition, rank: int, places: Places) -> Rows:
    """The rows of one rank, out of the whole matrix of round t.

    A large network's are taken out of the matrix that one machine would use, in its order, so that
    their sums are rounded alike; `places` is `partition.places()`.
    """
    from murmura.engine.layout import arranged

    first, last = partition.bounds(rank)
    found = arranged(network)
    if found is not None and partition.order is not None:
        order, matrix = found
        agents = partition.order[first:last]
        rank_of = np.empty(len(order), dtype=np.int64)
        rank_of[order] = np.arange(len(order))
        taken, renamed = rank_of[agents], places[order]
    else:
        matrix = network.at(t)
        taken = partition.agents(np.arange(first, last))
        renamed = places
    indptr, entries = _moved(matrix.indptr.astype(np.int64), taken)
    return Rows(first, indptr, renamed[matrix.indices[entries]], matrix.data[entries])
