"""Arguments and options that several verbs share."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

PAGES = {"agent": "127.0.0.1:8080"}  # where --page without an address serves it
FLEET_PAGE = "127.0.0.1:8090"  # of the other verbs


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
    Path | None,
    typer.Option(
        "--out", "-o", metavar="STEM", help="Write STEM.html and STEM.csv.", show_default="NAME"
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**63 - 1, help="Replaces the seed of the scenario.")
]
Replicas = Annotated[
    int | None, typer.Option(min=1, max=2**16 - 1, help="Replaces the replicas of the scenario.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse guarantees that are not proved.")]
Truth = Annotated[
    bool,
    typer.Option(
        "--truth", help="Of measured signals: errors against the truth, in files named secret."
    ),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A figure for a paper: fig.pdf, .svg or .png.")
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
    bool, typer.Option("--resume", help="Continue from what an interrupted run left in STEM.parts.")
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
