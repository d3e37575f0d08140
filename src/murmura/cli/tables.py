"""Tables for people, in the terminal's width or 120 columns of a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from murmura.report import totals
from murmura.report.summary import errors

if TYPE_CHECKING:
    from murmura.report import Result

PIPE_WIDTH = 120
_HEADS = ("variant", "law", "protects", "promise", "eps", "in all")


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


def errors_table(results: Mapping[str, Result]) -> Table:
    """A row for each variant and epsilon: the three errors, per agent and as norms."""
    columns = ("variant", "run at eps", "total", "privacy", "decentral.", "TE", "CoP", "CoD")
    return table(columns, (row for n, r in results.items() for row in _errors(n, r)), numbers=7)


def results_table(results: Mapping[str, Result]) -> Table:
    """A row for each variant and epsilon: the answer, its intervals and the promise.

    The answer is the mean of all agents' estimates in the first replica, at epsilon `eps`; `in all`
    is the epsilon of all replicas at it, where each is a release of measured signals.
    """
    columns = (*_HEADS, "estimate", "95% interval", "any one agent's")
    return table(columns, (row for n, r in results.items() for row in _found(n, r)), numbers=5)


def promises(results: Mapping[str, Result]) -> list[str]:
    """Each promise once, after the variants that make it; their total; and then the notes."""
    said: dict[str, list[str]] = {}
    for name, result in results.items():
        said.setdefault(str(result.guarantee), []).append(name)
    lines = [f"{', '.join(names)}: {sentence}" for sentence, names in said.items()]
    measured = [name for name, result in results.items() if result.measured and result.releases]
    together = totals.of_all(results) if len(measured) > 1 else None
    if together is not None:
        lines.append(f"All of {', '.join(measured)} together: {together}")
    return lines + list(dict.fromkeys(note for r in results.values() for note in r.notes))


def _start(name: str, result: Result, epsilon: float | None) -> tuple[str, ...]:
    """Status of the promise, its epsilon for the run that is shown, and for all replicas."""
    problem, made, one = result.problem, result.guarantee_at(epsilon), result.guarantee_of(epsilon)
    budgets = (f"{g.epsilon:.4g}" if math.isfinite(g.epsilon) else "-" for g in (one, made))
    return name, problem.law.name, problem.want.protects, str(made.status), *budgets


def _errors(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    root = math.sqrt(result.problem.network.size)
    for epsilon in result.problem.budgets or (None,):
        norms = errors(result, epsilon).values()
        numbers = [*(value / root for value in norms), *norms]
        budget = "-" if epsilon is None else f"{epsilon:.4g}"
        yield (name, budget, *(f"{value:.4g}" for value in numbers))


def _found(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    for epsilon in result.problem.budgets or (None,):
        values, bars = result.found(epsilon)
        shown = {key: value for key, value in values.items() if np.ndim(value) == 0}
        estimate = ", ".join(f"{key} = {value:.4g}" for key, value in shown.items())
        wide = result.intervals(epsilon, of="agent") if bars else {}
        yield (
            *_start(name, result, epsilon),
            estimate or "-",
            _ends([bars[key] for key in shown if key in bars]),
            _ends([(float(wide[key].low), float(wide[key].high)) for key in shown if key in wide]),
        )


def _ends(intervals: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{low:.4g} to {high:.4g}" for low, high in intervals) or "-"
