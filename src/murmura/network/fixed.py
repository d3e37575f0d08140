"""Fixed: what networks with the same weights in every round have in common."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from murmura.errors import NetworkError
from murmura.network import checks
from murmura.network.graph import Graph, checked_labels
from murmura.network.protocol import Floats, Kind


class Fixed:
    """A_t = A: the part of `Network` that Mixing and DirectedMixing share."""

    weights: csr_array
    labels: checks.Labels
    graph: Graph | None
    kind: Kind

    def _settle(self, sound: bool = False) -> None:
        """Put the weights in canonical form and check the labels, the entries and the sums.

        `sound` says that the form, the entries and the sums are known to be right.
        """
        right = sound or checks.is_canonical(self.weights)
        kept = self.weights if right else checks.canonical(self.weights)
        labels = checked_labels(self.labels, kept.shape[0])
        if not sound:
            checks.check_entries(kept, labels)
            checks.check_sums(kept, labels, self.kind)
        if self.graph is not None and self.graph.size != kept.shape[0]:
            raise NetworkError(f"graph has {self.graph.size} agents, weights {kept.shape[0]}")
        object.__setattr__(self, "weights", kept)
        object.__setattr__(self, "labels", labels)

    def _described(self, word: str) -> str:
        """Class, word, graph and size, never the weights."""
        name = "" if self.graph is None else f" on {self.graph.name!r}"
        return f"{type(self).__name__}({word!r}{name}, {self.size} agents)"

    @property
    def size(self) -> int:
        """The number n of agents."""
        return int(self.weights.shape[0])

    @property
    def dynamic(self) -> bool:
        """The weights are the same in every round."""
        return False

    @cached_property
    def largest_neighbour_weight(self) -> Floats:
        """(n,): max over j != i of a_ij."""
        return checks.largest_off_diagonal(self.weights)

    def at(self, t: int) -> csr_array:
        """A_t = A for every t."""
        del t
        return self.weights

    def row(self, agent: int) -> tuple[NDArray[np.int32], Floats]:
        """The indices and weights of what agent (an index) hears, itself included."""
        if not 0 <= agent < self.size:
            raise NetworkError(f"agent must be an index in 0..{self.size - 1}; found {agent}")
        start, stop = self.weights.indptr[agent : agent + 2]
        return self.weights.indices[start:stop], self.weights.data[start:stop]
