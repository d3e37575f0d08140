"""The simulator: all replicas and epsilons of a run advance together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from murmura.engine.cost import check_cost
from murmura.engine.problem import Problem
from murmura.engine.record import Record
from murmura.engine.seeds import noise_key
from murmura.engine.trace import Trace, assemble, joined
from murmura.engine.workers import Workers, threads
from murmura.privacy import Calibration, calibrate

Progress = Callable[[int, int], None]


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
    *before, last = problem.apart
    traces = [_simulated(part, record, None, calibration) for part in before]
    return joined([*traces, _simulated(last, record, progress, calibration)])


def _simulated(
    problem: Problem,
    record: Record | None,
    progress: Progress | None,
    calibration: Calibration | None,
) -> Trace:
    """Run all columns of a problem that may share noise."""
    from murmura.engine.run import Run  # here, because loading the compiler takes a while

    record = record or Record()
    check_cost(problem, record)
    horizon = problem.horizon or problem.rounds
    key = noise_key(problem, calibration=calibration)
    calibration = calibration or calibrate(
        problem.want, problem.law, problem.family, problem.network, horizon
    )
    rows, kept = record.rows(problem.network.labels), record.rounds(problem.rounds)
    sums, stored = [], []
    with Workers(threads()) as workers:
        run = Run(problem, calibration, workers, key)
        spans = _spans(problem.rounds, kept, run.most)
        reading = run.feed.start(*spans[0], workers)
        for (first, last), then in zip(spans, [*spans[1:], None], strict=True):
            started = run.begin(first, last, run.feed.take(reading, first, last))
            reading = run.feed.start(*then, workers) if then else []
            sums.append(run.finish(started))
            if last - 1 in kept:
                stored.append(run.estimates(rows))
            if progress is not None:
                for t in range(first, last):
                    progress(t, problem.rounds)
    return assemble(
        problem, run.layout.columns, calibration, run.target, np.concatenate(sums), kept, rows,
        stored, held=run.estimates(slice(None) if stored else None),
    )  # fmt: skip


def _spans(rounds: int, kept: list[int], most: int) -> list[tuple[int, int]]:
    """Rounds 0..rounds cut into first..last-1: at most so many, each kept one the last of its."""
    ends = {t + 1 for t in kept} | {rounds + 1}
    spans, first = [], 0
    for t in range(1, rounds + 2):
        if t in ends or t - first == most:
            spans.append((first, t))
            first = t
    return spans
