"""The simulator: all replicas and epsilons of a run advance together, one round at a time.

Columns of one matrix are runs: clean ones (replica by component of the statistic), then private
ones (epsilon by replica by component). A round is one call of the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from murmura.engine import noise
from murmura.engine.problem import Columns, Problem
from murmura.engine.record import Record
from murmura.engine.trace import Trace, assemble
from murmura.laws.base import Coefficients
from murmura.privacy import Calibration, calibrate

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

BLOCK = 128  # rows that are added up together: fixed, so that sums depend on nothing else


@dataclass(eq=False)
class _Run:
    """The state of one simulation."""

    problem: Problem
    record: Record
    calibration: Calibration | None
    columns: Columns
    xi: Floats = field(init=False)
    signal: Floats = field(init=False)
    target: Floats = field(init=False)
    nu: Floats = field(init=False)
    spare: list[Floats] = field(init=False)
    weight: Floats | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        problem = self.problem
        agents, width = problem.network.size, self.columns.clean + self.columns.private
        self.key = noise.key_of(_noise_seed(problem.seed))
        self.mass = np.ascontiguousarray(problem.mass, dtype=np.float64)
        self.epsilons = self.columns.epsilons(problem)
        self.squares = np.empty((-(-agents // BLOCK), 3, width))
        self.read(1)
        self.target = self._target()
        self.nu = np.zeros((agents, width))
        self.spare = [np.empty((agents, width))]
        if problem.law.ratio:
            self.weight = np.zeros((agents, 1))

    def read(self, t: int) -> None:
        """Read the signals of round t: their statistics, and what the noise takes from them."""
        signals = self.problem.source.signals(t, self.problem.replicas)
        agents = self.problem.network.size
        xi = self.problem.family.columns(signals).reshape(agents, -1)
        self.xi = np.ascontiguousarray(xi, dtype=np.float64)
        if self.calibration is not None and (t == 1 or self.calibration.reads_signals):
            self.signal = np.ascontiguousarray(self.calibration.signal(signals, self.epsilons))

    def _target(self) -> Floats:
        """m of each clean column: the mean of xi, or what it is drawn from for online laws."""
        if not self.problem.law.online:
            return np.asarray(self.xi.mean(axis=0))
        expected = self.problem.source.expected(self.problem.family, self.problem.rounds)
        return np.tile(expected, self.columns.clean // self.columns.components)

    def advance(self, t: int) -> Floats:
        """Take round t and return the sums of squares (3, columns)."""
        now = self.problem.law.at(t)
        if self.problem.law.online and t > 1:
            self.read(t)
        matrix = self.problem.network.at(max(t, 1))
        if self.weight is not None:
            self.weight = _advance_weight(matrix, now, self.weight, t)
        before = self.spare[1] if now.recall else self.nu
        out = self.spare[0]
        _kernel(
            matrix, now, self.nu, before, out, self.xi, self.columns, t, self.key,
            self._scales(now, t), self.weight, self.mass, self.target, self.squares,
        )  # fmt: skip
        self._turn(out, recalls=self.problem.law.at(t + 1).recall != 0)
        return np.asarray(self.squares.sum(axis=0))

    def _turn(self, out: Floats, recalls: bool) -> None:
        """Make `out` the present; keep the past only for a law that will recall it."""
        if not recalls:
            self.spare = [self.nu]
        elif len(self.spare) == 1:
            self.spare = [np.empty_like(out), self.nu]
        else:
            self.spare = [self.spare[1], self.nu]
        self.nu = out

    def _scales(self, now: Coefficients, t: int) -> tuple[Floats, ...]:
        """network, per_network, signal, per_signal, per_edge of this round."""
        agents = self.problem.network.size
        if self.calibration is None or not (now.noise or now.edge):
            blank = np.zeros(self.columns.private)
            return np.empty(0), blank, np.empty((agents, 1)), blank, blank
        return (
            self.calibration.network,
            self.calibration.per_network(self.epsilons, t),
            self.signal,
            self.calibration.per_signal(self.epsilons, t),
            self.calibration.per_edge(self.epsilons),
        )

    def estimates(self, rows: list[int] | slice) -> Floats:
        """The estimates held now by some agents: the ratio, for a ratio law."""
        if self.weight is None:
            return self.nu[rows]
        weight = self.weight[rows]
        return np.divide(self.nu[rows], weight, out=np.zeros_like(self.nu[rows]), where=weight > 0)


def simulate(
    problem: Problem,
    record: Record | None = None,
    progress: Progress | None = None,
    calibration: Calibration | None = None,
) -> Trace:
    """Run a problem and measure it.

    The result is a function of the problem alone: not of the number of threads, nor of what is
    recorded, nor of how many other epsilons or replicas share the run. A `calibration` of one's own
    takes the place of the one that the problem's protection asks for.
    """
    record = record or Record()
    horizon = problem.horizon or problem.rounds
    calibration = calibration or calibrate(
        problem.want, problem.law, problem.family, problem.network, horizon
    )
    run = _Run(problem, record, calibration, Columns.of(problem))
    rows, kept = record.rows(problem.network.labels), record.rounds(problem.rounds)
    sums, stored = [], []
    for t in range(problem.rounds + 1):
        sums.append(run.advance(t))
        if t in kept:
            stored.append(run.estimates(rows).copy())
        if progress is not None:
            progress(t, problem.rounds)
    return assemble(
        problem, run.columns, calibration, run.target, np.array(sums), kept, rows, stored,
        held=run.estimates(slice(None)),
    )  # fmt: skip


def _noise_seed(seed: int) -> int:
    """Seed of the noise, apart from the seed of the signals."""
    return int(np.random.SeedSequence([seed, 0x6E6F6973]).generate_state(1, np.uint64)[0])


def _advance_weight(matrix: Any, now: Coefficients, weight: Floats, t: int) -> Floats:
    """The weight of a ratio law obeys the law of the sum with xi = 1 and d = 0."""
    alone = Coefficients(now.keep, now.mix, now.recall, now.learn)
    columns = Columns(1, 1, 0, np.zeros(1, np.uint64), np.empty(0, np.uint64))
    agents, out = weight.shape[0], np.empty_like(weight)
    blank = np.empty(0)
    _kernel(
        matrix, alone, weight, weight, out, np.ones((agents, 1)), columns, t, noise.key_of(0),
        (blank, blank, np.empty((agents, 1)), blank, blank), None, blank, np.zeros(1),
        np.empty((-(-agents // BLOCK), 3, 1)),
    )  # fmt: skip
    return out


def _kernel(
    matrix: Any, now: Coefficients, nu: Floats, before: Floats, out: Floats, xi: Floats,
    columns: Columns, t: int, key: NDArray[np.uint64], scales: tuple[Floats, ...],
    weight: Floats | None, mass: Floats, target: Floats, squares: Floats,
) -> None:  # fmt: skip
    """Call the compiled round; it is imported here because compiling is slow to start."""
    from murmura.engine.kernel import advance_all, threads_for

    divisor = np.empty(0) if weight is None else weight[:, 0]
    with threads_for(nu.size):
        cast(Any, advance_all)(
            matrix.indptr.view(np.uint32), matrix.indices.view(np.uint32), matrix.data,
            tuple(map(float, now)), nu, before, out, xi, columns.twin, columns.streams, t, key,
            *scales, divisor, mass, target, BLOCK, squares,
        )  # fmt: skip
