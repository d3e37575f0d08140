"""Rows of a real SQLite file: each is released once, whatever order they are committed in."""

import io
import sqlite3
import time
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import entries, run_agents, taken
from veilsum.agents.readings import Pauses, SourceState, SqlReadings
from veilsum.agents.readings import sql as module
from veilsum.errors import SignalError


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "meter.db"
    execute(path, "CREATE TABLE loads (id INTEGER, kwh, at TEXT)")
    return path


def insert(file: Path, *ids: int) -> None:
    rows = ", ".join(f"({k}, {k + 0.25}, '2030-01-01T00:00:{k % 60:02d}Z')" for k in ids)
    execute(file, f"INSERT INTO loads VALUES {rows}")


def source(file: Path, **options: Any) -> SqlReadings:
    chosen = {"table": "loads", "interval": 0.02, "pauses": Pauses(0.05, 0.2), **options}
    return SqlReadings(f"sqlite:///{file}", "id", "kwh", **chosen)


def values(*ids: int) -> list[float]:
    return [k + 0.25 for k in ids]


def test_rows_in_the_order_of_the_key_and_new_ones_as_they_come(file: Path) -> None:
    insert(file, 3, 1, 2)
    readings = source(file, time="at")
    assert taken(readings, 3) == values(1, 2, 3)
    assert readings.observed_at == 1893456003.0
    insert(file, 5, 4)
    assert taken(readings, 2) == values(4, 5)
    assert readings.next() is SourceState.WAITING
    readings.close()


def test_a_row_that_is_committed_after_rows_with_higher_keys(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sequence gives numbers before transactions commit; `key > last` alone loses such a row."""
    insert(file, *range(1, 11), 20)
    readings = source(file)
    assert taken(readings, 11) == values(*range(1, 11), 20)
    insert(file, 15)
    assert taken(readings, 1) == values(15)
    readings.close()
    monkeypatch.setattr(module, "LOOK_BACK", 1)  # the weakened variant
    readings = source(file)
    assert taken(readings, 12) == values(*range(1, 11), 15, 20)
    insert(file, 12)
    assert taken(readings, 1, 0.3) == []
    readings.close()


def test_many_rows_come_in_pages(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 7)
    monkeypatch.setattr(module, "LOOK_BACK", 5)
    insert(file, *range(1, 101))
    execute(file, *["INSERT INTO loads VALUES (50, 1, '')"] * 20)  # one key, many rows: one reading
    readings = source(file)
    assert taken(readings, 100)[:49] == values(*range(1, 50))
    insert(file, *range(101, 131))
    found = set(taken(readings, 30))
    assert found >= set(values(*range(101, 131)))
    readings.close()


def test_a_query_instead_of_a_table(file: Path) -> None:
    insert(file, 1, 2, 3, 4)
    query = "SELECT id, kwh * 2 AS kwh FROM loads WHERE id % 2 = 0;"
    readings = source(file, table=None, query=query)
    assert taken(readings, 2) == [4.5, 8.5]
    assert readings.naming == "sql query, key id"
    readings.close()


def test_bad_values_are_reported_by_their_row(file: Path) -> None:
    insert(file, 1)
    execute(
        file,
        "INSERT INTO loads VALUES (2, 'secret-77', '')",
        "INSERT INTO loads VALUES (3, NULL, '')",
        "INSERT INTO loads VALUES (NULL, 77.5, '')",
    )
    insert(file, 4)
    readings = source(file)
    assert taken(readings, 1) == values(1)
    for row in (2, 3):
        with pytest.raises(
            SignalError, match=f"row {row} in the order of id, kwh is not a number"
        ) as e:
            taken(readings, 1)
        assert "77" not in str(e.value)
    assert taken(readings, 1) == values(4)
    (notice,) = readings.notices()
    assert "1 rows of table loads have no id" in notice.text
    readings.close()


def test_a_table_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "late.db"
    execute(path, "CREATE TABLE other (x)")
    readings = source(path)
    found: list[str] = []
    end = time.monotonic() + 10
    while not found and time.monotonic() < end:
        assert readings.next() is SourceState.WAITING
        found = [notice.text for notice in readings.notices()]
    assert "cannot be read (OperationalError, SQLITE_ERROR)" in found[0]
    execute(path, "CREATE TABLE loads (id INTEGER, kwh, at TEXT)")
    insert(path, 1)
    assert taken(readings, 1) == values(1)
    end = time.monotonic() + 10  # it is reported once all rows were fetched
    while not any("is read again" in text for text in found) and time.monotonic() < end:
        found = [notice.text for notice in readings.notices()]
    assert any("is read again" in text for text in found)
    readings.close()


def test_each_row_is_released_once_over_restarts_and_nothing_is_logged(
    tmp_path: Path, file: Path
) -> None:
    written = io.StringIO()
    with redirect_stdout(written), redirect_stderr(written):
        insert(file, *range(1001, 1006))
        execute(file, "INSERT INTO loads VALUES (1000, 'secret-77', '')")
        log = run_agents(tmp_path, source(file), lambda count: count >= 5)
        first = entries(tmp_path)
        insert(file, 1006, 999)
        log += run_agents(tmp_path, source(file), lambda count: count >= 7)
    later = entries(tmp_path)
    assert len(later) == 7
    assert later[:5] == first
    assert len({entry.origins for entry in later}) == 7
    text = log + written.getvalue()
    assert "row 1 in the order of id, kwh is not a number" in text
    assert not any(secret in text for secret in ("secret-77", "1001.25", "999.25", "1003.25"))
