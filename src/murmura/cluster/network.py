"""DistributedNetwork: weights of which each rank holds the rows of its own agents, and no more.

What `network.Mixing` promises, it promises too, checked without bringing the graph together:
symmetric and doubly stochastic by construction, connected by joining the ranks' components, and
aperiodic because some agent hears itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from murmura.cluster.comm import together, total
from murmura.cluster.halo import Exchange
from murmura.cluster.part import Part, Rows, localise
from murmura.cluster.partition import Partition
from murmura.errors import NetworkError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DistributedNetwork:
    """Symmetric doubly stochastic weights, divided among the ranks of `comm`; agents are 0 .. n-1.

    It goes where a network goes in a `Problem` for `cluster.simulate`.
    """

    comm: Any
    partition: Partition
    held: Rows
    scheme: str

    graph: None = None
    kind: str = "doubly-stochastic"
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
        """Not known: a law that needs the spectrum must be given it."""
        raise NetworkError(
            "the spectrum of a distributed network is not computed; give it to the law, e.g. "
            'laws.get("chebyshev", network, lambda_2=0.999, lambda_n=-0.5)'
        )

    lambda_n = beta_star = lambda_2

    def at(self, t: int) -> csr_array:
        """No rank has the whole of A_t."""
        del t
        raise NetworkError(
            "no rank holds the whole matrix of a distributed network; run it with "
            "murmura.cluster.simulate, or load the graph with network.load"
        )

    def rows(self, t: int) -> Rows:
        """This rank's rows; the same in every round."""
        del t
        return self.held

    def largest(self, part: Part) -> Floats:
        """In the order of the part's rows."""
        return self.largest_neighbour_weight[part.places[: part.own] - self.held.first]

    def stationary_of(self, part: Part) -> Floats:
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


def _unreached(comm: Any, part: Part, first: int) -> int | None:
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
    heard = Exchange(comm, part).share(names[:, None])[:, 0]
    pairs = np.stack([heard[rows[~inside]], heard[part.indices[~inside]]], axis=1)
    pairs = np.concatenate([np.stack([first + least] * 2, axis=1), np.unique(pairs, axis=0)])
    gathered = comm.gather(pairs.astype(np.int64))
    lost: int | None = None
    if comm.rank == 0:
        ends, places = np.unique(np.concatenate(gathered), return_inverse=True)
        a, b = places.reshape(-1, 2).T
        whole = coo_array((np.ones(len(a), bool), (a, b)), (len(ends), len(ends)))
        _, joined = connected_components(whole, directed=False)
        apart = ends[joined != joined[0]]
        lost = int(apart[0]) if len(apart) else None
    found: int | None = comm.bcast(lost)
    return found
