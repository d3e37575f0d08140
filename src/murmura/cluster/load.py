"""Loading a graph without any rank holding it: slices of a file, links sent to their owners.

    net = load_slices("grid.parquet", weights="metropolis")     called by every rank

Each rank reads its slice, tells how the ends spread over the agents, and sends every link to the
owners of both its ends. Owners sort their rows, learn the degrees of the agents they hear, and
weigh their links by the formula of `network.metropolis`, with the same floating-point numbers.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura._validate import one_of
from murmura.cluster.comm import swap, together, total, world
from murmura.cluster.halo import Exchange
from murmura.cluster.network import DistributedNetwork, check
from murmura.cluster.part import Rows, localise
from murmura.cluster.partition import Partition, cut
from murmura.cluster.slices import Slice, read_slice
from murmura.errors import NetworkError
from murmura.network.layout import is_large
from murmura.network.pattern import DUST

Pairs = NDArray[np.int64]
RATIOS = {"metropolis": 1.0, "lazy-metropolis": 0.5}
BUCKETS = 65_536  # stretches of agents by which work is counted before links move
MOST_AGENTS = 2**32  # agents are numbered with 32 bits in memory


def load_slices(
    path: str | os.PathLike[str], comm: Any = None, weights: str = "metropolis"
) -> DistributedNetwork:
    """The weights of an undirected graph in a .parquet, .npz, .npy or .csv file of links.

    Agents are whole numbers 0 .. n-1, each with a link; a link given twice counts once. Neighbours
    should have close numbers, for ranks own stretches of them: save a graph in the order of
    `network.arrange` first.
    """
    comm = world() if comm is None else comm
    place = Path(path)
    with together(comm):
        one_of(NetworkError, RATIOS, weights=weights)
        mine = read_slice(place, comm.rank, comm.size)
        _check(place, mine)
    size = _size(comm, place, mine)
    partition = _balanced(comm, mine.pairs, size)
    first, last = partition.bounds(comm.rank)
    links = _own_links(comm, partition, mine.pairs)
    del mine
    rows = _laid(links, first, last - first)
    with together(comm):
        alone = np.flatnonzero(np.diff(rows.indptr) == 1)
        if len(alone):
            raise NetworkError(
                f"{place}: agent {first + int(alone[0])} has no link; agents are 0..{size - 1}, "
                "without gaps: number them anew, or load the graph with network.load"
            )
    made = DistributedNetwork(comm, partition, _weighed(comm, partition, rows, weights), weights)
    check(made)
    return made


def _check(path: Path, mine: Slice) -> None:
    pairs = mine.pairs
    if mine.directed:
        raise NetworkError(f"{path} is directed; distributed loading takes undirected graphs")
    if not len(pairs):
        return
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise NetworkError(
            f"{path}: self-loop at agent {int(pairs[loops[0], 0])}: an agent always hears itself; "
            "remove the link"
        )
    low, high = int(pairs.min()), int(pairs.max())
    most = MOST_AGENTS if mine.size is None else mine.size
    if low < 0 or high >= most:
        wrong = low if low < 0 else high
        raise NetworkError(f"{path}: agent {wrong} is out of range: agents are 0..{most - 1}")


def _size(comm: Any, path: Path, mine: Slice) -> int:
    """The number of agents: what the file says, or one more than the largest of all ranks."""
    largest = max(comm.allgather(int(mine.pairs.max()) if len(mine.pairs) else -1))
    with together(comm):
        if largest < 0:
            raise NetworkError(f"{path} has no links: expected pairs of agents")
    return largest + 1 if mine.size is None else mine.size


def _balanced(comm: Any, pairs: Pairs, size: int) -> Partition:
    """Stretches of agents with about the same number of weights, cut between buckets."""
    count = min(size, BUCKETS)
    edges = -(-np.arange(count + 1, dtype=np.int64) * size // count)
    ends = np.bincount((pairs * count // size).ravel(), minlength=count)
    starts = cut(total(comm, ends) + np.diff(edges), comm.size)
    with together(comm):
        return Partition(edges[starts])


def _own_links(comm: Any, partition: Partition, pairs: Pairs) -> Pairs:
    """The links of this rank's agents, (i, j) with i its own, in any order."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    owners = partition.owners(both[:, 0])
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], np.arange(comm.size + 1))
    parts = [both[order[a:b]] for a, b in pairwise(cuts.tolist())]
    return np.concatenate(swap(comm, parts))


def _laid(links: Pairs, first: int, count: int) -> Rows:
    """Rows sorted by column, each link once, the diagonal included."""
    own = np.arange(first, first + count)
    rows = np.concatenate([links[:, 0], own])
    columns = np.concatenate([links[:, 1], own])
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    rows, columns = rows[fresh], columns[fresh]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows - first, minlength=count))])
    narrow = columns.astype(np.uint32)
    return Rows(first, indptr.astype(np.int64), narrow, np.zeros(len(columns)))


def _weighed(comm: Any, partition: Partition, rows: Rows, scheme: str) -> Rows:
    """a_ij = ratio/max(d_i, d_j); a_ii is what is left, added up as `network.weigh` does.

    Below a size that one machine adds up the links to larger agents first, then those to smaller;
    from there on in the order of the row. `bincount` adds in the order of its input.
    """
    part = localise(comm, partition, rows, splits=False)
    degrees = (np.diff(rows.indptr) - 1).astype(np.float64)
    heard = Exchange(comm, part).share(degrees[:, None])[:, 0]
    number = np.repeat(np.arange(rows.count), np.diff(rows.indptr))
    away = rows.columns.astype(np.int64) - (number + rows.first)
    larger = np.maximum(degrees[number], heard[part.indices])
    data = np.where(away == 0, 0.0, RATIOS[scheme] / np.maximum(larger, 1.0))
    links = int(total(comm, np.array([int((away > 0).sum())]))[0])
    if is_large(links):
        taken = np.bincount(number, data, rows.count)
    else:
        up, down = away > 0, away < 0
        taken = np.bincount(number[up], data[up], rows.count)
        taken = taken + np.bincount(number[down], data[down], rows.count)
    left = 1.0 - taken
    left[np.abs(left) < DUST] = 0.0
    data[away == 0] = left
    return Rows(rows.first, rows.indptr, rows.columns, data)
