"""Weights from a graph: symmetric and doubly stochastic, each a formula over the links.

Every function accepts what `as_graph` accepts and returns a valid Mixing. With d the degrees,
a_ii = 1 - sum over j of a_ij throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from murmura._validate import one_of
from murmura.errors import NetworkError
from murmura.network import layout
from murmura.network.convert import as_graph
from murmura.network.graph import Graph, undirected
from murmura.network.mixing import Mixing
from murmura.network.pattern import Pattern
from murmura.network.semidefinite import fastest
from murmura.network.spectrum import extremes


def metropolis(graph: Any) -> Mixing:
    """a_ij = 1/max(d_i, d_j): the paper's weights (Metropolis-Hastings, Sec. 2).

    On regular bipartite graphs, such as even rings, they are periodic (beta* = 1, erratum 4):
    that is an error, and `lazy_metropolis` is the remedy.
    """
    net = undirected(as_graph(graph))
    return _mixing(net, "metropolis", ratio=1.0)


def lazy_metropolis(graph: Any) -> Mixing:
    """a_ij = 1/(2 max(d_i, d_j)): App. C.1; aperiodic on every graph, since a_ii >= 1/2."""
    net = undirected(as_graph(graph))
    return _mixing(net, "lazy-metropolis", ratio=0.5)


def max_degree(graph: Any) -> Mixing:
    """a_ij = 1/(d_max + 1): the + 1 keeps a_ii > 0, so that no graph is periodic."""
    net = undirected(as_graph(graph))
    return _mixing(net, "max-degree", constant=1.0 / (net.degrees.max() + 1))


def best_constant(graph: Any) -> Mixing:
    """A = I - alpha L, alpha = min(2/(lambda_max(L) + lambda_2(L)), 1/d_max).

    The first is the best constant of Xiao and Boyd (2004). It may make a_ii negative, which no
    Markov chain and none of the paper's promises allow: then the cap 1/d_max holds, the best
    constant among nonnegative weights, and the scheme reads "best-constant, capped".
    """
    probe = max_degree(graph)  # P = I - L/(d_max + 1) has the spectrum of L, and is a valid Mixing
    net = as_graph(graph) if probe.graph is None else probe.graph
    d_max = int(net.degrees.max())
    lambda_2, lambda_n = extremes(probe.weights)
    alpha = 2.0 / ((d_max + 1) * (2.0 - lambda_2 - lambda_n))
    capped = alpha > 1.0 / d_max
    scheme = "best-constant, capped" if capped else "best-constant"
    return _mixing(net, scheme, constant=min(alpha, 1.0 / d_max))


SCHEMES: dict[str, Callable[[Any], Mixing]] = {
    "metropolis": metropolis,
    "lazy-metropolis": lazy_metropolis,
    "max-degree": max_degree,
    "best-constant": best_constant,
    "fastest": fastest,
}


def weigh(graph: Any, scheme: str = "metropolis") -> Mixing:
    """The Mixing of a graph under a scheme of `SCHEMES`, by name."""
    name = scheme.strip().lower().replace("_", "-").replace(" ", "-")
    one_of(NetworkError, SCHEMES, scheme=name)
    return SCHEMES[name](graph)


def _mixing(graph: Graph, scheme: str, ratio: float = 0.0, constant: float = 0.0) -> Mixing:
    """a_ij = ratio/max(d_i, d_j) + constant for every link."""
    if layout.is_large(len(graph.links)):
        weights = _filled(graph, ratio, constant)
    else:
        larger = np.maximum(*graph.degrees[graph.links.T])
        weights = Pattern.of(graph).fill(ratio / larger + constant)
    return Mixing(weights, graph.labels, scheme, graph)


def _filled(graph: Graph, ratio: float, constant: float) -> csr_array:
    """The same weights, row by row, without arrays of links beside them."""
    from murmura.network import compiled

    indptr, indices = compiled.lay_rows(graph.links, graph.size)
    weights = layout.csr(np.empty(len(indices)), indices, indptr, graph.size)
    compiled.fill_rows(weights.indptr, weights.indices, ratio, constant, weights.data)
    return weights
