"""Fastest mixing weights (Boyd, Diaconis and Xiao 2004), by semidefinite programme.

    minimise s   subject to   -s I <= W - 11'/n <= s I,   W = I - B diag(w) B',
                              w >= 0,   |B| w <= 1

with B the incidence matrix of the n agents and m links; the optimum s is beta* of W.

The interior-point solver (Clarabel) is exact to about 1e-8, but its memory goes with n^4: it took
4 s for 50 agents, 105 s for 100, and was killed at 200 on a machine of 23 GB. Above 100 agents the
first-order solver (SCS) takes over, to about 1e-5.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from murmura._validate import at_least
from murmura.errors import MissingExtraError, NetworkError
from murmura.network.checks import disconnected
from murmura.network.convert import as_graph
from murmura.network.graph import Graph, undirected
from murmura.network.mixing import Mixing
from murmura.network.pattern import Floats, Pattern

LIMIT = 100
INTERIOR_UP_TO = 100
DUST = 1e-7  # a link with less weight is off: solvers approach 0 and never reach it


def fastest(graph: Any, *, limit: int = LIMIT) -> Mixing:
    """The symmetric weights on the graph's links with the least beta*.

    Needs cvxpy: pip install 'murmura[solvers]'. Refuses more than `limit` agents: it
    takes about two minutes at 100, and much longer beyond.
    """
    net = undirected(as_graph(graph))
    at_least(NetworkError, 2, limit=limit)
    if net.size > limit:
        raise NetworkError(
            f"fastest weights are exact and slow: {net.size} agents, limit {limit}; try "
            f"network.metropolis(graph), or network.fastest(graph, limit={net.size}) and wait"
        )
    if not net.is_connected:
        raise disconnected(net.components, net.labels)
    w = _clean(net, _solve(net))
    return Mixing(Pattern.of(net).fill(w), net.labels, "fastest", net)


def _solve(graph: Graph) -> Floats:
    """The optimal w, up to the solver's rounding."""
    cp = _cvxpy()
    n, ones = graph.size, np.eye(graph.size)
    w, s = cp.Variable(len(graph.links), nonneg=True), cp.Variable()
    W = ones - 1.0 / n - cp.reshape(_laplacian(graph) @ w, (n, n), order="C")
    at_each = csc_array(abs(_incidence(graph)))
    problem = cp.Problem(cp.Minimize(s), [W << s * ones, W >> -s * ones, at_each @ w <= 1])
    best: tuple[float, Floats] | None = None
    for options in _solvers(cp, n):
        status = _attempt(problem, options)
        if status == "optimal":
            return np.asarray(w.value, dtype=np.float64)
        if status == "optimal_inaccurate" and (best is None or float(s.value) < best[0]):
            best = float(s.value), np.asarray(w.value, dtype=np.float64)
    if best is None:
        raise NetworkError(
            f"no fastest weights found for {n} agents: the solver says {problem.status!r}; "
            "try network.metropolis(graph)"
        )
    return best[1]


def _solvers(cp: Any, n: int) -> list[dict[str, Any]]:
    """What to try in turn. On some trees Clarabel stalls a few digits short of its tolerance."""
    scs = {"solver": cp.SCS, "eps": 1e-6, "max_iters": 200_000}
    if n > INTERIOR_UP_TO:
        return [scs]
    return [{"solver": cp.CLARABEL}, {**scs, "eps": 1e-9}]


def _attempt(problem: Any, options: dict[str, Any]) -> str:
    """The solver's status; that it is inexact is read off the status, not off a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(**options)
    return str(problem.status)


def _cvxpy() -> Any:
    try:
        return import_module("cvxpy")
    except ImportError as error:
        raise MissingExtraError(
            "fastest weights need cvxpy: pip install 'murmura[solvers]'"
        ) from error


def _incidence(graph: Graph) -> csc_array:
    """B, (n, m): column k is e_i - e_j for link k = (i, j)."""
    (i, j), k = graph.links.T, np.arange(len(graph.links))
    data = np.repeat([1.0, -1.0], len(k))
    at = (np.concatenate([i, j]), np.concatenate([k, k]))
    return csc_array((data, at), shape=(graph.size, len(k)))


def _laplacian(graph: Graph) -> csc_array:
    """(n^2, m): column k is b_k b_k' row by row, so that it takes w to B diag(w) B'."""
    (i, j), k, n = graph.links.T, np.arange(len(graph.links)), graph.size
    data = np.repeat([1.0, 1.0, -1.0, -1.0], len(k))
    rows = np.concatenate([i * n + i, j * n + j, i * n + j, j * n + i])
    return csc_array((data, (rows, np.tile(k, 4))), shape=(n * n, len(k)))


def _clean(graph: Graph, w: Floats) -> Floats:
    """The nearest weights that are exactly valid: nonnegative, at most 1 in sum at each agent."""
    w = np.where(w < DUST, 0.0, w)
    return w / max(1.0, float(np.bincount(graph.links.ravel(), np.repeat(w, 2)).max()))
