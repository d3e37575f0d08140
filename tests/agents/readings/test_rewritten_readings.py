"""A source that changes between two starts of an agent: no reading is ever released twice."""

from typing import Any

import pytest

from tests.agents.runtime.test_node import problem
from veilsum.agents.config_tables import ReadingsTable
from veilsum.agents.ledger import Ledger, read_ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.readings import SourceState
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import CommandReadings, CsvReadings, IterableReadings, Log, Node
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.errors import AgentError, LedgerError, SignalError
from veilsum.privacy.accounting import Budget

HEAD = "time,kwh\n"
ROWS = ["1,2.5\n", "2,3.5\n", "3,3.5\n"]


def started(
    folder: Any, sources: Any, rounds: Any = 8, log: Any = None, seconds: Any = 20.0
) -> Any:
    """Run an online estimate of three agents to its end; agent 0 reads a file."""
    made = problem("learn", rounds=rounds)
    manifest = Manifest.of(made, "rewritten")
    options = Options(deadline=0.15, resend=0.03, tick=0.01)
    node = Node(
        manifest, MemoryNetwork().transport(), options=options, log=log or Log(level="error")
    )
    try:
        for label, source in zip("012", sources, strict=True):
            path = folder / f"{label}.ledger"
            ledger = Ledger.open(path, manifest, label, Budget(100.0), device=b"d" * 32)
            node.add(label, ledger, ReleaseMechanism(manifest, made, label), source)
        node.start()
        node.run(lambda: node.agents["0"].last_reading >= WANTED[0] or node.all_done, seconds)
    finally:
        node.close()
    return read_ledger(folder / "0.ledger").entries


WANTED = [0]


def read(folder: Any, rows: Any, wanted: Any, key: Any = None) -> Any:
    """Start the agents with a file of these rows until so many were taken; what was released."""
    path = folder / "readings.csv"
    path.write_text(HEAD + "".join(rows))
    WANTED[0] = wanted
    sources = [
        CsvReadings(path, "kwh", key=key),
        IterableReadings([5.0] * 8),
        IterableReadings([5.0] * 8),
    ]
    return started(folder, sources)


def test_rows_that_are_added_are_released_and_the_others_are_not_drawn_again(tmp_path: Any) -> None:
    first = read(tmp_path, ROWS, 3)
    assert [entry.reading for entry in first] == [1, 2, 3]
    later = read(tmp_path, [*ROWS, "4,4.5\n"], 4)
    assert later[:3] == first
    assert [entry.reading for entry in later] == [1, 2, 3, 4]


REWRITTEN = {
    "changed in place": ["1,2.5\n", "2,9.75\n", "3,3.5\n", "4,4.5\n"],
    "inserted before": ["0,9.75\n", *ROWS],
    "another order": [ROWS[2], ROWS[0], ROWS[1], "4,4.5\n"],
    "one taken out": [ROWS[0], ROWS[2], "4,4.5\n", "5,4.5\n"],
    "fewer of equal rows": ["1,2.5\n", "2,3.5\n"],
}


@pytest.mark.parametrize("rows", REWRITTEN.values(), ids=REWRITTEN)
def test_a_file_that_was_rewritten_is_refused_before_anything_is_released(
    tmp_path: Any, rows: Any
) -> None:
    """Rows that had moved used to be released again, with new noise, under their new numbers."""
    first = read(tmp_path, ROWS, 3)
    with pytest.raises(SignalError, match="give the agent the") as caught:
        read(tmp_path, rows, 4)
    assert "9.75" not in str(caught.value)
    assert read_ledger(tmp_path / "0.ledger").entries == first


def test_equal_rows_that_are_added_are_new_readings(tmp_path: Any) -> None:
    first = read(tmp_path, ["7,1.5\n"] * 2, 2)
    later = read(tmp_path, ["7,1.5\n"] * 4, 4)
    assert later[:2] == first
    assert len({entry.origins for entry in later}) == 4


def test_with_a_key_rows_may_move_and_only_new_ones_are_released(tmp_path: Any) -> None:
    first = read(tmp_path, ROWS, 3, key="time")
    rows = ["9,4.5\n", ROWS[2], "2,777.25\n"]  # a new one first; one changed, one taken out
    later = read(tmp_path, rows, 4, key="time")
    assert later[:3] == first
    assert [entry.reading for entry in later] == [1, 2, 3, 4]


def test_a_key_twice_in_a_file_is_one_reading(tmp_path: Any) -> None:
    found = read(tmp_path, [*ROWS, "3,8.5\n", "4,4.5\n"], 4, key="time")
    assert [entry.reading for entry in found] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("before", "after"), [(None, "time"), ("time", ["time", "kwh"]), ("time", None)]
)
def test_a_key_that_changes_is_refused(tmp_path: Any, before: Any, after: Any) -> None:
    """Under other names every reading was new: all were released a second time, unseen."""
    first = read(tmp_path, ROWS, 3, key=before)
    with pytest.raises(LedgerError, match="identifies readings by"):
        read(tmp_path, ROWS, 3, key=after)
    assert read_ledger(tmp_path / "0.ledger").entries == first


def test_the_order_of_key_columns_does_not_matter(tmp_path: Any) -> None:
    first = read(tmp_path, ROWS, 3, key=["time", "kwh"])
    assert read(tmp_path, [*ROWS, "4,4.5\n"], 4, key=["kwh", "time"])[:3] == first


def others() -> Any:
    return [IterableReadings([5.0] * 8) for _ in range(2)]


def test_values_from_python_are_bound_too(tmp_path: Any) -> None:
    WANTED[0] = 3
    first = started(
        tmp_path,
        [
            IterableReadings([1.0, 2.0, 3.0]),
            IterableReadings([5.0] * 8),
            IterableReadings([5.0] * 8),
        ],
    )
    assert len(first) == 3
    WANTED[0] = 4
    with pytest.raises(SignalError, match="reading 2 of agent 0 is not the one"):
        started(
            tmp_path,
            [
                IterableReadings([1.0, 9.75, 3.0, 4.0]),
                IterableReadings([5.0] * 8),
                IterableReadings([5.0] * 8),
            ],
        )
    with pytest.raises(SignalError, match="there are 2 readings and 3 were"):
        started(
            tmp_path,
            [
                IterableReadings([1.0, 2.0]),
                IterableReadings([5.0] * 8),
                IterableReadings([5.0] * 8),
            ],
        )


def lines_of(source: Any, count: Any) -> Any:
    found: list[Any] = []
    while len(found) < count:
        value = source.next()
        if value is not SourceState.WAITING:
            found.append((value, source.origin))
    return found


def test_the_first_value_of_a_commands_line_may_be_its_key() -> None:
    source = CommandReadings(["printf", "a, 1.5\\nb, 2, 3\\n"], keyed=True)
    (one, first), (two, second) = lines_of(source, 2)
    assert (one, two) == (1.5, (2.0, 3.0))
    assert (first.text, second.text, first.keyed) == ("a", "b", True)
    source.close()
    plain = CommandReadings(["printf", "1.5\\n"])
    assert lines_of(plain, 1) == [(1.5, None)]
    plain.close()
    short = CommandReadings(["printf", "a\\n"], keyed=True)
    with pytest.raises(SignalError, match="a key and no value"):
        lines_of(short, 1)
    short.close()


def test_a_file_that_is_cut_or_replaced_while_it_is_followed_ends_the_agent(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text(HEAD + "".join(ROWS))
    source = CsvReadings(path, "kwh")
    assert source.next() == 2.5
    path.write_text(HEAD)
    with pytest.raises(AgentError, match="was truncated while it was followed"):
        drained(source)
    source.close()
    path.write_text(HEAD + ROWS[0])
    source = CsvReadings(path, "kwh")
    assert source.next() == 2.5
    assert source.next() is SourceState.WAITING
    other = tmp_path / "other.csv"
    other.write_text(HEAD + "".join(ROWS))
    other.rename(path)
    with pytest.raises(AgentError, match="was replaced by another file"):
        drained(source)
    source.close()


def drained(source: Any) -> None:
    while source.next() is not SourceState.WAITING:
        pass


def test_a_key_must_be_a_column_and_for_commands_the_first(tmp_path: Any) -> None:
    path = tmp_path / "readings.csv"
    path.write_text(HEAD)
    with pytest.raises(AgentError, match="no column stamp"):
        CsvReadings(path, "kwh", key="stamp")
    ReadingsTable(command=["x"], key="first")
    with pytest.raises(ValueError, match="the first value of each line"):
        ReadingsTable(command=["x"], key="time")
