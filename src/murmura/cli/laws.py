"""murmura laws: how agents agree."""

from __future__ import annotations

import dataclasses
from typing import Any

from murmura.cli.guard import AsJson, Debug, guarded, print_json


def laws(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the laws: formula, reference, the weights they need, and whether they diverge."""
    with guarded(debug):
        from murmura.laws import LAWS

        rows = [_row(law) for law in LAWS.values()]
        if as_json:
            print_json({"laws": rows})
            return
        from murmura.cli.tables import console, table

        out, columns = console(), ("name", "formula", "reference", "weights", "options", "diverges")
        out.print(table(columns, map(_cells, rows)), "")
        for row in rows:
            if row["diverges"]:
                out.print(f"{row['name']} diverges: {row['diverges']}", soft_wrap=True)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    kinds = ", ".join(kind.removesuffix("-stochastic") for kind in row["kinds"])
    options, diverges = ", ".join(row["options"]), "yes" if row["diverges"] else "no"
    return row["name"], row["formula"], row["reference"], kinds, options, diverges


def _row(law: Any) -> dict[str, Any]:
    return {
        "name": law.name,
        "formula": law.formula,
        "reference": law.reference,
        "online": law.online,
        "kinds": sorted(law.kinds),
        "options": [field.name for field in dataclasses.fields(law)],
        "diverges": law.diverges,
    }
