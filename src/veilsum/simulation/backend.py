"""What the runner asks of a backend, and the backend of one process.

A backend says which rows of the network this process has, how it exchanges estimates with others,
how sums over agents become sums over all agents, and how recorded rows are gathered. `LocalBackend`
has all rows; `mpi.backend.MpiBackend` has those of one rank.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum.privacy import Plan
from veilsum.simulation.layout import Arranged, Order, arranged, takes_slices
from veilsum.simulation.problem import Problem
from veilsum.simulation.seeds import noise_key
from veilsum.simulation.workers import threads

if TYPE_CHECKING:
    from veilsum.simulation.kernel import Matrix
    from veilsum.simulation.tiles import Reach


class ProcessRows(NamedTuple):
    """The rows of A_t in one process: interior rows, boundary rows, then the halo they also read."""

    matrix: Matrix  # (own rows, own rows + halo)
    agents: NDArray[np.uint32]  # (own + halo,): the agent of each row
    interior: int  # rows that read own rows alone
    own: int


class RecordedRows(NamedTuple):
    """The recorded agents that this process has."""

    total: int  # recorded agents of all processes
    slots: NDArray[Any] | slice  # which of the recorded agents are here
    rows: NDArray[Any] | slice  # and their rows, in the same order


class HaloExchange(Protocol):
    """The exchange of estimates with other processes."""

    def begin(self, nu: Floats) -> None:
        """Start to send own rows of `nu` and to receive the rows of the halo."""

    def finish(self) -> None:
        """Wait until the halo has arrived."""

    def with_halo(self, values: Floats) -> Floats:
        """(own + halo, width): values (own, width) of own rows with those of the halo."""


class Backend(Protocol):
    """What differs between one process and many."""

    problem: Problem  # of all agents

    @property
    def local(self) -> Problem:
        """The problem of the agents in this process: signals and plan are read from it."""

    @property
    def order(self) -> Order | None:
        """The agent of `local` at each row; None if they are in order."""

    @property
    def has_all_rows(self) -> bool:
        """Whether no halo is ever exchanged, so that several rounds can be taken at once."""

    @property
    def reach(self) -> Reach | None:
        """How far apart rows lie that read each other, if it is known: for several rounds a pass."""

    @property
    def threads(self) -> int:
        """The number of threads of this process."""

    @property
    def leads(self) -> bool:
        """Whether this process reports progress and has the gathered estimates."""

    @property
    def exchange(self) -> HaloExchange:
        """The exchange for the rows that `rows` returned last."""

    @property
    def mass(self) -> Floats:
        """(agents of `local`,): their weight in the limit, as `Problem.mass`."""

    def together(self) -> AbstractContextManager[None]:
        """A block that all processes enter; what one raises there, all raise."""

    def rows(self, t: int) -> ProcessRows:
        """The rows of A_t in this process; own rows are the same in every round."""

    def squared_weights(self, t: int) -> Floats:
        """(agents of `local`,): the sum of squares of each row of A_t."""

    def noise_key(self, plan: Plan | None) -> int:
        """The key of the noise; `plan` is given if it is not the problem's."""

    def plan(self) -> Plan:
        """The plan of the agents in this process."""

    def average(self, mean: Floats) -> Floats:
        """The mean over all agents, from the mean over those of this process."""

    def total(self, values: Floats) -> Floats:
        """The sum over all processes."""

    def locate(self, rows: list[int] | slice) -> RecordedRows:
        """The part of the recorded rows that this process has."""

    def gather(self, recorded: RecordedRows, values: Floats) -> Floats | None:
        """The values of all recorded rows, where `leads`; else None."""


class _NoHalo:
    """The exchange of a process that has all rows."""

    def begin(self, nu: Floats) -> None:
        """Nothing to send."""

    def finish(self) -> None:
        """Nothing to wait for."""

    def with_halo(self, values: Floats) -> Floats:
        """The same values: there is no halo."""
        return values


@dataclass(eq=False)
class LocalBackend:
    """One process with all rows, in the order that `layout.arranged` chose."""

    problem: Problem
    exchange: HaloExchange = field(init=False, default_factory=_NoHalo)
    threads: int = field(init=False, default_factory=threads)
    has_all_rows: bool = field(init=False, default=True)
    leads: bool = field(init=False, default=True)
    order: Order | None = field(init=False, default=None)
    _arranged: Arranged | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Put the agents of a large network in order."""
        self._arranged = arranged(self.problem.network, takes_slices(self.problem))
        if self._arranged is not None:
            self.order = self._arranged.order

    @property
    def local(self) -> Problem:
        """All agents are here."""
        return self.problem

    @property
    def mass(self) -> Floats:
        """As the problem has it."""
        return self.problem.mass

    def together(self) -> AbstractContextManager[None]:
        """Nothing to agree on."""
        return nullcontext()

    def rows(self, t: int) -> ProcessRows:
        """All rows of A_t."""
        from veilsum.simulation.kernel import matrix_of  # loading the compiler takes a while

        n, found = self.problem.network.size, self._arranged
        if found is None:
            return ProcessRows(matrix_of(self.problem.network.at(t)), self._agents, n, n)
        matrix = matrix_of(found.weights, found.sliced, found.reach.lead)
        return ProcessRows(matrix, self._agents, n, n)

    @property
    def reach(self) -> Reach | None:
        """Of the order of a large network."""
        return None if self._arranged is None else self._arranged.reach

    @cached_property
    def _agents(self) -> NDArray[np.uint32]:
        numbers = np.arange(self.problem.network.size) if self.order is None else self.order
        return numbers.astype(np.uint32)

    def squared_weights(self, t: int) -> Floats:
        """From the whole matrix."""
        return np.asarray(self.problem.network.at(t).power(2).sum(axis=1))

    def noise_key(self, plan: Plan | None) -> int:
        """As `seeds` has it."""
        return noise_key(self.problem, plan=plan)

    def plan(self) -> Plan:
        """As the problem has it."""
        return self.problem.plan

    def average(self, mean: Floats) -> Floats:
        """All agents are here."""
        return mean

    def total(self, values: Floats) -> Floats:
        """All agents are here."""
        return values

    def locate(self, rows: list[int] | slice) -> RecordedRows:
        """All of them, in the order of the network."""
        count = self.problem.network.size if isinstance(rows, slice) else len(rows)
        if self.order is None:
            return RecordedRows(
                count, slice(None), rows if isinstance(rows, slice) else np.array(rows)
            )
        place = np.empty(self.order.size, np.int64)
        place[self.order] = np.arange(self.order.size)
        return RecordedRows(count, slice(None), place[rows])

    def gather(self, recorded: RecordedRows, values: Floats) -> Floats | None:
        """The values are complete."""
        del recorded
        return values
