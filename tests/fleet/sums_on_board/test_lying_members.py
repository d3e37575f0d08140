"""Members that lie: the asker, sites, keepers; a store that shows what it likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fleet.sums_on_board.around import (
    DAY,
    DEADLINE,
    Liar,
    SumFleet,
    asked,
    lying_query,
    lying_roster,
    parts_of,
)
from veilsum.fleet import sum_posts, sums
from veilsum.fleet.answers import questions_on
from veilsum.fleet.board import Board
from veilsum.fleet.membership import following
from veilsum.fleet.post import HEADER, Kind
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.secure_sum.answer import KeeperAnswer, answer
from veilsum.fleet.secure_sum.deal import deal, public_key
from veilsum.fleet.secure_sum.field import P, to_bytes
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.fleet.secure_sum.query import Keeper, key_body
from veilsum.fleet.secure_sum.roster import propose
from veilsum.fleet.sum_posts import MARK

Patch = pytest.MonkeyPatch


def started(
    path: Path, patch: Patch, sites: int = 5, **signed: int
) -> tuple[SumFleet, FleetQuestion]:
    """All have made their Keys."""
    fleet = SumFleet(path, sites, patch)
    if signed:
        fleet.admit(following(fleet.membership, fleet.membership.members, sums=signed))
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    return fleet, question


def dealing(
    fleet: SumFleet, question: FleetQuestion, liar: str, body: bytes, number: int = 1
) -> None:
    Liar(fleet, liar).says(Kind.DEAL, question.digest, body, number, first=1, last=1, readings=50)


# ---- the asker


def test_a_silent_asker(tmp_path: Path, monkeypatch: Patch) -> None:
    """Nothing opens, the status says for whom it waits, the budget is spent, and given back in the end."""
    fleet, question = started(tmp_path, monkeypatch)
    fleet.rounds(1)
    fleet.now = DEADLINE + 1
    fleet.rounds(3, *fleet.names)
    assert fleet.read(question, "s0") is None
    assert fleet.stage(question, "s0") == "waits for the asker's roster"
    assert fleet.spent("s0") == 1.0
    fleet.now = DEADLINE + 8 * DAY
    fleet.rounds(3, *fleet.names)
    assert {fleet.spent(name) for name in fleet.names} == {0.0}
    assert "5 keepers closed it" in fleet.stage(question, "s0")
    assert fleet.key_files() == []


def test_an_asker_that_never_asks(tmp_path: Path, monkeypatch: Patch) -> None:
    fleet, question = started(tmp_path, monkeypatch)
    fleet.rounds(2, *fleet.names)
    assert fleet.stage(question, "s0") == "waits for the asker's query"
    fleet.now = DEADLINE + 40 * DAY
    fleet.rounds(1, *fleet.names)
    assert fleet.key_files() == []
    assert {fleet.spent(name) for name in fleet.names} == {0.0}


def test_an_asker_lists_three_sites_of_twenty(tmp_path: Path, monkeypatch: Patch) -> None:
    """Whoever may be corrupt does not shrink with those who are listed."""
    fleet, question = started(tmp_path, monkeypatch, 20)

    def few(query: Any) -> Any:
        numbers = replace(query.numbers, sites=3, absent=0, corrupt=2, colluding=2)
        return replace(query, sites=query.sites[:3], numbers=numbers)

    lying_query(fleet, question, few)
    said = fleet.rounds(1, *fleet.names)
    assert not fleet.left(Kind.DEAL)
    assert sum("nobody is left whose noise protects the sum" in line for line in said) == 20


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_a_sum_that_c_keepers_made_up_is_not_shown(
    weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Asker and colluding keepers list themselves alone, with numbers of their own, and answer."""
    fleet, question = started(tmp_path, monkeypatch, 15)
    liars = ["s0", "s1", "s2"]  # c = 3
    secrets = {name: bytes([9 + k]) * 32 for k, name in enumerate(liars)}
    keys = {
        name: Liar(fleet, name).says(
            Kind.KEY, question.digest, key_body(question.digest.hex(), public_key(own)), 2
        )
        for name, own in secrets.items()
    }

    def ours(query: Any) -> Any:
        keepers = tuple(Keeper(n, public_key(secrets[n]), keys[n].header.hash) for n in liars)
        numbers = SumNumbers(3, 3, 0, 0, 0)
        sites = tuple(s for s in query.sites if s[0] in liars)
        return replace(query, keepers=keepers, numbers=numbers, sites=sites)

    query = lying_query(fleet, question, ours, 2)
    deals = [(name, deal(query, name, [10**9], bytes([k]) * 32)) for k, name in enumerate(liars)]
    for name, body in deals:
        dealing(fleet, question, name, query.digest[:MARK] + body)
    roster = propose(query, deals)
    Liar(fleet, "desk").says(Kind.ROSTER, question.digest, roster.body)
    for name in liars:
        body, _ = answer(query, name, secrets[name], roster, deals)
        Liar(fleet, name).says(Kind.ANSWER, question.digest, body, first=1, last=1)
    if weakened:
        monkeypatch.setattr(sum_posts, "numbers_of", lambda *_: SumNumbers(15, 15, 0, 3, 1))
    fleet.rounds(2, *fleet.names[3:])
    shown = fleet.read(question, "s9")
    assert (shown is not None) is weakened
    if shown is not None:
        assert shown.steps == (3 * 10**9,)
    assert not fleet.left(Kind.DEAL)


# ---- sites


def test_a_deal_that_is_overwritten_is_carried(tmp_path: Path, monkeypatch: Patch) -> None:
    """A site replaces its Deal after some have read it: keepers that come later find it in the Roster."""
    fleet, question = started(tmp_path, monkeypatch)
    fleet.rounds(1, "desk", *fleet.names[1:])
    query = fleet.query(question).query
    first = deal(query, "s0", [5], b"1" * 32)
    dealing(fleet, question, "s0", query.digest[:MARK] + first)
    fleet.rounds(1, "desk", "s1")  # the roster names it
    dealing(fleet, question, "s0", query.digest[:MARK] + deal(query, "s0", [7], b"2" * 32), 2)
    shown = fleet.rounds(1, "s2", "s3", "s4")
    assert any("names a deal of 's0' that is not here" in line for line in shown)
    assert "names a deal of 's0'" in fleet.stage(question, "s2")
    fleet.rounds(1, "desk")  # sees two, and carries the one that it named
    fleet.rounds(2, "desk", "s1", "s2", "s3", "s4")
    for name in ("desk", "s2"):
        answer = fleet.read(question, name)
        assert answer is not None
        assert answer.steps[0] == fleet.exact(question, *fleet.names[1:])[0] + 5
        assert answer.records == 4 * 42 + 50
    assert len(fleet.query(question).query.sites) == 5


def test_a_key_that_is_replaced_is_carried(tmp_path: Path, monkeypatch: Patch) -> None:
    """A keeper signs another Key after the Query: sites that come later find the first in the Query."""
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1, "s4", "s0", "s1", "s2", "s3")  # s4 does not see the others' Keys
    fleet.rounds(1, "desk", "s1")
    other = key_body(question.digest.hex(), public_key(b"3" * 32))
    Liar(fleet, "s0").says(Kind.KEY, question.digest, other, 2)
    shown = fleet.rounds(1, "s2", "s3", "s4")
    assert fleet.left(Kind.DEAL, "s3")  # has both
    assert not fleet.left(Kind.DEAL, "s4")
    assert any("the key listed for 's0' is not one that it signed" in line for line in shown)
    fleet.rounds(1, "desk")
    assert len(fleet.query(question).carried) == 1
    fleet.rounds(1, "s4")
    assert fleet.left(Kind.DEAL, "s4")
    fleet.now = DEADLINE + 1
    fleet.rounds(2, "desk", *fleet.names[1:])
    fleet.rounds(1, "desk")
    answer = fleet.read(question)
    assert answer is not None
    assert answer.steps == fleet.exact(question, *fleet.names[1:])


def liar_deal(kind: str, query: Any, rng: np.random.Generator) -> bytes:
    body = deal(query, "s0", [10**9 if kind == "small" else 1 << 57], b"1" * 32)
    if kind == "rubbish":
        cells = rng.integers(0, P, (len(body) - 32) // 8, dtype=np.uint64)
        body = body[:32] + to_bytes(cells)
    return bytes(query.digest[:MARK]) + body


@pytest.mark.parametrize("kind", ["absurd", "rubbish"])
def test_a_site_that_deals_wrongly(kind: str, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet, question = started(tmp_path, monkeypatch, 8)
    fleet.rounds(1, "desk", *fleet.names[1:])
    query = fleet.query(question).query
    dealing(fleet, question, "s0", liar_deal(kind, query, np.random.default_rng(1)))
    honest = ["desk", *fleet.names[1:]]
    fleet.rounds(4, *honest)
    assert len(fleet.left(Kind.ANSWER)) == 7
    assert fleet.read(question) is None
    shown = fleet.stage(question)
    if kind == "absurd":  # well dealt, and nobody can be named
        assert "a site dealt an absurd value, and nobody can tell which" in shown
        assert not any(name in shown for name in fleet.names)
        assert not fleet.left(Kind.WORDS)
    else:
        assert len(fleet.left(Kind.WORDS)) == 7
        assert "s0 dealt wrongly" in shown
        assert not any(f"{name} " in shown.replace("s0 dealt", "") for name in fleet.names[1:])
    assert {fleet.spent(name) for name in fleet.names[1:]} == {1.0}


BAD: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda body: body[:-1],
    "long": lambda body: body + b"\0",
    "an element p": lambda body: body[:-8] + P.to_bytes(8, "little"),
    "low order": lambda body: body[:MARK] + bytes(32) + body[MARK + 32 :],
    "another query": lambda body: bytes(MARK) + body[MARK:],
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_deal_is_left_out(bad: str, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet, question = started(tmp_path, monkeypatch)
    fleet.rounds(1, "desk", *fleet.names[1:])
    query = fleet.query(question).query
    body = query.digest[:MARK] + deal(query, "s0", [5], b"1" * 32)
    dealing(fleet, question, "s0", BAD[bad](body))
    fleet.now = DEADLINE + 1
    fleet.rounds(3, "desk", *fleet.names[1:])
    answer = fleet.read(question)
    assert answer is not None
    assert answer.missing == ("s0",)
    assert answer.steps == fleet.exact(question, *fleet.names[1:])


def test_many_deals_of_one_site(tmp_path: Path, monkeypatch: Patch) -> None:
    """Four are kept; the roster names one of them, and the sum is that of the one."""
    fleet, question = started(tmp_path, monkeypatch)
    fleet.rounds(1, "desk", *fleet.names[1:])
    query = fleet.query(question).query
    liar = Liar(fleet, "s0")
    posts = [
        liar.post(
            Kind.DEAL, question.digest,
            query.digest[:MARK] + deal(query, "s0", [10**k], bytes([k]) * 32), 1 + k, first=1, last=1,
        )
        for k in range(9)
    ]  # fmt: skip
    liar.shows(*posts)
    fleet.rounds(4, "desk", *fleet.names[1:])
    answer = fleet.read(question)
    assert answer is not None
    extra = answer.steps[0] - fleet.exact(question, *fleet.names[1:])[0]
    assert extra in {10**k for k in range(5, 9)}


# ---- keepers


def lying_answers(
    fleet: SumFleet, question: FleetQuestion, liars: Sequence[str], shift: int = 1
) -> None:
    """What these keepers have answered is replaced by another answer of theirs, all of one polynomial."""
    query = fleet.query(question, fleet.names[-1]).query
    for name in liars:
        place = fleet.object(name, Kind.ANSWER, question.digest)
        (post,) = parts_of(fleet.objects[place])
        found = KeeperAnswer.read(query, post.body)
        assert found is not None
        wrong = [(int(value) + shift) % P for value in found.sums]
        body = post.body[:32] + to_bytes(np.array([*wrong, found.word], np.uint64))
        Liar(fleet, name).says(Kind.ANSWER, question.digest, body, first=1, last=1)


@pytest.mark.parametrize("liars", [0, 1, 2, 3])
def test_wrong_answers_are_corrected_and_named_at_odds(
    liars: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Up to (answers - needed)/2 of 20 keepers, 13 of whom are needed: 3."""
    fleet, question = started(tmp_path, monkeypatch, 20)
    fleet.rounds(1)
    roster = lying_roster(fleet, question, fleet.names)
    assert len(roster.deals) == 20
    fleet.rounds(1, *fleet.names)
    names = fleet.names[5 : 5 + liars]
    lying_answers(fleet, question, names)
    reader = fresh_board(fleet, question)
    answer = sums.SumProtocol.answer(any_protocol(), *reader)
    assert answer is not None
    assert answer.steps == fleet.exact(question)
    assert answer.at_odds == tuple(names)


def test_too_many_wrong_answers_are_no_sum(tmp_path: Path, monkeypatch: Patch) -> None:
    fleet, question = started(tmp_path, monkeypatch, 20)
    fleet.rounds(1)
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(1, *fleet.names)
    for k, name in enumerate(fleet.names[:8]):
        lying_answers(fleet, question, [name], 1 + k)
    board, posted = fresh_board(fleet, question)
    assert sums.SumProtocol.answer(any_protocol(), board, posted) is None
    assert "20 of 13 answers; waits for nobody" in any_protocol().stage(board, posted, fleet.now)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_store_that_shows_few_answers(wrong: int, tmp_path: Path, monkeypatch: Patch) -> None:
    """With t answers, one of them wrong, e = 1 shows nothing; e = 0 shows what nobody summed."""
    fleet, question = started(tmp_path, monkeypatch, 20, wrong=wrong)
    fleet.rounds(1)
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(1, *fleet.names)
    query = fleet.query(question, "s0").query
    lying_answers(fleet, question, ["s0"], 1 << 20)
    for name in fleet.names[query.numbers.needed :]:
        del fleet.objects[fleet.object(name, Kind.ANSWER, question.digest)]
    board, posted = fresh_board(fleet, question)
    answer = sums.SumProtocol.answer(any_protocol(), board, posted)
    assert answer is None or (wrong == 0 and answer.steps != fleet.exact(question))


def test_a_closed_key_cannot_answer_for_its_keeper(tmp_path: Path, monkeypatch: Patch) -> None:
    """A key that was stolen, and replaced: its Answers to later queries put nobody at odds."""
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    thief = Liar(fleet, "s0")
    fleet.rekey("s0")
    question = asked()
    fleet.ask(question)
    fleet.rounds(4)
    query = fleet.query(question).query
    body = fleet.left(Kind.ANSWER, "s0")[0].body
    wrong = body[:32] + to_bytes(np.array([1] * query.columns, np.uint64))
    thief.says(Kind.ANSWER, question.digest, wrong, first=1, last=1)
    fleet.rounds(1)
    answer = fleet.read(question)
    assert answer is not None
    assert (answer.steps, answer.at_odds) == (fleet.exact(question), ())


def test_equivocated_answers_change_no_sum(tmp_path: Path, monkeypatch: Patch) -> None:
    """Two Answers of one number: some boards keep the one, and others the other."""
    fleet, question = started(tmp_path, monkeypatch, 20)
    fleet.rounds(1)
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(1, *fleet.names)
    first = fresh_board(fleet, question)
    lying_answers(fleet, question, ["s0"])  # number 1 a second time: a fork
    fleet.rounds(2, *fleet.names[1:])
    board, posted = fleet.on("s3", question)
    assert any(topic.kind is Kind.ANSWER for topic, _ in board.forks)
    for one in (first, (board, posted), fresh_board(fleet, question)):
        answer = sums.SumProtocol.answer(any_protocol(), *one)
        assert answer is not None
        assert answer.steps == fleet.exact(question)
        assert answer.at_odds in ((), ("s0",))


def any_protocol() -> sums.SumProtocol:
    return sums.SumProtocol()


def fresh_board(fleet: SumFleet, question: FleetQuestion) -> tuple[Any, Any]:
    """What a member reads that comes new: the store as it is."""
    board = Board(fleet.membership)
    for name, data in sorted(fleet.objects.items()):
        if name.startswith("post/") and len(data) > HEADER and "membership" not in name:
            board.take(data)
    (posted,) = [p for p in questions_on(board) if p.terms == question.digest]
    return board, posted
