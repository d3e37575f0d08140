"""murmura ledger: what an agent has released and spent, and whether its ledger can be trusted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json

if TYPE_CHECKING:
    from murmura.agent.ledger import Contents, Entry, Verification

ledger = typer.Typer(
    name="ledger",
    help="Look at an agent's ledger: what was released and spent, and whether it is sound.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Place = Annotated[Path, typer.Argument(metavar="PATH", help="The ledger's file.")]
Last = Annotated[int, typer.Option(min=0, help="How many of the last releases to list.")]
Values = Annotated[bool, typer.Option("--values", help="Show the released (noised) values.")]
Key = Annotated[
    Path | None, typer.Option(help="The key that seals it [default: PATH.key, if there].")
]


@ledger.command()
def show(
    path: Place,
    last: Last = 10,
    values: Values = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the budget, what is spent of it, and the last releases."""
    with guarded(debug):
        from murmura.agent.ledger import look

        said = _facts(look(existing(path, "ledger")), last, values)
        if as_json:
            print_json(said)
        else:
            _say(said, values)


@ledger.command()
def verify(path: Place, key: Key = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check for damage, tampering and truncation; the exit code is 1 if there is any."""
    with guarded(debug):
        from murmura.agent.ledger import key_of
        from murmura.agent.ledger import verify as check

        beside = path.with_name(f"{path.name}.key")
        secret = beside if key is None and beside.exists() else key
        sealed = None if secret is None else key_of(secret.read_bytes())
        found = check(existing(path, "ledger"), sealed)
        if as_json:
            print_json(_findings(found))
        else:
            _report(path, found)
        if not found.ok:
            raise typer.Exit(FAILED)


def _facts(held: Contents, last: int, values: bool) -> dict[str, Any]:
    who, account = held.identity, held.account
    shown = held.entries[-last:] if last else ()
    return {
        "agent": who.agent,
        "network": held.name,
        "epoch": held.epoch,
        "manifest": held.manifest,
        "life": held.life,
        "closed": held.clean,
        "sealed": held.sealed,
        "unit": who.unit,
        "window": who.window or None,
        "budget": _amount(who.epsilon, who.delta),
        "spent": _amount(*account.spent),
        "remaining": _amount(*account.remaining),
        "releases": len(held.entries),
        "last": [_entry(entry, values) for entry in shown],
    }


def _entry(entry: Entry, values: bool) -> dict[str, Any]:
    row = {"reading": entry.reading, "round": entry.round, **_amount(entry.epsilon, entry.delta)}
    if values:
        row["value"] = [number / entry.weight for number in entry.sums]
    return row


def _amount(epsilon: float, delta: float) -> dict[str, Any]:
    """JSON has no infinity: where nothing is promised it becomes a word."""
    return {"epsilon": "inf" if math.isinf(epsilon) else epsilon, "delta": delta}


def _findings(found: Verification) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "problems": list(found.problems),
        "unseen": list(found.unseen),
        "agent": found.agent,
        "releases": found.releases,
        "spent": _amount(*found.spent),
        "remaining": _amount(*found.remaining),
        "head": found.head,
    }


def _say(said: dict[str, Any], values: bool) -> None:
    from murmura.cli.tables import console, table

    out = console()
    unit = f"window of {said['window']} readings" if said["unit"] == "window" else said["unit"]
    yes = {True: "yes", False: "no"}
    facts = (
        ("network", f"{said['network']}, epoch {said['epoch']}"),
        ("manifest", said["manifest"]),
        ("life", str(said["life"])),
        ("closed", yes[said["closed"]]),
        ("sealed", yes[said["sealed"]]),
        ("budget", f"{_price(said['budget'])} per {unit}"),
        ("spent", _price(said["spent"])),
        ("remaining", _price(said["remaining"])),
        ("releases", f"{said['releases']:,}"),
    )
    out.print(table((f"agent {said['agent']}", ""), facts), "")
    if said["last"]:
        out.print(_releases(said["last"], values))


def _releases(rows: list[dict[str, Any]], values: bool) -> Any:
    from murmura.cli.tables import table

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
    from murmura.cli.tables import console

    out = console()
    if found.ok:
        out.print(
            f"{path}: sound; agent {found.agent}, {found.releases:,} releases, spent "
            f"{_price(_amount(*found.spent))}, remaining {_price(_amount(*found.remaining))}",
            soft_wrap=True,
        )
    for problem in found.problems:
        out.print(f"{path}: {problem}", soft_wrap=True)
    for what in found.unseen:
        out.print(f"not seen here: {what}", soft_wrap=True)


def _price(amount: dict[str, Any]) -> str:
    delta = f" and delta = {_number(amount['delta'])}" if amount["delta"] else ""
    return f"epsilon = {_number(amount['epsilon'])}{delta}"


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
