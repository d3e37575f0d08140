"""A run in progress: the estimates of the rows in this process, and how rounds reach the kernel.

A small network's runs are cut into blocks of streams that fit the cache; a thread takes one such
block through several rounds before it touches the next. A large network's rows are cut instead, and
the threads meet after every round. Where other processes have neighbours of these rows, interior
rows are computed while the halo is exchanged. The numbers are the same in all cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura._types import Floats
from murmura.privacy import Calibration
from murmura.simulation import kernel, noise
from murmura.simulation.backend import Backend, ProcessRows
from murmura.simulation.inputs import RoundInputs, carried_scales, coefficients, group_scales
from murmura.simulation.layout import ColumnLayout, aligned
from murmura.simulation.workers import Workers

State = tuple[Floats, ...]  # the present, the buffer of the next, and the past if there is momentum
Started = tuple[list[Future[Any]], list[list[Floats]]]

CACHED = 400_000  # numbers in a block of streams up to which it is taken through several rounds
MOST_STACKS = 256  # in one block: their noise is drawn together
ROUNDS_ONLINE, ROUNDS_OFFLINE = 8, 32  # taken at once; online, signals are stored for as many
PIECES = 4  # parts that the rows of a large network are cut into, per thread
_ONE_LANE = (0.0,)


@dataclass(eq=False)
class Run:
    """The state of one simulation in one process; `custom` replaces the problem's calibration."""

    backend: Backend
    workers: Workers
    custom: Calibration | None = None
    calibration: Calibration = field(init=False)
    layout: ColumnLayout = field(init=False)
    rows: ProcessRows = field(init=False)
    states: list[State] = field(init=False)
    weight: State | None = field(init=False, default=None)  # of a ratio algorithm

    def __post_init__(self) -> None:
        """Calibrate, read the first signals, allocate the states."""
        backend, problem = self.backend, self.backend.problem
        self.rows = backend.rows(1)
        self.layout = ColumnLayout.of(problem)
        self.key = noise.key_of(backend.noise_key(self.custom))
        self.calibration = self.custom or backend.calibration()
        noisy = self.calibration.privacy.adds_noise  # else nothing reads what it is made of
        self.mass = self._by_row(backend.mass) if noisy else np.zeros(0)
        self.network = self._by_row(self.calibration.network) if noisy else np.zeros(0)
        self.small = backend.has_all_rows and self.rows.own * self.layout.stack_width <= CACHED
        self.inputs = RoundInputs(
            backend.local, self.calibration, self.layout, backend.order, self.rounds_at_once,
            self.rows.agents[: self.rows.own], self.key, backend.total,
        )  # fmt: skip
        self.target = backend.average(self.inputs.target)
        self.momentum = any(problem.algorithm.at(t).momentum for t in range(problem.rounds + 1))
        self.cuts = self._cuts()
        copies = 3 if self.momentum else 2
        self.states = [
            self._state(copies, self.layout.stack_width * (b - a)) for a, b in pairwise(self.cuts)
        ]
        if problem.algorithm.ratio:
            self.weight = self._state(2, 1)

    def _by_row(self, values: Floats) -> Floats:
        """Values by agent of `backend.local`, in the order of the rows."""
        order = self.backend.order
        moved = values if order is None else np.asarray(values)[order]
        return np.ascontiguousarray(moved, dtype=np.float64)

    def _cuts(self) -> list[int]:
        """Where the stacks are cut into states: as many in one as fit the cache together."""
        stacks = self.layout.stacks
        if not self.small:
            return [0, stacks]
        size = self.rows.own * self.layout.stack_width
        count = -(-stacks // min(max(CACHED // size, 1), MOST_STACKS))
        count = max(count, min(stacks, self.workers.count))
        return [stacks * k // count for k in range(count + 1)]

    def _state(self, copies: int, width: int) -> State:
        return tuple(aligned(len(self.rows.agents), width) for _ in range(copies))

    @property
    def rounds_at_once(self) -> int:
        """How many rounds one call of the kernel can take."""
        problem = self.backend.problem
        if not self.small or problem.network.dynamic or problem.algorithm.ratio:
            return 1
        return ROUNDS_ONLINE if problem.algorithm.online else ROUNDS_OFFLINE

    def advance(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, Floats]]:
        """Take rounds first..last-1 of every span; yield (first, last, sums of squares).

        The sums have the axes (rounds, 3, columns), over the rows of this process. The signals of
        the next span are read while the kernel works on the present one.
        """
        reading = self.inputs.start(*spans[0], self.workers) if spans else []
        for (first, last), following in zip(spans, [*spans[1:], None], strict=True):
            started = self._begin(first, last, self.inputs.take(reading, first, last))
            reading = self.inputs.start(*following, self.workers) if following else []
            yield first, last, self._finish(started)

    def _begin(self, first: int, last: int, taken: tuple[Floats, Floats]) -> Started:
        """Set the threads to work on rounds first..last-1; `_finish` waits for them."""
        problem, layout, (xi, signal) = self.backend.problem, self.layout, taken
        if problem.network.dynamic and first > 1:
            self._rewire(first)
        algorithm = coefficients(problem, first, last)
        if self.weight is not None:
            count = problem.algorithm.readings(first)  # a ratio takes one round at a time
            self.weight = self._advance_weight(algorithm, self.weight, count)
        divisor = np.empty((1, 0)) if self.weight is None else self.weight[0].reshape(1, -1)
        target = np.zeros((1, layout.padded))
        layout.by_stream(self.target[None, :], None, target)
        linked = self._links(algorithm, range(first, last))
        inputs = kernel.Inputs(algorithm, xi, target, linked, divisor, self.rows.agents, self.key)
        scales = kernel.Scales(
            self.network, self.mass, signal, *group_scales(problem, self.calibration, first, last)
        )
        by = (self.inputs.scales_by, self.inputs.statistics_by)
        return self._launch(layout, self.states, inputs, scales, first, by)

    def _launch(
        self, layout: ColumnLayout | None, states: Sequence[State], inputs: kernel.Inputs,
        scales: kernel.Scales, t: int, by: tuple[int, int],
    ) -> Started:  # fmt: skip
        """Call the kernel for the interior rows while messages travel, then for the others."""
        interior, own = self.rows.interior, self.rows.own
        like, groups = (_ONE_LANE, 1) if layout is None else (layout.like, layout.groups)
        jobs: list[Future[Any]] = []
        squares: list[list[Floats]] = [[] for _ in states]

        def compute(first: int, last: int) -> None:
            blocks = -(-(last - first) // kernel.BLOCK)
            room = [
                np.empty((len(inputs.algorithm), blocks, 3, state[0].shape[1])) for state in states
            ]
            for each, block in zip(squares, room, strict=True):
                each.append(block)

            def work(piece: tuple[int, int, int]) -> None:
                k, begin, end = piece
                momentum = len(states[k]) > 2
                nu, out, before = (*states[k], states[k][0])[
                    :3
                ]  # without momentum it reads no past
                state = kernel.KernelState(nu, out, before)
                stream = self.cuts[k] * len(like)
                rows = kernel.RowRange(first, last, begin, end, stream, groups, t, *by, momentum)
                kernel.advance(like, self.rows.matrix, state, inputs, scales, rows, room[k])

            jobs.extend(self.workers.submit(work, piece) for piece in self._pieces(states, blocks))

        mixes = bool(inputs.algorithm[:, 1].any())
        if mixes:
            self.backend.exchange.begin(states[0][0])
        if interior:
            compute(0, interior)
        if mixes:
            self.backend.exchange.finish()
        if own > interior:
            compute(interior, own)
        return jobs, squares

    def _pieces(self, states: Sequence[State], blocks: int) -> Iterator[tuple[int, int, int]]:
        """(state, blocks of rows begin..end): what a thread takes at a time."""
        if self.small:
            yield from ((k, 0, blocks) for k in range(len(states)))
            return
        parts = min(blocks, PIECES * self.workers.count if self.workers.count > 1 else 1)
        for part in range(parts):
            yield 0, blocks * part // parts, blocks * (part + 1) // parts

    def _links(self, algorithm: Floats, rounds: range) -> Floats:
        """The noise that comes over links in algorithms that have it, else nothing."""
        if self.layout.groups == 1:
            return noise.NO_LINKS
        about = (self.rows.matrix, self.rows.agents, self.key, rounds, self.layout.padded)
        if self.backend.problem.algorithm.perturbs_messages:
            assert self.calibration is not None  # private groups have one
            scales = [self._by_row(b) for b in carried_scales(self.calibration, rounds)]
            wide = [self.backend.exchange.with_halo(b[:, None])[:, 0] for b in scales]
            return noise.carried_noise(*about, np.stack(wide))
        return noise.link_noise(*about) if algorithm[:, 5].any() else noise.NO_LINKS

    def _advance_weight(self, algorithm: Floats, weight: State, count: int) -> State:
        """The weight of a ratio algorithm: the recursion of the sum with d = 0 and xi = readings."""
        own, one, blank = self.rows.own, np.zeros((1, 1)), np.zeros(self.rows.own)
        alone = algorithm.copy()
        alone[:, 4:] = 0.0
        inputs = kernel.Inputs(
            alone, np.full((1, own, 1), float(count)), one, noise.NO_LINKS, np.zeros((1, 0)),
            self.rows.agents, self.key,
        )  # fmt: skip
        scales = kernel.Scales(blank, blank, np.zeros((1, own, 1)), one, one, np.zeros(1))
        by = (kernel.SHARED, kernel.BY_STREAM)
        jobs, _ = self._launch(None, [weight], inputs, scales, 0, by)
        for job in jobs:
            job.result()
        return weight[::-1]

    def _rewire(self, t: int) -> None:
        """Switch to the rows of A_t; own rows stay where they are, the halo may change."""
        before = len(self.rows.agents)
        self.rows = self.backend.rows(t)
        if len(self.rows.agents) != before:
            self.states = [tuple(map(self._resized, state)) for state in self.states]
            if self.weight is not None:
                self.weight = tuple(map(self._resized, self.weight))

    def _resized(self, state: Floats) -> Floats:
        room = aligned(len(self.rows.agents), state.shape[1])
        room[: self.rows.own] = state[: self.rows.own]
        return room

    def _finish(self, started: Started) -> Floats:
        """Wait for the threads; return the sums of squares (rounds, 3, columns)."""
        jobs, squares = started
        for job in jobs:
            job.result()
        for _ in range(len(squares[0][0])):
            self.states = [(*state[1:], state[0]) for state in self.states]
        sums = [sum(part.sum(axis=1) for part in each) for each in squares]
        return np.ascontiguousarray(np.concatenate(sums, axis=2)[..., self.layout.columns])

    def estimates(self, rows: NDArray[Any] | slice | None) -> Floats:
        """The present estimates of some rows, or, for None, of all: possibly without a copy.

        They are columns in the order of `layout.columns`: the ratio, for a ratio algorithm.
        """
        at = slice(None) if rows is None else rows
        parts = [state[0][: self.rows.own][at] for state in self.states]
        nu = parts[0] if rows is None and len(parts) == 1 else np.concatenate(parts, axis=1)
        columns = self.layout.columns
        if columns.size != nu.shape[1] or (np.diff(columns) != 1).any():
            nu = nu[:, columns]
        if self.weight is None:
            return nu
        weight = self.weight[0][: self.rows.own][at]
        return np.asarray(np.divide(nu, weight, out=np.zeros_like(nu), where=weight > 0))
