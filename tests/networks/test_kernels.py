from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from veilsum.networks import kernels, lazy_metropolis, load
from veilsum.networks.kernels import depths, is_bipartite, period


@pytest.mark.parametrize("length", [2, 3, 4, 7])
def test_period_of_a_directed_cycle_is_its_length(length: Any) -> None:
    arcs = nx.to_scipy_sparse_array(nx.cycle_graph(length, create_using=nx.DiGraph), format="csr")
    assert period(arcs) == length


def test_two_directed_cycles_that_share_a_node_have_the_gcd_of_their_lengths() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (5, 6)])
    nx.add_path(graph, [6, 7, 8, 0])
    assert period(nx.to_scipy_sparse_array(graph, format="csr")) == 2
    graph.add_edge(8, 1)
    assert nx.is_aperiodic(graph) == (period(nx.to_scipy_sparse_array(graph, format="csr")) == 1)


def test_depths_of_a_path_are_the_distances() -> None:
    assert depths(load("path:1000").adjacency, 10).tolist() == [abs(i - 10) for i in range(1000)]


def test_one_odd_component_makes_the_whole_not_bipartite() -> None:
    even = nx.disjoint_union(nx.cycle_graph(4), nx.path_graph(3))
    assert is_bipartite(csr_array(nx.to_numpy_array(even)))
    odd = nx.disjoint_union(even, nx.cycle_graph(5))
    assert not is_bipartite(csr_array(nx.to_numpy_array(odd)))


def test_isolated_agents_are_bipartite() -> None:
    assert is_bipartite(csr_array(np.zeros((3, 3))))


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_of_rows_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = lazy_metropolis("us-power-grid").weights
    dense = weights.toarray()
    np.fill_diagonal(dense, 0.0)
    monkeypatch.setattr(kernels, "BLOCK", block)
    assert np.array_equal(kernels.largest_off_diagonal(weights), dense.max(axis=1))
    assert kernels.has_self_weight(weights)
    ring = load("ring:12").adjacency
    assert kernels.period(ring) == 2
    assert not kernels.has_self_weight(ring)
    assert kernels.period(load("ring:9").adjacency) == 1
