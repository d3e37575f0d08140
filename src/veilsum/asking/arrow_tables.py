"""Tables that come as Arrow: Parquet files, Arrow tables, DuckDB relations and SELECTs.

Text comes as codes and the texts that occur, so that a text is looked at once a batch and not once a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum.asking.tables import ROWS, Batch, Piece, Table, open_table
from veilsum.errors import QuestionError
from veilsum.questions.columns import TextColumn

READ = 1 << 17  # rows that Arrow reads at a time
BY_ROW = {
    "PROJECTION",
    "FILTER",
    "ORDER_BY",
}  # operators of DuckDB that make a row of one row, or of none


class ParquetTable(Table):
    """A Parquet file, a row group at a time."""

    def __init__(self, path: Path) -> None:
        """Read the schema."""
        self.path, self.name = path, path.name
        parquet = _extras.load("pyarrow.parquet")
        arrow = _extras.load("pyarrow")
        try:
            schema = parquet.read_schema(path, memory_map=True)
            self._texts = [one.name for one in schema if arrow.types.is_string(one.type)]
            self._file = self._open()
        except (arrow.ArrowInvalid, OSError) as error:
            raise QuestionError(f"{path.name} is not a readable Parquet file: {error}") from None
        self.columns = tuple(self._file.schema_arrow.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Those of the file."""
        self.check(columns)
        found = self._file.iter_batches(batch_size=READ, columns=list(columns) or None)
        yield from _batches(found, columns, self._file.schema_arrow)

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Row groups, each read by the thread that encodes it."""
        self.check(columns)
        footer, start = self._file.metadata, 0
        for k in range(footer.num_row_groups):
            yield start, self._row_group(k, columns)
            start += footer.row_group(k).num_rows
        if not start:
            yield 0, self.batches(columns)

    def _row_group(self, k: int, columns: Sequence[str]) -> Iterator[Batch]:
        file = self._open(self._file.metadata)
        found = file.iter_batches(READ, [k], columns=list(columns), use_threads=False)
        yield from _batches(found, columns, file.schema_arrow)

    def _open(self, footer: Any = None) -> Any:
        """The file; text is read as codes."""
        kind = _extras.load("pyarrow.parquet").ParquetFile
        return kind(self.path, metadata=footer, memory_map=True, read_dictionary=self._texts)

    def rows(self) -> int:
        """Of its footer."""
        return int(self._file.metadata.num_rows)


class ArrowTable(Table):
    """An Arrow table in memory."""

    def __init__(self, table: Any) -> None:
        """Keep it."""
        self._table, self.name, self.columns = table, "the Arrow table", tuple(table.column_names)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Slices."""
        self.check(columns)
        chosen = self._table.select(list(columns))
        yield from _batches(chosen.to_batches(max_chunksize=ROWS), columns, chosen.schema)

    def rows(self) -> int:
        """The length."""
        return int(self._table.num_rows)


class RelationTable(Table):
    """A relation of DuckDB, which DuckDB reads."""

    def __init__(self, relation: Any, name: str = "the DuckDB relation", keep: Any = None) -> None:
        """Keep it, and what it reads from."""
        self._relation, self.name, self._keep = relation, name, keep
        self.columns = tuple(relation.columns)
        self._stored: tuple[Table, ...] = (self,)

    @property
    def stored(self) -> tuple[Table, ...]:
        """What a SELECT reads from."""
        return self._stored

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Those of DuckDB, in the order of its rows."""
        self.check(columns)
        chosen = self._relation.select(*(f'"{c.replace(chr(34), 2 * chr(34))}"' for c in columns))
        try:
            reader = chosen.to_arrow_reader(READ)
            yield from _batches(reader, columns, reader.schema)
        except (_extras.load("duckdb").Error, OSError):  # whose text may show a value
            raise QuestionError(
                f"DuckDB cannot compute {self.name} for every row; try_cast and try give no value instead"
            ) from None

    def rows(self) -> int:
        """Counted once."""
        return self._rows

    @cached_property
    def _rows(self) -> int:
        return int(self._relation.aggregate("count(*)").fetchall()[0][0])


def arrow_table(data: Any) -> Table | None:
    """The table of an object of pyarrow or DuckDB; None if it is none that has rows."""
    if hasattr(data, "to_batches") and hasattr(data, "column_names"):
        return ArrowTable(data)
    if hasattr(data, "to_arrow_reader") and hasattr(data, "aggregate"):
        return RelationTable(data)
    if hasattr(data, "read_next_batch"):
        raise QuestionError(
            "a stream of Arrow batches can be read once, and a table is read several times; pass "
            "reader.read_all()"
        )
    return None


def select(sql: str, data: Any) -> Table:
    """The table that one SELECT makes of `data`, which it calls "data", row by row.

    DuckDB gets the rows and nothing else: it may open no file, and no setting can be changed. The SELECT
    may compute columns, leave rows out and sort them. Where it joins, groups or repeats rows, a row of
    `data` could move many of its rows, and a promise about one of them would say nothing about the other.
    """
    duckdb = _extras.load("duckdb")
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QuestionError(f"DuckDB cannot read the SELECT: {error}") from None
    if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
        raise QuestionError("sql is one SELECT statement")
    path = Path(data) if isinstance(data, str | PathLike) else None
    table = open_table(data)  # says what is wrong with it
    connection = duckdb.connect()
    source = _given(data, table, path)
    connection.register("data", source)
    connection.execute("set enable_external_access = false")
    try:
        operators = _operators(connection, sql)
        if not _by_row(operators, _operators(connection, "select * from data")[-1]):
            raise QuestionError(
                'sql is a SELECT from "data" that computes columns, leaves rows out or sorts them; WITH, '
                "joins, groups, windows, limits and other tables are refused, as one row of the data could "
                "move many of theirs: write a query in brackets for WITH, --by for groups, --id for ids"
            )
        connection.execute("set lock_configuration = true")
        name = "the SELECT" if path is None else path.name
        found = RelationTable(connection.sql(sql), name, (connection, source))
    except duckdb.Error as error:
        raise QuestionError(f"DuckDB cannot run the SELECT: {error}") from None
    found.path, found._stored, found.filtered = path, table.stored, "FILTER" in operators
    return found


def _given(data: Any, table: Table, path: Path | None) -> Any:
    """What DuckDB reads, in types that no value chooses: text files are text, as they are without sql.

    DuckDB's own reader takes 01 for 1 unless one row of the column has a letter, which would move all rows.
    """
    if path is not None and path.suffix.lower() in (".parquet", ".pq"):
        return _extras.load("pyarrow.dataset").dataset(str(path), format="parquet")
    if hasattr(data, "to_batches") and hasattr(data, "column_names"):
        return data
    if hasattr(data, "to_arrow_table"):  # a relation belongs to another connection
        return data.to_arrow_table()
    return _arrow(table)


def _operators(connection: Any, sql: str) -> list[str]:
    """The operators of a SELECT as it is written, the last to run first; several tables end it in "JOIN"."""
    connection.execute("pragma disable_optimizer")
    ((_, text),) = connection.execute(f"explain (format json) {sql}").fetchall()
    connection.execute("pragma enable_optimizer")
    found, below = [], json.loads(text)
    while below:
        found.append("JOIN" if len(below) > 1 else str(below[0]["name"]).strip())
        below = below[0]["children"] if len(below) == 1 else []
    return found


def _by_row(operators: Sequence[str], scan: str) -> bool:
    """Whether a row of a SELECT is made of one row of the data, and no two of the same."""
    return operators[-1] == scan and set(operators[:-1]) <= BY_ROW


def _arrow(table: Table) -> Any:
    arrow = _extras.load("pyarrow")
    parts: dict[str, list[Any]] = {name: [] for name in table.columns}
    for batch in table.batches(table.columns):
        for name, values in batch.items():
            parts[name].extend(np.asarray(values).tolist())
    found = {}
    for name, column in parts.items():
        try:
            found[name] = arrow.array(column)
        except (arrow.ArrowException, OverflowError):  # whose text may show a value
            raise QuestionError(
                f"{table.name}: column {name} has values of several types, which DuckDB cannot read; make "
                "all of them text, or all numbers"
            ) from None
    return arrow.table(found)


def _batches(found: Iterator[Any], columns: Sequence[str], schema: Any) -> Iterator[Batch]:
    """Batches of NumPy arrays; an empty one if there are no rows."""
    some = False
    for batch in found:
        for start in range(0, batch.num_rows, ROWS):
            part = batch if batch.num_rows <= ROWS else batch.slice(start, ROWS)
            some = True
            yield {name: values_of(part.column(k), name) for k, name in enumerate(columns)}
    if not some:
        empty = _extras.load("pyarrow").RecordBatch.from_pylist([], schema=schema)
        yield {name: values_of(empty.column(name), name) for name in columns}


def values_of(column: Any, name: str) -> Any:
    """An Arrow array as a question reads it.

    Numbers are numbers, with NaN for no value; text is `TextColumn`; dates and times are their ISO text.
    """
    arrow = _extras.load("pyarrow")
    kind, types = column.type, arrow.types
    if types.is_floating(kind) or types.is_boolean(kind) or types.is_integer(kind):
        if not column.null_count:
            return np.asarray(column.to_numpy(zero_copy_only=False))
        if types.is_floating(kind):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return _objects(column)
    if types.is_decimal(kind):
        return values_of(column.cast(arrow.float64()), name)
    if types.is_null(kind):
        return np.full(len(column), None, dtype=object)
    if types.is_nested(kind):
        raise QuestionError(
            f"column {name} has a list or a record in each row; select one of its values"
        )
    if types.is_dictionary(kind):
        column = (
            column
            if types.is_string(kind.value_type)
            else column.dictionary_decode().cast("string")
        )
    elif not (types.is_string(kind) or types.is_large_string(kind)):
        column = column.cast(arrow.string())
    if types.is_dictionary(column.type) and len(column.dictionary) > len(column):
        column = column.dictionary_decode()  # of a row group: most texts are in other batches
    coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    return TextColumn([*coded.dictionary.to_pylist(), None], codes.astype(np.int64))


def _objects(column: Any) -> NDArray[Any]:
    """Whole numbers or booleans, some of which are missing, without loss."""
    found = np.empty(len(column), dtype=object)
    found[:] = column.to_pylist()
    return found
