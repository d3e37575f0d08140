"""Directed networks: link (source, target) means source sends to target, a_{target,source} > 0.

Row-stochastic averaging converges to pi'x, with pi' A = pi' (not the mean: App. C). A
column-stochastic A keeps the sum 1'x, and the ratio of two such averages (push-sum) is the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from murmura._validate import one_of
from murmura.errors import NetworkError
from murmura.network import checks
from murmura.network.convert import as_graph
from murmura.network.fixed import Fixed
from murmura.network.graph import Graph
from murmura.network.protocol import Floats, Kind

REMEDY = "network.row_stochastic(graph), whose self weights are positive"
SOLVE_UP_TO = 2_000
POWER_STEPS = 20_000
ACCURACY = 1e-12
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class DirectedMixing(Fixed):
    """Row- or column-stochastic weights of a strongly connected, aperiodic network."""

    weights: csr_array
    kind: Kind
    labels: checks.Labels = ()
    scheme: str = "given"
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Check everything that the class promises."""
        one_of(NetworkError, ("row-stochastic", "column-stochastic"), kind=self.kind)
        self._settle()
        checks.check_connected(self.weights, self.labels, directed=True)
        checks.check_aperiodic(self.weights, REMEDY)

    @classmethod
    def of(
        cls, matrix: Any, kind: Kind = "row-stochastic", labels: checks.Labels | None = None
    ) -> DirectedMixing:
        """The DirectedMixing of a dense or sparse matrix; a_ij > 0 is a link from j to i."""
        weights = checks.canonical(matrix)
        bare = cls(weights, kind, labels if labels is not None else ())
        links = checks.links_of(weights).tocoo()
        arcs = np.stack([links.col, links.row], axis=1).astype(np.int64)
        graph = Graph(bare.size, arcs, bare.labels, directed=True, name="given")
        object.__setattr__(bare, "graph", graph)
        return bare

    def __repr__(self) -> str:
        """Kind and size, never the weights."""
        return self._described(self.kind)

    @cached_property
    def stationary(self) -> Floats:
        """The Perron vector, of sum 1: pi' A = pi' (row-stochastic), A pi = pi (column-stochastic).

        Row-stochastic: the weight of each signal in what the agents agree on. Column-stochastic:
        the share of the total that each agent comes to hold (what push-sum divides by).
        """
        row = self.kind == "row-stochastic"
        return perron(self.weights.T.tocsr() if row else self.weights)


def row_stochastic(graph: Any) -> DirectedMixing:
    """a_ij = 1/(1 + in-degree of i) for j = i and every j that sends to i."""
    net = as_graph(graph)
    return _uniform(net, "row-stochastic", "row-uniform")


def column_stochastic(graph: Any) -> DirectedMixing:
    """a_ij = 1/(1 + out-degree of j) for i = j and every i that j sends to: push-sum's shares."""
    net = as_graph(graph)
    return _uniform(net, "column-stochastic", "column-uniform")


def _uniform(graph: Graph, kind: Kind, scheme: str) -> DirectedMixing:
    own = np.arange(graph.size)
    sources = np.concatenate([graph.arcs[:, 0], own]).astype(np.int32)
    targets = np.concatenate([graph.arcs[:, 1], own]).astype(np.int32)
    if kind == "row-stochastic":
        data = (1.0 / (1 + graph.in_degrees))[targets]
    else:
        data = (1.0 / (1 + graph.out_degrees))[sources]
    weights = coo_array((data, (targets, sources)), shape=(graph.size, graph.size)).tocsr()
    weights.sort_indices()
    return DirectedMixing(weights, kind, graph.labels, scheme, graph)


def perron(columns: csr_array) -> Floats:
    """x > 0 of sum 1 with C x = x, for a column-stochastic C: by power, or by elimination.

    Elimination solves the equations of agents 1 .. n-1 with x_0 = 1; it is exact and quick for
    small or slow networks, while the power method suits the large ones that mix fast.
    """
    x = None if columns.shape[0] <= SOLVE_UP_TO else _power(columns)
    x = _eliminate(columns) if x is None else x
    residual = float(np.abs(columns @ x - x).sum())
    if not residual < 1e-10 or np.any(x <= 0):
        raise NetworkError(f"the stationary vector did not converge: residual {residual:.1e}")
    return x


def _power(columns: csr_array) -> Floats | None:
    """C^t x until the remaining error, change * rate/(1 - rate), is small; None if it is slow."""
    x: Floats = np.full(columns.shape[0], 1.0 / columns.shape[0])
    changes: list[float] = []
    for t in range(1, POWER_STEPS + 1):
        new: Floats = columns @ x
        new /= new.sum()
        changes.append(float(np.abs(new - x).sum()))
        x = new
        if changes[-1] < ROUNDING:  # no rate to read here: the steps it took to arrive tell
            return x if t < 5_000 else None
        rate = (changes[-1] / changes[max(0, t - 11)]) ** (1 / 10)
        if t > 10 and rate < 1 and changes[-1] * rate / (1 - rate) < ACCURACY:
            return x
    return None


def _eliminate(columns: csr_array) -> Floats:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    system = (eye_array(columns.shape[0]) - columns).tocsc()
    factor = splu(system[1:, 1:], permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
    rest = factor.solve(-system[1:, [0]].toarray().ravel())
    x = np.concatenate([[1.0], rest])
    return np.asarray(x / x.sum())
