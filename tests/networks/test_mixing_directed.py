from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from veilsum.errors import NetworkError
from veilsum.networks import DirectedMixing, Network, column_stochastic, row_stochastic
from veilsum.networks import mixing as module

BACK_AND_FORTH = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")])


def dense_perron(columns: Any) -> Any:
    values, vectors = np.linalg.eig(columns)
    x = np.real(vectors[:, np.argmax(values.real)])
    return x / x.sum()


def test_the_receiver_has_the_row() -> None:
    A = row_stochastic(BACK_AND_FORTH).weights.toarray()
    half, third = 1 / 2, 1 / 3
    assert A.tolist() == [[half, 0, half], [half, half, 0], [third, third, third]]
    C = column_stochastic(BACK_AND_FORTH).weights.toarray()
    assert C.tolist() == [[third, 0, half], [third, half, 0], [third, half, half]]


@settings(deadline=None)
@given(st.integers(2, 12), st.floats(0.2, 0.9), st.integers(0, 10**6))
def test_stationary_vectors_against_dense_eigenvectors(
    size: Any, probability: Any, seed: Any
) -> None:
    graph = nx.gnp_random_graph(size, probability, seed=seed, directed=True)
    assume(nx.is_strongly_connected(graph))
    rows, columns = row_stochastic(graph), column_stochastic(graph)
    A, C = rows.weights.toarray(), columns.weights.toarray()
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(C.sum(axis=0), 1, atol=1e-14)
    np.testing.assert_allclose(rows.stationary, dense_perron(A.T), atol=1e-10)
    np.testing.assert_allclose(columns.stationary, dense_perron(C), atol=1e-10)
    off = A - np.diag(A.diagonal())
    np.testing.assert_array_equal(rows.largest_neighbour_weight, off.max(axis=1))


@pytest.mark.parametrize("steps", [module.POWER_STEPS, 0])
@pytest.mark.parametrize("size", [300])
def test_power_and_elimination_agree(monkeypatch: Any, steps: Any, size: Any) -> None:
    graph = nx.gnp_random_graph(size, 0.03, seed=4, directed=True)
    assert nx.is_strongly_connected(graph)
    monkeypatch.setattr(module, "SOLVE_UP_TO", 0)
    monkeypatch.setattr(module, "POWER_STEPS", steps)
    mixing = row_stochastic(graph)
    np.testing.assert_allclose(
        mixing.stationary, dense_perron(mixing.weights.toarray().T), atol=1e-12
    )


def test_a_slow_network_falls_back_to_elimination(monkeypatch: Any) -> None:
    """A long path with a bias: pi falls geometrically, and power steps take the square of n."""
    monkeypatch.setattr(module, "SOLVE_UP_TO", 0)
    monkeypatch.setattr(module, "POWER_STEPS", 500)
    graph = nx.cycle_graph(400, create_using=nx.DiGraph)
    graph.add_edge(0, 200)
    mixing = row_stochastic(graph)
    np.testing.assert_allclose(
        mixing.stationary, dense_perron(mixing.weights.toarray().T), atol=1e-11
    )


def test_a_large_expander_needs_no_elimination(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_eliminate", None)
    mixing = row_stochastic("erdos-renyi:20000,0.0015")
    assert mixing.graph is not None
    own = 1 + mixing.graph.degrees  # both directions: reversible, pi goes with the row's length
    np.testing.assert_allclose(mixing.stationary, own / own.sum(), atol=1e-16, rtol=1e-11)


def test_rounds_converge_to_the_stationary_mean_and_ratios_to_the_mean() -> None:
    x = np.array([1.0, 5.0, 12.0])
    rows, columns = row_stochastic(BACK_AND_FORTH), column_stochastic(BACK_AND_FORTH)
    y, s, w = x, x, np.ones(3)
    for t in range(1, 200):
        y, s, w = rows.at(t) @ y, columns.at(t) @ s, columns.at(t) @ w
    np.testing.assert_allclose(y, rows.stationary @ x, atol=1e-12)
    np.testing.assert_allclose(s / w, 6, atol=1e-12)
    np.testing.assert_allclose(w / 3, columns.stationary, atol=1e-12)


def test_undirected_graphs_count_as_both_directions() -> None:
    mixing = row_stochastic("star:5")
    assert mixing.weights.toarray()[1].tolist() == [0.5, 0.5, 0, 0, 0]
    np.testing.assert_allclose(mixing.stationary, np.array([5, 2, 2, 2, 2]) / 13, atol=1e-14)


def test_what_it_says_of_itself() -> None:
    mixing = row_stochastic(BACK_AND_FORTH)
    assert isinstance(mixing, Network)
    assert (mixing.kind, mixing.dynamic, mixing.size) == ("row-stochastic", False, 3)
    assert list(mixing.labels) == ["a", "b", "c"]
    assert repr(mixing) == "DirectedMixing('row-stochastic' on 'DiGraph', 3 agents)"
    assert mixing.row(2)[0].tolist() == [0, 1, 2]
    assert mixing.weights.indices.dtype == np.int32
    given_matrix = DirectedMixing.of(mixing.weights.toarray(), labels=["a", "b", "c"])
    assert given_matrix.graph is not None
    assert mixing.graph is not None
    assert np.array_equal(given_matrix.graph.links, mixing.graph.links)


def test_zero_self_weights_are_fine_if_the_cycles_have_no_common_divisor() -> None:
    A = np.array([[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_allclose(DirectedMixing.of(A).stationary, [0.2, 0.4, 0.4], atol=1e-14)


CHAIN = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("matrix", "kind", "message"),
    [
        (np.ones((2, 3)), "row-stochastic", "square matrix"),
        (np.ones((1, 1)), "row-stochastic", "at least 2 agents"),
        (
            np.ones((2, 2)),
            "row-stochastic",
            r"row stochastic: row 0 sums to 2.*row_stochastic\(graph\)",
        ),
        (
            np.array([[0.5, 0.5], [1, 0]]),
            "column-stochastic",
            r"column 0 sums to 1.5.*column_stochastic",
        ),
        (np.array([[0.5, np.nan], [1, 0]]), "row-stochastic", "finite: agent 0 gives nan"),
        (np.array([[1.5, -0.5], [1, 0]]), "row-stochastic", "at least 0: agent 0 gives -0.5"),
        (
            CHAIN,
            "row-stochastic",
            "strongly connected: it has 3 components of sizes 1, 1, 1; agent",
        ),
        (
            np.roll(np.eye(3), 1, axis=0),
            "row-stochastic",
            "periodic.*divisible by 3.*row_stochastic",
        ),
        (np.eye(2), "row-stochastic", "agent 0 is isolated"),
        (np.full((2, 2), 0.5), "doubly-stochastic", "kind must be one of row-stochastic"),
    ],
)
def test_what_is_refused(matrix: Any, kind: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        DirectedMixing.of(matrix, kind=kind)


def test_a_graph_that_is_not_strongly_connected_names_an_agent() -> None:
    with pytest.raises(NetworkError, match=r"2 components of sizes 2, 1; agent 'c' \(index 2\)"):
        row_stochastic(nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")]))
