"""Regular graphs by formula: a million agents in about a second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmura._validate import at_least, at_most
from murmura.errors import NetworkError
from murmura.network.graph import Graph, sized

LARGEST_COMPLETE = 20_000
LARGEST_HYPERCUBE = 24  # 2^24 agents, 2 * 10^8 links: as many as the largest complete graph


def ring(size: int) -> Graph:
    """Agent i linked to i + 1 mod n."""
    sized(3, size=size)
    i = np.arange(size, dtype=np.int32)
    return Graph(size, np.stack([i, np.roll(i, -1)], axis=1), name="ring", positions=_circle(size))


def path(size: int) -> Graph:
    """Agent i linked to i + 1."""
    sized(2, size=size)
    i = np.arange(size, dtype=np.int32)
    places = np.stack([i.astype(np.float64), np.zeros(size)], axis=1)
    return Graph(size, np.stack([i[:-1], i[1:]], axis=1), name="path", positions=places)


def star(size: int) -> Graph:
    """Agent 0 linked to every other."""
    sized(2, size=size)
    leaves = np.arange(1, size)
    places = np.concatenate([np.zeros((1, 2)), _circle(size - 1)])
    links = np.stack([np.zeros_like(leaves), leaves], axis=1)
    return Graph(size, links, name="star", positions=places)


def complete(size: int) -> Graph:
    """Every agent linked to every other: n(n-1)/2 links."""
    sized(2, size=size)
    if size > LARGEST_COMPLETE:
        raise NetworkError(
            f"a complete graph of {size} agents has {size * (size - 1) // 2} links, too many to "
            f"store; at most {LARGEST_COMPLETE} agents"
        )
    links = np.stack(np.triu_indices(size, 1), axis=1)
    return Graph(size, links, name="complete", positions=_circle(size))


def torus(rows: int, columns: int | None = None) -> Graph:
    """Agent (r, c), index r * columns + c, linked to (r+1, c) and (r, c+1), both mod the sides."""
    columns = rows if columns is None else columns
    sized(2, rows=rows, columns=columns)
    sized(4, size=rows * columns)
    agents = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    links = np.empty((rows, columns, 2, 2), dtype=np.int32)
    links[..., 0] = agents[..., None]
    links[:, :, 0, 1], links[:, :, 1, 1] = np.roll(agents, -1, axis=1), np.roll(agents, -1, axis=0)
    pairs, places = links.reshape(-1, 2), _lattice(rows, columns)
    return Graph(rows * columns, pairs, name="torus", positions=places)


def grid(rows: int, columns: int | None = None) -> Graph:
    """Agent (r, c), index r * columns + c, linked to (r+1, c) and (r, c+1) where there are such."""
    columns = rows if columns is None else columns
    sized(1, rows=rows, columns=columns)
    sized(2, size=rows * columns)
    agents = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    ends = [(agents[:-1], agents[1:]), (agents[:, :-1], agents[:, 1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in ends])
    return Graph(rows * columns, pairs, name="grid", positions=_lattice(rows, columns))


def hypercube(dimension: int) -> Graph:
    """2^dimension agents, linked where their indices differ in one bit."""
    at_least(NetworkError, 1, dimension=dimension)
    at_most(NetworkError, LARGEST_HYPERCUBE, dimension=dimension)
    agents = np.arange(2**dimension)
    bits = 1 << np.arange(dimension)
    low = [agents[agents & bit == 0] for bit in bits]
    links = np.concatenate(
        [np.stack([i, i | bit], axis=1) for i, bit in zip(low, bits, strict=True)]
    )
    return Graph(len(agents), links, name="hypercube")


def _lattice(rows: int, columns: int) -> NDArray[np.float64]:
    """(rows * columns, 2): x = c, y = r, row by row."""
    places = np.empty((rows, columns, 2))
    places[..., 0], places[..., 1] = np.arange(columns), np.arange(rows)[:, None]
    return places.reshape(-1, 2)


def _circle(size: int) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
