"""Tables of any kind, read in batches of columns as NumPy arrays.

A batch has each column as an array of numbers, of text, or of objects with None where there is no value:
what `questions.Column.read` takes. Nothing here knows what a question is.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._registry import did_you_mean
from veilsum.errors import QuestionError

Batch = Mapping[str, NDArray[Any]]
ROWS = 1 << 17  # of a batch


class Table(ABC):
    """Rows and columns; abstract.

    Attributes
    ----------
    name : str
        For people: a file name, or what kind of table it is.
    path : Path or None
        Of a file.
    columns : tuple of str
        Their names.
    """

    name: str
    path: Path | None = None
    columns: tuple[str, ...]

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """These columns of all rows, in batches, always in the same order."""

    @abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    def where(self, row: int) -> str:
        """Where a row is, for an error: a line of a file, or an index."""
        return f"row {row:,}"

    def check(self, columns: Sequence[str]) -> None:
        """Raise for a column that is not there."""
        for column in columns:
            if column not in self.columns:
                raise QuestionError(
                    f"{self.name} has no column {column!r}; {did_you_mean(column, self.columns)}it has "
                    f"{', '.join(self.columns)}"
                )


class CsvTable(Table):
    """A CSV file with names in its first line, read by the standard library."""

    def __init__(self, path: Path) -> None:
        """Read the names."""
        self.path, self.name = path, path.name
        with path.open(encoding="utf-8-sig", newline="") as file:
            self.columns = tuple(name.strip() for name in next(csv.reader(file), ()))
        if not self.columns:
            raise QuestionError(f"{path} is empty; its first line must name the columns")

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Text, None where a field is empty."""
        self.check(columns)
        at = [self.columns.index(column) for column in columns]
        with self.path.open(encoding="utf-8-sig", newline="") as file:  # type: ignore[union-attr]
            reader = csv.reader(file)
            next(reader)
            kept: list[list[str]] = []
            for row in reader:
                if row:
                    kept.append(row)
                if len(kept) == ROWS:
                    yield _arrays(columns, at, kept)
                    kept = []
            yield _arrays(columns, at, kept)

    def rows(self) -> int:
        """Lines that are not empty, but for the first."""
        with self.path.open(encoding="utf-8-sig", newline="") as file:  # type: ignore[union-attr]
            return sum(1 for row in csv.reader(file) if row) - 1

    def where(self, row: int) -> str:
        """The line."""
        return f"line {row + 2:,}"


class ArrayTable(Table):
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any], name: str = "the table") -> None:
        """Take arrays of one length."""
        self._columns = {str(k): np.asarray(v) for k, v in columns.items()}
        self.name, self.columns = name, tuple(self._columns)
        if len({len(v) for v in self._columns.values()}) != 1:
            raise QuestionError(
                f"{name}: columns must have one length, and at least one must be there"
            )

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Slices."""
        self.check(columns)
        for start in range(0, max(self.rows(), 1), ROWS):
            yield {name: self._columns[name][start : start + ROWS] for name in columns}

    def rows(self) -> int:
        """The length."""
        return len(next(iter(self._columns.values())))


def open_table(data: Any) -> Table:
    """The table of a path, of columns by name, or of an open one."""
    if isinstance(data, Table):
        return data
    if isinstance(data, str | Path):
        return CsvTable(Path(data))
    if isinstance(data, Mapping):
        return ArrayTable(data)
    raise QuestionError(f"a table is a path or columns by name; found {type(data).__name__}")


def _arrays(columns: Sequence[str], at: Sequence[int], rows: Sequence[Sequence[str]]) -> Batch:
    return {
        name: np.array(
            [row[k].strip() or None if k < len(row) else None for row in rows], dtype=object
        )
        for name, k in zip(columns, at, strict=True)
    }
