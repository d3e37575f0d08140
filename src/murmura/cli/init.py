"""murmura init: a scenario to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from murmura.cli.guard import Debug, guarded
from murmura.errors import CommandError, ScenarioError


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write.")] = Path(
        "scenario.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    debug: Debug = False,
) -> None:
    """Write a commented scenario that runs as it is."""
    with guarded(debug):
        from murmura.scenario import template

        if path.exists() and not force:
            raise ScenarioError(f"{path} exists; choose another path, or --force to overwrite it")
        if not path.parent.is_dir():
            raise CommandError(f"there is no folder {path.parent}; make it first")
        path.write_text(template(), encoding="utf-8")
        typer.echo(f"Wrote {path}. Now: murmura run {path}")
