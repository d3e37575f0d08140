"""The sheet of what questions would be worth: an error bar for each way to hold the rows.

Mean of kwh, 300 rows, epsilon 1
Nothing is read or spent.

  who holds the rows                     error bar, 95%
  one holder                                     ± 0.40    1% of the range
  5 sites, secure sum, 1 may collude             ± 0.45  1.1% of the range
For ± 0.2 at one holder: epsilon 2, or 600 rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from veilsum.front.of_ask import stem_of, title_of
from veilsum.front.screen import Lines, table, wrapped
from veilsum.front.sheet import Answer, Answers
from veilsum.front.words import budget
from veilsum.results import units

if TYPE_CHECKING:
    from veilsum.asking.forecasting import Forecasts
    from veilsum.questions import Forecast

HEADS = ("who holds the rows", "error bar, 95%", "")
BAR, RANGE = HEADS[1], "of the range"
USEFUL, NOT = "useful", "not useful"


def of_question_plan(found: Forecasts) -> Answers:
    """The sheet of forecasts.

    Parameters
    ----------
    found
        Of `asking.forecasts`.

    Returns
    -------
    Answers
        A row for each question and way to hold the rows; the value is half the width of the interval
        that noise makes.
    """
    titles = [title_of(one.question) for one in found.settled.asked]
    asked = titles[0] if len(titles) == 1 else f"{len(titles)} questions together"
    event = found.settled.event
    rows = tuple(_rows(found, titles))
    return Answers(
        name=stem_of("plan", titles),
        title=f"{asked}, {found.rows:,} rows, epsilon {budget(event.epsilon, event.delta)}",
        about=" ".join([*warned(found, titles), NOTHING]),
        rows=rows,
        promises=tuple(_help(found, titles)),
        legend=(LEGEND,),
        layout=plan_lines,
        template="question_plan.html",
        more=lambda: {"plans": by_question(rows), "several": len(titles) > 1},
    )


NOTHING = "Nothing is read or spent."
LEGEND = (
    "Error bars are of the noise, which is all that an answer about these rows has; for values spread "
    "evenly over their range. Not useful: noise is more than three times what sampling does."
)


def _rows(found: Forecasts, titles: list[str]) -> Iterator[Answer]:
    for k, title in enumerate(titles):
        for holding in found.holdings:
            one = holding.forecasts[k]
            share = f"{percent(one.half / one.scale)} of the range" if one.scale else ""
            yield Answer(
                name=holding.name, quantity=f"error bar of {one.of}", value=one.half, unit=one.unit,
                method=title, kind=title, status=USEFUL if one.useful else NOT,
                epsilon=found.settled.event.epsilon, delta=found.settled.event.delta or None,
                cells={BAR: bar(one), RANGE: share},
            )  # fmt: skip


def percent(share: float) -> str:
    """Two digits, and never an exponent."""
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:,.0f}%"


def bar(one: Forecast) -> str:
    """Half the width, such as "± 0.40 kWh"."""
    if not math.isfinite(one.half):
        return "no limit"
    return units.behind(f"± {units.rounded(one.half, one.half)}", one.unit)


def _help(found: Forecasts, titles: list[str]) -> Iterator[str]:
    """What would help where a question says too little, or what half the error bar would take."""
    for k, title in enumerate(titles):
        of = f" of {title.lower()}" if len(titles) > 1 else ""
        target, epsilon, rows = found.wanted[k]
        ways = [f"epsilon {epsilon:.2g}"] if epsilon is not None else []
        ways += [f"{int(float(f'{rows:.2g}')):,} rows"] if rows is not None else []
        if not found.helps[k] and ways:
            yield f"For ± {target:.2g}{of} at one holder: {', or '.join(ways)}."


def warned(found: Forecasts, titles: list[str]) -> Iterator[str]:
    """That a question would not be useful, first of all."""
    for k, title in enumerate(titles):
        if found.helps[k] or not found.holdings[0].forecasts[k].useful:
            helps = f"; what would help: {', or '.join(found.helps[k])}" if found.helps[k] else ""
            yield (
                f"{title} would say too little: noise is more than three times what sampling does"
                f"{helps}."
            )


def _worth(row: Answer) -> str:
    """How large the bar is, and whether it leaves an answer."""
    return ", ".join(filter(None, [row.cells[RANGE], NOT if row.status == NOT else ""]))


def by_question(rows: Sequence[Answer]) -> list[tuple[str, list[Answer]]]:
    """The rows of each question, after what is asked."""
    kinds = dict.fromkeys(row.kind for row in rows)
    return [(kind, [row for row in rows if row.kind == kind]) for kind in kinds]


def plan_lines(answers: Answers, width: int) -> Lines:
    """The body of the screen: a table for each question."""
    out: Lines = []
    parts = by_question(answers.rows)
    for kind, rows in parts:
        out += wrapped(kind, width) if len(parts) > 1 else []
        cells = [(row.name, row.cells[BAR], _worth(row)) for row in rows]
        found = table(HEADS, cells, width - 2)
        out += [f"  {line}".rstrip() for line in found.splitlines()]
    return [*out, ""]
