"""veilsum status: what the agents of this machine have found so far, and whether they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json

if TYPE_CHECKING:
    from veilsum.agents.runtime.status import StatusReport

Place = Annotated[
    Path,
    typer.Argument(metavar="PLACE", help="A status file, an agent.toml, or a folder with some."),
]

GONE = {
    "left, and handed its part over": "left",
    "ended with a part that nobody has": "lost",
    "no member any more": "former",
}  # what is said of members that are gone, and the field of the coverage that names them


def status(place: Place, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show the estimate, interval, coverage, budget and links of agents, from their status files.

    The exit code is 0 if every agent has an estimate that meets its quorum, 3 if one has none, 1 if
    one is not running, unless it has its result or was stopped.
    """
    with guarded(debug):
        from veilsum.agents.runtime.status import StatusReport, status_files

        found = [StatusReport.read(path) for path in status_files(existing(place, "agent"))]
        if as_json:
            print_json({"agents": [report.to_json() for report in found]})
        else:
            _print(found)
        codes = {report.exit_code for report in found} - {0}
        if codes:
            raise typer.Exit(FAILED if FAILED in codes else codes.pop())


def _print(found: list[StatusReport]) -> None:
    from veilsum.agents.coverage import some_names
    from veilsum.agents.screens.statuses import behind, print_statuses

    print_statuses(found)
    for line in behind(found):
        typer.echo(line)
    for report in found:
        name = report.data.get("agent", report.path)
        if report.problem:
            typer.echo(f"{name}: {report.problem} ({report.path})")
            continue
        if report.data["reason"] == "left":
            typer.echo(f"{name}: it has left for good; use the estimate of its neighbours")
            continue
        for what, field in GONE.items():
            if names := report.data["coverage"].get(field):
                typer.echo(f"{name}: {what}: {some_names(names)}")
        if report.data["coverage"]["absent"]:
            typer.echo(f"{name}: not there: {some_names(report.data['coverage']['absent'])}")
        if report.data["state"] == "stopped":
            typer.echo(f"{name}: it was stopped, and goes on when it is started again")
        elif unopened := _unopened(report.data["links"]):
            typer.echo(f"{name}: links that are not open: {some_names(unopened)}")


def _unopened(links: dict[str, str]) -> list[str]:
    """The neighbours to whom a link is neither open nor over, with its state."""
    well = ("open", "done", "left")
    return [f"{peer} ({state})" for peer, state in links.items() if state not in well]
