"""as_graph: a Graph from whatever the caller has."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, issparse

from murmura.errors import NetworkError
from murmura.network.graph import Graph, self_loop


def as_graph(source: Any) -> Graph:
    """A Graph from a Graph, a networkx graph, an adjacency matrix, links, a name or a file.

    - networkx Graph or DiGraph: nodes become labels in their order, `pos` becomes positions;
    - scipy sparse array or square numpy array: a link wherever the entry is positive, undirected
      if the pattern is symmetric (the weights are not kept: see `Mixing.of` for those);
    - numpy array of whole numbers of shape (m, 2), m other than 2: undirected links between the
      agents 0 .. largest (use Graph(size, links) for agents without links, or directed links);
    - str or path: what `load` accepts, such as "ring:20", "links.csv" or "links.parquet".
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | os.PathLike):
        from murmura.network.named import load

        return load(source)
    networkx = sys.modules.get("networkx")  # without it no such graph can have been made
    if networkx is not None and isinstance(source, networkx.Graph):
        return _from_networkx(source)
    if isinstance(source, np.ndarray) and _are_links(source):
        return from_links(source)
    if issparse(source) or isinstance(source, np.ndarray):
        return from_matrix(source)
    raise NetworkError(
        f"a graph cannot be made from {type(source).__name__}: expected a Graph, a networkx graph, "
        "an adjacency matrix (numpy or scipy), links of shape (m, 2), a name such as 'ring:20' or "
        "a path"
    )


def _from_networkx(source: Any) -> Graph:
    if source.is_multigraph():
        raise NetworkError(
            "graph must not be a multigraph: parallel links have no meaning here; "
            "try networkx.Graph(graph)"
        )
    nodes = list(source.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    ends = chain.from_iterable((index[u], index[v]) for u, v in source.edges())
    links = np.fromiter(ends, np.int64, 2 * source.number_of_edges()).reshape(-1, 2)
    labels = range(len(nodes)) if nodes == list(range(len(nodes))) else nodes
    name = source.name or type(source).__name__
    return Graph(len(nodes), links, labels, source.is_directed(), name, _positions(source, nodes))


def _positions(source: Any, nodes: list[Any]) -> NDArray[np.float64] | None:
    """The `pos` of every node; None unless all of them are two finite numbers."""
    places = [source.nodes[node].get("pos") for node in nodes]
    if any(place is None for place in places):
        return None
    try:
        positions = np.array(places, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    fits = positions.shape == (len(nodes), 2) and bool(np.isfinite(positions).all())
    return positions if fits else None


def _are_links(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.shape[1] == 2 != array.shape[0] and array.dtype.kind in "iu"


def from_links(
    links: NDArray[Any],
    size: int | None = None,
    labels: Sequence[Hashable] = (),
    directed: bool = False,
    name: str = "links",
    positions: NDArray[Any] | None = None,
) -> Graph:
    """The Graph of an array of links; without a size, of the agents 0 .. largest."""
    if size is None:
        if links.size == 0:
            raise NetworkError("there are no links: expected pairs of agent indices, shape (m, 2)")
        size = int(links.max()) + 1
    return Graph(size, links, labels, directed, name, positions)


def from_matrix(source: Any) -> Graph:
    """The Graph of an adjacency matrix, undirected if its pattern is symmetric."""
    if source.ndim != 2 or source.shape[0] != source.shape[1]:
        raise NetworkError(
            f"adjacency must be square, or links whole numbers of shape (m, 2); found shape "
            f"{source.shape} of {source.dtype}"
        )
    if source.dtype.kind not in "biuf":
        raise NetworkError(f"adjacency must hold real numbers; found {source.dtype}")
    entries = coo_array(source)
    _check_entries(entries)
    kept = entries.data != 0
    rows, columns, size = entries.row[kept], entries.col[kept], source.shape[0]
    if np.any(rows == columns):
        raise self_loop(range(size), int(rows[rows == columns].min()))
    directed = not _is_symmetric(rows, columns, size)
    once = slice(None) if directed else rows < columns
    links = np.stack([rows[once], columns[once]], axis=1)
    return Graph(size, links, directed=directed, name="adjacency")


def _is_symmetric(rows: NDArray[Any], columns: NDArray[Any], size: int) -> bool:
    """Whether every (i, j) has its (j, i): both patterns are sorted by counting, then compared."""
    forth, back = (
        coo_array((np.ones(len(rows), np.int8), at), shape=(size, size)).tocsr()
        for at in ((rows, columns), (columns, rows))
    )
    for pattern in (forth, back):
        pattern.sum_duplicates()
    return np.array_equal(forth.indptr, back.indptr) and np.array_equal(forth.indices, back.indices)


def _check_entries(entries: coo_array) -> None:
    wrong = np.flatnonzero(~np.isfinite(entries.data) | (entries.data < 0))
    if len(wrong):
        k = wrong[0]
        raise NetworkError(
            f"adjacency must be finite and nonnegative: entry ({entries.row[k]}, {entries.col[k]}) "
            f"is {entries.data[k]}"
        )
