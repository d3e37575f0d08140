"""The inputs of a round: statistics, and the scales that the noise takes from the signals.

    signals of round t  ->  statistics xi  ->  the columns that the kernel reads

The last step is `RoundInputs.fill`, for one process and for every rank alike; nothing else puts a
statistic where the kernel reads it. Signals are read a few rounds ahead, by threads where there are
any: round t's signals are a function of t alone. Where readings enter in batches, the statistics of
a batch are added up in the round that closes it.
Two sets of buffers alternate, so that one is filled while the kernel reads the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum.algorithms import SummedAlgorithm
from veilsum.errors import AlgorithmError
from veilsum.privacy import Mechanism, Plan
from veilsum.privacy.mechanisms import SecureMechanism
from veilsum.simulation.layout import ColumnLayout, Order, aligned
from veilsum.simulation.problem import Problem
from veilsum.simulation.workers import Workers

Read = tuple[Floats, Floats]  # signals and statistics of one round, in the order of the network

LOWEST = 1100  # exponents of floats are above its negative
SHARED, BY_STREAM, BY_COLUMN = 0, 1, 2  # as in `kernel`, which is not imported before it is needed
_NO_SIGNALS = np.zeros((0, 0))


@dataclass(eq=False)
class RoundInputs:
    """Statistics and scales of a run's rounds; at most `most` rounds can be requested at once."""

    problem: Problem  # of the agents whose rows are here
    plan: Plan
    layout: ColumnLayout
    order: Order | None
    most: int
    agents: NDArray[np.uint32]  # the number of the agent of each row
    key: NDArray[np.uint64]  # of the noise
    total: Callable[[Floats], Floats]  # the sum over all processes
    over: Floats | None = None  # (agents,): what `largest` divides the scales by
    target: Floats = field(init=False)  # m of each noiseless column
    _first: Read | None = field(init=False)
    _level: Floats = field(init=False)
    _xi: list[Floats] = field(init=False)
    _scales: list[Floats] = field(init=False)
    _largest: list[Floats] = field(init=False)
    _turn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Read round 1, which all algorithms start from, and allocate the buffers."""
        online = self.problem.algorithm.online
        signals, xi = self._read(1)
        self._level, self.target = self._levels(signals), self._target(xi)
        self._first = (signals, xi) if online else None
        del signals  # memory counts at ten million agents
        rounds, turns = (self.most, 2) if online else (1, 1)
        shape = (rounds, self.problem.network.size, self.statistics_width)
        self._xi = [aligned(*shape) for _ in range(turns)]
        varying = self.plan.reads_signals
        shape = (rounds if varying else 1, len(self._level), self._level_width)
        self._scales = [aligned(*shape) for _ in range(turns if varying else 1)]
        self._largest = [np.zeros((len(made), self._level.shape[1])) for made in self._scales]
        self.fill(xi, 1, self._xi[0][0])
        self._fill_level(self._level, self._scales[0][0])
        self._find_largest(self._level, self._largest[0][0])

    @property
    def statistics_by(self) -> int:
        """What the kernel's statistics have one column for: BY_STREAM or BY_COLUMN."""
        return BY_COLUMN if self.plan.perturbs_input else BY_STREAM

    @property
    def statistics_width(self) -> int:
        """The columns of the kernel's statistics."""
        return self.layout.padded if self.statistics_by == BY_STREAM else self.layout.width

    def fill(self, xi: Floats, t: int, out: Floats) -> None:
        """Store the statistics xi (agents, streams or components) of round t in kernel columns.

        BY_STREAM, the noiseless and all private runs of a stream read one column of xi. A mechanism
        that perturbs the statistic itself fills `out` BY_COLUMN: xi in the noiseless columns, M(xi)
        in the private ones, as a function of the noise key, the agent, t and the stream. In a
        sum over a roster every row gets its mean.
        """
        if self.problem.algorithm.session is not None:
            self._fill_means(self.problem.algorithm.session, xi, t, out)
            return
        if self.statistics_by == BY_STREAM:
            self.layout.by_stream(xi, self.order, out)
            return
        layout = self.layout
        each = np.full((len(out), layout.padded), xi[0, 0])  # lanes that are discarded need a value
        layout.by_stream(xi, self.order, each)
        places = np.arange(layout.padded)
        out[:, layout.place(places, np.zeros(1, int))] = each
        from veilsum.simulation.noise import uniforms  # loading the compiler takes a while

        mechanisms = self._mechanisms(t)
        most = max(mechanism.uniforms for mechanism in mechanisms)
        drawn = uniforms(most, t, self.agents, layout.streams, self.key)
        vectors = len(out), -1, layout.components
        inside = each[:, : layout.streams].reshape(vectors)
        u = drawn.reshape(most, *inside.shape)
        for g, mechanism in enumerate(mechanisms):
            found = mechanism.from_uniforms(mechanism.clip(inside), u[: mechanism.uniforms])
            private = each.copy()
            private[:, : layout.streams] = found.reshape(len(out), -1)
            out[:, layout.place(places, np.array([g + 1]))] = private

    def _fill_means(self, session: SummedAlgorithm, xi: Floats, t: int, out: Floats) -> None:
        """The mean over the roster in every row: of xi, and on the grid with the sum's noise.

        The noise is that of all members together, a function of the noise key, t and the stream.
        """
        layout, members = self.layout, session.roster
        numbers = self.agents if self.order is None else np.arange(len(self.agents))
        present = xi[numbers < members]
        plain = _exact_total(present, self.total) / members
        each = np.zeros((1, layout.padded))
        layout.by_stream(plain[None, :], None, each)
        if self.statistics_by == BY_STREAM:
            out[:] = each
            return
        places = np.arange(layout.padded)
        out[:, layout.place(places, np.zeros(1, int))] = each
        for g, made in enumerate(self._mechanisms(t)):
            assert isinstance(made, SecureMechanism)
            steps = np.zeros((1, layout.padded))
            layout.by_stream(self.total(made.on_grid(present).sum(axis=0))[None, :], None, steps)
            drawn = [
                made.sum_noise(members, np.random.default_rng([*self.key.tolist(), t, k]))[0]
                for k in range(layout.streams)
            ]
            noise = np.zeros(layout.padded)
            noise[: layout.streams] = drawn
            private = made.mean_of_steps(steps[0], members, noise)
            out[:, layout.place(places, np.array([g + 1]))] = private

    def _mechanisms(self, t: int) -> list[Mechanism]:
        """The mechanism of each epsilon in round t."""
        return [self.plan.mechanism(e, t) for e in self.problem.run_epsilons]

    def _target(self, xi: Floats) -> Floats:
        """The mean of xi, or its expectation for online algorithms."""
        if self.problem.algorithm.online:
            expected = self.problem.source.expected(self.problem.family, self.problem.rounds)
            return np.tile(expected, self.layout.noiseless // self.layout.components)
        if self.problem.algorithm.summed:  # in one process, to the bit
            return _exact_total(xi, lambda values: values) / len(xi)
        # by contiguous column, so that a mean does not depend on how many others there are
        return np.asarray(np.ascontiguousarray(xi.T).mean(axis=1))

    @property
    def scales_by(self) -> int:
        """What the kernel's scales have one column for: SHARED, BY_STREAM or BY_COLUMN."""
        return {1: SHARED, self.layout.padded: BY_STREAM}.get(self._level_width, BY_COLUMN)

    @property
    def _level_width(self) -> int:
        count = self._level.shape[1]
        if count == 1:
            return 1
        return self.layout.padded if count == self.layout.streams else self.layout.width

    def start(self, first: int, last: int, workers: Workers) -> list[Future[Any]]:
        """Begin to read what rounds first..last-1 need; `take` waits for it."""
        if not self.problem.algorithm.online:
            return []
        self._turn = 1 - self._turn
        places: dict[int, list[int]] = {}
        for k, t in enumerate(range(first, last)):
            places.setdefault(max(t, 1), []).append(k)
        if self.problem.algorithm.summed:  # adds up over processes: by this thread, in order
            return [_done(self._fetch(t, into)) for t, into in places.items()]
        return [workers.submit(self._fetch, t, into) for t, into in places.items()]

    def take(self, started: list[Future[Any]], first: int, last: int) -> tuple[Floats, Floats]:
        """Statistics (rounds or 1, agents, columns) and scales of rounds first..last-1."""
        signals = {max(first, 1) + k: done.result() for k, done in enumerate(started)}
        if not signals:
            return self._xi[0], self._scales[0]
        xi = self._xi[self._turn]
        if not self.plan.reads_signals:
            return xi[: last - first], self._scales[0]
        scales = self._scales[self._turn]
        if not self._levels_in_any_order:
            levels = {t: self._level if t == 1 else self._levels(s) for t, s in signals.items()}
            for k, t in enumerate(range(first, last)):
                self._fill_level(levels[max(t, 1)], scales[k])
        return xi[: last - first], scales[: last - first]

    @property
    def _levels_in_any_order(self) -> bool:
        """Whether a round's scales follow from its signals alone, so that any thread computes them."""
        return self.plan.reads_signals and self.plan.by_signals_alone

    def _read(self, t: int) -> Read:
        signals = self.problem.source.signals(t, self.problem.replicas)
        xi = self.problem.family.columns(signals).reshape(self.problem.network.size, -1)
        return signals, np.asarray(xi, dtype=np.float64)

    def _fetch(self, t: int, into: list[int]) -> Floats:
        """Read round t; store its statistics, and its scales if they may be computed here."""
        count = self.problem.algorithm.readings(t)
        if not count:  # a batch is open: the round multiplies what is here by 0
            return _NO_SIGNALS
        last = self.problem.algorithm.latest(t)
        first = last - count + 1
        signals, xi = self._first if first == 1 and self._first else self._read(first)
        for reading in range(first + 1, last + 1):
            signals, more = self._read(reading)
            xi = xi + more
        for k in into:
            self.fill(xi, t, self._xi[self._turn][k])
        if self._levels_in_any_order:
            level = self._level if t == 1 else self._levels(signals)
            for k in into:
                self._fill_level(level, self._scales[self._turn][k])
                self._find_largest(level, self._largest[self._turn][k])
            return _NO_SIGNALS
        return signals  # of the last reading: where there are batches, no scale follows them

    def _levels(self, signals: Floats) -> Floats:
        """Sensitivities by agent, (agents, 1 or streams or private columns)."""
        return self.plan.signal(signals, self.layout.epsilons)

    @property
    def largest(self) -> Floats:
        """(rounds or 1, 1 or streams): the largest scale over `over` of what was taken last."""
        return self._largest[self._turn if self._levels_in_any_order else 0]

    def _find_largest(self, level: Floats, out: Floats) -> None:
        if self.over is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                out[:] = (level / self.over[:, None]).max(axis=0)

    def _fill_level(self, level: Floats, out: Floats) -> None:
        if not self.plan.privacy.adds_noise:
            out[:] = level  # nothing reads it
        elif self.scales_by == BY_COLUMN:
            self.layout.by_column(level, self.order, out)
        elif self.scales_by == BY_STREAM:
            self.layout.by_stream(level, self.order, out)
        else:
            out[:] = level if self.order is None else level[self.order]


def _done(result: Floats) -> Future[Any]:
    """What is there already, as what is waited for."""
    made: Future[Any] = Future()
    made.set_result(result)
    return made


def _exact_total(values: Floats, total: Callable[[Floats], Floats]) -> Floats:
    """The sum of each column over all processes, the same bits however the rows are divided.

    Each number is cut into whole multiples of two powers of two, which follow from the largest
    exponent of its column; whole numbers add up without error (up to four million rows).
    """
    bins = np.arange(values.shape[1])
    counts = np.zeros((LOWEST + 1100, values.shape[1]))
    exponents = np.frexp(values)[1] + LOWEST
    counts[exponents, np.broadcast_to(bins, exponents.shape)] = 1.0
    seen = total(counts.ravel()).reshape(counts.shape) > 0
    top = seen.shape[0] - 1 - np.argmax(seen[::-1], axis=0) - LOWEST
    high, low = np.ldexp(1.0, top - 21), np.ldexp(1.0, np.maximum(top - 53, -1074))
    coarse = np.rint(values / high)
    fine = np.rint((values - coarse * high) / low)
    return np.asarray(total(coarse.sum(axis=0)) * high + total(fine.sum(axis=0)) * low)


def coefficients(problem: Problem, first: int, last: int) -> Floats:
    """(rounds, 6): the algorithm's coefficients in rounds first..last-1."""
    return np.array([tuple(problem.algorithm.at(t)) for t in range(first, last)], dtype=np.float64)


def group_scales(
    problem: Problem,
    plan: Plan,
    first: int,
    last: int,
    epsilons: tuple[float, ...],
) -> tuple[Floats, Floats, Floats]:
    """per_network and per_signal (rounds, groups), per_edge (groups); 0 where there is no noise.

    Group 0 is the noiseless run; the others have `epsilons`.
    """
    groups = 1 + len(epsilons)
    network, signal = np.zeros((2, last - first, groups))
    if not plan.privacy.adds_noise or plan.perturbs_input:
        return network, signal, np.zeros(groups)
    each = np.array(epsilons)
    for k, t in enumerate(range(first, last)):
        if problem.algorithm.at(t).noise:
            network[k, 1:] = plan.per_network(each, t)
            signal[k, 1:] = plan.per_signal(each, t)
    carried = problem.algorithm.perturbs_messages
    each = 1 / each if carried else plan.per_edge(each)
    edge = np.concatenate([[0.0], each])
    return network, signal, cast(Floats, edge)


def carried_scales(plan: Plan, rounds: range) -> Floats:
    """(rounds, agents): b_j at epsilon = 1 of the noise that messages carry; it goes with 1/eps."""
    if plan.reads_signals:
        raise AlgorithmError(
            "this algorithm sends its noise along, whose scale must not follow the signal; ask for "
            "sensitivity global"
        )
    ones = np.ones((len(plan.network), 1))
    return np.stack([plan.scale(ones, 1.0, t)[:, 0] for t in rounds])
