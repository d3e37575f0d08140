"""A CSV file that is rotated before anything of it was released: rows are read, or reported as not read.

A ledger without a release used to say nothing about the files beside `readings.csv`: rows that were
rotated away before the first release were dropped without a word.
"""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import entries, run_agents
from tests.agents.readings.test_rotation import HEAD, Writer, source, taken
from veilsum.agents.ledger import Ledger, ReadingOrigin
from veilsum.agents.ledger.records import OriginHasher
from veilsum.agents.readings import CsvReadings, SourceState
from veilsum.errors import SignalError

ROWS = [f"{number},{number + 0.5}\n" for number in range(1, 12)]
NOT_READ = "are not read"


def start(folder: Path, wanted: int, key: Any = "time") -> str:
    """Start agents until so many readings of the file were released; what was logged."""
    return run_agents(folder, source(folder / "readings.csv", key), lambda done: done >= wanted)


def write(folder: Path, name: str, rows: list[str], head: str = HEAD) -> None:
    """A file to which nothing more will be added."""
    text = (head + "".join(rows)).encode()
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    os.utime(path, (1e9, 1e9))


def released(folder: Path, rows: list[str], key: Any = "time") -> bool:
    """Whether these rows and no others were released, each once and in this order."""
    hasher, names = OriginHasher(b"d" * 32, "0"), []
    for number, row in enumerate(rows, 1):
        cells = row.strip().split(",")
        text = cells[0] if key else "\x1f".join(cells)
        names.append(hasher.hash(ReadingOrigin(text, bool(key)), number))
    return [name for entry in entries(folder) for name in entry.origins] == names


@pytest.mark.parametrize("key", ["time", None])
@pytest.mark.parametrize("names", [(".2", ".1"), ("-20300101", "-20300102"), (".2.gz", ".1")])
def test_rotated_after_a_start_without_a_release(tmp_path: Path, key: Any, names: Any) -> None:
    """By rename, twice, while the agent is down: it was given rows 1 to 3, and 4 and 5 came since."""
    write(tmp_path, "readings.csv", ROWS[:3])
    assert NOT_READ not in start(tmp_path, 0, key)
    assert entries(tmp_path) == []
    write(tmp_path, f"readings.csv{names[0]}", ROWS[:4])
    write(tmp_path, f"readings.csv{names[1]}", ROWS[4:5])
    write(tmp_path, "readings.csv", ROWS[5:7])
    start(tmp_path, 7, key)
    assert released(tmp_path, ROWS[:7], key)


@pytest.mark.parametrize("key", ["time", None])
def test_copied_and_truncated_after_a_start_without_a_release(tmp_path: Path, key: Any) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(3)
    start(tmp_path, 0, key)
    writer.rows(1)
    writer.copy_and_truncate()
    writer.rows(2)
    os.utime(f"{writer.path}.1", (1e9, 1e9))
    start(tmp_path, 6, key)
    assert released(tmp_path, ROWS[:6], key)


@pytest.mark.parametrize("how", ["rename", "copy"])
@pytest.mark.parametrize("key", ["time", None])
@pytest.mark.parametrize("first", [0, 2])
def test_rotated_while_the_agent_waits_for_its_first_release(
    tmp_path: Path, how: str, key: Any, first: int
) -> None:
    """Each new file has its line of names: of a file without a row nothing else was read."""
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(first)
    readings = source(writer.path, key)
    for _ in range(3):
        writer.rows(2)
        if how == "rename":
            writer.rename()
        else:
            writer.copy_and_truncate()
            writer.part(HEAD)
    writer.rows(1)
    assert taken(readings, first + 7) == [number + 0.5 for number in range(1, first + 8)]
    assert readings.next() is SourceState.WAITING
    readings.close()


@pytest.mark.parametrize("key", ["time", None])
def test_the_file_had_no_row_when_the_agent_first_started(tmp_path: Path, key: Any) -> None:
    write(tmp_path, "readings.csv.1", ROWS[:2])
    write(tmp_path, "readings.csv", [])
    assert "1 file beside" in start(tmp_path, 0, key)
    write(tmp_path, "readings.csv.2", ROWS[:2])
    write(tmp_path, "readings.csv.1", ROWS[2:4])
    write(tmp_path, "readings.csv", ROWS[4:5])
    assert NOT_READ not in start(tmp_path, 3, key)
    assert released(tmp_path, ROWS[2:5], key)


def test_a_first_start_beside_years_of_rotated_files_releases_none_of_them(tmp_path: Path) -> None:
    for number in range(1, 31):
        write(tmp_path, f"readings.csv.{number}", [f"-{number},0.25\n"])
    write(tmp_path, "readings.csv", ROWS[:2])
    log = start(tmp_path, 2)
    assert "30 files beside" in log
    assert "readings.csv.30 to readings.csv.1" in log
    assert NOT_READ in log
    assert "0.25" not in log
    assert released(tmp_path, ROWS[:2])
    write(tmp_path, "readings.csv", ROWS[:3])
    assert NOT_READ not in start(tmp_path, 3)  # once, at the first start
    assert released(tmp_path, ROWS[:3])


def test_a_start_without_a_release_beside_years_of_files_reads_what_came_since(
    tmp_path: Path,
) -> None:
    for number in range(1, 5):
        write(tmp_path, f"readings.csv.{number}", [f"-{number},0.25\n"])
    write(tmp_path, "readings.csv", ROWS[:2])
    start(tmp_path, 0)
    for number in range(4, 0, -1):
        (tmp_path / f"readings.csv.{number}").rename(tmp_path / f"readings.csv.{number + 1}")
    write(tmp_path, "readings.csv.1", ROWS[:3])
    write(tmp_path, "readings.csv", ROWS[3:4])
    start(tmp_path, 4)
    assert released(tmp_path, ROWS[:4])


def test_rows_whose_file_was_removed_are_reported(tmp_path: Path) -> None:
    """It was given 1 and 2, and rotations have deleted them: 3 to 5 are of the time since."""
    write(tmp_path, "readings.csv", ROWS[:2])
    start(tmp_path, 0)
    write(tmp_path, "readings.csv.1", ROWS[2:4])
    write(tmp_path, "readings.csv", ROWS[4:5])
    assert "rows in between may be lost" in start(tmp_path, 3)
    assert released(tmp_path, ROWS[2:5])


def test_files_of_an_unknown_time_are_not_read_and_reported(tmp_path: Path) -> None:
    """Neither what it was given nor what lay beside it is there: the others may be of any year."""
    write(tmp_path, "readings.csv.1", ["-1,0.25\n"])
    write(tmp_path, "readings.csv", ROWS[:2])
    start(tmp_path, 0)
    write(tmp_path, "readings.csv.2", ["-9,0.25\n"])
    write(tmp_path, "readings.csv.1", ROWS[2:4])
    write(tmp_path, "readings.csv", ROWS[4:5])
    log = start(tmp_path, 1)
    assert NOT_READ in log
    assert '"error"' in next(line for line in log.splitlines() if NOT_READ in line)
    assert released(tmp_path, ROWS[4:5])
    # what the message says to do
    write(tmp_path, "readings.csv", ROWS[2:6])
    start(tmp_path, 4)
    assert len(entries(tmp_path)) == 4


def test_another_folder_is_another_beginning(tmp_path: Path) -> None:
    """Started with an empty file first, then with one among years of others: these are not its own."""
    write(tmp_path, "readings.csv", [])
    start(tmp_path, 0)
    for number in range(1, 5):
        write(tmp_path, f"meter.csv.{number}", [f"-{number},0.25\n"])
    write(tmp_path, "meter.csv", ROWS[:2])
    log = run_agents(tmp_path, source(tmp_path / "meter.csv"), lambda done: done >= 2)
    assert "4 files beside" in log
    assert released(tmp_path, ROWS[:2])


@pytest.mark.parametrize("head", ["", HEAD])
@pytest.mark.parametrize("key", ["time", None])
def test_a_file_of_before_the_first_start_is_not_read_when_it_grows(
    tmp_path: Path, key: Any, head: str
) -> None:
    """Nor when another file appears in the folder: it is no copy of the file that was just begun."""
    write(tmp_path, "readings.csv.1", ROWS[:2])
    write(tmp_path, "readings.csv", [], head)
    readings, hasher = source(tmp_path / "readings.csv", key), OriginHasher(b"d" * 32, "0")
    readings.find_beginning("", lambda number, origin: hasher.hash(origin, number))
    readings.skip(0)
    assert readings.next() is SourceState.WAITING
    with (tmp_path / "readings.csv.1").open("a") as file:
        file.write(ROWS[2])
    (tmp_path / "another").touch()
    assert taken(readings, 1, 0.3) == []
    readings.close()


def test_another_path_after_a_release_is_another_beginning(tmp_path: Path) -> None:
    write(tmp_path, "readings.csv", ROWS[:2])
    start(tmp_path, 2)
    for number in range(1, 5):
        write(tmp_path, f"meter.csv.{number}", [f"-{number},0.25\n"])
    write(tmp_path, "meter.csv", ROWS[2:4])
    log = run_agents(tmp_path, source(tmp_path / "meter.csv"), lambda done: done >= 4)
    assert "4 files beside" in log
    assert released(tmp_path, ROWS[:4])


def test_a_link_that_is_turned_before_the_first_release_is_the_same_path(tmp_path: Path) -> None:
    for day, rows in ((1, ROWS[:2]), (2, ROWS[2:4])):
        write(tmp_path, f"readings-2030010{day}.csv", rows)
        (tmp_path / "link").symlink_to(f"readings-2030010{day}.csv")
        (tmp_path / "link").replace(tmp_path / "readings.csv")
        assert NOT_READ not in start(tmp_path, 0 if day == 1 else 4)
    assert released(tmp_path, ROWS[:4])


def test_a_damaged_or_foreign_file_beside_it_does_not_prevent_a_start(tmp_path: Path) -> None:
    (tmp_path / "readings.csv.3.gz").write_bytes(gzip.compress(b"time,kwh\n1,2\n" * 999)[:-20])
    write(tmp_path, "readings.csv.2", ["1,2,3\n"], "a,b,c\n")
    write(tmp_path, "readings.csv.1", [])
    write(tmp_path, "readings.csv", ROWS[:1])
    assert "3 files beside" in start(tmp_path, 0)
    start(tmp_path, 1)
    assert released(tmp_path, ROWS[:1])


def test_half_a_row_is_no_mark(tmp_path: Path) -> None:
    write(tmp_path, "readings.csv", ["1,"])
    start(tmp_path, 0)
    write(tmp_path, "readings.csv.1", ROWS[:2])
    write(tmp_path, "readings.csv", ROWS[2:3])
    assert "lost" not in start(tmp_path, 3)
    assert released(tmp_path, ROWS[:3])


def test_equal_first_rows_without_a_key_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "readings.csv.1", ["0,9.5\n"])
    write(tmp_path, "readings.csv", ROWS[:1])
    start(tmp_path, 0, None)
    write(tmp_path, "readings.csv.2", ROWS[:2])
    write(tmp_path, "readings.csv.1", ROWS[:2])
    write(tmp_path, "readings.csv", ROWS[2:3])
    with pytest.raises(SignalError, match="have equal rows"):
        start(tmp_path, 1, None)
    assert entries(tmp_path) == []


def test_a_ledger_that_does_not_know_where_its_readings_begin_loses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant: what the tests above would see."""
    monkeypatch.setattr(Ledger, "set_beginning", lambda *_: None)
    write(tmp_path, "readings.csv", ROWS[:3])
    start(tmp_path, 0)
    write(tmp_path, "readings.csv.1", ROWS[:4])
    write(tmp_path, "readings.csv", ROWS[4:5])
    start(tmp_path, 1)
    assert released(tmp_path, ROWS[4:5])


def test_a_source_that_reads_every_file_releases_those_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other weakened variant."""
    monkeypatch.setattr(CsvReadings, "_since_the_beginning", lambda self, r: [*r, self.path])
    write(tmp_path, "readings.csv.1", ["-1,0.25\n"])
    write(tmp_path, "readings.csv", ROWS[:2])
    start(tmp_path, 0)
    start(tmp_path, 3)
    assert not released(tmp_path, ROWS[:2])
