"""Dynamic networks: A_t for t = 1, 2, ..., doubly stochastic in every round (App. C.1).

Rounds use the lazy Metropolis weights over the links that are up, with d(t) their degrees:

    a_ij(t) = 1/(2 max(d_i(t), d_j(t))),    a_ii(t) = 1 - sum over j of a_ij(t)

so that a_ii(t) >= 1/2, and an agent with no link up keeps its value. `at(t)` is a pure function of
t: any round can be asked for, in any order, by any process, and comes out the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum._types import Bools, Floats, GraphLike, Kind, Labels
from veilsum._validate import at_least, positive, probability
from veilsum.errors import NetworkError
from veilsum.networks import kernels, validation
from veilsum.networks.graph import Graph, checked_labels, relabelled, sized, undirected
from veilsum.networks.io import as_graph
from veilsum.networks.rows import CompressedRows, is_scipy
from veilsum.networks.weights import Pattern

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def generator(seed: int, t: int) -> np.random.Generator:
    """The generator of round t: Philox seeded with (seed, t)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, t])))


class Schedule(ABC):
    """A dynamic network: what `Network` asks for, with A_t left to the subclass.

    Subclasses define `_weights(t)` and `largest_neighbour_weight`; `link_failures`, `asleep`,
    `sequence` and `from_callable` build the ones that are here.

    Attributes
    ----------
    labels : sequence of hashable
        The agents' names.
    scheme : str
        How the weights of a round are chosen.
    graph : Graph or None
        The union of the graphs of all rounds, where it is known.

    Examples
    --------
    >>> from veilsum import networks
    >>> schedule = networks.link_failures("ring:8", 0.3, seed=1)
    >>> isinstance(schedule, networks.Schedule), schedule.dynamic
    (True, True)
    """

    scheme: str
    labels: Labels
    graph: Graph | None

    @property
    def size(self) -> int:
        """The number n of agents."""
        return len(self.labels)

    @property
    def kind(self) -> Kind:
        """Rows and columns sum to 1, in every round."""
        return "doubly-stochastic"

    @property
    def dynamic(self) -> bool:
        """The weights change from round to round."""
        return True

    @cached_property
    def stationary(self) -> Floats:
        """pi = 1/n."""
        return np.full(self.size, 1.0 / self.size)

    @property
    @abstractmethod
    def largest_neighbour_weight(self) -> Floats:
        """(n,): an upper bound, over all t, on max over j != i of a_ij(t)."""

    def at(self, t: int) -> csr_array:
        """A_t.

        Parameters
        ----------
        t : int
            The round, 1, 2, ...
        """
        return self.rows(t).csr

    def rows(self, t: int) -> CompressedRows:
        """A_t without scipy.

        Parameters
        ----------
        t : int
            The round, 1, 2, ...
        """
        at_least(NetworkError, 1, t=t)
        return self._weights(int(t))

    @abstractmethod
    def _weights(self, t: int) -> CompressedRows: ...

    def __repr__(self) -> str:
        """Scheme and size, never the weights."""
        return f"{type(self).__name__}({self.scheme!r}, {self.size} agents)"


@dataclass(frozen=True, eq=False, repr=False)
class Intermittent(Schedule):
    """A connected graph of which each round uses the links that are up.

    The sparsity pattern is that of the graph in every round: a link that is down is a stored 0.
    """

    graph: Graph
    probability: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the graph and the probability."""
        probability(NetworkError, probability=self.probability)
        at_least(NetworkError, 0, seed=self.seed)
        _check_union(self.graph)

    @property
    def labels(self) -> Labels:  # type: ignore[override]
        """The graph's labels."""
        return self.graph.labels

    @cached_property
    def pattern(self) -> Pattern:
        """The sparsity pattern of the weights, built once."""
        return Pattern.of(self.graph)

    @cached_property
    def largest_neighbour_weight(self) -> Floats:
        """1/2: some round leaves agent i and one neighbour with each other only, d_i = d_j = 1.

        Unless nothing ever fails: then every round has the weights of the whole graph.
        """
        if self.probability > 0:
            return np.full(self.size, 0.5)
        return kernels.largest_off_diagonal(self.rows(1))

    def _weights(self, t: int) -> CompressedRows:
        return self.pattern.lazy_metropolis(self.up(t))

    @abstractmethod
    def up(self, t: int) -> Bools:
        """(m,): which of the graph's links are up in round t."""


class LinkFailures(Intermittent):
    """Each link is down with the probability given, independently in every round."""

    scheme = "lazy-metropolis, link failures"

    def up(self, t: int) -> Bools:
        """(m,): the links that did not fail."""
        return generator(self.seed, t).random(len(self.graph.links)) >= self.probability


class Asleep(Intermittent):
    """Each agent sleeps with the probability given, and with it all its links of the round."""

    scheme = "lazy-metropolis, agents asleep"

    def up(self, t: int) -> Bools:
        """(m,): the links between two agents that are awake."""
        awake = generator(self.seed, t).random(self.size) >= self.probability
        return awake[self.graph.links[:, 0]] & awake[self.graph.links[:, 1]]


@dataclass(frozen=True, eq=False, repr=False)
class Cycle(Schedule):
    """Graphs G_1, ..., G_k over and over: A_t has the weights of G_{1 + (t-1) mod k}."""

    graphs: tuple[Graph, ...]
    scheme: str = "lazy-metropolis, sequence"
    matrices: tuple[CompressedRows, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check that the graphs have the same agents and together connect them."""
        if not self.graphs:
            raise NetworkError("sequence needs at least one graph; found none")
        object.__setattr__(self, "graphs", tuple(map(self._in_order, range(len(self.graphs)))))
        _check_union(self.graph)
        everything = (np.ones(len(graph.links), dtype=np.bool_) for graph in self.graphs)
        patterns = (Pattern.of(graph) for graph in self.graphs)
        filled = (p.lazy_metropolis(up) for p, up in zip(patterns, everything, strict=True))
        object.__setattr__(self, "matrices", tuple(filled))

    def _in_order(self, k: int) -> Graph:
        try:
            return relabelled(self.graphs[k], self.labels)
        except NetworkError as error:
            raise NetworkError(
                f"graphs of a sequence must have the same agents: graph {k}: {error}"
            ) from error

    @property
    def labels(self) -> Labels:  # type: ignore[override]
        """The labels that all the graphs share, in the order of the first."""
        return self.graphs[0].labels

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]
        """The union of the graphs."""
        links = np.concatenate([undirected(graph).links for graph in self.graphs])
        return Graph(self.size, links, self.labels, name="union")

    @cached_property
    def largest_neighbour_weight(self) -> Floats:
        """The largest over the graphs."""
        largest = [kernels.largest_off_diagonal(A) for A in self.matrices]
        return np.asarray(np.max(largest, axis=0))

    def _weights(self, t: int) -> CompressedRows:
        return self.matrices[(t - 1) % len(self.matrices)]


@dataclass(frozen=True, eq=False, repr=False)
class FromCallable(Schedule):
    """A_t from a function of t that returns a graph or a doubly stochastic matrix, checked."""

    function: Callable[[int], Any]
    labels: Labels
    bound: float = 1.0
    scheme: str = "callable"
    graph: None = None

    def __post_init__(self) -> None:
        """Check the number of agents and the bound."""
        at_least(NetworkError, 2, size=len(self.labels))
        positive(NetworkError, bound=self.bound)
        object.__setattr__(self, "labels", checked_labels(self.labels, len(self.labels)))

    @cached_property
    def largest_neighbour_weight(self) -> Floats:
        """The bound given, which every round is checked against; 1 is valid for any weights."""
        return np.full(self.size, self.bound)

    def _weights(self, t: int) -> CompressedRows:
        made = self.function(t)
        try:
            weights = validation.canonical(made) if _is_matrix(made) else self._of_graph(made)
            self._check(weights)
        except NetworkError as error:
            raise NetworkError(f"round {t}: {error}") from error
        return weights

    def _of_graph(self, made: Any) -> CompressedRows:
        """Lazy Metropolis weights, the rows in the order of the network's labels."""
        graph = relabelled(as_graph(made), self.labels)
        return Pattern.of(graph).lazy_metropolis(np.ones(len(graph.links), dtype=np.bool_))

    def _check(self, weights: CompressedRows) -> None:
        if weights.shape[0] != self.size:
            raise NetworkError(f"found {weights.shape[0]} agents, expected {self.size}")
        validation.check_entries(weights, self.labels)
        validation.check_sums(weights, self.labels, "doubly-stochastic")
        largest = float(kernels.largest_off_diagonal(weights).max())
        if largest > self.bound + validation.TOLERANCE:
            raise NetworkError(f"a neighbour's weight is {largest:.10g}, above bound {self.bound}")


def link_failures(graph: GraphLike, probability: float, seed: int = 0) -> LinkFailures:
    """Each link of the graph down with `probability`, independently in every round.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.
        Connected and undirected.
    probability : float
        In [0, 1).
    seed : int
        Of the failures; round t is a pure function of (seed, t).

    Returns
    -------
    Schedule

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.link_failures("ring:8", 0.3, seed=1).at(5).sum(axis=1)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    return LinkFailures(undirected(as_graph(graph)), probability, seed)


def asleep(graph: GraphLike, probability: float, seed: int = 0) -> Asleep:
    """Each agent asleep with `probability`, independently in every round: all its links are down.

    Parameters
    ----------
    graph : Graph, networkx graph, matrix, str or path
        What `as_graph` accepts.
        Connected and undirected.
    probability : float
        In [0, 1).
    seed : int
        Of the failures; round t is a pure function of (seed, t).

    Returns
    -------
    Schedule

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.asleep("ring:8", 0.3, seed=1)
    Asleep('lazy-metropolis, agents asleep', 8 agents)
    """
    return Asleep(undirected(as_graph(graph)), probability, seed)


def sequence(graphs: Sequence[Any]) -> Cycle:
    """The graphs one after the other, over and over; their union must be connected.

    Parameters
    ----------
    graphs : sequence of Graph, networkx graph, matrix, str or path
        Each what `as_graph` accepts, with the same agents.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> from veilsum import networks
    >>> odd, even = networks.Graph(4, [(0, 1), (2, 3)]), networks.Graph(4, [(1, 2)])
    >>> networks.sequence([odd, even]).at(2).toarray()[1]
    array([0. , 0.5, 0.5, 0. ])
    """
    return Cycle(tuple(undirected(as_graph(graph)) for graph in graphs))


def from_callable(
    function: Callable[[int], Any],
    size: int | None = None,
    labels: Labels | None = None,
    bound: float = 1.0,
) -> FromCallable:
    """A_t from function(t): a graph (lazy Metropolis weights) or a doubly stochastic matrix.

    A numpy or scipy matrix is read as weights, its rows in the order of the labels; anything else
    as a graph, whose labels (0 .. size-1 if size is given) say which agent is which.

    Parameters
    ----------
    function : callable
        Of the round t = 1, 2, ... alone.
    size : int, optional
        The number of agents; this or `labels`.
    labels : sequence of hashable, optional
        The agents' names.
    bound : float
        An upper bound on every neighbour's weight (1/2 if the function returns graphs); each round
        is checked against it.

    Returns
    -------
    Schedule

    Raises
    ------
    NetworkError
        At construction without a size, and by `at(t)` for a round whose weights are not valid.

    Examples
    --------
    >>> from veilsum import networks
    >>> schedule = networks.from_callable(lambda t: "ring:6" if t % 2 else "path:6", size=6)
    >>> schedule.at(2).toarray()[0]
    array([0.75, 0.25, 0.  , 0.  , 0.  , 0.  ])
    """
    if (size is None) == (labels is None):
        raise NetworkError(
            "from_callable needs the number of agents: give size or labels, not both"
        )
    if size is not None:
        sized(2, size=size)
    return FromCallable(function, labels if labels is not None else range(size or 0), bound)


def _is_matrix(made: Any) -> bool:
    return is_scipy(made) or isinstance(made, np.ndarray)


def _check_union(graph: Graph) -> None:
    if not undirected(graph).is_connected:
        raise validation.disconnected(graph.components, graph.labels)
