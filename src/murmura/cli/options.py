"""Arguments and options that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from murmura.errors import CommandError

MARKER = "summary.json"  # a folder with this file contains results


class Engine(StrEnum):
    """The engines of --engine."""

    LOCAL = "local"
    MPI = "mpi"


File = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, in TOML.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for outputs.", show_default="murmura-out/NAME")
]
Force = Annotated[bool, typer.Option("--force", help="Replace earlier results in OUT.")]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**63 - 1, help="Replaces the seed of the scenario.")
]
Replicas = Annotated[
    int | None, typer.Option(min=1, max=2**16 - 1, help="Replaces the replicas of the scenario.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse guarantees that are not proved.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Draw no figures.")]
Evaluate = Annotated[
    bool,
    typer.Option(
        "--evaluate", help="For measured signals: compare with the truth, in secret files."
    ),
]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="mpi: the ranks that mpiexec started share the work.")
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Processes that share the runs.")]
CheckpointEvery = Annotated[
    int | None,
    typer.Option("--checkpoint-every", min=1, help="Rounds between checkpoints (--engine mpi)."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from what an interrupted run left in OUT.")
]


def output_folder(
    out: Path | None, default: Path, force: bool = False, resume: bool = False
) -> Path:
    """The folder for outputs: `out`, or the default one, numbered if it contains results.

    Results in `out` are an error, unless `force` replaces them or `resume` continues there.
    """
    if force or resume:
        return out or default
    if out is None:
        numbered = (default.with_name(f"{default.name}-{k}") for k in count(2))
        return next(path for path in chain([default], numbered) if not _has_results(path))
    if _has_results(out):
        raise CommandError(
            f"{out} contains the results of an earlier run ({MARKER}); choose another --out, or "
            "replace them with --force"
        )
    return out


def _has_results(path: Path) -> bool:
    return (path / MARKER).exists()
