"""The runner: one loop over rounds and one assembly of traces, for every backend.

All replicas and epsilons of a problem advance together. The result is a function of the problem
alone: not of the number of threads or ranks, nor of what is recorded, nor of how many other
replicas are run with it. Nor of other epsilons, to rounding: three or more are computed by linearity
(`linear`), whose numbers are within 1e-12 of those of one epsilon alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from veilsum import _extras
from veilsum._types import Floats
from veilsum.algorithms.table import response
from veilsum.privacy import Plan
from veilsum.simulation.backend import Backend, LocalBackend
from veilsum.simulation.cost import check_cost
from veilsum.simulation.problem import Problem
from veilsum.simulation.recording import Record, Trace, join
from veilsum.simulation.workers import Workers

if TYPE_CHECKING:
    from veilsum.simulation.run import Run

Progress = Callable[[int, int], None]

PART = 1_000_000  # agents


def simulate(
    problem: Problem,
    record: Record | None = None,
    progress: Progress | None = None,
    plan: Plan | None = None,
) -> Trace:
    """Run a problem in this process and measure it.

    Parameters
    ----------
    problem
        What to run.
    record
        Which estimates to record; by default the final ones of all agents.
    progress
        Called with (round, rounds) after every round.
    plan
        Noise scales that replace `problem.plan`.

    Returns
    -------
    Trace
        Error norms of every round, and what `record` asks for.

    Raises
    ------
    CostError
        If the run does not fit into memory.
    VeilsumError
        If `record` names agents that the network does not have.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Normal(sigma=1.0)
    >>> problem = Problem(
    ...     vs.networks.metropolis("ring:9"), vs.algorithms.Average(), family,
    ...     vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1),
    ...     vs.privacy.SignalDP(epsilon=1.0), rounds=50,
    ... )
    >>> trace = simulate(problem, Record(every=25))
    >>> trace.recorded_rounds, trace.private.shape
    ([0, 25, 50], (3, 9, 1, 1, 1))
    """
    _extras.require("a simulation", "sim")
    record = record or Record()
    if plan is None:
        _ = problem.plan  # once for all independent runs
    *others, last = problem.independent_runs
    traces = [_simulate(part, record, None, plan) for part in others]
    return join([*traces, _simulate(last, record, progress, plan)])


def _simulate(
    problem: Problem, record: Record, progress: Progress | None, plan: Plan | None
) -> Trace:
    """Run all columns of a problem that may share noise."""
    check_cost(problem, record)
    return run_rounds(LocalBackend(problem), record, progress, plan)


class Checkpoints(Protocol):
    """Where the state of a run is saved."""

    def load(self, state: RankState) -> int:
        """Restore the newest checkpoint; return the round to continue with, 0 if there is none."""

    def save(self, state: RankState, t: int) -> None:
        """Save the state after round t, if a checkpoint is due."""


class RankState:
    """What one process has of a run: its estimates, its sums of squares, the recorded estimates."""

    def __init__(self, run: Run, rows: list[int] | slice, rounds: list[int]) -> None:
        """Record the estimates of `rows` after each of `rounds`."""
        self.run, self.rows, self.recorded_rounds = run, rows, rounds
        self.located = run.backend.locate(rows)
        self.sums: list[Floats] = []  # of this process, by span
        self.earlier: list[Floats] = []  # of all processes, of the rounds before a checkpoint
        self.recorded: list[Floats] = []

    def add(self, t: int, sums: Floats) -> None:
        """Add the sums of squares of the rounds up to t, and record round t if it is asked for."""
        self.sums.append(sums)
        if t in self.recorded_rounds:
            self.recorded.append(self.run.estimates(self.located.rows))

    def reduced(self) -> Floats:
        """(rounds so far, 3, columns): sums over all agents, one reduction for all rounds."""
        fresh = [self.run.backend.total(np.concatenate(self.sums))] if self.sums else []
        return np.concatenate([*self.earlier, *fresh])


def run_rounds(
    backend: Backend,
    record: Record,
    progress: Progress | None = None,
    plan: Plan | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trace:
    """Take all rounds of a backend's problem: the loop of every run."""
    from veilsum.simulation.linear import run_of  # here, because loading the compiler takes a while

    problem = backend.problem
    with backend.together():
        rows = record.rows(problem.network.labels)
    with Workers(backend.threads) as workers:
        run = run_of(backend, workers, plan)
        state = RankState(run, rows, record.rounds(problem.rounds))
        start = 0 if checkpoints is None else checkpoints.load(state)
        spans = _spans(start, problem.rounds, state.recorded_rounds, run.rounds_at_once)
        for first, last, sums in run.advance(spans):
            state.add(last - 1, sums)
            if checkpoints is not None:
                checkpoints.save(state, last - 1)
            if progress is not None and backend.leads:
                for t in range(first, last):
                    progress(t, problem.rounds)
    return assemble(state)


def _spans(start: int, rounds: int, recorded: list[int], most: int) -> list[tuple[int, int]]:
    """Rounds start..rounds cut into first..last-1: at most `most`, recorded ones at the ends."""
    ends = {t + 1 for t in recorded} | {rounds + 1}
    spans, first = [], start
    for t in range(start + 1, rounds + 2):
        if t in ends or t - first == most:
            spans.append((first, t))
            first = t
    return spans


def assemble(state: RankState) -> Trace:
    """The trace of a run whose rounds are done: the only place where one is made."""
    run, backend, sums = state.run, state.run.backend, state.reduced()
    problem, layout, n = backend.problem, run.layout, backend.problem.network.size
    d, e, r, first = (
        layout.components,
        len(problem.run_epsilons),
        problem.replicas,
        layout.noiseless,
    )
    shape = (e, r, d) if e else (1, -1, d)
    norms = np.sqrt(sums[:, :2, first:].reshape(len(sums), 2, e, r, d).sum(axis=-1))
    noiseless = np.sqrt(sums[:, 0, :first].reshape(len(sums), -1, d).sum(axis=-1))
    recording = bool(state.recorded_rounds)
    every = backend.locate(slice(None)) if recording else None
    estimates = run.estimates(None if every is None else every.rows)
    estimates = estimates[:, first:] if e else estimates
    mean = backend.total(estimates.sum(axis=0)) / n
    apart = backend.total(_squares(estimates, mean)) / n
    if problem.algorithm.summed:  # all alike, where the mean is off by a last digit
        apart = np.zeros_like(apart)
    final = None if every is None else backend.gather(every, estimates)
    recorded = [backend.gather(state.located, values) for values in state.recorded]
    there = [values for values in recorded if values is not None]
    both = np.stack(there) if there else None
    return Trace(
        total=norms[:, 0],
        privacy=norms[:, 1],
        decentralisation=noiseless,
        target=run.target.reshape(-1, d),
        recorded_rounds=state.recorded_rounds,
        rows=state.rows,
        private=None if both is None else both[..., first:].reshape(*both.shape[:2], e, r, d),
        noiseless=None if both is None else both[..., :first].reshape(*both.shape[:2], -1, d),
        final=None if final is None else final.reshape(n, *shape),
        mean=mean.reshape(shape),
        disagreement=apart.reshape(shape),
        noise_variance=_noise_variance(run, sums[:, 2, first:]),
        statistic_gain=_statistic_gain(run),
    )


def _squares(estimates: Floats, mean: Floats) -> Floats:
    """The sum over agents of (estimate - mean)^2, without a copy of all of them at once."""
    total = np.zeros(len(mean))
    for k in range(0, len(estimates), PART):
        apart = estimates[k : k + PART] - mean
        apart *= apart
        total = total + apart.sum(axis=0)
    return total


def _statistic_gain(run: Run) -> float:
    """Variance of the mean estimate per variance of xi: sum over agents of mass^2, times

    (sum of gains)^2 where all rounds use one signal, sum of gains^2 readings where each has its own.
    """
    problem, mass = run.backend.problem, run.backend.mass
    gains = response(problem.algorithm, problem.rounds).statistic
    counts = np.array([problem.algorithm.readings(t) for t in range(problem.rounds + 1)])
    rounds = (gains**2 @ counts) if problem.algorithm.online else gains.sum() ** 2
    return float(rounds * run.backend.total(np.array([mass @ mass]))[0])


def _noise_variance(run: Run, scales: Floats) -> Floats:
    """Variance of the mean estimate that comes from noise: 2 b^2 of every draw, times its gain^2."""
    problem, layout = run.backend.problem, run.layout
    if not run.plan.privacy.adds_noise:
        return np.zeros((1, layout.noiseless // layout.components, layout.components))
    gains = response(problem.algorithm, problem.rounds)
    if run.plan.perturbs_input:
        scales = _perturbation_scales(run)
    own = np.einsum("t,tc->c", gains.noise**2, 2 * scales)
    links = 2 * run.plan.per_edge(layout.epsilons) ** 2
    shape = (len(problem.run_epsilons), problem.replicas, layout.components)
    return np.asarray(own + links * _link_gain(run.backend, gains.link_noise)).reshape(shape)


def _perturbation_scales(run: Run) -> Floats:
    """(rounds + 1, private columns): the sum over agents of mass^2 b^2, 2 b^2 the variance of d_t.

    Of M(xi) the worst variance counts, which is public.
    """
    problem, mass = run.backend.problem, run.backend.mass
    squares = run.backend.total(np.array([mass @ mass]))[0]
    found = np.zeros((problem.rounds + 1, run.layout.private))
    known: dict[tuple[float, float], Floats] = {}
    for t in range(problem.rounds + 1):
        if problem.algorithm.at(t).noise:
            asked = problem.algorithm.sensitivities(t).signal, run.plan.relative(t)
            if asked not in known:
                epsilons = np.array(problem.run_epsilons)
                b = run.plan.sensitivity * run.plan.per_signal(epsilons, t)
                known[asked] = np.repeat(b, run.layout.private // len(b))
            found[t] = squares * known[asked] ** 2
    return found


def _link_gain(backend: Backend, gains: Floats) -> float:
    """sum over rounds of gain^2 sum_ij (mass_i a_ij)^2: what unit noise on links adds to the mean."""
    rounds = np.flatnonzero(gains)
    if not len(rounds):
        return 0.0
    mass, here, squares = backend.mass, 0.0, np.empty(0)
    for t in rounds.tolist():
        if backend.problem.network.dynamic or not squares.size:
            squares = backend.squared_weights(t)
        here += gains[t] ** 2 * float((mass**2 * squares).sum())
    return float(backend.total(np.array([here]))[0])
