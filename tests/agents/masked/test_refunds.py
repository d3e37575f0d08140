"""A charge is taken back if c + 2 of the own roster have withdrawn, and again if that was false."""

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.agents.masked.test_session import results, session_of, stages, started
from tests.agents.masked.world import EPSILON, LABELS, QUERY, World, made_terms, signing_key
from veilsum.agents.masked import session as session_module
from veilsum.agents.masked.actions import Misconduct, Reinstated
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.masks import centred, to_words
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    SignedRecord,
    Withdraw,
    sign,
)
from veilsum.agents.masked.refunds import FALSE_WITHDRAWAL, refund_evidence
from veilsum.agents.masked.rules import count_withdrawals
from veilsum.errors import LedgerError

EPS = Fraction(EPSILON)


def some_have_sent(senders: str, world: World | None = None) -> World:
    """All are ready, and only `senders` know that: they send."""
    world = world or started()
    for _ in range(3):
        for source in LABELS:
            for to in LABELS:
                world.exchange(
                    source, to, lambda s: isinstance(s.record, Present | Roster | Commit)
                )
    for source in LABELS:
        for to in senders:
            world.exchange(source, to, lambda s: isinstance(s.record, Ready))
    for label in LABELS:
        if world.sessions[label]:
            assert stages(world, label) == [Stage.SENT if label in senders else Stage.PREPARED]
    return world


def test_those_that_sent_are_refunded_when_enough_withdrew_and_the_next_attempt_has_the_sum() -> (
    None
):
    world = some_have_sent("ab")
    assert {world.ledgers[label].charged for label in "ab"} == {EPS}
    for label in "cde":
        world.fire(label, "view")
        assert stages(world, label)[0] is Stage.WITHDRAWN
    world.run()
    for label in "ab":
        assert stages(world, label)[0] is Stage.REFUNDED
        (evidence,) = world.ledgers[label]._queries[QUERY].refunds.values()
        assert [one.record.label for one in evidence] == ["c", "d", "e"]
    (result,) = results(world)
    assert result.attempt == 1
    assert result.totals == world.expected(result)
    assert {ledger.charged for ledger in world.ledgers.values()} == {EPS}
    assert {ledger.reserved for ledger in world.ledgers.values()} == {0}
    world.check(LABELS)


def test_a_refund_comes_after_a_restart_too_and_only_once() -> None:
    world = some_have_sent("a")
    for label in "bcde":
        world.fire(label, "view")
    world.kill("a")
    world.start("a")
    assert stages(world, "a") == [Stage.SENT]
    world.ledgers["a"].fuse = "after"
    for source in "bcd":
        world.exchange(source, "a", lambda s: isinstance(s.record, Withdraw))
    assert world.sessions["a"] is None  # killed right after the refund was written
    world.start("a")
    world.run()
    assert stages(world, "a")[0] is Stage.REFUNDED
    assert world.ledgers["a"].charged == EPS  # of the attempt that has the sum
    (result,) = results(world)
    assert result.attempt == 1
    withdraws: Any = ("not looked at",)
    with pytest.raises(LedgerError, match="nothing charged"):
        world.ledgers["a"].refund(QUERY, 0, withdraws)
    with pytest.raises(LedgerError, match="without the withdrawals"):
        world.ledgers["a"].refund(QUERY, 1, ())


def withdrawn(world: World, label: str, **changes: Any) -> SignedRecord:
    entry = world.ledgers["a"].entries(QUERY)[0]
    record = Withdraw(entry.sid, label, entry.rho)._replace(**changes)
    return sign(record, world.terms.manifest, signing_key(label))


@pytest.mark.parametrize(
    ("false", "reason"),
    [
        ("c + 1 signatures", "too few"), ("outsider", "not in the own roster"), ("other view", "sid"),
        ("other roster", "rho"), ("published", "it has sent"), ("contradicted", "two rosters"),
        ("two commits", "it lied before"), ("forged", "another one's key"), ("own", "this agent"),
        ("lost its key", "no roster"), ("twice", "one signer, two signatures"), ("", "sound"),
    ],
)  # fmt: skip
def test_false_refunds_are_refused(false: str, reason: str) -> None:  # noqa: ARG001 - the test's name
    world = started("d") if false == "outsider" else started()
    if false == "outsider":
        for source in LABELS:
            for to in LABELS:
                world.exchange(source, to)
        for label in "abce":
            world.fire(label, "proposal")
    world = some_have_sent("ab", world)
    session, entry = session_of(world, "a"), world.ledgers["a"].entries(QUERY)[0]
    gamma, other = entry.gamma, bytes([9]) * 32
    theirs = world.ledgers["d" if false != "outsider" else "e"].entries(QUERY)[0].prepared
    assert theirs is not None
    second: list[SignedRecord] = {
        "c + 1 signatures": [],
        "outsider": [withdrawn(world, "d")],
        "other view": [withdrawn(world, "d", sid=world.terms.sid(QUERY, 0, 1))],
        "other roster": [withdrawn(world, "d", rho=other)],
        "published": [
            withdrawn(world, "d"),
            sign(
                Masked(entry.sid, "d", entry.rho, gamma, theirs.salt, theirs.words),
                world.terms.manifest,
                signing_key("d"),
            ),
        ],
        "contradicted": [withdrawn(world, "d"), withdrawn(world, "d", rho=other)],
        "two commits": [
            withdrawn(world, "d"),
            sign(Commit(entry.sid, "d", entry.rho, other), world.terms.manifest, signing_key("d")),
        ],
        "forged": [withdrawn(world, "e")._replace(record=withdrawn(world, "d").record)],
        "own": [withdrawn(world, "a")],
        "lost its key": [withdrawn(world, "d", rho=bytes(32))],
        "twice": [withdrawn(world, "e")._replace(signature=bytes(64)), withdrawn(world, "e")],
        "": [withdrawn(world, "d")],
    }[false]
    for one in [*second, withdrawn(world, "c"), withdrawn(world, "e")]:
        session.records.add(one)
    sound = not false
    assert bool(refund_evidence(world.terms, session.records, entry, "a")) is sound
    world.act("a", session.receive, [])
    assert world.ledgers["a"].charged == (0 if sound else EPS)
    assert stages(world, "a")[0] is (Stage.REFUNDED if sound else Stage.SENT)


def test_an_own_withdrawal_that_the_ledger_does_not_know_stops_the_agent() -> None:
    world = some_have_sent("ab")
    session = session_of(world, "a")
    world.act("a", session.receive, [withdrawn(world, "a"), withdrawn(world, "e")])
    assert session.reason == "rolled-back"
    assert world.ledgers["a"].charged == EPS


def weakened(terms: Any, records: Any, entry: Any, label: str) -> Any:
    """Weakened variant: c + 1 withdrawals suffice."""
    fewer = made_terms(colluders=terms.parameters.colluders - 1)
    return refund_evidence(fewer, records, entry, label)


def two_withdraw_falsely(world: World) -> None:
    """All have sent; d's ledger was copied before, is put back, and its view ends. e colludes."""
    for _ in range(3):
        for source in LABELS:
            for to in LABELS:
                world.exchange(source, to, lambda s: not isinstance(s.record, Ready | Masked))
    copied = copy.deepcopy(world.ledgers["d"])
    assert copied.entries(QUERY)[0].stage is Stage.PREPARED
    for source in LABELS:
        for to in LABELS:
            world.exchange(source, to, lambda s: not isinstance(s.record, Masked))
    assert {stages(world, label)[0] for label in LABELS} == {Stage.SENT}
    world.kill("d")
    world.ledgers["d"] = copied
    world.start("d")
    world.fire("d", "view")
    assert stages(world, "d")[0] is Stage.WITHDRAWN
    entry = world.ledgers["a"].entries(QUERY)[0]
    for label in "abc":
        world.inject(label, Withdraw(entry.sid, "d", entry.rho))
        world.inject(label, Withdraw(entry.sid, "e", entry.rho))


@pytest.mark.parametrize("evidence", [refund_evidence, weakened])
def test_with_c_1_withdrawals_a_sum_is_refunded_that_a_colluder_can_read(
    evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c colluders, and one ledger that n - c - 2d >= 2 covers."""
    monkeypatch.setattr(session_module, "refund_evidence", evidence)
    world = started()
    two_withdraw_falsely(world)
    entry = world.ledgers["a"].entries(QUERY)[0]
    words = [next(iter(world.sent(label)[entry.sid])) for label in LABELS]
    total = centred(to_words(sum(column) for column in zip(*words, strict=True)))
    values = [
        [x + eta for x, eta in zip(world.statistics[k], world.noise[k, entry.sid], strict=True)]
        for k in LABELS
    ]
    assert total == tuple(sum(column) for column in zip(*values, strict=True))
    charged = {world.ledgers[label].charged for label in "abc"}
    assert charged == ({EPS} if evidence is refund_evidence else {Fraction(0)})


@pytest.mark.parametrize("restarted", ["", "before", "after it is written"])
@pytest.mark.parametrize("heard", ["one signer", "all"])
def test_a_false_refund_is_taken_again(
    restarted: str, heard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The assumptions were wrong, here by weaker evidence: what was spent is charged again."""
    monkeypatch.setattr(session_module, "refund_evidence", weakened)
    world = started()
    two_withdraw_falsely(world)
    assert {stages(world, label)[0] for label in "abc"} == {Stage.REFUNDED}
    said = [s for label in LABELS for s in world.published[label] if isinstance(s.record, Masked)]
    if heard == "one signer":
        said = [one for one in said if one.record.label == "e"]
    if restarted:
        world.kill("a")
        world.start("a")
        kept = session_of(world, "b").records
        world.act("a", session_of(world, "a").receive, [s for s in kept if s.record.label != "e"
                  or not isinstance(s.record, Withdraw)])  # fmt: skip
    if restarted == "after it is written":
        world.ledgers["a"].fuse = "after"
        world.act("a", session_of(world, "a").receive, said)
        assert world.sessions["a"] is None
        world.start("a")
    monkeypatch.setattr(session_module, "refund_evidence", refund_evidence)
    found = session_of(world, "a").receive(said)
    assert stages(world, "a")[0] is Stage.SENT
    assert world.ledgers["a"].charged == EPS
    if restarted != "after it is written":
        (again,) = (one for one in found if isinstance(one, Reinstated))
        expected = ("d", "e") if heard == "all" else ("e",)
        assert tuple(again) == (0, expected)
        convicted = {one.label for one in found if isinstance(one, Misconduct)}
        assert convicted == set(expected)
    assert not session_of(world, "a").receive(said), "said once"


def test_whoever_withdraws_and_publishes_is_convicted_once_and_others_are_not() -> None:
    world = some_have_sent("abcde")
    entry = world.ledgers["a"].entries(QUERY)[0]
    withdraw = withdrawn(world, "e")
    lost = withdrawn(world, "d", rho=bytes(32))
    said = [s for label in LABELS for s in world.published[label] if isinstance(s.record, Masked)]
    found = session_of(world, "a").receive([withdraw, lost, *said])
    assert [one[:2] for one in found if isinstance(one, Misconduct)] == [("e", FALSE_WITHDRAWAL)]
    assert entry.stage is Stage.SENT


def test_an_agent_with_a_backup_that_lacks_its_value_does_not_say_that_it_withdrew() -> None:
    """Its value may have been sent since: a Withdraw would be false evidence for a refund."""
    world = some_have_sent("ab")
    entry = world.ledgers["a"].entries(QUERY)[0]
    backup = replace(entry, stage=Stage.OPENED, prepared=None)
    world.ledgers["a"]._queries[QUERY].entries = (backup,)
    world.published["a"].clear()
    world.kill("a")
    world.start("a")
    assert not world.published["a"]
    assert len(world.drawn["a"]) == 1
    world.fire("a", "view")
    said = {type(one.record).__name__ for one in world.published["a"]}
    assert said == {"Present"}  # of the next view


def test_withdrawals_are_counted_by_member_session_and_roster() -> None:
    """What the ledger checks by itself before it takes a charge back, and `verify` after."""
    world = started()
    sid, rho, other = world.terms.sid(QUERY, 0, 0), bytes(32), bytes([1]) * 32
    found: list[Any] = [
        Withdraw(sid, "b", rho), Withdraw(sid, "b", rho), Withdraw(sid, "c", other),
        Withdraw(other, "d", rho), Commit(sid, "e", rho, rho), Withdraw(sid, "e", rho),
    ]  # fmt: skip
    signed = [sign(one, world.terms.manifest, signing_key(one.label)) for one in found]
    assert count_withdrawals(signed, sid, rho) == 2
    assert count_withdrawals(signed, sid, other) == 1
    assert count_withdrawals(signed, other, rho) == 1
    assert count_withdrawals(signed[:3], other, rho) == 0
