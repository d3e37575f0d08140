"""Files of text and sheets: CSV by the standard library, .xlsx by openpyxl.

The first line names the columns. A line without any field is no row; a line with fewer or more fields than
there are names is an error, because nobody knows which column its values belong to.
"""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import _extras
from veilsum.asking.tables import ROWS, Batch, Table
from veilsum.errors import QuestionError

DELIMITERS = (",", ";", "\t", "|")
Line = tuple[int, list[Any]]


class LineTable(Table):
    """A file of lines, the first of which names the columns; abstract."""

    _rows = -1  # until they are counted

    @abstractmethod
    def _records(self) -> Iterator[Line]:
        """Rows, a value for each column, with the number of their line."""

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Values, None where a field is empty."""
        self.check(columns)
        at = [self.columns.index(column) for column in columns]
        lines = self._records()
        count = 0
        while kept := [fields for _, fields in islice(lines, ROWS)]:
            count += len(kept)
            yield _texts(columns, at, kept)
        if not count:
            yield _texts(columns, at, [])
        self._rows = count

    def rows(self) -> int:
        """Lines with a value, but for the first."""
        if self._rows < 0:
            self._rows = sum(1 for _ in self._records())
        return self._rows

    def where(self, row: int) -> str:
        """The line on which a row ends, which is found by reading again."""
        return self._place(next(islice(self._records(), row, None), (row + 2,))[0])

    @abstractmethod
    def _place(self, line: int) -> str:
        """A line, for errors."""


class CsvTable(LineTable):
    """A text file: UTF-8 with or without a byte order mark, quoted fields, any of four delimiters."""

    def __init__(self, path: Path, decimal: str = ".") -> None:
        """Read the names."""
        self.path, self.name = path, path.name
        self._file = path
        with path.open(encoding="utf-8-sig", newline="") as file:
            try:
                first = file.readline()
            except UnicodeDecodeError:
                raise self._undecoded() from None
        self._delimiter = delimiter(first, decimal)
        self.columns = tuple(
            name.strip() for _, names in islice(self._lines(), 1) for name in names
        )
        if not any(self.columns):
            raise QuestionError(f"{path.name} is empty; its first line must name the columns")

    def _place(self, line: int) -> str:
        return f"line {line:,}"

    def _records(self) -> Iterator[Line]:
        width = len(self.columns)
        for line, fields in islice(self._lines(), 1, None):
            if len(fields) != width:
                raise QuestionError(
                    f"{self.name}, {self._place(line)}: {len(fields)} fields where the first line names "
                    f"{width} columns; put quotes round a field that has {self._called} in it"
                )
            yield line, fields

    @property
    def _called(self) -> str:
        return {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(self._delimiter, "a bar")

    def _lines(self) -> Iterator[Line]:
        with self._file.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            try:
                for fields in reader:
                    if fields:
                        yield reader.line_num, fields
            except csv.Error as error:
                raise QuestionError(
                    f"{self.name}, {self._place(reader.line_num)}: {error}"
                ) from None
            except UnicodeDecodeError:
                raise self._undecoded() from None

    def _undecoded(self) -> QuestionError:
        return QuestionError(f"{self.name} is not text in UTF-8; save it as CSV in UTF-8")


class SheetTable(LineTable):
    """The first sheet of an .xlsx file: the values that its cells show."""

    def __init__(self, path: Path) -> None:
        """Read the names."""
        self.path, self.name = path, path.name
        names = next((values for _, values in self._lines()), [])
        while names and names[-1] is None:
            names.pop()
        self.columns = tuple("" if name is None else str(name).strip() for name in names)
        if not any(self.columns):
            raise QuestionError(
                f"{path.name} is empty; the first row of its first sheet must name the columns"
            )

    def _place(self, line: int) -> str:
        return f"row {line:,} of the sheet"

    def _records(self) -> Iterator[Line]:
        width = len(self.columns)
        for row, values in islice(self._lines(), 1, None):
            if any(value is not None for value in values[width:]):
                raise QuestionError(
                    f"{self.name}, {self._place(row)}: a value beyond the {width} named columns"
                )
            yield row, values[:width] + [None] * (width - len(values))

    def _lines(self) -> Iterator[Line]:
        openpyxl = _extras.load("openpyxl")
        assert self.path is not None
        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
        except Exception as error:  # a zip, an XML or a key error of a file that is no workbook
            raise QuestionError(f"{self.name} is not a readable .xlsx file: {error}") from None
        try:
            rows = book.worksheets[0].iter_rows(values_only=True)
            for number, values in enumerate(rows, 1):
                if any(value is not None for value in values):
                    yield number, list(values)
        finally:
            book.close()


def delimiter(first: str, decimal: str) -> str:
    """What separates the names of the first line, outside quotes: the most frequent of four.

    A decimal comma cannot separate fields, unless nothing else does.
    """
    outside = "".join(first.split('"')[::2])
    among = DELIMITERS if decimal == "." else (";", "\t", "|", ",")
    return max(
        among,
        key=lambda mark: (
            outside.count(mark) > 0 and (decimal, mark) != (",", ","),
            outside.count(mark),
        ),
    )


def _texts(columns: Sequence[str], at: Sequence[int], rows: Sequence[Sequence[Any]]) -> Batch:
    found = {}
    for name, k in zip(columns, at, strict=True):
        values = np.empty(len(rows), dtype=object)
        values[:] = [
            (row[k].strip() or None) if isinstance(row[k], str) else row[k] for row in rows
        ]
        found[name] = values
    return found
