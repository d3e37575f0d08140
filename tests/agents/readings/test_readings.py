"""Sources of readings: each gives one at a time, never waits, never tells a value in an error."""

import sys
import time
from typing import Any

import pytest

from veilsum.agents.readings import (
    CommandReadings,
    CsvReadings,
    IterableReadings,
    SourceState,
)
from veilsum.errors import AgentError, SignalError


def test_python_values_in_their_order_and_the_end() -> None:
    source = IterableReadings([1, 2.5, (3, 4)])
    assert [source.next() for _ in range(4)] == [1.0, 2.5, (3.0, 4.0), SourceState.END]
    source = IterableReadings(iter([1, 2, 3]))
    source.skip(2)
    assert source.next() == 3.0


def test_a_csv_file_is_followed_as_it_grows(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("day,kwh\n1,2.5\n2,")
    source = CsvReadings(path, "kwh")
    assert source.next() == 2.5
    assert source.next() is SourceState.WAITING  # the second line has not ended
    with path.open("a") as file:
        file.write('3.5\n"3",4.5\n')
    assert [source.next() for _ in range(3)] == [3.5, 4.5, SourceState.WAITING]
    source.close()


def test_a_file_that_no_longer_grows_ends_with_its_last_line(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("\ufeffa,b\n1,2\n\n3,4")
    source = CsvReadings(path, ["a", "b"], follow=False)
    assert [source.next() for _ in range(3)] == [(1.0, 2.0), (3.0, 4.0), SourceState.END]
    source.close()


def test_odd_files(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("kwh\n" + "\n" * 5000 + "1\n2\r3\n" + "9" * 200_000 + "\n5\n")
    source = CsvReadings(path)
    assert source.next() == 1.0
    for _ in range(2):
        with pytest.raises(SignalError, match=r"reading \d is not"):
            source.next()
    assert source.next() == 5.0
    source.close()


def test_a_decimal_comma_is_refused_and_not_cut_off(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("day,kwh\n1,2.5\n2,3,75\n3,4.5,\n")
    source = CsvReadings(path, "kwh", key="day")
    assert source.next() == 2.5
    with pytest.raises(
        SignalError, match=r"3 columns and the line of names 2; .* 1\.5, not 1,5"
    ) as no:
        source.next()
    assert "75" not in str(no.value)
    assert source.next() == 4.5  # an empty cell behind the last one holds nothing
    source.close()


def test_columns_are_found_when_the_file_gets_its_first_line(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("")
    source = CsvReadings(path, "kwh")
    assert source.next() is SourceState.WAITING
    path.write_text("day,kwh\n1,2\n")
    assert source.next() == 2.0
    source.close()


def test_a_restart_passes_over_what_was_released(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("kwh\nsecret\n2\n3\n")
    source = CsvReadings(path)
    source.skip(2)
    assert source.next() == 3.0
    source.close()
    cut = CsvReadings(path)
    with pytest.raises(SignalError, match="has 3 readings and 4 were released"):
        cut.skip(4)
    cut.close()


def test_errors_name_the_place_and_never_the_text(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("day,kwh\n1,confidential\n2\n")
    source = CsvReadings(path, "kwh")
    with pytest.raises(SignalError, match="reading 1 is not a number") as caught:
        source.next()
    assert "confidential" not in str(caught.value)
    with pytest.raises(SignalError, match="reading 2: the row has 1 columns, too few"):
        source.next()
    source.close()
    path.write_text("17,confidential\n18,secret\n")  # the line of names was forgotten
    with pytest.raises(AgentError, match="no column kwh among the 2 of its first line") as named:
        CsvReadings(path, "kwh")
    assert "confidential" not in str(named.value)
    with pytest.raises(SignalError, match="cannot read the readings"):
        CsvReadings(tmp_path / "nowhere.csv")
    with pytest.raises(SignalError, match="cannot start"):
        CommandReadings(["./no-such-program"])


def test_the_lines_of_a_command_are_readings() -> None:
    source = CommandReadings([sys.executable, "-c", "print(1.5); print('2, 3'); print('x')"])
    found: list[Any] = []
    end = time.monotonic() + 10
    while len(found) < 2 and time.monotonic() < end:
        value = source.next()
        if value is SourceState.WAITING:
            time.sleep(0.01)
        else:
            found.append(value)
    assert found == [1.5, (2.0, 3.0)]
    with pytest.raises(SignalError, match=r"line 3 of .* is not a number"):
        patient(source, end)
    source.close()
    source.close()


def patient(source: Any, end: Any) -> None:
    while time.monotonic() < end:
        assert source.next() is SourceState.WAITING


def test_closing_ends_a_command_that_goes_on() -> None:
    source = CommandReadings([sys.executable, "-c", "import time\nwhile True: time.sleep(1)"])
    assert source.next() is SourceState.WAITING
    source.close()
    assert source._run is not None
    assert source._run._process.poll() is not None
