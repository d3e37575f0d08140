"""The signals of one rank's agents, out of a source for all agents.

A source that can draw a stretch of agents alone (`signals_of`) is asked for no more: for the
rank's own stretch if its agents are consecutive, else for an even share of all agents, which the
ranks then deal out to one another. Any other source gives everything and the rank takes its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import swap
from murmura.cluster.partition import Partition

Floats = NDArray[np.float64]
Agents = NDArray[np.int64]


@dataclass(eq=False)
class Share:
    """A `Source` of some agents; every rank must ask for the same rounds in the same order."""

    source: Any
    agents: Agents
    partition: Partition
    comm: Any
    _wanted: list[NDArray[Any]] = field(init=False, default_factory=list)
    _asked: list[NDArray[Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Tell the ranks whose agents they draw for whom."""
        self._sliced = getattr(self.source, "sliced", False)
        self._can_draw_few = hasattr(self.source, "signals_of")
        self._deals = self._can_draw_few and self.partition.order is not None
        if self._deals:
            edges = self._edges()
            drawer = np.searchsorted(edges, self.agents, side="right") - 1
            self._wanted = [np.flatnonzero(drawer == q) for q in range(self.comm.size)]
            self._asked = swap(self.comm, [self.agents[slots] for slots in self._wanted])

    @property
    def varies(self) -> bool:
        """As the whole source."""
        return bool(self.source.varies)

    @property
    def measured(self) -> bool:
        """As the whole source."""
        return bool(self.source.measured)

    def expected(self, family: Any, rounds: int) -> Floats:
        """E xi over all agents."""
        return np.asarray(self.source.expected(family, rounds))

    def check(self, family: Any, rounds: int) -> None:
        """The whole source was checked when the problem was made."""

    def signals(self, t: int, replicas: int) -> Floats:
        """Give the signals of this rank's agents in round t."""
        if self._sliced:
            held: Floats = self.source.signals(t, replicas)
            return np.asarray(held[self.agents - self.source.first])
        if not self._can_draw_few:
            return np.asarray(self.source.signals(t, replicas)[self.agents])
        if self._deals:
            return self._dealt(t, replicas)
        first, last = self.partition.bounds(self.comm.rank)
        drawn = self.source.signals_of(t, replicas, first, last)
        return np.asarray(drawn[self.agents - first])

    def _edges(self) -> Agents:
        size, ranks = self.partition.size, self.comm.size
        return np.array([size * r // ranks for r in range(ranks + 1)], dtype=np.int64)

    def _dealt(self, t: int, replicas: int) -> Floats:
        first, last = self._edges()[self.comm.rank : self.comm.rank + 2].tolist()
        drawn = np.asarray(self.source.signals_of(t, replicas, first, last))
        received = swap(self.comm, [drawn[agents - first] for agents in self._asked])
        out = np.empty((len(self.agents), *drawn.shape[1:]))
        for slots, values in zip(self._wanted, received, strict=True):
            out[slots] = values
        return out
