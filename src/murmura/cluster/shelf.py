"""Finished tasks of a sweep as files, so that a sweep that was stopped does not start over."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from murmura.engine import Trace
from murmura.engine.describe import exactly
from murmura.engine.seeds import network_text, schedule_mark

if TYPE_CHECKING:
    from murmura.cluster.sweeps import Task

_ALL = -1  # stands for rows of all agents


class Shelf:
    """A folder with one .npz per finished task, named after all that its numbers follow from."""

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is made when the first task is put there."""
        self.folder = folder

    def get(self, task: Task) -> Trace | None:
        """The trace of a task that was finished before; None if there is none, or it is torn."""
        path = self._path(task)
        if not path.is_file():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                return _unpacked({key: file[key] for key in file.files})
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, task: Task, trace: Trace) -> None:
        """Keep a trace: written aside and renamed, so that it is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(task)
        buffer = io.BytesIO()
        np.savez(buffer, **_packed(trace))
        aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        aside.write_bytes(buffer.getvalue())
        aside.replace(path)

    def _path(self, task: Task) -> Path:
        return self.folder / f"{_name(task)}.npz"


def _name(task: Task) -> str:
    problem, network = task.problem, task.problem.network
    said = [task.name, network_text(network), schedule_mark(network, problem.rounds)]
    said += [problem.rounds, problem.epsilons, problem.replicas, int(problem.seed), problem.horizon]
    return hashlib.sha256(repr([*said, *contents(task)]).encode()).hexdigest()[:32]


def contents(task: Task) -> list[str]:
    """What the parts of a task are made of; raise if one of them cannot be told from others."""
    names = ("law", "family", "source", "want")
    parts = {name: getattr(task.problem, name) for name in names} | {"record": task.record}
    return [exactly(part, f"the {name} of task {task.name!r}") for name, part in parts.items()]


def _packed(trace: Trace) -> dict[str, Any]:
    values = {f.name: getattr(trace, f.name) for f in fields(trace)}
    values["rows"] = _ALL if isinstance(trace.rows, slice) else trace.rows
    return {name: value for name, value in values.items() if value is not None}


def _unpacked(parts: dict[str, Any]) -> Trace:
    absent = dict.fromkeys(("private", "clean", "final"))
    rows = parts["rows"].tolist()
    share, kept = float(parts["statistic_share"]), parts["kept"].tolist()
    plain = {"rows": slice(None) if rows == _ALL else rows, "statistic_share": share, "kept": kept}
    return Trace(**{**absent, **parts, **plain})
