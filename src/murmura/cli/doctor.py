"""murmura doctor: what is wrong with an agent before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from murmura.agents.doctor import CheckResult

File = Annotated[Path, typer.Argument(metavar="AGENT", help="An agent's file, in TOML.")]
Offline = Annotated[bool, typer.Option("--offline", help="Contact no other machine.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="As for `murmura agent`.")]
Research = Annotated[bool, typer.Option("--research", help="As for `murmura agent`.")]


def doctor(
    file: File,
    offline: Offline = False,
    insecure: Insecure = False,
    research: Research = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check everything that can be wrong before an agent starts; nothing is released or started."""
    with guarded(debug):
        from murmura.agents.doctor import examine

        path = existing(file, "agent's file")
        report = examine(path, offline=offline, insecure=insecure, research=research)
        if as_json:
            print_json(report.to_json())
        else:
            show(report.results)
    if not report.healthy:
        raise typer.Exit(FAILED)


def show(results: Iterable[CheckResult], brief: bool = False) -> None:
    """Print one line for each result, and what to do about it; if brief, without those that are ok."""
    counts = {"ok": 0, "warning": 0, "failure": 0}
    for result in results:
        counts[result.outcome] += 1
        if brief and result.outcome == "ok":
            continue
        typer.echo(f"{result.outcome.value:8}{result.check}: {result.found}")
        if result.remedy:
            typer.echo(f"{'':8}-> {result.remedy}")
    said = [
        f"{count} {word}{'s' if word != 'ok' and count != 1 else ''}"
        for word, count in counts.items()
    ]
    typer.echo(f"checks: {', '.join(said)}")
