"""Graph: which agents exchange messages.

An undirected link is stored once as (i, j), i < j; a directed link (source, target) means that
the source sends to the target. Agents are 0 .. n-1 inside; `labels` keeps the names they came with.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats, Indices, Ints, Labels
from veilsum._validate import at_least, at_most
from veilsum.errors import NetworkError
from veilsum.networks import kernels
from veilsum.networks.rows import CompressedRows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

T = TypeVar("T", bound=np.ndarray[Any, Any])
LARGEST = 2**31 - 1  # agents: weights are stored with indices of 32 bits


@dataclass(frozen=True, eq=False)
class Graph:
    """n agents and the links between them; valid, sorted and without duplicates once constructed.

    Links have 32 bits an end. An int32 array that is sorted, owns its memory and is read-only is
    kept; everything else is copied.

    Parameters
    ----------
    size : int
        The number n of agents, at least 2.
    links : array_like of int, shape (m, 2)
        Pairs of agent indices; (source, target) if directed.
    labels : sequence of hashable, optional
        A distinct name for each agent; 0 .. n-1 if left out.
    directed : bool
        Whether a link carries messages one way only.
    name : str
        What messages and tables call the graph.
    positions : array_like of float, shape (n, 2), optional
        Coordinates of the agents.

    Raises
    ------
    NetworkError
        For a self-loop, an index out of range, or labels that do not fit.

    Examples
    --------
    >>> from veilsum import networks
    >>> graph = networks.Graph(3, [(0, 1), (2, 1)], labels=["a", "b", "c"])
    >>> graph
    Graph('graph', 3 agents, 2 links)
    >>> graph.degrees, graph.neighbours(1), graph.is_connected
    (array([1, 2, 1]), array([0, 2]), True)
    """

    size: int
    links: Indices
    labels: Labels = ()
    directed: bool = False
    name: str = "graph"
    positions: Floats | None = None

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
        """Write the graph to a file for `load`.

        Parameters
        ----------
        path : str or path
            Ending in .npz (all of the graph) or .parquet (without positions).
        """
        from veilsum.networks.io import write

        write(self, path)

    @property
    def arcs(self) -> Indices:
        """(k, 2): every (source, target); an undirected link gives both directions."""
        return self.links if self.directed else np.concatenate([self.links, self.links[:, ::-1]])

    @cached_property
    def out_degrees(self) -> Ints:
        """(n,): how many agents each one sends to."""
        return self._ends(0) if self.directed else self._ends(0) + self._ends(1)

    @cached_property
    def in_degrees(self) -> Ints:
        """(n,): how many agents each one receives from."""
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

    @property
    def adjacency(self) -> csr_array:
        """(n, n) of ones: row i has the agents that i sends to; needs `veilsum[sim]`."""
        return self.rows.csr

    @cached_property
    def rows(self) -> CompressedRows:
        """The same without scipy."""
        return kernels.pattern(self.size, *self.arcs.T)

    @cached_property
    def components(self) -> Ints:
        """(n,): the number of each agent's component (strongly connected if directed)."""
        if self.directed:
            return kernels.components(self.rows, directed=True)
        return kernels.components_of_links(self.links, self.size)

    @property
    def is_connected(self) -> bool:
        """Whether every agent can reach every other."""
        return int(self.components.max()) == 0

    @cached_property
    def is_bipartite(self) -> bool:
        """Whether two colours suffice, directions ignored."""
        arcs = np.concatenate([self.links, self.links[:, ::-1]])
        return kernels.is_bipartite(kernels.pattern(self.size, arcs[:, 0], arcs[:, 1]))

    def neighbours(self, agent: int) -> Ints:
        """The indices of the agents that an agent sends to, in order.

        Parameters
        ----------
        agent : int
            An index, 0 .. n-1.
        """
        if not 0 <= agent < self.size:
            raise NetworkError(f"agent must be an index in 0..{self.size - 1}; found {agent}")
        start, stop = self.rows.indptr[agent : agent + 2]
        return np.asarray(self.rows.indices[start:stop], dtype=np.int64)


def sized(least: int, **sizes: int) -> None:
    """Raise unless every size is a whole number from `least` to the most agents a network has."""
    at_least(NetworkError, least, **sizes)
    at_most(NetworkError, LARGEST, **sizes)


def undirected(graph: Graph) -> Graph:
    """The graph itself, or an error if it is directed."""
    if graph.directed:
        raise NetworkError(
            f"symmetric weights need an undirected graph; found {graph!r}; "
            "try networks.row_stochastic(graph) or networks.column_stochastic(graph)"
        )
    return graph


def relabelled(graph: Graph, labels: Labels) -> Graph:
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


def checked_labels(labels: Labels | None, size: int) -> Labels:
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


def _first_repeated(labels: Labels) -> Hashable:
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


def _checked_positions(positions: Any, size: int) -> Floats:
    places = np.asarray(positions, dtype=np.float64)
    places = places if is_frozen(places) else places.copy()
    if places.shape != (size, 2):
        raise NetworkError(f"positions must have shape ({size}, 2); found {places.shape}")
    places.flags.writeable = False
    return places


def agent_name(labels: Labels, i: int) -> str:
    """How a message names agent i: its index, with its label where that says more."""
    return f"agent {i}" if labels[i] == i else f"agent {labels[i]!r} (index {i})"


def self_loop(labels: Labels, i: int) -> NetworkError:
    """The error for a link from an agent to itself."""
    return NetworkError(
        f"graph has a self-loop at {agent_name(labels, i)}: an agent always hears itself (a_ii); "
        "remove the link, e.g. graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
    )


def canonical_links(links: Any, size: int, labels: Labels, directed: bool = False) -> Indices:
    """(m, 2), read-only: the links in order and each once, i < j if undirected; or an error."""
    pairs = _in_range(np.asarray(links), size)
    if pairs.dtype == np.int32:
        narrow = frozen(np.ascontiguousarray(pairs))
    else:
        narrow = freeze(pairs.astype(np.int32, order="C"))
    loops = np.flatnonzero(narrow[:, 0] == narrow[:, 1])
    if len(loops):
        raise self_loop(labels, int(narrow[loops[0], 0]))
    if not kernels.are_sorted(narrow, directed):
        return freeze(kernels.sort_links(narrow, size, directed))
    return narrow if is_frozen(narrow) else freeze(narrow.copy())


def frozen(array: T) -> T:
    """The array itself if it cannot be written, else a read-only view of it."""
    if is_frozen(array):
        return array
    seen = array.view()
    seen.flags.writeable = False
    return seen


def is_frozen(array: NDArray[Any]) -> bool:
    """Whether the array owns its memory and cannot be written."""
    return array.flags.owndata and not array.flags.writeable


def freeze(array: T) -> T:
    """The same array, read-only from now on."""
    array.flags.writeable = False
    return array


def _in_range(pairs: NDArray[Any], size: int) -> NDArray[Any]:
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise NetworkError(
            f"links must be pairs of agent indices, shape (m, 2); found shape {pairs.shape} "
            f"of {pairs.dtype}"
        )
    if pairs.min() < 0 or pairs.max() >= size:
        outside = ((pairs < 0) | (pairs >= size)).any(axis=1)
        pair = tuple(pairs[outside.argmax()].tolist())
        raise NetworkError(f"link {pair} is out of range: agents are 0..{size - 1}")
    return pairs
