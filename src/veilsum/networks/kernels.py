"""Array operations on links and rows, one function for each job at every size.

`compiled_pays` is the one decision between numpy and the compiled loops of `compiled`: below it
numba is never imported, above it memory stays in proportion to the links. `scipy_pays` is the one
for scipy's searches. Where a job has two implementations they return the same arrays, which tests
hold them to; where numba or scipy is not installed, the plain one serves at any size. A matrix is a
`CompressedRows`, or an array of scipy with the same attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._types import Floats, Indices, Ints
from veilsum.networks.rows import CompressedRows, compressed

SEARCHES = 20_000  # entries from which scipy's searches repay being loaded
LARGE = 500_000  # links or entries from which compiled loops repay being loaded
BLOCK = 1 << 16  # rows that numpy takes at once, so that temporary arrays stay small


def compiled_pays(count: int) -> bool:
    """Whether an operation on so many links or entries should use a compiled loop."""
    return count >= LARGE and _extras.available("numba")


def scipy_pays(count: int) -> bool:
    """Whether a search through so many entries should be scipy's."""
    return count >= SEARCHES and _extras.available("scipy")


def pattern(size: int, rows: NDArray[Any], columns: NDArray[Any]) -> CompressedRows:
    """Ones at (rows, columns), which must differ."""
    return CompressedRows.lay(size, rows, columns, np.ones(len(rows)))


def row_numbers(matrix: CompressedRows, first: int = 0, last: int | None = None) -> Indices:
    """The row of each stored entry of rows first .. last - 1."""
    stop = matrix.shape[0] if last is None else last
    counts = np.diff(matrix.indptr[first : stop + 1])
    return np.repeat(np.arange(first, stop, dtype=np.int32), counts)


def off_diagonal(matrix: CompressedRows) -> Iterator[tuple[int, int, slice, NDArray[np.bool_]]]:
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
        from veilsum.networks import compiled

        return compiled.sort_links(links, size, directed)
    ends = links if directed else np.sort(links, axis=1)
    keys = np.unique(ends[:, 0].astype(np.int64) * size + ends[:, 1])
    return np.stack([keys // size, keys % size], axis=1).astype(np.int32)


def components_of_links(links: Indices, size: int) -> Ints:
    """(n,): the component of each agent under undirected links, by order of their least agents."""
    return _numbered(least_of_links(links, size))


def least_of_links(links: Indices, size: int) -> Indices:
    """(n,): the least agent that each one is linked with, over any number of undirected links."""
    if compiled_pays(len(links)):
        from veilsum.networks import compiled

        return compiled.roots_of_links(links, size)
    return least_linked(links[:, 0], links[:, 1], size).astype(np.int32)


def components(matrix: CompressedRows, directed: bool) -> Ints:
    """(n,): the component of each agent; strongly connected ones if directed, else symmetric.

    They are numbered by their least agents.
    """
    if compiled_pays(matrix.nnz) and not directed:
        from veilsum.networks import compiled

        return compiled.numbered(compiled.roots_of_rows(matrix.indptr, matrix.indices)).astype(
            np.int64
        )
    if not directed:
        return _numbered(least_linked(row_numbers(matrix), matrix.indices, matrix.shape[0]))
    return _strong(matrix)


def least_linked(i: NDArray[Any], j: NDArray[Any], size: int) -> Ints:
    """(n,): the least agent that each one is linked with, over any number of undirected links.

    Every root takes the least root that a link leads to, until no link joins two: in each pass all
    components but the finished ones are joined with another.
    """
    parent = np.arange(size)
    while True:
        a, b = parent[i], parent[j]
        apart = a != b
        if not apart.any():
            return parent
        low, high = np.minimum(a[apart], b[apart]), np.maximum(a[apart], b[apart])
        np.minimum.at(parent, high, low)
        above = parent[parent]
        while np.any(above != parent):
            parent, above = above, above[above]


def _numbered(least: NDArray[Any]) -> Ints:
    """0, 1, ... in the order of the least agents."""
    numbers = np.cumsum(least == np.arange(len(least))) - 1
    return np.asarray(numbers[least], dtype=np.int64)


def _strong(matrix: CompressedRows) -> Ints:
    """Strongly connected components; two searches suffice where there is one."""
    size = matrix.shape[0]
    if scipy_pays(matrix.nnz):
        search = _extras.load("scipy.sparse.csgraph").connected_components
        ids = np.asarray(search(_scipy(matrix), directed=True, connection="strong")[1])
    elif np.all(reached(matrix, 0) >= 0) and np.all(reached(_transposed(matrix), 0) >= 0):
        return np.zeros(size, dtype=np.int64)
    else:
        import networkx

        arcs = networkx.DiGraph()
        arcs.add_nodes_from(range(size))
        arcs.add_edges_from(zip(row_numbers(matrix).tolist(), matrix.indices.tolist(), strict=True))
        ids = np.empty(size, dtype=np.int64)
        for k, members in enumerate(networkx.strongly_connected_components(arcs)):
            ids[list(members)] = k
    least = np.full(int(ids.max()) + 1, size)
    np.minimum.at(least, ids, np.arange(size))
    return _numbered(least[ids])


def for_products(rows: CompressedRows) -> Any:
    """What multiplies: scipy's array where that repays; products are the same to the last bit."""
    return rows.csr if scipy_pays(rows.nnz) else rows


def _scipy(matrix: Any) -> Any:
    return matrix.csr if isinstance(matrix, CompressedRows) else matrix


def _transposed(matrix: CompressedRows) -> CompressedRows:
    return CompressedRows.lay(matrix.shape[0], matrix.indices, row_numbers(matrix), matrix.data)


def reached(adjacency: CompressedRows, root: int = 0) -> Ints:
    """(n,): the hops from the root to each agent along links, by breadth; -1 where none lead."""
    starts, ends = adjacency.indptr.tolist(), adjacency.indices.tolist()
    hops, found = [-1] * (len(starts) - 1), [root]
    hops[root] = 0
    for i in found:  # which grows while it is read
        away = hops[i] + 1
        for j in ends[starts[i] : starts[i + 1]]:
            if hops[j] < 0:
                hops[j] = away
                found.append(j)
    return np.array(hops, dtype=np.int64)


def either_way(matrix: CompressedRows) -> CompressedRows:
    """Ones wherever an agent has a link to another or from it."""
    size, i, j = matrix.shape[0], row_numbers(matrix).astype(np.int64), matrix.indices
    places = np.unique(np.concatenate([i * size + j, j.astype(np.int64) * size + i]))
    return pattern(size, places // size, places % size)


def depths(adjacency: CompressedRows, root: int = 0) -> Ints:
    """(n,): the depth of each agent in a breadth-first tree that reaches all of them."""
    if not scipy_pays(adjacency.nnz):
        return reached(adjacency, root)
    search = _extras.load("scipy.sparse.csgraph").breadth_first_order
    # Pointer doubling: depth += depth[parent], parent = parent[parent], until parent is the root.
    parent = search(_scipy(adjacency), root, directed=True)[1].astype(np.int64)
    parent[root] = root
    depth: Ints = (np.arange(len(parent)) != root).astype(np.int64)
    while np.any(parent != root):
        depth += depth[parent]
        parent = parent[parent]
    return depth


def period(matrix: CompressedRows, root: int = 0) -> int:
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


def is_bipartite(adjacency: CompressedRows) -> bool:
    """Whether an undirected pattern can be coloured with two colours: its period is even."""
    ids = components(adjacency, directed=False)
    size = len(ids)
    if ids.max() == 0:
        return period(adjacency) % 2 == 0
    # One more agent, linked once to every component: it joins them and closes no cycle.
    roots = np.unique(ids, return_index=True)[1]
    hub = np.full(len(roots), size)
    rows = np.concatenate([row_numbers(adjacency), roots, hub])
    columns = np.concatenate([adjacency.indices, hub, roots])
    return period(pattern(size + 1, rows, columns), root=size) % 2 == 0


def has_self_weight(weights: CompressedRows) -> bool:
    """Whether some a_ii > 0; the first block that has one ends the search."""
    return any(bool((weights.data[e][~off] > 0).any()) for _, _, e, off in off_diagonal(weights))


def largest_off_diagonal(weights: CompressedRows) -> Floats:
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
    rows = compressed(weights)
    if rows is None or not compiled_pays(rows.nnz) or rows.data.dtype != np.float64:
        return False
    from veilsum.networks import compiled

    bits = rows.data.view(np.uint64)
    return compiled.is_sound(rows.indptr, rows.indices, rows.data, bits, tolerance)
