"""One table in every kind that can be asked, and the totals of questions of it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import questions
from veilsum.asking.by_id import IdCodes
from veilsum.asking.passes import Pass
from veilsum.asking.settling import Settled, settle
from veilsum.asking.tables import Table, open_table
from veilsum.questions import Question

KWH = questions.mean("kwh", between=(0, 40))
BINS = questions.histogram("kwh", between=(0, 40), bins=7)
REGIONS = questions.histogram("region", categories=("north", "south, east", "Zürich"))
KEY = bytes(range(16))


def columns(rows: int = 1000) -> dict[str, list[Any]]:
    rng = np.random.default_rng(rows)
    names = ["north", "south, east", "Zürich"]
    return {
        "kwh": rng.gamma(2, 8, rows).round(3).tolist(),
        "region": [names[k] for k in rng.integers(0, 3, rows)],
        "person": rng.integers(0, max(rows // 4, 1), rows).tolist(),
    }


def write_csv(path: Path, table: dict[str, list[Any]], **options: Any) -> Path:
    with path.open("w", encoding=options.pop("encoding", "utf-8"), newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


def pandas_frame(_: Path, table: dict[str, list[Any]]) -> Any:
    import pandas

    return pandas.DataFrame(table)


def polars_frame(_: Path, table: dict[str, list[Any]]) -> Any:
    import polars

    return polars.DataFrame(table)


def polars_lazy(_: Path, table: dict[str, list[Any]]) -> Any:
    import polars

    return polars.LazyFrame(table)


def arrow(_: Path, table: dict[str, list[Any]]) -> Any:
    import pyarrow

    return pyarrow.table(table)


def parquet(folder: Path, table: dict[str, list[Any]]) -> Any:
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow(folder, table), folder / "table.parquet", row_group_size=300)
    return folder / "table.parquet"


def relation(folder: Path, table: dict[str, list[Any]]) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(arrow(folder, table))


def sheet(folder: Path, table: dict[str, list[Any]]) -> Any:
    from veilsum import _extras

    openpyxl = _extras.load("openpyxl")

    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.append(list(table))
    for row in zip(*table.values(), strict=True):
        page.append(row)
    book.save(folder / "table.xlsx")
    book.close()
    return folder / "table.xlsx"


def several(folder: Path, table: dict[str, list[Any]]) -> Any:
    half = len(table["kwh"]) // 3
    first = {k: v[:half] for k, v in table.items()}
    rest = {k: v[half:] for k, v in reversed(table.items())}
    return [write_csv(folder / "a.csv", first), write_csv(folder / "b.csv", rest)]


def semicolons(folder: Path, table: dict[str, list[Any]]) -> Any:
    return write_csv(folder / "s.csv", table, delimiter=";", encoding="utf-8-sig")


KINDS: dict[str, Callable[[Path, dict[str, list[Any]]], Any]] = {
    "csv": lambda folder, table: write_csv(folder / "table.csv", table),
    "semicolons": semicolons,
    "tabs": lambda folder, table: write_csv(folder / "t.tsv", table, delimiter="\t"),
    "several": several,
    "mapping": lambda _, table: table,
    "arrays": lambda _, table: {k: np.array(v) for k, v in table.items()},
    "pandas": pandas_frame,
    "polars": polars_frame,
    "polars-lazy": polars_lazy,
    "arrow": arrow,
    "parquet": parquet,
    "duckdb": relation,
    "xlsx": sheet,
}


def totals_of(table: Table, settled: Settled) -> list[list[int]]:
    """The vectors before noise; also how many units there were."""
    questions = [one.question for one in settled.asked]
    codes = IdCodes(KEY)
    sums = [one.unit.sums(one.question, one.noises[0].step, codes) for one in settled.asked]
    Pass(table, settled.view, questions, codes).run(sums)
    return [[*one.vector().tolist(), one.units] for one in sums]


def totals(data: Any, *asked: Question, sql: str | None = None, **options: Any) -> list[list[int]]:
    table = open_table(data, options.get("decimal", "."), sql)
    return totals_of(table, settle(asked, epsilon=1.0, **options))
