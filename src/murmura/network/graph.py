"""Graph: who may talk to whom.

An undirected link is stored once as (i, j), i < j; a directed link (source, target) means that
the source sends to the target. Agents are 0 .. n-1 inside; `labels` keeps the names they came with.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from murmura._validate import at_least, at_most
from murmura.errors import NetworkError
from murmura.network import layout, structure
from murmura.network.links import Links, agent_name, canonical_links, is_frozen, self_loop

Ints = NDArray[np.int64]
LARGEST = 2**31 - 1  # agents: weights are stored with indices of 32 bits
__all__ = [
    "LARGEST", "Graph", "Ints", "Links", "agent_name", "checked_labels", "relabelled", "self_loop",
    "sized", "undirected",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Graph:
    """n agents and the links between them; valid, sorted and without duplicates once constructed.

    Graph(3, [(0, 1), (1, 2)], labels=["a", "b", "c"])

    Links have 32 bits an end. An int32 array that is sorted, owns its memory and cannot be written
    is kept; everything else is copied.
    """

    size: int
    links: Links
    labels: Sequence[Hashable] = ()
    directed: bool = False
    name: str = "graph"
    positions: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check, then put the links in canonical order."""
        _check_size(self.size)
        labels = checked_labels(self.labels, self.size)
        links = canonical_links(self.links, self.size, labels, self.directed)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "links", links)
        if self.positions is not None:
            object.__setattr__(self, "positions", _checked_positions(self.positions, self.size))

    def __repr__(self) -> str:
        """Name and counts, never the links."""
        kind = "directed links" if self.directed else "links"
        return f"Graph({self.name!r}, {self.size} agents, {len(self.links)} {kind})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .npz (all of the graph) or .parquet file (without positions) for `load`."""
        from murmura.network.files import write

        write(self, path)

    @property
    def arcs(self) -> Links:
        """(k, 2): every (source, target); an undirected link gives both directions."""
        return self.links if self.directed else np.concatenate([self.links, self.links[:, ::-1]])

    @cached_property
    def out_degrees(self) -> Ints:
        """(n,): how many agents each one sends to."""
        return self._ends(0) if self.directed else self._ends(0) + self._ends(1)

    @cached_property
    def in_degrees(self) -> Ints:
        """(n,): how many agents each one hears."""
        return self._ends(1) if self.directed else self.out_degrees

    def _ends(self, column: int) -> Ints:
        return np.bincount(self.links[:, column], minlength=self.size)

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
        return structure.pattern(self.size, *self.arcs.T)

    @cached_property
    def components(self) -> Ints:
        """(n,): the number of each agent's component (strongly connected if directed)."""
        if layout.is_large(len(self.links)) and not self.directed:
            from murmura.network import forest

            return forest.numbered(forest.of_links(self.links, self.size)).astype(np.int64)
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


def _checked_positions(positions: Any, size: int) -> NDArray[np.float64]:
    places = np.asarray(positions, dtype=np.float64)
    places = places if is_frozen(places) else places.copy()
    if places.shape != (size, 2):
        raise NetworkError(f"positions must have shape ({size}, 2); found {places.shape}")
    places.flags.writeable = False
    return places
