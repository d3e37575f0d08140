"""as_signals: every kind of source, and every way in which it can be wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from veilsum import families as f
from veilsum.errors import SignalError
from veilsum.signals import as_signals

LONG = pd.DataFrame(
    {"meter": ["b", "b", "a", "a"], "day": [1, 0, 0, 1], "kwh": [4.0, 3.0, 1.0, 2.0]}
)


def written(tmp_path: Path, text: str, name: str = "meters.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ([1, 2, 3], (3, 1)),
        (np.arange(3), (3, 1)),
        (np.ones((3, 4), dtype=np.float32), (3, 4)),
        (((1, 2), (3, 4)), (2, 2)),
        (np.ones((3, 4, 2)), (3, 4, 2)),
        ({"a": 1, "b": 2.5}, (2, 1)),
        ({"a": [1, 2], "b": (3, 4)}, (2, 2)),
        ({"a": [[1, 2]], "b": [[3, 4]]}, (2, 1, 2)),
        (pd.Series([1, 2], index=["a", "b"]), (2, 1)),
        (pd.DataFrame([[1, 2], [3, 4]], index=["a", "b"]), (2, 2)),
        (pd.DataFrame(np.ones((3, 2))), (3, 2)),
        (LONG, (2, 2)),
        (LONG.set_index("meter"), (2, 2)),
        (LONG.set_index(["meter", "day"]), (2, 2)),
        (LONG.set_index(["meter", "day"])["kwh"], (2, 2)),
        (LONG[LONG.day == 0].drop(columns="day"), (2, 1)),
    ],
)
def test_sources(source: object, shape: tuple[int, ...]) -> None:
    signals = as_signals(source)
    assert signals.values.shape == shape
    assert signals.values.dtype == np.float64
    assert signals.notes == ()
    assert as_signals(signals) is signals


def test_long_and_wide_tables_agree() -> None:
    long = as_signals(LONG, labels=["a", "b"])
    np.testing.assert_array_equal(long.values, [[1, 2], [3, 4]])
    assert long.times == (0, 1)
    wide = as_signals(LONG.pivot(index="meter", columns="day", values="kwh"))
    np.testing.assert_array_equal(wide.values, long.values)
    assert (wide.labels, wide.times) == (long.labels, long.times)


def test_labels_name_rows_or_put_them_in_order() -> None:
    assert as_signals([1, 2], labels=["x", "y"]).labels == ("x", "y")
    assert as_signals({"x": 1, "y": 2}, labels=["y", "x"]).values.ravel().tolist() == [2, 1]
    with pytest.raises(SignalError, match="signals have 2 agents and the network 3"):
        as_signals([1, 2], labels="xyz")
    with pytest.raises(SignalError, match="1 agent without signals: 'z'"):
        as_signals({"x": 1, "y": 2}, labels="xyz")


def test_named_columns_and_vector_readings() -> None:
    odd = LONG.rename(columns={"meter": "who", "day": "when", "kwh": "much"}).assign(more=1.0)
    signals = as_signals(odd, agent="who", time="when", value=["much", "more"])
    assert signals.values.shape == (2, 2, 2)
    assert (signals.values[..., 1] == 1).all()
    with pytest.raises(SignalError, match="there is no column 'whom'; the columns are 'who'"):
        as_signals(odd, agent="whom")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (LONG.assign(household=1), "more than one column could be the agent: 'meter', 'household'"),
        (LONG.assign(amount=1.0), "more than one column could be the value: 'kwh', 'amount'"),
        (LONG.rename(columns={"kwh": "p"}).assign(q=1.0), "which column holds the readings"),
        (LONG.rename(columns={"meter": "who"}), "which column names the agents"),
        (LONG.rename(columns={"meter": "who", "day": "w"}), "which column names the agents"),
        (LONG.drop(columns="meter").set_index(pd.Index(list("pqrs"))), "which column names"),
        (LONG.drop(columns="day"), "no time column, and agent 'b' has two readings, row 0"),
        (LONG.assign(kwh=["1", "x", "", "2"]), "row 1 of the DataFrame does not hold a number"),
        (LONG.assign(meter=["a", None, "b", "b"]), "row 1 of the DataFrame has no agent"),
        (pd.DataFrame(index=pd.Index(["a"], name="agent")), "holds no readings"),
        (LONG.iloc[:0], "none of them 0"),
    ],
)
def test_tables_that_do_not_say_enough(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        as_signals(frame)


def test_repeated_rows_are_named_both(tmp_path: Path) -> None:
    path = written(tmp_path, "meter,day,kwh\na,0,1\nb,0,2\n\na,0,3\n")
    with pytest.raises(
        SignalError, match=r"agent 'a' at time 0 has two readings, line 2 of meters.csv and line 5"
    ):
        as_signals(path)
    wide = pd.DataFrame([[1.0], [2.0], [3.0]], index=["a", "b", "a"])
    with pytest.raises(SignalError, match=r"agent 'a' has two readings, row 0 .* and row 2"):
        as_signals(wide)
    with pytest.raises(SignalError, match="agent 'a' has two readings"):
        as_signals(pd.Series([1.0, 2.0], index=["a", "a"]))


def test_missing_readings_are_an_error_by_default(tmp_path: Path) -> None:
    path = written(tmp_path, "meter,day,kwh\na,0,1\na,1,2\na,2,7\nb,0,\nb,2,5\n")
    with pytest.raises(SignalError) as caught:
        as_signals(path)
    message = str(caught.value)
    assert (
        "agent 'b' at time 0, line 5 of meters.csv is missing; in all 2 of 6 readings are"
        in message
    )
    assert "missing='drop-rounds' to keep the 1 time at" in message
    dropped = as_signals(path, missing="drop-rounds")
    assert dropped.times == (2,)
    assert dropped.notes == ("dropped 2 of 3 rounds with missing readings",)
    filled = as_signals(path, missing=0.5)
    np.testing.assert_array_equal(filled.values, [[1, 2, 7], [0.5, 0.5, 5]])
    assert filled.notes == (
        "filled 2 of 6 readings that were missing with the public constant 0.5",
    )


def test_rounds_are_not_offered_where_none_is_left() -> None:
    with pytest.raises(SignalError) as caught:
        as_signals(np.array([[np.nan], [3.0]]))
    assert "drop-rounds" not in str(caught.value)
    assert "; pass missing=0.0 (any public constant) to fill the gaps" in str(caught.value)


def test_nan_in_an_array_is_missing_too() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    with pytest.raises(SignalError, match="agent 0 at time 1 is missing"):
        as_signals(values)
    masked = np.ma.masked_invalid(values)
    assert as_signals(masked, missing=0).values[0, 1] == 0
    assert as_signals(values, missing="drop-rounds").rounds == 1
    with pytest.raises(SignalError, match="leaves nothing"):
        as_signals(np.array([[np.nan, 1.0], [3.0, np.nan]]), missing="drop-rounds")


def test_a_vector_reading_with_a_gap_is_filled_whole() -> None:
    values = np.ones((2, 1, 2))
    values[0, 0, 1] = np.nan
    assert as_signals(values, missing=3).values[0, 0].tolist() == [3, 3]


@pytest.mark.parametrize("policy", ["carry", "", True, np.inf, np.nan])
def test_policies_that_do_not_exist(policy: object) -> None:
    with pytest.raises(SignalError, match="missing must be"):
        as_signals([1.0], missing=policy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": [1, 2], "b": [1]}, r"agent 'b' has readings of shape \(1,\), agent 'a'"),
        ({"a": 1, "b": "s3cret"}, "readings of agent 'b' are not all numbers"),
        ([1, "s3cret"], "readings of agent 1 are not all numbers"),
        ([[1, 2], [1]], "agents have different numbers of readings"),
        ({}, "empty"),
        ({1, 2}, "cannot read signals from set"),
        (object(), "cannot read signals from object"),
        (np.ones((1, 1, 1, 1)), r"found \(1, 1, 1, 1\)"),
        (np.ones(2) * 1j, "cannot read signals from ndarray"),
        (5.0, r"found \(\)"),
        ("nowhere.csv", "there is no file 'nowhere.csv'"),
        (pd.Series([1.0], index=pd.MultiIndex.from_tuples([(1, 2, 3)])), "found 3 levels"),
    ],
)
def test_sources_that_are_wrong(source: object, message: str) -> None:
    with pytest.raises(SignalError, match=message) as caught:
        as_signals(source)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("meter,day,kwh\n", "no readings"),
        ("meter,day,kwh\na,0,1\nb,0,s3cret\n", "line 3 of meters.csv does not hold a number"),
        ("meter,day,kwh\na,0,1\nb,0,1,5\n", "line 3 has 4 fields, not 3"),
        ("meter,day,kwh\na,0,1,\nb,0,1,\n", "longer than its header says"),
        ("meter,day,kwh\na,0,1\n,0,1\n", "line 3 of meters.csv has no agent"),
        ("meter,day,kwh\na,0,1\nb,,1\n", "line 3 of meters.csv has no time"),
        ("meter;day;kwh\na;0;1\n", "separates its columns by semicolons: expected commas"),
        ("who,when,much\na,0,1\n", "which column names the agents"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SignalError, match=message) as caught:
        as_signals(written(tmp_path, text))
    assert "s3cret" not in str(caught.value)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    with pytest.raises(SignalError, match="neither CSV"):
        as_signals(written(tmp_path, "x", "meters.xlsx"))
    with pytest.raises(SignalError, match="not a Parquet file"):
        as_signals(written(tmp_path, "x", "meters.parquet"))
    (tmp_path / "latin.csv").write_bytes(b"meter,kwh\n\xe9,1\n")
    with pytest.raises(SignalError, match="not UTF-8"):
        as_signals(tmp_path / "latin.csv")
    tabbed = written(tmp_path, "meter\tkwh\na\t1\nb\t2\n", "meters.tsv")
    assert as_signals(tabbed).values.tolist() == [[1], [2]]


def test_labels_and_times_of_text(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffMeter,Date,kWh\n007,2024-01-02,1\n007,2024-01-01,2\n")
    signals = as_signals(path)
    assert signals.labels == ("007",)
    assert signals.times == ("2024-01-01", "2024-01-02")
    whole = as_signals(written(tmp_path, "meter,day,kwh\n7,10,1\n7,9,2\n"))
    assert (whole.labels, whole.times) == ((7,), (9, 10))
    words = as_signals(written(tmp_path, "meter,day,kwh\nNA,wed,1\nNA,thu,2\n"))
    assert (words.labels, words.times) == (("NA",), ("wed", "thu"))
    assert words.notes == ("times of meters.csv are in order of appearance",)


def test_wide_files(tmp_path: Path) -> None:
    path = written(tmp_path, "household,0,1,2\n7,1,2,3\n8,4,,6\n")
    with pytest.raises(SignalError, match=r"agent 8 at time 1, line 3 of meters.csv is missing"):
        as_signals(path)
    assert as_signals(path, missing="drop-rounds").times == (0, 2)
    frame = pd.DataFrame({"household": [7, 8], "h0": [1.0, 2.0], "h1": [3.0, 4.0]})
    frame.to_parquet(tmp_path / "wide.parquet")
    signals = as_signals(tmp_path / "wide.parquet")
    assert (signals.labels, signals.times) == ((7, 8), ("h0", "h1"))
    LONG.to_parquet(tmp_path / "long.parquet")
    assert as_signals(tmp_path / "long.parquet").values.tolist() == [[3, 4], [1, 2]]


def test_a_check_names_the_line_even_after_reordering(tmp_path: Path) -> None:
    path = written(tmp_path, "meter,day,kwh\na,0,1\na,1,2\nb,0,3\nb,1,0\n")
    signals = as_signals(path, labels=["b", "a"])
    with pytest.raises(SignalError, match=r"agent 'b' at time 1, line 5 of meters.csv is outside"):
        signals.check(f.LogNormal(1.0))


def test_times_that_agents_do_not_share_are_refused_before_memory_is_taken() -> None:
    n = 10_000
    frame = pd.DataFrame({"agent": np.arange(n), "time": np.arange(n), "value": 1.0})
    with pytest.raises(SignalError, match="agents must share their times"):
        as_signals(frame)


@pytest.mark.thorough
def test_two_million_rows_are_quick() -> None:
    n, T = 2000, 1000
    rng = np.random.default_rng(0)
    order = rng.permutation(n * T)
    values = rng.random((n, T))
    frame = pd.DataFrame(
        {"agent": order // T, "time": order % T, "value": values.reshape(-1)[order]}
    )
    start = time.perf_counter()
    signals = as_signals(frame, labels=range(n))
    assert time.perf_counter() - start < 10
    np.testing.assert_array_equal(signals.values, values)


@pytest.mark.thorough
def test_pandas_is_not_needed_for_arrays() -> None:
    code = (
        "import sys, numpy as np; from veilsum.signals import as_signals; "
        "as_signals(np.ones(3)); as_signals({'a': 1}); print('pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
