"""Where to draw agents: their own positions, a stored layout, or one computed from the links."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STORED = {"us-power-grid": "us_power_grid_layout.csv"}  # row = node number, x and y in 0..1
SPRING_LIMIT = 499  # agents; networkx turns to a slower spring layout above
PIVOTS = 40


def positions(graph: Any) -> Floats:
    """(n, 2): the graph's own positions, its stored layout, or a computed one; always the same."""
    if graph.positions is not None:
        return np.asarray(graph.positions, dtype=np.float64)
    stored = _stored(graph)
    if stored is not None:
        return stored
    return spring(graph) if graph.size <= SPRING_LIMIT else pivots(graph)


def links(network: Any) -> Ints:
    """(m, 2): the links of the graph, or those that the first round's weights use."""
    if network.graph is not None:
        return np.asarray(network.graph.links, dtype=np.int64)
    i, j = network.at(1).nonzero()
    pairs = np.sort(np.stack([i, j], axis=1)[i != j].astype(np.int64), axis=1)
    return np.unique(pairs, axis=0)


def of_network(network: Any) -> Floats:
    """(n, 2): positions of the agents of a network, whether it knows its graph or not."""
    return positions(network.graph if network.graph is not None else _Bare(network))


def spring(graph: Any) -> Floats:
    """Links pull, agents push (Fruchterman and Reingold 1991): good for hundreds of agents.

    It starts from the pivot layout, which spares it the untangling.
    """
    import networkx

    drawn = networkx.Graph()
    drawn.add_nodes_from(range(graph.size))
    drawn.add_edges_from(graph.links.tolist())
    start = pivots(graph)
    begin = dict(enumerate(start / np.abs(start).max()))
    placed = networkx.spring_layout(drawn, pos=begin, seed=0, iterations=80)
    return np.array([placed[i] for i in range(graph.size)])


def pivots(graph: Any, count: int = PIVOTS) -> Floats:
    """Pivot MDS (Brandes and Pich 2007): two principal axes of the hops to a few far-apart agents.

    With D the hops to the pivots and C = -D^2/2 centred by rows and columns, positions are the
    projection of C on its two leading right singular vectors: time O(count x links).
    """
    hops = _hops(graph, min(count, graph.size))
    C = -0.5 * hops**2
    C = C - C.mean(axis=0) - C.mean(axis=1, keepdims=True) + C.mean()
    _, vectors = np.linalg.eigh(C.T @ C)
    return np.asarray(C @ vectors[:, :-3:-1], dtype=np.float64)


def _hops(graph: Any, count: int) -> Floats:
    """(n, count): hops to pivots, each the agent farthest from those before it."""
    i, j = graph.links.T
    matrix = csr_array((np.ones(len(i)), (i, j)), shape=(graph.size, graph.size))
    columns: list[Floats] = []
    nearest, pivot = np.full(graph.size, np.inf), 0
    for _ in range(count):
        hops = dijkstra(matrix, directed=False, unweighted=True, indices=pivot)
        reached = np.isfinite(hops)
        hops[~reached] = 2 * hops[reached].max() + 2  # another component: far, but on the page
        columns.append(hops)
        nearest = np.minimum(nearest, hops)
        pivot = int(nearest.argmax())
    return np.stack(columns, axis=1)


def _stored(graph: Any) -> Floats | None:
    """A layout made offline (sfdp, repulsive force 2), if the labels are its row numbers."""
    if graph.name not in STORED:
        return None
    file = resources.files("veilsum.networks") / "data" / STORED[graph.name]
    with file.open(encoding="utf-8") as lines:
        placed = np.loadtxt(lines, delimiter=",", skiprows=1)
    rows = np.asarray(list(graph.labels))
    known = rows.dtype.kind in "iu" and rows.min() >= 0 and rows.max() < len(placed)
    return np.asarray(placed[rows]) if known else None


class _Bare:
    """What a layout needs of a network that has weights and no graph."""

    positions = None
    name = ""

    def __init__(self, network: Any) -> None:
        self.size, self.links = int(network.size), links(network)
