"""Sources that look right and are not: no reading is shown, nothing is taken silently."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from veilsum.errors import SignalError
from veilsum.signals import Signals, as_signals

SECRET = "3.14159"


def written(tmp_path: Path, content: str | bytes, name: str = "meters.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"a,{SECRET}\nb,4.2\n", {}),
        (f"1,{SECRET}\n2,4.2\n", {}),
        (f"a,{SECRET},{SECRET}\nb,4.2,1\n", {}),
        (f"a,0,{SECRET}\nb,0,x\n", {"agent": "a"}),
        (f"a,{SECRET}\nb,4.2\n", {"agent": "meter"}),
        (f"agent,time,a,{SECRET}\n1,2,3,4\n", {}),
        (f"a {SECRET}\nb 4.2\n", {}),
        (f"a;{SECRET}\nb;4.2\n", {}),
        ("a;3,14159\nb;4,2\n", {}),
        (f"a\t{SECRET}\nb\t4.2\n", {}),
    ],
)
def test_a_file_without_a_header_shows_no_reading(
    tmp_path: Path, text: str, options: dict[str, str]
) -> None:
    with pytest.raises(SignalError) as caught:
        as_signals(written(tmp_path, text), **options)
    assert SECRET not in str(caught.value)
    assert "14159" not in str(caught.value)


@pytest.mark.parametrize("text", [f"a,{SECRET}\nb,4.2\n", f"1,{SECRET}\n2,4.2\n"])
def test_a_missing_header_is_suspected(tmp_path: Path, text: str) -> None:
    with pytest.raises(SignalError, match=r"does the file lack a header line\?"):
        as_signals(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("meter,kwh\na;1\n;", "line 2 of meters.csv separates its columns by semicolons"),
        ("meter;day;kwh\na;0;1,5\n", "by semicolons: expected commas"),
        ("meter\tkwh\na\t1\n", "by tabs: expected commas"),
        ("# meters of May\nmeter,kwh\na,1\n", "line 1 of meters.csv is a comment"),
        ("meter,kwh\na,1\n# more\nb,2\n", "line 3 of meters.csv is a comment, not a reading"),
        ("meter,value,value\na,1,2\n", "two columns of the same name 'value'; rename one"),
        ("meter,day,kwh\na,0,1\nb,0,1,5\n", "line 3 has 4 fields, not 3 as its header says;"),
        (b"\x89PNG\r\n\x00\x01,2\n3\n4,4\n", "is not UTF-8 text but binary"),
        ("meter,kwh\n".encode("utf-16"), "is not UTF-8 text"),
    ],
)
def test_files_of_another_make(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        as_signals(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "advice", "followed", "options"),
    [
        ("1.5\n2.5\n", "begin the file with a line of names such as agent,value, and every row with",
         "agent,value\na,1.5\nb,2.5\n", {}),
        ("load\n1.5\n2.5\n", "begin every row with the agent whose reading it is, and the line of names",
         "agent,load\na,1.5\nb,2.5\n", {}),
        ("day,load\n0,1.5\n0,2.5\n", "or, if none does, add a column agent",
         "agent,day,load\na,0,1.5\nb,0,2.5\n", {}),
        ("farm,load\na,1.5\nb,2.5\n", "pass agent=...,", "farm,load\na,1.5\nb,2.5\n",
         {"agent": "farm"}),
        ("agent,load,temp\na,1.5,20\nb,2.5,21\n", "pass value=...,",
         "agent,load,temp\na,1.5,20\nb,2.5,21\n", {"value": "load"}),
        ("agent;load\na;1,5\nb;2,5\n", "expected commas", "agent,load\na,1.5\nb,2.5\n", {}),
        ('agent,load\na,"1,5"\nb,"2,5"\n', "write numbers as 1.5", "agent,load\na,1.5\nb,2.5\n", {}),
    ],
)  # fmt: skip
def test_advice_works_when_it_is_followed(
    tmp_path: Path, text: str, advice: str, followed: str, options: dict[str, str]
) -> None:
    with pytest.raises(SignalError) as caught:
        as_signals(written(tmp_path, text))
    assert advice in str(caught.value)
    assert "DataFrame" not in str(caught.value)
    assert as_signals(written(tmp_path, followed), **options).values.tolist() == [[1.5], [2.5]]


def test_a_compressed_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SignalError, match=r"meters\.csv\.gz cannot be read"):
        as_signals(written(tmp_path, "meter,kwh\na,1\n", "meters.csv.gz"))


def test_a_label_may_begin_with_a_hash(tmp_path: Path) -> None:
    assert as_signals(written(tmp_path, "meter,kwh\n#1,1\n#2,2\n")).labels == ("#1", "#2")


def test_times_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    signals = as_signals(written(tmp_path, "meter,hour,kwh\na,10.5,1\na,9.5,2\na,-1e1,3\n"))
    assert signals.times == ("-1e1", "9.5", "10.5")
    assert signals.values.tolist() == [[3, 2, 1]]
    assert signals.notes == ()
    padded = as_signals(written(tmp_path, "meter,hour,kwh\na,10,1\na,08,2\n"))
    assert padded.times == ("08", "10")


DAY, SPAN = np.datetime64("2024-01-01"), np.timedelta64(1, "h")


@pytest.mark.parametrize(
    "source",
    [
        np.array([DAY]),
        np.array([SPAN]),
        np.array([DAY, 1], dtype=object),
        np.ma.array([1j]),
        [np.complex128(1j)],
        [np.complex64(1j)],
        [DAY],
        [dt.datetime(2024, 1, 1)],
        [dt.timedelta(1)],
        {"a": DAY},
        {"a": 1j},
        [10**400],
        pd.Series([DAY]),
        pd.Series([1j], index=["a"]),
        pd.DataFrame({"agent": ["a"], "value": [DAY]}),
        pd.DataFrame({"agent": ["a"], "value": [SPAN]}),
        pd.DataFrame({"agent": ["a"], "value": [1j]}),
        pd.DataFrame({"agent": ["a"], "value": pd.Series([1j], dtype=object)}),
        pd.DataFrame({"agent": ["a"], "value": pd.period_range("2024", periods=1)}),
        pd.DataFrame({"agent": ["a"], "value": pd.to_datetime(["2024-01-01"]).tz_localize("UTC")}),
    ],
)
def test_what_is_no_number_is_refused(source: object) -> None:
    with pytest.raises(SignalError, match="number") as caught:
        as_signals(source)
    assert "2024" not in str(caught.value)


def test_signals_themselves_refuse_what_is_no_number() -> None:
    with pytest.raises(SignalError, match="values must be real numbers; found complex128"):
        Signals(np.ones((2, 1)) * 1j, "ab", [0])  # type: ignore[arg-type]


def test_truth_values_are_zero_and_one() -> None:
    assert as_signals([True, False]).values.tolist() == [[1], [0]]


def test_two_columns_of_one_name_in_a_frame() -> None:
    frame = pd.DataFrame([["a", 1, 2]], columns=["meter", "kwh", "kwh"])
    with pytest.raises(SignalError, match="DataFrame has two columns of the same name 'kwh'"):
        as_signals(frame)


def test_an_array_of_the_wrong_length_for_the_network() -> None:
    with pytest.raises(SignalError, match="the signals have 6 agents and the network 5"):
        as_signals(np.ones(6), range(5))
    with pytest.raises(SignalError, match=r"6 agents and the network 5: .* is it transposed\?"):
        as_signals(np.ones((6, 5)), range(5))


@pytest.mark.parametrize("policy", [None, [1], 10**400, 1j])
def test_policies_of_the_wrong_kind(policy: object) -> None:
    with pytest.raises(SignalError, match="missing must be a finite number, 'error' or"):
        as_signals([1.0], missing=policy)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [{"agent": "kwh"}, {"time": "kwh"}])
def test_readings_in_the_wrong_column_are_not_shown(tmp_path: Any, columns: Any) -> None:
    """`agent = "kwh"` listed readings as the labels of agents that are not in the network."""
    path = tmp_path / "meters.csv"
    rows = [f"{k % 3},{k // 3},{1.3349 + k}" for k in range(6)]
    path.write_text("agent,day,kwh\n" + "\n".join(rows) + "\n")
    with pytest.raises(SignalError) as caught:
        as_signals(
            path, labels=[0, 1, 2], value="kwh", **{"agent": "agent", "time": "day"} | columns
        )
    assert ".3349" not in str(caught.value)


@pytest.mark.parametrize("header", ["household,load,solar", "household,load_1,solar_1", "id,a,b,c"])
def test_columns_of_several_quantities_are_not_rounds(tmp_path: Path, header: str) -> None:
    """ "mu = 0.40 kWh" was the share of households with solar, read as a second round."""
    cells = header.count(",")
    path = tmp_path / "homes.csv"
    path.write_text(header + "".join(f"\nh{k}" + f",{k}.25" * cells for k in range(3)) + "\n")
    with pytest.raises(
        SignalError, match=r"which column holds the readings\? .*pass value=\.\.\."
    ) as e:
        as_signals(path)
    assert ".25" not in str(e.value)
    chosen = as_signals(path, value=header.split(",")[1])
    assert chosen.values.tolist() == [[0.25], [1.25], [2.25]]


@pytest.mark.parametrize(
    "names", [("1", "2"), ("day 1", "day 2"), ("h_00", "h_01"), ("2024-01-01", "2024-01-02")]
)
def test_columns_of_one_quantity_are_rounds(tmp_path: Path, names: Any) -> None:
    path = tmp_path / "homes.csv"
    path.write_text(f"household,{names[0]},{names[1]}\na,1,2\nb,3,4\n")
    assert as_signals(path).values.tolist() == [[1, 2], [3, 4]]
