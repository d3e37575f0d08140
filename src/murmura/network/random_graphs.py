"""Random graphs from a seed, without coordinates (see `geometric` for those with).

They are networkx's, link for link, up to 2,000 agents; above that a vectorised draw from the same
model serves ten million. Some may come out disconnected: the weights say so, `join` mends it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura._validate import as_float, at_least, found
from murmura.errors import NetworkError
from murmura.network.convert import as_graph
from murmura.network.graph import Graph, Ints, Links, sized
from murmura.network.links import freeze

NETWORKX_UP_TO = 2_000
ATTEMPTS = 1_000


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


def power_law(size: int, links: int = 3, seed: int = 0) -> Graph:
    """Each agent after the first few linked to `links` earlier ones, in proportion to degree.

    Preferential attachment (Barabasi and Albert 1999): degrees d in proportion to d^-3 in the tail,
    2 * links on average; always connected.
    """
    _check(2, size, seed)
    at_least(NetworkError, 1, links=links)
    if links >= size:
        raise NetworkError(f"links must be below size {size}; found {links}")
    if size <= NETWORKX_UP_TO:
        return _networkx("power-law", "barabasi_albert_graph", size, links, seed=seed)
    from murmura.network.attachment import attached

    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    return Graph(size, freeze(attached(size, links, state)), name="power-law")


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


def _rewired(size: int, neighbours: int, probability: float, rng: np.random.Generator) -> Links:
    """Every moved link draws its other end, again if that makes a loop or a link that exists.

    Moved links need comparing with one another only: which links of the ring stay is a table.
    """
    moved = np.stack([rng.random(size) < probability for _ in range(neighbours // 2)])
    waiting = np.concatenate([np.flatnonzero(row).astype(np.int32) for row in moved])
    taken = np.empty(0, dtype=np.int64)  # low * size + high of the links that have moved, sorted
    for _ in range(ATTEMPTS):
        if len(waiting) == 0:
            return np.concatenate([_staying(moved), _unpacked(taken, size)])
        target = rng.integers(size, size=len(waiting), dtype=np.int32)
        keys = np.minimum(waiting, target) * np.int64(size) + np.maximum(waiting, target)
        new, first = np.unique(keys, return_index=True)
        at = np.searchsorted(taken, new)
        free = at == np.searchsorted(taken, new, side="right")
        free &= _open(_unpacked(new, size), moved)
        taken = np.insert(taken, at[free], new[free])
        waiting = np.delete(waiting, first[free])
    raise NetworkError(f"no simple rewiring found in {ATTEMPTS} attempts: too many neighbours")


def _staying(moved: NDArray[np.bool_]) -> Links:
    """The links of the ring, (i, i + step), that did not move: row step - 1 of the table."""
    size = moved.shape[1]
    rows = [np.flatnonzero(~row).astype(np.int32) for row in moved]
    return np.concatenate(
        [np.stack([i, (i + np.int32(k + 1)) % np.int32(size)], axis=1) for k, i in enumerate(rows)]
    )


def _open(pairs: Links, moved: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which pairs (low, high) would be neither a loop nor a link of the ring that stays.

    The ring joins them if high is low + step, or low is high + step past the end.
    """
    (steps, size), (low, high) = moved.shape, pairs.T
    found: NDArray[np.bool_] = low != high
    for start, step in ((low, high - low), (high, size - (high - low))):
        near = np.flatnonzero((step >= 1) & (step <= steps))
        found[near] &= moved[step[near] - 1, start[near]]
    return found


def _unpacked(keys: Ints, size: int) -> Links:
    return np.stack([(keys // size).astype(np.int32), (keys % size).astype(np.int32)], axis=1)


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
