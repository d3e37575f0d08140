"""Random graphs from a seed, and `join`, which connects a graph in several components.

Erdos-Renyi, Watts-Strogatz, power-law and regular graphs are networkx's, link for link, up to
2,000 agents; above that a vectorised draw from the same model serves ten million. Random geometric
graphs are networkx's at every size: points are drawn by the generator of Python's `random`, which
numpy shares; links come from scipy's tree, or for large graphs from a grid of cells, in time and
memory in proportion to the links. Some graphs may come out disconnected, which the weights report;
`join` adds the missing links.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from veilsum import _extras
from veilsum._types import Bools, Floats, Indices, Ints
from veilsum._validate import as_float, at_least, found, positive
from veilsum.errors import NetworkError
from veilsum.networks import kernels
from veilsum.networks.graph import Graph, freeze, sized, undirected
from veilsum.networks.io import as_graph

NETWORKX_UP_TO = 2_000
ATTEMPTS = 1_000
GEOMETRIC_WORK = 5  # a point of a random geometric graph costs as much as so many links


def erdos_renyi(size: int, probability: float, seed: int = 0) -> Graph:
    """Every pair linked independently with the probability given.

    Parameters
    ----------
    size : int
        The number of agents.
    probability : float
        Of each link, in (0, 1].
    seed : int
        Of the draw.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.erdos_renyi(100, 0.1, seed=1)
    Graph('erdos-renyi', 100 agents, 508 links)
    """
    _check(2, size, seed)
    if not 0 < as_float(probability) <= 1:
        raise NetworkError(f"probability must lie in (0, 1]; found {found(probability)}")
    if size <= NETWORKX_UP_TO:
        return _networkx("erdos-renyi", "gnp_random_graph", size, probability, seed=seed)
    chosen = _bernoulli_indices(size * (size - 1) // 2, probability, np.random.default_rng(seed))
    return Graph(size, _pair_of_rank(chosen), name="erdos-renyi")


def watts_strogatz(size: int, neighbours: int, probability: float, seed: int = 0) -> Graph:
    """A ring of agents linked to the `neighbours` nearest, each link rewired with `probability`.

    Parameters
    ----------
    size : int
        The number of agents.
    neighbours : int
        Neighbours of each agent in the ring, below size; an odd number counts as one less.
    probability : float
        Of rewiring a link, in [0, 1].
    seed : int
        Of the draw.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.watts_strogatz(100, 4, 0.1, seed=1)
    Graph('watts-strogatz', 100 agents, 200 links)
    """
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

    Parameters
    ----------
    size : int
        The number of agents.
    links : int
        Links that each new agent makes.
    seed : int
        Of the draw.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.power_law(100, links=3, seed=1)
    Graph('power-law', 100 agents, 291 links)
    """
    _check(2, size, seed)
    at_least(NetworkError, 1, links=links)
    if links >= size:
        raise NetworkError(f"links must be below size {size}; found {links}")
    if size <= NETWORKX_UP_TO:
        return _networkx("power-law", "barabasi_albert_graph", size, links, seed=seed)
    from veilsum.networks.compiled import attached

    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):  # the generator's numbers wrap, interpreted too
        return Graph(size, freeze(attached(size, links, state)), name="power-law")


def random_regular(size: int, degree: int, seed: int = 0) -> Graph:
    """Every agent with exactly `degree` neighbours; size * degree must be even.

    Parameters
    ----------
    size : int
        The number of agents.
    degree : int
        Neighbours of each agent.
    seed : int
        Of the draw.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> set(networks.random_regular(50, 4, seed=1).degrees.tolist())
    {4}
    """
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


def _unusable(links: Ints, size: int) -> Bools:
    """Self-loops, and every copy of a link but the first."""
    low, high = links.min(axis=1), links.max(axis=1)
    bad = np.ones(len(links), dtype=np.bool_)
    bad[np.unique(low * size + high, return_index=True)[1]] = False
    bad |= low == high
    return bad


def _rewired(size: int, neighbours: int, probability: float, rng: np.random.Generator) -> Indices:
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


def _staying(moved: Bools) -> Indices:
    """The links of the ring, (i, i + step), that did not move: row step - 1 of the table."""
    size = moved.shape[1]
    rows = [np.flatnonzero(~row).astype(np.int32) for row in moved]
    return np.concatenate(
        [np.stack([i, (i + np.int32(k + 1)) % np.int32(size)], axis=1) for k, i in enumerate(rows)]
    )


def _open(pairs: Indices, moved: Bools) -> Bools:
    """Which pairs (low, high) would be neither a loop nor a link of the ring that stays.

    The ring joins them if high is low + step, or low is high + step past the end.
    """
    (steps, size), (low, high) = moved.shape, pairs.T
    found: Bools = low != high
    for start, step in ((low, high - low), (high, size - (high - low))):
        near = np.flatnonzero((step >= 1) & (step <= steps))
        found[near] &= moved[step[near] - 1, start[near]]
    return found


def _unpacked(keys: Ints, size: int) -> Indices:
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


def random_geometric(
    size: int,
    radius: float | None = None,
    seed: int = 0,
    mean_degree: float | None = None,
    connect: bool = False,
) -> Graph:
    """Uniform points in the unit square, linked when at most `radius` apart.

    The same points and links as networkx.random_geometric_graph(size, radius, seed=seed).

    Parameters
    ----------
    size : int
        The number of agents.
    radius : float, optional
        The largest distance between neighbours; this or `mean_degree`.
    seed : int
        Of the draw.
    mean_degree : float, optional
        Expected number of neighbours, from which the radius follows.
    connect : bool
        Whether to connect the components by the shortest links that do (see `join`): below a mean
        degree of about log(size) there are several.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.random_geometric(969, 0.1, seed=0)
    Graph('random-geometric', 969 agents, 13236 links)
    """
    sized(2, size=size)
    at_least(NetworkError, 0, seed=seed)
    reach = _radius(size, radius, mean_degree)
    places = freeze(_uniform(seed, 2 * size).reshape(size, 2).copy())
    graph = Graph(size, _close(places, reach), name="random-geometric", positions=places)
    return join(graph) if connect else graph


def _uniform(seed: int, count: int) -> Floats:
    """The first numbers of random.Random(seed).random(), drawn by numpy."""
    key = random.Random(seed).getstate()[1]
    source = np.random.MT19937()
    source.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key[:-1], dtype=np.uint32), "pos": key[-1]},
    }
    return np.random.Generator(source).random(count)


def _close(places: Floats, radius: float) -> Indices:
    """All pairs at most `radius` apart."""
    if not kernels.compiled_pays(GEOMETRIC_WORK * len(places)):
        if not kernels.scipy_pays(GEOMETRIC_WORK * len(places)):
            return _compared(places, radius)
        tree = _extras.load("scipy.spatial").cKDTree(places)
        found: Indices = tree.query_pairs(radius, output_type="ndarray")
        return found
    from veilsum.networks.compiled import Cells

    return Cells.of(places, radius).pairs(radius)


def _compared(places: Floats, radius: float) -> Indices:
    """The same by comparing each with those right of it that are near enough."""
    order = np.argsort(places[:, 0], kind="stable")
    x, y = places[order].T
    stop = np.searchsorted(x, x + radius * (1 + 1e-12), side="right")
    found = []
    for k, last in enumerate(stop.tolist()):
        near = slice(k + 1, last)
        inside = np.flatnonzero((x[near] - x[k]) ** 2 + (y[near] - y[k]) ** 2 <= radius**2)
        found.append(np.stack([np.full(len(inside), k), k + 1 + inside], axis=1))
    return np.asarray(order[np.concatenate(found)])


def _radius(size: int, radius: float | None, mean_degree: float | None) -> float:
    """The radius given, or the one whose expected mean degree is the one given."""
    if (radius is None) == (mean_degree is None):
        raise NetworkError("random-geometric needs a radius or a mean_degree, and not both")
    if radius is not None:
        positive(NetworkError, radius=radius)
        return float(radius)
    fraction = as_float(mean_degree) / (size - 1)
    if not 0 < fraction < _within(1.0):
        raise NetworkError(
            f"mean_degree must be above 0 and below {_within(1.0) * (size - 1):.6g} for {size} "
            f"agents; found {found(mean_degree)}"
        )
    low, high = 0.0, 1.0
    for _ in range(80):  # halvings: to the last bit of any radius in use
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle) < fraction else (low, middle)
    return high


def _within(r: float) -> float:
    """The chance pi r^2 - 8/3 r^3 + r^4/2 that two uniform points are at most r <= 1 apart."""
    return r * r * (math.pi - 8 / 3 * r + r * r / 2)


def join(graph: Graph) -> Graph:
    """The graph with one link more for each component but the largest; its name says how many.

    Where agents have positions, the links are those of least total length (Boruvka's minimum
    spanning tree of the components). Elsewhere the first agent of each component is linked to an
    agent of the largest, and these are spread evenly over it.

    Parameters
    ----------
    graph : Graph
        Undirected; a connected one is returned as it is.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> graph = networks.join(networks.Graph(5, [(0, 1), (1, 2), (3, 4)], name="islands"))
    >>> graph, graph.is_connected
    (Graph('islands + 1 links', 5 agents, 4 links), True)
    """
    parent = kernels.least_of_links(undirected(graph).links, graph.size)
    if not parent.any():  # every root is agent 0
        return graph
    more = _spread(parent) if graph.positions is None else _shortest(graph.positions, parent)
    links = np.concatenate([graph.links, more])
    name = f"{graph.name} + {len(more):,} links"
    return Graph(graph.size, links, graph.labels, name=name, positions=graph.positions)


def _largest(parent: Indices) -> int:
    return int(np.bincount(parent).argmax())


def _spread(parent: Indices) -> Indices:
    largest = _largest(parent)
    hosts = np.flatnonzero(parent == largest)
    roots = np.flatnonzero(parent == np.arange(len(parent)))
    guests = roots[roots != largest]
    chosen = hosts[np.arange(len(guests)) * len(hosts) // len(guests)]
    return np.stack([chosen, guests], axis=1).astype(np.int32)


def _shortest(positions: Floats, parent: Indices) -> Indices:
    """Every component but the largest takes its shortest way out, until one is left."""
    from veilsum.networks import compiled

    cells, found = compiled.Cells.of(positions), []
    while parent.any():
        ways = cells.shortest_ways(parent, _largest(parent))
        found.append(ways[compiled.unite_all(parent, ways)])
    return np.concatenate(found)
