"""veilsum status: what the agents of this machine have found so far, and whether they run."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json

if TYPE_CHECKING:
    from rich.table import Table

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
    from rich.console import Console

    from veilsum.agents.coverage import some_names

    table = status_table(found)
    if table.row_count:
        width = None if Console().is_terminal else 140
        Console(width=width, markup=False, highlight=False).print(table)
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


def behind(found: list[StatusReport]) -> list[str]:
    """A line for each agent that is in an earlier epoch than another of its network."""
    running = [r.data for r in found if r.data and r.data["state"] not in ("done", "stopped")]
    newest: dict[str, int] = {}
    for data in running:
        newest[data["network"]] = max(newest.get(data["network"], 1), data.get("epoch", 1))
    return [
        f"{data['agent']}: in epoch {data.get('epoch', 1)}, and others are in epoch "
        f"{newest[data['network']]}: the roll-out has not reached it; copy epoch.json to the place that "
        "[membership] in its agent.toml names"
        for data in running
        if data.get("epoch", 1) < newest[data["network"]]
    ]


def _unopened(links: dict[str, str]) -> list[str]:
    """The neighbours to whom a link is neither open nor over, with its state."""
    well = ("open", "done", "left")
    return [f"{peer} ({state})" for peer, state in links.items() if state not in well]


def status_table(found: list[StatusReport]) -> Table:
    """A row for each agent whose status could be read."""
    from rich.table import Table

    table = Table()
    masked = any(report.data.get("session") for report in found)
    for name in (
        "agent",
        "state",
        "epoch",
        *(["session"] if masked else []),
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
            agent, state, epoch, *rest = _cells(report)
            session = [_session(report.data.get("session"))] if masked else []
            table.add_row(agent, state, epoch, *session, *rest)
    return table


def _cells(report: StatusReport) -> list[str]:
    data = report.data
    covered, links = data["coverage"], data["links"].values()
    more = data.get("left_out", {}).get("links", 0)  # of which those that are open come last
    unit = f" {data['unit']}" if data.get("unit") else ""
    values = [
        f"{value:.6g} +- {_number(width, '.3g')}{unit}"
        for value, width in zip(data["estimate"], data["half_width"], strict=True)
    ]
    below = "" if data["complete"] else f" (quorum {covered['quorum']})"
    return [
        data["agent"],
        "not running" if report.problem else data["state"],
        str(data.get("epoch", 1)),
        str(data["round"]),
        ", ".join(values) or ("withheld" if data.get("withheld") else "none"),
        f"{covered['contributing']} of {covered['members']}{below}",
        _ago(data["last_reading"]),
        _left(data["budget"]),
        f"{sum(state in ('open', 'done') for state in links) + more} of {len(links) + more}",
    ]


def _session(session: dict[str, Any] | None) -> str:
    """How far a masked sum is."""
    if session is None:
        return "none"
    if not session["query"]:
        return str(session["stage"])
    place = f", attempt {session['attempt']}, view {session['view']}" if session["attempt"] else ""
    return f"query {session['query']} {session['stage']}{place}"


def _number(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def _ago(at: float | None) -> str:
    return "never" if at is None else f"{max(time.time() - at, 0):.0f} s ago"


def _left(budget: dict[str, Any] | None) -> str:
    if budget is None:
        return "no guarantee"
    text = f"{_number(budget['remaining'], 'g')} of {_number(budget['epsilon'], 'g')}"
    if budget["reserved"]:
        text += f", {_number(budget['reserved'], 'g')} reserved"
    if budget["refills_at"]:
        when = datetime.fromtimestamp(budget["refills_at"], UTC)
        text += f", refills {when:%Y-%m-%d %H:%M} UTC"
    return text
