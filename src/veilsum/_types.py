"""Types at the borders between packages: arrays, networks, families and sources of signals.

The protocols say what one package may ask of another. `veilsum.networks` has classes that satisfy
`Network`, `veilsum.families` those that satisfy `Family`, `veilsum.simulation` those that satisfy
`SignalSource`. A custom network or source needs only to satisfy the protocol; a custom family must
derive from `families.ExponentialFamily`, or be built by `families.custom`. This module imports numpy
only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from veilsum._statistic import Statistic
    from veilsum.families.base import Interval
    from veilsum.families.support import Bounds, Metric, Support
    from veilsum.networks.graph import Graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.integer[Any]]  # of 32 bits
Labels = Sequence[Hashable]
Size = int | tuple[int, ...]

Kind = Literal["doubly-stochastic", "row-stochastic", "column-stochastic"]


@runtime_checkable
class Network(Protocol):
    """A_t for t = 1, 2, ...: nonnegative weights of `kind`, the same for every t unless `dynamic`.

    `networks.Mixing`, `networks.DirectedMixing` and every `networks.Schedule` satisfy it.

    Examples
    --------
    >>> from veilsum import networks
    >>> isinstance(networks.lazy_metropolis("ring:8"), networks.Network)
    True
    """

    @property
    def size(self) -> int:
        """The number n of agents."""
        ...

    @property
    def labels(self) -> Labels:
        """The agents' names, in the order of the rows."""
        ...

    @property
    def kind(self) -> Kind:
        """Which sums of A_t are 1."""
        ...

    @property
    def dynamic(self) -> bool:
        """Whether A_t changes with t."""
        ...

    @property
    def scheme(self) -> str:
        """How the weights were chosen."""
        ...

    @property
    def graph(self) -> Graph | None:
        """The graph of the weights, where one is known."""
        ...

    @property
    def largest_neighbour_weight(self) -> Floats:
        """(n,): max over j != i, and over all t, of a_ij(t)."""
        ...

    @property
    def stationary(self) -> Floats:
        """(n,): the Perron vector, of sum 1."""
        ...

    def at(self, t: int) -> csr_array:
        """A_t, with every diagonal entry stored, as a pure function of t = 1, 2, ..."""
        ...


class SymmetricNetwork(Network, Protocol):
    """A `Network` with one symmetric matrix A, whose spectrum is known: `networks.Mixing`."""

    @property
    def weights(self) -> csr_array:
        """A."""
        ...

    @property
    def lambda_2(self) -> float:
        """The largest eigenvalue below 1."""
        ...

    @property
    def lambda_n(self) -> float:
        """The smallest eigenvalue."""
        ...

    @property
    def beta_star(self) -> float:
        """beta* = max(lambda_2, |lambda_n|)."""
        ...


def symmetric(network: Network) -> SymmetricNetwork:
    """The network, of which the caller knows that its weights are one symmetric matrix."""
    return cast(SymmetricNetwork, network)


class Family(Protocol):
    """A sufficient statistic xi(s) with its support, its sensitivity and its inverse.

    `families.ExponentialFamily` is the base class of all that veilsum has.
    """

    @property
    def name(self) -> str:
        """The name in a scenario, such as "log-normal"."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the unknown parameters, such as ("mu",)."""
        ...

    @property
    def formula(self) -> str:
        """The statistic as a formula for people, such as "log s"."""
        ...

    @property
    def bounds(self) -> Bounds | None:
        """Public bounds on a signal, in its own units."""
        ...

    @property
    def support(self) -> Support:
        """Where signals must lie."""
        ...

    @property
    def metric(self) -> Metric:
        """How the distance between two signals is measured."""
        ...

    @property
    def dimension(self) -> int:
        """The length of the statistic."""
        ...

    @property
    def signal_shape(self) -> tuple[int, ...]:
        """The shape of one signal: () for a number, (d,) for a vector."""
        ...

    @property
    def mean_domain(self) -> tuple[float, float]:
        """The values that a coordinate of E xi can take, as (low, high)."""
        ...

    @property
    def variance_in_mean(self) -> tuple[float, float, float] | None:
        """(a, b, c) with Var xi = a + b m + c m^2 at E xi = m, by coordinate, or None."""
        ...

    @property
    def statistic_is_log(self) -> bool:
        """Whether xi(s) = log s + constant."""
        ...

    @property
    def remedy(self) -> str:
        """What to do about signals outside the support."""
        ...

    def statistic(self, signals: ArrayLike) -> Floats:
        """xi(s): the shape of the signals for dimension 1, (..., dimension) for a vector."""
        ...

    def columns(self, signals: ArrayLike) -> Floats:
        """xi(s), of shape (..., dimension) always."""
        ...

    def raw_columns(self, signals: Floats) -> Floats:
        """`columns` without the check of the support."""
        ...

    def first_not_finite(self, signals: Floats) -> int | None:
        """The first row of signals whose statistic is not finite, or None."""
        ...

    def moves(self, radius: float = 1.0) -> Statistic:
        """What is public about xi(s) for signals that move by at most `radius`."""
        ...

    def adjacency(self, radius: float) -> float:
        """The largest distance between two adjacent signals."""
        ...

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Floats:
        """Signals of shape size + signal_shape from the distribution without bounds."""
        ...

    def marginals(self, **parameters: Any) -> list[Any] | None:
        """The scipy distribution of each coordinate of a signal; None if it is not known."""
        ...

    def mean(self, **parameters: ArrayLike) -> Floats:
        """E xi, of shape (..., dimension)."""
        ...

    def covariance(self, **parameters: ArrayLike) -> Floats:
        """Cov xi, of shape (..., dimension, dimension)."""
        ...

    def parameter(self, mean: ArrayLike) -> dict[str, Floats]:
        """The inverse of `mean`, for (..., dimension) estimates at once."""
        ...

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> Mapping[str, Interval]:
        """Confidence intervals for every parameter, from an estimate of E xi and its covariance."""
        ...


class SparseMatrix(Protocol):
    """A scipy sparse array or matrix."""

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        ...

    def tocsr(self) -> Any:
        """The same in compressed rows."""
        ...


class NetworkxGraph(Protocol):
    """A graph of networkx, which is imported only where one is used."""

    @property
    def nodes(self) -> Any:
        """The nodes, in order."""
        ...

    @property
    def edges(self) -> Any:
        """The links."""
        ...

    def is_directed(self) -> bool:
        """Whether links have a direction."""
        ...


GraphLike: TypeAlias = (
    "Graph | NetworkxGraph | SparseMatrix | NDArray[Any] | str | PathLike[str]"  # of `as_graph`
)
NetworkLike: TypeAlias = Network | str | PathLike[str]
FamilyLike: TypeAlias = Family | str


class SignalSource(Protocol):
    """The signals of every agent, one round at a time."""

    @property
    def varies(self) -> bool:
        """Whether each replica has its own signals."""
        ...

    @property
    def measured(self) -> bool:
        """Whether the signals are real data: then nothing computed from them without noise is saved."""
        ...

    def signals(self, t: int, replicas: int) -> Floats:
        """The signals of round t = 1, 2, ... as (agents, replicas or 1, ...)."""
        ...

    def expected(self, family: Family, rounds: int) -> Floats:
        """E xi, the target of the online algorithms."""
        ...

    def check(self, family: Family, rounds: int) -> None:
        """Raise unless there are signals for so many rounds, inside the family's support."""
        ...
