"""One pass over the rows of a table: each batch is read and encoded on a thread, and added up on one.

    batch ── rows that exist ── columns read ── which rows are in ── parts ── sums

A row does not exist where a filter is public (`View.filters_public`) or where its id is missing and missing
values are left out. It is out of a question where a filter or a missing value takes it out. Everything else
that is missing or unreadable is an error that names the first line, and never the value.

A missing value is an empty field, None or NaN. Infinite numbers are beyond any bound: they count as it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilsum.asking.by_id import IdCodes
from veilsum.asking.sums import Sums
from veilsum.asking.tables import Batch, Piece, Table
from veilsum.errors import QuestionError
from veilsum.questions import Category, Column, Question
from veilsum.questions.columns import (
    RECORDS,
    Rows,
    TextColumn,
    UnreadableValueError,
    distinct,
    text_of,
)

MOST_NAMED = 6  # values of a public list, in an error
Mask = NDArray[np.bool_]
In = TypeVar("In")
Out = TypeVar("Out")


class MissingRule(ABC):
    """What a missing value is; abstract."""

    partial = False  # whether its row is out

    def fill(self, column: Column, values: NDArray[Any]) -> NDArray[Any]:
        """Values of a column with what a missing one counts as."""
        del column
        return values

    @abstractmethod
    def terms(self) -> Any:
        """In the terms of a question."""


class MissingRefused(MissingRule):
    """An error."""

    def terms(self) -> Any:
        """Nothing."""
        return None


class MissingLeftOut(MissingRule):
    """Its row is out."""

    partial = True

    def terms(self) -> Any:
        """As it was asked."""
        return "out"


class MissingAs(MissingRule):
    """A value, for all columns that can have it or for each column its own."""

    def __init__(self, value: Any, columns: Sequence[Column]) -> None:
        """Refuse a value that no column can have."""
        given = dict(value) if isinstance(value, Mapping) else {c.name: value for c in columns}
        self._values = {
            c: given[c.name] for c in columns if c.name in given and _takes(c, given[c.name])
        }
        named = {c.name for c in self._values}
        if not named or (isinstance(value, Mapping) and named != set(given)):
            raise QuestionError(
                'missing is None, "out", or what a missing value counts as: a number, a category of a '
                f"column, or a mapping of columns to these; found {value!r}"
            )

    def fill(self, column: Column, values: NDArray[Any]) -> NDArray[Any]:
        """The value where there is none."""
        if column not in self._values:
            return values
        absent = without(values, text=isinstance(column, Category))
        if not absent.any():
            return values
        found = np.asarray(values).astype(object)
        found[absent] = self._values[column]
        return found

    def terms(self) -> Any:
        """Of each column."""
        return {c.name: text_of(v) for c, v in self._values.items()}


@dataclass(frozen=True)
class View:
    """How rows are looked at: public, and fixed before one is read.

    Parameters
    ----------
    filters : sequence of Category
        Of which a row has a value each.
    filters_public : bool
        Whether other rows do not exist, instead of being out.
    missing : MissingRule
        What a missing value is.
    id : str, optional
        The column that says whose a row is.
    decimal : str
        Of numbers in text.
    """

    filters: Sequence[Category] = ()
    filters_public: bool = False
    missing: MissingRule = field(default_factory=MissingRefused)
    id: str | None = None
    decimal: str = "."

    def names(self, questions: Sequence[Question]) -> list[str]:
        """The columns that are read."""
        found = [c.name for one in questions for c in one.columns] + [f.name for f in self.filters]
        return list(dict.fromkeys([*found, *([self.id] if self.id else [])]))


class Pass:
    """One pass of some questions."""

    def __init__(
        self, table: Table, view: View, questions: Sequence[Question], codes: IdCodes
    ) -> None:
        """With the codes of ids, which are the same in all passes of a release."""
        self.table, self.view, self.questions, self._codes = table, view, questions, codes
        self._columns = list(dict.fromkeys(c for one in questions for c in one.columns))

    def run(self, sums: Sequence[Sums]) -> None:
        """Add all rows to the sums of the questions."""
        names = self.view.names(self.questions) or self.table.columns[:1]

        def encoded(piece: Piece) -> list[list[Any]]:
            start, found = piece[0], []
            for batch in piece[1]:
                found.append(self._parts(start, batch, sums))
                start += len(next(iter(batch.values())))
            return found

        for batches in _ahead(encoded, self.table.pieces(names)):
            for parts in batches:
                for one, part in zip(sums, parts, strict=True):
                    one.take(part)

    def _parts(self, start: int, batch: Batch, sums: Sequence[Sums]) -> list[Any]:
        count = len(next(iter(batch.values())))
        place: Any = range(count)
        inside, batch, place = self._existing(batch, place, start)
        ids, batch, place, inside = self._ids(batch, place, inside, start)
        read = {column: self._read(column, batch, place, start) for column in self._columns}
        everyone = np.zeros(len(place), dtype=np.int8)
        found = []
        for question, one in zip(self.questions, sums, strict=True):
            rows: Rows = {RECORDS: everyone} | {c.name: read[c] for c in question.columns}
            kept = self._kept(question, read, inside, place, start)
            found.append(one.part(rows, kept, len(place), ids))
        return found

    def _existing(self, batch: Batch, place: Any, start: int) -> tuple[Mask | None, Batch, Any]:
        """Which rows the filters keep; those alone, where the filters are public."""
        if not self.view.filters:
            return None, batch, place
        inside = np.ones(len(place), dtype=np.bool_)
        for one in self.view.filters:
            inside &= self._read(one, batch, place, start) >= 0
        if not self.view.filters_public:
            return inside, batch, place
        return None, _chosen(batch, inside), np.asarray(place)[inside]

    def _ids(self, batch: Batch, place: Any, inside: Mask | None, start: int) -> tuple[Any, ...]:
        if self.view.id is None:
            return None, batch, place, inside
        ids, absent = self._codes.read(batch[self.view.id])
        if absent.any():
            if not self.view.missing.partial:
                raise self._wrong(
                    start + int(place[int(absent.argmax())]), f"column {self.view.id} has no id"
                )
            there = ~absent
            inside = None if inside is None else inside[there]
            return ids[there], _chosen(batch, there), np.asarray(place)[there], inside
        return ids, batch, place, inside

    def _read(self, column: Column, batch: Batch, place: Any, start: int) -> NDArray[Any]:
        values = self.view.missing.fill(column, batch[column.name])
        try:
            if self.view.decimal != "." and not isinstance(column, Category):
                values = pointed(values)
            return column.read(values)
        except UnreadableValueError as error:
            row = start + int(place[error.row])
            raise self._wrong(row, f"column {column.name} {error.why}") from None

    def _kept(
        self,
        question: Question,
        read: Mapping[Column, Any],
        inside: Mask | None,
        place: Any,
        start: int,
    ) -> Mask | None:
        """Which rows are in a question; None for all."""
        kept = inside
        for column in question.columns:
            if not some_out(read[column]):
                continue
            out = column.out(read[column])
            first = np.flatnonzero(out if inside is None else out & inside)
            if first.size and not question.partial:
                lacks = "no value: fill it"
                if isinstance(column, Category):
                    few = ", ".join(column.values[:MOST_NAMED])
                    more = ", ..." if len(column.values) > MOST_NAMED else ""
                    lacks = f"no value that is in the list ({few}{more}): add it there"
                raise self._wrong(
                    start + int(place[int(first[0])]),
                    f"column {column.name} has {lacks}, say what it counts as (--missing VALUE), or leave "
                    "such rows out and have their number noised (--missing out)",
                )
            kept = ~out if kept is None else kept & ~out
        return kept

    def _wrong(self, row: int, what: str) -> QuestionError:
        return QuestionError(f"{self.table.name}, {self.table.where(row)}: {what}")


def some_out(read: NDArray[Any]) -> bool:
    """Whether a column as read has NaN, or -1: without an array of as many answers."""
    if not len(read):
        return False
    return bool(np.isnan(read.sum()) if read.dtype.kind == "f" else read.min() < 0)


def pointed(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers in text with a decimal comma, with a decimal point; a point in them is an error."""
    if not isinstance(values, TextColumn) and values.dtype.kind in "fiub":
        return values
    texts = np.asarray(values).astype(object)
    for k, value in enumerate(texts.tolist()):
        if isinstance(value, str):
            if "." in value:
                why = "has a point where a comma is the decimal mark; take marks between thousands out"
                raise UnreadableValueError(k, why)
            texts[k] = value.replace(",", ".", 1)
    return texts


def without(values: NDArray[Any], text: bool) -> Mask:
    """Where there is no value: None, NaN, an empty text; of numbers in text, "nan" as well."""
    if not isinstance(values, TextColumn) and values.dtype.kind == "f":
        return np.asarray(np.isnan(values), dtype=np.bool_)
    if not isinstance(values, TextColumn) and values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=np.bool_)
    known, inverse = distinct(values)
    none = ("",) if text else ("", "nan")
    return np.array([text_of(value).lower() in none for value in known], dtype=np.bool_)[inverse]


def _takes(column: Column, value: Any) -> bool:
    """Whether a column can have a value."""
    values = np.empty(1, dtype=object)
    values[0] = value
    try:
        return not bool(column.out(column.read(values))[0])
    except QuestionError:
        return False


def _chosen(batch: Batch, rows: Mask) -> Batch:
    return {name: values[rows] for name, values in batch.items()}


def _ahead(function: Callable[[In], Out], items: Iterator[In]) -> Iterator[Out]:
    """function of each item, in order; of several at once, where there are several."""
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[Out]] = deque()
    workers = _workers()
    with ThreadPoolExecutor(workers, thread_name_prefix="veilsum-ask") as pool:
        try:
            for item in chain(first, items):
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _workers() -> int:
    """Of the processor's cores, those that this process may use; 8 at most."""
    may = getattr(os, "sched_getaffinity", None)
    return max(1, min(8, len(may(0)) if may is not None else os.cpu_count() or 1))
