"""Tables for people, in the terminal's width or 120 columns of a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from murmura.cli.summary import errors

if TYPE_CHECKING:
    from murmura.report import Result

PIPE_WIDTH = 120


def console() -> Console:
    """Where tables go: stdout, without markup or colours of numbers."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Table:
    """A plain table; the first column is never broken, nor the last `numbers`, right-aligned."""
    made = Table(box=SIMPLE, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for k, name in enumerate(columns):
        right = k >= len(columns) - numbers
        justify: Literal["left", "right"] = "right" if right else "left"
        made.add_column(name, justify=justify, no_wrap=right or k == 0, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def results_table(results: Mapping[str, Result]) -> Table:
    """A row for each variant and epsilon: the three errors, and how far the promise is proved."""
    columns = ("variant", "law", "protects", "promise", "eps", "TE", "CoP", "CoD")
    return table(columns, (row for n, r in results.items() for row in _rows(n, r)), numbers=4)


def promises(results: Mapping[str, Result]) -> list[str]:
    """Each promise once, after the variants that make it, and then the notes."""
    said: dict[str, list[str]] = {}
    for name, result in results.items():
        said.setdefault(str(result.guarantee), []).append(name)
    notes = dict.fromkeys(note for result in results.values() for note in result.notes)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in said.items()] + list(notes)


def _rows(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    problem = result.problem
    for k, epsilon in enumerate(problem.budgets or (None,)):
        found = errors(result, k)
        words = (name, problem.law.name, problem.want.protects, result.guarantee.status)
        budget = "-" if epsilon is None else f"{epsilon:g}"
        yield (*words, budget, *(f"{value:.4g}" for value in found.values()))
