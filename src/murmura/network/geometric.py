"""Random geometric graphs: networkx's, point for point, at every size.

Points are drawn by the generator of Python's `random`, which numpy shares; links come from scipy's
tree, or above 100,000 agents from a grid of cells, in time and memory in proportion to the links.
"""

from __future__ import annotations

import math
import random

import numpy as np
from numpy.typing import NDArray

from murmura._validate import as_float, at_least, found, positive
from murmura.errors import NetworkError
from murmura.network.graph import Graph, sized
from murmura.network.joining import join
from murmura.network.links import Links, freeze

TREE_UP_TO = 100_000


def random_geometric(
    size: int,
    radius: float | None = None,
    seed: int = 0,
    mean_degree: float | None = None,
    connect: bool = False,
) -> Graph:
    """Uniform points in the unit square, linked when at most `radius` apart.

    The same points and links as networkx.random_geometric_graph(size, radius, seed=seed). Instead
    of the radius, the `mean_degree` to expect may be given. `connect=True` joins the components by
    the shortest links that do (see `join`): below a mean degree of about log(size) there are some.
    """
    sized(2, size=size)
    at_least(NetworkError, 0, seed=seed)
    reach = _radius(size, radius, mean_degree)
    places = freeze(_uniform(seed, 2 * size).reshape(size, 2).copy())
    graph = Graph(size, _close(places, reach), name="random-geometric", positions=places)
    return join(graph) if connect else graph


def _uniform(seed: int, count: int) -> NDArray[np.float64]:
    """The first numbers of random.Random(seed).random(), drawn by numpy."""
    key = random.Random(seed).getstate()[1]
    source = np.random.MT19937()
    source.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key[:-1], dtype=np.uint32), "pos": key[-1]},
    }
    return np.random.Generator(source).random(count)


def _close(places: NDArray[np.float64], radius: float) -> Links:
    if len(places) <= TREE_UP_TO:
        from scipy.spatial import cKDTree

        found: Links = cKDTree(places).query_pairs(radius, output_type="ndarray")
        return found
    from murmura.network.cells import Cells

    return Cells.of(places, radius).pairs(radius)


def _radius(size: int, radius: float | None, mean_degree: float | None) -> float:
    if (radius is None) == (mean_degree is None):
        raise NetworkError("random-geometric needs a radius or a mean_degree, and not both")
    if radius is not None:
        positive(NetworkError, radius=radius)
        return float(radius)
    share = as_float(mean_degree) / (size - 1)
    if not 0 < share < _within(1.0):
        raise NetworkError(
            f"mean_degree must be above 0 and below {_within(1.0) * (size - 1):.6g} for {size} "
            f"agents; found {found(mean_degree)}"
        )
    low, high = 0.0, 1.0
    for _ in range(80):  # halvings: to the last bit of any radius in use
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle) < share else (low, middle)
    return high


def _within(r: float) -> float:
    """The chance pi r^2 - 8/3 r^3 + r^4/2 that two uniform points are at most r <= 1 apart."""
    return r * r * (math.pi - 8 / 3 * r + r * r / 2)
