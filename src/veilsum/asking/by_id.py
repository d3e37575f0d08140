"""Rows by id: whose a row is, as a number, and what is kept of the rows of each id.

    IdCodes      ids of any type ── whole numbers, equal for ids of one text
    KeptLines    rows ── one line for all rows of an id that are in one cell (and equal, where that matters)

Whole numbers that lie close together are places in a table (`DenseLines`); others are sorted, and merged
whenever a few million have come together (`SortedLines`). Memory is that of the ids, and not of the rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from veilsum.questions.base import Ints
from veilsum.questions.columns import TextColumn, distinct, text_of

PENDING = 1 << 22  # rows that are kept before they are merged
PLACES = 1 << 25  # numbers in a table, at most: 256 MB
NONE = -(1 << 62)  # the code of no id
TEXTS = 1 << 62  # codes of texts start here; whole numbers are their own


@dataclass(frozen=True)
class Lines:
    """Rows of ids.

    Parameters
    ----------
    ids, cells, counts : array of int
        (lines,): the code of the id, the cell (-1: out), and how many rows these are.
    sums : array of int
        (lines, P): of their parts, in steps; P = 0 for counts.
    """

    ids: Ints
    cells: Ints
    counts: Ints
    sums: Ints

    @classmethod
    def none(cls) -> Self:
        """No line."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, np.zeros((0, 0), dtype=np.int64))

    @property
    def values(self) -> Ints:
        """What is added up: parts, or 1 a row."""
        return self.sums if self.sums.shape[1] else self.counts[:, None]

    def of(self, chosen: Any) -> Lines:
        """Some lines."""
        return Lines(self.ids[chosen], self.cells[chosen], self.counts[chosen], self.sums[chosen])

    def merged(self, apart: bool) -> Lines:
        """Sorted by id and cell, and by value where rows stay apart; equal lines together."""
        keys = [self.ids, self.cells]
        if apart:  # a line is rows of one value: its sums are that many times the value
            each = self.sums // np.maximum(self.counts, 1)[:, None]
            keys += list(each.T)
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


class SortedLines:
    """Lines of any ids, merged from time to time."""

    def __init__(self, apart: bool) -> None:
        """Without a line."""
        self._apart, self._lines, self._pending, self._merged = apart, [Lines.none()][:0], 0, 0

    def add(self, lines: Lines) -> None:
        """Keep, and merge when there are as many new ones as there were, or a few million."""
        self._lines.append(lines)
        self._pending += len(lines.ids)
        if self._pending > max(PENDING, self._merged):
            self._merged, self._pending = len(self.lines().ids), 0

    def lines(self) -> Lines:
        """All, sorted."""
        self._lines = [_joined(self._lines).merged(self._apart)] if self._lines else [Lines.none()]
        return self._lines[0]


class DenseLines:
    """Lines of ids that lie between a low and a high one, as tables of (id, cell)."""

    def __init__(self, cells: int, parts: int) -> None:
        """Without an id."""
        self._cells, self._low, self._span = cells, 0, 0
        self._tables = [np.zeros(0, dtype=np.int64) for _ in range(1 + parts)]
        self._there = np.zeros(0, dtype=np.bool_)

    def add(self, lines: Lines) -> bool:
        """Add up lines, unless their ids lie too far apart."""
        if not len(lines.ids):
            return True
        if not self._room(int(lines.ids.min()), int(lines.ids.max())):
            return False
        ids = lines.ids - self._low
        if lines.cells.min() < 0:
            self._there[ids[lines.cells < 0]] = True
            inside = lines.cells >= 0
            lines, ids = lines.of(inside), ids[inside]
        at = ids if self._cells == 1 else ids * self._cells + lines.cells
        for table, values in zip(self._tables, [lines.counts, *lines.sums.T], strict=True):
            np.add.at(table, at, np.ascontiguousarray(values))
        return True

    def lines(self) -> Lines:
        """All, by id and cell; ids of which no row is in, without a cell."""
        at = np.flatnonzero(self._tables[0])
        ids = at // self._cells
        absent = self._there.copy()
        absent[ids] = False
        out = np.flatnonzero(absent)
        zero = np.zeros(len(out), dtype=np.int64)
        parts = len(self._tables) - 1
        found = Lines(
            np.concatenate([ids, out]) + self._low, np.concatenate([at % self._cells, zero - 1]),
            np.concatenate([self._tables[0][at], zero]),
            np.stack([np.concatenate([t[at], zero]) for t in self._tables[1:]], axis=1)
            if parts else np.zeros((len(at) + len(out), 0), dtype=np.int64),
        )  # fmt: skip
        return found.of(np.argsort(found.ids, kind="stable")) if len(out) else found

    def _room(self, low: int, high: int) -> bool:
        """Make room for these ids; say whether there is."""
        if self._span and self._low <= low and high < self._low + self._span:
            return True
        lowest = min(low, self._low) if self._span else low
        highest = max(high, self._low + self._span - 1) if self._span else high
        size = self._cells * len(self._tables)
        if (highest - lowest + 1) * size > PLACES:
            return False
        span = min(max(highest - lowest + 1, 2 * self._span, 1024), PLACES // size)
        lowest = (
            min(lowest, max(highest - span + 1, NONE)) if low < self._low and self._span else lowest
        )
        moved = (self._low - lowest) * bool(self._span)
        self._tables = [_wider(t, span * self._cells, moved * self._cells) for t in self._tables]
        self._there = _wider(self._there, span, moved)
        self._low, self._span = lowest, span
        return True


class KeptLines:
    """Lines in a table as long as that has room, sorted from then on."""

    def __init__(self, cells: int, apart: bool) -> None:
        """Without a line."""
        self._cells, self._apart = cells, apart
        self._dense: DenseLines | None = None
        self._sorted: SortedLines | None = None

    def add(self, lines: Lines) -> None:
        """Keep the rows of a batch."""
        parts = lines.sums.shape[1]
        if self._dense is None and self._sorted is None:
            if self._apart and parts:
                self._sorted = SortedLines(self._apart)
            else:
                self._dense = DenseLines(self._cells, parts)
        if self._dense is not None and not self._dense.add(lines):
            self._sorted = SortedLines(self._apart)
            self._sorted.add(self._dense.lines())
            self._dense = None
        if self._sorted is not None:
            self._sorted.add(lines)

    def lines(self) -> Lines:
        """All, sorted by id; an id of which no row is in has one line without a cell, others may."""
        kept = self._dense or self._sorted
        return Lines.none() if kept is None else kept.lines()


class IdCodes:
    """Ids as whole numbers: a whole number is its own code, whatever its type; texts are counted.

    Parameters
    ----------
    key : bytes, optional
        Of `keyed`; nobody else has it.
    """

    def __init__(self, key: bytes | None = None) -> None:
        """Without an id."""
        self.key = secrets.token_bytes(16) if key is None else key
        self._texts: dict[str, int] = {}
        self._seen: dict[Any, int] = {}  # texts as they are written
        self._lock = Lock()

    def read(self, values: NDArray[Any] | TextColumn) -> tuple[Ints, NDArray[np.bool_]]:
        """The codes of a batch, and which rows have no id."""
        if not isinstance(values, TextColumn):
            if values.dtype.kind in "iu" and _small(values):
                return values.astype(np.int64), np.zeros(len(values), dtype=np.bool_)
            if values.dtype.kind == "f":
                absent = np.isnan(values)
                filled = np.where(absent, 0.0, values)
                if _small(filled) and (filled == np.rint(filled)).all():
                    return filled.astype(np.int64), absent
        known, inverse = distinct(values)
        codes = self._codes(known)[inverse]
        return codes, codes == NONE

    def keyed(self, codes: Ints) -> Ints:
        """A keyed 64-bit hash of each code, which depends on the text of the id alone."""
        found = hashed(self.key, [codes])
        if self._texts and codes.max(initial=0) >= TEXTS:
            marks = np.array([self._mark(text) for text in self._texts], dtype=np.int64)
            text = codes >= TEXTS
            found[text] = marks[codes[text] - TEXTS]
        return found

    def _mark(self, text: str) -> int:
        found = blake2b(text.encode(), key=self.key, digest_size=8).digest()
        return int.from_bytes(found, "little", signed=True)

    def _codes(self, known: Sequence[Any]) -> Ints:
        found = list(map(self._seen.get, known))
        if None in found:
            with self._lock:
                found = [
                    self._code(v) if c is None else c for v, c in zip(known, found, strict=True)
                ]
        return np.array(found, dtype=np.int64)

    def _code(self, value: Any) -> int:
        text = text_of(value)
        if text == "":
            return NONE
        code = (
            int(text) if _is_whole(text) else TEXTS + self._texts.setdefault(text, len(self._texts))
        )
        if isinstance(value, str):
            self._seen[value] = code
        return code


def hashed(key: bytes, columns: Sequence[Ints]) -> Ints:
    """A keyed 64-bit mix of whole numbers, row by row."""
    words = np.frombuffer(blake2b(key, digest_size=16).digest(), dtype=np.uint64)
    found = np.full(len(columns[0]), words[0], dtype=np.uint64)
    for column in columns:
        found = _mixed(found ^ np.ascontiguousarray(column).view(np.uint64)) + words[1]
    return _mixed(found).view(np.int64)


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 15
    return plain and (digits[0] != "0" or text == "0")


def _small(values: NDArray[Any]) -> bool:
    """Whether whole numbers have 15 digits at most, and so no code of a text."""
    return bool(len(values) == 0 or (values.min() > -(10**15) and values.max() < 10**15))


def _joined(lines: Sequence[Lines]) -> Lines:
    """One after the other."""
    columns = [[getattr(one, name) for one in lines] for name in ("ids", "cells", "counts", "sums")]
    return Lines(*(np.concatenate(column) for column in columns))


def _order(keys: Sequence[Ints]) -> Ints:
    """Sorted by the first key, then by the next; keys that are constant do not matter."""
    varying = [key for key in keys if len(key) and key.min() != key.max()] or [keys[0]]
    return np.argsort(varying[0]) if len(varying) == 1 else np.lexsort(varying[::-1])


def _wider(table: NDArray[Any], size: int, moved: int) -> NDArray[Any]:
    found = np.zeros(size, dtype=table.dtype)
    found[moved : moved + len(table)] = table
    return found


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
