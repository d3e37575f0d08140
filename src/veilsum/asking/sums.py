"""Vectors in the making: batches of rows are encoded on several threads, and added up on one.

    part = sums.part(rows, kept, ids)      of a batch, by any thread
    sums.take(part)                        on one thread
    sums.vector()                          in steps of the grid, as whole numbers

Totals are sums of whole numbers, so that neither the order of rows nor the size of batches matters. Where
an id matters, rows are kept by id and cell with their number and their sums (`veilsum.asking.by_id`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.asking.by_id import IdCodes, KeptLines, Lines, hashed
from veilsum.errors import QuestionError
from veilsum.questions import Question
from veilsum.questions.base import Ints
from veilsum.questions.columns import Rows

Kept = NDArray[np.bool_] | None


class Sums(ABC):
    """The vector of a question in the making; abstract.

    Attributes
    ----------
    units : int
        How many units there were, in or out.
    """

    def __init__(self, question: Question, step: Fraction) -> None:
        """Start at 0."""
        self.question, self.step, self.units = question, step, 0

    @abstractmethod
    def part(self, rows: Rows, kept: Kept, count: int, ids: Ints | None) -> Any:
        """Of a batch of `count` rows as the question reads them, of which some are in."""

    @abstractmethod
    def take(self, part: Any) -> None:
        """Add a part."""

    @abstractmethod
    def vector(self) -> Ints:
        """What was added, in steps."""


class RowSums(Sums):
    """Every row counts."""

    def __init__(self, question: Question, step: Fraction) -> None:
        """Start at 0."""
        super().__init__(question, step)
        self._sum = np.zeros(question.cells * question.parts, dtype=np.int64)

    def part(self, rows: Rows, kept: Kept, count: int, ids: Ints | None) -> Any:
        """The totals of the batch."""
        del ids
        return count, self.question.total(only(rows, kept), self.step)

    def take(self, part: Any) -> None:
        """Add up."""
        self.units += part[0]
        self._sum += part[1]

    def vector(self) -> Ints:
        """What was added."""
        return self.question.expand(self._sum)


class IdSums(Sums):
    """Rows by id; abstract."""

    apart = False  # whether rows of different values are kept apart

    def __init__(self, question: Question, step: Fraction) -> None:
        """Without a row."""
        super().__init__(question, step)
        self._kept: KeptLines | None = None

    def part(self, rows: Rows, kept: Kept, count: int, ids: Ints | None) -> Lines:
        """The rows of the batch; those that are out have no cell."""
        assert ids is not None
        assert count == len(ids)
        cells, steps = stepped(self.question, only(rows, kept), self.step)
        if kept is not None:
            every = np.full(count, -1, dtype=np.int64)
            every[kept] = cells
            values = np.zeros((count, steps.shape[1]), dtype=np.int64)
            values[kept] = steps
            cells, steps = every, values
        return Lines(ids, cells, np.ones(count, dtype=np.int64), steps)

    def take(self, part: Lines) -> None:
        """Keep."""
        if self._kept is None:
            self._kept = KeptLines(self.question.cells + 1, self.apart)
        self._kept.add(part)

    def vector(self) -> Ints:
        """The sum of what each id counts for."""
        total = np.zeros((self.question.cells + 1, self.question.parts), dtype=np.int64)
        lines = Lines.none() if self._kept is None else self._kept.lines()
        self.units = int(np.count_nonzero(np.diff(lines.ids))) + bool(len(lines.ids))
        lines = lines.of(lines.cells >= 0)
        if len(lines.ids):
            starts = np.flatnonzero(np.concatenate([[True], lines.ids[1:] != lines.ids[:-1]]))
            place = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(lines.ids)))
            np.add.at(total, lines.cells, self._counted(lines, starts, place))
        return self.question.expand(total[:-1].ravel())

    @abstractmethod
    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        """What each line counts for, (lines, P).

        Parameters
        ----------
        lines
            Of rows that are in, sorted by id.
        starts, place
            The first line of each id, and the id of each line.
        """


class MeanSums(IdSums):
    """An id counts for the mean of its rows, of real numbers: rounded to floor(S/m + 1/2)."""

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)[place][:, None]
        return np.asarray((2 * lines.values + m) // (2 * m))


class HullSums(IdSums):
    """An id counts for the mean of its rows, of whole numbers, times a weight: exactly in their hull."""

    apart = True

    def __init__(self, question: Question, step: Fraction, weight: int) -> None:
        """With the weight of an id."""
        super().__init__(question, step)
        self.weight = weight

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)
        found = (self.weight // m)[place][:, None] * lines.values
        first = lines.of(starts)
        found[starts] += (self.weight % m)[:, None] * (first.values // first.counts[:, None])
        return np.asarray(found)


class CappedSums(IdSums):
    """K rows of each id count: those with the smallest keyed hash of id, value and occurrence."""

    apart = True

    def __init__(self, question: Question, step: Fraction, cap: int, codes: IdCodes) -> None:
        """With the cap, and what ids' codes stand for."""
        super().__init__(question, step)
        self.cap, self.codes = cap, codes

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)[place]
        chosen = np.where(m <= self.cap, lines.counts, 0)
        over = np.flatnonzero(m > self.cap)
        if over.size:
            chosen[over] = self._chosen(lines.of(over))
        return np.asarray(lines.values // lines.counts[:, None] * chosen[:, None])

    def _chosen(self, lines: Lines) -> Ints:
        """How many rows of each line count, for ids with more rows than the cap."""
        line = np.repeat(np.arange(len(lines.ids)), lines.counts)
        first = np.repeat(np.cumsum(lines.counts) - lines.counts, lines.counts)
        each = (lines.sums // lines.counts[:, None]).T
        keys = [self.codes.keyed(lines.ids), lines.cells, *each]
        marks = hashed(b"", [hashed(b"", keys)[line], np.arange(len(line)) - first])
        ids = lines.ids[line]
        order = np.lexsort((marks, ids))
        ids = ids[order]
        rank = np.arange(len(ids)) - np.searchsorted(ids, ids)
        return np.bincount(line[order][rank < self.cap], minlength=len(lines.ids))


def stepped(question: Question, rows: Rows, step: Fraction) -> tuple[Ints, Ints]:
    """The cell of each record and its parts in steps, none for counts; what `Question.total` adds up.

    A record whose vector is 0 has a cell of its own after all others, as it counts in a mean.
    """
    if type(question).total is not Question.total:
        raise QuestionError(f"{question.name} is not asked by id")
    encoded = question.encode(rows)
    if encoded.cells is None:
        cells = np.zeros(len(np.asarray(encoded.parts)), dtype=np.int64)
    else:
        cells = np.where(encoded.cells < 0, question.cells, encoded.cells)
    if encoded.parts is None:
        return cells, np.zeros((len(cells), 0), dtype=np.int64)
    return cells, np.floor(encoded.parts / float(step) + 0.5).astype(np.int64)


def only(rows: Rows, kept: Kept) -> Rows:
    """The rows that are in."""
    return rows if kept is None else {name: values[kept] for name, values in rows.items()}
