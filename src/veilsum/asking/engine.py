"""One answer: settle what is public, one pass over the rows, one exact draw, charged and kept.

Order matters. Everything that shapes the vectors is public and settled before a row is read. The charge,
the draw and the answer are one transaction of the budget, so that an answer that anybody has seen is always
charged, and is never drawn again. A refusal after the rows were read depends on their public number alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum.asking.budget import BudgetFile
from veilsum.asking.by_id import IdCodes
from veilsum.asking.passes import Pass, View
from veilsum.asking.settling import (
    BEYOND,
    AskedQuestion,
    Settled,
    grouped,
    hidden_by,
    settle,
)
from veilsum.asking.small_cells import small_cells, with_small_cells
from veilsum.asking.tables import Table, open_table
from veilsum.asking.usefulness import check_useful
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.questions import Category, Decoded, NoisedVector, Question
from veilsum.questions.base import Ints
from veilsum.questions.columns import Number

if TYPE_CHECKING:
    from veilsum.asking.codebook import Settings
    from veilsum.asking.codebook_contents import Codebook
    from veilsum.privacy.guarantee import Guarantee

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Reply:
    """The answers of one release.

    Parameters
    ----------
    table : str
        Its name.
    records : int or None
        How many units there are, where that is public.
    unit : str
        Whose value may be anything.
    questions : sequence of Question
        As they were asked.
    decoded : sequence of tuple of Decoded
        The answers of each.
    shares : sequence of float
        Of epsilon, for each question.
    event : PrivacyEvent
        What the release costs.
    epsilon_spent, epsilon_limit : float
        Of the budget, after it.
    budget : str
        The file of the budget.
    stored : bool
        Whether the answer was drawn before, and cost nothing now.
    notes : tuple of str
        What a reader must know, such as that values beyond the bounds count as the bounds.
    population : bool
        Whether intervals are of the population that the records were sampled from.
    where : str
        Which records were asked about, such as "region north or south"; empty for all.
    date : str
        Of a stored answer: when it was drawn, such as "19 November 2026".
    delta_spent : float
        Of the budget, after it.
    adds_up : bool
        Whether all answers so far hid the same unit, so that what was spent bounds them together.
    promise : Guarantee, optional
        Of a release that another than the holder of one table made.

    Examples
    --------
    >>> import veilsum as vs
    >>> rows = {"kwh": [10.0, 12.0, 14.0] * 100}
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> reply = ask(rows, mean, epsilon=1.0, limit=2.0, budget="reply.budget")
    >>> reply.records, reply.unit, reply.epsilon_spent, reply.epsilon_limit
    (300, 'one row', 1.0, 2.0)
    """

    table: str
    records: int | None
    unit: str
    questions: Sequence[Question]
    decoded: Sequence[tuple[Decoded, ...]]
    shares: Sequence[float]
    event: PrivacyEvent
    epsilon_spent: float
    epsilon_limit: float
    budget: str
    stored: bool
    notes: tuple[str, ...] = ()
    population: bool = False
    where: str = ""
    date: str = ""
    delta_spent: float = 0.0
    adds_up: bool = True
    promise: Guarantee | None = None


def ask(
    data: Any,
    *questions: Question,
    epsilon: float,
    delta: float = 0.0,
    where: Mapping[str, Any] | None = None,
    by: Category | tuple[str, Sequence[Any]] | str | None = None,
    id: str | None = None,
    cap: int | None = None,
    missing: Any = None,
    population: bool = False,
    rows_public: bool | None = None,
    clipped: bool = False,
    min_count: int | None = None,
    round: int | None = None,
    budget: Any = None,
    limit: Any = None,
    anyway: bool = False,
    fresh: bool = False,
    decimal: str = ".",
    sql: str | None = None,
    codebook: Any = None,
) -> Reply:
    """Ask questions of a table, once, for epsilon together.

    Parameters
    ----------
    data
        A path or several, a data frame, a DuckDB relation, an Arrow table, columns by name.
    *questions
        Of `veilsum.questions`.
    epsilon, delta
        What the answers together cost, of the data's budget.
    where
        Columns and the values that count.
    by
        Groups, each of which is asked: a `Category`, a column and its public values, or a column whose
        values the codebook says.
    id
        The column that says whose a row is: the unit is all rows of one id.
    cap
        How many rows of an id count; without it the mean of its rows counts as one record.
    missing
        What a missing value is: None for an error, "out" to leave its row out, else what it counts as.
    population
        Whether intervals are of the population that the records were sampled from.
    rows_public
        Whether the number of records is public. By default that of a whole table is, and the number that
        a filter leaves is not; True makes that public as well, False neither.
    clipped
        Whether to ask as well what share of the records lies beyond the bounds.
    min_count
        Cells of fewer records, after noise, are not shown; see `small_cells`.
    round
        Counts are rounded to its multiples.
    budget
        Where the budget is kept; beside a file by default.
    limit
        Of the budget, epsilon or (epsilon, delta): set by the first question, and lowered by others; without
        it that of the codebook, or what the first question costs.
    anyway
        Ask although noise will be more than three times sampling.
    fresh
        Whether to pay for a new draw of a question that was answered.
    decimal
        The decimal mark of numbers in text.
    sql
        A SELECT of DuckDB that makes the table, over `data` as the table "data".
    codebook
        A public file that describes the columns; the one beside a file by default.

    Returns
    -------
    Reply
        The answers, and what they cost. `veilsum.ask` shows them.

    Examples
    --------
    >>> import veilsum as vs
    >>> rows = {"kwh": [9.0, 12.0, 15.0] * 100}
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> first = ask(rows, mean, epsilon=1.0, limit=2.0, budget="ask.budget")
    >>> again = ask(rows, mean, epsilon=1.0, budget="ask.budget")
    >>> first.stored, again.stored, again.epsilon_spent
    (False, True, 1.0)
    """
    small = small_cells(min_count, round)
    table = open_table(data, decimal, sql)
    book = _codebook(data, codebook)
    by = grouped(by, book)
    settings = None if book is None else _settings(book, questions, where, by, id, limit)
    id = id if settings is None else settings.id
    if table.filtered and rows_public is None:
        rows_public = False
    settled = settle(
        questions, epsilon=epsilon, delta=delta, where=where, by=by, id=id, cap=cap, missing=missing,
        population=population, rows_public=rows_public, clipped=clipped, decimal=decimal, sql=sql,
        settings=settings,
    )  # fmt: skip
    table.check(settled.view.names([one.question for one in settled.asked]))
    with BudgetFile.of(table, budget) as file:
        kept = None if fresh else file.answer(settled.terms)
        stored = kept is not None
        if kept is None:
            read = table if book is None else _decoded(table, book)
            kept = file.once(
                settled.terms, settled.event, lambda: _draw(read, settled, anyway), limit=limit,
                first=None if settings is None else settings.budget, fresh=fresh,
            )  # fmt: skip
        else:
            file.lower(limit)
        spent, most, place, notes = file.spent(), file.limit(), str(file.path), file.notes
        adds_up = {hidden_by(terms) for terms in file.terms()} == {hidden_by(settled.terms)}
        delta = file.price().delta
    reply = _reply(table, settled, kept, spent, most, place, stored, notes)
    reply = replace(reply, delta_spent=delta, adds_up=adds_up)
    if book is not None:
        found = zip(reply.questions, reply.decoded, strict=True)
        reply = replace(reply, decoded=[book.with_units(*one) for one in found])
    return reply if small is None else with_small_cells(reply, small)


def _draw(table: Table, settled: Settled, anyway: bool) -> dict[str, Any]:
    """The released vectors, in steps: a pass over the rows for each stage, and one draw after each."""
    asked = settled.asked
    steps: list[list[list[int]]] = [[] for _ in asked]
    codes = IdCodes()
    units = 0
    for k in range(max(len(one.noises) for one in asked)):
        due = [q for q, one in enumerate(asked) if k < len(one.noises)]
        now = [_stage(asked[q], k, steps[q], units, settled) for q in due]
        stage = [
            replace(asked[q], question=question, noises=asked[q].noises[k : k + 1])
            for q, question in zip(due, now, strict=True)
        ]
        vectors, units = totals(table, settled.view, stage, codes)
        if settled.rows_public and k == 0:
            _check_rows(table, settled, units, anyway)
        for q, vector in zip(due, vectors, strict=True):
            noise = asked[q].noises[k].law.draw(len(vector))
            steps[q].append([int(a) + int(x) for a, x in zip(vector, noise, strict=True)])
    known = units if settled.rows_public else 0  # a private number is not kept
    return {"vectors": steps, "records": known, "date": date.today().isoformat()}


def totals(
    table: Table, view: View, asked: Sequence[AskedQuestion], codes: IdCodes
) -> tuple[list[Ints], int]:
    """The vector of each question without noise, in steps, and the number of units: one pass over the rows.

    As secret as the rows: noise is added before anything else is done with it.
    """
    sums = [one.unit.sums(one.question, one.noises[0].step, codes) for one in asked]
    Pass(table, view, [one.question for one in asked], codes).run(sums)
    return [one.vector() for one in sums], sums[0].units


def _stage(
    one: AskedQuestion, k: int, steps: Sequence[Sequence[int]], units: int, settled: Settled
) -> Question:
    """The question of stage k, which may move by no more than was said before."""
    found = one.question.stage(k, released(one, steps, units, settled))
    if found.statistic != one.question.stage_statistics[k]:
        raise QuestionError(f"stage {k} of {found.name} moves by more than it says")
    return found


def _check_rows(table: Table, settled: Settled, units: int, anyway: bool) -> None:
    if not units:
        where = f" where {settled.where}" if settled.view.filters_public else ""
        raise QuestionError(f"{table.name} has no rows{where}: there is nothing to ask")
    if not anyway:
        check_useful(settled, units)


def released(
    one: AskedQuestion, steps: Sequence[Sequence[int]], units: int, settled: Settled
) -> list[NoisedVector]:
    """Released vectors as `decode` sees them."""
    public = settled.rows_public
    records = units if public and not one.question.partial else None
    table = one.unit.most(units) if public else None
    return [
        NoisedVector(
            np.array([s * float(noise.step) for s in vector]), noise, records, table,
            settled.population,
        )
        for vector, noise in zip(steps, one.noises, strict=False)
    ]  # fmt: skip


def _reply(
    table: Table, settled: Settled, kept: Mapping[str, Any], spent: float, most: float, place: str,
    stored: bool, notes: Sequence[str],
) -> Reply:  # fmt: skip
    asked, units = settled.asked, int(kept["records"])
    decoded = [
        one.question.conclude(released(one, steps, units, settled))
        for one, steps in zip(asked, kept["vectors"], strict=True)
    ]
    whole = settled.rows_public and not any(one.question.partial for one in asked)
    return Reply(
        table.name, units if whole else None, settled.unit, [one.question for one in asked], decoded,
        [float(one.share) for one in asked], settled.event, spent, most, place, stored,
        (*notes_of(settled, decoded, units), *notes), settled.population, settled.where,
        _spelled(kept.get("date", "")) if stored else "",
    )  # fmt: skip


def notes_of(
    settled: Settled, decoded: Sequence[tuple[Decoded, ...]], units: int
) -> tuple[str, ...]:
    """What a reader must know, from released and public numbers alone."""
    view, notes = settled.view, []
    if any(isinstance(c, Number) for one in settled.asked for c in one.question.columns):
        notes.append(BEYOND)
    counts = [one for found in decoded for one in found if one.quantity == "records"]
    if view.missing.partial:
        known = [float(one.value) for one in counts if np.ndim(one.value) == 0]
        if known and settled.rows_public and not view.filters:
            left = max(units - known[0], 0.0)
            notes.append(
                f"Rows without a value are left out: about {left:,.0f} of {units:,}, a noised number."
            )
        else:
            notes.append("Rows without a value are left out; how many there are is private.")
    if view.filters_public:
        notes.append(f"The number of records where {settled.where} is published as it is.")
    elif not settled.rows_public:
        notes.append("The number of records is private.")
    caps = [one.unit for one in settled.asked if hasattr(one.unit, "cap")]
    if caps:
        notes.append(
            f"Of an id with more than {caps[0].cap} rows, {caps[0].cap} chosen at random count."
        )
    return tuple(notes)


def _spelled(day: str) -> str:
    if not day:
        return ""
    year, month, number = day.split("-")
    return f"{int(number)} {MONTHS[int(month) - 1]} {year}"


def _codebook(data: Any, given: Any) -> Codebook | None:
    """The codebook that is given, or the one beside a file."""
    if given is None and not isinstance(data, str | Path):
        return None
    from veilsum.asking.codebook import codebook_of

    return codebook_of(data, given)


def _decoded(table: Table, book: Codebook) -> Table:
    """The table without the codes of missing values."""
    from veilsum.asking.codebook import Coded

    return Coded(table, book)


def _settings(
    book: Codebook, questions: Sequence[Question], where: Any, by: Category | None, id: str | None,
    limit: Any,
) -> Settings:  # fmt: skip
    from veilsum.asking.codebook import resolve

    group = [] if by is None else [by.name]
    names = [c.name for one in questions for c in one.columns]
    return resolve(book, [*names, *(where or {}), *group], id=id, limit=limit)
