"""A table's budget in a terminal: what is spent, and every entry with what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilsum.front.screen import Lines, table, wrapped
from veilsum.front.words import budget

HEADS = ("when", "epsilon", "what")
WHYS = ("raised", "lowered", "mended")


def budget_lines(found: Mapping[str, Any], width: int) -> Lines:
    """The screen of a budget.

    Parameters
    ----------
    found
        Of `asking.budget_acts.describe`.
    width
        Columns of the terminal.
    """
    spent = budget(found["epsilon_spent"], found["delta_spent"])
    limit = budget(found["epsilon_limit"], found["delta_limit"])
    answers = "answer" if found["releases"] == 1 else "answers"
    head = f"{Path(found['budget']).name}: {spent} of {limit} epsilon spent, {found['releases']} {answers}"
    rows = [
        (entry["at"][:16].replace("T", " "), _cost(entry), _what(entry))
        for entry in found["entries"]
    ]
    return [*wrapped(head, width), "", *table(HEADS, rows, width).splitlines()]


def _cost(entry: Mapping[str, Any]) -> str:
    return budget(entry["epsilon"], entry.get("delta") or 0.0) if "epsilon" in entry else ""


def _what(entry: Mapping[str, Any]) -> str:
    """What an entry is: the questions of a release, or what was done."""
    if entry["kind"] == "limit":
        return f"limit {entry['why']}" if entry.get("why") in WHYS else "limit"
    if entry["kind"] == "data":
        return f"rows of {entry['name'] or 'a table in memory'}"
    if entry["kind"] == "lost":
        return "charged for releases that were lost"
    terms = json.loads(entry["terms"]) if entry.get("terms") else {}
    asked = " and ".join(_asked(one) for one in terms.get("questions", ()))
    where = ", ".join(f"{name} {' or '.join(v)}" for name, v in terms.get("where", {}).items())
    return f"{asked or 'an answer'}{where and f', where {where}'}"


def _asked(terms: Mapping[str, Any]) -> str:
    """A question from its terms: its name, and the columns in them."""
    columns = [one["name"] for one in terms.values() if isinstance(one, dict) and "name" in one]
    by = f" by {terms['by'][0]}" if terms.get("by") else ""
    return f"{terms['question']}{' of ' if columns else ''}{', '.join(columns)}{by}"
