"""Where outputs go: never over earlier ones unseen, and what an interrupted sweep has finished."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from murmura.errors import CommandError

if TYPE_CHECKING:
    from murmura.cluster.sweeps import Task

MARK = "summary.json"  # what a folder with results has
TASKS = "tasks"  # the folder of finished tasks, inside the one of the outputs
Force = Annotated[bool, typer.Option("--force", help="Replace earlier results in OUT.")]


def fresh_directory(
    asked: Path | None, usual: Path, force: bool = False, resume: bool = False
) -> Path:
    """The folder for outputs: the one asked for, or the usual one, with a number if it is taken.

    Earlier results in a folder that was asked for are an error, unless `force` replaces them or
    `resume` goes on there.
    """
    if force or resume:
        return asked or usual
    if asked is None:
        numbered = (usual.with_name(f"{usual.name}-{k}") for k in count(2))
        return usual if not _taken(usual) else next(path for path in numbered if not _taken(path))
    if _taken(asked):
        raise CommandError(
            f"{asked} holds the results of an earlier run ({MARK}); choose another --out, or "
            "replace them with --force"
        )
    return asked


@contextmanager
def kept_tasks(directory: Path, resume: bool, unkept: bool = False) -> Iterator[Path | None]:
    """The folder of a sweep's finished tasks: emptied first unless it resumes, gone in the end.

    What an interruption leaves there, --resume takes up. Nothing is kept of measured signals.
    """
    folder = directory / TASKS
    if unkept and not resume:
        yield None
        return
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    yield folder
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)


def parts_of(task: Task, folder: Path | None, fine: bool) -> list[Task]:
    """One task per epsilon if `fine`, for processes to share; else one for all of them together.

    Together they are faster in one process, for they share their draws. What was finished that way
    is taken up whole.
    """
    from murmura.cluster.shelf import Shelf
    from murmura.cluster.sweeps import apart

    together = folder is not None and Shelf(folder).get(task) is not None
    return apart(task) if fine and not together else [task]


def _taken(path: Path) -> bool:
    return (path / MARK).exists()
