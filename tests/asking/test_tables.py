"""All kinds of tables give the same totals; what a file may look like, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asking.tables import BINS, KINDS, KWH, REGIONS, columns, totals, write_csv
from veilsum.asking import tables
from veilsum.asking.tables import open_table
from veilsum.errors import QuestionError

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def table() -> dict[str, list[Any]]:
    return columns()


@every_kind
def test_every_kind_of_table_has_the_same_totals(
    kind: str, tmp_path: Path, table: dict[str, list[Any]]
) -> None:
    data = KINDS[kind](tmp_path, table)
    asked = (KWH, BINS, REGIONS)
    assert totals(data, *asked) == totals(table, *asked)
    assert totals(data, *asked, id="person") == totals(table, *asked, id="person")
    assert totals(data, *asked, id="person", cap=2) == totals(table, *asked, id="person", cap=2)
    by = ("region", ("north", "Zürich"))
    assert totals(data, KWH, by=by, missing="out") == totals(table, KWH, by=by, missing="out")


@every_kind
def test_every_kind_knows_its_rows_and_columns(
    kind: str, tmp_path: Path, table: dict[str, list[Any]]
) -> None:
    found = open_table(KINDS[kind](tmp_path, table))
    assert (found.rows(), set(found.columns)) == (1000, set(table))
    with pytest.raises(QuestionError, match="no column 'kwhh'; did you mean kwh"):
        found.check(["kwhh"])


@every_kind
def test_missing_values_are_missing_in_every_kind(kind: str, tmp_path: Path) -> None:
    table = columns(60)
    table["kwh"][7] = table["kwh"][30] = None
    table["region"][9] = None
    table["person"][11] = None
    data = KINDS[kind](tmp_path, table)
    for options in ({"missing": "out"}, {"missing": "out", "id": "person"}):
        assert totals(data, KWH, REGIONS, **options) == totals(table, KWH, REGIONS, **options)
    filled = totals(data, KWH, missing=12.5)
    table["kwh"][7] = table["kwh"][30] = 12.5
    assert filled == totals(table, KWH)


@every_kind
@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_no_row_and_of_one(kind: str, rows: int, tmp_path: Path) -> None:
    table = {k: v[:rows] for k, v in columns(4).items()}
    (found,) = totals(KINDS[kind](tmp_path, table), BINS)
    assert sum(found) == 2 * rows  # its bin, and one unit


def test_a_select_is_a_table(tmp_path: Path, table: dict[str, list[Any]]) -> None:
    sql = "select kwh, person from data where kwh::double < 10"
    expected = totals({"kwh": [v for v in table["kwh"] if v < 10]}, KWH)
    for kind in ("csv", "parquet", "mapping", "pandas", "polars", "arrow", "duckdb", "xlsx"):
        assert totals(KINDS[kind](tmp_path, table), KWH, sql=sql) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [("drop table data", "one SELECT"), ("select 1; select 2", "one SELECT"),
     ("selec 1", "cannot read the SELECT"), ("select nothing from data", "cannot run the SELECT")],
)  # fmt: skip
def test_what_is_no_select_is_refused(sql: str, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        open_table({"x": [1.0]}, sql=sql)


def test_a_decimal_comma(tmp_path: Path, table: dict[str, list[Any]]) -> None:
    comma = {**table, "kwh": [str(v).replace(".", ",") for v in table["kwh"]]}
    expected = totals(table, KWH, REGIONS)
    for options in ({"delimiter": ";"}, {"delimiter": "\t"}, {}):
        path = write_csv(tmp_path / "comma.csv", comma, **options)
        assert totals(path, KWH, REGIONS, decimal=",") == expected
    with pytest.raises(QuestionError, match="line 2: column kwh has a comma: add --decimal ,"):
        totals(path, KWH)
    with pytest.raises(QuestionError, match="has a point where a comma is the decimal mark"):
        totals(write_csv(tmp_path / "point.csv", table, delimiter=";"), KWH, decimal=",")
    with pytest.raises(QuestionError, match="the decimal mark is"):
        open_table(path, decimal=";")


def test_categories_and_ids_are_one_text_in_all_kinds() -> None:
    ids = [{"person": v, "kwh": [1.0, 2.0, 3.0]} for v in (
        [7, 8, 7], [7.0, 8.0, 7.0], ["7", " 8", "7 "], np.array([7, 8, 7], dtype=np.int16),
    )]  # fmt: skip
    assert len({str(totals(one, KWH, id="person")) for one in ids}) == 1


def test_quoted_fields_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('\ufeff"kwh", note\r\n 1,"a, ""b""\nc"\r\n\r\n2,\r\n', encoding="utf-8")
    found = open_table(path)
    assert (found.columns, found.rows()) == (("kwh", "note"), 2)
    (batch,) = found.batches(["note", "kwh"])
    assert batch["note"].tolist() == ['a, "b"\nc', None]
    assert batch["kwh"].tolist() == ["1", "2"]
    assert [found.where(0), found.where(1)] == ["line 3", "line 5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "bad.csv is empty"), ("\n\n", "is empty"), ("kwh,b\n1,2\n3\n", "line 3: 1 fields where"),
     ("kwh,b\n1,2\n3,4,5\n", "line 3: 3 fields where the first line names 2"),
     ('kwh,b\n"1,2\n', "line 2: unexpected end of data"), ("a,kwh,kwh\n1,2,3\n", "2 columns called 'kwh'"),
     ("x\n1\n", "no column 'kwh'; it has x")],
)  # fmt: skip
def test_a_file_of_another_form_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(QuestionError, match=message):
        totals(path, KWH)


def test_other_files_and_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("kwh,ort\n1,Zürich\n".encode("latin-1"))
    (tmp_path / "no.parquet").write_bytes(b"PAR0")
    (tmp_path / "no.xlsx").write_bytes(b"zip")
    (tmp_path / "no.json").write_text("[]")
    files = {
        "latin.csv": "not text in UTF-8",
        "no.parquet": "not a readable Parquet",
        "no.xlsx": "not a readable",
        "no.json": "a table is a .csv",
        "latin.cvs": "there is no file .*did you mean latin.csv",
        "": "folder",
    }
    for name, message in files.items():
        with pytest.raises(QuestionError, match=message):
            totals(tmp_path / name, KWH)
    objects: list[tuple[Any, str]] = [
        (3, "found int"),
        ([], "at least one"),
        ({}, "at least one"),
        ({"kwh": [1, 2], "x": [1]}, "one length"),
        ({"kwh": np.ones((2, 2))}, "one dimension"),
        ([{"kwh": [1]}, {"x": [1]}], "same columns"),
    ]
    for data, message in objects:
        with pytest.raises(QuestionError, match=message):
            totals(data, KWH)


def test_streams_duplicate_names_and_nested_columns_are_refused() -> None:
    import pandas
    import pyarrow

    table = pyarrow.table({"kwh": [1.0], "list": [[1, 2]]})
    with pytest.raises(QuestionError, match="can be read once"):
        open_table(table.to_reader())
    with pytest.raises(QuestionError, match="column list has a list"):
        list(open_table(table).batches(["list"]))
    with pytest.raises(QuestionError, match="two columns of one name"):
        open_table(pandas.DataFrame([[1, 2]], columns=["kwh", "kwh"]))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_batches_of_any_size_have_the_same_totals(
    size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = columns(50)
    data = {kind: KINDS[kind](tmp_path, table) for kind in ("csv", "arrays", "polars", "xlsx")}
    asked: list[dict[str, Any]] = [{"id": "person"}, {"id": "person", "cap": 2}, {}]
    expected = [totals(table, KWH, BINS, **options) for options in asked]
    monkeypatch.setattr(tables, "ROWS", size)
    monkeypatch.setattr("veilsum.asking.text_tables.ROWS", size)
    monkeypatch.setattr("veilsum.asking.by_id.PENDING", size)
    for one in data.values():
        assert [totals(one, KWH, BINS, **options) for options in asked] == expected
    assert max(len(b["kwh"]) for b in open_table(data["csv"]).batches(["kwh"])) <= size


def test_no_more_than_some_batches_are_in_memory() -> None:
    """A pass never runs further ahead of what was added than a few batches a thread."""
    from veilsum.asking import passes

    ahead: list[int] = []
    made = done = 0

    def items() -> Any:
        nonlocal made
        for k in range(200):
            made += 1
            yield k

    for _ in passes._ahead(lambda k: k, items()):
        done += 1
        ahead.append(made - done)
    assert done == 200
    assert max(ahead) <= passes._workers() + 2


def test_texts_of_arrow_are_codes() -> None:
    import pyarrow

    values = pyarrow.array(["a", None, "b", "a"])
    kinds = [values, values.dictionary_encode(), values.cast("large_string")]
    for column in kinds:
        (batch,) = open_table(pyarrow.table({"c": column})).batches(["c"])
        assert batch["c"].tolist() == ["a", None, "b", "a"]
    whole = pyarrow.table({"n": [2**60 + 1, None]})
    assert next(open_table(whole).batches(["n"]))["n"].tolist() == [2**60 + 1, None]
