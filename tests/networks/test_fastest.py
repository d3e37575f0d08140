import re
import sys
from typing import Any

import numpy as np
import pytest

from veilsum._extras import install_command
from veilsum.errors import MissingExtraError, NetworkError
from veilsum.networks import best_constant, fastest, load, metropolis, weights

cp = pytest.importorskip("cvxpy")


def independent_optimum(graph: Any, **options: Any) -> Any:
    """min ||W - 11'/n||_2 over a full matrix variable W, zero off the graph."""
    n = graph.size
    W = cp.Variable((n, n), symmetric=True)
    off = 1 - graph.adjacency.toarray() - np.eye(n)
    constraints = [W >= 0, cp.sum(W, axis=1) == 1, cp.multiply(off, W) == 0]
    problem = cp.Problem(cp.Minimize(cp.sigma_max(W - np.full((n, n), 1 / n))), constraints)
    problem.solve(**options)
    return problem.value


@pytest.mark.thorough
def test_fifty_agents_beat_metropolis() -> None:
    graph = load("random-geometric:50,0.3,1")
    mixing = fastest(graph)
    assert mixing.scheme == "fastest"
    assert mixing.beta_star < metropolis(graph).beta_star - 0.01
    assert mixing.beta_star == pytest.approx(0.8487767, abs=1e-6)  # see the slow test below


@pytest.mark.thorough
def test_an_independent_formulation_finds_the_same_optimum() -> None:
    graph = load("random-geometric:18,0.45,2")
    assert graph.is_connected
    expected = independent_optimum(graph, solver=cp.SCS, eps=1e-8, max_iters=100_000)
    assert fastest(graph).beta_star == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_an_independent_formulation_finds_the_same_optimum_at_fifty_agents() -> None:
    graph = load("random-geometric:50,0.3,1")
    expected = independent_optimum(graph, solver=cp.CLARABEL)
    assert fastest(graph).beta_star == pytest.approx(expected, abs=1e-5)


def test_the_first_order_solver_for_large_graphs_agrees(monkeypatch: Any) -> None:
    graph = load("random-geometric:18,0.45,2")
    exact = fastest(graph).beta_star
    monkeypatch.setattr(weights, "INTERIOR_UP_TO", 0)
    assert fastest(graph).beta_star == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("size", [3, 8, 15])
def test_closed_form_on_the_path(size: Any) -> None:
    """Weights 1/2, beta* = cos(pi/n) (Boyd, Diaconis, Sun and Xiao 2006)."""
    assert fastest(f"path:{size}").beta_star == pytest.approx(np.cos(np.pi / size), abs=1e-7)


@pytest.mark.parametrize("size", [5, 8])
def test_edge_transitive_graphs_have_one_weight_for_all_links(size: Any) -> None:
    graph = load("ring", size=size)
    assert fastest(graph).beta_star == pytest.approx(best_constant(graph).beta_star, abs=1e-7)


def test_the_complete_graph_averages_in_one_round() -> None:
    assert fastest("complete:6").beta_star < 1e-7


def test_the_weights_are_exactly_valid() -> None:
    A = fastest("random-geometric:20,0.45,1").weights.toarray()
    assert np.array_equal(A, A.T)
    off = A - np.diag(A.diagonal())
    assert np.all((off == 0) | (off > 1e-8))
    assert np.all(A >= 0)
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-14)


def test_large_and_disconnected_graphs_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"201 agents, limit 100.*fastest\(graph, limit=201\)"):
        fastest("ring:201")
    with pytest.raises(NetworkError, match="components"):
        fastest("random-geometric:20,0.05,0")


def test_without_cvxpy_the_error_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("solvers"))):
        fastest("ring:5")
