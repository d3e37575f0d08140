"""Fleets over stores that fail: everyone ends with the same bits, and nothing is released twice."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.fleet.board_over_stores.synced import SyncedFolders
from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.errors import StoreBusyError, StoreDeniedError, StoreFullError
from veilsum.fleet.answers import BoardAnswer
from veilsum.fleet.membership import Witnesses
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.store import FolderStore, MemoryStore, StoreFaults

HOUR = 3600
START = NOW // HOUR * HOUR
HOURLY = mean("pool", schedule={"every": "1 h"})
ROWS: dict[str, list[float]] = {
    "at": [START + HOUR * hour + 5 for hour in range(200)],
    "kwh": [10.0] * 200,
}


def rows(_: str, k: int) -> dict[str, list[float]]:
    return {"at": ROWS["at"], "kwh": [10.0 + k] * 200}


def same(fleet: SmallFleet, question: FleetQuestion) -> BoardAnswer:
    """What everyone answers, to the bit."""
    found = [fleet.answer(name, question) for name in fleet.keys]
    assert found[0] is not None
    assert all(one == found[0] for one in found)
    digests = {fleet.board(name).digest for name in fleet.keys}
    assert len(digests) == 1, "and everyone holds the same set"
    return found[0]


FAULTS = {
    "30% fail": StoreFaults(before=0.15, after=0.15),
    "30% fail, half-written": StoreFaults(before=0.1, after=0.1, half=0.1),
    "denied and full at times": StoreFaults(denied=0.15, full=0.15),
    "late": StoreFaults(late=0.3, stale=0.2, lag=40),
    "again": StoreFaults(again=0.2, lag=60),
    "all of it": StoreFaults(0.05, 0.05, 0.05, 0.05, 0.05, 0.1, 0.05, 0.1, 30),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("faults", FAULTS)
def test_everyone_ends_with_the_same_bits(tmp_path: Path, faults: str, seed: int) -> None:
    random = Random(seed)
    store = MemoryStore("memory", {}, None, random)
    fleet = SmallFleet(tmp_path, 5, store=store, rows=rows)
    fleet.now = START + 10
    fleet.ask(HOURLY)
    fleet.step()  # all agree in the first hour, which is then their first slot
    store.faults = FAULTS[faults]
    for hour in range(1, 9):
        fleet.now = START + hour * HOUR + 120
        names = [name for name in fleet.keys if random.random() < 0.8]  # and one is an hour late
        fleet.step(*random.sample(names, len(names)))
        fleet.now += 900
        fleet.step(*(name for name in fleet.keys if random.random() < 0.5))
    assert sum(store.happened.values()) > 10
    store.faults = StoreFaults()
    store.settle()
    for _ in range(3):
        fleet.now += 60
        fleet.step()
    found = same(fleet, HOURLY)
    assert found.covers == "5 of 5 sites"
    assert found.latest == (START // HOUR + 7, 5)
    assert found.records == 40, "each reading once, and none is lost"


@pytest.mark.parametrize("kind", [StoreDeniedError, StoreFullError, StoreBusyError])
@pytest.mark.parametrize("whole", [True, False], ids=["no call", "no write"])
def test_a_store_that_is_shut_for_a_day(tmp_path: Path, kind: type, whole: bool) -> None:
    store = MemoryStore("memory")
    fleet = SmallFleet(tmp_path, 3, store=store, rows=rows)
    fleet.now = START + 10
    fleet.ask(HOURLY)
    fleet.step()
    for hour in range(1, 30):
        fleet.now = START + hour * HOUR + 120
        store.fails = kind if whole and 3 <= hour < 27 else None
        store.refuses = kind if not whole and 3 <= hour < 27 else None
        reports = fleet.step()
        shut = 3 <= hour < 27
        assert all(bool(one.problems) == shut for one in reports), (hour, reports)
        assert not any(one.traffic.withheld or one.traffic.rolled_back for one in reports)
    fleet.step()
    assert same(fleet, HOURLY).records == 3 * 29


def test_a_store_that_has_lost_everything_is_filled_again(tmp_path: Path) -> None:
    store = MemoryStore("memory")
    fleet = SmallFleet(tmp_path, 4, store=store)
    question = mean("pool")
    fleet.ask(question)
    for _ in range(3):
        fleet.step()
    before = same(fleet, question)
    membership = {name: data for name, data in store.objects.items() if "membership" in name}
    store.restore(membership)
    for _ in range(3):
        fleet.step()
    with fleet.open("s0") as site:
        site.file.db.execute("delete from objects")
        site.file.db.execute("delete from posts where kind != 1")
    fleet.step()
    assert same(fleet, question) == before


@pytest.mark.parametrize("count", [5, 20])
def test_a_folder(tmp_path: Path, count: int) -> None:
    (tmp_path / "board").mkdir()
    store = FolderStore(tmp_path / "board")
    fleet = SmallFleet(tmp_path / "sites", count, store=store)
    question = mean("pool")
    fleet.ask(question)
    (tmp_path / "board" / "post" / "notes.txt.part").write_bytes(b"half of something")
    (tmp_path / "board" / "desktop.ini").write_bytes(b"")
    random = Random(count)
    names = list(fleet.keys)
    for _ in range(4):
        fleet.step(*random.sample(names, len(names)))
    assert same(fleet, question).covers == f"{count} of {count} sites"
    left = list((tmp_path / "board").rglob("*.tmp"))
    assert left == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    fleet = SmallFleet(tmp_path / "sites", 2, store=FolderStore(tmp_path / "board"))
    fleet.ask(mean("pool"))
    (tmp_path / "board").chmod(0o555)
    try:
        (report,) = fleet.step("s0")
        assert any("rights" in text for text in report.problems)
    finally:
        (tmp_path / "board").chmod(0o755)


@pytest.mark.parametrize("seed", range(2))
def test_folders_that_another_program_keeps_in_step(tmp_path: Path, seed: int) -> None:
    """Each member has its own copy; files come late, in any order, and conflicts get other names."""
    names = ["desk", *(f"s{k}" for k in range(5))]
    synced = SyncedFolders(tmp_path / "copies", names, Random(seed))
    fleet = SmallFleet(
        tmp_path / "sites", names[1:], store=synced.store("desk"), rows=rows,
        stores=lambda name, _: synced.store(name),
        witnesses=Witnesses(("s1", "s2", "s3"), 2, 0),
    )  # fmt: skip
    fleet.now = START + 10
    fleet.ask(HOURLY)
    random = Random(seed)
    said: list[str] = []
    for hour in range(1, 5):
        for minute in range(2, 60, 15):
            fleet.now = START + hour * HOUR + 60 * minute
            for name in random.sample(names, len(names)):
                if random.random() < 0.7:
                    for report in fleet.step(name):
                        said += report.traffic.withheld + report.traffic.rolled_back
                synced.copy(chance=0.5)
        synced.disturb()
    for _ in range(6):
        fleet.now += 60
        fleet.step()
        synced.copy(chance=1.0)
    fleet.step()
    found = same(fleet, HOURLY)
    assert found.covers == "5 of 5 sites"
    assert found.latest[0] >= START // HOUR + 3
    assert synced.conflicts > 0
    assert said == []
    assert not any(fleet.board(name).forks for name in names)


def test_a_witness_that_stays_away_holds_nobody_up_if_one_may(tmp_path: Path) -> None:
    """Of five witnesses that are sites, too, each has four others: three must hold, one may be silent."""
    witnesses = Witnesses(("s1", "s2", "s3", "s4", "s5"), 4, 1)
    fleet = SmallFleet(tmp_path, 6, rows=rows, witnesses=witnesses)
    fleet.now = START + 10
    fleet.ask(HOURLY)
    up = [name for name in fleet.keys if name != "s5"]
    fleet.step(*up)
    for hour in range(1, 4):
        fleet.now = START + hour * HOUR + 120
        for _ in range(3):
            fleet.step(*up)
    found = fleet.answer("desk", HOURLY)
    assert found is not None
    assert found.missing == ("s5",)
    assert (found.records, found.latest) == (15, (START // HOUR + 2, 5))
