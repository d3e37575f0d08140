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
    i = np.arange(size)
    return Graph(size, np.stack([i, (i + 1) % size], axis=1), name="ring", positions=_circle(size))


def path(size: int) -> Graph:
    """Agent i linked to i + 1."""
    sized(2, size=size)
    i = np.arange(size)
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
    agents = np.arange(rows * columns).reshape(rows, columns)
    down = np.stack([agents.ravel(), np.roll(agents, -1, axis=0).ravel()], axis=1)
    right = np.stack([agents.ravel(), np.roll(agents, -1, axis=1).ravel()], axis=1)
    down_right = np.unravel_index(agents.ravel(), (rows, columns))
    places = np.stack(down_right[::-1], axis=1).astype(np.float64)
    links = np.concatenate([down, right])
    return Graph(rows * columns, links, name="torus", positions=places)


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


def _circle(size: int) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
