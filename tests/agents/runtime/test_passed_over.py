"""What was passed over is never released: after restarts and crashes, from sources that repeat."""

import sqlite3
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.runtime.test_batches_run import DEVICE, Broker, Run, entries
from tests.agents.runtime.test_node import problem
from tests.agents.runtime.test_schedule import Sites, TimedReadings, hourly
from tests.agents.runtime.test_slots import HOUR, NOON, SetClocks
from veilsum.agents.ledger import Ledger, ReadingOrigin
from veilsum.agents.ledger.records import OriginHasher
from veilsum.agents.readings import CsvReadings
from veilsum.agents.readings.sql import SqlReadings
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime.scheduler import ReadingScheduler
from veilsum.agents.runtime.spool import NO_SLOT, MemorySpool, SpooledReading
from veilsum.agents.runtime.spool_file import FileSpool
from veilsum.privacy import Batches, SignalDP
from veilsum.privacy.accounting import Budget

KEYS = tuple(f"h{number}" for number in range(1, 7))


def write(path: Any, cells: Any) -> None:
    rows = "".join(f"{key},{value}\n" for key, value in cells.items())
    path.write_text(f"hour,load\n{rows}")


def csv(folder: Any) -> Any:
    path = folder / "0.csv"
    if not path.exists():
        write(path, {key: 1 + place for place, key in enumerate(KEYS)})
    return lambda: CsvReadings(path, "load", key="hour")


def sql(folder: Any) -> Any:
    path = folder / "0.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS loads (hour TEXT PRIMARY KEY, load REAL)")
    rows = [(key, 1.0 + place) for place, key in enumerate(KEYS)]
    db.executemany("INSERT OR IGNORE INTO loads VALUES (?, ?)", rows)
    db.commit()
    db.close()
    return lambda: SqlReadings(f"sqlite:///{path}", "hour", "load", table="loads", interval=0.02)


def start(folder: Any, source: Any, seen: int, *, budget: float = 1.0, made: Any = None,
          **more: Any) -> Run:  # fmt: skip
    """Run until agent 0 has taken so many readings, known ones included; then stop."""
    made = made or problem("learn", SignalDP(1.0), 30)
    mechanism = more.pop("mechanism", ReleaseMechanism)
    readings = [source, [1.0] * 30, [1.0] * 30]
    run = Run(folder, readings, made, Budget(budget), mechanism=mechanism, **more)
    counts = run.node.agents["0"].counts
    return run.finish(lambda: counts.taken + counts.repeated >= seen, 20.0)


def released(folder: Any, keys: Any = KEYS) -> list[str]:
    """The keys of agent 0 that were released."""
    hasher = OriginHasher(DEVICE, "0")
    found = {origin for entry in entries(folder) for origin in entry.origins}
    return [key for key in keys if hasher.hash(ReadingOrigin(key, keyed=True), 0) in found]


@pytest.mark.parametrize("source", [csv, sql])
def test_a_budget_per_window_holds_over_restarts(tmp_path: Any, source: Any) -> None:
    """Three consecutive readings used to be released against a budget for one."""
    for again in range(3):
        run = start(tmp_path, source(tmp_path), len(KEYS), unit="window", window=3)
        counts = run.node.agents["0"].counts
        assert (counts.passed_over, counts.repeated) == ((0, 6) if again else (4, 0))
        assert released(tmp_path) == ["h1", "h4"]
        assert [entry.last for entry in entries(tmp_path)] == [1, 4]


def test_the_test_sees_a_ledger_that_stores_positions_only(tmp_path: Any, monkeypatch: Any) -> None:
    usual = Ledger.pass_over
    monkeypatch.setattr(Ledger, "pass_over", lambda self, reading, _=(): usual(self, reading))
    for _ in range(2):
        start(tmp_path, csv(tmp_path), len(KEYS), unit="window", window=3)
    assert len(released(tmp_path)) > 2


def test_a_budget_that_was_refilled_covers_new_readings_only(tmp_path: Any) -> None:
    clocks = SetClocks(NOON)
    more: Any = {"per": "day", "clock": clocks.clocks}
    start(tmp_path, csv(tmp_path), len(KEYS), **more)
    assert released(tmp_path) == ["h1"]
    clocks.pass_(25 * HOUR)
    start(tmp_path, csv(tmp_path), len(KEYS), **more)
    assert released(tmp_path) == ["h1"]
    with (tmp_path / "0.csv").open("a") as file:
        file.write("new,5\n")
    start(tmp_path, csv(tmp_path), len(KEYS) + 1, **more)
    assert released(tmp_path, [*KEYS, "new"]) == ["h1", "new"]
    assert [entry.last for entry in entries(tmp_path)] == [1, 7]


def test_it_is_on_the_disk_before_the_source_is_acknowledged(tmp_path: Any) -> None:
    seen = []

    class Checks(Broker):
        def acknowledge(self) -> None:
            super().acknowledge()
            db = sqlite3.connect(tmp_path / "0.ledger")
            counts = [db.execute(f"SELECT count(*) FROM {t}") for t in ("releases", "passed")]
            seen.append(tuple(count.fetchone()[0] for count in counts))
            db.close()

    start(tmp_path, Checks(range(1, 5)), 4, unit="window", window=3)
    assert seen == [(1, 0), (1, 1), (1, 2), (2, 2)]


def test_a_repeated_reading_that_was_passed_over_gets_no_second_number(tmp_path: Any) -> None:
    source = Broker([1, 2, 2, 2, 2, 2, 3, 2, 1, 4])
    run = start(tmp_path, source, 10, unit="window", window=3)
    assert [entry.last for entry in entries(tmp_path)] == [1, 4]
    assert released(tmp_path, "1234") == ["1", "4"]
    assert run.node.agents["0"].counts.repeated == 6


@pytest.mark.parametrize("bad", ["broken", "nan"])
def test_unusable_readings_do_not_move_the_numbers_and_may_be_corrected(
    tmp_path: Any, bad: str
) -> None:
    """Each start used to give two more numbers to the same two rows, and so to widen a window."""
    cells: dict[str, Any] = {"h1": 1, "h2": bad, "h3": bad}
    for more in range(4, 8):
        write(tmp_path / "0.csv", cells)
        start(tmp_path, csv(tmp_path), len(cells), unit="window", window=3)
        cells[f"h{more}"] = 5
    assert [entry.last for entry in entries(tmp_path)] == [1, 4]
    assert released(tmp_path) == ["h1", "h6"]  # the first and the fourth that were usable
    write(tmp_path / "0.csv", cells | {"h2": 2, "h3": 3})
    for _ in range(2):
        start(tmp_path, csv(tmp_path), 7, unit="window", window=3)
        lasts = [entry.last for entry in entries(tmp_path)]
        assert all(after - before >= 3 for before, after in pairwise(lasts))
        assert len(released(tmp_path, list(cells))) == len(lasts) == 3


def surplus(count: int = 3) -> list[Any]:
    """So many readings in the first slot, and none later."""
    return [(NOON + 70 + place, 5.0) for place in range(count)]


@pytest.mark.parametrize("keyed", [False, True])
def test_surplus_of_a_slot_is_not_released_in_a_later_one(
    tmp_path: Any, monkeypatch: Any, keyed: bool
) -> None:
    if not keyed:
        monkeypatch.setattr(TimedReadings, "keyed", False)
        skip = lambda self, count, _: setattr(self, "place", count)  # noqa: E731
        monkeypatch.setattr(TimedReadings, "skip", skip)
    first = Sites(tmp_path, [surplus(), hourly(), hourly()])
    first.node.start()
    first.run(0.5)
    assert (first.numbers("0"), first.counts("0").passed_over) == ([1], 2)
    first.node.close()
    first.clocks.pass_(2 * HOUR)
    again = Sites(tmp_path, [surplus(), hourly(), hourly()], clocks=first.clocks)
    again.node.start()
    again.run(2)
    assert again.numbers("0") == [1], "the backlog of a pause is not what was surplus before it"
    assert again.counts("0").repeated == 3 * keyed
    again.node.close()


def test_what_is_passed_over_beyond_an_open_batch_in_memory_does_not_skip_the_batch() -> None:
    """A restart loses that batch: its source is to return it, under the numbers that it had."""
    spool = MemorySpool()
    agent: Any = SimpleNamespace(spool=spool, passed=7)
    assert ReadingScheduler._settled(agent) == 7
    spool.append(SpooledReading(4, 5, NO_SLOT, "", (1.0,)))
    spool.append(SpooledReading(5, 6, NO_SLOT, "", (1.0,)))
    assert ReadingScheduler._settled(agent) == 4
    spool.durable = True
    assert ReadingScheduler._settled(agent) == 7


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_batch_that_was_passed_over_stays_so(
    tmp_path: Any, monkeypatch: Any, keyed: bool, crash: bool
) -> None:
    """Even if the agent is killed between the ledger and the spool."""
    clocks, path = SetClocks(NOON), tmp_path / "0.csv"
    more: Any = {"per": "day", "clock": clocks.clocks, "made": in_batches(), "budget": 2.0}
    cells = dict.fromkeys(KEYS, 5)
    write(path, cells)

    def source() -> Any:
        return CsvReadings(path, "load", key="hour" if keyed else None)

    if crash:
        monkeypatch.setattr(FileSpool, "clear", fails_without_budget(FileSpool.clear))
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path, source, len(KEYS), **more)
        monkeypatch.undo()
    else:
        start(tmp_path, source, len(KEYS), **more)
    assert [entry.last for entry in entries(tmp_path)] == [1, 2]
    clocks.pass_(25 * HOUR)  # a batch of two is covered again
    write(path, cells | {"h7": 5, "h8": 5})
    start(tmp_path, source, 8 if keyed else 4 if crash else 2, **more)
    assert [entry.last for entry in entries(tmp_path)] == [1, 2, 6 if crash else 8]


def in_batches() -> Any:
    return problem("learn", SignalDP(1.0, batches=Batches(2.0, 2)), 30)


def fails_without_budget(usual: Any) -> Any:
    """Empty the spool after a release only."""

    def clear(self: Any, after: int) -> None:
        if after == self._mark.after:
            raise KeyboardInterrupt
        usual(self, after)

    return clear
