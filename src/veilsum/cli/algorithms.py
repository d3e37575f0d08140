"""veilsum algorithms: how agents agree."""

from __future__ import annotations

import dataclasses
from typing import Any

from veilsum.cli.guard import AsJson, Debug, guarded, print_json


def algorithms(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the algorithms: formula, reference, the weights they need, and whether they diverge."""
    with guarded(debug):
        from veilsum.algorithms import ALGORITHMS

        rows = [_row(algorithm) for algorithm in ALGORITHMS.values()]
        if as_json:
            print_json({"algorithms": rows})
            return
        from veilsum.front.screen import table
        from veilsum.front.terminal import say, width

        columns = ("name", "formula", "reference", "weights", "options", "diverges")
        say(table(columns, map(_cells, rows), width()))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    kinds = ", ".join(kind.removesuffix("-stochastic") for kind in row["kinds"])
    options, diverges = ", ".join(row["options"]), row["diverges"] or ""
    return row["name"], row["formula"], row["reference"], kinds, options, diverges


def _row(algorithm: Any) -> dict[str, Any]:
    return {
        "name": algorithm.name,
        "formula": algorithm.formula,
        "reference": algorithm.reference,
        "online": algorithm.online,
        "kinds": sorted(algorithm.kinds),
        "options": [field.name for field in dataclasses.fields(algorithm)],
        "diverges": algorithm.diverges,
    }
