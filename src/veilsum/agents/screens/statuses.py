"""The statuses of agents in a table: printed once, or drawn again when something happened."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from veilsum.agents.runtime.status import StatusReport

PIPE_WIDTH = 140


def print_statuses(found: list[StatusReport]) -> None:
    """The table, if any status could be read."""
    table = status_table(found)
    if table.row_count:
        _print(table)


def print_watched(found: list[StatusReport], former: list[str]) -> None:
    """The table, and below it who is behind, silent or no member any more."""
    _print(_watched(found, former))


class LiveStatuses:
    """What `print_watched` prints, in the terminal until the end of the block."""

    def __init__(self, found: list[StatusReport], former: list[str]) -> None:
        """Show these first."""
        console = Console(markup=False, highlight=False)
        self._live = Live(_watched(found, former), console=console, auto_refresh=False)

    def __enter__(self) -> LiveStatuses:
        """Draw it."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last one."""
        self._live.stop()

    def show(self, found: list[StatusReport], former: list[str]) -> None:
        """Draw these in its place."""
        self._live.update(_watched(found, former), refresh=True)


def _print(shown: RenderableType) -> None:
    width = None if Console().is_terminal else PIPE_WIDTH
    Console(width=width, markup=False, highlight=False).print(shown)


def _watched(found: list[StatusReport], former: list[str]) -> RenderableType:
    silent = [f"{report.path}: {report.problem}" for report in found if report.problem]
    return Group(status_table(found), *map(Text, (*behind(found), *silent, *former)))


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


def status_table(found: list[StatusReport]) -> Table:
    """A row for each agent whose status could be read."""
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
