"""The status of a fleet: what is said is so, and who is like the others has no line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.fleet import status_of
from veilsum.fleet.attention import few, length
from veilsum.fleet.membership import Witnesses
from veilsum.fleet.post import Header, Kind, Topic, sealed
from veilsum.fleet.status import FleetStatus, Trouble
from veilsum.fleet.status_of import fleet_status, look
from veilsum.fleet.store import MemoryStore

HOUR = 3600
HOURS = {"every": "1 h"}


def hourly(name: str, k: int) -> Mapping[str, Sequence[Any]]:
    """A day of readings, every ten minutes."""
    del name
    start = NOW - NOW % HOUR
    return {"kwh": [10.0 + k] * 144, "at": [start + 600 * j for j in range(144)]}


def seen_by(fleet: SmallFleet, name: str, now: int = 0, **more: bool) -> FleetStatus:
    with fleet.open(name) as site:
        return look(site, site.seat(), now or fleet.now, **more)


def streaming(folder: Path, sites: int = 5, steps: int = 4, **more: Any) -> SmallFleet:
    fleet = SmallFleet(folder, sites, rows=hourly, per="year", **more)
    fleet.ask(mean("pool", schedule=HOURS))
    for _ in range(steps):
        fleet.step()
        fleet.now += HOUR
    fleet.step()
    return fleet


def kinds(status: FleetStatus) -> list[tuple[str, str]]:
    return [(one.who, one.kind) for one in status.attention]


@pytest.fixture
def fleet(tmp_path: Path) -> SmallFleet:
    return streaming(tmp_path)


def test_a_fleet_that_is_well_has_no_line(fleet: SmallFleet) -> None:
    status = seen_by(fleet, "desk")
    (question,) = status.questions
    assert (question.covers, question.stage, question.late) == ("5 of 5 sites", "", 0)
    assert (status.fleet, status.epoch, status.member) == ("north", 1, "desk")
    assert status.authority == fleet.membership.founder
    assert status.attention == ()
    assert [one.name for one in status.sites] == ["s0", "s1", "s2", "s3", "s4"]
    assert all(one.age == 0 and one.heard for one in status.members)


def test_numbers_are_those_of_the_board(fleet: SmallFleet) -> None:
    """The mean of 10, ..., 14 is within the interval; the newest slot has fewer readings: a wider one."""
    (question,) = seen_by(fleet, "s0").questions
    found, latest = question.answer, question.latest
    assert found is not None
    assert latest is not None
    assert latest.end - latest.start == HOUR
    assert latest.sites == 5
    assert latest.end <= fleet.now
    widths = []
    for one in (found, latest.found[0]):
        (value,), (low,), (high,) = one.values, one.low, one.high
        assert value is not None
        assert low is not None
        assert high is not None
        assert low <= value <= high
        widths.append(high - low)
    assert widths[0] < widths[1]


def test_sites_that_are_not_like_the_others_are_named(fleet: SmallFleet) -> None:
    """s4 is lost, s3 is away for a slot."""
    for k in range(5):
        fleet.now += HOUR
        fleet.step("desk", "s0", "s1", "s2", *(["s3"] if k < 4 else []))
    status = seen_by(fleet, "desk")
    assert ("s4", "silent") in kinds(status)
    assert ("s3", "behind") in kinds(status)
    (silent,) = [one for one in status.attention if one.kind == "silent"]
    assert silent.what == "silent for 5 h"
    assert {name for name, _ in kinds(status)} == {"s3", "s4"}


def test_a_site_that_never_came_and_a_clock_that_is_ahead(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 3, rows=hourly)
    fleet.step("desk", "s0")
    fleet.now += 600
    fleet.step("s1")
    status = seen_by(fleet, "desk", fleet.now - 600)
    assert kinds(status) == [("s1", "clock"), ("s2", "absent")]
    assert "10 min ahead" in status.attention[0].what
    assert not kinds(seen_by(fleet, "desk", fleet.now - 30))[1:]


def forked(fleet: SmallFleet, member: str) -> Header:
    """Another header of a member's newest release."""
    with fleet.open(member) as site:
        seat = site.seat()
        topic = next(t for t in seat.board.registers if t.kind is Kind.POOL)
        own = seat.board.register(topic, seat.public).header
        assert own is not None
        return replace(own, readings=own.readings + 1).signed(site.file.key)


def test_a_fork_is_shown_with_its_name(fleet: SmallFleet) -> None:
    other = forked(fleet, "s1")
    with fleet.open("desk") as site:
        seat = site.seat()
        seat.read()
        seat.board.take_header(other)
        status = fleet_status(site, seat, fleet.now)
    assert ("s1", "forked") in kinds(status)
    assert f"number {other.number} of {other.topic.name}" in status.attention[0].what


def test_a_liar_is_left_out_by_name(fleet: SmallFleet) -> None:
    question = mean("pool", schedule=HOURS)
    with fleet.open("s2") as site:
        seat = site.seat()
        topic, salt = Topic(Kind.POOL, question.digest), bytes(16)
        body = json.dumps([[1 << 61], [], 1]).encode()
        header = Header(
            Kind.POOL, question.digest, seat.public, 99, 1, 600_000, 1, 1, 1.0, sealed(salt, body)
        )
        name = fleet.object("s2", topic.kind, topic.terms)
        signed = header.signed(site.file.key).data + salt + body
    fleet.store.put(name, len(signed).to_bytes(4, "big") + signed)
    status = seen_by(fleet, "desk")
    assert ("s2", "left-out") in kinds(status)
    assert status.questions[0].covers == "4 of 5 sites"
    assert status.questions[0].left_out.keys() == {"s2"}


def test_a_key_that_was_replaced(fleet: SmallFleet) -> None:
    fleet.rekey("s1")
    fleet.step("s1")
    fleet.step()
    view = next(one for one in seen_by(fleet, "desk").members if one.name == "s1")
    assert view.rekeyed == 1
    assert view.epsilon == pytest.approx(3.0)  # of the key before


def test_own_budget_and_until_when_it_lasts(fleet: SmallFleet) -> None:
    """Six readings a release at epsilon 1, of which 100 may be spent in a year: 16 slots and no more."""
    (budget,) = seen_by(fleet, "s0").budgets
    assert (budget.limit, budget.per) == (100.0, "year")
    released = round(budget.spent / 6)
    assert released >= 3
    assert budget.until is not None
    remaining = (budget.until - fleet.now) / HOUR
    assert abs(remaining - (16 - released)) <= 1
    assert ("this site", "budget") in kinds(seen_by(fleet, "s0"))
    for _ in range(20):
        fleet.now += HOUR
        reports = fleet.step("s0")
    assert any("budget" in text for report in reports for text in report.waiting)
    with fleet.open("s0") as site:
        ended = site.file.rows("select max(until) from charges")[0][0]
    assert abs(ended - budget.until) <= HOUR


def test_looking_ahead_charges_nothing(fleet: SmallFleet) -> None:
    with fleet.open("s0") as site:
        before = site.file.rows("select count(*), max(head) from charges")
        look(site, site.seat(), fleet.now)
        assert site.file.rows("select count(*), max(head) from charges") == before
        site.ledger.verify()


def test_a_release_that_waits_says_for_whom(tmp_path: Path) -> None:
    fleet = SmallFleet(
        tmp_path, 3, rows=hourly, witnesses=Witnesses(("s0", "s1"), 2, 0), store=MemoryStore()
    )
    fleet.ask(mean("pool"))
    fleet.step("s2")
    status = seen_by(fleet, "s2")
    (waiting,) = status.outbox
    assert waiting.waits_for == "0 of 2 witnesses; s0, s1 still to come"
    assert status.witnesses == "2 of 2: s0, s1"
    fleet.step("s0")
    assert seen_by(fleet, "s2").outbox[0].waits_for == "1 of 2 witnesses; s1 still to come"
    fleet.step("s1", "s2", "s0", "s1", "s2")
    assert seen_by(fleet, "s2").outbox == ()


def test_a_store_that_goes_back_or_withholds_is_named(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 3, rows=hourly)
    fleet.ask(mean("pool"))
    fleet.step()
    question = mean("pool")
    name = fleet.object("s1", Kind.POOL, question.digest)
    fleet.step()
    fleet.store.remove(name)
    with fleet.open("desk") as site:  # whose copy is lost, and who reads everything anew
        for table in ("posts", "objects", "seen"):
            site.file.db.execute(f"delete from {table}")
    assert ("a store", "withheld") not in kinds(seen_by(fleet, "desk"))  # it may be on its way
    status = seen_by(fleet, "desk", fleet.now + 601)
    found = [one for one in status.attention if one.kind == "withheld"]
    assert found
    assert "of s1" in found[0].what


def test_a_site_that_is_not_admitted_shows_its_line(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2)
    key = fleet.joined("newcomer")
    status = seen_by(fleet, "newcomer")
    (trouble,) = [one for one in status.troubles if one.kind == "not-admitted"]
    assert f"newcomer {key.hex()}" in trouble.remedy
    assert status.member == ""


def test_a_question_that_waits_for_this_site(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2, policy="")
    fleet.ask(mean("pool"))
    fleet.step()
    status = seen_by(fleet, "s0")
    assert ("this site", "inbox") in kinds(status)
    assert status.questions[0].stage == "waits for s0, s1"


def test_a_key_that_stays_open(fleet: SmallFleet) -> None:
    """While a query goes on it is nothing to look at; after a week it is."""
    fleet.ask(mean("secure-sum", deadline=fleet.now + HOUR))
    fleet.step()
    (key,) = seen_by(fleet, "s0").open_keys
    assert (fleet.folder / "s0" / key.name).is_file()
    for days, shown in ((1, False), (8, True)):
        os.utime(fleet.folder / "s0" / key.name, (0, fleet.now - days * 86_400))
        assert (("this site", "open-keys") in kinds(seen_by(fleet, "s0"))) is shown


def test_the_stages_of_a_secure_sum(tmp_path: Path) -> None:
    """Whom it waits for, until it is answered; then the same number on all boards."""
    fleet = SmallFleet(tmp_path, 5)
    fleet.ask(mean("secure-sum", deadline=NOW + HOUR))
    stages = []
    for _ in range(8):
        (question,) = seen_by(fleet, "desk").questions
        stages.append(question.stage)
        if not question.stage:
            break
        fleet.step()
    assert stages[0] == "waits for a yes or no of s0, s1, s2, s3, s4"
    assert stages[-1] == ""
    assert question.covers == "5 of 5 sites"
    assert question.answer is not None
    (value,), (low,), (high,) = question.answer.values, question.answer.low, question.answer.high
    assert value is not None
    assert low is not None
    assert high is not None
    assert low <= value <= high
    fleet.step()
    assert seen_by(fleet, "s3").questions[0].found == question.found


def test_a_stopped_site_says_why(fleet: SmallFleet) -> None:
    with fleet.open("s0") as site:
        with site.file.transaction():
            site.file.set("stopped", b"a copy goes on")
        status = look(site, site.seat(), fleet.now)
    assert status.stopped == "a copy goes on"
    assert kinds(status)[0] == ("this site", "stopped")


def with_silent_s5(folder: Path) -> SmallFleet:
    fleet = streaming(folder, sites=6, steps=1)
    seen_by(fleet, "desk")
    for _ in range(3):
        fleet.now += HOUR
        fleet.step("s0", "s1", "s2", "s3", "s4")
    return fleet


def test_lists_that_were_not_read_make_nobody_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large fleet a look reads some lists; that others have changed is known by their versions."""
    fleet = with_silent_s5(tmp_path)
    monkeypatch.setattr(status_of, "QUICK", 2)
    status = seen_by(fleet, "desk")
    assert sum(one.age is None for one in status.sites) == 3
    assert ("s5", "silent") in kinds(status)
    assert not [one for one in kinds(status) if one[1] == "silent" and one[0] != "s5"]
    everything = seen_by(fleet, "desk", everything=True)
    assert all(one.age is not None for one in everything.sites)


def test_without_the_versions_sites_that_write_would_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant of the test before."""
    fleet = with_silent_s5(tmp_path)
    monkeypatch.setattr(status_of, "QUICK", 4)
    with fleet.open("desk") as site:
        seat = site.seat()
        seat.read(sample=4)
        found = kinds(fleet_status(site, seat, fleet.now))
    assert [name for name, kind in found if kind == "silent" and name != "s5"]


def test_names_of_many_sites_are_one_line(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 12)
    fleet.step("desk")
    (line,) = seen_by(fleet, "desk").attention
    assert line.who == "12 sites"
    assert line.what == "never heard here: s0, s1, s2, s3, s4 and 7 more"


def test_every_field_is_in_the_json(fleet: SmallFleet) -> None:
    """A new field is a place in the model, one where it is filled, and one where it is shown."""
    status = seen_by(fleet, "s0")
    found = json.loads(json.dumps(status.to_dict(), allow_nan=False))

    def same(model: Any, data: Any) -> None:
        if isinstance(model, tuple):
            for one, other in zip(model, data, strict=True):
                same(one, other)
        elif is_dataclass(model):
            for one in fields(model):
                same(getattr(model, one.name), data[one.name])

    same(status, found)
    assert found["questions"][0]["covers"] == "5 of 5 sites"


def test_no_reading_and_no_key_is_in_it(fleet: SmallFleet) -> None:
    text = json.dumps(seen_by(fleet, "s0").to_dict())
    with fleet.open("s0") as site:
        secrets = [site.file.get("key") or b"", site.file.get("seed") or b""]
    assert not any(secret.hex() in text for secret in secrets)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(20, "20 s"), (600, "10 min"), (4800, "1 h 20 min"), (3600, "1 h"), (3 * 86_400, "3 days")],
)
def test_lengths_of_time(seconds: int, said: str) -> None:
    assert length(seconds) == said


def test_few_names() -> None:
    assert few("abc") == "a, b, c"
    assert few("abcdefgh") == "a, b, c, d, e and 3 more"


def test_silence_is_relative_to_the_others(fleet: SmallFleet) -> None:
    """Weaker: with a patience of its own for each site, a fleet that steps once a day would be silent."""
    fleet.now += 20 * HOUR
    status = seen_by(fleet, "desk")
    assert not [one for one in status.attention if one.kind == "silent"]
    assert ("mean of kwh", "late") in kinds(status)
    assert isinstance(status.attention[0], Trouble)
