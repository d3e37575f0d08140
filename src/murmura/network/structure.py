"""Shape of a sparse pattern: components, depths, period. No loop over agents.

The period of a strongly connected pattern is gcd over its arcs (u, v) of |depth_u + 1 - depth_v|,
for the depths of any spanning tree; a connected undirected pattern has period 1, or 2 when it is
bipartite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

Ids = NDArray[np.int64]


def pattern(size: int, rows: NDArray[Any], columns: NDArray[Any]) -> csr_array:
    """The csr array of ones at (rows, columns)."""
    index = np.int32 if size < 2**31 else np.int64
    at = (rows.astype(index), columns.astype(index))
    return coo_array((np.ones(len(rows)), at), shape=(size, size)).tocsr()


def components(adjacency: csr_array) -> Ids:
    """(n,): the component of each agent; of a directed pattern, the strongly connected one."""
    from scipy.sparse.csgraph import connected_components

    ids: Ids = connected_components(adjacency, directed=True, connection="strong")[1]
    return ids.astype(np.int64)


def depths(adjacency: csr_array, root: int = 0) -> Ids:
    """(n,): the depth of each agent in a breadth-first tree that reaches all of them.

    Pointer doubling: depth += depth[parent], parent = parent[parent], until parent is the root.
    """
    from scipy.sparse.csgraph import breadth_first_order

    parent = breadth_first_order(adjacency, root, directed=True)[1].astype(np.int64)
    parent[root] = root
    depth: Ids = (np.arange(len(parent)) != root).astype(np.int64)
    while np.any(parent != root):
        depth += depth[parent]
        parent = parent[parent]
    return depth


def period(adjacency: csr_array, root: int = 0) -> int:
    """gcd over arcs (u, v) of |depth_u + 1 - depth_v|: 1 when aperiodic."""
    depth = depths(adjacency, root)
    arcs = adjacency.tocoo()
    return int(np.gcd.reduce(np.abs(depth[arcs.row] + 1 - depth[arcs.col])))


def is_bipartite(adjacency: csr_array) -> bool:
    """Whether an undirected pattern can be coloured with two colours: its period is even."""
    ids = components(adjacency)
    size = len(ids)
    if ids.max() == 0:
        return period(adjacency) % 2 == 0
    # One more agent, linked once to every component: it joins them and closes no cycle.
    roots = np.unique(ids, return_index=True)[1]
    hub = np.full(len(roots), size)
    arcs = adjacency.tocoo()
    rows = np.concatenate([arcs.row, roots, hub])
    columns = np.concatenate([arcs.col, hub, roots])
    return period(pattern(size + 1, rows, columns), root=size) % 2 == 0
