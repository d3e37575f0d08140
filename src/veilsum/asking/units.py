"""Whose value may be anything: a row, or all rows of one id; and how the rows of a unit make one record.

    EachRow    every row is a record
    EachId     an id is a record: the mean of its rows' encodings, so that it counts once and moves the
               vector by no more than one row does (a mean lies in the convex hull); nothing is left out
    Capped     an id is up to K records: K of its rows, chosen by a keyed hash of their place; all others
               are left out. It moves the vector by K times what a row that may be out does

A unit is a class chosen once. What it makes of the statistic of a record is `statistic`, what it makes of
rows is `Sums`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._statistic import Statistic
from veilsum.questions import Question
from veilsum.questions.base import Ints, entries
from veilsum.questions.columns import Rows


class RecordUnit(ABC):
    """Whose value may be anything; abstract."""

    id: str | None = None

    @abstractmethod
    def ask(self, question: Question) -> Question:
        """The question as this unit asks it."""

    def statistic(self, record: Statistic) -> Statistic:
        """How far a unit moves a vector that a record moves so far."""
        return record

    @abstractmethod
    def sums(self, questions: list[Question], steps: list[Fraction]) -> Sums:
        """An empty sum, to which batches are added."""

    @abstractmethod
    def __str__(self) -> str:
        """In a promise: "one row"."""


class Sums(ABC):
    """Vectors of several questions in the making; abstract."""

    def __init__(self, questions: list[Question], steps: list[Fraction]) -> None:
        """Start at 0."""
        self.questions, self.steps, self.units = questions, steps, 0

    @abstractmethod
    def add(self, rows: list[Rows], kept: list[NDArray[np.bool_] | None], ids: Any) -> None:
        """Add a batch: columns as each question reads them, which rows are in for it, and their ids."""

    @abstractmethod
    def vectors(self) -> list[Ints]:
        """The vectors, in steps."""


@dataclass(frozen=True)
class EachRow(RecordUnit):
    """One row."""

    def ask(self, question: Question) -> Question:
        """As it is."""
        return question

    def sums(self, questions: list[Question], steps: list[Fraction]) -> Sums:
        """Sums."""
        return RowSums(questions, steps)

    def __str__(self) -> str:
        """Of a promise."""
        return "one row"


class RowSums(Sums):
    """Every row counts."""

    def __init__(self, questions: list[Question], steps: list[Fraction]) -> None:
        """Start at 0."""
        super().__init__(questions, steps)
        self._sums = [np.zeros(q.cells * q.parts, dtype=np.int64) for q in questions]

    def add(self, rows: list[Rows], kept: list[NDArray[np.bool_] | None], ids: Any) -> None:
        """Add up."""
        del ids
        self.units += entries(rows[0])
        for question, step, total, read, inside in zip(
            self.questions, self.steps, self._sums, rows, kept, strict=True
        ):
            total += question.total(only(read, inside), step)

    def vectors(self) -> list[Ints]:
        """What was added."""
        return [q.expand(total) for q, total in zip(self.questions, self._sums, strict=True)]


def only(rows: Rows, kept: NDArray[np.bool_] | None) -> Rows:
    """The rows that are in."""
    return rows if kept is None else {name: values[kept] for name, values in rows.items()}
