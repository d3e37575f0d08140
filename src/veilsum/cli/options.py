"""Arguments and options that several verbs share."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import Annotated

import typer

from veilsum.errors import CommandError

PAGES = {"agent": "127.0.0.1:8080"}  # where --page without an address serves it
FLEET_PAGE = "127.0.0.1:8090"  # of the other verbs
MARKER = "summary.json"  # a folder with this file contains results


class Engine(StrEnum):
    """The engines of --engine."""

    LOCAL = "local"
    MPI = "mpi"


KeysFolder = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        envvar="VEILSUM_KEYS",
        metavar="FOLDER",
        help="Where the keys are, whatever the file says; such as what a service manager provides.",
    ),
]
File = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, in TOML.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for outputs.", show_default="veilsum-out/NAME")
]
Force = Annotated[bool, typer.Option("--force", help="Replace earlier outputs.")]
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
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Write one page to read as well: answer, picture, guarantee."),
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

PageFor = Annotated[
    float | None,
    typer.Option("--page-for", min=0, help="Seconds that the page stays after the run.",
                 show_default="until Ctrl-C"),
]  # fmt: skip


def with_page_address(args: list[str]) -> list[str]:
    """The arguments of a command line, with an address behind each --page that has none.

    Examples
    --------
    >>> with_page_address(["up", "feeder.toml", "--page", "--json"])
    ['up', 'feeder.toml', '--page', '127.0.0.1:8090', '--json']
    >>> with_page_address(["agent", "--page", "[::1]:8000"])
    ['agent', '--page', '[::1]:8000']
    """
    default, found = PAGES.get(next(iter(args), ""), FLEET_PAGE), []
    for arg, after in zip_longest(args, args[1:], fillvalue=""):
        found.append(arg)
        if arg == "--page" and not re.fullmatch(r".+:[0-9]+", after):
            found.append(default)
    return found


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


def page_file(path: Path, force: bool = False) -> Path:
    """The path of a page to write; one that exists is replaced with `force` only."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder; name a file, such as {path / 'page.html'}")
    if path.exists() and not force:
        raise CommandError(f"{path} exists; choose another file, or replace it with --force")
    return path
