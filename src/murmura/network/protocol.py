"""What an engine needs of a network, whether it is fixed, dynamic or directed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from murmura.network.graph import Graph

Floats = NDArray[np.float64]
Kind = Literal["doubly-stochastic", "row-stochastic", "column-stochastic"]
KINDS: tuple[Kind, ...] = ("doubly-stochastic", "row-stochastic", "column-stochastic")


@runtime_checkable
class Network(Protocol):
    """A_t for t = 1, 2, ...: nonnegative weights of `kind`, the same for every t unless `dynamic`.

    `Mixing`, `DirectedMixing` and every `Schedule` satisfy it.
    """

    @property
    def size(self) -> int:
        """The number n of agents."""
        ...

    @property
    def labels(self) -> Sequence[Hashable]:
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
        """The graph below the weights, where one is known."""
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
