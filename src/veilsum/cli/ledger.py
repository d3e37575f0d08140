"""veilsum ledger: what an agent has released and spent, and whether its ledger is intact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json
from veilsum.cli.ledger_files import (
    Key,
    Place,
    amend,
    backup,
    export,
    key_file,
    report,
    restore,
)

if TYPE_CHECKING:
    from veilsum.agents.ledger import BudgetStatus, LedgerContents, LedgerEntry, Verification
    from veilsum.agents.ledger.session_report import SentValue

ledger = typer.Typer(
    name="ledger",
    help="Inspect an agent's ledger: what was released and spent, and whether it is intact.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Last = Annotated[int, typer.Option(min=0, help="How many of the last releases to list.")]
Values = Annotated[bool, typer.Option("--values", help="Show the released (noised) values.")]


@ledger.command()
def show(
    path: Place,
    last: Last = 10,
    values: Values = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the budget, what was spent of it, and the last releases."""
    with guarded(debug):
        from veilsum.agents.ledger import read_ledger

        summary = _summary(read_ledger(existing(path, "ledger")), last, values)
        if as_json:
            print_json(summary)
        else:
            _print(summary, values)


@ledger.command()
def verify(path: Place, key: Key = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check for damage, tampering and truncation; the exit code is 1 if there is any."""
    with guarded(debug):
        from veilsum.agents.ledger import verify as check

        found = check(existing(path, "ledger"), key_file(path, key))
        if as_json:
            print_json(_findings(found))
        else:
            _report(path, found)
        if not found.ok:
            raise typer.Exit(FAILED)


for verb in (export, report, amend, backup, restore):
    ledger.command()(verb)


def _summary(contents: LedgerContents, last: int, values: bool) -> dict[str, Any]:
    from veilsum.agents.ledger.session_report import sent_values

    identity, status = contents.identity, contents.status
    listed = contents.entries[-last:] if last else ()
    sent = sent_values(contents)
    return {
        "agent": identity.agent,
        "network": contents.name,
        "epoch": contents.epoch,
        "manifest": contents.manifest,
        "incarnation": contents.incarnation,
        "closed": contents.closed,
        "sealed": contents.sealed,
        "unit": identity.unit,
        "window": identity.window or None,
        "period": status.period or None,
        "refills_at": status.refills_at,
        "budget": _amount(identity.epsilon, identity.delta),
        "spent": _amount(*status.spent),
        "spent_on": status.spent_on,
        "spent_in_all": _amount(*status.spent_in_all),
        "remaining": _amount(*status.remaining),
        "reserved": _amount(*status.reserved),
        "releases": len(contents.entries),
        "queries": len(contents.queries),
        "open_query": next((row.query for row in contents.queries if not row.reason), None),
        "last": [_entry(entry, values, sent.get(entry.seq)) for entry in listed],
    }


def _entry(entry: LedgerEntry, values: bool, sent: SentValue | None) -> dict[str, Any]:
    row = {
        "reading": entry.reading,
        "readings": entry.readings,
        "round": entry.round,
        "time": entry.time,
        **_amount(entry.epsilon, entry.delta),
    }
    if sent is not None:
        row |= sent._asdict()
    elif values:
        row["value"] = [number / entry.weight for number in entry.sums]
    return row


def _amount(epsilon: float, delta: float) -> dict[str, Any]:
    """JSON has no infinity: where nothing is guaranteed it becomes a string."""
    return {"epsilon": "inf" if math.isinf(epsilon) else epsilon, "delta": delta}


def _findings(found: Verification) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "problems": list(found.problems),
        "limitations": list(found.limitations),
        "agent": found.agent,
        "releases": found.releases,
        **_amounts(found.status),
        "head": found.head,
    }


def _amounts(status: BudgetStatus | None) -> dict[str, Any]:
    """What was spent and is left, by name; null for a file that cannot be read."""
    names = ("spent", "spent_in_all", "remaining", "reserved")
    return {name: None if status is None else _amount(*getattr(status, name)) for name in names}


def _print(summary: dict[str, Any], values: bool) -> None:
    from veilsum.agents.screens.tables import console, table

    out = console()
    unit = summary["period"] or (
        f"window of {summary['window']} readings"
        if summary["unit"] == "window"
        else summary["unit"]
    )
    yes = {True: "yes", False: "no"}
    facts: tuple[tuple[str, str], ...] = (
        ("network", f"{summary['network']}, epoch {summary['epoch']}"),
        ("manifest", summary["manifest"]),
        ("incarnation", str(summary["incarnation"])),
        ("closed", yes[summary["closed"]]),
        ("sealed", yes[summary["sealed"]]),
        ("budget", f"{_cost(summary['budget'])} per {unit}"),
        (f"spent on {summary['spent_on']}", _cost(summary["spent"])),
        ("spent in all", _cost(summary["spent_in_all"])),
        ("left for the next reading", _cost(summary["remaining"])),
        ("releases", f"{summary['releases']:,}"),
    )
    if summary["queries"]:
        open_query = summary["open_query"]
        held = "" if open_query is None else f", {open_query} is open"
        facts += (
            ("reserved by the open query", _cost(summary["reserved"])),
            ("queries", f"{summary['queries']:,}{held}"),
        )
    out.print(table((f"agent {summary['agent']}", ""), facts), "")
    if summary["last"]:
        out.print(_releases(summary["last"], values))


def _releases(rows: list[dict[str, Any]], values: bool) -> Any:
    from veilsum.agents.screens.tables import table

    if "query" in rows[0]:
        names = ("query", "attempt", "members", "readings", "epsilon", "delta", "refunded")
        found = ([_number(row[name]) for name in names[:-1]] for row in rows)
        marks = ("yes" if row["refunded"] else "" for row in rows)
        return table(
            names, ((*one, mark) for one, mark in zip(found, marks, strict=True)), numbers=6
        )
    more = ("value",) if values else ()
    cells = (
        (
            str(row["reading"]),
            str(row["round"]),
            _number(row["epsilon"]),
            _number(row["delta"]),
            *(" ".join(_number(v) for v in row[name]) for name in more),
        )
        for row in rows
    )
    columns = ("reading", "round", "epsilon", "delta", *more)
    return table(columns, cells, numbers=len(columns) - 1)


def _report(path: Path, found: Verification) -> None:
    from veilsum.agents.screens.tables import console

    out = console()
    if found.ok and found.status is not None:
        spent, left = _amount(*found.status.spent), _amount(*found.status.remaining)
        out.print(
            f"{path}: intact; agent {found.agent}, {found.releases:,} releases, spent on "
            f"{found.status.spent_on} {_cost(spent)}, left for the next reading {_cost(left)}",
            soft_wrap=True,
        )
    for problem in found.problems:
        out.print(f"{path}: {problem}", soft_wrap=True)
    for what in found.limitations:
        out.print(f"not detected by this check: {what}", soft_wrap=True)


def _cost(amount: dict[str, Any]) -> str:
    delta = f" and delta = {_number(amount['delta'])}" if amount["delta"] else ""
    return f"epsilon = {_number(amount['epsilon'])}{delta}"


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
