"""join: a connected graph from one in several components, by as few links as that takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmura.network.graph import Graph, Links, undirected


def join(graph: Graph) -> Graph:
    """The graph with one link more for each component but the largest; its name says how many.

    Where agents have positions, the links are those of least total length (Boruvka's minimum
    spanning tree of the components). Elsewhere the first agent of each component is linked to an
    agent of the largest, and these are spread evenly over it. A connected graph is returned as it
    is.
    """
    from murmura.network import forest

    parent = forest.of_links(undirected(graph).links, graph.size)
    if not parent.any():  # every root is agent 0
        return graph
    more = _spread(parent) if graph.positions is None else _shortest(graph.positions, parent)
    links = np.concatenate([graph.links, more])
    name = f"{graph.name} + {len(more):,} links"
    return Graph(graph.size, links, graph.labels, name=name, positions=graph.positions)


def _largest(parent: Links) -> int:
    return int(np.bincount(parent).argmax())


def _spread(parent: Links) -> Links:
    largest = _largest(parent)
    hosts = np.flatnonzero(parent == largest)
    roots = np.flatnonzero(parent == np.arange(len(parent)))
    guests = roots[roots != largest]
    chosen = hosts[np.arange(len(guests)) * len(hosts) // len(guests)]
    return np.stack([chosen, guests], axis=1).astype(np.int32)


def _shortest(positions: NDArray[np.float64], parent: Links) -> Links:
    """Every component but the largest takes its shortest way out, until one is left."""
    from murmura.network import forest
    from murmura.network.cells import Cells

    cells, found = Cells.of(positions), []
    while parent.any():
        ways = cells.shortest_ways(parent, _largest(parent))
        found.append(ways[forest.unite_all(parent, ways)])
    return np.concatenate(found)
