"""Vectors in the making: batches of rows are encoded on several threads, and added up on one.

    part = sums.part(rows, kept, ids)      of a batch, by any thread
    sums.take(part)                        on one thread
    sums.vector()                          in steps of the grid, as whole numbers

Totals are sums of whole numbers, so that neither the order of rows nor the size of batches matters. Where
an id matters, rows are kept as (id, cell) with their number and their sums, sorted and merged whenever a
few million have come together: memory is that of the ids, and not of the rows.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import QuestionError
from veilsum.questions import Question
from veilsum.questions.base import Ints
from veilsum.questions.columns import Rows, TextColumn, distinct, text_of

Kept = NDArray[np.bool_] | None
PENDING = 1 << 22  # rows that are kept before they are merged


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


@dataclass(frozen=True)
class Lines:
    """Rows of ids, merged: one line for all rows of an id that are equal in what is sorted by.

    Parameters
    ----------
    ids, cells, counts : array of int
        (lines,): the code of the id, the cell (-1: out), and how many rows these are.
    sums : array of int
        (lines, P): of their parts, in steps.
    """

    ids: Ints
    cells: Ints
    counts: Ints
    sums: Ints

    def of(self, chosen: Any) -> Lines:
        """Some lines."""
        return Lines(self.ids[chosen], self.cells[chosen], self.counts[chosen], self.sums[chosen])

    def merged(self, apart: bool) -> Lines:
        """Sorted by id and cell, and by value where rows stay apart; equal lines together."""
        keys = [self.ids, self.cells]
        if apart:  # a line is rows of one value: its sums are that many times the value
            each = self.sums // np.maximum(self.counts, 1)[:, None]
            keys += [each[:, p] for p in range(each.shape[1])]
        order = _order(keys)
        keys = [key[order] for key in keys]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
        starts = np.flatnonzero(new)
        if not starts.size:
            return self
        return Lines(
            keys[0][starts], keys[1][starts], np.add.reduceat(self.counts[order], starts),
            np.add.reduceat(self.sums[order], starts, axis=0),
        )  # fmt: skip


class IdSums(Sums):
    """Rows by id; abstract."""

    apart = False  # whether rows of different values are kept apart

    def __init__(self, question: Question, step: Fraction) -> None:
        """Without a row."""
        super().__init__(question, step)
        self._lines: list[Lines] = []
        self._pending = 0

    def part(self, rows: Rows, kept: Kept, count: int, ids: Ints | None) -> Any:
        """The rows of the batch, merged; those that are out have no cell."""
        assert ids is not None
        assert count == len(ids)
        cells, steps = stepped(self.question, only(rows, kept), self.step)
        found = Lines(ids if kept is None else ids[kept], cells, np.ones_like(cells), steps)
        found = found.of(found.cells >= 0) if len(cells) and cells.min() < 0 else found
        absent = np.setdiff1d(ids, found.ids)
        zero = np.zeros((len(absent), steps.shape[1]), dtype=np.int64)
        out = Lines(absent, np.full_like(absent, -1), np.zeros_like(absent), zero)
        return joined([found.merged(self.apart), out])

    def take(self, part: Lines) -> None:
        """Keep, and merge when there are many."""
        self._lines.append(part)
        self._pending += len(part.ids)
        if self._pending > PENDING:
            self._lines = [joined(self._lines).merged(self.apart)]
            self._pending = 0

    def vector(self) -> Ints:
        """The sum of what each id counts for."""
        lines = joined(self._lines).merged(self.apart)
        self._lines = [lines]
        self.units = len(np.unique(lines.ids))
        lines = lines.of(lines.cells >= 0)
        cells, parts = self.question.cells, self.question.parts
        total = np.zeros((cells, parts), dtype=np.int64)
        if len(lines.ids):
            starts = np.flatnonzero(np.diff(lines.ids, prepend=lines.ids[0] - 1))
            place = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(lines.ids)))
            np.add.at(total, lines.cells, self._counted(lines, starts, place))
        return self.question.expand(total.ravel())

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        """What each line counts for, (lines, P).

        Parameters
        ----------
        lines
            Of rows that are in, sorted by id.
        starts, place
            The first line of each id, and the id of each line.
        """
        raise NotImplementedError


class MeanSums(IdSums):
    """An id counts for the mean of its rows, of real numbers: rounded to floor(S/m + 1/2)."""

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)[place][:, None]
        return np.asarray((2 * lines.sums + m) // (2 * m))


class HullSums(IdSums):
    """An id counts for the mean of its rows, of whole numbers, times a weight: exactly in their hull."""

    def __init__(self, question: Question, step: Fraction, weight: int) -> None:
        """With the weight of an id."""
        super().__init__(question, step)
        self.weight, self.apart = weight, question.parts > 1

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)
        found = (self.weight // m)[place][:, None] * lines.sums
        first = lines.of(starts)
        found[starts] += (self.weight % m)[:, None] * (first.sums // first.counts[:, None])
        return np.asarray(found)


class CappedSums(IdSums):
    """K rows of each id count: those with the smallest hash of id, value and occurrence.

    The code of an id is keyed (`IdCodes`), and so is this hash.
    """

    apart = True

    def __init__(self, question: Question, step: Fraction, cap: int) -> None:
        """With the cap."""
        super().__init__(question, step)
        self.cap = cap

    def _counted(self, lines: Lines, starts: Ints, place: Ints) -> Ints:
        m = np.add.reduceat(lines.counts, starts)[place]
        chosen = np.where(m <= self.cap, lines.counts, 0)
        over = np.flatnonzero(m > self.cap)
        if over.size:
            chosen[over] = self._chosen(lines.of(over))
        return np.asarray(lines.sums // lines.counts[:, None] * chosen[:, None])

    def _chosen(self, lines: Lines) -> Ints:
        """How many rows of each line count, for ids with more rows than the cap."""
        line = np.repeat(np.arange(len(lines.ids)), lines.counts)
        occurrence = np.arange(len(line)) - np.repeat(
            np.cumsum(lines.counts) - lines.counts, lines.counts
        )
        each = lines.sums // lines.counts[:, None]
        marks = hashed(
            b"",
            [lines.ids[line], lines.cells[line], occurrence, *(column[line] for column in each.T)],
        )
        order = np.lexsort((marks, lines.ids[line]))
        ids = lines.ids[line][order]
        rank = np.arange(len(ids)) - np.searchsorted(ids, ids)
        return np.bincount(line[order][rank < self.cap], minlength=len(lines.ids))


class IdCodes:
    """Ids as 64-bit numbers that depend on the key and their text alone: equal only for equal ids.

    Two different ids get one number with probability 2^-64 a pair; they would count as one, which moves
    no vector by more.
    """

    def __init__(self, key: bytes | None = None) -> None:
        """With a key that nobody else has."""
        self.key = secrets.token_bytes(16) if key is None else key

    def read(self, values: NDArray[Any] | TextColumn) -> tuple[Ints, NDArray[np.bool_]]:
        """The codes of a batch, and which rows have no id."""
        if not isinstance(values, TextColumn) and values.dtype.kind in "iu":
            return hashed(self.key, [values.astype(np.int64)]), np.zeros(
                len(values), dtype=np.bool_
            )
        known, inverse = distinct(values)
        texts = [text_of(value) for value in known]
        codes = self._codes(texts)
        missing = np.array([text == "" for text in texts], dtype=np.bool_)
        return codes[inverse], missing[inverse]

    def _codes(self, texts: Sequence[str]) -> Ints:
        """Whole numbers in text have the codes that arrays of whole numbers get."""
        whole = np.array([_is_whole(text) for text in texts], dtype=np.bool_)
        found = np.empty(len(texts), dtype=np.int64)
        found[whole] = hashed(
            self.key, [np.array([int(t) for t, w in zip(texts, whole, strict=True) if w], np.int64)]
        )
        found[~whole] = [
            int.from_bytes(blake2b(t.encode(), key=self.key, digest_size=8).digest(), "little", signed=True)
            for t, w in zip(texts, whole, strict=True) if not w
        ]  # fmt: skip
        return found


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return plain and (digits[0] != "0" or text == "0")


def hashed(key: bytes, columns: Sequence[Ints]) -> Ints:
    """A keyed 64-bit mix of whole numbers, row by row."""
    words = np.frombuffer(blake2b(key, digest_size=16).digest(), dtype=np.uint64)
    found = np.full(len(columns[0]), words[0], dtype=np.uint64)
    for column in columns:
        found = _mixed(found ^ column.view(np.uint64)) + words[1]
    return _mixed(found).view(np.int64)


def stepped(question: Question, rows: Rows, step: Fraction) -> tuple[Ints, Ints]:
    """The cell of each record and its parts in steps; what `Question.total` adds up."""
    if type(question).total is not Question.total:
        raise QuestionError(f"{question.name} is not asked by id")
    encoded = question.encode(rows)
    if encoded.parts is None:
        cells = np.asarray(encoded.cells, dtype=np.int64)
        return cells, np.ones((len(cells), 1), dtype=np.int64)
    steps = np.floor(encoded.parts / float(step) + 0.5).astype(np.int64)
    cells = np.zeros(len(steps), dtype=np.int64) if encoded.cells is None else encoded.cells
    return np.asarray(cells, dtype=np.int64), steps


def only(rows: Rows, kept: Kept) -> Rows:
    """The rows that are in."""
    return rows if kept is None else {name: values[kept] for name, values in rows.items()}


def joined(lines: Sequence[Lines]) -> Lines:
    """One after the other."""
    columns = [[getattr(one, name) for one in lines] for name in ("ids", "cells", "counts", "sums")]
    return Lines(*(np.concatenate(column) for column in columns))


def _order(keys: Sequence[Ints]) -> Ints:
    """Sorted by the first key, then by the next; by one key alone if the others are constant."""
    varying = [key for key in keys if len(key) and key.min() != key.max()] or [keys[0]]
    return np.argsort(varying[0], kind="stable") if len(varying) == 1 else np.lexsort(varying[::-1])


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
