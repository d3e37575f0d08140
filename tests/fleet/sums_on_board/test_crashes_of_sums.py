"""Killed at every durable step, lost, restored from every earlier copy: a right sum, or none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.safety.watching import Crash, SavedFleet
from tests.fleet.sums_on_board.around import (
    DEADLINE,
    SumFleet,
    answers_left,
    asked,
    lying_roster,
    opened_sums,
)
from veilsum.fleet import keeper_key, sums
from veilsum.fleet.keeper_key import key_file, made_key, read_secret
from veilsum.fleet.post import Kind

Patch = pytest.MonkeyPatch
STEPS = {
    "s0 makes its Key": (0, "s0"),
    "the desk asks": (1, "desk"),
    "s0 deals": (1, "s0"),
    "the desk names the roster": (2, "desk"),
    "s0 answers": (2, "s0"),
}


def until(fleet: SumFleet, question: Any, rounds: int, member: str) -> SavedFleet:
    """The state before a member's step in a round."""
    fleet.ask(question)
    fleet.rounds(rounds)
    for name in fleet.keys:
        if name == member:
            break
        fleet.go(name)
    return fleet.keep()


@pytest.mark.parametrize("what", STEPS)
def test_killed_at_every_moment(what: str, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = SumFleet(tmp_path / "fleet", 5, monkeypatch)
    question = asked()
    rounds, member = STEPS[what]
    saved = until(fleet, question, rounds, member)
    moment = 0
    while True:
        saved.restore()
        fleet.again()
        if not fleet.interrupted(member, moment):
            break
        fleet.rounds(5 - rounds)
        for name in ("desk", "s0", "s3"):
            answer = fleet.read(question, name)
            assert answer is not None, moment
            assert answer.steps == fleet.exact(question), moment
        assert fleet.key_files() == [], moment
        assert {fleet.spent(name) for name in fleet.names} == {1.0}, moment
        for kind in (Kind.DEAL, Kind.ANSWER):
            assert len(fleet.left(kind)) == 5, moment
        fleet.clean()
        moment += 1
    assert moment > 10


@pytest.mark.parametrize("data", [b"", b"half a key"], ids=["empty", "half"])
def test_a_key_file_that_was_not_finished(data: bytes, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    with fleet.open("s0") as site:
        place = key_file(site.folder, site.seat().fleet, question.digest)
    place.write_bytes(data)
    assert read_secret(place) is None
    fleet.rounds(4)
    answer = fleet.read(question)
    assert answer is not None
    assert answer.steps == fleet.exact(question)
    assert len(fleet.left(Kind.ANSWER)) == 5
    assert fleet.key_files() == []


def test_a_key_is_made_once(tmp_path: Path) -> None:
    place = tmp_path / "keeper-a-b.key"
    assert made_key(place) == made_key(place) == place.read_bytes()
    keeper_key.erase(place)
    keeper_key.erase(place)
    assert not place.exists()


def test_killed_between_the_answer_and_the_erasing(tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    lying_roster(fleet, question, fleet.names)

    def killed(_: Path) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(sums, "erase", killed)
        with pytest.raises(Crash):
            fleet.go("s0")
    assert len(fleet.key_files()) == 5
    lying_roster(fleet, question, fleet.names[1:], 2)
    fleet.go("s0")
    assert len(fleet.key_files()) == 4
    (post,) = fleet.left(Kind.ANSWER, "s0")
    query = fleet.query(question, "s0").query
    assert post.body[:32] == lying_roster(fleet, question, fleet.names, 3).digest
    assert query.point["s0"] == 1


def copies(fleet: SumFleet, place: Path, member: str, question: Any, patch: Patch) -> list[Path]:
    """The folder of a member at every moment of a whole sum."""
    found: list[Path] = []

    def copied(_: str) -> None:
        if not fleet.moments.quiet:
            found.append(place / str(len(found)))
            shutil.copytree(fleet.folder / member, found[-1])

    fleet.ask(question)
    patch.setattr(fleet.moments, "pass_by", copied)
    for at in range(3):
        fleet.go(*[name for name in fleet.keys if name != member])
        if at == 2:
            lying_roster(fleet, question, fleet.names)
        fleet.moments.quiet = False
        fleet.go(member)
        fleet.moments.quiet = True
    return found


@pytest.mark.parametrize("key", [True, False], ids=["with its key", "without its key"])
def test_restored_from_every_earlier_copy(key: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """A second roster stands there when the copy wakes up."""
    fleet = SumFleet(tmp_path / "fleet", 5, monkeypatch)
    question = asked()
    kept = copies(fleet, tmp_path / "copies", "s0", question, monkeypatch)
    fleet.rounds(1, *fleet.names)
    answer = fleet.read(question, "s1")
    assert answer is not None
    lying_roster(fleet, question, fleet.names[1:], 2)
    saved = fleet.keep()
    first = {post.body for post in fleet.left(Kind.ANSWER, "s0")}
    dealt = {post.body for post in fleet.left(Kind.DEAL, "s0")}
    assert len(first) == len(dealt) == 1
    for one in kept[:: 1 if key else 3]:
        saved.restore()
        fleet.again()
        shutil.rmtree(fleet.folder / "s0")
        shutil.copytree(one, fleet.folder / "s0")
        if not key:
            for file in (fleet.folder / "s0").glob("keeper-*"):
                file.unlink()
        fleet.rounds(3, *fleet.names)
        fleet.clean()
        assert {post.body for post in fleet.left(Kind.ANSWER, "s0")} == first, one.name
        assert {post.body for post in fleet.left(Kind.DEAL, "s0")} == dealt, one.name
        answer = fleet.read(question, "s1")
        query = fleet.query(question, "s1").query
        assert len(opened_sums(query, answers_left(fleet))) == 1
    assert len(kept) > 40


@pytest.mark.parametrize("lost", [1, 2])
def test_keepers_that_are_lost_for_good(lost: int, tmp_path: Path, monkeypatch: Patch) -> None:
    """One of five may be lost after all have dealt; with two lost there is no sum, and nobody hangs."""
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    names = ["desk", *fleet.names[lost:]]
    for name in fleet.names[:lost]:
        shutil.rmtree(fleet.folder / name)
    fleet.now = DEADLINE + 1
    fleet.rounds(3, *names)
    answer = fleet.read(question)
    if lost == 1:
        assert answer is not None
        assert answer.steps == fleet.exact(question)  # the Deals of the lost one are there
    else:
        assert answer is None
        assert fleet.stage(question) == "3 of 4 answers; waits for s0, s1"
    assert len(fleet.key_files()) == 0
