"""How agents are divided among ranks, the rows of one rank, and the exchange of its halo.

    Partition.order[k] = the agent at place k,    rank r owns places starts[r] .. starts[r + 1] - 1

Agents are put in an order that keeps neighbours together and cut into stretches. The work of a
stretch is its stored weights, so the cuts balance those. METIS, where pymetis is installed, finds
parts with fewer links between them; they become stretches of an order as well.

Rows of a rank stand as [interior | boundary]: first those that read estimates of this rank alone,
then those that also read others. The estimates of those others, the halo, follow the rank's own,
ordered by place and so by owner: what one rank sends here is one stretch of memory. The entries of
a row keep their order, so that its sum is rounded as on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats, Network
from veilsum._validate import one_of
from veilsum.errors import MissingExtraError, VeilsumError
from veilsum.simulation.mpi.communicator import swap

Places = NDArray[np.int64]
METHODS = ("auto", "order", "metis")
TAG = 7


@dataclass(frozen=True, eq=False)
class Partition:
    """Which rank owns which agents; without `order`, place k is agent k.

    Attributes
    ----------
    starts
        (ranks + 1,): rank r owns places starts[r] .. starts[r + 1] - 1.
    order
        (n,): the agent at each place, or None.

    Raises
    ------
    VeilsumError
        If a rank would have no agents.

    Examples
    --------
    >>> import numpy as np
    >>> part = Partition(np.array([0, 3, 5]), np.array([4, 2, 0, 1, 3]))
    >>> part.ranks, part.size, part.bounds(1)
    (2, 5, (3, 5))
    >>> part.agents(np.arange(3, 5)).tolist()
    [1, 3]
    """

    starts: Places  # (ranks + 1,)
    order: Places | None = None

    def __post_init__(self) -> None:
        """Raise if a rank has no agents: it would wait for others and do nothing."""
        if np.any(np.diff(self.starts) < 1):
            raise VeilsumError(
                f"{self.size} agents are too few for {self.ranks} ranks, which need one each; "
                f"start fewer, e.g. mpiexec -n {max(1, min(self.size, self.ranks - 1))}"
            )

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """The number of agents."""
        return int(self.starts[-1])

    def bounds(self, rank: int) -> tuple[int, int]:
        """The first place of a rank and the one after its last."""
        return int(self.starts[rank]), int(self.starts[rank + 1])

    def owners(self, places: NDArray[Any]) -> Places:
        """The rank that owns each place."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def agents(self, places: NDArray[Any]) -> Places:
        """The agent at each place."""
        return places if self.order is None else self.order[places]

    def places(self) -> Places:
        """(n,): the place of each agent."""
        if self.order is None:
            return np.arange(self.size, dtype=np.int64)
        out = np.empty(self.size, dtype=np.int64)
        out[self.order] = np.arange(self.size)
        return out


def cut(work: NDArray[Any], ranks: int) -> Places:
    """(ranks + 1,): cuts such that each part has about the same sum of `work`, and an item."""
    done = np.cumsum(work, dtype=np.float64)
    goals = done[-1] * np.arange(1, ranks) / ranks
    inner = np.searchsorted(done, goals, side="left") + 1
    least = np.arange(1, ranks)
    inner = np.maximum.accumulate(np.maximum(inner, least) - least) + least  # one item at least
    inner = np.minimum(inner, len(work) - ranks + least)
    return np.concatenate([[0], inner, [len(work)]]).astype(np.int64)


def divide(network: Network, ranks: int, method: str = "auto") -> Partition:
    """Divide a network's agents among ranks; the numbers of a run do not depend on it.

    Parameters
    ----------
    network
        The network.
    ranks
        The number of ranks.
    method
        "order" cuts an order that keeps neighbours together, "metis" needs pymetis, and "auto"
        takes METIS where it is installed and the weights are symmetric.

    Returns
    -------
    Partition
        Stretches with about the same number of weights.

    Raises
    ------
    VeilsumError
        If there are fewer agents than ranks, or `method` is not known.

    Examples
    --------
    >>> from veilsum import networks
    >>> divide(networks.lazy_metropolis("ring:8"), 2, method="order").starts.tolist()
    [0, 4, 8]
    """
    one_of(VeilsumError, METHODS, method=method)
    if ranks == 1 and method != "metis":
        return Partition(np.array([0, network.size]), _order(network))
    if method != "order" and network.kind == "doubly-stochastic":  # METIS takes symmetric graphs
        member = _metis(network.at(1), ranks, needed=method == "metis")
        if member is not None:
            return _by_member(member, ranks, network)
    order = _order(network)
    lengths = np.diff(network.at(1).indptr)
    return Partition(cut(lengths if order is None else lengths[order], ranks), order)


def _order(network: Network) -> Places | None:
    """An order whose stretches have few links to others: squares, where one machine has strips."""
    from veilsum.networks.order import arrange
    from veilsum.simulation.layout import ARRANGED

    graph = network.graph
    positions = None if graph is None else graph.positions
    if network.size >= ARRANGED and not network.dynamic:
        return arrange(network.at(1), positions)
    return arrange(network.at(1), positions, window=1)  # no sorting by length: places matter more


def _by_member(member: Places, ranks: int, network: Network) -> Partition:
    """Parts as stretches: by part, then as in the usual order."""
    order = _order(network)
    usual = np.arange(network.size) if order is None else order
    placed = usual[np.argsort(member[usual], kind="stable")]
    counts = np.bincount(member, minlength=ranks)
    return Partition(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), placed)


def _metis(matrix: Any, ranks: int, needed: bool) -> Places | None:
    try:
        import pymetis
    except ImportError:
        if needed:
            raise MissingExtraError(
                'method "metis" needs pymetis; try: pip install pymetis, or method="order"'
            ) from None
        return None
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    links = rows != matrix.indices
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[links], minlength=matrix.shape[0]))])
    _, member = pymetis.part_graph(
        ranks, xadj=starts, adjncy=matrix.indices[links], vweights=np.diff(matrix.indptr)
    )
    found = np.asarray(member, dtype=np.int64)
    return found if len(np.unique(found)) == ranks else None


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows of a matrix, from place `first` on, with places as columns."""

    first: int
    indptr: NDArray[np.int64]
    columns: NDArray[Any]  # whole numbers of 32 or 64 bits
    data: Floats

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1


@dataclass(frozen=True, eq=False)
class RankPart:
    """The rows of one rank; rows and columns are numbered as in its own memory."""

    places: Places  # (own + halo,): the place of each row of the estimates
    agents: NDArray[np.uint32]  # (own + halo,): the agent of each
    interior: int
    own: int
    indptr: NDArray[Any]  # unsigned, as the kernel has them
    indices: NDArray[np.uint32]
    weights: Floats
    sends: list[tuple[int, NDArray[np.intp]]]  # (rank, the rows that it reads)
    receives: list[tuple[int, int, int]]  # (rank, first row, the row after the last)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(own,): the entries of each row."""
        starts: NDArray[np.int64] = self.indptr.astype(np.int64)
        return starts[1:] - starts[:-1]

    @property
    def halo(self) -> int:
        """The number of agents of other ranks whose estimates are read here."""
        return len(self.places) - self.own


def localise(comm: Any, partition: Partition, rows: Rows, splits: bool = True) -> RankPart:
    """Renumber the rows of this rank and send the others which of their agents it reads.

    Unless it `splits`, rows stay in the order of their places and all count as boundary.
    """
    first, count = rows.first, rows.count
    read = rows.columns.astype(np.int64)
    foreign = (read < first) | (read >= first + count)
    number = np.repeat(np.arange(count), np.diff(rows.indptr))
    boundary = np.full(count, not splits)
    boundary[number[foreign]] = True
    order = np.argsort(boundary, kind="stable")
    local = np.empty(count, dtype=np.int64)
    local[order] = np.arange(count)
    halo = np.unique(read[foreign])
    columns = np.empty(len(rows.columns), dtype=np.uint32)
    columns[~foreign] = local[read[~foreign] - first]
    columns[foreign] = count + np.searchsorted(halo, read[foreign])
    indptr, entries = _moved(rows.indptr, order)
    stretches = list(pairwise(np.searchsorted(halo, partition.starts).tolist()))
    asked = swap(comm, [halo[a:b] for a, b in stretches])
    places = np.concatenate([order + first, halo])
    return RankPart(
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


def rows_of(network: Network, t: int, partition: Partition, rank: int, places: Places) -> Rows:
    """The rows of one rank, out of the whole matrix of round t.

    A large network's are taken out of the matrix that one machine would use, in its order, so that
    their sums are rounded alike; `places` is `partition.places()`.
    """
    from veilsum.simulation.layout import arranged

    first, last = partition.bounds(rank)
    found = arranged(network)
    if found is not None and partition.order is not None:
        order, matrix = found.order, found.weights
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


@dataclass(eq=False)
class Exchange:
    """Messages between one rank and its neighbours; buffers are kept from round to round."""

    comm: Any
    part: RankPart
    _buffers: dict[tuple[int, int], Floats] = field(init=False, default_factory=dict)
    _pending: list[Any] = field(init=False, default_factory=list)

    def begin(self, nu: Floats) -> None:
        """Post the sends of own rows and the receipt of the halo into the rows after them."""
        width = nu.shape[1]
        for q, first, last in self.part.receives:
            self._pending.append(self.comm.Irecv(nu[first:last], source=q, tag=TAG))
        for q, rows in self.part.sends:
            buffer = self._buffers.get((q, width))
            if buffer is None:
                buffer = self._buffers[q, width] = np.empty((len(rows), width))
            np.take(nu, rows, axis=0, out=buffer)
            self._pending.append(self.comm.Isend(buffer, dest=q, tag=TAG))

    def finish(self) -> None:
        """Wait until the halo is here and the sent rows may change."""
        from mpi4py import MPI

        MPI.Request.Waitall(self._pending)
        self._pending.clear()

    def with_halo(self, values: Floats) -> Floats:
        """(own + halo, width): values (own, width) of the own agents with those of the halo."""
        whole = np.empty((len(self.part.places), values.shape[1]))
        whole[: self.part.own] = values
        self.begin(whole)
        self.finish()
        return whole
