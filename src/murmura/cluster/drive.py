"""engine="mpi": the simulator on several processes, with the numbers of one.

    mpiexec -n 4 python study.py         every rank makes the same problem and calls `simulate`

Estimates are the one-machine simulator's bit for bit on any number of ranks, as far as its sums
are taken in the same order; norms over agents are added in another order, and agree to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from murmura import _validate
from murmura.cluster import checkpoint as store
from murmura.cluster.collect import assembled
from murmura.cluster.comm import together, world
from murmura.cluster.ground import Ground, Whole
from murmura.cluster.held import Held
from murmura.cluster.network import DistributedNetwork
from murmura.cluster.run import Run
from murmura.cluster.watch import session
from murmura.engine import Problem, Record, Trace
from murmura.engine.simulate import Progress
from murmura.engine.trace import joined
from murmura.errors import MurmuraError


def simulate(
    problem: Problem,
    record: Record | None = None,
    progress: Progress | None = None,
    comm: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = False,
    method: str = "auto",
) -> Trace:
    """Run a problem on all ranks of `comm` (by default all that were started) and measure it.

    Every rank must call it with the same problem. The trace that a rank returns has the errors of
    all agents; recorded estimates are gathered in rank 0's. `progress` is told on rank 0.

    With `checkpoint`, a folder that all ranks can reach, the state is kept after every `every`
    rounds; with `resume` the run goes on from the newest complete one there, on as many ranks as
    you like. `method` says how agents are divided: "order", "metis", or what is installed.
    """
    comm = world() if comm is None else comm
    with together(comm):
        folder = _folder(problem, checkpoint, every, resume)
    with session(comm, folder):
        keeping, kept = (folder, every, resume), record or Record()
        parts = problem.apart
        return joined([_simulated(p, kept, progress, comm, keeping, method) for p in parts])


def _simulated(
    problem: Problem, record: Record, progress: Progress | None, comm: Any,
    keeping: tuple[Path | None, int | None, bool], method: str,
) -> Trace:  # fmt: skip
    folder, every, resume = keeping
    with together(comm):
        rows = _recorded(record, problem.network.labels)
    # a law that reads the spectrum may differ in its last digit from rank to rank, and a seed from
    # the operating system differs in all
    problem = replace(problem, law=comm.bcast(problem.law), seed=comm.bcast(problem.seed))
    ground = _ground(problem, comm, method)
    run = Run(problem, ground, comm)
    held = Held(run, rows, record.rounds(problem.rounds))
    asked = None if isinstance(rows, slice) else rows
    name = store.fingerprint(problem, ground, comm, asked, held.kept) if folder else ""
    first = 0
    if folder and resume:
        first = store.load(folder, name, held)
    for t in range(first, problem.rounds + 1):
        held.take(t)
        if folder and every and t and t % every == 0 and t < problem.rounds:
            store.save(folder, name, t, held)
        if progress is not None and comm.rank == 0:
            progress(t, problem.rounds)
    return assembled(run, held.reduced(), held.kept, rows, held.gathered())


def _folder(problem: Problem, checkpoint: Any, every: int | None, resume: bool) -> Path | None:
    if checkpoint is None:
        if every is not None or resume:
            raise MurmuraError("checkpoints need a folder: give checkpoint=... beside every/resume")
        return None
    if every is not None:
        _validate.at_least(MurmuraError, 1, every=every)
    if problem.source.measured:
        raise MurmuraError(
            "the signals are measured, and a checkpoint would hold estimates without noise, which "
            "reach no file; run without checkpoints, or draw the signals"
        )
    store.contents(problem)  # raises here, before anything is computed
    return Path(checkpoint)


def _ground(problem: Problem, comm: Any, method: str) -> Ground:
    held = isinstance(problem.network, DistributedNetwork)
    return problem.network if held else Whole(problem.network, comm, method)


def _recorded(record: Record, labels: Sequence[Hashable]) -> list[int] | slice:
    """The rows that are kept; of labels that are 0 .. n-1, no table of all is made."""
    if record.agents is None or not isinstance(labels, range):
        return record.rows(labels)
    inside = [isinstance(a, int | np.integer) and a in labels for a in record.agents]
    return [int(a) for a in record.agents] if all(inside) else record.rows(labels)  # type: ignore[call-overload]
