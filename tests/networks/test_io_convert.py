from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from veilsum.errors import NetworkError
from veilsum.networks import as_graph, load


def test_networkx_labels_keep_their_order() -> None:
    oracle = nx.florentine_families_graph()
    graph = as_graph(oracle)
    assert list(graph.labels) == list(oracle.nodes)
    named = {frozenset((graph.labels[i], graph.labels[j])) for i, j in graph.links}
    assert named == {frozenset(edge) for edge in oracle.edges}


def test_networkx_positions_are_kept_only_if_all_have_one() -> None:
    oracle = nx.random_geometric_graph(20, 0.5, seed=1)
    positions = as_graph(oracle).positions
    assert positions is not None
    assert np.array_equal(positions, [oracle.nodes[i]["pos"] for i in oracle])
    del oracle.nodes[3]["pos"]
    assert as_graph(oracle).positions is None


def test_integer_labels_out_of_order_are_kept() -> None:
    assert list(as_graph(nx.Graph([(5, 2), (2, 9)])).labels) == [5, 2, 9]


@pytest.mark.parametrize("form", [np.array, csr_array, coo_array, csr_matrix])
def test_matrices(form: Any) -> None:
    symmetric = form(np.array([[0, 2.0, 0], [2.0, 0, 1], [0, 1, 0]]))
    graph = as_graph(symmetric)
    assert not graph.directed
    assert graph.links.tolist() == [[0, 1], [1, 2]]
    directed = as_graph(form(np.array([[0, 1.0], [0, 0]])))
    assert directed.directed
    assert directed.links.tolist() == [[0, 1]]


def test_a_graph_is_returned_as_it_is_and_a_name_is_loaded() -> None:
    ring = load("ring:5")
    assert as_graph(ring) is ring
    assert np.array_equal(as_graph("ring:5").links, ring.links)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nx.MultiGraph([(0, 1), (0, 1)]), r"multigraph.*networkx.Graph\(graph\)"),
        (nx.Graph([("x", "y"), ("y", "y")]), "self-loop at agent 'y'"),
        (nx.Graph(), "graph is empty"),
        (np.ones((2, 3)), r"square.*found shape \(2, 3\)"),
        (np.eye(3), "self-loop at agent 0"),
        (np.array([[0, np.nan], [1, 0]]), r"entry \(0, 1\) is nan"),
        (np.array([[0, -1.0], [-1.0, 0]]), r"nonnegative: entry \(0, 1\) is -1.0"),
        (np.array([["a", "b"], ["c", "d"]], dtype=object), "adjacency"),
        (42, "cannot be made from int"),
        (np.zeros((0, 0)), "graph is empty"),
    ],
)
def test_what_is_refused(source: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        as_graph(source)


@pytest.mark.parametrize(
    "place", [3, "ab", "north", (1, 2, 3), (1, np.nan), {"x": 1, "y": 2}, None]
)
def test_positions_of_another_kind_are_left_out(place: Any) -> None:
    oracle = nx.path_graph(3)
    nx.set_node_attributes(oracle, dict.fromkeys(oracle, place), "pos")
    assert as_graph(oracle).positions is None


@pytest.mark.parametrize("form", [np.array, csr_array])
def test_complex_matrices_are_refused(form: Any) -> None:
    with pytest.raises(NetworkError, match="adjacency must hold real numbers; found complex128"):
        as_graph(form(np.array([[0, 1j], [1j, 0]])))
