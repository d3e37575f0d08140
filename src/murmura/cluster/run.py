"""The rounds of one rank: exchange, interior rows, boundary rows.

The engine's kernel does the arithmetic, with the global numbers of the agents, so that every
estimate and every draw is the one that a single machine computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import together, total
from murmura.cluster.fingerprint import schedule_mark, summed
from murmura.cluster.ground import Ground, local_problem
from murmura.cluster.halo import Exchange
from murmura.cluster.part import Part, localise
from murmura.engine import Problem, noise
from murmura.engine.feed import Feed, coefficients, group_scales
from murmura.engine.layout import Layout, aligned
from murmura.engine.problem import Columns
from murmura.engine.seeds import Marks, mark, noise_key, signal_mark
from murmura.engine.workers import Workers
from murmura.errors import LawError
from murmura.privacy import Calibration, calibrate

Floats = NDArray[np.float64]
_ALONE = (0.0,)  # one lane: the weight of a ratio law


@dataclass(eq=False)
class Run:
    """The state of one rank."""

    problem: Problem
    ground: Ground
    comm: Any
    part: Part = field(init=False)
    local: Problem = field(init=False)
    calibration: Calibration | None = field(init=False)
    layout: Layout = field(init=False)
    target: Floats = field(init=False)
    states: list[Floats] = field(init=False)  # present, next, past
    weight: list[Floats] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Take up this rank's rows, calibrate its agents' noise, read their first signals."""
        problem = self.problem
        self.part = localise(self.comm, self.ground.partition, self.ground.rows(1), self._splits)
        self.exchange = Exchange(self.comm, self.part)
        self.local = local_problem(problem, self.ground, self.part, self.comm)
        with together(self.comm):
            self.calibration = calibrate(
                self.local.want, problem.law, problem.family, self.local.network,
                problem.horizon or problem.rounds,
            )  # fmt: skip
        self.layout = Layout.of(self.local, Columns.of(self.local))
        # what cannot be read has a token that is drawn: rank 0's holds for all
        self.key = noise.key_of(self.comm.bcast(noise_key(problem, self._marks())))
        self.mass = self._mass()
        self.network = self._blank if self.calibration is None else self.calibration.network
        self.feed = Feed(self.local, self.calibration, self.layout, None, 1)
        self.workers = Workers(1)  # a rank is one thread: start as many ranks as there are cores
        self.target = self._target()
        self.recalls = any(problem.law.at(t).recall for t in range(problem.rounds + 1))
        width = self.layout.stacks * self.layout.stack_width
        self.states = [self._room(width) for _ in range(3 if self.recalls else 2)]
        if problem.law.ratio:
            self.weight = [self._room(1) for _ in range(2)]

    @property
    def _splits(self) -> bool:
        """Rows keep their places while links come and go, so only fixed networks overlap."""
        return not self.problem.network.dynamic

    @property
    def _blank(self) -> Floats:
        return np.zeros(self.part.own)

    def _marks(self) -> Marks | None:
        """What the noise of measured signals follows from, over the agents of all ranks."""
        if not self.problem.source.measured:
            return None
        agents = self.part.agents[: self.part.own].astype(np.int64)
        largest = np.asarray(self.local.network.largest_neighbour_weight, dtype=np.float64)
        return (
            schedule_mark(self.problem, self.ground, self.comm),
            summed(self.comm, mark(agents, np.zeros(1), largest)),
            summed(self.comm, signal_mark(self.local, agents)),
        )

    def _room(self, width: int) -> Floats:
        return aligned(len(self.part.places), width)

    def _mass(self) -> Floats:
        if self.problem.law.ratio:
            return np.full(self.part.own, 1 / self.problem.network.size)
        return np.ascontiguousarray(self.ground.stationary_of(self.part), dtype=np.float64)

    def _target(self) -> Floats:
        """The mean over all agents, from the means of each rank's."""
        mine = self.feed.target
        if self.problem.law.online:
            return mine
        return np.asarray(total(self.comm, mine * self.part.own) / self.problem.network.size)

    def advance(self, t: int) -> Floats:
        """Take round t; return this rank's sums of squares (3, columns)."""
        if self.problem.network.dynamic and t > 1:
            self._rewire(t)
        started = self.feed.start(t, t + 1, self.workers)
        law = coefficients(self.problem, t, t + 1)
        if self.weight is not None:
            self._advance_weight(law, t)
        xi, signal = self.feed.take(started, t, t + 1)
        per_network, per_signal, edge = group_scales(self.problem, self.calibration, t, t + 1)
        target = np.zeros((1, self.layout.padded))
        self.layout.by_stream(self.target[None, :], None, target)
        divisor = np.empty((1, 0)) if self.weight is None else self.weight[0].T
        sums = self._kernel(
            self.layout.like, self.states, (law, xi, target, divisor),
            (self.network, self.mass, signal, per_network, per_signal, edge),
            (self.layout.groups, t, self.feed.reads, self.recalls),
        )  # fmt: skip
        nu, out, *before = self.states
        self.states = [out, *before, nu]
        return np.asarray(sums[:, self.layout.kept])

    def _advance_weight(self, law: Floats, t: int) -> None:
        """The weight of a ratio law obeys the law of the sum with xi = 1 and d = 0."""
        assert self.weight is not None
        alone = law.copy()
        alone[:, 4:] = 0.0
        own, none = self.part.own, np.zeros((1, 1))
        self._kernel(
            _ALONE, self.weight, (alone, np.ones((1, own, 1)), none, np.empty((1, 0))),
            (self._blank, self._blank, np.zeros((1, own, 1)), none, none, np.zeros(1)),
            (1, t, 0, False),
        )  # fmt: skip
        self.weight.reverse()

    def _kernel(
        self, like: tuple[float, ...], states: list[Floats], taken: tuple[Floats, ...],
        scales: tuple[Floats, ...], about: tuple[int, int, int, bool],
    ) -> Floats:  # fmt: skip
        """One round of the engine's kernel: interior rows while messages travel, then the rest."""
        from murmura.engine import kernel

        groups, t, reads, recalls = about
        part = self.part
        matrix = kernel.Matrix(part.indptr, part.indices, part.weights)
        state = kernel.State(states[0], states[1], states[2] if recalls else states[0])
        law, xi, target, divisor = taken
        linked = self._linked(matrix, law, t, groups)
        inputs = kernel.Inputs(law, xi, target, linked, divisor, part.agents, self.key)
        mixes = bool(law[0, 1])
        if mixes:
            self.exchange.begin(states[0])
        sums = np.zeros((3, states[0].shape[1]))
        for first, last in ((0, part.interior), (part.interior, part.own)):
            if first == part.interior and mixes:
                self.exchange.finish()
            blocks = -(-(last - first) // kernel.BLOCK)
            squares = np.empty((1, blocks, 3, sums.shape[1]))
            span = kernel.Span(first, last, 0, blocks, 0, groups, t, reads, recalls)
            kernel.advance(like, matrix, state, inputs, kernel.Scales(*scales), span, squares)
            sums += squares[0].sum(axis=0)
        return sums

    def _linked(self, matrix: Any, law: Floats, t: int, groups: int) -> Floats:
        """The noise of the links into this rank's agents, in laws that have it."""
        from murmura.engine.links import NONE, link_noise

        if self.problem.law.noises_messages and groups > 1:
            raise LawError(
                f"law {self.problem.law.name} sends its noise along, which ranks do not exchange; "
                "run it with murmura.engine.simulate"
            )
        noisy = bool(law[0, 5]) and groups > 1
        width, rounds = self.layout.padded, range(t, t + 1)
        return link_noise(matrix, self.part.agents, self.key, rounds, width) if noisy else NONE

    def _rewire(self, t: int) -> None:
        """Take up the rows of A_t; the own agents stay where they are, the halo may change."""
        before = len(self.part.places)
        self.part = localise(self.comm, self.ground.partition, self.ground.rows(t), self._splits)
        self.exchange = Exchange(self.comm, self.part)
        if len(self.part.places) != before:
            self.states = [self._moved(state) for state in self.states]
            if self.weight is not None:
                self.weight = [self._moved(state) for state in self.weight]

    def _moved(self, state: Floats) -> Floats:
        room = self._room(state.shape[1])
        room[: self.part.own] = state[: self.part.own]
        return room

    def estimates(self, rows: Any = slice(None)) -> Floats:
        """The estimates that some of this rank's agents hold: the ratio, for a ratio law."""
        nu = self.states[0][: self.part.own][rows][:, self.layout.kept]
        if self.weight is None:
            return np.asarray(nu)
        weight = self.weight[0][: self.part.own][rows]
        shared = np.divide(nu, weight, out=np.zeros_like(nu), where=weight > 0)
        return np.asarray(shared)
