"""Pools of whole fleets, by the real `step`: sites that are late, lost, removed, re-keyed, split, many."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.fleet.answers import BoardAnswer
from veilsum.fleet.encoding import encode
from veilsum.fleet.membership import following
from veilsum.fleet.post import Kind
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release import Releases
from veilsum.fleet.step import PERSON, YES
from veilsum.fleet.store import MemoryStore

HOUR = 3600
START = NOW // HOUR * HOUR
HOURLY = mean("pool", schedule={"every": "1 h"})
TABLE = mean("pool")


def readings(hours: int = 200, each: int = 1) -> Any:
    def rows(_: str, k: int) -> dict[str, list[Any]]:
        at = [START + HOUR * i + j for i in range(hours) for j in range(each)]
        return {"at": at, "kwh": [10.0 + k % 20] * len(at)}

    return rows


def answered(fleet: SmallFleet, question: FleetQuestion, *names: str) -> BoardAnswer:
    """What all of these answer, to the bit."""
    found = {name: fleet.answer(name, question) for name in names or fleet.keys}
    first = next(iter(found.values()))
    assert first is not None
    assert all(one == first for one in found.values()), found
    return first


def away(fleet: SmallFleet, *gone: str) -> list[str]:
    return [name for name in fleet.keys if name not in gone]


def exact(found: BoardAnswer, question: FleetQuestion, each: int) -> None:
    """The answer is the sum of those whom it names, but for noise that comes once in 10^12."""
    truth = sum(
        encode(question, {"kwh": [10.0 + int(name[1:]) % 20] * each}).steps[0]
        for name in found.sites
    )
    (law,) = question.laws
    assert abs(found.steps[0] - truth) <= law.summed(found.draws).tail(1e-12)
    assert found.records == each * len(found.sites)


@pytest.mark.parametrize(
    "question",
    [TABLE, mean("pool", noise="gaussian", delta=1e-6), mean("pool", noise="skellam", delta=1e-6)],
    ids=["laplace", "gaussian", "skellam"],
)
def test_one_question_by_step(tmp_path: Path, question: FleetQuestion) -> None:
    fleet = SmallFleet(tmp_path, 4)
    fleet.ask(question)
    fleet.step()
    if question.delta:  # no policy approves that: a person does
        for name in away(fleet, "desk"):
            toml = fleet.folder / name / "site.toml"
            toml.write_text(toml.read_text().replace("[budget]\n", "[budget]\ndelta = 0.1\n"))
            with fleet.open(name) as site, site.file.transaction():
                site.file.decide(site.seat().fleet, question.digest, YES, "", PERSON, fleet.now)
    fleet.step()
    fleet.step()
    found = answered(fleet, question)
    assert (found.sites, found.missing, int(found.draws)) == (("s0", "s1", "s2", "s3"), (), 4)
    exact(found, question, each=50)


def test_a_site_that_is_an_hour_late(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 3, rows=readings())
    fleet.now = START + 10
    fleet.ask(HOURLY)
    fleet.step()
    for hour in range(1, 6):
        fleet.now = START + hour * HOUR + 120
        fleet.step(*(away(fleet, "s1") if hour < 5 else fleet.keys))
        if hour in (2, 4):
            fleet.step("s0", "s2")
            on_the_way = answered(fleet, HOURLY, "s0", "s2")
            assert (on_the_way.sites, on_the_way.missing) == (("s0", "s2"), ("s1",))
            assert on_the_way.latest == (START // HOUR + hour - 1, 2)
    fleet.step()
    found = answered(fleet, HOURLY)
    assert found.covers == "3 of 3 sites"
    slot = START // HOUR + 4
    assert found.latest == (slot, 3)
    assert found.records == 15, "five slots of three sites, those of s1 in one release"
    assert found.draws == 5 + 5 + 1


def test_a_site_that_is_lost_for_good_and_one_that_is_removed_and_readmitted(
    tmp_path: Path,
) -> None:
    fleet = SmallFleet(tmp_path, 4)
    fleet.ask(TABLE)
    fleet.step(*away(fleet, "s3"))
    fleet.step(*away(fleet, "s3"))
    found = answered(fleet, TABLE, *away(fleet, "s3"))
    assert (found.covers, found.missing) == ("3 of 4 sites", ("s3",))
    exact(found, TABLE, each=50)

    without = [replace(m, roles=()) if m.name == "s1" else m for m in fleet.membership.members]
    fleet.admit(following(fleet.membership, without))
    fleet.step(*away(fleet, "s3"))
    left = answered(fleet, TABLE, *away(fleet, "s3"))
    assert (left.sites, left.missing, left.records) == (("s0", "s2"), ("s3",), 100)

    again = [replace(m, roles=("site",)) if m.name == "s1" else m for m in without]
    fleet.admit(following(fleet.membership, again))
    fleet.step(*away(fleet, "s3"))
    fleet.step(*away(fleet, "s3"))
    assert answered(fleet, TABLE, *away(fleet, "s3")) == found, "and nothing was released twice"


class ForgetfulReleases(Releases):
    """The shipped class without rule 4: a new key begins again at slot 0."""

    def covered(self, topic: Any) -> int:
        return self.file.released(self.seat.fleet, topic)[2]


@pytest.mark.parametrize("question", [TABLE, HOURLY], ids=["table", "stream"])
def test_a_rekeyed_site_counts_once(tmp_path: Path, question: FleetQuestion) -> None:
    fleet = rekeyed(tmp_path, question)
    found = answered(fleet, question)
    assert found.sites == ("s0", "s1")
    assert not found.left_out
    assert found.records == (12 if question is HOURLY else 400), "its old register still counts"
    assert released(fleet, question) == (6 if question is HOURLY else 200)


@pytest.mark.parametrize("question", [TABLE, HOURLY], ids=["table", "stream"])
def test_without_rule_4_it_would_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: FleetQuestion
) -> None:
    monkeypatch.setattr("veilsum.fleet.step.SeatStep.made", ForgetfulReleases)
    fleet = rekeyed(tmp_path, question)
    assert released(fleet, question) > (6 if question is HOURLY else 200)
    if question is TABLE:
        assert "two of its keys" in answered(fleet, question).left_out["s0"], "and others see it"


def rekeyed(tmp_path: Path, question: FleetQuestion) -> SmallFleet:
    """Six hours, of which the site loses its folder after three; its new machine's clock is late at first."""
    fleet = SmallFleet(tmp_path, 2, rows=readings())
    fleet.now = START + 10
    fleet.ask(question)
    fleet.step()
    for hour in range(1, 7):
        if hour == 4:
            fleet.rekey("s0")
            fleet.now = START + HOUR + 120
            fleet.step("s0")
        fleet.now = START + hour * HOUR + 120
        fleet.step()
    fleet.step()
    return fleet


def released(fleet: SmallFleet, question: FleetQuestion) -> int:
    """Records that s0 has released under both keys."""
    board = fleet.board("s1")
    posts = board.opened(Kind.POOL, question.digest)
    return sum(
        posts[key].header.readings for key in board.membership.member("s0").keys if key in posts
    )


def test_two_partitions(tmp_path: Path) -> None:
    """Two stores, each of which a half of the sites reaches, and then one after all."""
    halves = [MemoryStore("memory"), MemoryStore("memory")]
    joined = [False]

    def store(name: str, _: str) -> MemoryStore:
        return halves[0 if joined[0] or name in ("desk", "s0", "s1", "s2") else 1]

    fleet = SmallFleet(tmp_path, 5, store=halves[0], stores=store)
    fleet.ask(TABLE)
    halves[1].objects.update(halves[0].objects)
    for _ in range(3):
        fleet.step()
    one = answered(fleet, TABLE, "desk", "s0", "s1", "s2")
    other = answered(fleet, TABLE, "s3", "s4")
    assert (one.sites, int(one.draws)) == (("s0", "s1", "s2"), 3)
    assert (other.sites, int(other.draws)) == (("s3", "s4"), 2)
    joined[0] = True
    for _ in range(3):
        fleet.step()
    found = answered(fleet, TABLE)
    assert found.covers == "5 of 5 sites"
    assert found.steps == (one.steps[0] + other.steps[0],)


def test_200_sites(tmp_path: Path) -> None:
    random = Random(3)
    fleet = SmallFleet(tmp_path, 200, rows=readings(hours=4))
    fleet.now = START + 10
    fleet.ask(HOURLY)
    fleet.step()
    names = list(fleet.keys)
    fleet.now = START + HOUR + 120
    random.shuffle(names)
    up = [name for name in names if random.random() < 0.7]
    fleet.step(*up)
    found = fleet.answer(up[-1], HOURLY)
    assert found is not None
    board = fleet.board(up[-1])
    for name in found.sites:
        key = board.membership.member(name).public
        assert any(t.kind.word == "pool" and key in r for t, r in board.registers.items())
    assert len(found.sites) + len(found.missing) == 200
    fleet.now = START + 2 * HOUR + 120
    fleet.step()
    fleet.step()
    found = answered(fleet, HOURLY)
    assert found.covers == "200 of 200 sites"
    assert found.records == 400
    assert found.latest == (START // HOUR + 1, 200)
    assert 200 <= found.draws <= Fraction(400)
    exact(found, HOURLY, each=2)
