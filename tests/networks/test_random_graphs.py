"""The vectorised draws, used above 2,000 agents: simple graphs of the right distribution."""

from typing import Any

import numpy as np
import pytest

from veilsum.networks import load
from veilsum.networks.random_graphs import _pair_of_rank


def test_ranks_run_through_every_pair_once() -> None:
    pairs = _pair_of_rank(np.arange(45))
    assert sorted(map(tuple, pairs.tolist())) == [
        (i, j) for i in range(10) for j in range(i + 1, 10)
    ]


def test_ranks_of_large_pairs_are_exact() -> None:
    i = np.array([10**6, 2 * 10**6, 3 * 10**6])
    for j in (np.zeros(3, dtype=np.int64), i - 1):
        assert np.array_equal(_pair_of_rank(i * (i - 1) // 2 + j), np.stack([j, i], axis=1))


def test_random_regular_is_regular_simple_and_connected() -> None:
    graph = load("random-regular:50000,3,1")
    assert np.all(graph.degrees == 3)  # links are unique, so that a repeated one would show here
    assert graph.is_connected


def test_erdos_renyi_has_the_expected_number_of_links() -> None:
    size, probability = 20_000, 5e-4
    mean = probability * size * (size - 1) / 2
    links = len(load("erdos-renyi", size=size, probability=probability, seed=3).links)
    assert abs(links - mean) < 6 * np.sqrt(mean)  # false alarm: 2e-9


def test_erdos_renyi_degrees_are_spread_evenly() -> None:
    graph = load("erdos-renyi", size=20_000, probability=5e-4, seed=3)
    halves = graph.degrees.reshape(2, -1).sum(axis=1)
    assert abs(halves[0] - halves[1]) < 6 * np.sqrt(2 * halves.sum())


def test_watts_strogatz_keeps_the_number_of_links_and_rewires_the_right_fraction() -> None:
    size, probability = 30_000, 0.1
    graph = load("watts-strogatz", size=size, neighbours=6, probability=probability, seed=2)
    assert len(graph.links) == 3 * size
    apart = np.abs(graph.links[:, 0] - graph.links[:, 1])
    moved = np.count_nonzero(np.minimum(apart, size - apart) > 3)
    mean = 3 * size * probability
    assert abs(moved - mean) < 6 * np.sqrt(mean) + 5


@pytest.mark.parametrize("probability", [0.5, 1.0])
@pytest.mark.parametrize("neighbours", [4, 500])
def test_watts_strogatz_is_simple_even_where_many_links_clash(
    probability: Any, neighbours: Any
) -> None:
    size = 2001
    graph = load("watts-strogatz", size=size, neighbours=neighbours, probability=probability)
    assert len(graph.links) == size * neighbours // 2  # distinct ones: none was lost
    ring = np.minimum(np.diff(graph.links)[:, 0], size - np.diff(graph.links)[:, 0])
    stayed = np.count_nonzero(ring <= neighbours // 2) / len(graph.links)
    # A moved link falls on a place of the ring that another one left, or outside of it.
    assert stayed < 1 - probability + probability * neighbours / size + 0.05


def test_watts_strogatz_without_moves_is_the_ring() -> None:
    graph = load("watts-strogatz", size=3000, neighbours=4, probability=0.0)
    assert np.all(graph.degrees == 4)
    apart = np.diff(graph.links)[:, 0]
    assert np.all(np.minimum(apart, 3000 - apart) <= 2)


def test_power_law_is_connected_with_the_degrees_of_preferential_attachment() -> None:
    """P(d) = 2 m (m + 1) / (d (d + 1) (d + 2)) for m links each (Bollobas et al. 2001)."""
    size, m = 100_000, 3
    graph = load("power-law", size=size, links=m, seed=1)
    assert graph.is_connected
    assert len(graph.links) == (size - m) * m
    assert graph.degrees[m + 1 :].min() == m
    for d in (3, 4, 6, 10):
        fraction = 2 * m * (m + 1) / (d * (d + 1) * (d + 2))
        found = np.mean(graph.degrees == d)
        assert abs(found - fraction) < 6 * np.sqrt(fraction / size) + 10 / size  # false alarm: 2e-9
    assert graph.degrees.max() > 300  # a hub, of the order of m sqrt(n)


@pytest.mark.parametrize(
    "name",
    [
        "random-regular:3000,4",
        "erdos-renyi:3000,0.01",
        "power-law:3000,3",
        "watts-strogatz:3000,4,0.5",
        "random-geometric:3000,0.05",
    ],
)
def test_the_seed_decides(name: Any) -> None:
    assert np.array_equal(load(name, seed=1).links, load(name, seed=1).links)
    assert not np.array_equal(load(name, seed=1).links, load(name, seed=2).links)
