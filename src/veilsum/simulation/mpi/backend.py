"""The backend of one rank: its rows, its signals, the halo exchange, sums over ranks.

The runner and the kernel are those of one process, with the global numbers of the agents, so that
every estimate and every draw is the one that a single machine computes.

A source that can draw a stretch of agents alone (`signals_of`) is asked for no more: for the rank's
own stretch if its agents are consecutive, else for an even part of all agents, which the ranks then
send to one another. Any other source gives everything and the rank takes its rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Family, Floats, Ints, Kind
from veilsum.privacy import Plan
from veilsum.simulation import Problem, seeds
from veilsum.simulation.backend import ProcessRows, RecordedRows
from veilsum.simulation.mpi.communicator import swap, together, total
from veilsum.simulation.mpi.network import (
    DistributedNetwork,
    PartitionedNetwork,
    ReplicatedNetwork,
)
from veilsum.simulation.mpi.partition import Exchange, Partition, RankPart, localise

TAG = 8


@dataclass(frozen=True, eq=False)
class RankNetwork:
    """As much of a network as signals and plan read, for one rank's agents."""

    size: int
    largest_neighbour_weight: Floats
    dynamic: bool
    kind: Kind


@dataclass(eq=False)
class RankSignals:
    """A `SignalSource` of some agents; every rank must ask for the same rounds in the same order."""

    source: Any
    agents: Ints
    partition: Partition
    comm: Any
    _slots: list[NDArray[Any]] = field(init=False, default_factory=list)
    _asked: list[NDArray[Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Send the ranks which agents they draw for which rank."""
        self._sliced = getattr(self.source, "sliced", False)
        self._draws_stretches = hasattr(self.source, "signals_of")
        self._exchanges = self._draws_stretches and self.partition.order is not None
        if self._exchanges:
            edges = self._edges()
            rank = np.searchsorted(edges, self.agents, side="right") - 1
            self._slots = [np.flatnonzero(rank == q) for q in range(self.comm.size)]
            self._asked = swap(self.comm, [self.agents[slots] for slots in self._slots])

    @property
    def varies(self) -> bool:
        """As the whole source."""
        return bool(self.source.varies)

    @property
    def measured(self) -> bool:
        """As the whole source."""
        return bool(self.source.measured)

    def expected(self, family: Family, rounds: int) -> Floats:
        """E xi over all agents."""
        return np.asarray(self.source.expected(family, rounds))

    def check(self, family: Family, rounds: int) -> None:
        """The whole source was checked when the problem was made."""

    def signals(self, t: int, replicas: int) -> Floats:
        """The signals of this rank's agents in round t."""
        if self._sliced:
            held: Floats = self.source.signals(t, replicas)
            return np.asarray(held[self.agents - self.source.first])
        if not self._draws_stretches:
            return np.asarray(self.source.signals(t, replicas)[self.agents])
        if self._exchanges:
            return self._exchanged(t, replicas)
        first, last = self.partition.bounds(self.comm.rank)
        drawn = self.source.signals_of(t, replicas, first, last)
        return np.asarray(drawn[self.agents - first])

    def _edges(self) -> Ints:
        size, ranks = self.partition.size, self.comm.size
        return np.array([size * r // ranks for r in range(ranks + 1)], dtype=np.int64)

    def _exchanged(self, t: int, replicas: int) -> Floats:
        first, last = self._edges()[self.comm.rank : self.comm.rank + 2].tolist()
        drawn = np.asarray(self.source.signals_of(t, replicas, first, last))
        received = swap(self.comm, [drawn[agents - first] for agents in self._asked])
        out = np.empty((len(self.agents), *drawn.shape[1:]))
        for slots, values in zip(self._slots, received, strict=True):
            out[slots] = values
        return out


@dataclass(eq=False)
class MpiBackend:
    """One rank of `comm`; every rank makes it of the same problem."""

    problem: Problem
    comm: Any
    method: str = "auto"
    network: PartitionedNetwork = field(init=False)
    part: RankPart = field(init=False)
    exchange: Exchange = field(init=False)
    local: Problem = field(init=False)
    order: None = field(init=False, default=None)  # `local` has the order of the rows
    threads: int = field(init=False, default=1)  # start as many ranks as there are cores
    has_all_rows: bool = field(init=False, default=False)
    reach: None = field(init=False, default=None)  # the halo comes after every round

    def __post_init__(self) -> None:
        """Agree on the problem, divide the network, and select this rank's agents."""
        comm, problem = self.comm, self.problem
        # an algorithm that reads the spectrum may differ in its last digit from rank to rank, and a
        # seed from the operating system differs in all
        self.problem = problem = replace(
            problem, algorithm=comm.bcast(problem.algorithm), seed=comm.bcast(problem.seed)
        )
        network: Any = problem.network
        distributed = isinstance(network, DistributedNetwork)
        self.network = network if distributed else ReplicatedNetwork(network, comm, self.method)
        self._localise(1)
        self.local = self._local_problem()

    def _localise(self, t: int) -> None:
        """Rows keep their places while links change, so only fixed networks split the interior."""
        splits = not self.problem.network.dynamic
        self.part = localise(self.comm, self.network.partition, self.network.rows(t), splits)
        self.exchange = Exchange(self.comm, self.part)
        self._round = t

    def _local_problem(self) -> Problem:
        """The problem of this rank's agents alone, in the order of their rows."""
        problem, part, agents = self.problem, self.part, self.agents
        privacy = problem.privacy
        if privacy.budget_fractions is not None:
            here = tuple(np.asarray(privacy.budget_fractions)[agents].tolist())
            privacy = replace(privacy, budget_fractions=here)
        largest, network = self.network.largest(part), problem.network
        rank: Any = RankNetwork(part.own, largest, network.dynamic, network.kind)
        source = RankSignals(problem.source, agents, self.network.partition, self.comm)
        return replace(problem, network=rank, source=source, privacy=privacy)

    @property
    def agents(self) -> NDArray[np.int64]:
        """(own,): the agents of this rank."""
        return self.part.agents[: self.part.own].astype(np.int64)

    @property
    def leads(self) -> bool:
        """Rank 0 reports progress and has the gathered estimates."""
        return bool(self.comm.rank == 0)

    @property
    def mass(self) -> Floats:
        """(own,): 1/n, or the stationary distribution."""
        if self.problem.algorithm.session is not None:
            return self.problem.algorithm.session.mass[self.agents]
        if self.problem.algorithm.ratio:
            return np.full(self.part.own, 1 / self.problem.network.size)
        return np.ascontiguousarray(self.network.stationary_of(self.part), dtype=np.float64)

    def together(self) -> AbstractContextManager[None]:
        """What one rank raises, all raise."""
        return together(self.comm)

    def rows(self, t: int) -> ProcessRows:
        """This rank's rows of A_t."""
        from veilsum.simulation.kernel import Matrix  # loading the compiler takes a while

        if t != self._round and self.problem.network.dynamic:
            self._localise(t)
        part = self.part
        matrix = Matrix(part.indptr, part.indices, part.weights)
        return ProcessRows(matrix, part.agents, part.interior, part.own)

    def squared_weights(self, t: int) -> Floats:
        """From this rank's rows of A_t."""
        rows = self.network.rows(t)
        squares = np.add.reduceat(rows.data**2, rows.indptr[:-1])
        return np.asarray(squares[self.part.places[: self.part.own] - rows.first])

    def noise_key(self, plan: Plan | None) -> int:
        """As `seeds` has it on one machine; of what cannot be described, rank 0's token counts."""
        key = seeds.noise_key(self.problem, self._marks(), plan)
        return int(self.comm.bcast(key))

    def _marks(self) -> seeds.Marks | None:
        """What the noise of measured signals follows from, over the agents of all ranks."""
        if not self.problem.source.measured:
            return None
        agents = self.agents
        largest = np.asarray(self.local.network.largest_neighbour_weight, dtype=np.float64)
        return (
            self.schedule_mark(),
            self._summed(seeds.mark(agents, np.zeros(1), largest)),
            self._summed(seeds.signal_mark(self.local, agents)),
        )

    def schedule_mark(self) -> int:
        """The mark that `seeds.schedule_mark` gives on one machine, from the ranks' rows."""
        mine, agents = 0, self.network.partition.agents
        for t in seeds.marked_rounds(self.problem.network, self.problem.rounds):
            rows = self.network.rows(t)
            places = np.repeat(rows.first + np.arange(rows.count), np.diff(rows.indptr))
            entries = agents(places), agents(rows.columns), rows.data
            mine += seeds.weights_mark(*entries, t, self.problem.network.size)
        return self._summed(mine % 2**64)

    def _summed(self, mine: int) -> int:
        """The sum of the ranks' marks, modulo 2^64."""
        return int(total(self.comm, np.array([mine], dtype=np.uint64))[0])

    def plan(self) -> Plan:
        """Of this rank's agents; what one rank raises, all raise."""
        with together(self.comm):
            return self.local.plan

    def average(self, mean: Floats) -> Floats:
        """The mean over all agents; an expectation is the same on every rank."""
        if self.problem.algorithm.online:
            return mean
        return np.asarray(total(self.comm, mean * self.part.own) / self.problem.network.size)

    def total(self, values: Floats) -> Floats:
        """The sum over ranks."""
        return total(self.comm, values)

    def locate(self, rows: list[int] | slice) -> RecordedRows:
        """The recorded agents that are this rank's."""
        agents = self.agents
        if isinstance(rows, slice):
            return RecordedRows(self.problem.network.size, agents, slice(None))
        by_agent = np.argsort(agents)
        spot = np.searchsorted(agents[by_agent], rows).clip(max=len(agents) - 1)
        here = np.flatnonzero(agents[by_agent[spot]] == np.array(rows))
        return RecordedRows(len(rows), here, by_agent[spot[here]])

    def gather(self, recorded: RecordedRows, values: Floats) -> Floats | None:
        """(count, width) on rank 0: out[slots] = values of every rank; None elsewhere."""
        comm, slots = self.comm, np.ascontiguousarray(recorded.slots, dtype=np.int64)
        sizes = comm.gather(len(slots))
        if comm.rank != 0:
            comm.Send(slots, dest=0, tag=TAG)
            comm.Send(np.ascontiguousarray(values), dest=0, tag=TAG)
            return None
        out = np.empty((recorded.total, values.shape[1]))
        out[slots] = values
        for q in range(1, comm.size):
            places = np.empty(sizes[q], dtype=np.int64)
            part = np.empty((sizes[q], values.shape[1]))
            comm.Recv(places, source=q, tag=TAG)
            comm.Recv(part, source=q, tag=TAG)
            out[places] = part
        return out
