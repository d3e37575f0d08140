"""Tables and progress bars, in the width of the terminal or 120 columns in a pipe."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table

from veilsum.privacy.odds import epsilon_cell
from veilsum.results import units
from veilsum.results.dataset import describe_network
from veilsum.results.summary import combined_guarantee, evaluated_limits, final_errors
from veilsum.results.targets import different_statistics, duration_of, target_of

if TYPE_CHECKING:
    from rich.progress import Progress

    from veilsum.families.base import Interval
    from veilsum.results import Result

PIPE_WIDTH = 120
PATIENCE = 2.0  # seconds before a bar is shown
SECRET = "as secret as the signals"
LEGEND = """\
Errors at the last round, mean over replicas, against the mean of the signals or, for a stream, E xi.
TE total error, CoP cost of privacy, CoD cost of decentralisation: l2 norms over all agents. Per
agent: TE over sqrt(agents), the root mean square error of one.
"""
GAP = 2  # columns between two columns of a table
_STYLE: dict[str, Any] = {
    "box": SIMPLE, "padding": (0, 1, 0, 0), "header_style": "bold", "show_edge": False,
}  # fmt: skip
_HEADS = ("variant", "algorithm", "protects", "guarantee", "eps", "in all")


def console() -> Console:
    """A console on stdout, without markup and highlighting."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False)


class FittedTable(Table):
    """A table that cuts nothing: what does not fit beside the first column goes below, with it again.

    Numbers have the width that they need; text is wrapped between words.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many tables below each other as the width needs."""
        first, *others = self.columns
        spare, least = options.max_width + 1 - GAP, [_least(column) for column in others]
        own = min(_longest(first), max(spare // 2, spare - GAP - max(least, default=0)))
        blocks, left = [list[Column]()], -1
        for column, width in zip(others, least, strict=True):
            if left < width + GAP:
                blocks.append([])
                left = spare - own
            blocks[-1].append(column)
            left -= width + GAP
        for number, block in enumerate(blocks[1:] or blocks):
            if number:
                yield ""
            yield _block([first, *block], [own, *_widths(block, spare - own)])


def _block(columns: Sequence[Column], widths: Sequence[int]) -> Table:
    made = Table(**_STYLE)
    for column, width in zip(columns, widths, strict=True):
        made.add_column(column.header, justify=column.justify, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*row)
    return made


def _texts(column: Column) -> Iterable[str]:
    return map(str, (column.header, *column.cells))


def _longest(column: Column) -> int:
    return max(map(cell_len, _texts(column)))


def _least(column: Column) -> int:
    """All of a number or a name, or the longest word of a text."""
    if column.no_wrap:
        return _longest(column)
    return max((cell_len(word) for text in _texts(column) for word in text.split()), default=0)


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """Of each column: what it asks for, less for the widest texts until all fit."""
    widths, least = [_longest(column) for column in columns], [_least(c) for c in columns]
    while sum(widths) + GAP * len(widths) > room:
        k = max(range(len(widths)), key=lambda k: (widths[k] > least[k], widths[k]))
        if widths[k] <= least[k] and widths[k] <= room - GAP:
            break
        widths[k] -= 1
    return widths


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Table:
    """A plain table; the last `numbers` columns are right-aligned and, as the first, not wrapped."""
    rendered = FittedTable(**_STYLE)
    for k, name in enumerate(columns):
        right = k >= len(columns) - numbers
        justify: Literal["left", "right"] = "right" if right else "left"
        rendered.add_column(name, justify=justify, no_wrap=right or k == 0, overflow="fold")
    for row in rows:
        rendered.add_row(*row)
    return rendered


def errors_table(results: Mapping[str, Result]) -> Table:
    """A row for each variant and epsilon: rounds, target, the three errors, and the guarantee."""
    columns = (
        "variant", "algorithm", "guarantee", "eps", "rounds", "error against", "TE", "CoP", "CoD",
        "per agent",
    )  # fmt: skip
    return table(columns, (row for n, r in results.items() for row in _error_rows(n, r)), numbers=7)


def results_table(results: Mapping[str, Result]) -> Table:
    """A row for each variant and epsilon: the answer and the guarantee.

    The answer is the mean of all agents' estimates in the first replica, at epsilon `eps`; `in all`
    is the epsilon of all replicas at it, where each is a release of measured signals.
    """
    rows = (row for n, r in results.items() for row in _estimate_rows(n, r))
    return table((*_HEADS, "estimate"), rows, numbers=3)


def intervals_table(results: Mapping[str, Result]) -> Table:
    """A row for each interval that the results state, with what it is of."""
    columns = ("variant", "95% interval of", "eps", "all agents' mean", "any one agent's")
    rows = (row for n, r in results.items() for row in _interval_rows(n, r))
    return table(columns, rows, numbers=3)


def guarantees(results: Mapping[str, Result]) -> list[str]:
    """Each guarantee once, after the variants that it belongs to; their total; then the notes."""
    sentences: dict[str, list[str]] = {}
    for name, result in results.items():
        sentence = units.in_sentence(str(result.guarantee), result.unit)
        sentences.setdefault(sentence, []).append(name)
    lines = [f"{', '.join(names)}: {sentence}" for sentence, names in sentences.items()]
    measured = [name for name, result in results.items() if result.measured and result.releasable]
    combined = combined_guarantee(results) if len(measured) > 1 else None
    if combined is not None:
        lines.append(f"All of {', '.join(measured)} together: {combined}")
    return lines + list(dict.fromkeys(note for r in results.values() for note in r.notes))


def _leading_cells(name: str, result: Result, epsilon: float | None) -> tuple[str, ...]:
    """Status of the guarantee, its epsilon for the run that is shown, and for all replicas."""
    problem, one = result.problem, result.run_guarantee(epsilon)
    replicas = result.guarantee_at(epsilon)
    epsilons = (epsilon_cell(g.epsilon) for g in (one, replicas))
    return name, problem.algorithm.name, problem.privacy.protects, str(replicas.status), *epsilons


def _error_rows(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    root, unit = math.sqrt(result.problem.network.size), units.of_statistic(result)
    for epsilon in result.problem.run_epsilons or (None,):
        total, privacy, away = final_errors(result, epsilon).values()
        label = epsilon_cell(result.run_guarantee(epsilon).epsilon)
        target = _ascii(target_of(result).replace("the ", ""))
        own = units.behind(f"{total / root:.4g}", unit)
        numbers = (*(f"{value:.4g}" for value in (total, privacy, away)), own)
        status = str(result.guarantee_at(epsilon).status)
        way, rounds = result.problem.algorithm.name, duration_of(result)
        yield (name, way, status, label, rounds, target, *numbers)


def _estimate_rows(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    for epsilon in result.problem.run_epsilons or (None,):
        values, bars = result.released(epsilon)
        scalars = {key: value for key, value in values.items() if np.ndim(value) == 0}
        width = {key: bars[key][1] - bars[key][0] if key in bars else math.nan for key in scalars}
        estimate = ", ".join(
            units.behind(
                f"{key} = {units.rounded(value, width[key])}", units.of_parameter(result, key)
            )
            for key, value in scalars.items()
        )
        yield (*_leading_cells(name, result, epsilon), estimate or "-")


def _interval_rows(name: str, result: Result) -> Iterable[tuple[str, ...]]:
    for epsilon in result.problem.run_epsilons or (None,):
        size = _leading_cells(name, result, epsilon)[4]
        for found in result.named_intervals(epsilon):
            own, any_agent = (_interval_text(bars) for bars in (found.network, found.agent))
            if own:
                yield name, found.name.removeprefix("of "), size, own, any_agent


def _ascii(text: str) -> str:
    """For terminals that have no Greek letters."""
    return text.replace("ξ", "xi")


def _interval_text(intervals: Mapping[str, Interval]) -> str:
    found = [i for i in intervals.values() if np.ndim(i.low) == 0]
    return ", ".join(units.interval(float(i.low), float(i.high)) for i in found)


def show_results(
    title: str,
    results: Mapping[str, Result],
    evaluations: Mapping[str, Result],
    folder: Path,
    outputs: Sequence[Path],
) -> None:
    """Print estimates, errors, guarantees, evaluations and the files that were written."""
    out = console()
    networks = dict.fromkeys(describe_network(r.problem.network) for r in results.values())
    out.print(f"{title}: {'; '.join(networks)}\n", soft_wrap=True)
    synthetic = {name: result for name, result in results.items() if not result.measured}
    out.print(results_table(results), "")
    bars = intervals_table(results)
    if bars.row_count:
        out.print(bars, "")
    if any(result.problem.replicas > 1 for result in results.values()):
        out.print("Estimates and intervals are those of the first replica.\n", soft_wrap=True)
    if synthetic:
        out.print(errors_table(synthetic), "")
        out.print(LEGEND, soft_wrap=True)
        for sentence in different_statistics(synthetic):
            out.print(_ascii(sentence), soft_wrap=True)
    for sentence in guarantees(results):
        out.print(sentence, soft_wrap=True)
    if evaluations:
        out.print(f"\nSECRET, {SECRET}:\n", soft_wrap=True)
        out.print(errors_table(evaluations), "")
        out.print(LEGEND, soft_wrap=True)
        for sentence in evaluated_limits(evaluations):
            out.print(sentence, soft_wrap=True)
    names = ", ".join(
        str(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in outputs
    )
    out.print(f"\nOutputs in {folder}: {names}", soft_wrap=True)


class Bar:
    """A progress bar on stderr: shown after two seconds, and never in a pipe.

    with Bar() as bar: bar.step("offline", 3, 100)
    """

    def __init__(self) -> None:
        """Start the clock."""
        self.began = time.monotonic()
        self.display: Progress | None = None
        self.task: Any = None

    def __enter__(self) -> Self:
        """Show nothing yet."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self.display is not None:
            self.display.stop()

    def step(self, name: str, done: int, total: int) -> None:
        """`done` of `total` steps of `name` are done."""
        late = time.monotonic() - self.began > PATIENCE
        if self.display is None and late and sys.stderr.isatty():
            from rich.progress import Progress

            self.display = Progress(console=Console(stderr=True), transient=True)
            self.task = self.display.add_task("")
            self.display.start()
        if self.display is not None:
            self.display.update(self.task, completed=done, total=total, description=name)
