"""Random graphs from a seed.

`random_geometric` is networkx's graph at every size. The others are networkx's, link for link,
up to 2,000 agents; above that a vectorised draw from the same model serves a million agents.
They may come out disconnected: the weights say so.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura._validate import as_float, at_least, found, positive
from murmura.errors import NetworkError
from murmura.network.convert import as_graph
from murmura.network.graph import Graph, Ints, sized

NETWORKX_UP_TO = 2_000
ATTEMPTS = 1_000


def random_geometric(size: int, radius: float, seed: int = 0) -> Graph:
    """Uniform points in the unit square, linked when at most `radius` apart.

    The same points and links as networkx.random_geometric_graph(size, radius, seed=seed).
    """
    from scipy.spatial import cKDTree

    _check(2, size, seed)
    positive(NetworkError, radius=radius)
    source = random.Random(seed)  # networkx draws from Python's generator, two numbers a node
    places = np.array([source.random() for _ in range(2 * size)]).reshape(size, 2)
    links = cKDTree(places).query_pairs(radius, output_type="ndarray")
    return Graph(size, links.astype(np.int64), name="random-geometric", positions=places)


def erdos_renyi(size: int, probability: float, seed: int = 0) -> Graph:
    """Every pair linked independently with the probability given."""
    _check(2, size, seed)
    if not 0 < as_float(probability) <= 1:
        raise NetworkError(f"probability must lie in (0, 1]; found {found(probability)}")
    if size <= NETWORKX_UP_TO:
        return _networkx("erdos-renyi", "gnp_random_graph", size, probability, seed=seed)
    chosen = _bernoulli_indices(size * (size - 1) // 2, probability, np.random.default_rng(seed))
    return Graph(size, _pair_of_rank(chosen), name="erdos-renyi")


def watts_strogatz(size: int, neighbours: int, probability: float, seed: int = 0) -> Graph:
    """A ring of agents linked to the `neighbours` nearest, each link rewired with `probability`."""
    _check(3, size, seed)
    at_least(NetworkError, 2, neighbours=neighbours)
    if not 0 <= as_float(probability) <= 1:
        raise NetworkError(f"probability must lie in [0, 1]; found {found(probability)}")
    if neighbours >= size:
        raise NetworkError(f"neighbours must be below size {size}; found {neighbours}")
    if size <= NETWORKX_UP_TO:
        name = "watts_strogatz_graph"
        return _networkx("watts-strogatz", name, size, neighbours, probability, seed=seed)
    rng = np.random.default_rng(seed)
    return Graph(size, _rewired(size, neighbours, probability, rng), name="watts-strogatz")


def random_regular(size: int, degree: int, seed: int = 0) -> Graph:
    """Every agent with exactly `degree` neighbours; size * degree must be even."""
    _check(2, size, seed)
    at_least(NetworkError, 1, degree=degree)
    if degree >= size or size * degree % 2:
        raise NetworkError(
            f"degree must be below size and size * degree even; found size {size}, degree {degree}"
        )
    if size <= NETWORKX_UP_TO:
        return _networkx("random-regular", "random_regular_graph", degree, size, seed=seed)
    rng = np.random.default_rng(seed)
    return Graph(size, _matched(size, degree, rng), name="random-regular")


def _check(least: int, size: int, seed: int) -> None:
    sized(least, size=size)
    at_least(NetworkError, 0, seed=seed)


def _networkx(name: str, generator: str, *arguments: Any, seed: int) -> Graph:
    import networkx

    graph = getattr(networkx, generator)(*arguments, seed=seed)
    graph.name = name
    return as_graph(graph)


def _bernoulli_indices(total: int, probability: float, rng: np.random.Generator) -> Ints:
    """The successes among `total` trials, by geometric gaps between them."""
    expected = total * probability
    batch = int(expected + 10 * np.sqrt(expected) + 10)
    runs, last = [], -1
    while last < total:
        runs.append(last + np.cumsum(rng.geometric(probability, batch)))
        last = int(runs[-1][-1])
    indices = np.concatenate(runs)
    return indices[indices < total]


def _pair_of_rank(rank: Ints) -> Ints:
    """(j, i), j < i, from rank = i(i-1)/2 + j."""
    i = ((1 + np.sqrt(1 + 8 * rank.astype(np.float64))) / 2).astype(np.int64)
    i -= i * (i - 1) // 2 > rank  # the square root may round across a whole number
    i += i * (i + 1) // 2 <= rank
    return np.stack([rank - i * (i - 1) // 2, i], axis=1)


def _unusable(links: Ints, size: int) -> NDArray[np.bool_]:
    """Self-loops, and every copy of a link but the first."""
    low, high = links.min(axis=1), links.max(axis=1)
    bad = np.ones(len(links), dtype=np.bool_)
    bad[np.unique(low * size + high, return_index=True)[1]] = False
    bad |= low == high
    return bad


def _rewired(size: int, neighbours: int, probability: float, rng: np.random.Generator) -> Ints:
    i = np.arange(size)
    steps = range(1, neighbours // 2 + 1)
    links = np.concatenate([np.stack([i, (i + step) % size], axis=1) for step in steps])
    moved = rng.random(len(links)) < probability
    links = np.concatenate([links[~moved], links[moved]])  # a link that stayed wins over a copy
    bad = np.arange(len(links)) >= np.count_nonzero(~moved)
    for _ in range(ATTEMPTS):
        if not bad.any():
            return links
        links[bad, 1] = rng.integers(size, size=np.count_nonzero(bad))
        bad = _unusable(links, size)
    raise NetworkError(f"no simple rewiring found in {ATTEMPTS} attempts: too many neighbours")


def _matched(size: int, degree: int, rng: np.random.Generator) -> Ints:
    """Pair the stubs at random; re-pair what clashes together with as many good pairs again."""
    links = rng.permutation(np.repeat(np.arange(size), degree)).reshape(-1, 2)
    for _ in range(ATTEMPTS):
        bad = np.flatnonzero(_unusable(links, size))
        if len(bad) == 0:
            return links
        mixed = np.union1d(bad, rng.integers(len(links), size=2 * len(bad) + 10))
        links[mixed] = rng.permutation(links[mixed].ravel()).reshape(-1, 2)
    raise NetworkError(f"no simple {degree}-regular graph found in {ATTEMPTS} attempts")
