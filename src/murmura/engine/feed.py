"""What the rounds take in: statistics, and the scales that the noise takes from the signals.

Signals are read a few rounds ahead, by threads where there are any: round t's signals are a
function of t alone. Scales are worked out of them in the order of the rounds. Two sets of buffers
take turns, so that one is filled while the kernel reads the other.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from murmura.engine.layout import Layout, Order, aligned
from murmura.engine.problem import Problem
from murmura.engine.workers import Workers
from murmura.errors import LawError
from murmura.privacy import Calibration

Floats = NDArray[np.float64]
Read = tuple[Floats, Floats]  # signals and statistics of one round, in the order of the network


@dataclass(eq=False)
class Feed:
    """Statistics and scales of a run, by rounds; `most` rounds can be asked for at once."""

    problem: Problem
    calibration: Calibration | None
    layout: Layout
    order: Order | None
    most: int
    target: Floats = field(init=False)  # m of each clean column
    _first: Read | None = field(init=False)
    _level: Floats = field(init=False)
    _xi: list[Floats] = field(init=False)
    _scales: list[Floats] = field(init=False)
    _turn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Read round 1, which all laws start from, and make room for what follows."""
        signals, xi = self._read(1)
        self._level, self.target = self._levels(signals), self._target(xi)
        self._first = (signals, xi) if self.problem.law.online else None
        del signals  # memory counts at ten million agents
        rounds = self.most if self.problem.law.online else 1
        turns = 2 if self.problem.law.online else 1
        agents = self.problem.network.size
        self._xi = [aligned(rounds, agents, self.layout.padded) for _ in range(turns)]
        varying = self.calibration is not None and self.calibration.reads_signals
        shape = (rounds if varying else 1, len(self._level), self._level_width)
        self._scales = [aligned(*shape) for _ in range(turns if varying else 1)]
        self._pack(xi, [self._xi[0][0]])
        self._pack_level(self._level, self._scales[0][0])

    def _target(self, xi: Floats) -> Floats:
        """The mean of xi, or what it is drawn from for online laws."""
        if self.problem.law.online:
            expected = self.problem.source.expected(self.problem.family, self.problem.rounds)
            columns = self.layout.columns
            return np.tile(expected, columns.clean // columns.components)
        # by contiguous column, so that a mean does not depend on how many others there are
        return np.asarray(np.ascontiguousarray(xi.T).mean(axis=1))

    @property
    def reads(self) -> int:
        """For what the kernel's scales have a column each: all streams, one of them, or a run."""
        return {1: 0, self.layout.padded: 1}.get(self._level_width, 2)

    @property
    def _level_width(self) -> int:
        count = self._level.shape[1]
        if count == 1:
            return 1
        streams = count == self.layout.streams
        return self.layout.padded if streams else self.layout.stacks * self.layout.stack_width

    def start(self, first: int, last: int, workers: Workers) -> list[Future[Any]]:
        """Begin to read what rounds first..last-1 need; `take` waits for it."""
        if not self.problem.law.online:
            return []
        self._turn = 1 - self._turn
        places: dict[int, list[Floats]] = {}
        for k, t in enumerate(range(first, last)):
            places.setdefault(max(t, 1), []).append(self._xi[self._turn][k])
        return [workers.submit(self._fetch, t, into) for t, into in places.items()]

    def take(self, started: list[Future[Any]], first: int, last: int) -> tuple[Floats, Floats]:
        """Statistics (rounds or 1, agents, streams) and scales of rounds first..last-1."""
        signals = {max(first, 1) + k: done.result() for k, done in enumerate(started)}
        if not signals:
            return self._xi[0], self._scales[0]
        xi = self._xi[self._turn]
        if self.calibration is None or not self.calibration.reads_signals:
            return xi[: last - first], self._scales[0]
        scales = self._scales[self._turn]
        levels = {t: self._level if t == 1 else self._levels(s) for t, s in signals.items()}
        for k, t in enumerate(range(first, last)):
            self._pack_level(levels[max(t, 1)], scales[k])
        return xi[: last - first], scales[: last - first]

    def _read(self, t: int) -> Read:
        signals = self.problem.source.signals(t, self.problem.replicas)
        xi = self.problem.family.columns(signals).reshape(self.problem.network.size, -1)
        return signals, np.asarray(xi, dtype=np.float64)

    def _fetch(self, t: int, into: list[Floats]) -> Floats:
        signals, xi = self._first if t == 1 and self._first else self._read(t)
        self._pack(xi, into)
        return signals

    def _levels(self, signals: Floats) -> Floats:
        """Sensitivities by agent, (agents, 1 or streams or private columns)."""
        if self.calibration is None:
            return np.zeros((1, 1))  # without noise nobody reads it
        columns = self.layout.columns
        return self.calibration.signal(signals, columns.epsilons(self.problem))

    def _pack(self, xi: Floats, into: list[Floats]) -> None:
        for place in into:
            self.layout.by_stream(xi, self.order, place)

    def _pack_level(self, level: Floats, into: Floats) -> None:
        if self.calibration is None:
            into[:] = level
        elif self.reads == 2:
            self.layout.by_column(level, self.order, into)
        elif self.reads == 1:
            self.layout.by_stream(level, self.order, into)
        else:
            into[:] = level if self.order is None else level[self.order]


def coefficients(problem: Problem, first: int, last: int) -> Floats:
    """(rounds, 6): the law in rounds first..last-1."""
    return np.array([tuple(problem.law.at(t)) for t in range(first, last)], dtype=np.float64)


def group_scales(
    problem: Problem, calibration: Calibration | None, first: int, last: int
) -> tuple[Floats, Floats, Floats]:
    """per_network and per_signal (rounds, groups), per_edge (groups); 0 where there is no noise."""
    groups = 1 + len(problem.budgets)
    network, signal = np.zeros((2, last - first, groups))
    if calibration is None:
        return network, signal, np.zeros(groups)
    epsilons = np.array(problem.budgets)
    for k, t in enumerate(range(first, last)):
        if problem.law.at(t).noise:
            network[k, 1:] = calibration.per_network(epsilons, t)
            signal[k, 1:] = calibration.per_signal(epsilons, t)
    carried = problem.law.noises_messages
    each = 1 / epsilons if carried else calibration.per_edge(epsilons)
    edge = np.concatenate([[0.0], each])
    return network, signal, cast(Floats, edge)


def carried_scales(calibration: Calibration, rounds: range) -> Floats:
    """(rounds, agents): b_j at epsilon = 1 of the noise that messages carry; it goes with 1/eps."""
    if calibration.reads_signals:
        raise LawError(
            f"law {calibration.law.name} sends its noise along, whose scale must not follow the "
            "signal; ask for sensitivity global"
        )
    ones = np.ones((len(calibration.network), 1))
    return np.stack([calibration.scale(ones, 1.0, t)[:, 0] for t in rounds])
