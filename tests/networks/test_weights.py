from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.errors import LimitWarning, NetworkError
from veilsum.networks import (
    SCHEMES,
    Graph,
    best_constant,
    lazy_metropolis,
    load,
    max_degree,
    metropolis,
    weigh,
)

QUICK = [name for name in SCHEMES if name != "fastest"]


@st.composite
def connected_graphs(draw: Any) -> Any:
    """A random tree and some more links."""
    size = draw(st.integers(2, 15))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, size)]
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    more = [pair for pair in draw(st.lists(ends, max_size=20)) if pair[0] != pair[1]]
    return Graph(size, np.array(tree + more))


@pytest.mark.parametrize("scheme", list(SCHEMES))
@settings(max_examples=30, deadline=None)
@given(graph=connected_graphs())
def test_weights_are_symmetric_doubly_stochastic_and_contract(scheme: Any, graph: Any) -> None:
    if scheme == "metropolis" and graph.is_bipartite and np.ptp(graph.degrees) == 0:
        with pytest.raises(NetworkError, match="periodic"):
            weigh(graph, scheme)
        return
    mixing = weigh(graph, scheme)
    A = mixing.weights.toarray()
    assert np.array_equal(A, A.T)
    assert np.all(A >= 0)
    np.testing.assert_allclose(A.sum(axis=0), 1, atol=1e-12)
    assert np.all((A > 0) <= (graph.adjacency.toarray() + np.eye(graph.size) > 0))
    assert 0 <= mixing.beta_star < 1
    values = np.sort(np.abs(np.linalg.eigvalsh(A - 1 / graph.size)))
    assert mixing.beta_star == pytest.approx(values[-1], abs=1e-12)


@settings(deadline=None)
@given(connected_graphs())
def test_formulas_against_dense_loops(graph: Any) -> None:
    d, n = graph.degrees, graph.size
    lazy = np.zeros((n, n))
    for i, j in graph.links:
        lazy[i, j] = lazy[j, i] = 1 / (2 * max(d[i], d[j]))
    lazy += np.diag(1 - lazy.sum(axis=1))
    np.testing.assert_allclose(lazy_metropolis(graph).weights.toarray(), lazy, atol=1e-15)
    L = np.diag(d) - graph.adjacency.toarray()
    np.testing.assert_allclose(
        max_degree(graph).weights.toarray(), np.eye(n) - L / (d.max() + 1), atol=1e-15
    )
    values = np.linalg.eigvalsh(L)
    alpha = min(2 / (values[-1] + values[1]), 1 / d.max()) if n > 2 else 0.5
    np.testing.assert_allclose(
        best_constant(graph).weights.toarray(), np.eye(n) - alpha * L, atol=1e-12
    )


def test_metropolis_is_that_of_the_paper() -> None:
    graph = nx.florentine_families_graph()
    mixing = metropolis(nx.Graph(graph.subgraph(max(nx.connected_components(graph), key=len))))
    A, labels = mixing.weights.toarray(), list(mixing.labels)
    i, j = labels.index("Medici"), labels.index("Ridolfi")
    assert A[i, j] == 1 / max(graph.degree("Medici"), graph.degree("Ridolfi"))
    assert mixing.scheme == "metropolis"


@pytest.mark.parametrize("source", ["ring:4", "ring:20", "torus:6x8", "hypercube:7", "path:2"])
def test_metropolis_on_regular_bipartite_graphs_is_periodic(source: Any) -> None:
    with pytest.raises(NetworkError, match=r"divisible by 2.*beta\* = 1.*lazy_metropolis\(graph\)"):
        metropolis(source)
    for scheme in ("lazy-metropolis", "max-degree", "best-constant"):
        assert weigh(source, scheme).beta_star < 1


def test_closed_forms_on_the_ring() -> None:
    c = np.cos(2 * np.pi / 20)
    assert lazy_metropolis("ring:20").lambda_2 == pytest.approx((1 + c) / 2, abs=1e-12)
    assert max_degree("ring:20").lambda_2 == pytest.approx((1 + 2 * c) / 3, abs=1e-12)
    # L has lambda_2 = 2 - 2c and lambda_max = 4, so beta* = (4 - lambda_2)/(4 + lambda_2)
    assert best_constant("ring:20").beta_star == pytest.approx((2 + 2 * c) / (6 - 2 * c), abs=1e-12)


def test_best_constant_is_capped_where_a_self_weight_would_be_negative() -> None:
    capped = best_constant("star:9")
    assert capped.scheme == "best-constant, capped"
    assert capped.weights.diagonal().min() == 0
    assert best_constant("ring:9").scheme == "best-constant"


def test_labels_are_kept_and_names_are_forgiving() -> None:
    mixing = weigh(nx.Graph([("x", "y"), ("y", "z")]), "Lazy_Metropolis")
    assert list(mixing.labels) == ["x", "y", "z"]
    with pytest.raises(NetworkError, match=r"scheme must be one of metropolis.*found 'best'"):
        weigh("ring:5", "best")


@pytest.mark.parametrize("scheme", QUICK)
def test_bad_graphs_are_refused_by_every_scheme(scheme: Any) -> None:
    with pytest.raises(NetworkError, match=r"undirected.*row_stochastic\(graph\)"):
        weigh(nx.DiGraph([(0, 1), (1, 2)]), scheme)
    with pytest.raises(NetworkError, match="agent 2 is isolated"):
        weigh(Graph(3, np.array([[0, 1]])), scheme)
    with pytest.raises(NetworkError, match="2 components of sizes 3, 2"):
        weigh(nx.disjoint_union(nx.path_graph(3), nx.path_graph(2)), scheme)
    with pytest.raises(NetworkError, match="isolated"):
        weigh(Graph(2, np.empty((0, 2), dtype=np.int64)), scheme)


def test_a_million_agents() -> None:
    mixing = lazy_metropolis(load("torus:1000x1000"))
    assert mixing.size == 10**6
    assert mixing.weights.nnz == 5 * 10**6
    assert np.all(mixing.largest_neighbour_weight == 0.125)


def test_fastest_weights_where_the_interior_point_solver_stalls() -> None:
    """A star of 10 with one more link: Clarabel stops a few digits short; SCS finishes."""
    graph = Graph(11, np.array([[0, i] for i in range(1, 10)] + [[1, 10]]))
    mixing = weigh(graph, "fastest")
    assert mixing.beta_star <= metropolis(graph).beta_star
    W = mixing.weights.toarray()
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-12)


@pytest.mark.parametrize("graph", ["ring:8", "hypercube:3", "torus:4x6", "path:2"])
def test_the_usual_weights_are_lazy_where_metropolis_ones_are_periodic(graph: str) -> None:
    with pytest.warns(LimitWarning, match="lazy-metropolis weights take their place"):
        made = weigh(graph)
    assert made.scheme == "lazy-metropolis"
    with pytest.raises(NetworkError, match="periodic"):
        weigh(graph, "metropolis")


def test_the_usual_weights_are_metropolis_elsewhere() -> None:
    assert weigh("ring:9").scheme == weigh("path:4").scheme == "metropolis"
    with pytest.raises(NetworkError, match="must be connected"):
        weigh(nx.Graph([(0, 1), (2, 3)]))
