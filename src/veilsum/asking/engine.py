"""One answer: check, forecast, one pass over the rows, one exact draw, charged and kept.

Order matters. Everything that shapes the vectors is public and settled before a row is read; the charge,
the draw and the answer are one transaction of the budget, so that an answer that anybody has seen is
always charged, and is never drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.asking.budget import BudgetFile
from veilsum.asking.tables import Table, open_table
from veilsum.asking.units import EachRow, RecordUnit, Sums
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.questions import (
    By,
    Category,
    Column,
    Decoded,
    Forecast,
    GridNoise,
    NoisedVector,
    Question,
    priced,
)
from veilsum.questions.columns import RECORDS, Rows, UnreadableValueError

FORMAT = 1


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
    event : PrivacyEvent
        What the release costs.
    epsilon_spent, epsilon_limit : float
        Of the budget, after it.
    budget : str
        The file of the budget.
    stored : bool
        Whether the answer was drawn before, and cost nothing now.
    """

    table: str
    records: int | None
    unit: str
    questions: Sequence[Question]
    decoded: Sequence[tuple[Decoded, ...]]
    event: PrivacyEvent
    epsilon_spent: float
    epsilon_limit: float
    budget: str
    stored: bool


def ask(
    data: Any,
    *questions: Question,
    epsilon: float,
    delta: float = 0.0,
    where: Mapping[str, Sequence[str]] | None = None,
    by: Category | None = None,
    budget: Any = None,
    limit: float | None = None,
    anyway: bool = False,
) -> Reply:
    """Ask questions of a table, once, for epsilon together.

    Parameters
    ----------
    data
        A path, a data frame, columns by name.
    *questions
        Of `veilsum.questions`.
    epsilon, delta
        What the answers together cost, of the data's budget.
    where
        Columns and the values that count.
    by
        Groups, each of which is asked.
    budget
        Where the budget is kept; beside a file by default.
    limit
        Of the budget; the first question's epsilon by default.
    anyway
        Ask although noise will be more than three times sampling.
    """
    table = open_table(data)
    unit: RecordUnit = EachRow()
    filters = [Category(name, tuple(values)) for name, values in (where or {}).items()]
    asked = [_grouped(one.within() if filters else one, by) for one in questions]
    asked = [unit.ask(one) for one in asked]
    table.check([*(c.name for one in asked for c in one.columns), *(f.name for f in filters)])
    stages = [
        (one, k, share / len(asked), unit.statistic(statistic))
        for one in asked
        for k, (share, statistic) in enumerate(zip(one.stages, one.stage_statistics, strict=True))
    ]
    price = priced([stage[3] for stage in stages], [stage[2] for stage in stages], epsilon, delta)
    terms = json.dumps(
        {"format": FORMAT, "questions": [one.terms() for one in asked], "unit": str(unit),
         "where": {f.name: list(f.values) for f in filters}, "epsilon": epsilon, "delta": delta},
        sort_keys=True,
    )  # fmt: skip
    noises: dict[Question, list[GridNoise]] = {one: [] for one in asked}
    for stage, noise in zip(stages, price.parts, strict=True):
        noises[stage[0]].append(noise)

    def draw() -> dict[str, Any]:
        done: list[list[NoisedVector]] = [[] for _ in asked]
        steps: list[list[list[int]]] = [[] for _ in asked]
        units = 0
        for k in range(max(len(one.stages) for one in asked)):
            due = [q for q, one in enumerate(asked) if k < len(one.stages)]
            now = [asked[q].stage(k, done[q]) for q in due]
            for q, one in zip(due, now, strict=True):
                if one.statistic != asked[q].stage_statistics[k]:
                    raise QuestionError(f"stage {k} of {asked[q].name} moves by more than it says")
            laws = [noises[asked[q]][k] for q in due]
            sums = unit.sums(now, [noise.step for noise in laws])
            _one_pass(table, sums, now, filters)
            units = sums.units
            for q, vector, noise in zip(due, sums.vectors(), laws, strict=True):
                x = noise.law.draw(len(vector))
                steps[q].append([int(a) + int(b) for a, b in zip(vector, x, strict=True)])
                done[q].append(_vector(asked[q], steps[q][-1], noise, units))
        return {"vectors": steps, "records": units}

    with BudgetFile.of(table, budget) as file:
        kept = file.answer(terms)
        stored = kept is not None
        if kept is None:
            count = table.rows()
            for one in asked if not anyway else ():
                _useful(one.forecast(count, noises[one][0]))
            kept = file.once(terms, price.event, draw, limit=limit)
        spent, most = file.spent(), file.limit()
    decoded = [
        one.conclude([
            _vector(one, steps, noise, kept["records"])
            for steps, noise in zip(drawn, noises[one], strict=True)
        ])
        for one, drawn in zip(asked, kept["vectors"], strict=True)
    ]  # fmt: skip
    public = None if any(one.partial for one in asked) else kept["records"]
    return Reply(
        table.name,
        public,
        str(unit),
        asked,
        decoded,
        price.event,
        spent,
        most,
        str(file.path),
        stored,
    )


def _vector(question: Question, steps: Sequence[int], noise: GridNoise, units: int) -> NoisedVector:
    values = np.array([s * float(noise.step) for s in steps])
    return NoisedVector(values, noise, None if question.partial else units, units)


def _grouped(question: Question, by: Category | None) -> Question:
    return question if by is None else By(question=question, group=by, partial=question.partial)


def _useful(forecast: Forecast) -> None:
    if not forecast.useful:
        raise QuestionError(
            f"noise of ± {forecast.half:.3g} on {forecast.of} would be more than three times what sampling "
            f"does (± {forecast.sampling:.3g}); ask with a larger epsilon, of more rows"
            f"{forecast.fewer and f', with {forecast.fewer}'}, or anyway"
        )


def _one_pass(
    table: Table, sums: Sums, questions: Sequence[Question], filters: Sequence[Category]
) -> None:
    columns = list(dict.fromkeys(c for one in questions for c in one.columns))
    names = list(dict.fromkeys([*(c.name for c in columns), *(f.name for f in filters)]))
    start = 0
    for batch in table.batches(names or table.columns[:1]):
        read: dict[Column, NDArray[Any]] = {}
        for column in columns:
            try:
                read[column] = column.read(batch[column.name])
            except UnreadableValueError as error:
                at = table.where(start + error.row)
                raise QuestionError(
                    f"{table.name}, {at}: column {column.name} {error.why}"
                ) from None
        count = len(next(iter(batch.values())))
        everyone = {RECORDS: np.zeros(count, dtype=np.int8)}
        inside = np.ones(count, dtype=np.bool_)
        for one in filters:
            inside &= one.read(batch[one.name]) >= 0
        kept = []
        for question in questions:
            out = np.zeros(count, dtype=np.bool_)
            for column in question.columns:
                out |= column.out(read[column])
            first = np.flatnonzero(out & inside)
            if first.size and not question.partial:
                raise QuestionError(
                    f"{table.name}, {table.where(start + int(first[0]))}: a value is missing, or in none of "
                    "the categories"
                )
            mask = inside & ~out
            kept.append(None if mask.all() else mask)
        rows: list[Rows] = [everyone | {c.name: read[c] for c in one.columns} for one in questions]
        sums.add(rows, kept, None)
        start += count
