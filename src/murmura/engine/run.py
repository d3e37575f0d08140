"""A run in progress: its states, and how a few rounds of it are handed to the kernel.

A small network's runs are cut into blocks of streams that fit the cache; a thread takes one such
block through several rounds before it touches the next. A large network's rows are cut instead,
and the threads meet after every round. The numbers are the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.engine import kernel, noise
from murmura.engine.feed import Feed, carried_scales, coefficients, group_scales
from murmura.engine.layout import Layout, Order, aligned, arranged
from murmura.engine.problem import Columns, Problem
from murmura.engine.workers import Workers
from murmura.privacy import Calibration

Floats = NDArray[np.float64]
Trio = tuple[Floats, Floats, Floats]  # the present, room for the next, the past
Started = tuple[list[Future[Any]], list[Floats]]

CACHED = 400_000  # numbers in a block of streams up to which it is taken through several rounds
MOST_STACKS = 256  # in one block: their noise is drawn together
ROUNDS_ONLINE, ROUNDS_OFFLINE = 8, 32  # so many of them; online, signals are held for as many
PIECES = 4  # parts that the rows of a large network are cut into, per thread


@dataclass(eq=False)
class Run:
    """The state of one simulation."""

    problem: Problem
    calibration: Calibration | None
    workers: Workers
    seed: int  # of the noise
    layout: Layout = field(init=False)
    order: Order | None = field(init=False, default=None)
    weight: Floats | None = field(init=False, default=None)
    _matrix: kernel.Matrix | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Put the agents in order, read the first signals, make room for the states."""
        problem, size = self.problem, self.problem.network.size
        self.layout = Layout.of(problem, Columns.of(problem))
        found = arranged(problem.network)
        if found is not None:
            self.order, self._matrix = found[0], kernel.matrix_of(found[1])
        elif not problem.network.dynamic:
            self._matrix = kernel.matrix_of(problem.network.at(1))
        numbers = np.arange(size) if self.order is None else self.order
        self.agents: NDArray[np.uint32] = numbers.astype(np.uint32)
        self.key = noise.key_of(self.seed)
        made = self.calibration  # without noise nobody reads what it would be made of
        self.mass = np.zeros(0) if made is None else self._by_agent(problem.mass)
        self.network = np.zeros(0) if made is None else self._by_agent(made.network)
        self.small = size * self.layout.stack_width <= CACHED
        self.feed = Feed(problem, self.calibration, self.layout, self.order, self.most)
        self.target = self.feed.target
        self.recalls = any(problem.law.at(t).recall for t in range(problem.rounds + 1))
        self.cuts = self._cuts()
        self.states = [self._state(b - a) for a, b in pairwise(self.cuts)]
        if problem.law.ratio:
            self.weight = np.zeros((size, 1))

    def _by_agent(self, values: Floats) -> Floats:
        moved = values if self.order is None else np.asarray(values)[self.order]
        return np.ascontiguousarray(moved, dtype=np.float64)

    def _cuts(self) -> list[int]:
        """Where the stacks are cut into states: as many in one as fit the cache together."""
        stacks, size = self.layout.stacks, self.problem.network.size * self.layout.stack_width
        if not self.small:
            return [0, stacks]
        count = -(-stacks // min(max(CACHED // size, 1), MOST_STACKS))
        count = max(count, min(stacks, self.workers.count))
        return [stacks * k // count for k in range(count + 1)]

    def _state(self, stacks: int) -> Trio:
        width = self.layout.stack_width * stacks
        nu, out = (aligned(self.problem.network.size, width) for _ in range(2))
        return nu, out, aligned(*nu.shape) if self.recalls else nu

    @property
    def most(self) -> int:
        """How many rounds can be taken at once."""
        if not self.small or self.problem.network.dynamic or self.problem.law.ratio:
            return 1
        return ROUNDS_ONLINE if self.problem.law.online else ROUNDS_OFFLINE

    def begin(self, first: int, last: int, taken: tuple[Floats, Floats]) -> Started:
        """Set the threads to work on rounds first..last-1; `finish` waits for them."""
        problem, layout, (xi, signal) = self.problem, self.layout, taken
        matrix = self._matrix or kernel.matrix_of(problem.network.at(max(first, 1)))
        law = coefficients(problem, first, last)
        if self.weight is not None:
            self.weight = _advance_weight(matrix, law, self.weight)
        divisor = np.empty((1, 0)) if self.weight is None else self.weight.reshape(1, -1)
        target = np.zeros((1, layout.padded))
        layout.by_stream(self.target[None, :], None, target)
        linked = self._links(matrix, law, range(first, last))
        inputs = kernel.Inputs(law, xi, target, linked, divisor, self.agents, self.key)
        scales = kernel.Scales(
            self.network, self.mass, signal, *group_scales(problem, self.calibration, first, last)
        )
        blocks = -(-problem.network.size // kernel.BLOCK)
        squares = [np.empty((last - first, blocks, 3, s[0].shape[1])) for s in self.states]

        def work(piece: tuple[int, int, int]) -> None:
            state, begin, end = piece
            span = kernel.Span(
                0, problem.network.size, begin, end, self.cuts[state] * layout.lanes,
                layout.groups, first,
                self.feed.reads, self.recalls,
            )  # fmt: skip
            held = kernel.State(*self.states[state])
            kernel.advance(layout.like, matrix, held, inputs, scales, span, squares[state])

        return [self.workers.submit(work, piece) for piece in self._pieces(blocks)], squares

    def _links(self, matrix: kernel.Matrix, law: Floats, rounds: range) -> Floats:
        """The noise that comes over links in laws that have it, else nothing."""
        from murmura.engine.links import NONE, carried_noise, link_noise  # few laws need them

        if self.layout.groups == 1:
            return NONE
        about = (matrix, self.agents, self.key, rounds, self.layout.padded)
        if self.problem.law.noises_messages:
            scales = [self._by_agent(b) for b in carried_scales(self._calibrated, rounds)]
            return carried_noise(*about, np.stack(scales))
        return link_noise(*about) if law[:, 5].any() else NONE

    @property
    def _calibrated(self) -> Calibration:
        assert self.calibration is not None  # private groups have one
        return self.calibration

    def _pieces(self, blocks: int) -> Iterator[tuple[int, int, int]]:
        """(state, blocks of rows begin..end): what a thread takes at a time."""
        if self.small:
            yield from ((state, 0, blocks) for state in range(len(self.states)))
            return
        parts = min(blocks, PIECES * self.workers.count if self.workers.count > 1 else 1)
        for part in range(parts):
            yield 0, blocks * part // parts, blocks * (part + 1) // parts

    def finish(self, started: Started) -> Floats:
        """Wait for the threads; return the sums of squares (rounds, 3, columns)."""
        jobs, squares = started
        for job in jobs:
            job.result()
        for _ in range(len(squares[0])):
            self.states = [self._turned(*trio) for trio in self.states]
        sums = np.concatenate([part.sum(axis=1) for part in squares], axis=2)
        return np.ascontiguousarray(sums[..., self.layout.kept])

    def _turned(self, nu: Floats, out: Floats, before: Floats) -> Trio:
        return (out, before, nu) if self.recalls else (out, nu, out)

    def estimates(self, rows: list[int] | slice | None) -> Floats:
        """The estimates held now by some agents, or, for None, by all in the kernel's order.

        They are columns in the order of `Columns`: the ratio, for a ratio law.
        """
        if rows is None or self.order is None:
            at: Any = slice(None) if rows is None else rows
        else:
            place = np.empty(self.order.size, np.int64)
            place[self.order] = np.arange(self.order.size)
            at = place[rows]
        held = [trio[0][at] for trio in self.states]
        nu = held[0] if rows is None and len(held) == 1 else np.concatenate(held, axis=1)
        kept = self.layout.kept
        nu = nu if kept.size == nu.shape[1] and (np.diff(kept) == 1).all() else nu[:, kept]
        if self.weight is None:
            return nu
        weight = self.weight[at]
        return np.asarray(np.divide(nu, weight, out=np.zeros_like(nu), where=weight > 0))


def _advance_weight(matrix: kernel.Matrix, law: Floats, weight: Floats) -> Floats:
    """The weight of a ratio law obeys the law of the sum with xi = 1 and d = 0."""
    agents, out = weight.shape[0], np.empty_like(weight)
    alone = law.copy()
    alone[:, 4:] = 0.0
    nothing, blank = np.zeros((1, 1)), np.zeros(agents)
    kernel.advance(
        (0.0,), matrix, kernel.State(weight, out, weight),
        kernel.Inputs(
            alone, np.ones((1, agents, 1)), nothing, np.zeros((1, 0, 0)), np.zeros((1, 0)),
            np.arange(agents, dtype=np.uint32), noise.key_of(0),
        ),
        kernel.Scales(blank, blank, np.zeros((1, agents, 1)), nothing, nothing, np.zeros(1)),
        kernel.Span(0, agents, 0, -(-agents // kernel.BLOCK), 0, 1, 0, kernel.SHARED, False),
        np.empty((1, -(-agents // kernel.BLOCK), 3, 1)),
    )  # fmt: skip
    return out
