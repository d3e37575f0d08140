"""The table of docs/testing.md with the figures of the last soak, from tests/soak/soak.json.

`make soak` renews the figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "tests" / "soak" / "soak.json"


def soak() -> str:
    """Give the figures of the year in virtual time, and of the processes over sockets."""
    if not FIGURES.exists():
        return "Not measured yet."
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    parts = [
        _table(f"{found['year']['slots'] // 24} days in virtual time", found["year"]),
        _table("processes over sockets", found["sockets"]),
    ]
    return "\n\n".join([f"Measured on {found['machine']}.", *filter(None, parts)])


def _table(title: str, figures: dict[str, Any]) -> str:
    if not figures:
        return ""
    rows = [f"| {name} | {_number(value)} |" for name, value in figures.items()]
    return "\n".join([f"| {title} | |", "| --- | --- |", *rows])


def _number(value: float) -> str:
    return f"{value:,}"


PARTS = (soak,)
