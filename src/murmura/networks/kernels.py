"""Array operations on links and rows, one function for each job at every size.

`compiled_pays` is the one decision between numpy and the compiled loops of `compiled`: below it
numba is never imported, above it memory stays in proportion to the links. Where a job has two
implementations they return the same arrays, which tests hold them to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from murmura._types import Floats, Indices, Ints

NARROW_BELOW = 2**31  # stored entries that a row pointer of 32 bits can count
LARGE = 500_000  # links or entries from which compiled loops repay being loaded
BLOCK = 1 << 16  # rows that numpy takes at once, so that temporary arrays stay small


def compiled_pays(count: int) -> bool:
    """Whether an operation on so many links or entries should use a compiled loop."""
    return count >= LARGE


def csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], size: int) -> csr_array:
    """The (size, size) csr array of these parts, without a copy of data or of int32 indices.

    scipy widens the indices together with the row pointers; agents are fewer than 2^31, so here
    only the pointers grow, which saves a fourth of the memory that a large network needs.
    """
    narrow = indices.astype(np.int32, copy=False)
    if len(data) < NARROW_BELOW:
        return csr_array((data, narrow, indptr.astype(np.int32, copy=False)), shape=(size, size))
    wide = csr_array((size, size), dtype=data.dtype)
    wide.data, wide.indices, wide.indptr = data, narrow, indptr.astype(np.int64, copy=False)
    return wide


def pattern(size: int, rows: NDArray[Any], columns: NDArray[Any]) -> csr_array:
    """The csr array of ones at (rows, columns)."""
    at = (rows.astype(np.int32), columns.astype(np.int32))
    return coo_array((np.ones(len(rows)), at), shape=(size, size)).tocsr()


def row_numbers(matrix: csr_array, first: int = 0, last: int | None = None) -> Indices:
    """The row of each stored entry of rows first .. last - 1."""
    stop = matrix.shape[0] if last is None else last
    counts = np.diff(matrix.indptr[first : stop + 1])
    return np.repeat(np.arange(first, stop, dtype=np.int32), counts)


def off_diagonal(matrix: csr_array) -> Iterator[tuple[int, int, slice, NDArray[np.bool_]]]:
    """Blocks of rows (first, last), their stored entries, and which of these are off the diagonal."""
    size = matrix.shape[0]
    for first in range(0, size, BLOCK):
        last = min(first + BLOCK, size)
        entries = slice(int(matrix.indptr[first]), int(matrix.indptr[last]))
        yield first, last, entries, row_numbers(matrix, first, last) != matrix.indices[entries]


def are_sorted(links: Indices, directed: bool) -> bool:
    """Whether links are in order, each once, and i < j in each if undirected."""
    i, j = links[:, 0], links[:, 1]
    rising = (i[1:] > i[:-1]) | ((i[1:] == i[:-1]) & (j[1:] > j[:-1]))
    return bool(rising.all()) and (directed or bool((i < j).all()))


def sort_links(links: Indices, size: int, directed: bool) -> Indices:
    """The links in order, each once, (i, j) with i < j unless directed."""
    if compiled_pays(len(links)):
        from murmura.networks import compiled

        return compiled.sort_links(links, size, directed)
    ends = links if directed else np.sort(links, axis=1)
    keys = np.unique(ends[:, 0].astype(np.int64) * size + ends[:, 1])
    return np.stack([keys // size, keys % size], axis=1).astype(np.int32)


def components_of_links(links: Indices, size: int) -> Ints:
    """(n,): the component of each agent under undirected links, by order of their least agents."""
    if compiled_pays(len(links)):
        from murmura.networks import compiled

        return compiled.numbered(compiled.roots_of_links(links, size)).astype(np.int64)
    return _scipy_components(pattern(size, links[:, 0], links[:, 1]), directed=False)


def components(matrix: csr_array, directed: bool) -> Ints:
    """(n,): the component of each agent; strongly connected ones if directed, else symmetric."""
    if compiled_pays(matrix.nnz) and not directed:
        from murmura.networks import compiled

        return compiled.numbered(compiled.roots_of_rows(matrix.indptr, matrix.indices)).astype(
            np.int64
        )
    return _scipy_components(matrix, directed)


def _scipy_components(matrix: csr_array, directed: bool) -> Ints:
    from scipy.sparse.csgraph import connected_components

    ids: Ints = connected_components(matrix, directed=directed, connection="strong")[1]
    return ids.astype(np.int64)


def depths(adjacency: csr_array, root: int = 0) -> Ints:
    """(n,): the depth of each agent in a breadth-first tree that reaches all of them.

    Pointer doubling: depth += depth[parent], parent = parent[parent], until parent is the root.
    """
    from scipy.sparse.csgraph import breadth_first_order

    parent = breadth_first_order(adjacency, root, directed=True)[1].astype(np.int64)
    parent[root] = root
    depth: Ints = (np.arange(len(parent)) != root).astype(np.int64)
    while np.any(parent != root):
        depth += depth[parent]
        parent = parent[parent]
    return depth


def period(matrix: csr_array, root: int = 0) -> int:
    """gcd over links u -> v, u != v, of |depth_u + 1 - depth_v|: the period if there are no loops.

    For the depths of any spanning tree of a strongly connected pattern. A connected undirected
    pattern has period 1, or 2 when it is bipartite.
    """
    depth, found = depths(matrix, root), 0
    for first, last, entries, off in off_diagonal(matrix):
        rows, columns = row_numbers(matrix, first, last)[off], matrix.indices[entries][off]
        block = int(np.gcd.reduce(np.abs(depth[rows] + 1 - depth[columns]))) if len(rows) else 0
        found = int(np.gcd(found, block))
    return found


def is_bipartite(adjacency: csr_array) -> bool:
    """Whether an undirected pattern can be coloured with two colours: its period is even."""
    ids = components(adjacency, directed=False)
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


def has_self_weight(weights: csr_array) -> bool:
    """Whether some a_ii > 0; the first block that has one ends the search."""
    return any(bool((weights.data[e][~off] > 0).any()) for _, _, e, off in off_diagonal(weights))


def largest_off_diagonal(weights: csr_array) -> Floats:
    """(n,): max over j != i of a_ij; every row stores its diagonal, so that none is empty."""
    largest = np.empty(weights.shape[0])
    for first, last, entries, off in off_diagonal(weights):
        data = np.where(off, weights.data[entries], 0.0)
        largest[first:last] = np.maximum.reduceat(data, weights.indptr[first:last] - entries.start)
    return largest


def is_sound(weights: Any, tolerance: float) -> bool:
    """Whether a large matrix is canonical, symmetric and doubly stochastic, checked in one pass.

    False says only that the other checks have to look: they name what is wrong. Small matrices
    are left to them.
    """
    if not (isinstance(weights, csr_array) and compiled_pays(weights.nnz)):
        return False
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.dtype != np.float64:
        return False
    if weights.indices.dtype != np.int32:
        return False
    from murmura.networks import compiled

    bits = weights.data.view(np.uint64)
    return compiled.is_sound(weights.indptr, weights.indices, weights.data, bits, tolerance)
