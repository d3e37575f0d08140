"""veilsum doctor: what is wrong with an agent before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json
from veilsum.cli.options import KeysFolder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from veilsum.agents.doctor import CheckResult, DoctorReport

Files = Annotated[
    list[Path], typer.Argument(metavar="AGENT...", help="An agent's file, in TOML; or several.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Contact no other machine.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="As for `veilsum agent`.")]
Research = Annotated[bool, typer.Option("--research", help="As for `veilsum agent`.")]


def doctor(
    files: Files,
    offline: Offline = False,
    insecure: Insecure = False,
    research: Research = False,
    keys: KeysFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check everything that can be wrong before an agent starts; nothing is released or started."""
    with guarded(debug):
        from veilsum.agents.doctor import examine

        paths = [existing(file, "agent's file") for file in files]
        reports = [
            examine(path, offline=offline, insecure=insecure, research=research, keys=keys)
            for path in paths
        ]
        if as_json:
            found = [report.to_json() for report in reports]
            print_json(found[0] if len(found) == 1 else {"agents": found})
        elif len(reports) == 1:
            show(reports[0].results)
        else:
            _show_all(paths, reports)
    if not all(report.healthy for report in reports):
        raise typer.Exit(FAILED)


def _show_all(paths: list[Path], reports: list[DoctorReport]) -> None:
    """What is not well of each of several agents, and whether they agree on the terms."""
    for path, report in zip(paths, reports, strict=True):
        typer.echo(f"{report.agent or 'unknown'} ({path}), manifest {report.manifest[:12]}")
        show(report.results, brief=True)
    if len({report.manifest for report in reports}) > 1:
        typer.echo("The manifests differ: these agents would refuse one another.")


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
