"""Random geometric graphs at any size, and joining what is apart."""

import random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from veilsum.errors import NetworkError
from veilsum.networks import Graph, as_graph, join, kernels, load, random_graphs
from veilsum.networks.compiled import Cells


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32, 2**70 + 3])
def test_points_are_those_of_pythons_generator(seed: Any) -> None:
    source = random.Random(seed)
    assert random_graphs._uniform(seed, 1000).tolist() == [source.random() for _ in range(1000)]


@pytest.mark.thorough
@given(st.integers(2, 300), st.floats(0.01, 1.5), st.integers(0, 10**6))
def test_cells_find_the_pairs_that_a_tree_finds(size: Any, radius: Any, seed: Any) -> None:
    points = np.random.default_rng(seed).random((size, 2)) * [3.0, 1.0] - 0.5
    found = Graph(size, Cells.of(points, radius).pairs(radius)).links
    expected = cKDTree(points).query_pairs(radius, output_type="ndarray")
    assert np.array_equal(found, Graph(size, expected).links)


@pytest.mark.parametrize("points", [np.zeros((5, 2)), np.outer(np.arange(6.0), [1, 0])])
def test_cells_of_points_on_a_line_or_in_one_place(points: Any) -> None:
    expected = cKDTree(points).query_pairs(1.0, output_type="ndarray")
    found = Cells.of(points, 1.0).pairs(1.0)
    assert {frozenset(e) for e in found.tolist()} == {frozenset(e) for e in expected.tolist()}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["random-geometric:969,0.1,0", "random-geometric:5000,0.02,4"])
def test_the_large_way_gives_the_same_graph(name: Any, monkeypatch: Any) -> None:
    graph = load(name)
    monkeypatch.setattr(kernels, "LARGE", 0)
    again = load(name)
    assert np.array_equal(graph.links, again.links)
    assert graph.positions is not None
    assert again.positions is not None
    assert np.array_equal(graph.positions, again.positions)


@pytest.mark.parametrize("mean", [2.0, 6.0, 40.0])
def test_the_mean_degree_is_the_one_expected(mean: Any) -> None:
    """2m/n has a variance of about 2 mean/n + that of the counts around each point, below 1/100
    of what is allowed: false alarm below 1e-9."""
    graphs = [load("random-geometric", size=4000, mean_degree=mean, seed=k) for k in range(10)]
    found = np.mean([2 * len(g.links) / g.size for g in graphs])
    deviation = np.sqrt(2 * mean / 40_000 + 4 * mean**2 / 40_000)
    assert abs(found - mean) < 6 * deviation


def test_the_chance_of_being_close_is_exact() -> None:
    """Against 10^6 pairs of points; false alarm: 2e-9 each."""
    apart = np.linalg.norm(np.subtract(*np.random.default_rng(3).random((2, 10**6, 2))), axis=1)
    for r in (0.05, 0.3, 1.0):
        p = random_graphs._within(r)
        assert abs(np.mean(apart <= r) - p) < 6 * np.sqrt(p * (1 - p) / 10**6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a radius or a mean_degree"),
        ({"radius": 0.1, "mean_degree": 6}, "needs a radius or a mean_degree, and not both"),
        ({"mean_degree": 0}, "mean_degree must be above 0"),
        ({"mean_degree": 99.5}, "mean_degree must be above 0 and below 96.5.* found 99.5"),
        ({"mean_degree": "six"}, "mean_degree must be .* found 'six'"),
    ],
)
def test_what_is_refused(options: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        load("random-geometric", size=100, **options)


def between(graph: Any) -> Any:
    """The components as a complete graph, weighed by the least distance between their agents."""
    groups = [np.flatnonzero(graph.components == k) for k in range(graph.components.max() + 1)]
    whole = nx.Graph()
    for a, first in enumerate(groups):
        for b, second in enumerate(groups[:a]):
            gaps = graph.positions[first][:, None] - graph.positions[second]
            whole.add_edge(a, b, weight=np.linalg.norm(gaps, axis=2).min())
    return whole


@pytest.mark.parametrize("mean", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_joining_takes_the_shortest_links_that_do(mean: Any, seed: Any) -> None:
    apart = load("random-geometric", size=300, mean_degree=mean, seed=seed)
    joined = load("random-geometric", size=300, mean_degree=mean, seed=seed, connect=True)
    added = {tuple(e) for e in joined.links.tolist()} - {tuple(e) for e in apart.links.tolist()}
    assert not apart.is_connected
    assert joined.is_connected
    assert len(added) == apart.components.max() == len(joined.links) - len(apart.links)
    assert joined.name == f"random-geometric + {len(added):,} links"
    ends = np.array(sorted(added))
    assert apart.positions is not None
    total = np.linalg.norm(np.subtract(*apart.positions[ends.T]), axis=1).sum()
    tree = nx.minimum_spanning_tree(between(apart))
    assert total == pytest.approx(tree.size(weight="weight"), rel=1e-12)


def test_joining_on_a_lattice_where_all_distances_tie() -> None:
    places = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    joined = join(Graph(64, np.empty((0, 2), dtype=np.int64), positions=places))
    assert joined.is_connected
    assert len(joined.links) == 63
    assert np.all(np.linalg.norm(np.subtract(*places[joined.links.T]), axis=1) == 1)


def test_joining_without_places_spreads_the_links() -> None:
    apart = as_graph(nx.disjoint_union_all([nx.cycle_graph(40), *[nx.path_graph(2)] * 10]))
    joined = join(apart)
    assert joined.is_connected
    assert len(joined.links) == len(apart.links) + 10
    assert joined.degrees.max() == 3  # no hub
    assert np.array_equal(join(apart).links, joined.links)
    assert join(joined) is joined


def test_directed_graphs_are_not_joined() -> None:
    with pytest.raises(NetworkError, match="undirected"):
        join(Graph(3, np.array([[0, 1]]), directed=True))
