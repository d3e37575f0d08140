"""Whose value may be anything: a row, or all rows of one id; and how the rows of an id make one record.

    EachRow    every row is a record
    EachId     an id is a record, the mean of its rows' vectors: v = (1/m) sum_r e(r)
    Capped     an id is up to K records: K of its rows, chosen by a keyed hash

A unit is chosen once for each question. What it makes of the statistic of a row is `statistic`, what it
makes of rows is `Sums` (`veilsum.asking.sums`).

EachId moves a vector by no more than a row does. v lies in the convex hull of what rows may be (and 0, if
rows may be out), and the largest distance within a hull is that between two of its points e, e': for
v = sum a_i e_i and v' = sum b_j e_j,  ||v - v'|| = ||sum a_i b_j (e_i - e_j)|| <= max ||e_i - e_j||. This
holds on a grid as well:

    whole numbers    v = (floor(M/m) sum_r e(r) + (M mod m) e(first))/M, whose weights are whole and add up to
                     M = 2^b: a point of the hull, in steps of 1/M, and nothing is rounded. `first` is the
                     row that is first in the order of values, so that the order of rows does not matter
    real numbers     rows are rounded to the grid, and their mean again: an error of half a step a component
                     more than `Statistic.steps` pays anyway. So are whole numbers of more than 20 bits

Capped moves it by K times what a row does that may be out: the K rows of one id are replaced one after the
other by those of another, or by none. Each of them is rounded by itself, which K steps of error pay. Which
rows of an id count depends on the key and on the rows of this id alone.

A missing id is an error, as nobody knows whose row it is; where missing values are left out, so is its row.
Ids are compared by their shortest text, over all files: 7, 7.0 and "7" are one id.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from veilsum._statistic import Statistic
from veilsum.asking.by_id import IdCodes
from veilsum.asking.sums import CappedSums, HullSums, MeanSums, RowSums, Sums
from veilsum.errors import QuestionError
from veilsum.questions import By, Question
from veilsum.questions.noise import grid

BITS = 30  # of what an id counts for, where its rows are whole numbers
LEAST_BITS = 10  # with fewer, means are rounded to the grid of the rows


class RecordUnit(ABC):
    """Whose value may be anything; abstract."""

    @abstractmethod
    def ask(self, question: Question) -> Question:
        """The question as this unit asks it."""

    @abstractmethod
    def statistic(self, row: Statistic) -> Statistic:
        """How far a unit moves a vector that a row moves so far."""

    @abstractmethod
    def sums(self, question: Question, step: Fraction, codes: IdCodes) -> Sums:
        """An empty sum, to which batches are added."""

    def most(self, units: int) -> int:
        """How many records there are at most, with so many units."""
        return units

    @abstractmethod
    def __str__(self) -> str:
        """In a promise: "one row"."""


@dataclass(frozen=True)
class EachRow(RecordUnit):
    """One row."""

    def ask(self, question: Question) -> Question:
        """As it is, unless it counts people."""
        if question.once:
            raise QuestionError(
                f"{question.name} counts ids: say which column says whose a row is (--id)"
            )
        return question

    def statistic(self, row: Statistic) -> Statistic:
        """Of a row."""
        return row

    def sums(self, question: Question, step: Fraction, codes: IdCodes) -> Sums:
        """Every row counts."""
        del codes
        return RowSums(question, step)

    def __str__(self) -> str:
        """Of a promise."""
        return "one row"


@dataclass(frozen=True)
class EachId(RecordUnit):
    """All rows of one id, whose mean is one record."""

    id: str

    def ask(self, question: Question) -> Question:
        """As it is, unless more rows are more."""
        if question.adds_rows:
            raise QuestionError(
                f"{question.name} adds up rows, and an id may have any number of them: say how many of "
                "an id count (--cap)"
            )
        if not question.of_ids:
            raise QuestionError(
                f"a {question.name} is of independent records, and the rows of an id are not: ask a table "
                "with a row for each id"
            )
        return question

    def statistic(self, row: Statistic) -> Statistic:
        """Of a row, on a finer grid; or with the error of two roundings."""
        if row.step is not None and (bits := _bits(row)) >= LEAST_BITS:
            return replace(row, step=row.step / 2**bits)
        return replace(row, error=row.error + float(grid(row)) / 2)

    def sums(self, question: Question, step: Fraction, codes: IdCodes) -> Sums:
        """Means of ids."""
        del codes
        weight = 1 if question.statistic.step is None else int(question.statistic.step / step)
        if weight > 1:
            return HullSums(question, step * weight, weight)
        inner = question.question if isinstance(question, By) else question
        if type(inner).expand is not Question.expand:
            raise QuestionError(f"{question.name} is not asked by id: its parts are added up twice")
        return MeanSums(question, step)

    def __str__(self) -> str:
        """Of a promise."""
        return f"all rows of one {self.id}"


@dataclass(frozen=True)
class Capped(RecordUnit):
    """All rows of one id, of which up to K count."""

    id: str
    cap: int

    def __post_init__(self) -> None:
        """Refuse a cap that is none."""
        if isinstance(self.cap, bool) or not isinstance(self.cap, int | np.integer) or self.cap < 1:
            raise QuestionError(f"cap is a whole number of at least 1; found {self.cap!r}")

    def ask(self, question: Question) -> Question:
        """Where rows may be out: how many count is private."""
        return question.within()

    def statistic(self, row: Statistic) -> Statistic:
        """K times that of a row."""
        k = int(self.cap)
        found = replace(
            row, l1=k * row.l1, l2=k * float(row.l2 or row.l1),
            low=k * np.minimum(row.low, 0.0), high=k * np.maximum(row.high, 0.0),
        )  # fmt: skip
        return found if row.step is not None else replace(found, error=k * float(grid(found)))

    def most(self, units: int) -> int:
        """K of each."""
        return units * int(self.cap)

    def sums(self, question: Question, step: Fraction, codes: IdCodes) -> Sums:
        """K rows of each id."""
        return CappedSums(question, step, int(self.cap), codes)

    def __str__(self) -> str:
        """Of a promise."""
        return f"all rows of one {self.id}, of which {self.cap} count"


def unit_of(question: Question, id: str | None = None, cap: int | None = None) -> RecordUnit:
    """Whose value may be anything, for a question: a question that counts ids needs no cap."""
    if id is None:
        if cap is not None:
            raise QuestionError("cap is how many rows of an id count: say which column is the id")
        return EachRow()
    if cap is not None and not question.once:
        return Capped(id, cap)
    return EachId(id)


def promise(units: Sequence[RecordUnit]) -> str:
    """The unit of several questions together."""
    texts = {str(unit): unit for unit in units}
    if len(texts) == 1:
        return next(iter(texts))
    return max(texts, key=len)


def _bits(row: Statistic) -> int:
    """Of the weight of an id: 30, less those that a row's largest component has."""
    ends = [abs(end) for end in (*row.low, *row.high) if math.isfinite(end)]
    largest = max([float(row.l1), *ends]) / float(row.step or 1.0)
    return BITS - math.ceil(math.log2(max(largest, 1.0)))
