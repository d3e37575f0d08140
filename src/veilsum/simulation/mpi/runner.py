"""engine="mpi": the simulator on several processes, with the numbers of one.

    mpiexec -n 4 python study.py         every rank makes the same problem and calls `simulate`

Estimates are those of one process bit for bit on any number of ranks; norms over agents are added
in another order, and agree to rounding. One exception agrees to rounding in everything: a sweep of
three or more epsilons under Network DP with smooth sensitivity as published, which one process
computes by linearity (`simulation.linear`) and ranks epsilon by epsilon.

A checkpoint is the state of every rank after a round, complete or absent:

    folder/round-00000040/part-00000.npz ...     one per rank
    folder/round-00000040/manifest.json          written last, by rank 0, after all parts

A folder without a manifest is not a checkpoint. The manifest names the problem (a fingerprint), the
round and the length and checksum of each part, so that a damaged one, or one of another problem, is
never used. Parts hold estimates by agent: another number of ranks can resume from them. The last
two checkpoints are kept.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.errors import VeilsumError
from veilsum.simulation import Problem, Record, Trace, store
from veilsum.simulation.mpi.backend import MpiBackend
from veilsum.simulation.mpi.communicator import session, together, world
from veilsum.simulation.recording import join
from veilsum.simulation.runner import Progress, RankState, run_rounds

KEPT = 2
MANIFEST = "manifest.json"


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
    """Run a problem on all ranks of a communicator and measure it.

    Every rank must make the same call.

    Parameters
    ----------
    problem
        What to run, the same on every rank.
    record
        Which estimates to record; by default the final ones of all agents.
    progress
        Called with (round, rounds) on rank 0.
    comm
        The communicator; by default all ranks that were started.
    checkpoint
        A folder that all ranks can reach, where the state is saved.
    every
        The rounds between checkpoints.
    resume
        Continue from the newest complete checkpoint, on any number of ranks.
    method
        How agents are divided: "order", "metis", or "auto" (see `divide`).

    Returns
    -------
    Trace
        The errors of all agents on every rank; recorded estimates on rank 0 alone.

    Raises
    ------
    VeilsumError
        On every rank, if the options do not go together, signals are measured and checkpoints are
        asked for, or a checkpoint belongs to another problem.

    Examples
    --------
    In a script that `mpiexec -n 4 python script.py` starts, where all ranks make the same problem::

        trace = simulate(problem, checkpoint="saved", every=100)
    """
    comm = world() if comm is None else comm
    with together(comm):
        options = CheckpointOptions.of(problem, checkpoint, every, resume)
    with session(comm, None if options is None else options.folder):
        traces = []
        for part in problem.independent_runs:
            backend = MpiBackend(part, comm, method)
            saved = None if options is None else RankCheckpoints(options, backend)
            traces.append(run_rounds(backend, record or Record(), progress, checkpoints=saved))
        return join(traces)


@dataclass(frozen=True)
class CheckpointOptions:
    """Where and how often the state of a run is saved, and whether to resume from what is there."""

    folder: Path
    every: int | None = None
    resume: bool = False

    @staticmethod
    def of(
        problem: Problem, checkpoint: str | os.PathLike[str] | None, every: int | None, resume: bool
    ) -> CheckpointOptions | None:
        """Check the options of `simulate`, before anything is computed."""
        if checkpoint is None:
            if every is not None or resume:
                raise VeilsumError(
                    "checkpoints need a folder: give checkpoint=... beside every/resume"
                )
            return None
        if every is not None:
            _validate.at_least(VeilsumError, 1, every=every)
        if problem.source.measured:
            raise VeilsumError(
                "the signals are measured, and a checkpoint would hold estimates without noise, "
                "which are written to no file; run without checkpoints, or draw the signals"
            )
        store.contents(problem)
        return CheckpointOptions(Path(checkpoint), every, resume)


@dataclass(eq=False)
class RankCheckpoints:
    """The checkpoints of one run, as the runner uses them; every rank makes the same calls."""

    options: CheckpointOptions
    backend: MpiBackend
    _name: str = field(init=False, default="")

    def load(self, state: RankState) -> int:
        """Restore the newest checkpoint; return the round to continue with, 0 if there is none."""
        comm = self.backend.comm
        with together(comm):
            rows = None if isinstance(state.rows, slice) else state.rows
            described = store.contents(
                self.backend.problem, rows=rows, recorded_rounds=state.recorded_rounds,
                groups=state.run.layout.groups,
            )  # fmt: skip
        mark = self.backend.schedule_mark()
        self._name = store.fingerprint(self.backend.problem, described, mark)
        if not self.options.resume:
            return 0
        here = None
        with together(comm):
            if comm.rank == 0:
                here = newest(self.options.folder)
        found = comm.bcast(here)
        if found is None:
            return 0
        place, about = found
        with together(comm):
            if about["problem"] != self._name:
                raise VeilsumError(
                    f"{place} belongs to another problem: its network, algorithm, signals, "
                    "privacy, rounds, seed or record differ; choose another folder, or run "
                    "without resuming"
                )
            self._restore(place, about, state)
        return int(about["round"]) + 1

    def save(self, state: RankState, t: int) -> None:
        """Save the state after round t, if it is due; it counts once its manifest is there."""
        every, rounds = self.options.every, self.backend.problem.rounds
        if not every or not t or t % every or t >= rounds:
            return
        comm, folder = self.backend.comm, self.options.folder
        place = folder / f"round-{t:08d}"
        sums = state.reduced()
        with together(comm):
            place.mkdir(parents=True, exist_ok=True)
            if comm.rank == 0:
                (place / MANIFEST).unlink(missing_ok=True)
        with together(comm):
            parts = self._parts(state)
            if comm.rank == 0:
                parts["sums"] = sums
            stamp = store.write_arrays(place / _part(comm.rank), parts)
        stamps = comm.gather(stamp)
        with together(comm):
            if comm.rank == 0:
                about = {
                    "problem": self._name, "round": t, "recorded": len(state.recorded),
                    "parts": stamps,
                }  # fmt: skip
                store.write(place / MANIFEST, json.dumps(about, indent=2).encode())
                _delete_old(folder, t)

    def _parts(self, state: RankState) -> dict[str, Any]:
        run = state.run
        own = run.rows.own
        parts: dict[str, Any] = {"agents": run.rows.agents[:own], "slots": state.located.slots}
        for k, values in enumerate(run.states[0][::2]):  # the present and the past
            parts[f"state{k}"] = values[:own]
        if run.weight is not None:
            parts["weight"] = run.weight[0][:own]
        for k, values in enumerate(state.recorded):
            parts[f"recorded{k}"] = values
        return parts

    def _restore(self, place: Path, about: dict[str, Any], state: RankState) -> None:
        """Pick this rank's agents out of all parts, one part at a time."""
        run, slots = state.run, np.asarray(state.located.slots)
        mine = run.rows.agents[: run.rows.own]
        shape = (len(slots), run.layout.columns.size)
        state.recorded = [np.empty(shape) for _ in range(about["recorded"])]
        for rank, stamp in enumerate(about["parts"]):
            parts = store.read_arrays(place / _part(rank), tuple(stamp))
            here, there = _matched(mine, parts["agents"])
            for k, values in enumerate(run.states[0][::2]):
                values[here] = parts[f"state{k}"][there]
            if run.weight is not None:
                run.weight[0][here] = parts["weight"][there]
            here, there = _matched(slots, parts["slots"])
            for k, values in enumerate(state.recorded):
                values[here] = parts[f"recorded{k}"][there]
            if rank == 0:
                state.earlier = [parts["sums"]]


def newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint whose manifest is there, and its contents."""
    for place in sorted(folder.glob("round-*"), reverse=True):
        if (place / MANIFEST).is_file():
            return place, json.loads((place / MANIFEST).read_text())
    return None


def _matched(mine: NDArray[Any], theirs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    _, here, there = np.intersect1d(
        mine.astype(np.int64), theirs.astype(np.int64), assume_unique=True, return_indices=True
    )
    return here, there


def _part(rank: int) -> str:
    return f"part-{rank:05d}.npz"


def _delete_old(folder: Path, t: int) -> None:
    """Delete all checkpoints up to round t but the last two, and what was never finished."""
    places = [p for p in sorted(folder.glob("round-*")) if p.name <= f"round-{t:08d}"]
    complete = [p for p in places if (p / MANIFEST).is_file()]
    for place in places:
        if place not in complete[-KEPT:]:
            shutil.rmtree(place)
