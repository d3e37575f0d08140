"""Where the work of `run` and `sweep` is done: here, in several processes, or over MPI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from murmura.errors import CommandError


class Engine(StrEnum):
    """Who computes."""

    LOCAL = "local"
    MPI = "mpi"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="mpi: all ranks that mpiexec started work together.")
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Processes that share the runs.")]
Every = Annotated[
    int | None,
    typer.Option("--checkpoint-every", min=1, help="Rounds between checkpoints (--engine mpi)."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from what an earlier run left in OUT.")
]


@dataclass(frozen=True)
class Means:
    """The choices above."""

    engine: Engine = Engine.LOCAL
    jobs: int = 1
    every: int | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        """Refuse choices that do not go together."""
        if self.engine is Engine.MPI and self.jobs > 1:
            raise CommandError("--jobs is for one machine; with --engine mpi, mpiexec -n says it")
        if self.every is not None and self.engine is not Engine.MPI:
            raise CommandError("--checkpoint-every needs --engine mpi")

    def check_resume(self) -> None:
        """Refuse to resume where nothing was kept: it would be another run, over the first."""
        if self.resume and self.engine is not Engine.MPI and self.jobs == 1:
            raise CommandError(
                "--resume takes up what --engine mpi or --jobs kept; a run in one process keeps "
                "nothing: leave --resume out, and it goes to a folder of its own"
            )

    def hush(self) -> None:
        """Let one process print, if there are several."""
        if self.engine is Engine.MPI:
            from murmura import cluster

            cluster.hush(cluster.world())

    @contextmanager
    def together(self) -> Iterator[None]:
        """What one process raises in here, all of them raise."""
        if self.engine is not Engine.MPI:
            yield
            return
        from murmura import cluster

        with cluster.together(cluster.world()):
            yield

    @contextmanager
    def at_work(self, directory: Path) -> Iterator[bool]:
        """Whether this process leads: it alone prints and writes files."""
        if self.engine is not Engine.MPI:
            yield True
            return
        from murmura import cluster

        comm = cluster.world()
        keeps = self.every is not None or self.resume
        with cluster.session(comm, self.checkpoints(directory) if keeps else None):
            yield comm.rank == 0

    def checkpoints(self, directory: Path) -> Path:
        """Where checkpoints are kept."""
        return directory / "checkpoints"

    def of_run(self, directory: Path, name: str) -> dict[str, Any]:
        """What a job's `run` needs to know."""
        if self.engine is not Engine.MPI:
            return {}
        keeps = self.every is not None or self.resume
        folder = self.checkpoints(directory) / name if keeps else None
        return {
            "engine": "mpi", "checkpoint": folder, "every": self.every, "resume": self.resume
        }  # fmt: skip
