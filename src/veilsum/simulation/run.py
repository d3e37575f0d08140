"""A run in progress: the estimates of the rows in this process, and how rounds reach the kernel.

A small network's runs are cut into blocks of streams that fit the cache; a thread takes one such
block through several rounds before it touches the next. A large network's rows are cut instead:
into tiles that take several rounds where neighbours lie close together (`tiles`), else the threads
meet after every round. Where other processes have neighbours of these rows, interior
rows are computed while the halo is exchanged. The numbers are the same in all cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum.privacy import Plan
from veilsum.simulation import kernel, noise, slices, tiles
from veilsum.simulation.backend import Backend, ProcessRows
from veilsum.simulation.inputs import RoundInputs, carried_scales, coefficients, group_scales
from veilsum.simulation.layout import ColumnLayout, aligned, takes_rounds
from veilsum.simulation.workers import Workers

State = tuple[Floats, ...]  # the present, the buffer of the next, and the past if there is momentum
GroupScales = tuple[Floats, Floats, Floats]  # per_network, per_signal, per_edge
Started = tuple[list[Future[Any]], list[list[Floats]]]

CACHED = 400_000  # numbers in a block of streams up to which it is taken through several rounds
MOST_STACKS = 256  # in one block: their noise is drawn together
ROUNDS_ONLINE, ROUNDS_OFFLINE = 8, 32  # taken at once; online, signals are stored for as many
PIECES = 4  # parts that the rows of a large network are cut into, per thread
TILES = 2  # and where tiles take several rounds
TILED_ONLINE = 4  # rounds a pass where signals are stored for each, at 16 bytes an agent and stream
NUMBER = 8  # bytes
_ONE_LANE = (0.0,)


@dataclass(eq=False)
class Run:
    """The state of one simulation in one process; `custom` replaces the problem's plan."""

    backend: Backend
    workers: Workers
    custom: Plan | None = None
    plan: Plan = field(init=False)
    layout: ColumnLayout = field(init=False)
    rows: ProcessRows = field(init=False)
    states: list[State] = field(init=False)
    weight: State | None = field(init=False, default=None)  # of a ratio algorithm
    _prepared: tuple[tuple[int, int], Any, Any] = field(init=False, default=((0, 0), None, None))

    def __post_init__(self) -> None:
        """Calibrate, read the first signals, allocate the states."""
        backend, problem = self.backend, self.backend.problem
        self.rows = backend.rows(1)
        self.layout = self._stored(ColumnLayout.of(problem))
        self.key = noise.key_of(backend.noise_key(self.custom))
        self.plan = self.custom or backend.plan()
        noisy = self.plan.privacy.adds_noise  # else nothing reads what it is made of
        self.mass = self._by_row(backend.mass) if noisy else np.zeros(0)
        self.network = self._by_row(self.plan.network) if noisy else np.zeros(0)
        self.tiled = self._rounds_tiled()
        self.small = self._fits(self.layout) and not (
            self.tiled > 1 and self.layout.stacks <= self.workers.count
        )
        self._plans: dict[int, tiles.Tiling] = {}
        self.inputs = RoundInputs(
            backend.local, self.plan, self.layout, backend.order, self.rounds_at_once,
            self.rows.agents[: self.rows.own], self.key, backend.total, self._over(),
        )  # fmt: skip
        self.target = backend.average(self.inputs.target)
        self.momentum = any(problem.algorithm.at(t).momentum for t in range(problem.rounds + 1))
        self.cuts = self._cuts()
        copies = 3 if self.momentum else 2
        self.states = [self._state(copies, self._state_width(a, b)) for a, b in pairwise(self.cuts)]
        if problem.algorithm.ratio:
            self.weight = self._state(2, 1)

    def _fits(self, layout: ColumnLayout) -> bool:
        """Whether all rows are here and a block of streams fits the cache."""
        return self.backend.has_all_rows and self.rows.own * layout.stack_width <= CACHED

    def _stored(self, layout: ColumnLayout) -> ColumnLayout:
        """How the states are laid out: with every run that is asked for."""
        return layout

    def _over(self) -> Floats | None:
        """What the inputs divide scales by to find the largest; nothing is read of it here."""
        return None

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

    def _state_width(self, first: int, last: int) -> int:
        """Columns of the state of stacks first..last-1."""
        return self.layout.stack_width * (last - first)

    def _state(self, copies: int, width: int) -> State:
        return tuple(aligned(len(self.rows.agents), width) for _ in range(copies))

    @property
    def rounds_at_once(self) -> int:
        """How many rounds one call of the kernel can take."""
        problem = self.backend.problem
        if not self.small:
            return self.tiled
        if problem.network.dynamic or problem.algorithm.ratio:
            return 1
        return ROUNDS_ONLINE if problem.algorithm.online else ROUNDS_OFFLINE

    def _rounds_tiled(self) -> int:
        """How many rounds a pass over tiles takes; 1 where nothing is gained, or no order allows it."""
        reach, problem, width = self.backend.reach, self.backend.problem, self.layout.width
        if reach is None or not takes_rounds(problem):
            return 1
        weights, online = self.rows.matrix.weights, problem.algorithm.online
        row = 12 * len(weights) / self.rows.own + NUMBER * (3 * width + 4)  # bytes that stay
        return min(reach.rounds(row), TILED_ONLINE) if online else reach.rounds(row)

    def _plan(self, rounds: int) -> tiles.Tiling:
        """The tiles of a pass of so many rounds."""
        assert self.backend.reach is not None  # else rounds are taken one by one
        if rounds not in self._plans:
            parts = TILES * self.workers.count if self.workers.count > 1 else 1
            self._plans[rounds] = tiles.plan(self.backend.reach, rounds, parts)
        return self._plans[rounds]

    def advance(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, Floats]]:
        """Take rounds first..last-1 of every span; yield (first, last, sums of squares).

        The sums have the axes (rounds, 3, columns), over the rows of this process. The signals of
        the next span are read while the kernel works on the present one.
        """
        reading = self.inputs.start(*spans[0], self.workers) if spans else []
        for (first, last), following in zip(spans, [*spans[1:], None], strict=True):
            if self._prepared[0] != (first, last):
                self._prepare(first, last)
            started = self._begin(first, last, self.inputs.take(reading, first, last))
            reading = self.inputs.start(*following, self.workers) if following else []
            if following:  # while the threads work
                self._prepare(*following)
            sums = self._finish(started)
            del started  # the sums of single blocks: memory counts at ten million agents
            yield first, last, sums

    def _begin(self, first: int, last: int, taken: tuple[Floats, Floats]) -> Started:
        """Set the threads to work on rounds first..last-1; `_finish` waits for them."""
        problem, layout, (xi, signal) = self.backend.problem, self.layout, taken
        if problem.network.dynamic and first > 1:
            self._rewire(first)
        _, algorithm, groups = self._prepared
        if self.weight is not None:
            count = problem.algorithm.readings(first)  # a ratio takes one round at a time
            self.weight = self._advance_weight(algorithm, self.weight, count)
        divisor = np.empty((1, 0)) if self.weight is None else self.weight[0].reshape(1, -1)
        target = np.zeros((1, layout.padded))
        layout.by_stream(self.target[None, :], None, target)
        linked = self._links(algorithm, range(first, last))
        inputs = kernel.Inputs(algorithm, xi, target, linked, divisor, self.rows.agents, self.key)
        scales = kernel.Scales(self.network, self.mass, signal, *self._group_scales(first, groups))
        by = (self.inputs.scales_by, self.inputs.statistics_by)
        return self._launch(layout, self.states, inputs, scales, first, by)

    def _prepare(self, first: int, last: int) -> None:
        """Work out what rounds first..last-1 need that no signal is read for."""
        problem = self.backend.problem
        scales = group_scales(problem, self.plan, first, last, self._epsilons())
        self._prepared = (first, last), coefficients(problem, first, last), scales

    def _epsilons(self) -> tuple[float, ...]:
        """The epsilons whose scales the kernel needs."""
        return self.backend.problem.run_epsilons

    def _group_scales(self, first: int, scales: GroupScales) -> GroupScales:
        """What the kernel is given of `scales`, from round `first` on."""
        del first
        return scales

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
            widths = [
                state[0].shape[1] if layout is None else self._sums_width(k)
                for k, state in enumerate(states)
            ]
            # Zeros: nothing stores the sums of lanes that are discarded, and all lanes are added up.
            room = [np.zeros((len(inputs.algorithm), blocks, 3, width)) for width in widths]
            for each, block in zip(squares, room, strict=True):
                each.append(block)

            def work(k: int, begin: int, end: int, steps: kernel.Steps | None = None) -> None:
                momentum = len(states[k]) > 2
                nu, out, before = (*states[k], states[k][0])[
                    :3
                ]  # without momentum it reads no past
                state = kernel.KernelState(nu, out, before)
                stream = self.cuts[k] * len(like)
                rows = kernel.RowRange(first, last, begin, end, stream, groups, t, *by, momentum)
                if layout is None:
                    about = (self.rows.matrix, state, inputs, scales, rows, room[k], steps)
                    kernel.advance(like, *about)
                else:
                    self._advance_state(k, state, inputs, scales, rows, room[k], steps)

            if len(inputs.algorithm) > 1 and not self.small:
                plan = self._plan(len(inputs.algorithm))
                jobs.extend(tiles.start(plan, partial(work, 0, 0, blocks), self.workers.submit))
            else:
                pieces = self._pieces(states, blocks)
                jobs.extend(self.workers.submit(work, *piece) for piece in pieces)

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

    def _sums_width(self, k: int) -> int:
        """The columns of the sums of squares of state k."""
        return int(self.states[k][0].shape[1])

    def _advance_state(
        self, k: int, state: kernel.KernelState, inputs: kernel.Inputs, scales: kernel.Scales,
        rows: kernel.RowRange, squares: Floats, steps: kernel.Steps | None,
    ) -> None:  # fmt: skip
        """Call the kernel for rows of state k."""
        del k  # all states are alike
        about = (self.rows.matrix, state, inputs, scales, rows, squares, steps)
        if self.rows.matrix.sliced:
            slices.advance(*about)
        else:
            kernel.advance(self.layout.like, *about)

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
            assert self.plan is not None  # private groups have one
            scales = [self._by_row(b) for b in carried_scales(self.plan, rounds)]
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
        return np.ascontiguousarray(np.concatenate(sums, axis=2)[..., self.sums_columns])

    @cached_property
    def sums_columns(self) -> NDArray[Any]:
        """The column of each run in the sums of squares."""
        return self.layout.columns

    def estimates(self, rows: NDArray[Any] | slice | None) -> Floats:
        """The present estimates of some rows, or, for None, of all: possibly without a copy.

        They are columns in the order of `layout.columns`: the ratio, for a ratio algorithm.
        """
        nu = self._columns(rows)
        if self.weight is None:
            return nu
        at = slice(None) if rows is None else rows
        weight = self.weight[0][: self.rows.own][at]
        return np.asarray(np.divide(nu, weight, out=np.zeros_like(nu), where=weight > 0))

    def _columns(self, rows: NDArray[Any] | slice | None) -> Floats:
        """`estimates` before a ratio algorithm divides by its weight."""
        at = slice(None) if rows is None else rows
        parts = [state[0][: self.rows.own][at] for state in self.states]
        nu = parts[0] if rows is None and len(parts) == 1 else np.concatenate(parts, axis=1)
        columns = self.layout.columns
        if columns.size != nu.shape[1] or (np.diff(columns) != 1).any():
            nu = nu[:, columns]
        return nu
