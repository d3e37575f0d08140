"""murmura status: what the agents of this machine have found so far, and whether they run."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json

if TYPE_CHECKING:
    from murmura.agents.runtime.status import StatusReport

Place = Annotated[
    Path,
    typer.Argument(metavar="PLACE", help="A status file, an agent.toml, or a folder with some."),
]


def status(place: Place, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show the estimate, interval, coverage, budget and links of agents, from their status files.

    The exit code is 0 if every agent has an estimate that meets its quorum, 3 if one has none, 1 if
    one is not running.
    """
    with guarded(debug):
        from murmura.agents.runtime.status import StatusReport, status_files

        found = [StatusReport.read(path) for path in status_files(existing(place, "agent"))]
        if as_json:
            print_json({"agents": [report.to_json() for report in found]})
        else:
            _print(found)
        codes = {report.exit_code for report in found} - {0}
        if codes:
            raise typer.Exit(FAILED if FAILED in codes else codes.pop())


def _print(found: list[StatusReport]) -> None:
    from rich.console import Console
    from rich.table import Table

    from murmura.agents.coverage import some_names

    table = Table()
    for name in (
        "agent",
        "state",
        "round",
        "estimate",
        "coverage",
        "last reading",
        "left",
        "links",
    ):
        table.add_column(name, overflow="fold")
    for report in found:
        if report.data:
            table.add_row(*_cells(report))
    if table.row_count:
        Console(width=None if Console().is_terminal else 140).print(table)
    for report in found:
        name = report.data.get("agent", report.path)
        if report.problem:
            typer.echo(f"{name}: {report.problem} ({report.path})")
        elif report.data["coverage"]["absent"]:
            typer.echo(f"{name}: not there: {some_names(report.data['coverage']['absent'])}")


def _cells(report: StatusReport) -> list[str]:
    data = report.data
    covered, links = data["coverage"], data["links"].values()
    values = [
        f"{value:.6g} +- {_number(width, '.3g')}"
        for value, width in zip(data["estimate"], data["half_width"], strict=True)
    ]
    below = "" if data["complete"] else f" (quorum {covered['quorum']})"
    return [
        data["agent"],
        "not running" if report.problem else data["state"],
        str(data["round"]),
        ", ".join(values) or "none",
        f"{covered['contributing']} of {covered['members']}{below}",
        _ago(data["last_reading"]),
        _left(data["budget"]),
        f"{sum(state in ('open', 'done') for state in links)} of {len(links)}",
    ]


def _number(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def _ago(at: float | None) -> str:
    return "never" if at is None else f"{max(time.time() - at, 0):.0f} s ago"


def _left(budget: dict[str, Any] | None) -> str:
    if budget is None:
        return "no guarantee"
    text = f"{_number(budget['remaining'], 'g')} of {_number(budget['epsilon'], 'g')}"
    if budget["refills_at"]:
        when = datetime.fromtimestamp(budget["refills_at"], UTC)
        text += f", refills {when:%Y-%m-%d %H:%M} UTC"
    return text
