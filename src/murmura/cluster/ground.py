"""What a rank computes on: its rows, and what calibration and measures need of its agents.

`Whole` cuts a network that every rank has built; `DistributedNetwork` (in `network`) is one of
which each rank holds its own rows alone. Both give the same three things.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import together
from murmura.cluster.part import Part, Rows, rows_of
from murmura.cluster.partition import Partition, Places, divide
from murmura.cluster.share import Share
from murmura.engine import Problem
from murmura.privacy import NoPrivacy

Floats = NDArray[np.float64]


class Ground(Protocol):
    """A network that is divided among ranks."""

    @property
    def partition(self) -> Partition:
        """Which rank owns which agents."""

    def rows(self, t: int) -> Rows:
        """Give this rank's rows of A_t."""

    def largest(self, part: Part) -> Floats:
        """Give (own,): the largest weight of a neighbour, in the order of the part's rows."""

    def stationary_of(self, part: Part) -> Floats:
        """Give (own,): how much each agent weighs in the limit."""


@dataclass(eq=False)
class Whole:
    """A network that every rank has in full, and of which it computes a part."""

    network: Any
    comm: Any
    method: str = "auto"
    partition: Partition = field(init=False)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        """Rank 0 divides, so that all ranks have the same division."""
        made: Partition | None = None
        with together(self.comm):
            if self.comm.rank == 0:
                made = divide(self.network, self.comm.size, self.method)
        self.partition = self.comm.bcast(made)
        self._places = self.partition.places()

    def rows(self, t: int) -> Rows:
        """This rank's rows of A_t, which is built in full."""
        return rows_of(self.network, max(t, 1), self.partition, self.comm.rank, self._places)

    def largest(self, part: Part) -> Floats:
        """Out of the network's."""
        return np.asarray(self.network.largest_neighbour_weight)[part.agents[: part.own]]

    def stationary_of(self, part: Part) -> Floats:
        """Out of the network's."""
        return np.asarray(self.network.stationary)[part.agents[: part.own]]


@dataclass(frozen=True, eq=False)
class View:
    """As much of a network as the engine's preparations look at, for one rank's agents."""

    size: int
    largest_neighbour_weight: Floats
    dynamic: bool
    kind: str


def local_problem(problem: Problem, ground: Ground, part: Part, comm: Any) -> Problem:
    """The problem of this rank's agents alone: what is laid out and calibrated by agent."""
    agents = part.agents[: part.own].astype(np.int64)
    want = problem.want
    if not isinstance(want, NoPrivacy) and want.shares is not None:
        shares = np.asarray(want.shares)[agents]
        want = replace(want, shares=tuple(shares.tolist()))
    network = problem.network
    return replace(
        problem,
        network=View(part.own, ground.largest(part), network.dynamic, network.kind),
        source=Share(problem.source, agents, ground.partition, comm),
        want=want,
    )
