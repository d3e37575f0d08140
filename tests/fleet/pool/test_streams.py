"""Streams by the real `step`: slots, zones, clocks, catching up, skipped slots, batches, budgets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.errors import StoreBusyError
from veilsum.fleet.answers import BoardAnswer
from veilsum.fleet.post import Header, Kind, Topic
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release import Releases
from veilsum.fleet.store import MemoryStore

HOUR, DAY = 3600, 86_400
START = NOW // DAY * DAY
TOLERANCE = 60


def asked(epsilon: float = 1.0, **more: Any) -> FleetQuestion:
    return mean(
        "pool", epsilon=epsilon, schedule={"every": "1 h"} | more.pop("schedule", {}), **more
    )


class Meter:
    """One site with a stream, and what it has released, slot by slot."""

    def __init__(
        self, folder: Path, at: Sequence[int], question: FleetQuestion, **more: Any
    ) -> None:
        self.question, self.store = question, MemoryStore()
        rows: dict[str, list[Any]] = {"at": list(at), "kwh": [10.0] * len(at)}
        self.fleet = SmallFleet(folder, 1, rows=lambda *_: rows, store=self.store, **more)
        self.fleet.now = START + 10
        self.fleet.ask(question)
        self.fleet.step("s0")
        self.said: list[str] = []

    def at(self, now: int) -> Header | None:
        """The newest header after a step at that time."""
        self.fleet.now = now
        (report,) = self.fleet.step("s0")
        self.said = report.waiting + report.problems
        return self.header

    @property
    def header(self) -> Header | None:
        held = self.fleet.board("s0").register(
            Topic(Kind.POOL, self.question.digest), self.fleet.keys["s0"]
        )
        found: Header | None = held.header
        return found

    def covers(self, now: int) -> tuple[int, int, int] | None:
        """First and last slot of the newest release, from START, and the readings so far."""
        found = self.at(now)
        first = self.question.timetable.slot_at(START + 10) if self.question.timetable else 0
        if found is None:
            return None
        return found.first - first, found.last - first, found.readings

    def answer(self) -> BoardAnswer | None:
        return self.fleet.answer("s0", self.question)


def hours(count: int, but: Sequence[int] = (), each: int = 1) -> list[int]:
    return [START + HOUR * i + 5 + j for i in range(count) if i not in but for j in range(each)]


def test_a_slot_is_released_once_its_tolerance_is_over(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(5), asked())
    assert meter.covers(START + HOUR + TOLERANCE - 1) is None
    assert meter.covers(START + HOUR + TOLERANCE) == (0, 0, 1)
    for now in (START + HOUR + TOLERANCE, START + HOUR + 200, START + 2 * HOUR + TOLERANCE - 1):
        assert meter.covers(now) == (0, 0, 1), "once"
    assert meter.covers(START + 2 * HOUR + TOLERANCE) == (1, 1, 2)


def test_a_stated_tolerance_and_a_clock_that_goes_back(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(5), asked(schedule={"tolerance": 600}))
    assert meter.covers(START + HOUR + 599) is None
    assert meter.covers(START + HOUR + 600) == (0, 0, 1)
    assert meter.covers(START + 30) == (0, 0, 1), "a clock that was put back releases nothing again"
    assert meter.covers(START + 2 * HOUR + 600) == (1, 1, 2)


def test_one_release_catches_up_after_downtime(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(40, each=3), asked())
    assert meter.covers(START + 30 * HOUR + 100) == (0, 29, 90)
    found = meter.answer()
    assert found is not None
    assert (int(found.draws), found.records) == (1, 90)


def test_catching_up_takes_no_more_than_the_records_of_a_release(tmp_path: Path) -> None:
    """Others would leave it out by name: so many records are none of one honest release."""
    meter = Meter(tmp_path, hours(40, each=3), asked(most_records=50))
    expected = [(0, 15, 48), (16, 29, 90)]
    assert [meter.covers(START + 30 * HOUR + 100) for _ in range(2)] == expected
    found = meter.answer()
    assert found is not None
    assert (found.sites, int(found.draws), found.covers) == (("s0",), 2, "1 of 1 sites")


def test_a_slot_without_readings_is_skipped_once_the_next_is_over(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(6, but=[1, 2]), asked())
    assert meter.covers(START + HOUR + 100) == (0, 0, 1)
    assert meter.covers(START + 2 * HOUR + 100) == (0, 0, 1), "they may still come"
    assert meter.covers(START + 3 * HOUR + 100) == (0, 0, 1)
    assert meter.covers(START + 4 * HOUR + 100) == (1, 3, 2), (
        "one release, three slots, one reading"
    )


def test_late_readings_of_the_newest_slot_are_waited_for(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(1), asked())
    meter.covers(START + HOUR + 100)
    assert meter.covers(START + 2 * HOUR + 100) == (0, 0, 1)
    source = meter.fleet.sources["s0"]
    meter.fleet.sources["s0"] = type(source)({"at": hours(2), "kwh": [10.0] * 2})
    assert meter.covers(START + 2 * HOUR + 200) == (1, 1, 2)


@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_a_source_that_is_silent_for_months_goes_on(tmp_path: Path, growth: float) -> None:
    """More slots without readings than are looked through at once, or a whole batch of them."""
    silent = range(1, 2500)
    at = [one for one in hours(2600) if (one - START) // HOUR not in silent]
    meter = Meter(tmp_path, at, asked(schedule={"growth": growth, "longest": 24}))
    assert meter.covers(START + HOUR + 100) == (0, 0, 1)
    assert meter.covers(START + 2400 * HOUR + 100) == (0, 0, 1)
    found = meter.covers(START + 2600 * HOUR + 100)
    assert found is not None
    assert found[0] == 1
    assert found[1] >= 2500


def test_growing_batches(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(40), asked(schedule={"growth": 2.0, "longest": 8}))
    found = [meter.covers(START + hour * HOUR + 100) for hour in range(1, 33)]
    ends = [one and one[1] for one in found]
    assert [hour for hour, end in enumerate(ends) if end == hour] == [0, 1, 3, 7, 15, 23, 31]
    assert found[-1] == (24, 31, 32)


def test_a_late_step_releases_one_batch_at_a_time(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(40), asked(schedule={"growth": 2.0}))
    found = [meter.covers(START + 17 * HOUR + 100) for _ in range(6)]
    assert found == [(0, 0, 1), (1, 1, 2), (2, 3, 4), (4, 7, 8), (8, 15, 16), (8, 15, 16)]


@pytest.mark.parametrize(
    ("date", "length"), [("2027-03-28", 23), ("2027-10-31", 25), ("2027-06-01", 24)]
)
def test_days_of_a_zone(tmp_path: Path, date: str, length: int) -> None:
    zone = ZoneInfo("Europe/Zurich")
    midnight = int(datetime.fromisoformat(date).replace(tzinfo=zone).timestamp())
    at = [midnight + HOUR * hour for hour in range(-24, 60)]
    question = mean("pool", schedule={"every": "1 day", "zone": "Europe/Zurich"})
    meter = Meter(tmp_path, at, question)
    meter.fleet.now = midnight + 10
    times = question.timetable
    assert times is not None
    day = times.slot_at(midnight)
    found = [meter.at(midnight + hours * HOUR + TOLERANCE) for hours in (length - 1, length)]
    assert found[1] is not None
    assert found[1].last == day
    before = 0 if found[0] is None else found[0].readings
    assert found[1].readings - before == length, "readings of one day"
    assert datetime.fromtimestamp(midnight, UTC).hour in (22, 23)


# ---- backpressure


def test_a_release_that_has_not_left_blocks_the_next_and_nothing_is_lost(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(40), asked())
    meter.covers(START + HOUR + 100)
    meter.store.refuses = StoreBusyError
    for hour in range(2, 8):
        meter.fleet.now = START + hour * HOUR + 100
        meter.fleet.step("s0")
        assert waiting(meter) == [(1, 1)], "one is drawn, and waits"
    assert any("nothing is lost" in text for text in meter.fleet.step("s0")[0].problems)
    meter.store.refuses = None
    meter.covers(START + 8 * HOUR + 100)
    found = meter.answer()
    assert found is not None
    assert waiting(meter) == []
    assert found.records == 8
    assert found.draws == 3


def waiting(meter: Meter) -> list[tuple[int, int]]:
    first = START // HOUR
    with meter.fleet.open("s0") as site:
        posts = site.file.outbox(site.seat().fleet)
    return [(post.header.first - first, post.header.last - first) for post in posts]


# ---- budgets


@pytest.mark.parametrize(
    ("per", "slots", "refilled"),
    [
        ("reading", 40, None), ("window 6 hours", 2, 8), ("stream", 2, None), ("day", 2, 24),
    ],
)  # fmt: skip
def test_the_budget_runs_out_in_the_middle_and_goes_on_by_itself(
    tmp_path: Path, per: str, slots: int, refilled: int | None
) -> None:
    """epsilon 2 for releases of 1: two slots are covered, and those after the refill."""
    meter = Meter(tmp_path, hours(80), asked(), epsilon=2.0, per=per)
    said: dict[int, str] = {}
    ends = {}
    for hour in range(1, 41):
        found = meter.covers(START + hour * HOUR + 100)
        ends[hour] = 0 if found is None else found[2]
        said[hour] = " ".join(meter.said)
    if per == "reading":
        assert ends[40] == 40
        assert not any(said.values())
        return
    assert (ends[2], ends[3]) == (slots, slots)
    assert "the budget of data is epsilon 2 per" in said[3]
    assert "nothing was charged or released" in said[3]
    if refilled is None:
        assert ends[40] == slots
        assert "it refills never" in said[40]
    else:
        assert "it refills at 2027-01-" in said[3]
        assert ends[40] > slots, "by itself"
    with meter.fleet.open("s0") as site:
        assert site.ledger.verify() >= slots
        assert site.ledger.spent("data").epsilon <= 2.0 + 1e-9


def test_two_questions_on_one_stream_add_up(tmp_path: Path) -> None:
    meter = Meter(tmp_path, hours(20), asked(), epsilon=2.5, per="reading")
    other = asked(epsilon=1.0, label="another")
    meter.fleet.ask(other)
    third = asked(epsilon=1.0, label="a third")
    meter.fleet.ask(third)
    meter.fleet.step("s0")
    for hour in range(1, 5):
        meter.at(START + hour * HOUR + 100)
    answers = [meter.fleet.answer("s0", one) for one in (meter.question, other, third)]
    assert sorted(0 if one is None else one.records for one in answers) == [0, 4, 4]
    with meter.fleet.open("s0") as site:
        assert site.ledger.spent("data").epsilon == pytest.approx(2.0)


class OneQuestionAtATime(Releases):
    """The shipped class minus the sum: each question is charged as if it were alone."""

    def charge(self, draft: Any) -> None:
        if draft.spending is not None:
            from dataclasses import replace

            self.ledger.charge(replace(draft.spending, source=draft.spending.what))


def test_questions_that_are_not_added_up_overspend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veilsum.fleet.step.SeatStep.made", OneQuestionAtATime)
    meter = Meter(tmp_path, hours(20), asked(), epsilon=2.5, per="reading")
    questions = [meter.question, *(asked(label=label) for label in ("b", "c"))]
    for one in questions[1:]:
        meter.fleet.ask(one)
    for hour in range(1, 4):
        meter.at(START + hour * HOUR + 100)
    assert all((meter.fleet.answer("s0", one) or None) is not None for one in questions)


def test_two_fleets_have_one_ledger(tmp_path: Path) -> None:
    """The same readings on two boards: what one has cost, the other cannot spend."""
    stores = {"memory": MemoryStore("memory"), "memory:south": MemoryStore("memory:south")}
    rows: dict[str, list[Any]] = {"at": hours(20), "kwh": [10.0] * 20}
    north = SmallFleet(
        tmp_path, 1, rows=lambda *_: rows, store=stores["memory"], epsilon=1.5,
        stores=lambda _, address: stores["memory:south" if "south" in address else "memory"],
    )  # fmt: skip
    toml = tmp_path / "s0" / "site.toml"
    fleet = '[[fleet]]\naddress = "memory"'
    text = toml.read_text()
    from veilsum.fleet.membership import ASKER, Member, Membership, Witnesses
    from veilsum.fleet.post import public, short

    key = Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32))))
    south = Membership(
        "south", public(key).hex(), 1,
        (Member("desk", north.keys["desk"].hex(), (ASKER,)), Member("s0", north.keys["s0"].hex())),
        Witnesses(), ("memory:south",), {},
    ).signed(key)  # fmt: skip
    assert south.post is not None
    stores["memory:south"].put(
        f"post/{short(south.post.header.key)}/{south.post.header.topic.name}", south.post.data
    )
    more = f'[[fleet]]\naddress = "memory:south"\nauthority = "{public(key).hex()}"\n'
    for name in ("desk", "s0"):
        toml = tmp_path / name / "site.toml"
        text = toml.read_text()
        toml.write_text(text.replace(fleet, more + fleet, 1))
    north.now = START + 10
    question = asked()
    for address in ("memory", "memory:south"):
        with north.open("desk") as site:
            seat = site.seat(next(a for a in site.seats if ("south" in a) == ("south" in address)))
            seat.read()
            seat.publish(Kind.QUESTION, question.digest, question.canonical(), north.now)
            seat.write(north.now)
    north.step("s0")
    said = []
    for hour in range(1, 4):
        north.now = START + hour * HOUR + 100
        reports = north.step("s0")
        said += [text for report in reports for text in report.waiting]
    assert any("the budget of data" in text for text in said)
    with north.open("s0") as site:
        assert site.ledger.spent("data").epsilon == pytest.approx(1.0)
        topics = [
            seat.board.register(Topic(Kind.POOL, question.digest), site.public).header
            for seat in site.seats.values()
        ]
    assert sum(header is not None for header in topics) == 1, "each reading is on one of two boards"
