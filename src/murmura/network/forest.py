"""Components of large undirected networks by union-find: one int32 per agent, one look per link.

parent[i] leads from i towards its component's root, the least agent that it was joined with.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.integer[Any]]  # of 32 bits


@numba.njit(cache=True)
def find(parent: Indices, i: int) -> int:
    """The root of i; the way there is halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@numba.njit(cache=True)
def unite(parent: Indices, i: int, j: int) -> bool:
    """Join the components of i and j; False if they were one already."""
    a, b = find(parent, i), find(parent, j)
    if a == b:
        return False
    parent[max(a, b)] = min(a, b)
    return True


@numba.njit(cache=True)
def of_links(links: Indices, size: int) -> Indices:
    """(n,): the root of every agent, for undirected links."""
    parent = np.arange(size).astype(np.int32)
    for e in range(len(links)):
        unite(parent, links[e, 0], links[e, 1])
    return flat(parent)


@numba.njit(cache=True)
def of_rows(indptr: Any, indices: Indices) -> Indices:
    """(n,): the root of every agent, for the rows of a symmetric matrix."""
    parent = np.arange(len(indptr) - 1).astype(np.int32)
    for i in range(len(parent)):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] > i:
                unite(parent, i, indices[e])
    return flat(parent)


@numba.njit(cache=True)
def unite_all(parent: Indices, pairs: Indices) -> NDArray[np.bool_]:
    """Join the ends of every pair, leaving parents flat: which pairs joined two components."""
    joined = np.empty(len(pairs), np.bool_)
    for e in range(len(pairs)):
        joined[e] = unite(parent, pairs[e, 0], pairs[e, 1])
    flat(parent)
    return joined


@numba.njit(cache=True)
def flat(parent: Indices) -> Indices:
    """Every agent straight below its root: a root is less than all that it leads."""
    for i in range(len(parent)):
        parent[i] = parent[parent[i]]
    return parent


@numba.njit(cache=True)
def numbered(parent: Indices) -> Indices:
    """(n,): components 0, 1, ... in the order of their least agents, from flat parents."""
    ids, count = np.empty(len(parent), np.int32), 0
    for i in range(len(parent)):
        if parent[i] == i:
            ids[i] = count
            count += 1
        else:
            ids[i] = ids[parent[i]]
    return ids


@numba.njit(cache=True)
def is_bipartite(indptr: Any, indices: Indices) -> bool:
    """Whether a connected symmetric pattern has two colours, its diagonal left out: a search."""
    size = len(indptr) - 1
    colour, queue = np.full(size, -1, np.int8), np.empty(size, np.int32)
    colour[0], queue[0], head, tail = 0, 0, 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if colour[j] < 0:
                colour[j] = 1 - colour[i]
                queue[tail] = j
                tail += 1
            elif j != i and colour[j] == colour[i]:
                return False
    return True
