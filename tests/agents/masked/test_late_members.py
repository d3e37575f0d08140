"""Members that start late, proposers that are silent, and that a masked sum ends all the same."""

from fractions import Fraction
from typing import Any

import pytest

from tests.agents.masked.test_session import results, session_of, stages, started
from tests.agents.masked.world import EPSILON, LABELS, QUERY, World, made_terms
from veilsum.agents.masked.actions import SessionTimes
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.records import Commit, Present, Ready, Roster, Withdraw
from veilsum.agents.masked.session import Session
from veilsum.agents.protocol.options import Options

EPS = Fraction(EPSILON)


class Impatient(Session):
    """Weakened variant: a view's time runs however few are there."""

    def _run_view(self, _: Any) -> None:
        if not self._running:
            self._running = True
            self._timer("view")


def hours_pass(world: World, labels: str, times: int = 30) -> None:
    for _ in range(times):
        for label in labels:
            for timer in ("proposal", "view", "attempt"):
                world.fire(label, timer)
        world.settle()


@pytest.mark.parametrize("session", [Session, Impatient])
def test_a_member_that_starts_hours_late_is_still_in(session: Any) -> None:
    world = started("de", session=session)
    world.settle()
    hours_pass(world, "abc")
    patient = session is Session
    assert {len(world.drawn[label]) for label in "abc"} == ({1} if patient else {20})
    assert {session_of(world, label).reason for label in "abc"} == {"" if patient else "views"}
    world.start("d")
    world.settle()
    world.start("e")
    world.run()
    (result,) = results(world)
    assert (result is not None) is patient
    if patient:
        assert result.members == tuple(LABELS)
        assert (result.attempt, result.view) == (0, 0)
        assert result.totals == world.expected(result)


def test_whoever_starts_after_the_proposal_finds_the_result_and_pays_nothing() -> None:
    world = started("e")
    world.run("e")
    world.start("e")
    world.settle()
    (result,) = results(world)
    assert result.members == tuple("abcd")
    assert world.ledgers["e"].charged == world.ledgers["e"].reserved == 0


def test_views_of_two_absent_proposers_are_left_at_the_proposal_time() -> None:
    terms = made_terms(labels="abcdefg", absent=2)
    silent = "".join(terms.proposer(QUERY, 0, view) for view in range(2))
    world = World(terms)
    for label in terms.labels:
        if label not in silent:
            world.start(label)
    there = "".join(label for label in terms.labels if label not in silent)
    for view in range(3):
        world.settle(silent)
        assert {len(world.drawn[label]) for label in there} == {view + 1}
        for label in there:
            world.fire(label, "proposal")
    world.settle(silent)
    (result,) = results(world, there)
    assert (result.members, result.view) == (tuple(there), 2)
    assert {world.ledgers[label].charged for label in there} == {EPS}


def exchange_without(world: World, dropped: Any, rounds: int = 4) -> None:
    for _ in range(rounds):
        for source in world.terms.labels:
            for to in world.terms.labels:
                world.exchange(source, to, lambda s: not dropped(s.record))


def test_views_of_two_proposers_that_are_present_and_silent_are_left_at_their_end() -> None:
    world = started()
    silent = {world.terms.proposer(QUERY, 0, view) for view in range(2)}

    def dropped(record: Any) -> bool:
        return isinstance(record, Roster) and record.label in silent

    exchange_without(world, dropped)
    for view in range(2):
        for label in LABELS:
            if label not in silent:  # they have prepared for their own roster, and wait
                world.fire(label, "proposal")
                assert len(world.drawn[label]) == view + 1
        for label in LABELS:
            world.fire(label, "view")
        exchange_without(world, dropped)
    world.run()
    (result,) = results(world)
    assert result.view >= 2
    assert result.totals == world.expected(result)
    assert {ledger.charged for ledger in world.ledgers.values()} == {EPS}


def test_a_member_that_never_commits_ends_the_query_and_costs_nothing() -> None:
    world = started()

    def dropped(record: Any) -> bool:
        return record.label == "e" and isinstance(record, Commit | Ready | Withdraw)

    for _ in range(2 * 2 * 5 + 1):
        exchange_without(world, dropped, 3)
        for label in LABELS:
            world.fire(label, "proposal")
        exchange_without(world, dropped, 3)
        for label in LABELS:
            world.fire(label, "view")
    assert {session_of(world, label).reason for label in "abcd"} == {"views"}
    for label in "abcd":
        assert world.ledgers[label].charged == world.ledgers[label].reserved == 0
        assert len(stages(world, label)) <= 2 * world.terms.most_views


def test_members_that_do_not_come_back_end_the_query_after_the_attempts_time() -> None:
    world = started()
    for source in LABELS:
        for to in LABELS:
            world.exchange(source, to, lambda s: isinstance(s.record, Present))
    for label in "ab":
        world.kill(label)
    for label in "cde":
        world.fire(label, "view")
    world.settle("ab")
    assert {session_of(world, label).reason for label in "cde"} == {""}
    for label in "cde":
        world.fire(label, "attempt")
    assert {session_of(world, label).reason for label in "cde"} == {"views"}
    assert all(ledger.charged == ledger.reserved == 0 for ledger in world.ledgers.values())


@pytest.mark.parametrize("crashes", [1, 4])
def test_a_member_that_crashed_unheard_does_not_stop_the_others(crashes: int) -> None:
    """Nobody may be absent; a's first Presents reached nobody, and their keys are lost."""
    world = World(made_terms(absent=0))
    for _ in range(crashes):
        world.start("a")
    for label in LABELS:
        world.start(label)
    world.run()
    (result,) = results(world)
    assert result.members == tuple(LABELS)
    assert result.view == crashes
    assert result.totals == world.expected(result)


def test_a_member_that_lost_its_key_withdraws_and_is_left_out_at_once() -> None:
    world = started()
    for source in LABELS:
        for to in LABELS:
            world.exchange(source, to, lambda s: isinstance(s.record, Present))
    who = next(x for x in LABELS if x != world.terms.proposer(QUERY, 0, 0))
    assert stages(world, who) == [Stage.OPENED]
    world.kill(who)
    world.start(who)
    withdrawn = [s.record for s in world.published[who] if isinstance(s.record, Withdraw)]
    assert [one.rho for one in withdrawn] == [bytes(32)]
    others = LABELS.replace(who, "")
    for source in LABELS:
        world.exchange(who, source, lambda s: isinstance(s.record, Withdraw))
    world.run(who)
    (result,) = results(world, others)
    assert result.members == tuple(others)
    assert {world.ledgers[label].charged for label in others} == {EPS}


def test_times_follow_the_manifest() -> None:
    class Limits:
        gathering, lost_after = 30.0, 900.0

    manifest: Any = Limits()
    assert SessionTimes.of(manifest, Options()) == (90.0, 30.0, 900.0)
    assert SessionTimes.of(manifest, Options(deadline=10.0)).view == 330.0
