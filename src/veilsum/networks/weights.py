"""Weights from a graph, each a formula over the links.

Every function accepts what `as_graph` accepts and returns a valid Mixing or DirectedMixing. With d
the degrees, a_ii = 1 - sum over j of a_ij throughout.

The fastest mixing weights (Boyd, Diaconis and Xiao 2004) are a semidefinite programme,

    minimise s   subject to   -s I <= W - 11'/n <= s I,   W = I - B diag(w) B',
                              w >= 0,   |B| w <= 1

with B the incidence matrix of the n agents and m links; the optimum s is beta* of W. The
interior-point solver (Clarabel) is exact to about 1e-8, but its memory goes with n^4: it took 4 s
for 50 agents, 105 s for 100, and was killed at 200 on a machine of 23 GB. Above 100 agents the
first-order solver (SCS) takes over, to about 1e-5.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._extras import install_command
from veilsum._types import Bools, Floats, GraphLike, Indices, Kind
from veilsum._validate import at_least, one_of
from veilsum._warn import warn
from veilsum.errors import LimitWarning, MissingExtraError, NetworkError
from veilsum.networks import kernels
from veilsum.networks.graph import Graph, undirected
from veilsum.networks.io import as_graph
from veilsum.networks.mixing import DirectedMixing, Mixing
from veilsum.networks.rows import CompressedRows
from veilsum.networks.spectrum import extreme_eigenvalues
from veilsum.networks.validation import disconnected

ROUNDING = 1e-12  # a self weight below this is rounding: on regular graphs 1 - d * (1/d) is 0
FASTEST_LIMIT = 100
INTERIOR_UP_TO = 100
LEAST_WEIGHT = 1e-7  # a link with less weight is off: solvers approach 0 and never reach it


@dataclass(frozen=True, eq=False)
class Pattern:
    """The sparsity of a graph's weights, built once and filled many times: data = [w, w, diagonal][order]."""

    links: Indices
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Pattern:
        """The pattern of an undirected graph, diagonal included."""
        i, j = undirected(graph).links.T
        own = np.arange(graph.size, dtype=np.int32)
        rows, columns = np.concatenate([i, j, own]), np.concatenate([j, i, own])
        laid = CompressedRows.lay(graph.size, rows, columns, np.arange(len(rows)))
        return cls(graph.links, laid.indices, laid.indptr, laid.data)

    @property
    def size(self) -> int:
        """The number of agents."""
        return len(self.indptr) - 1

    def fill(self, w: Floats) -> CompressedRows:
        """a_ij = a_ji = w of the link, a_ii = 1 - sum of the agent's w."""
        i, j = self.links.T
        taken = np.bincount(i, w, self.size) + np.bincount(j, w, self.size)
        own = 1.0 - taken
        own[np.abs(own) < ROUNDING] = 0.0
        data = np.concatenate([w, w, own])[self.order]
        return CompressedRows(self.indptr, self.indices, data)

    def lazy_metropolis(self, up: Bools) -> CompressedRows:
        """a_ij = 1/(2 max(d_i, d_j)) over the links that are up, d their degrees; 0 elsewhere."""
        degrees = np.bincount(self.links[up].ravel(), minlength=self.size)
        larger = np.maximum(degrees[self.links[:, 0]], degrees[self.links[:, 1]])
        return self.fill(np.where(up, 0.5 / np.maximum(larger, 1), 0.0))


def metropolis(graph: GraphLike) -> Mixing:
    """a_ij = 1/max(d_i, d_j): the paper's weights (Metropolis-Hastings, Sec. 2).

    On regular bipartite graphs, such as even rings, they are periodic (beta* = 1, erratum 4):
    that is an error, and `lazy_metropolis` is the remedy.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    Mixing

    Raises
    ------
    NetworkError
        If the graph is directed or not connected, or the weights are periodic.

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.metropolis("star:4").weights.toarray().round(2)[1]
    array([0.33, 0.67, 0.  , 0.  ])
    """
    net = undirected(as_graph(graph))
    return _mixing(net, "metropolis", ratio=1.0)


def lazy_metropolis(graph: GraphLike) -> Mixing:
    """a_ij = 1/(2 max(d_i, d_j)): App. C.1; aperiodic on every graph, since a_ii >= 1/2.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    Mixing

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.lazy_metropolis("ring:4").weights.toarray()[0]
    array([0.5 , 0.25, 0.  , 0.25])
    """
    net = undirected(as_graph(graph))
    return _mixing(net, "lazy-metropolis", ratio=0.5)


def max_degree(graph: GraphLike) -> Mixing:
    """a_ij = 1/(d_max + 1): the + 1 keeps a_ii > 0, so that no graph is periodic.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    Mixing

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.max_degree("star:4").weights.toarray()[1]
    array([0.25, 0.75, 0.  , 0.  ])
    """
    net = undirected(as_graph(graph))
    return _mixing(net, "max-degree", constant=1.0 / (net.degrees.max() + 1))


def best_constant(graph: GraphLike) -> Mixing:
    """A = I - alpha L, alpha = min(2/(lambda_max(L) + lambda_2(L)), 1/d_max).

    The first is the best constant of Xiao and Boyd (2004). It may make a_ii negative, which no
    Markov chain and none of the paper's guarantees allow: then the cap 1/d_max holds, the best
    constant among nonnegative weights, and the scheme reads "best-constant, capped".

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    Mixing

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.best_constant("complete:4").beta_star < 1e-12
    True
    """
    probe = max_degree(graph)  # P = I - L/(d_max + 1) has the spectrum of L, and is a valid Mixing
    net = as_graph(graph) if probe.graph is None else probe.graph
    d_max = int(net.degrees.max())
    lambda_2, lambda_n = extreme_eigenvalues(probe.rows)
    alpha = 2.0 / ((d_max + 1) * (2.0 - lambda_2 - lambda_n))
    capped = alpha > 1.0 / d_max
    scheme = "best-constant, capped" if capped else "best-constant"
    return _mixing(net, scheme, constant=min(alpha, 1.0 / d_max))


def fastest(graph: GraphLike, *, limit: int = FASTEST_LIMIT) -> Mixing:
    """The symmetric weights on the graph's links with the least beta*.

    Needs cvxpy, of the extra `solvers`.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.
    limit : int
        Most agents; it takes about two minutes at 100, and much longer beyond.

    Returns
    -------
    Mixing

    Raises
    ------
    NetworkError
        If the graph is directed, not connected or larger than `limit`, or the solver fails.
    MissingExtraError
        Without cvxpy.

    Examples
    --------
    >>> from veilsum import networks
    >>> round(networks.fastest("path:3").beta_star, 4)
    0.5
    """
    net = undirected(as_graph(graph))
    at_least(NetworkError, 2, limit=limit)
    if net.size > limit:
        raise NetworkError(
            f"fastest weights are exact and slow: {net.size} agents, limit {limit}; try "
            f"networks.metropolis(graph), or networks.fastest(graph, limit={net.size}) and wait"
        )
    if not net.is_connected:
        raise disconnected(net.components, net.labels)
    w = _feasible(net, _solve(net))
    return Mixing(Pattern.of(net).fill(w), net.labels, "fastest", net)


def row_stochastic(graph: GraphLike) -> DirectedMixing:
    """a_ij = 1/(1 + in-degree of i) for j = i and every j that sends to i.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    DirectedMixing

    Examples
    --------
    >>> from veilsum import networks
    >>> arcs = networks.Graph(3, [(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
    >>> networks.row_stochastic(arcs).weights.toarray().round(2)[2]
    array([0.33, 0.33, 0.33])
    """
    net = as_graph(graph)
    return _uniform(net, "row-stochastic", "row-uniform")


def column_stochastic(graph: GraphLike) -> DirectedMixing:
    """a_ij = 1/(1 + out-degree of j) for i = j and every i that j sends to: weights of push-sum.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.

    Returns
    -------
    DirectedMixing

    Examples
    --------
    >>> from veilsum import networks
    >>> arcs = networks.Graph(3, [(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
    >>> networks.column_stochastic(arcs).weights.toarray().round(2)[2]
    array([0.33, 0.5 , 0.5 ])
    """
    net = as_graph(graph)
    return _uniform(net, "column-stochastic", "column-uniform")


SCHEMES: dict[str, Callable[[Any], Mixing]] = {
    "metropolis": metropolis,
    "lazy-metropolis": lazy_metropolis,
    "max-degree": max_degree,
    "best-constant": best_constant,
    "fastest": fastest,
}


def weigh(graph: GraphLike, scheme: str | None = None) -> Mixing:
    """The Mixing of a graph under a scheme of `SCHEMES`, by name.

    Without a name the weights are metropolis, or lazy-metropolis on a graph on which metropolis
    weights are periodic: regular and bipartite, such as an even ring. A warning says so.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.
    scheme : str, optional
        "metropolis", "lazy-metropolis", "max-degree", "best-constant" or "fastest".

    Returns
    -------
    Mixing

    Raises
    ------
    NetworkError
        For an unknown scheme.

    Warns
    -----
    LimitWarning
        If lazy weights take the place of periodic ones.

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.weigh("ring:8", "lazy-metropolis")
    Mixing('lazy-metropolis' on 'ring', 8 agents)
    """
    if scheme is None:
        return _usual(undirected(as_graph(graph)))
    name = scheme.strip().lower().replace("_", "-").replace(" ", "-")
    one_of(NetworkError, SCHEMES, scheme=name)
    return SCHEMES[name](graph)


def _usual(graph: Graph) -> Mixing:
    """Metropolis weights; lazy ones where those are periodic and lazy ones are not."""
    try:
        return metropolis(graph)
    except NetworkError:
        lazy = lazy_metropolis(graph)  # the same error, unless periodicity was the problem
    warn(
        f"metropolis weights are periodic on {graph.name or 'this graph'}, and its agents would "
        "never agree: lazy-metropolis weights take their place; name the weights to choose",
        LimitWarning,
    )
    return lazy


def _mixing(graph: Graph, scheme: str, ratio: float = 0.0, constant: float = 0.0) -> Mixing:
    """a_ij = ratio/max(d_i, d_j) + constant for every link."""
    if kernels.compiled_pays(len(graph.links)):
        weights = _filled(graph, ratio, constant)
    else:
        larger = np.maximum(*graph.degrees[graph.links.T])
        weights = Pattern.of(graph).fill(ratio / larger + constant)
    return Mixing(weights, graph.labels, scheme, graph)


def _filled(graph: Graph, ratio: float, constant: float) -> CompressedRows:
    """The same weights, row by row, without arrays of links beside them."""
    from veilsum.networks import compiled

    indptr, indices = compiled.lay_rows(graph.links, graph.size)
    weights = CompressedRows(indptr, indices, np.empty(len(indices)))
    compiled.fill_rows(weights.indptr, weights.indices, ratio, constant, weights.data)
    return weights


def _uniform(graph: Graph, kind: Kind, scheme: str) -> DirectedMixing:
    own = np.arange(graph.size)
    sources = np.concatenate([graph.arcs[:, 0], own]).astype(np.int32)
    targets = np.concatenate([graph.arcs[:, 1], own]).astype(np.int32)
    if kind == "row-stochastic":
        data = (1.0 / (1 + graph.in_degrees))[targets]
    else:
        data = (1.0 / (1 + graph.out_degrees))[sources]
    weights = CompressedRows.lay(graph.size, targets, sources, data)
    return DirectedMixing(weights, kind, graph.labels, scheme, graph)


def _solve(graph: Graph) -> Floats:
    """The optimal w, up to the solver's rounding."""
    cp = _cvxpy()
    n, ones = graph.size, np.eye(graph.size)
    w, s = cp.Variable(len(graph.links), nonneg=True), cp.Variable()
    W = ones - 1.0 / n - cp.reshape(_laplacian(graph) @ w, (n, n), order="C")
    at_each = _extras.load("scipy.sparse").csc_array(abs(_incidence(graph)))
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
            "try networks.metropolis(graph)"
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
            f"fastest weights need cvxpy: {install_command('solvers')}"
        ) from error


def _incidence(graph: Graph) -> Any:
    """B, (n, m): column k is e_i - e_j for link k = (i, j)."""
    (i, j), k = graph.links.T, np.arange(len(graph.links))
    data = np.repeat([1.0, -1.0], len(k))
    at = (np.concatenate([i, j]), np.concatenate([k, k]))
    return _extras.load("scipy.sparse").csc_array((data, at), shape=(graph.size, len(k)))


def _laplacian(graph: Graph) -> Any:
    """(n^2, m): column k is b_k b_k' row by row, so that it takes w to B diag(w) B'."""
    (i, j), k, n = graph.links.T, np.arange(len(graph.links)), graph.size
    data = np.repeat([1.0, 1.0, -1.0, -1.0], len(k))
    rows = np.concatenate([i * n + i, j * n + j, i * n + j, j * n + i])
    return _extras.load("scipy.sparse").csc_array(
        (data, (rows, np.tile(k, 4))), shape=(n * n, len(k))
    )


def _feasible(graph: Graph, w: Floats) -> Floats:
    """The nearest weights that are exactly valid: nonnegative, at most 1 in sum at each agent."""
    w = np.where(w < LEAST_WEIGHT, 0.0, w)
    return w / max(1.0, float(np.bincount(graph.links.ravel(), np.repeat(w, 2)).max()))
