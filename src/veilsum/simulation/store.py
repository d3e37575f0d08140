"""The resume store: files from which an interrupted run or sweep continues.

Checkpoints of a run (`mpi.runner`) and finished tasks of a sweep (`TaskCache`, also behind
`veilsum run --jobs`) are arrays in .npz files. A file is written aside, brought to disk and renamed,
so that it is complete or absent, and it is found by a fingerprint of everything that its numbers
follow from, so that it is never mistaken for that of another problem. Estimates without noise are
among the arrays: nothing computed from measured signals is stored.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import VeilsumError
from veilsum.simulation.describe import exactly
from veilsum.simulation.problem import Problem
from veilsum.simulation.recording import Trace
from veilsum.simulation.seeds import network_text, schedule_mark

if TYPE_CHECKING:
    from veilsum.simulation.mpi.sweeps import Task

Stamp = tuple[int, int]  # the length of a file and its checksum
ALL_ROWS = -1  # stands for rows of all agents


def contents(problem: Problem, owner: str = "this run", **more: Any) -> list[str]:
    """What a problem and `more` are made of, by value; raise if that cannot be read."""
    names = ("algorithm", "family", "source", "privacy")
    parts = {name: getattr(problem, name) for name in names} | more
    return [exactly(part, f"the {name} of {owner}") for name, part in parts.items()]


def fingerprint(problem: Problem, described: list[str], schedule: int) -> str:
    """A hash of all that the numbers of a run follow from.

    `described` comes from `contents`, and `schedule` is the mark of the weights of all rounds
    (`seeds.schedule_mark`), which is the same on any number of ranks.
    """
    counts = (
        problem.rounds, problem.epsilons, problem.replicas, int(problem.seed), problem.horizon
    )  # fmt: skip
    text = [*described, network_text(problem.network), f"{schedule:x}", repr(counts)]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def write(path: Path, content: bytes) -> Stamp:
    """Write a file aside, bring it to disk and rename it: it is complete or absent."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    return len(content), zlib.crc32(content)


def write_arrays(path: Path, arrays: dict[str, Any]) -> Stamp:
    """Write arrays as .npz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return write(path, buffer.getvalue())


def read_arrays(path: Path, stamp: Stamp | None = None) -> dict[str, NDArray[Any]]:
    """Read arrays from .npz; raise if the file is not the one of the stamp."""
    content = path.read_bytes()
    if stamp is not None and (len(content), zlib.crc32(content)) != tuple(stamp):
        raise VeilsumError(
            f"{path} is damaged: it is not what was written; delete {path.parent}, and resuming "
            "continues from the checkpoint before it"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


class TaskCache:
    """A folder with the trace of every finished task of a sweep, one .npz file each."""

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is made when the first trace is stored."""
        self.folder = folder

    def check(self, task: Task) -> None:
        """Raise unless the task's trace may be stored and found again."""
        if task.problem.source.measured:
            raise VeilsumError(
                f"task {task.name!r} runs on measured signals: its estimates without noise are "
                "written to no file; sweep it without a folder to resume from"
            )
        self._contents(task)

    def get(self, task: Task) -> Trace | None:
        """The trace of a task that was finished earlier; None if it is absent or damaged."""
        path = self._path(task)
        if not path.is_file():
            return None
        try:
            return _trace(read_arrays(path))
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, task: Task, trace: Trace) -> None:
        """Store the trace of a finished task."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_arrays(self._path(task), _arrays(trace))

    def _contents(self, task: Task) -> list[str]:
        return contents(task.problem, f"task {task.name!r}", record=task.record)

    def _path(self, task: Task) -> Path:
        problem = task.problem
        mark = schedule_mark(problem.network, problem.rounds)
        name = fingerprint(problem, [task.name, *self._contents(task)], mark)
        return self.folder / f"{name[:32]}.npz"


def _arrays(trace: Trace) -> dict[str, Any]:
    values = {f.name: getattr(trace, f.name) for f in fields(trace)}
    values["rows"] = ALL_ROWS if isinstance(trace.rows, slice) else trace.rows
    return {name: value for name, value in values.items() if value is not None}


def _trace(arrays: dict[str, Any]) -> Trace:
    absent = dict.fromkeys(("private", "noiseless", "final"))
    rows = arrays["rows"].tolist()
    plain = {
        "rows": slice(None) if rows == ALL_ROWS else rows,
        "statistic_gain": float(arrays["statistic_gain"]),
        "recorded_rounds": arrays["recorded_rounds"].tolist(),
    }
    return Trace(**{**absent, **arrays, **plain})
