"""Networks that are divided among ranks.

`ReplicatedNetwork` cuts a network that every rank has built; `DistributedNetwork` is one of which
each rank holds the rows of its own agents alone. What `networks.Mixing` guarantees, the latter
guarantees too, checked without bringing the graph together: symmetric and doubly stochastic by
construction, connected by joining the ranks' components, and aperiodic because some agent has a
positive weight of its own.

    net = load_slices("grid.parquet", weights="metropolis")     called by every rank

Each rank reads its slice of the file, counts how the ends spread over the agents, and sends every
link to the owners of both its ends. Owners sort their rows, receive the degrees of the agents that
they read, and weigh their links by the formula of `networks.metropolis`, with the same
floating-point numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from veilsum._types import Floats, Kind, Network
from veilsum._validate import one_of
from veilsum.errors import NetworkError
from veilsum.networks.kernels import compiled_pays
from veilsum.networks.weights import ROUNDING
from veilsum.simulation.mpi.communicator import swap, together, total, world
from veilsum.simulation.mpi.partition import (
    Exchange,
    Partition,
    Places,
    RankPart,
    Rows,
    cut,
    divide,
    localise,
    rows_of,
)
from veilsum.simulation.mpi.slices import Slice, read_slice

Pairs = NDArray[np.int64]
RATIOS = {"metropolis": 1.0, "lazy-metropolis": 0.5}
BUCKETS = 65_536  # stretches of agents by which work is counted before links move
MOST_AGENTS = 2**32  # agents are numbered with 32 bits in memory


class PartitionedNetwork(Protocol):
    """A network that is divided among ranks."""

    @property
    def partition(self) -> Partition:
        """Which rank owns which agents."""

    def rows(self, t: int) -> Rows:
        """Give this rank's rows of A_t."""

    def largest(self, part: RankPart) -> Floats:
        """Give (own,): the largest weight of a neighbour, in the order of the part's rows."""

    def stationary_of(self, part: RankPart) -> Floats:
        """Give (own,): how much each agent weighs in the limit."""


@dataclass(eq=False)
class ReplicatedNetwork:
    """A network that every rank has in full, and of which it computes a part."""

    network: Network
    comm: Any
    method: str = "auto"
    partition: Partition = field(init=False)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        """Rank 0 divides, so that all ranks have the same division."""
        made: Partition | None = None
        with together(self.comm):
            if self.comm.rank == 0:
                made = divide(self.network, self.comm.size, self.method)
        self.partition = self.comm.bcast(made)
        self._places = self.partition.places()

    def rows(self, t: int) -> Rows:
        """This rank's rows of A_t, which is built in full."""
        return rows_of(self.network, max(t, 1), self.partition, self.comm.rank, self._places)

    def largest(self, part: RankPart) -> Floats:
        """Out of the network's."""
        return np.asarray(self.network.largest_neighbour_weight)[part.agents[: part.own]]

    def stationary_of(self, part: RankPart) -> Floats:
        """Out of the network's."""
        return np.asarray(self.network.stationary)[part.agents[: part.own]]


@dataclass(frozen=True, eq=False)
class DistributedNetwork:
    """Symmetric doubly stochastic weights, divided among the ranks of `comm`; agents are 0 .. n-1.

    `load_slices` makes it. It is the network of a `Problem` for `simulation.mpi.simulate`.

    Attributes
    ----------
    comm
        The communicator.
    partition
        Which rank owns which agents.
    held
        The rows of this rank.
    scheme
        "metropolis" or "lazy-metropolis".
    graph, kind, dynamic
        As in `Network`: no rank has the graph, the weights are doubly stochastic, and they are the
        same in every round.

    Examples
    --------
    Three agents in a path, all on one rank:

    >>> from types import SimpleNamespace
    >>> from veilsum.simulation.mpi.partition import Partition, Rows
    >>> columns = np.array([0, 1, 0, 1, 2, 1, 2])
    >>> data = np.array([0.5, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5])
    >>> rows = Rows(0, np.array([0, 2, 5, 7]), columns, data)
    >>> one = SimpleNamespace(rank=0, size=1)
    >>> network = DistributedNetwork(one, Partition(np.array([0, 3])), rows, "metropolis")
    >>> network
    DistributedNetwork('metropolis', 3 agents on 1 ranks)
    >>> network.largest_neighbour_weight.tolist()
    [0.5, 0.5, 0.5]
    """

    comm: Any
    partition: Partition
    held: Rows
    scheme: str

    graph: None = None
    kind: Kind = "doubly-stochastic"
    dynamic: bool = False

    def __repr__(self) -> str:
        """Scheme and size, never the weights."""
        ranks = self.comm.size
        return f"DistributedNetwork({self.scheme!r}, {self.size} agents on {ranks} ranks)"

    @property
    def size(self) -> int:
        """The number n of agents, of all ranks."""
        return self.partition.size

    @property
    def labels(self) -> range:
        """0 .. n-1."""
        return range(self.size)

    @property
    def stationary(self) -> Floats:
        """pi = 1/n, without room for n numbers."""
        return np.broadcast_to(1.0 / self.size, (self.size,))

    @property
    def largest_neighbour_weight(self) -> Floats:
        """(own,): max over j != i of a_ij, for the agents of this rank alone."""
        rows = self.held
        number = np.repeat(np.arange(rows.count), np.diff(rows.indptr))
        others = np.where(rows.columns == number + rows.first, 0.0, rows.data)
        return np.asarray(np.maximum.reduceat(others, rows.indptr[:-1]))

    @property
    def lambda_2(self) -> float:
        """Not known: pass the spectrum to an algorithm that needs it."""
        raise NetworkError(
            "the spectrum of a distributed network is not computed; give it to the algorithm, e.g. "
            'algorithms.get("chebyshev", network, lambda_2=0.999, lambda_n=-0.5)'
        )

    lambda_n = beta_star = lambda_2

    def at(self, t: int) -> csr_array:
        """No rank has the whole of A_t."""
        del t
        raise NetworkError(
            "no rank holds the whole matrix of a distributed network; run it with "
            "veilsum.simulation.mpi.simulate, or load the graph with networks.load"
        )

    def rows(self, t: int) -> Rows:
        """This rank's rows; the same in every round."""
        del t
        return self.held

    def largest(self, part: RankPart) -> Floats:
        """In the order of the part's rows."""
        return self.largest_neighbour_weight[part.places[: part.own] - self.held.first]

    def stationary_of(self, part: RankPart) -> Floats:
        """1/n each."""
        return np.full(part.own, 1.0 / self.size)


def check(network: DistributedNetwork) -> None:
    """Raise unless the network is connected and aperiodic."""
    comm, rows = network.comm, network.held
    part = localise(comm, network.partition, rows, splits=False)
    with together(comm):
        lost = _unreached(comm, part, rows.first)
        if lost is not None:
            raise NetworkError(
                f"the network is not connected: no path joins agent 0 and agent {lost}; keep its "
                "largest component, e.g. networkx.connected_components"
            )
    number = np.repeat(np.arange(rows.count), np.diff(rows.indptr))
    own = int((rows.data[rows.columns == number + rows.first] > 0).sum())
    if total(comm, np.array([own]))[0] == 0:
        with together(comm):
            raise NetworkError(
                "every agent has the same number of neighbours, so that no agent hears itself, "
                'and estimates may alternate for ever; use weights="lazy-metropolis"'
            )


def _unreached(comm: Any, part: RankPart, first: int) -> int | None:
    """An agent that agent 0 has no path to, or None.

    Each rank finds the components among its own agents, named after their least agent, and rank 0
    joins the names that links between ranks connect.
    """
    rows = np.repeat(np.arange(part.own), part.lengths)
    inside = part.indices < part.own
    square = (part.own, part.own)
    links = coo_array((np.ones(inside.sum(), bool), (rows[inside], part.indices[inside])), square)
    _, member = connected_components(links, directed=False)
    _, least = np.unique(member, return_index=True)
    names = (first + least[member]).astype(np.float64)
    received = Exchange(comm, part).with_halo(names[:, None])[:, 0]
    pairs = np.stack([received[rows[~inside]], received[part.indices[~inside]]], axis=1)
    pairs = np.concatenate([np.stack([first + least] * 2, axis=1), np.unique(pairs, axis=0)])
    gathered = comm.gather(pairs.astype(np.int64))
    lost: int | None = None
    if comm.rank == 0:
        ends, places = np.unique(np.concatenate(gathered), return_inverse=True)
        a, b = places.reshape(-1, 2).T
        whole = coo_array((np.ones(len(a), bool), (a, b)), (len(ends), len(ends)))
        _, joined = connected_components(whole, directed=False)
        others = ends[joined != joined[0]]
        lost = int(others[0]) if len(others) else None
    found: int | None = comm.bcast(lost)
    return found


def load_slices(
    path: str | os.PathLike[str], comm: Any = None, weights: str = "metropolis"
) -> DistributedNetwork:
    """Load the weights of an undirected graph so that no rank ever has all of it.

    Agents are whole numbers 0 .. n-1, each with a link; a link given twice counts once. Neighbours
    should have close numbers, for ranks own stretches of them: save a graph in the order of
    `networks.arrange` first.

    Parameters
    ----------
    path
        A .parquet, .npz, .npy or .csv file of links that all ranks can read.
    comm
        The communicator; by default `world()`.
    weights
        "metropolis" or "lazy-metropolis".

    Returns
    -------
    DistributedNetwork
        The rows of this rank's agents.

    Raises
    ------
    NetworkError
        On every rank, if the file cannot be read or the graph is directed, disconnected, periodic,
        or has self-loops or agents without links.

    Examples
    --------
    In a script that `mpiexec -n 4 python script.py` starts::

        network = load_slices("grid.parquet", weights="lazy-metropolis")
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
                "without gaps: number them anew, or load the graph with networks.load"
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
    """a_ij = ratio/max(d_i, d_j); a_ii is what is left, added up as `networks.weigh` does.

    Below a size that one machine adds up the links to larger agents first, then those to smaller;
    from there on in the order of the row. `bincount` adds in the order of its input.
    """
    part = localise(comm, partition, rows, splits=False)
    degrees = (np.diff(rows.indptr) - 1).astype(np.float64)
    received = Exchange(comm, part).with_halo(degrees[:, None])[:, 0]
    number = np.repeat(np.arange(rows.count), np.diff(rows.indptr))
    away = rows.columns.astype(np.int64) - (number + rows.first)
    larger = np.maximum(degrees[number], received[part.indices])
    data = np.where(away == 0, 0.0, RATIOS[scheme] / np.maximum(larger, 1.0))
    links = int(total(comm, np.array([int((away > 0).sum())]))[0])
    if compiled_pays(links):
        taken = np.bincount(number, data, rows.count)
    else:
        up, down = away > 0, away < 0
        taken = np.bincount(number[up], data[up], rows.count)
        taken = taken + np.bincount(number[down], data[down], rows.count)
    left = 1.0 - taken
    left[np.abs(left) < ROUNDING] = 0.0
    data[away == 0] = left
    return Rows(rows.first, rows.indptr, rows.columns, data)
