"""A CSV file that is rotated: nothing is lost, nothing comes twice, and the log says so."""

import gzip
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.test_rewritten_readings import read
from veilsum.agents.ledger.clock import SystemClock
from veilsum.agents.readings import CsvReadings, SourceState
from veilsum.agents.readings.rotation import FollowedFile
from veilsum.errors import AgentError, SignalError

HEAD = "time,kwh\n"


def source(path: Path, key: Any = "time") -> CsvReadings:
    return CsvReadings(path, "kwh", key=key, settle=0.05, unfinished=0.4)


class Writer:
    """Appends numbered rows; one handle until it is reopened, as a program under logrotate."""

    def __init__(self, path: Path, head: bool = True) -> None:
        self.path, self.written = path, 0
        OPEN.append(self)
        self.file = path.open("ab", buffering=0)
        if head:
            self.file.write(HEAD.encode())

    def rows(self, count: int) -> None:
        for _ in range(count):
            self.written += 1
            self.file.write(f"{self.written},{self.written + 0.5}\n".encode())

    def part(self, text: str) -> None:
        self.file.write(text.encode())

    def rename(self, reopen: bool = True, head: bool = True) -> None:
        shift(self.path)
        self.path.rename(f"{self.path}.1")
        if reopen:
            self.reopen(head)

    def reopen(self, head: bool = True) -> None:
        self.file.close()
        self.file = self.path.open("ab", buffering=0)
        if head:
            self.file.write(HEAD.encode())

    def copy_and_truncate(self) -> None:
        shift(self.path)
        shutil.copyfile(self.path, f"{self.path}.1")
        with self.path.open("r+b") as file:
            file.truncate(0)


@pytest.fixture(autouse=True)
def _writers_are_closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().file.close()


OPEN: list[Writer] = []


def shift(path: Path) -> None:
    for number in range(8, 0, -1):
        old = Path(f"{path}.{number}")
        if old.exists():
            old.rename(f"{path}.{number + 1}")


def taken(readings: CsvReadings, count: int, seconds: float = 10.0) -> list[Any]:
    """Readings until there are so many different ones; a value is its number plus one half."""
    found: list[Any] = []
    end = time.monotonic() + seconds
    while len(set(found)) < count and time.monotonic() < end:
        value = readings.next()
        if value is SourceState.WAITING:
            time.sleep(0.005)
        else:
            found.append(value)
    return found


def expected(count: int) -> list[float]:
    return [number + 0.5 for number in range(1, count + 1)]


@pytest.mark.parametrize("key", ["time", None])
@pytest.mark.parametrize("how", ["rename", "rename, no names", "copy"])
def test_a_writer_that_rotates_while_the_file_is_read_loses_nothing(
    tmp_path: Path, how: str, key: Any
) -> None:
    writer = Writer(tmp_path / "readings.csv")

    def work() -> None:
        for _ in range(6):
            writer.rows(40)
            time.sleep(0.02)
            writer.copy_and_truncate() if how == "copy" else writer.rename(head=how == "rename")
        writer.rows(10)

    readings = source(writer.path, key)
    thread = threading.Thread(target=work)
    thread.start()
    found = taken(readings, 250)
    thread.join()
    assert readings.next() is SourceState.WAITING
    assert found == expected(250)
    texts = [notice.text for notice in readings.notices()]
    assert any("renamed and begun" in t or "copied and truncated" in t for t in texts), texts
    readings.close()


@pytest.mark.parametrize("how", ["rename", "copy"])
def test_several_rotations_between_two_looks(tmp_path: Path, how: str) -> None:
    """An agent that reads once an hour sees only the last of three files by its name."""
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(5)
    readings = source(writer.path, None)
    assert readings.next() == 1.5
    for _ in range(3):
        writer.rows(5)
        writer.copy_and_truncate() if how == "copy" else writer.rename()
    writer.rows(5)
    assert taken(readings, 24) == expected(25)[1:]
    readings.close()


def test_an_empty_file_that_is_filled_copied_and_truncated_between_two_looks(
    tmp_path: Path,
) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(3)
    readings = source(writer.path, None)
    assert taken(readings, 3) == expected(3)
    writer.copy_and_truncate()
    assert readings.next() is SourceState.WAITING  # reads its copy, and stays at an empty file
    for _ in range(2):
        writer.rows(4)
        writer.copy_and_truncate()
    writer.rows(1)
    assert taken(readings, 9) == expected(12)[3:]
    writer.copy_and_truncate()
    assert readings.next() is SourceState.WAITING
    writer.rows(1)
    shift(writer.path)
    shutil.copyfile(writer.path, f"{writer.path}.1")  # copied, and only later truncated
    assert taken(readings, 1) == [13.5]
    os.truncate(writer.path, 0)
    writer.rows(1)
    assert taken(readings, 1) == [14.5]
    assert readings.next() is SourceState.WAITING
    readings.close()


def test_a_rotated_file_that_is_compressed_at_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(3)
    readings = source(writer.path, None)
    assert readings.next() == 1.5
    writer.rows(2)
    writer.rename()
    packed = Path(f"{writer.path}.1")
    Path(f"{packed}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    writer.rows(2)
    assert taken(readings, 6) == expected(7)[1:]
    readings.close()


@pytest.mark.parametrize("key", ["time", None])
def test_rows_that_the_writer_adds_to_the_renamed_file_come_first(tmp_path: Path, key: Any) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(2)
    readings = source(writer.path, key)
    assert taken(readings, 2) == expected(2)
    writer.rename(reopen=False)
    (tmp_path / "readings.csv").write_text(HEAD)
    writer.rows(1)
    writer.part("4,")  # half a row
    assert taken(readings, 1) == [3.5]
    writer.part("4.5\n")
    assert taken(readings, 1) == [4.5]
    writer.written = 4
    writer.reopen(head=False)
    writer.rows(2)
    assert taken(readings, 2) == [5.5, 6.5]
    readings.close()


@pytest.mark.parametrize("head", ["", HEAD])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("key", ["time", None])
def test_a_renamed_file_that_grew_is_not_taken_for_a_copy(
    tmp_path: Path, key: Any, packed: bool, head: str
) -> None:
    """Its time is another than when it was renamed; any other file in the folder makes that count."""
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(2)
    readings = source(writer.path, key)
    assert taken(readings, 2) == expected(2)
    writer.rename(reopen=False)
    writer.path.write_text(head)
    assert readings.next() is SourceState.WAITING  # the new file was noticed
    writer.rows(1)
    assert taken(readings, 1) == [3.5]
    if packed:  # as gzip does, with the time of the file
        renamed = Path(f"{writer.path}.1")
        Path(f"{renamed}.gz").write_bytes(gzip.compress(renamed.read_bytes()))
        shutil.copystat(renamed, f"{renamed}.gz")
        renamed.unlink()
    (tmp_path / "another").touch()
    assert taken(readings, 1, 0.3) == []
    writer.reopen(head=not head)
    writer.rows(2)
    assert taken(readings, 2) == [4.5, 5.5]
    readings.close()


@pytest.mark.parametrize("key", ["time", None])
def test_a_link_to_the_newest_of_dated_files_is_one_file(tmp_path: Path, key: Any) -> None:
    """Under its own name the newest file looks as one that was rotated, and would be read twice."""

    def turn_to(day: int, rows: str) -> None:
        dated, other = tmp_path / f"readings-2030010{day}.csv", tmp_path / "link"
        dated.write_text(HEAD + rows)
        other.symlink_to(dated.name)
        other.replace(tmp_path / "readings.csv")

    turn_to(1, "1,1.5\n2,2.5\n")
    readings = source(tmp_path / "readings.csv", key)
    assert taken(readings, 2) == expected(2)
    turn_to(2, "3,3.5\n")
    assert taken(readings, 1) == [3.5]
    assert taken(readings, 1, 0.3) == []
    turn_to(3, "4,4.5\n")
    assert taken(readings, 1) == [4.5]
    assert taken(readings, 1, 0.3) == []
    readings.close()


def test_a_row_that_comes_very_late_needs_a_key(tmp_path: Path) -> None:
    for key in ("time", None):
        path = tmp_path / f"{key}.csv"
        writer = Writer(path)
        writer.rows(2)
        readings = source(path, key)
        writer.rename(reopen=False)
        path.write_text(HEAD + "9,9.5\n")
        assert taken(readings, 3) == [1.5, 2.5, 9.5]
        writer.rows(1)
        if key:
            assert taken(readings, 1) == [3.5]
        else:
            with pytest.raises(AgentError, match="after it had been renamed"):
                taken(readings, 1)
        readings.close()


def test_half_a_row_that_never_ends_does_not_count(tmp_path: Path) -> None:
    """`3,1` may be the beginning of `3,12.5`."""
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(2)
    writer.part("3,1")
    readings = source(writer.path)
    assert taken(readings, 2) == expected(2)
    writer.rename()
    writer.part("4,4.5\n")
    assert taken(readings, 1) == [4.5]
    assert any("had not ended" in notice.text for notice in readings.notices())
    readings.close()


@pytest.mark.parametrize("look", [True, False])
def test_half_a_row_when_the_file_is_copied_and_truncated(tmp_path: Path, look: bool) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(2)
    readings = source(writer.path, None)
    assert taken(readings, 2) == expected(2)
    writer.part("3,")
    if look:
        assert readings.next() is SourceState.WAITING
    writer.copy_and_truncate()
    writer.part("3.5\n4,4.5\n")
    assert taken(readings, 2) == [3.5, 4.5]
    readings.close()


def test_halves_that_do_not_fit_are_an_error_and_not_a_reading(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.part("1,77.")
    readings = source(writer.path)
    assert readings.next() is SourceState.WAITING
    with writer.path.open("r+b") as file:
        file.truncate(0)
    writer.part("2,88.25\n3,3.5\n")
    with pytest.raises(SignalError, match="cut in two by a rotation") as caught:
        readings.next()
    assert "77." not in str(caught.value)
    assert "88.25" not in str(caught.value)
    assert readings.next() == 3.5
    assert any("no copy of it" in notice.text for notice in readings.notices())
    readings.close()


def test_a_truncated_file_that_has_grown_again_is_noticed(tmp_path: Path) -> None:
    """The size alone does not show it."""
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(3)
    readings = source(writer.path)
    assert taken(readings, 3) == expected(3)
    writer.copy_and_truncate()
    writer.rows(20)
    assert taken(readings, 20) == expected(23)[3:]
    readings.close()


def test_a_writer_that_does_not_append_leaves_a_hole(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    with path.open("wb", buffering=0) as file:
        file.write(b"time,kwh\n1,1.5\n")
        readings = source(path)
        assert taken(readings, 1) == [1.5]
        shutil.copyfile(path, f"{path}.1")
        with path.open("r+b") as other:
            other.truncate(0)
        file.write(b"2,2.5\n")
        assert taken(readings, 1) == [2.5]
    readings.close()


def test_other_columns_in_a_new_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(1)
    readings = source(writer.path)
    assert taken(readings, 1) == [1.5]
    writer.rename(head=False)
    writer.part("kwh,volt,time\n2.5,230,2\n")
    assert taken(readings, 1) == [2.5]
    writer.rename(head=False)
    writer.part("a,b,c\n7,8,9\n")
    with pytest.raises(AgentError, match="no column kwh, time among the 3"):
        taken(readings, 1)
    readings.close()


ROWS = [f"{number},{number + 0.5}\n" for number in range(1, 9)]


@pytest.mark.parametrize("key", ["time", None])
@pytest.mark.parametrize("names", [(".2", ".1"), ("-20300101", "-20300102"), (".2.gz", ".1")])
def test_rotations_while_the_agent_was_down(tmp_path: Path, key: Any, names: Any) -> None:
    """Released: 1 to 3. Two files were rotated since; the ledger has each reading once."""
    first = read(tmp_path, ROWS[:3], 3, key)
    path = tmp_path / "readings.csv"
    for name, rows in zip(names, (ROWS[:4], ROWS[4:5]), strict=True):
        text = (HEAD + "".join(rows)).encode()
        packed = gzip.compress(text) if name.endswith(".gz") else text
        Path(f"{path}{name}").write_bytes(packed)
        os.utime(f"{path}{name}", (1e9, 1e9))  # long ago: nothing more is expected of it
    later = read(tmp_path, ROWS[5:7], 7, key)
    assert later[:3] == first
    assert [entry.reading for entry in later] == [1, 2, 3, 4, 5, 6, 7]
    assert len({entry.origins for entry in later}) == 7


def test_a_rotated_file_that_was_never_read_is_left_alone(tmp_path: Path) -> None:
    """Rows older than the file an agent was first given are not its readings."""
    path = tmp_path / "readings.csv"
    Path(f"{path}.1").write_text(HEAD + "-1,0.25\n-2,0.25\n")
    assert len(read(tmp_path, ROWS[:3], 3, "time")) == 3
    assert len(read(tmp_path, ROWS[:4], 4, "time")) == 4


def test_without_a_key_all_released_rows_must_be_there(tmp_path: Path) -> None:
    first = read(tmp_path, ROWS[:3], 3)
    Path(f"{tmp_path / 'readings.csv'}.1").write_text(
        HEAD + "".join(ROWS[1:4])
    )  # without the first
    with pytest.raises(SignalError, match="give the agent the"):
        read(tmp_path, ROWS[4:], 4)
    assert read(tmp_path, ROWS[:3], 3) == first


def test_equal_rows_in_two_files_are_ambiguous_without_a_key(tmp_path: Path) -> None:
    same = ["1,2.5\n"] * 3
    read(tmp_path, same, 3)
    Path(f"{tmp_path / 'readings.csv'}.1").write_text(HEAD + "".join(same))
    with pytest.raises(SignalError, match="have equal rows"):
        read(tmp_path, same, 4)


def test_a_source_that_does_not_look_for_rotated_files_loses_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant: what the tests above would see."""
    monkeypatch.setattr(FollowedFile, "rotated", lambda _: [])
    writer = Writer(tmp_path / "readings.csv")
    writer.rows(1)
    readings = source(writer.path)
    assert readings.next() == 1.5
    for _ in range(2):
        writer.rows(2)
        writer.rename()
    writer.rows(1)
    assert len(taken(readings, 5, 0.5)) < 5
    readings.close()


def test_names_of_rotated_files(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    names = ["readings-20300101.csv", "readings.csv.20300102", "readings.csv-2030-01-03.gz"]
    names += ["readings.csv.10", "readings.csv.2.gz", "readings.csv.1"]
    for name in [*names, "readings.csv", "readings.csv.bak", "other.csv.1", "readings.csv.1~"]:
        (tmp_path / name).write_text(HEAD)
    followed = FollowedFile(path, True, True)
    assert [found.name for found in followed.rotated()] == names
    followed.close()


@pytest.mark.parametrize("how", ["rename", "rename, no names", "copy", "copy, names"])
@pytest.mark.parametrize("key", ["time", None])
def test_rows_looks_and_rotations_in_any_order(tmp_path: Path, how: str, key: Any) -> None:
    """Two rotations in a row leave an empty file among them, which once hid the one before it."""
    for seed in (57, 76, 96, 187, 378, 450, 456, 457, 535, 595):
        chance, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        writer = Writer(folder / "readings.csv")
        readings = CsvReadings(writer.path, "kwh", key=key, settle=0.0, unfinished=0.0)
        found: list[Any] = []

        def look(most: int, readings: Any = readings, found: Any = found) -> None:
            while most and not isinstance(value := readings.next(), SourceState):
                found.append(value)
                most -= 1

        for _ in range(25):
            match chance.choice(["rows", "rows", "look", "look once", "rotate"]):
                case "rows":
                    writer.rows(chance.randint(1, 5))
                case "rotate":
                    if how.startswith("copy"):
                        writer.copy_and_truncate()
                        writer.part(HEAD if how == "copy, names" else "")
                    else:
                        writer.rename(head=how == "rename")
                    time.sleep(0.006)  # the clock of the file system has steps of 4 ms
                case "look":
                    look(1000)
                case "look once":
                    look(1)
        for _ in range(30):
            look(1000)
        assert list(dict.fromkeys(found)) == expected(writer.written)
        assert key or len(found) == writer.written
        readings.close()


def test_a_file_that_is_gone_for_longer_than_a_rotation_is_reported_once(tmp_path: Path) -> None:
    """Not while it is being renamed; and again if it goes a second time."""
    path, now = tmp_path / "readings.csv", [0.0]
    path.write_text(HEAD + "1,1.5\n")
    lines = FollowedFile(path, True, True, clock=SystemClock(monotonic=lambda: now[0]))

    def said(seconds: float) -> list[str]:
        now[0] += seconds
        while lines.line() is not None:
            pass
        found = [
            notice.text for notice in lines.notices if "no other file has its name" in notice.text
        ]
        lines.notices.clear()
        return found

    assert said(0) == []
    path.unlink()
    assert said(1) == said(58) == []
    (text,) = said(2)
    assert str(path) in text
    assert "look at what writes it" in text
    assert said(1000) == []
    path.write_text(HEAD + "2,2.5\n")
    assert said(1) == []
    path.unlink()
    assert said(1) == []
    assert len(said(60)) == 1
    lines.close()
