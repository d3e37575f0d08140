"""The vectorised draws, used above 2,000 agents: simple graphs of the right law."""

import numpy as np
import pytest

from murmura.network import load
from murmura.network.random_graphs import _pair_of_rank


def test_ranks_run_through_every_pair_once():
    pairs = _pair_of_rank(np.arange(45))
    assert sorted(map(tuple, pairs.tolist())) == [
        (i, j) for i in range(10) for j in range(i + 1, 10)
    ]


def test_ranks_of_large_pairs_are_exact():
    i = np.array([10**6, 2 * 10**6, 3 * 10**6])
    for j in (np.zeros(3, dtype=np.int64), i - 1):
        assert np.array_equal(_pair_of_rank(i * (i - 1) // 2 + j), np.stack([j, i], axis=1))


def test_random_regular_is_regular_simple_and_connected():
    graph = load("random-regular:50000,3,1")
    assert np.all(graph.degrees == 3)  # links are unique, so that a repeated one would show here
    assert graph.is_connected


def test_erdos_renyi_has_the_expected_number_of_links():
    size, probability = 20_000, 5e-4
    mean = probability * size * (size - 1) / 2
    links = len(load("erdos-renyi", size=size, probability=probability, seed=3).links)
    assert abs(links - mean) < 6 * np.sqrt(mean)  # false alarm: 2e-9


def test_erdos_renyi_degrees_are_spread_evenly():
    graph = load("erdos-renyi", size=20_000, probability=5e-4, seed=3)
    halves = graph.degrees.reshape(2, -1).sum(axis=1)
    assert abs(halves[0] - halves[1]) < 6 * np.sqrt(2 * halves.sum())


def test_watts_strogatz_keeps_the_number_of_links_and_rewires_the_right_share():
    size, probability = 30_000, 0.1
    graph = load("watts-strogatz", size=size, neighbours=6, probability=probability, seed=2)
    assert len(graph.links) == 3 * size
    apart = np.abs(graph.links[:, 0] - graph.links[:, 1])
    moved = np.count_nonzero(np.minimum(apart, size - apart) > 3)
    mean = 3 * size * probability
    assert abs(moved - mean) < 6 * np.sqrt(mean) + 5


@pytest.mark.parametrize("name", ["random-regular:3000,4", "erdos-renyi:3000,0.01"])
def test_the_seed_decides(name):
    assert np.array_equal(load(name, seed=1).links, load(name, seed=1).links)
    assert not np.array_equal(load(name, seed=1).links, load(name, seed=2).links)
