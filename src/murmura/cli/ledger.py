"""murmura ledger: what an agent has released and spent, and whether its ledger is intact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json
from murmura.cli.ledger_files import (
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
    from murmura.agents.ledger import LedgerContents, LedgerEntry, Verification

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
        from murmura.agents.ledger import read_ledger

        summary = _summary(read_ledger(existing(path, "ledger")), last, values)
        if as_json:
            print_json(summary)
        else:
            _print(summary, values)


@ledger.command()
def verify(path: Place, key: Key = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check for damage, tampering and truncation; the exit code is 1 if there is any."""
    with guarded(debug):
        from murmura.agents.ledger import verify as check

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
    identity, status = contents.identity, contents.status
    budget = contents.budget
    listed = contents.entries[-last:] if last else ()
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
        "spent": _amount(*budget.spent),
        "remaining": _amount(*budget.remaining),
        "releases": len(contents.entries),
        "last": [_entry(entry, values) for entry in listed],
    }


def _entry(entry: LedgerEntry, values: bool) -> dict[str, Any]:
    row = {
        "reading": entry.reading,
        "readings": entry.readings,
        "round": entry.round,
        "time": entry.time,
        **_amount(entry.epsilon, entry.delta),
    }
    if values:
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
        "spent": _amount(*found.spent),
        "remaining": _amount(*found.remaining),
        "head": found.head,
    }


def _print(summary: dict[str, Any], values: bool) -> None:
    from murmura.cli.display import console, table

    out = console()
    unit = summary["period"] or (
        f"window of {summary['window']} readings"
        if summary["unit"] == "window"
        else summary["unit"]
    )
    yes = {True: "yes", False: "no"}
    facts = (
        ("network", f"{summary['network']}, epoch {summary['epoch']}"),
        ("manifest", summary["manifest"]),
        ("incarnation", str(summary["incarnation"])),
        ("closed", yes[summary["closed"]]),
        ("sealed", yes[summary["sealed"]]),
        ("budget", f"{_cost(summary['budget'])} per {unit}"),
        ("spent", _cost(summary["spent"])),
        ("remaining", _cost(summary["remaining"])),
        ("releases", f"{summary['releases']:,}"),
    )
    out.print(table((f"agent {summary['agent']}", ""), facts), "")
    if summary["last"]:
        out.print(_releases(summary["last"], values))


def _releases(rows: list[dict[str, Any]], values: bool) -> Any:
    from murmura.cli.display import table

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
    from murmura.cli.display import console

    out = console()
    if found.ok:
        out.print(
            f"{path}: intact; agent {found.agent}, {found.releases:,} releases, spent "
            f"{_cost(_amount(*found.spent))}, remaining {_cost(_amount(*found.remaining))}",
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
