"""What is public about a release, settled before a row is read: questions, units, shares, noise, terms.

questions ── population, filter, group ── unit ── shares ── noise ── terms
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from veilsum.asking.passes import MissingAs, MissingLeftOut, MissingRefused, MissingRule, View
from veilsum.asking.shares import shares_of
from veilsum.asking.units import RecordUnit, promise, unit_of
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.questions import QUESTIONS, By, Category, GridNoise, Question, priced
from veilsum.questions.columns import Number
from veilsum.questions.noise import USUAL

if TYPE_CHECKING:
    from veilsum.asking.codebook import Settings
    from veilsum.asking.codebook_contents import Codebook

FORMAT = 1
FINE = 1 << 40  # shares of stages are whole multiples of 1/FINE
BEYOND = "Values beyond the bounds count as the bounds, infinite ones as well."


@dataclass(frozen=True, eq=False)
class AskedQuestion:
    """A question of a release.

    Parameters
    ----------
    question : Question
        As it is asked: of which rows, by which group.
    unit : RecordUnit
        Whose value may be anything.
    share : Fraction
        Of epsilon.
    noises : tuple of GridNoise
        Of each stage.
    """

    question: Question
    unit: RecordUnit
    share: Fraction
    noises: tuple[GridNoise, ...]


@dataclass(frozen=True, eq=False)
class Settled:
    """All that is public about a release.

    Parameters
    ----------
    asked : tuple of AskedQuestion
        Its questions.
    view : View
        How rows are looked at.
    event : PrivacyEvent
        What it costs.
    rows_public : bool
        Whether the number of units is public.
    population : bool
        Whether intervals are of the population.
    terms : str
        What identifies it among those of one table: JSON.
    laws : sequence of str
        Which noise may be used, as of `priced`.
    """

    asked: tuple[AskedQuestion, ...]
    view: View
    event: PrivacyEvent
    rows_public: bool
    population: bool
    terms: str
    laws: Sequence[str] = USUAL

    @property
    def unit(self) -> str:
        """Of the promise."""
        found = promise([one.unit for one in self.asked])
        return f"{found} where {self.where}" if self.view.filters_public else found

    @property
    def where(self) -> str:
        """Which records, for people: "region north or south"."""
        return " and ".join(f"{f.name} {' or '.join(f.values)}" for f in self.view.filters)


def grouped(
    by: Category | tuple[str, Sequence[Any]] | str | None, book: Codebook | None
) -> Category | None:
    """The groups; of a name alone those of the codebook, never those of the rows."""
    if by is None or isinstance(by, Category):
        return by
    if not isinstance(by, str):
        return Category(by[0], tuple(by[1]))
    if book is None:
        raise QuestionError(
            f"the groups of {by} are missing: say which there may be, such as --by {by}=A,B, or in a "
            "codebook. Which ones occur would give rare ones away"
        )
    return book.category(by)


def settle(
    questions: Sequence[Question],
    *,
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
    decimal: str = ".",
    sql: str | None = None,
    settings: Settings | None = None,
    laws: Sequence[str] = USUAL,
) -> Settled:
    """Settle a release; the arguments are those of `ask`, and which noise may be used."""
    _check(questions)
    if clipped:
        questions = [*questions, *_beyond(questions)]
    filters = _filters(where)
    group = grouped(by, None)
    columns = list(dict.fromkeys(c for one in questions for c in one.columns))
    how = _missing(missing, [*columns, *([group] if group else [])])
    if rows_public is None and _asks_how_many(questions, bool(filters or group or how.partial)):
        rows_public = False
    if population and cap is not None:
        raise QuestionError(
            "the rows of an id are no independent sample of a population: leave out cap, so that each id is "
            "one record, or leave out population"
        )
    partial = how.partial or rows_public is False or (bool(filters) and not rows_public)
    asked, units = [], []
    for question in questions:
        _check_group(question, group)
        found = question.of_population() if population else question
        found = found.within() if partial and not found.partial else found
        found = found if group is None else By(question=found, group=group, partial=found.partial)
        found = found.tuned(epsilon, delta)
        unit = unit_of(found, id, cap)
        asked.append(unit.ask(found))
        units.append(unit)
    statistics = [u.statistic(q.statistic) for q, u in zip(asked, units, strict=True)]
    shares = shares_of(asked, statistics, epsilon, delta, laws)
    noises, event = _priced(asked, units, shares, epsilon, delta, laws)
    terms = {
        "format": FORMAT, "questions": [one.terms() for one in asked], "epsilon": float(epsilon),
        "delta": float(delta), "units": [str(unit) for unit in units], "shares": list(map(str, shares)),
        "where": {f.name: list(f.values) for f in filters}, "where_public": bool(filters and rows_public),
        "missing": how.terms(), "rows_public": rows_public is not False, "decimal": decimal, "sql": sql,
        **({} if settings is None else settings.terms),
    }  # fmt: skip
    return Settled(
        tuple(map(AskedQuestion, asked, units, shares, noises)),
        View(filters, bool(filters and rows_public), how, id, decimal),
        event, rows_public is not False, population, json.dumps(terms, sort_keys=True), laws,
    )  # fmt: skip


def hidden_by(terms: str) -> tuple[str, str]:
    """What a release of these terms hides: rows or all rows of an id, and the public filter they are under.

    Epsilons of two releases add up where this is the same. An answer that hides rows says nothing of all
    rows of an id; a row that gets another id moves two records of an answer by id.
    """
    lost = {"units": [""], "where_public": True, "where": None}
    found: dict[str, Any] = json.loads(terms) if terms else lost
    unit = min(found["units"], key=len).partition(", of which")[0]
    return unit, json.dumps(found["where"]) if found["where_public"] else ""


def _check(questions: Sequence[Question]) -> None:
    if not questions:
        raise QuestionError("ask at least one question, such as questions.mean(...)")
    for one in questions:
        if not isinstance(one, Question):
            raise QuestionError(
                f"a question is made by veilsum.questions, such as questions.mean(...); found {one!r}"
            )


def _check_group(question: Question, group: Category | None) -> None:
    """One column is read in one way: not as the group of its own question."""
    if group is not None and group.name in {c.name for c in question.columns}:
        raise QuestionError(f"{question.name} is of {group.name}, and is not asked by {group.name}")


def _asks_how_many(questions: Sequence[Question], some: bool) -> bool:
    """Whether a question asks for the number that is public otherwise: of all ids, or of all rows."""
    return any(one.once or (one.adds_rows and not one.columns and not some) for one in questions)


def _filters(where: Mapping[str, Any] | None) -> tuple[Category, ...]:
    if where is not None and not isinstance(where, Mapping):
        raise QuestionError(f"where is a mapping of columns to values that count; found {where!r}")
    found = {
        name: tuple(values) if isinstance(values, list | tuple | set) else (values,)
        for name, values in (where or {}).items()
    }
    return tuple(Category(name, values) for name, values in found.items())


def _missing(missing: Any, columns: Sequence[Any]) -> MissingRule:
    if missing is None:
        return MissingRefused()
    if isinstance(missing, str) and missing == "out":
        return MissingLeftOut()
    return MissingAs(missing, columns)


def _beyond(questions: Sequence[Question]) -> list[Question]:
    """The share of clipped records, of each number that a question reads."""
    columns = dict.fromkeys(
        c
        for one in questions
        for c in one.columns
        if isinstance(c, Number) and one.name != "clipped"
    )
    if not columns:
        raise QuestionError("no column of these questions has bounds: nothing is clipped")
    return [QUESTIONS["clipped"].make(c.name, between=(c.low, c.high)) for c in columns]


def _priced(
    asked: Sequence[Question],
    units: Sequence[RecordUnit],
    shares: Sequence[Fraction],
    epsilon: float,
    delta: float,
    laws: Sequence[str],
) -> tuple[list[tuple[GridNoise, ...]], PrivacyEvent]:
    """The noise of each stage of each question."""
    statistics, parts = [], []
    for question, unit, share in zip(asked, units, shares, strict=True):
        statistics += [unit.statistic(one) for one in question.stage_statistics]
        parts += [share * part for part in _stages(question.stages)]
    price = priced(statistics, parts, epsilon, delta, laws)
    noises = iter(price.parts)
    return [tuple(next(noises) for _ in one.stages) for one in asked], price.event


def _stages(stages: Sequence[float]) -> list[Fraction]:
    """Shares of stages that add up to at most 1 exactly."""
    if len(stages) == 1:
        return [Fraction(1)]
    total = sum(map(Fraction, stages))
    return [Fraction(int(Fraction(part) / total * FINE), FINE) for part in stages]


def at(settled: Settled, epsilon: float, delta: float) -> list[tuple[GridNoise, ...]]:
    """The noise of the same questions at another epsilon."""
    asked = settled.asked
    return _priced(
        [one.question for one in asked], [one.unit for one in asked], [one.share for one in asked],
        epsilon, delta, settled.laws,
    )[0]  # fmt: skip


def with_bins(question: Question, bins: int) -> Question | None:
    """A histogram or the like with other bins; None if it has none to choose."""
    if isinstance(question, By):
        inner = with_bins(question.question, bins)
        return None if inner is None else replace(question, question=inner)
    known = getattr(question, "bins", None)
    if not isinstance(known, int) or known < 3 or getattr(question, "edges", None) is None:
        return None
    other: dict[str, Any] = {"bins": bins}
    return replace(question, **other)
