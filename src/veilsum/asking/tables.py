"""Tables of any kind, read in batches of columns.

    open_table(data) -> Table;    table.batches(columns) -> batches of arrays, always in the same order

A batch has each column as an array of numbers, of objects with None where there is no value, or as
`TextColumn`s: what `questions.Column.read` takes. Memory is that of a batch, unless the data were in memory
before. Nothing here knows what a question is.

    path       .csv .tsv .txt (own reader), .xlsx, .parquet; several paths of the same columns
    memory     a mapping of arrays; Arrow, DuckDB relations; pandas, polars and others through narwhals
    sql        a SELECT that DuckDB runs over any of these, as the table "data"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._registry import did_you_mean
from veilsum.errors import QuestionError

Batch = Mapping[str, NDArray[Any]]
Piece = tuple[int, Iterable[Batch]]  # the first row, and batches that any thread may read
GROUP = 4  # batches of a piece
ROWS = 1 << 15  # of a batch: its columns stay in a core's cache
TEXT_FILES = (".csv", ".tsv", ".txt")
PARQUET_FILES = (".parquet", ".pq")
TABLE_FILES = (*TEXT_FILES, *PARQUET_FILES, ".xlsx")


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
    filtered : bool
        Whether a SELECT left rows out by their values, so that the number of rows is private.

    Examples
    --------
    >>> table = open_table({"kwh": [10.0, 12.0], "region": ["north", "south"]})
    >>> table.columns, table.rows()
    (('kwh', 'region'), 2)
    """

    name: str
    path: Path | None = None
    columns: tuple[str, ...]
    filtered: bool = False

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """These columns of all rows, in batches, always in the same order."""

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """The same batches, some together, with the number of their first row from 0."""
        start, source = 0, self.batches(columns)
        while group := list(islice(source, GROUP)):
            yield start, group
            start += sum(len(next(iter(batch.values()))) for batch in group)

    @abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def stored(self) -> tuple[Table, ...]:
        """The tables that have the rows, whose budget is charged: itself, or what it is made of."""
        return (self,)

    def where(self, row: int) -> str:
        """Where a row is, for an error: a line of a file, or the number of a row, from 1."""
        return f"row {row + 1:,}"

    def check(self, columns: Sequence[str]) -> None:
        """Raise for a column that is not there, or there twice."""
        times = Counter(self.columns)
        for column in columns:
            if column not in times:
                raise QuestionError(
                    f"{self.name} has no column {column!r}; {did_you_mean(column, self.columns)}it has "
                    f"{_listed(self.columns)}"
                )
            if times[column] > 1:
                raise QuestionError(
                    f"{self.name} has {times[column]} columns called {column!r}; rename all but one"
                )


class ArrayTable(Table):
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any], name: str = "the table") -> None:
        """Take arrays of one length."""
        self._columns = {str(k): _array(v) for k, v in columns.items()}
        self.name, self.columns = name, tuple(self._columns)
        lengths = {k: len(v) for k, v in self._columns.items()}
        if len(set(lengths.values())) != 1:
            found = ", ".join(f"{k} {n:,}" for k, n in list(lengths.items())[:5])
            raise QuestionError(
                f"{name} needs columns of one length, and at least one; found {found or 'none'}"
            )

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Slices."""
        self.check(columns)
        for start in range(0, max(self.rows(), 1), ROWS):
            yield {name: self._columns[name][start : start + ROWS] for name in columns}

    def rows(self) -> int:
        """The length."""
        return len(next(iter(self._columns.values())))


class FrameTable(Table):
    """A data frame that narwhals knows: pandas, polars and others."""

    def __init__(self, frame: Any, name: str) -> None:
        """Keep the frame as narwhals sees it."""
        self._frame, self.name, self.columns = frame, name, tuple(map(str, frame.columns))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Slices; a lazy frame is collected with these columns alone."""
        self.check(columns)
        frame = self._frame.select(list(columns))
        frame = frame.collect() if hasattr(frame, "collect") else frame
        for start in range(0, max(len(frame), 1), ROWS):
            part = frame[start : start + ROWS]
            yield {name: _values(part[name]) for name in columns}

    def rows(self) -> int:
        """The length."""
        import narwhals as nw

        if hasattr(self._frame, "collect"):
            return int(self._frame.select(nw.len()).collect().item())
        return len(self._frame)


class SeveralTables(Table):
    """Tables of the same columns, one after the other: an id may be in several of them."""

    def __init__(self, tables: Sequence[Table]) -> None:
        """Refuse tables whose columns differ."""
        if not tables:
            raise QuestionError("a list of tables needs at least one")
        first = tables[0]
        for other in tables[1:]:
            if set(other.columns) != set(first.columns):
                odd = sorted(set(other.columns) ^ set(first.columns))
                raise QuestionError(
                    f"{other.name} and {first.name} need the same columns; only one of them has "
                    f"{_listed(odd)}"
                )
        self._tables, self.columns = tables, first.columns
        self.name = first.name + (f" and {len(tables) - 1} more" if tables[1:] else "")
        self.filtered = any(table.filtered for table in tables)

    @property
    def stored(self) -> tuple[Table, ...]:
        """Those of each."""
        return tuple(part for table in self._tables for part in table.stored)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Those of each."""
        for table in self._tables:
            yield from table.batches(columns)

    def rows(self) -> int:
        """Of all."""
        return sum(table.rows() for table in self._tables)

    def where(self, row: int) -> str:
        """Which table, and where in it."""
        for table in self._tables[:-1]:
            if row < table.rows():
                return f"{table.name}, {table.where(row)}"
            row -= table.rows()
        return f"{self._tables[-1].name}, {self._tables[-1].where(row)}"


def open_table(data: Any, decimal: str = ".", sql: str | None = None) -> Table:
    """The table of a path, a data frame, columns by name, or a SELECT over one of these.

    Parameters
    ----------
    data
        As of `veilsum.ask`; an open table stays what it is.
    decimal
        The decimal mark, "." or ",": with a comma, text files are read as separated by semicolons
        where the first line has some.
    sql
        A SELECT of DuckDB from the table "data".

    Returns
    -------
    Table
        Of which nothing but the names of its columns is read yet.

    Examples
    --------
    >>> with open("meters.csv", "w") as file:
    ...     _ = file.write("kwh;region\\n10,5;north\\n")
    >>> table = open_table("meters.csv", decimal=",")
    >>> table.name, table.columns
    ('meters.csv', ('kwh', 'region'))
    """
    if decimal not in (".", ","):
        raise QuestionError(f'the decimal mark is "." or ","; found {decimal!r}')
    if sql is not None:
        from veilsum.asking.arrow_tables import select

        return select(sql, data)
    if isinstance(data, Table):
        return data
    if isinstance(data, str | PathLike):
        return _file(Path(data), decimal)
    if isinstance(data, Mapping):
        return ArrayTable(data)
    if isinstance(data, list | tuple):
        return SeveralTables([open_table(part, decimal) for part in data])
    return _frame(data)


def _file(path: Path, decimal: str) -> Table:
    kind = path.suffix.lower()
    if not path.exists():
        near = did_you_mean(path.name, _siblings(path))
        raise QuestionError(f"there is no file {path}; {near}".rstrip("; "))
    if path.is_dir():
        raise QuestionError(f"{path} is a folder; name its files")
    if kind in TEXT_FILES:
        from veilsum.asking.text_tables import CsvTable

        return CsvTable(path, decimal)
    if kind in PARQUET_FILES:
        from veilsum.asking.arrow_tables import ParquetTable

        return ParquetTable(path)
    if kind == ".xlsx":
        from veilsum.asking.text_tables import SheetTable

        return SheetTable(path)
    raise QuestionError(
        f"{path.name}: a table is a {', '.join(TEXT_FILES)}, .xlsx or .parquet file; save it as one"
    )


def _frame(data: Any) -> Table:
    home = type(data).__module__.partition(".")[0].lstrip("_")
    if home in ("pyarrow", "duckdb"):
        from veilsum.asking.arrow_tables import arrow_table

        found = arrow_table(data)
        if found is not None:
            return found
    import narwhals as nw

    try:
        frame = nw.from_native(data)
        return FrameTable(frame, f"the {home} table")
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        if isinstance(error, nw.exceptions.DuplicateError):
            raise QuestionError("the table has two columns of one name; rename one") from None
        raise QuestionError(
            "a table is a path, a data frame, a DuckDB relation, an Arrow table or columns by name; "
            f"found {type(data).__name__}"
        ) from None


def _siblings(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []


def _array(values: Any) -> NDArray[Any]:
    """An array of one dimension; lists of several kinds of values stay what they are."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(object), None))
    if isinstance(values, list | tuple):
        kinds = {type(v) for v in values}
        whole = len(kinds) == 1 and not kinds & {str, type(None)}
        values = np.array(values) if whole else _objects(values)
    found = np.asarray(values)
    if found.ndim != 1:
        raise QuestionError(f"a column has one dimension; found {found.ndim}")
    return found


def _values(series: Any) -> NDArray[Any]:
    """A column of narwhals: numbers as they are, the rest as objects."""
    kind = series.dtype
    if kind.is_float() or (kind.is_integer() and not series.null_count()):
        found = np.asarray(series.to_numpy())
        return found if found.dtype.kind in "fiu" else found.astype(np.float64)
    return _objects(series.to_list())


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _listed(names: Sequence[str], most: int = 20) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
