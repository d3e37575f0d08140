"""Sources of files and databases: what they give of a time, and what they refuse."""

import sqlite3
import textwrap
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.asking.tables import open_table
from veilsum.errors import FleetError, QuestionError, VeilsumError
from veilsum.fleet import sources
from veilsum.fleet.sources import SOURCES, DataSource, open_source
from veilsum.fleet.sources.base import Columns, SourceBusyError

HOUR = 3600
SECRET = "7654321"  # digits of a value, which no error shows
T0 = 1_750_000_000 // HOUR * HOUR


def csv(folder: Path, text: str, name: str = "load.csv", **keys: Any) -> DataSource:
    (folder / name).write_text(text, encoding="utf-8")
    return open_source({"path": name, "time": "at", **keys}, folder)


def listed(found: Columns | None, name: str = "kwh") -> list[Any] | None:
    return None if found is None else [float(x) for x in found[name].tolist()]


def rows(*times: int, first: float = 1.0) -> str:
    return "".join(f"{time},{first + k}\n" for k, time in enumerate(times))


def test_the_readings_of_a_slot_are_those_of_its_times(tmp_path: Path) -> None:
    source = csv(tmp_path, "at,kwh\n" + rows(*range(0, 4 * HOUR, 1800)))
    assert listed(source.readings(HOUR, 2 * HOUR)) == [3.0, 4.0]
    assert source.readings(4 * HOUR, 5 * HOUR) is None
    assert source.columns() == ["at", "kwh"]
    assert open_table(source.table()).rows() == 8


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 99), unique=True), st.integers(0, 99), st.integers(1, 50))
def test_slots_share_no_reading_and_leave_none_out(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, width: int
) -> None:
    source = csv(tmp_path_factory.mktemp("slots"), "at,kwh\n" + rows(*times))
    found = [source.readings(start, start + width) for start in range(0, 100, width)]
    taken = [int(at) for part in found if part is not None for at in part["at"]]
    assert sorted(taken) == sorted(times)
    before = source.readings(0, cut) if cut else None
    assert len(taken) >= (0 if before is None else len(before["at"]))


@pytest.mark.parametrize(
    ("written", "zone"),
    [
        ("2025-06-15T15:30:00Z", ""),
        ("2025-06-15T17:30:00+02:00", ""),
        ("2025-06-15 17:30:00", "Europe/Zurich"),
        (str(int(datetime(2025, 6, 15, 15, 30, tzinfo=UTC).timestamp())), ""),
        (str(datetime(2025, 6, 15, 15, 30, tzinfo=UTC).timestamp() + 0.5), "Europe/Zurich"),
    ],
)
def test_times_are_those_of_utc(tmp_path: Path, written: str, zone: str) -> None:
    source = csv(tmp_path, f"at,kwh\n{written},1\n", zone=zone)
    start = int(datetime(2025, 6, 15, 15, tzinfo=UTC).timestamp())
    assert listed(source.readings(start, start + HOUR)) == [1.0]
    assert source.readings(start + HOUR, start + 2 * HOUR) is None


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    for rest in ("20,2", '20,"2\n', "20,2.5"):
        source = csv(tmp_path, f"at,kwh\n10,1\n{rest}")
        assert listed(source.readings(0, HOUR)) == [1.0]
    assert listed(csv(tmp_path, "at,kwh\n10,1\n20,2.5\n").readings(0, HOUR)) == [1.0, 2.5]


def test_a_rotated_file_gives_no_reading_twice(tmp_path: Path) -> None:
    (tmp_path / "load.csv.1").write_text("at,kwh\n10,1\n20,2\n")
    (tmp_path / "load.csv").write_text("at,kwh\n20,2\n30,3\n")
    source = open_source({"source": "csv", "path": "load.csv*", "time": "at"}, tmp_path)
    assert listed(source.readings(0, HOUR)) == [2.0, 3.0, 1.0]


def test_without_a_key_two_records_of_one_time_are_refused_and_with_one_they_are_two(
    tmp_path: Path,
) -> None:
    text = f"at,meter,kwh\n10,a,1\n10,b,2.{SECRET}\n10,a,1\n"
    with pytest.raises(FleetError, match=r"load.csv, line 3: at is that of load.csv, line 2"):
        csv(tmp_path, text).readings(0, HOUR)
    assert listed(csv(tmp_path, text, key=["at", "meter"]).readings(0, HOUR)) == [
        1.0,
        float(f"2.{SECRET}"),
    ]


def test_a_slot_waits_for_the_records_that_are_expected(tmp_path: Path) -> None:
    text = "at,kwh\n" + rows(10, 20)
    assert csv(tmp_path, text, expected=3).readings(0, HOUR) is None
    assert listed(csv(tmp_path, text + "30,3\n", expected=3).readings(0, HOUR)) == [1.0, 2.0, 3.0]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (f"at,kwh\n10,1\n2x{SECRET},2\n", {}, r"load.csv, line 3, column at: expected a time such as"),
    (f"at,kwh\n2025-06-15T10:0{SECRET[0]}:00,2\n", {}, "the time has no zone"),
    (f"at,kwh\n10,1,{SECRET}\n", {}, "load.csv, line 2: 3 fields"),
    ("when,kwh\n10,1\n", {}, "has no column 'at'"),
    (f'at,kwh\n10,"1"{SECRET}\n20,2\n', {}, "load.csv, line 2"),
    ("", {}, "is empty"),
    (f"at,kwh\n,{SECRET}\n", {}, "load.csv, line 2, column at: expected a time"),
]


@pytest.mark.parametrize(("text", "keys", "message"), WRONG)
def test_an_error_names_the_line_and_never_the_value(
    tmp_path: Path, text: str, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(VeilsumError, match=message) as caught:
        csv(tmp_path, text, **keys).readings(0, HOUR)
    assert SECRET not in str(caught.value)


def test_a_file_without_times_is_a_table_alone(tmp_path: Path) -> None:
    (tmp_path / "patients.tsv").write_text("age\tbmi\n50\t25\n")
    source = open_source({"path": "patients.tsv"}, tmp_path)
    assert open_table(source.table()).columns == ("age", "bmi")
    with pytest.raises(FleetError, match="has no readings by their time"):
        source.readings(0, HOUR)
    with pytest.raises(FleetError, match="there is no file"):
        open_source({"path": "absent.csv"}, tmp_path).table()


def test_parquet_has_the_same_readings_as_csv(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    times = [T0 + 600 * k for k in range(12)]
    stamps = [datetime.fromtimestamp(time, UTC) for time in times]
    for at, zone in (
        (arrow.array(stamps, arrow.timestamp("us", "UTC")), ""),
        (arrow.array([x.replace(tzinfo=None) for x in stamps], arrow.timestamp("ms")), "UTC"),
        (arrow.array(times), ""),
    ):
        table = arrow.table({"at": at, "kwh": [float(k) for k in range(12)], "who": ["a", "b"] * 6})
        parquet.write_table(table, tmp_path / "load.parquet")
        source = open_source({"path": "load.parquet", "time": "at", "zone": zone}, tmp_path)
        found = source.readings(T0 + HOUR, T0 + 2 * HOUR)
        assert listed(found) == [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
        assert found is not None
        assert found["who"].tolist() == ["a", "b"] * 3
        assert source.columns() == ["at", "kwh", "who"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    pytest.importorskip("sqlalchemy")
    file = tmp_path / "meter.db"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("create table loads (id integer primary key, at integer, iso text, kwh real)")
        for k in range(8):
            iso = datetime.fromtimestamp(1800 * k, UTC).isoformat()
            db.execute("insert into loads (at, iso, kwh) values (?, ?, ?)", (1800 * k, iso, k + 1))
    return file


@pytest.mark.parametrize("time", ["at", "iso"])
@pytest.mark.parametrize(
    "rows_of", [{"from_table": "loads"}, {"query": "select *, '1:2' as ratio from loads;"}]
)
def test_rows_of_a_database(database: Path, time: str, rows_of: dict[str, str]) -> None:
    source = open_source(
        {"source": "sql", "url": f"sqlite:///{database}", "time": time, **rows_of}, database.parent
    )
    assert listed(source.readings(HOUR, 2 * HOUR)) == [3.0, 4.0]
    assert source.readings(9 * HOUR, 10 * HOUR) is None
    assert (source.columns() or [])[:4] == ["id", "at", "iso", "kwh"]
    assert open_table(source.table()).rows() == 8


def test_a_database_that_cannot_be_read_is_busy(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    keys = {"source": "sql", "url": f"sqlite:///{tmp_path}/none.db", "from_table": "loads"}
    with pytest.raises(SourceBusyError, match=r"cannot be read \(OperationalError, SQLITE_ERROR\)"):
        open_source(keys, tmp_path).table()


def test_a_password_is_in_the_environment_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy")
    keys = {"source": "sql", "url": "sqlite:///x.db", "from_table": "loads"}
    with pytest.raises(FleetError, match='did you mean "password_env"'):
        open_source({**keys, "password": SECRET}, tmp_path)
    with pytest.raises(FleetError, match="must have no password") as caught:
        open_source({**keys, "url": f"postgresql://me:{SECRET}@host/db"}, tmp_path)
    assert SECRET not in str(caught.value)
    monkeypatch.delenv("METER_PASSWORD", raising=False)
    with pytest.raises(FleetError, match="which is not set"):
        open_source({**keys, "password_env": "METER_PASSWORD"}, tmp_path).table()


FUNCTIONS = """
    def readings(start, end):
        if start < 0:
            return None
        if start > 100_000:
            raise ValueError("7654321")
        return {"kwh": [1.0, 2.0], "at": [start, end - 1]}

    def table():
        return {"kwh": [1.0, 2.0, 3.0]}
"""


def test_functions_of_a_python_file(tmp_path: Path) -> None:
    (tmp_path / "meter.py").write_text(textwrap.dedent(FUNCTIONS))
    source = open_source({"path": "meter.py"}, tmp_path)
    found = source.readings(0, HOUR)
    assert found is not None
    assert found["at"].tolist() == [0, HOUR - 1]
    assert source.readings(-HOUR, 0) is None
    assert source.columns() == ["kwh"]
    assert open_table(source.table()).rows() == 3
    with pytest.raises(FleetError, match=r"meter\.py, line 6: ValueError") as caught:
        source.readings(200_000, 300_000)
    assert SECRET not in str(caught.value)
    (tmp_path / "meter.py").write_text("x = 1\n")
    with pytest.raises(FleetError, match="has no function readings"):
        source.readings(0, HOUR)
    with pytest.raises(FleetError, match="has no table"):
        source.table()
    assert source.columns() is None


NEW = '''
"""A file of one number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from veilsum.fleet.sources.base import Columns, DataSource


@dataclass(frozen=True)
class NumberSource(DataSource):
    """A file of one number."""

    name = "number"
    endings = (".number",)

    path: Path

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        return {"value": np.array([float(self.path.read_text())])}
'''


def test_a_new_source_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "number.py").write_text(NEW)
    (tmp_path / "a.number").write_text("42.5")
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    monkeypatch.setattr(SOURCES, "_complete", False)
    try:
        source = open_source({"path": "a.number"}, tmp_path)
        assert listed(source.readings(0, HOUR), "value") == [42.5]
        assert "number" in SOURCES
        with pytest.raises(FleetError, match='did you mean "path"'):
            open_source({"source": "number", "pth": "a"}, tmp_path)
    finally:
        SOURCES.remove("number")


CONFIGURED: list[tuple[dict[str, Any], str]] = [
    ({}, "needs source"),
    ({"path": "x.dat"}, "needs source"),
    ({"source": "cvs", "path": "x"}, "did you mean csv"),
    ({"source": "csv"}, "path: missing"),
    ({"path": "x.csv", "tiem": "at"}, 'did you mean "time"'),
    ({"path": "x.csv", "time": 3}, "time: must be text; found 3"),
    ({"path": "x.csv", "expected": "3"}, "expected: must be a whole number"),
    ({"path": "x.csv", "expected": -1}, "at least 0"),
    ({"path": "x.csv", "key": [1]}, "key: must be a list of texts"),
    ({"path": "x.csv", "zone": "Europe/Zurch"}, "zone must be a time zone"),
    ({"path": 3, "source": "csv"}, "path: must be a path"),
    ({"source": "sql", "url": "x"}, "either from_table or query"),
    ({"source": "sql", "url": "x", "query": "select 1"}, "url must be an address"),
]


@pytest.mark.parametrize(("data", "message"), CONFIGURED)
def test_a_wrong_key_is_refused_with_what_to_write(data: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        open_source(data, Path())


def test_all_sources_are_known() -> None:
    assert SOURCES.names() == ["command", "csv", "http", "mqtt", "parquet", "python", "sql"]


def test_a_question_reads_the_columns_of_a_slot(tmp_path: Path) -> None:
    found = csv(tmp_path, "at,kwh\n10,1.5\n20,\n30,3\n").readings(0, HOUR)
    table = open_table(found)
    (batch,) = list(table.batches(["kwh"]))
    assert np.asarray(batch["kwh"]).tolist() == ["1.5", None, "3"]
    with pytest.raises(QuestionError):
        table.check(["other"])
