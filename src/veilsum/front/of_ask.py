"""The sheet of an answered question: the number first, what it says, its picture, and the promise.

Histogram of kwh, households.csv
300 rows, drawn now; may be published

  0 to 5 kWh    0.017 ± 0.020  #
  5 to 10 kWh   0.230 ± 0.020  ##########
...
Proved: If one row of households.csv were any other, anything published is at most 2.72 times more
  likely. Whoever holds the file sees all of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum.asking.promise import guarantee_of_reply
from veilsum.front.odds import in_words
from veilsum.front.screen import Lines, components, typical_width, unsaid, wrapped
from veilsum.front.sheet import Answer, Answers
from veilsum.front.words import STARTS, budget, with_bar
from veilsum.questions import By

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from veilsum.asking import Reply
    from veilsum.front.plot import Picture
    from veilsum.privacy import Guarantee
    from veilsum.questions import Decoded, Question

ANSWER, DETAIL = "answer", "detail"
ALL_LINES = 24  # of components: an answer that has no more shows all of them
MOST_LINES = 12  # of longer ones, for all questions together
LEAST_LINES = 4  # for one of many
LONGEST_NAME = 60
SLUG = re.compile(r"[^a-z0-9]+")


def of_ask(reply: Reply) -> Answers:
    """The sheet of a reply.

    Parameters
    ----------
    reply
        Of `asking.ask`.

    Returns
    -------
    Answers
        An answer for each finding, by the name of its question; what stands behind one comes after it.
    """
    promise = guarantee_of_reply(reply)
    titles = [title_of(question) for question in reply.questions]
    names = _names(reply.questions, titles)
    asked = titles[0] if len(titles) == 1 else f"{len(titles)} questions together"
    findings = dict(zip(names, zip(reply.questions, reply.decoded, strict=True), strict=True))
    rows = [
        row
        for name, title in zip(names, titles, strict=True)
        for row in _rows(name, title, findings[name][1], promise, reply)
    ]
    shown = [(name, [row for row in rows if row.name == name]) for name in names]
    return Answers(
        name=stem_of(reply.table, [*titles, reply.where]),
        title=f"{asked}{reply.where and f', where {reply.where}'}, {reply.table}",
        about=_about(reply),
        rows=tuple(rows),
        promises=(promised(reply, promise),),
        warnings=tuple(reply.notes),
        legend=(spent(reply),),
        notes=(
            "The interval is of these records: what the same number is without noise lies in it with 95% "
            "confidence." if not reply.population else
            "The interval is of the population that the records were sampled from, with 95% confidence.",
            "Asking the same again returns the same answer and costs nothing.",
        ),
        origin={key: _plain(value) for key, value in facts(reply).items() if value is not None},
        pictures=lambda: list(_pictures(findings)),
        drawing=lambda ax: _drawn(*next(iter(findings.values())), ax),
        layout=answer_lines,
        template="ask.html",
        more=lambda: {"answers": shown, "several": len(shown) > 1, "cells": _cells, "number": number},
    )  # fmt: skip


def title_of(question: Question) -> str:
    """What is asked, such as "Mean of kwh by region"."""
    by = ""
    if isinstance(question, By):
        by, question = f" by {question.group.name}", question.question
    columns = _columns(question)
    name = question.name.replace("-", " ")
    name = "CDF" if name == "cdf" else f"{name[:1].upper()}{name[1:]}"
    return f"{name}{columns and f' of {columns}'}{by}"


def _columns(question: Question) -> str:
    """What is read; of a regression what is explained, and by what."""
    names = [column.name for column in question.columns]
    explained = getattr(getattr(question, "y", None), "name", None)
    if explained not in names:
        return ", ".join(names)
    return f"{explained} on {', '.join(name for name in names if name != explained)}"


def stem_of(table: str, titles: Sequence[str]) -> str:
    """The name of the sheet's files, which is never that of the table."""
    words = [table.rpartition(".")[0] or table, *filter(None, titles)]
    slug = "-".join(SLUG.sub("-", word.lower().replace(" of ", " ")).strip("-") for word in words)
    return slug[:LONGEST_NAME].rstrip("-")


def facts(reply: Reply) -> dict[str, Any]:
    """What a program needs besides the answers, by name."""
    return {
        "table": reply.table,
        "where": reply.where or None,
        "records": reply.records,
        "unit": reply.unit,
        "epsilon": reply.event.epsilon,
        "delta": reply.event.delta,
        "stored": reply.stored,
        "epsilon_spent": reply.epsilon_spent,
        "epsilon_limit": reply.epsilon_limit,
        "budget": reply.budget,
    }


def _plain(value: Any) -> str:
    """A fact for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,g}" if isinstance(value, int | float) else str(value)


def _names(questions: Sequence[Question], titles: Sequence[str]) -> list[str]:
    """The names of the questions; what is asked, where several have one name."""
    names = [question.name for question in questions]
    return names if len(set(names)) == len(names) else list(titles)


def _about(reply: Reply) -> str:
    each = _each(reply.unit)
    rows = "record" if each else "row"
    rows += "" if reply.records == 1 else "s"
    many = f"{reply.records:,} {rows}" if reply.records is not None else f"number of {rows} private"
    many += f", one for each {each}" if each else ""
    drawn = "drawn now"
    if reply.stored:
        drawn = f"stored answer{reply.date and f' of {reply.date}'}, costs nothing"
    return f"{many}, {drawn}; may be published"


def _each(unit: str) -> str:
    """Whose rows are one record, such as "person"; empty where each row is one."""
    return unit.partition("all rows of one ")[2]


def promised(reply: Reply, promise: Guarantee) -> str:
    """The promise in words."""
    who = f"{reply.unit} {'in' if _each(reply.unit) else 'of'}"
    odds = in_words(promise.epsilon, promise.delta)
    before = not reply.adds_up or reply.epsilon_spent > promise.epsilon * (1 + 1e-9)
    own = "this answer is" if len(reply.questions) == 1 else "these answers are"
    published = own if before else "anything published is"
    together = "" if not before else (
        f"; all answers so far together, {in_words(reply.epsilon_spent, reply.delta_spent)}"
        if reply.adds_up
        else "; other answers of the budget hid something else (--id, --rows-public), and no number is "
        "proved for all of them together"
    )  # fmt: skip
    return (
        f"{STARTS[promise.status]}: If {who} {reply.table} were any other, {published} {odds}"
        f"{together}. Whoever holds {_held(reply.table)} sees all of it."
    )


def _held(table: str) -> str:
    return "the file" if "." in table else "the data"


def spent(reply: Reply) -> str:
    """What is left of the budget."""
    return (
        f"Spent {budget(reply.epsilon_spent)} of {budget(reply.epsilon_limit)} epsilon on {reply.table} "
        f"({near(reply.budget)})."
    )


def near(path: str) -> str:
    """A path from here, if it is below this folder."""
    found, here = Path(path), Path.cwd()
    return str(found.relative_to(here)) if found.is_relative_to(here) else path


def _rows(
    name: str, title: str, decoded: Sequence[Decoded], promise: Guarantee, reply: Reply
) -> Iterator[Answer]:
    for found in decoded:
        yield Answer(
            name=name, quantity=found.quantity, value=found.value, low=found.low, high=found.high,
            unit=found.unit, of="of the population" if reply.population else "of these records",
            method=title, status=str(promise.status), kind=DETAIL if found.detail else ANSWER,
            guarantee=promise, epsilon=promise.epsilon, delta=promise.delta or None,
            sentences=(found.sentence,) if found.sentence else (), labels=tuple(found.labels),
            ordered=_on_lines(found), absent=found.absent,
        )  # fmt: skip


def _on_lines(found: Decoded) -> bool:
    """Whether components lie on a line, or on one for each group ("A: 3"), so that some stand for others."""
    return found.axis is not None or all(": " in label for label in found.labels)


def answer_lines(answers: Answers, width: int) -> Lines:
    """The body of the screen: each answer, what it says, and its bars."""
    names = list(answers)
    most = max(MOST_LINES // max(len(names), 1), LEAST_LINES)
    out: Lines = []
    for name in names:
        rows = [row for row in answers.rows if row.name == name]
        if len(names) > 1:
            out += wrapped(rows[0].method, width)
        for row in rows:
            out += _detail(row, width) if row.kind == DETAIL else _answer(row, width, most)
        out += [""]
    return out


def _answer(row: Answer, width: int, most: int) -> Lines:
    said = [line for text in row.sentences for line in wrapped(f"  {text}", width)]
    if row.labels:
        shown = components(row, width, row.size if row.size <= ALL_LINES else most)
        return [*shown, *said]
    named = row.quantity.lower() in row.method.lower()
    return [*wrapped(f"  {number(row)}{'' if named else f'  {row.quantity}'}", width), *said]


def _detail(row: Answer, width: int) -> Lines:
    if row.labels:
        return wrapped(f"  {row.quantity}: in the table that -o STEM writes", width)
    return wrapped(f"  {row.quantity}: {number(row)}", width)


def number(row: Answer) -> str:
    """The number with its interval, or that there is none."""
    if row.size and not math.isfinite(float(np.reshape(row.value, ()))):
        return unsaid(row)
    return with_bar(row.value, row.low, row.high, row.unit)


def _cells(row: Answer) -> Iterator[tuple[str, str]]:
    """Each label with its number."""
    like = typical_width(row)
    ends = ([None] * row.size if end is None else np.ravel(end) for end in (row.low, row.high))
    numbers = zip(row.labels, np.ravel(row.value), *ends, strict=True)
    for k, (label, value, low, high) in enumerate(numbers):
        known = math.isfinite(value)
        yield label, with_bar(value, low, high, row.unit, like) if known else unsaid(row, k)


def _pictures(findings: Mapping[str, tuple[Question, Sequence[Decoded]]]) -> Iterator[Picture]:
    from veilsum.front.plot import picture

    for k, (question, decoded) in enumerate(findings.values()):
        caption = f"{title_of(question)}, with 95% intervals."
        yield picture(_drawn(question, decoded, None), f"answer{k}", caption)


def _drawn(question: Question, decoded: Sequence[Decoded], ax: Axes | None) -> Axes:
    from veilsum.front import style

    bars = max(len(decoded[0].labels), 1) if decoded[0].axis is None else 0
    drawn = style.axes(ax, 7.2, 0.8 + 0.3 * bars if bars else 3.2)
    question.draw(decoded, drawn)
    return drawn
