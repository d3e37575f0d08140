"""fleet check: each thing that can be wrong is found, named and has a remedy; all else is ok."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.fleets import SmallFleet, mean
from tests.fleet.status.test_status import HOUR, forked, hourly, streaming
from veilsum.errors import StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.check import FleetCheck, check_site
from veilsum.fleet.membership import Witnesses
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.site import Site
from veilsum.fleet.store import MemoryStore, OverwritingMemoryStore, PlainMemoryStore
from veilsum.front.of_fleet import check_lines


def checked(fleet: SmallFleet, name: str, now: int = 0) -> list[FleetCheck]:
    def opened(folder: Path) -> Site:
        return fleet.open(name, folder)

    return check_site(fleet.folder / name, now or fleet.now, opened)


def wrong(found: list[FleetCheck]) -> list[tuple[str, str]]:
    return [(one.what, one.found) for one in found if not one.ok]


@pytest.fixture
def fleet(tmp_path: Path) -> SmallFleet:
    return streaming(tmp_path, sites=3, steps=2, epsilon=10_000.0)


def test_all_is_well(fleet: SmallFleet) -> None:
    found = checked(fleet, "s0")
    assert wrong(found) == []
    said = {one.what: one.found for one in found}
    assert said["budget of data"] == "enough for the next 24 slots"
    assert said["[data]"] == "opens; columns kwh, at"
    assert "epoch 1, this site is s0" in said["north"]
    assert said["clock"] == "no member is more than 60 s ahead of it"
    assert not fleet.store.names("probe")
    assert check_lines(found, 80)[-1] == f"{len(found)} checks: all is well."


def test_site_toml_that_does_not_read(fleet: SmallFleet) -> None:
    file = fleet.folder / "s0" / "site.toml"
    file.write_text(file.read_text().replace("epsilon", "epsilom"))
    ((what, found),) = wrong(checked(fleet, "s0"))
    assert what.endswith("site.toml")
    assert 'did you mean "epsilon"' in found


def test_rights_of_files(fleet: SmallFleet) -> None:
    (fleet.folder / "s0" / "site.db").chmod(0o644)
    assert ("site.db", "others may read it (644)") in wrong(checked(fleet, "s0"))


class Denying(MemoryStore):
    """A store that shows, and takes nothing."""

    error: type[StoreError] = StoreDeniedError

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        raise self._error(self.error, f"put {name}, {len(data)} bytes, new {new}", "403")


class Full(Denying):
    error = StoreFullError


class Stale(MemoryStore):
    """Behind a cache that shows the first content of a name for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.cached: dict[str, bytes | None] = {}

    def get(self, name: str) -> bytes | None:
        return self.cached.setdefault(name, super().get(name))


class Coarse(MemoryStore):
    """Versions that are times in seconds."""

    def names(self, prefix: str) -> dict[str, str]:
        return dict.fromkeys(super().names(prefix), "12:00:00")


@pytest.mark.parametrize(
    ("store", "found", "remedy"),
    [(Denying, "403", "check the rights"), (Full, "403", "make room"),
     (Stale, "does not show what was just written", "cache"),
     (Coarse, "one version", "ETags"),
     (OverwritingMemoryStore, "a second put of one name was granted", "name members"),
     (PlainMemoryStore, "it has no put-if-absent", "name members")],
)  # fmt: skip
def test_what_stores_do_wrong(
    tmp_path: Path, store: Callable[[], MemoryStore], found: str, remedy: str
) -> None:
    fleet = SmallFleet(tmp_path, 2, store=MemoryStore())
    other = store()
    for name in fleet.store.names(""):
        MemoryStore.put(other, name, fleet.store.get(name) or b"")
    fleet.store = other
    lines = [one for one in checked(fleet, "s0") if not one.ok]
    assert any(found in one.found and remedy in one.remedy for one in lines), lines
    assert not MemoryStore.names(other, "probe")


def test_members_witness_where_the_store_cannot(tmp_path: Path) -> None:
    fleet = SmallFleet(
        tmp_path, 2, store=OverwritingMemoryStore(), witnesses=Witnesses(("s0", "s1"), 2)
    )
    found = checked(fleet, "s0")
    assert wrong(found) == []
    assert FleetCheck("witnesses", True, "2 of 2 members: s0, s1") in found


def test_a_clock_that_is_behind_all_others_is_this_one(fleet: SmallFleet) -> None:
    (line,) = [one for one in checked(fleet, "s0", fleet.now - 600) if one.what == "clock"]
    assert not line.ok
    assert line.found == "desk, s1, s2 are up to 10 min ahead of it"
    assert line.remedy == "set this clock by NTP"


def test_a_column_that_a_question_asks_for(fleet: SmallFleet) -> None:
    asked = Worded("mean", ("watts",), {"--between": [["0", "40"]]})
    fleet.ask(FleetQuestion(asks=(asked,), epsilon=1.0, protocol="pool"))
    assert ("[data]", "has no column watts, which mean of watts asks for") in wrong(
        checked(fleet, "s0")
    )


def test_a_budget_that_ends_soon(tmp_path: Path) -> None:
    fleet = streaming(tmp_path, sites=2, steps=3, epsilon=60.0)
    ((what, found),) = wrong(checked(fleet, "s0"))
    assert what == "budget of data"
    slots = int(found.split()[-2])
    done = sum(
        "released" in text
        for _ in range(12)
        for report in _later(fleet).step("s0")
        for text in report.done
    )
    assert done == slots


def _later(fleet: SmallFleet) -> SmallFleet:
    fleet.now += HOUR
    return fleet


def test_a_fork(fleet: SmallFleet) -> None:
    other = forked(fleet, "s1")
    with fleet.open("s0") as site:
        seat = site.seat()
        seat.read()
        seat.board.take_header(other)
        with site.file.transaction():
            site.file.save(seat.fleet, seat.board)
    lines = [one for one in checked(fleet, "s0") if not one.ok]
    assert [one.what for one in lines] == ["s1"]
    assert "admit s1 with a new key" in lines[0].remedy


def test_two_memberships_of_one_number(fleet: SmallFleet) -> None:
    fleet.admit(replace(fleet.membership, clock=61, post=None))
    assert ("the authority", "signed two memberships of one number (up to 1)") in wrong(
        checked(fleet, "s0")
    )


def test_a_damaged_ledger(fleet: SmallFleet) -> None:
    with fleet.open("s0") as site:
        site.file.db.execute("update charges set readings = 1 where n = 1")
    names = [what for what, _ in wrong(checked(fleet, "s0"))]
    assert "ledger" in names


def test_a_site_that_is_not_admitted(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2, rows=hourly)
    fleet.joined("newcomer")
    assert ("this site", "is not admitted") in wrong(checked(fleet, "newcomer"))


def test_nothing_is_released_by_a_check(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2, rows=hourly)
    fleet.ask(mean("pool"))
    before = fleet.store.names("")
    checked(fleet, "s0")
    assert fleet.store.names("") == before
