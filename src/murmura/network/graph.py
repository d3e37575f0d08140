"""Graph: who may talk to whom.

An undirected link is stored once as (i, j), i < j; a directed link (source, target) means that
the source sends to the target. Agents are 0 .. n-1 inside; `labels` keeps the names they came with.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from murmura._validate import at_least, at_most
from murmura.errors import NetworkError
from murmura.network import structure

Ints = NDArray[np.int64]
LARGEST = 2**31 - 1  # agents: weights are stored with indices of 32 bits


@dataclass(frozen=True, eq=False)
class Graph:
    """n agents and the links between them; valid, sorted and without duplicates once constructed.

    Graph(3, [(0, 1), (1, 2)], labels=["a", "b", "c"])
    """

    size: int
    links: Ints
    labels: Sequence[Hashable] = ()
    directed: bool = False
    name: str = "graph"
    positions: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check, then put the links in canonical order."""
        _check_size(self.size)
        labels = checked_labels(self.labels, self.size)
        links = _checked_links(self.links, self.size, labels)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "links", _canonical(links, self.size, self.directed))
        if self.positions is not None:
            object.__setattr__(self, "positions", _checked_positions(self.positions, self.size))

    def __repr__(self) -> str:
        """Name and counts, never the links."""
        kind = "directed links" if self.directed else "links"
        return f"Graph({self.name!r}, {self.size} agents, {len(self.links)} {kind})"

    @cached_property
    def arcs(self) -> Ints:
        """(k, 2): every (source, target); an undirected link gives both directions."""
        return self.links if self.directed else np.concatenate([self.links, self.links[:, ::-1]])

    @cached_property
    def out_degrees(self) -> Ints:
        """(n,): how many agents each one sends to."""
        return np.bincount(self.arcs[:, 0], minlength=self.size)

    @cached_property
    def in_degrees(self) -> Ints:
        """(n,): how many agents each one hears."""
        return np.bincount(self.arcs[:, 1], minlength=self.size)

    @property
    def degrees(self) -> Ints:
        """(n,): how many neighbours each agent has."""
        if self.directed:
            raise NetworkError(
                f"degrees need an undirected graph: {self!r} has in_degrees and out_degrees"
            )
        return self.out_degrees

    @cached_property
    def adjacency(self) -> csr_array:
        """(n, n) of ones: row i holds the agents that i sends to."""
        return structure.pattern(self.size, self.arcs[:, 0], self.arcs[:, 1])

    @cached_property
    def components(self) -> Ints:
        """(n,): the number of each agent's component (strongly connected if directed)."""
        return structure.components(self.adjacency)

    @property
    def is_connected(self) -> bool:
        """Whether every agent can reach every other."""
        return int(self.components.max()) == 0

    @cached_property
    def is_bipartite(self) -> bool:
        """Whether two colours suffice, directions ignored."""
        arcs = np.concatenate([self.links, self.links[:, ::-1]])
        return structure.is_bipartite(structure.pattern(self.size, arcs[:, 0], arcs[:, 1]))

    def neighbours(self, agent: int) -> Ints:
        """The indices of the agents that `agent` (an index) sends to, in order."""
        if not 0 <= agent < self.size:
            raise NetworkError(f"agent must be an index in 0..{self.size - 1}; found {agent}")
        start, stop = self.adjacency.indptr[agent : agent + 2]
        return np.asarray(self.adjacency.indices[start:stop], dtype=np.int64)


def sized(least: int, **sizes: int) -> None:
    """Raise unless every size is a whole number from `least` to the most agents a network has."""
    at_least(NetworkError, least, **sizes)
    at_most(NetworkError, LARGEST, **sizes)


def undirected(graph: Graph) -> Graph:
    """The graph itself, or an error if it is directed."""
    if graph.directed:
        raise NetworkError(
            f"symmetric weights need an undirected graph; found {graph!r}; "
            "try network.row_stochastic(graph) or network.column_stochastic(graph)"
        )
    return graph


def relabelled(graph: Graph, labels: Sequence[Hashable]) -> Graph:
    """The same graph with its agents in the order of `labels`, which must name the same ones."""
    if graph.labels == labels or tuple(graph.labels) == tuple(labels):  # two ranges at once
        return graph
    wanted = tuple(labels)
    index = {label: i for i, label in enumerate(wanted)}
    strange = next((label for label in graph.labels if label not in index), None)
    if strange is not None or graph.size != len(wanted):
        whose = f"; {strange!r} is not among those expected" if strange is not None else ""
        raise NetworkError(
            f"found {graph!r} where the same {len(wanted)} agents were expected{whose}; "
            "use the same labels in every round"
        )
    place = np.array([index[label] for label in graph.labels], dtype=np.int64)
    positions = None if graph.positions is None else graph.positions[np.argsort(place)]
    return Graph(graph.size, place[graph.links], labels, graph.directed, graph.name, positions)


def agent_name(labels: Sequence[Hashable], i: int) -> str:
    """How a message names agent i: its index, with its label where that says more."""
    return f"agent {i}" if labels[i] == i else f"agent {labels[i]!r} (index {i})"


def checked_labels(labels: Sequence[Hashable] | None, size: int) -> Sequence[Hashable]:
    """The labels if there is one for each agent and no two are the same; 0 .. n-1 if none given."""
    if labels is None or len(labels) == 0:
        return range(size)
    if len(labels) != size:
        raise NetworkError(f"labels must name every agent once: {len(labels)} for {size} agents")
    if isinstance(labels, range):
        return labels
    kept = tuple(labels)
    if len(set(kept)) < size:
        twice = _first_repeated(kept)
        raise NetworkError(f"labels must differ: {twice!r} names two agents; rename one of them")
    return kept


def _first_repeated(labels: Sequence[Hashable]) -> Hashable:
    seen: set[Hashable] = set()
    for label in labels:
        if label in seen:
            return label
        seen.add(label)
    raise AssertionError("no label is repeated")


def _check_size(size: int) -> None:
    sized(0, size=size)
    if size == 0:
        raise NetworkError("graph is empty: it has no agents; a network needs at least 2")
    if size < 2:
        raise NetworkError(f"a network needs at least 2 agents; found {size}")


def _checked_links(links: Any, size: int, labels: Sequence[Hashable]) -> Ints:
    pairs = np.asarray(links)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise NetworkError(
            f"links must be pairs of agent indices, shape (m, 2); found shape {pairs.shape} "
            f"of {pairs.dtype}"
        )
    pairs = pairs.astype(np.int64)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= size)).any(axis=1))
    if len(outside):
        pair = tuple(pairs[outside[0]].tolist())
        raise NetworkError(f"link {pair} is out of range: agents are 0..{size - 1}")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise self_loop(labels, int(pairs[loops[0], 0]))
    return pairs


def self_loop(labels: Sequence[Hashable], i: int) -> NetworkError:
    """The error for a link from an agent to itself."""
    return NetworkError(
        f"graph has a self-loop at {agent_name(labels, i)}: an agent always hears itself (a_ii); "
        "remove the link, e.g. graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
    )


def _canonical(links: Ints, size: int, directed: bool) -> Ints:
    pairs = links if directed else np.sort(links, axis=1)
    keys = pairs[:, 0] * size + pairs[:, 1]
    if np.any(np.diff(keys) <= 0):
        keys = np.unique(keys)
    ordered = np.stack([keys // size, keys % size], axis=1)
    ordered.flags.writeable = False
    return ordered


def _checked_positions(positions: Any, size: int) -> NDArray[np.float64]:
    places = np.array(positions, dtype=np.float64)
    if places.shape != (size, 2):
        raise NetworkError(f"positions must have shape ({size}, 2); found {places.shape}")
    places.flags.writeable = False
    return places
