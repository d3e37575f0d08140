from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.errors import NetworkError
from veilsum.networks import Graph, as_graph, load


def test_undirected_links_are_sorted_and_merged() -> None:
    graph = Graph(4, np.array([[3, 1], [0, 2], [1, 3], [2, 0], [0, 1]]))
    assert graph.links.tolist() == [[0, 1], [0, 2], [1, 3]]
    assert graph.degrees.tolist() == [2, 2, 1, 1]
    assert graph.labels == range(4)
    assert graph.neighbours(0).tolist() == [1, 2]
    assert repr(graph) == "Graph('graph', 4 agents, 3 links)"


def test_directed_links_keep_their_direction() -> None:
    graph = Graph(3, np.array([[2, 0], [0, 1], [1, 0], [0, 1]]), directed=True)
    assert graph.links.tolist() == [[0, 1], [1, 0], [2, 0]]
    assert graph.in_degrees.tolist() == [2, 1, 0]
    assert graph.out_degrees.tolist() == [1, 1, 1]
    assert graph.neighbours(2).tolist() == [0]
    assert not graph.is_connected
    with pytest.raises(NetworkError, match="in_degrees and out_degrees"):
        _ = graph.degrees


def test_links_and_positions_cannot_be_changed() -> None:
    graph = load("ring:5")
    with pytest.raises(ValueError, match="read-only"):
        graph.links[0, 0] = 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, []), "graph is empty.*at least 2"),
        ((1, []), "at least 2 agents; found 1"),
        ((3, [(0, 1), (2, 2)], ["a", "b", "c"]), r"self-loop at agent 'c' \(index 2\).*remove"),
        ((3, [(0, 3)]), r"link \(0, 3\) is out of range: agents are 0..2"),
        ((3, [(-1, 0)]), r"link \(-1, 0\) is out of range"),
        ((3, [(0, 1)], ["a", "b", "a"]), "labels must differ: 'a' names two agents"),
        ((3, [(0, 1)], ["a", "b"]), "2 for 3 agents"),
        ((3, [(0.5, 1.0)]), "pairs of agent indices"),
        ((3, [0, 1, 2]), "pairs of agent indices"),
        ((2, [(0, 1)], (), False, "g", np.zeros((3, 2))), r"positions must have shape \(2, 2\)"),
    ],
)
def test_what_is_refused(arguments: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        Graph(*arguments)


def test_neighbours_of_an_unknown_agent() -> None:
    with pytest.raises(NetworkError, match=r"index in 0..4; found 5"):
        load("ring:5").neighbours(5)


@given(st.integers(2, 12), st.floats(0, 0.5), st.integers(0, 10**6))
def test_structure_agrees_with_networkx(size: Any, probability: Any, seed: Any) -> None:
    oracle = nx.gnp_random_graph(size, probability, seed=seed)
    graph = as_graph(oracle)
    assert graph.is_bipartite == nx.is_bipartite(oracle)
    assert graph.is_connected == nx.is_connected(oracle)
    assert graph.components.max() + 1 == nx.number_connected_components(oracle)
    assert np.array_equal(graph.adjacency.toarray(), nx.to_numpy_array(oracle))
    assert graph.degrees.tolist() == [d for _, d in oracle.degree()]


@given(st.integers(2, 9), st.floats(0, 0.5), st.integers(0, 10**6))
def test_directed_structure_agrees_with_networkx(size: Any, probability: Any, seed: Any) -> None:
    oracle = nx.gnp_random_graph(size, probability, seed=seed, directed=True)
    graph = as_graph(oracle)
    assert graph.directed
    assert graph.is_connected == nx.is_strongly_connected(oracle)
    assert graph.in_degrees.tolist() == [d for _, d in oracle.in_degree()]
    assert np.array_equal(graph.adjacency.toarray(), nx.to_numpy_array(oracle))
