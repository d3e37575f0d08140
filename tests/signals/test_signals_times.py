"""Times in files are compared as times, zones included; they used to be sorted as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from veilsum.errors import SignalError
from veilsum.signals import Signals, as_signals


def read(tmp_path: Path, *rows: str) -> Signals:
    path = tmp_path / "meters.csv"
    path.write_text("\n".join(["agent,time,value", *rows, ""]))
    return as_signals(path)


def test_zones_decide_what_came_first(tmp_path: Path) -> None:
    """10:00+02:00 is 08:00Z; as text it came after 09:00+00:00."""
    found = read(tmp_path, "a,2024-01-01T10:00:00+02:00,1", "a,2024-01-01T09:00:00+00:00,2")
    assert found.values.tolist() == [[1, 2]]
    assert found.times == ("2024-01-01T10:00:00+02:00", "2024-01-01T09:00:00+00:00")


def test_one_instant_in_two_zones_is_one_time(tmp_path: Path) -> None:
    """Agents that write the same instant in zones of their own used to share no time."""
    rows = ("a,2024-06-01T10:00+02:00,1", "b,2024-06-01T08:00:00Z,2")
    assert read(tmp_path, *rows).values.tolist() == [[1], [2]]


def test_one_instant_twice_for_one_agent_is_refused(tmp_path: Path) -> None:
    rows = ("a,2024-06-01T10:00+02:00,1", "a,2024-06-01T08:00:00Z,2")
    with pytest.raises(SignalError, match=r"has two readings, line 2 of meters\.csv and line 3"):
        read(tmp_path, *rows)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024-01-31T23:59:59.999999999Z", "2024-02-01T00:00:00Z"),
        ("2024-01-01 10:00:00.25", "2024-01-01T10:00:00.5"),
        ("2024-01", "2024-02"),
        ("2024-01-01", "2024-01-01T08:00"),
        ("2024-01-01T00:30+05:45", "2023-12-31T19:00Z"),
        ("2024-01-01T00:00:00.0000000001Z", "2024-01-01T00:00:00.0000000002Z"),
    ],
)
def test_order(tmp_path: Path, first: str, second: str) -> None:
    found = read(tmp_path, f"a,{second},2", f"a,{first},1")
    assert found.values.tolist() == [[1, 2]]


def test_zones_for_some_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SignalError, match=r"some times of meters\.csv have a zone"):
        read(tmp_path, "a,2024-01-01T10:00Z,1", "a,2024-01-01T11:00,2")


@pytest.mark.parametrize("time", ["2024-13-01", "2024-02-30", "2024-01-01T25:00", "0000-01-01",
                                  "2024-01-01T10:00+99:00"])  # fmt: skip
def test_what_is_no_time(tmp_path: Path, time: str) -> None:
    """The thirteenth month used to come after December."""
    with pytest.raises(SignalError, match="is not a time: there is no such day or hour"):
        read(tmp_path, f"a,{time},1", "a,2024-01-01T10:00Z,2" if "+" in time else "a,2024-12-01,2")
