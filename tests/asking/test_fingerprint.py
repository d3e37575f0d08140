"""Rows are known again whatever their order and format, and by nobody without the secret."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilsum.asking import fingerprint as module
from veilsum.asking.fingerprint import Fingerprinter, mix
from veilsum.asking.tables import ArrayTable, open_table

SECRET = bytes(range(32))
OF = Fingerprinter(SECRET)
cells = st.one_of(
    st.none(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=6), st.booleans()
)
rows = st.lists(st.tuples(cells, cells), min_size=1, max_size=12)


def table(these: Sequence[tuple[Any, ...]], names: str = "xy") -> ArrayTable:
    columns = {}
    for k, name in enumerate(names):
        columns[name] = np.empty(len(these), dtype=object)
        columns[name][:] = [row[k] for row in these]
    return ArrayTable(columns)


@given(rows, st.randoms(use_true_random=False))
def test_order_of_rows_and_columns_does_not_matter(these: list[Any], random: Any) -> None:
    mixed = list(these)
    random.shuffle(mixed)
    swapped = table([(b, a) for a, b in mixed], "yx")
    assert OF.of(table(these)) == OF.of(table(mixed)) == OF.of(swapped)


@given(rows)
def test_duplicates_count(these: list[Any]) -> None:
    assert OF.of(table(these)) != OF.of(table([*these, these[0]]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(1, 2), (3, 4)], [(1, 4), (3, 2)]),  # values exchanged between rows
        ([(1, 2)], [(2, 1)]),  # and between columns
        ([(1, 2), (1, 2)], [(1, 2)]),
        ([(0, 0)], [(0, None)]),
        ([("007", 1)], [("7", 1)]),
        ([(10**18, 1)], [(10**18 + 1, 1)]),  # one float
        ([("a", "")], [("", "a")]),
        ([("", 1)], [("0", 1)]),
        ([(0.1, 1)], [(float(np.float32(0.1)), 1)]),
    ],
)
def test_other_rows_have_another_fingerprint(one: Any, other: Any) -> None:
    assert OF.of(table(one)) != OF.of(table(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (3, "3.0"), (3.0, " 3 "), (0.0, "-0.0"), (None, ""), (None, float("nan")), (True, "true"),
        (1e18, "1e18"), (10**18, "1000000000000000000"), (float("inf"), "inf"),
        ("2024-01-01T10:00:00", "2024-01-01 10:00:00.000"), ("2024-01-01 00:00:00", "2024-01-01"),
    ],
)  # fmt: skip
def test_the_same_value_written_otherwise(one: Any, other: Any) -> None:
    assert OF.of(table([(one, 1)])) == OF.of(table([(other, 1)]))
    assert OF.of(table([(one, 1), ("text", 1)])) == OF.of(table([("text", 1), (other, 1)]))


@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(-(10**17), 10**17)), min_size=1))
def test_numbers_in_bulk_are_those_one_by_one(values: list[Any]) -> None:
    texts = np.array([None if v is None else str(v) for v in values], dtype=object)
    assert OF._bits(texts).tolist() == [OF._of_one(v) for v in texts.tolist()]


def test_types_of_arrays_do_not_matter() -> None:
    numbers = [3, 1, 2]
    arrays: list[NDArray[Any]] = [
        np.array(numbers, dtype=kind) for kind in ("i1", "u8", "f4", "f8", "U3", "O")
    ]
    assert len({OF.of(ArrayTable({"x": one})) for one in arrays}) == 1
    days = np.array(["2024-01-01", "2024-05-02", "NaT"], dtype="M8[D]")
    texts = np.array(["2024-01-01", "2024-05-02", None], dtype=object)
    assert len({OF.of(ArrayTable({"x": x})) for x in (days, days.astype("M8[ns]"), texts)}) == 1


def test_a_csv_and_the_same_values_in_parquet(tmp_path: Path) -> None:
    """Through Arrow, as columns of types: numbers, text with gaps, truth values, days."""
    arrow = pytest.importorskip("pyarrow")
    csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.csv"
    path.write_text(
        "n,x,t,b,d\n1,0.25,north,true,2024-01-01\n2,,south,false,2024-05-02\n3,1e-7,,true,\n"
    )
    read = csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    assert read.schema.field("d").type == arrow.date32()
    parquet.write_table(read, tmp_path / "a.parquet")
    columns = {
        name: np.array(values.to_pylist(), dtype=object)
        for name, values in zip(
            read.column_names, parquet.read_table(tmp_path / "a.parquet").columns, strict=True
        )
    }
    assert OF.of(open_table(path)) == OF.of(ArrayTable(columns))


def test_without_the_secret_a_guess_cannot_be_checked() -> None:
    guess = table([(1, "north")])
    assert OF.of(guess) != Fingerprinter(bytes(32)).of(guess)
    assert OF.key != Fingerprinter(bytes(32)).key


def test_a_weakened_twin_without_a_key_is_found_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fingerprinter, "__init__", unkeyed(Fingerprinter.__init__))
    guess = table([(1, "north")])
    assert Fingerprinter(SECRET).of(guess) == Fingerprinter(bytes(32)).of(guess)


def unkeyed(made: Any) -> Any:
    return lambda self, secret: made(self, bytes(len(secret)))


def test_a_weakened_twin_that_depends_on_the_order_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def places(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.asarray(mix(x) * np.arange(1, len(x) + 1, dtype=np.uint64), dtype=np.uint64)

    monkeypatch.setattr(module, "mix", places)
    assert OF.of(table([(1, 2), (3, 4)])) != OF.of(table([(3, 4), (1, 2)]))


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    many = ArrayTable({"x": np.arange(1000.0), "y": np.arange(1000) % 7})
    whole = OF.of(many)
    monkeypatch.setattr(module, "CHUNK", 64)
    monkeypatch.setattr("veilsum.asking.tables.ROWS", 100)
    assert OF.of(many) == whole


def test_mix_is_the_finaliser_of_splitmix64() -> None:
    """Its first output of seed 0 (the state is the golden gamma), from the published generator."""
    state = np.array([0x9E3779B97F4A7C15], dtype=np.uint64)
    assert int(mix(state)[0]) == 0xE220A8397B1DCDAF
