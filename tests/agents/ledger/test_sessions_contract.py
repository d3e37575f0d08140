"""R1, R5 and R6: one suite over the ledger in memory and the one on disk, reopened at every step."""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.agents.ledger.session_world import EPS, Steps, entry, made_terms, value, withdraws
from veilsum.agents.ledger import DiskSessionLedger, verify
from veilsum.agents.masked import rules
from veilsum.agents.masked.entries import Prepared, SessionEntry, Stage
from veilsum.agents.masked.memory import MemorySessionLedger
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, BudgetExceeded

KINDS = ("memory", "disk", "reopened")


class Memory(MemorySessionLedger):
    """Takes what the one on disk takes at the start of a query."""

    def begin_query(self, query: int, cost: Any, attempts: int, **_: Any) -> None:
        self.begin(query, Fraction(cost.epsilon), attempts)


class Reopened:
    """The ledger on disk, closed and opened again before every call."""

    def __init__(self, open_ledger: Any, terms: Any) -> None:
        self._open, self._terms, self._ledger = open_ledger, terms, open_ledger()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            self._ledger.close()
            self._ledger = self._open()
            return getattr(self._ledger.sessions(self._terms), name)(*given, **more)

        return call


@pytest.fixture
def terms(manifest: Any) -> Any:
    return made_terms(manifest)


@pytest.fixture(params=KINDS)
def steps(request: Any, open_ledger: Any, terms: Any) -> Any:
    if request.param == "memory":
        return Steps(Memory(Fraction(1)), terms)
    if request.param == "disk":
        return Steps(open_ledger().sessions(terms), terms)
    return Steps(Reopened(open_ledger, terms), terms)


def stages(steps: Any) -> list[Stage]:
    return [found.stage for found in steps.sessions.entries(steps.query)]


def test_the_way_to_sent_gives_the_same_bytes_back(steps: Any) -> None:
    steps.begin().open()
    assert steps.last == entry(steps.terms, 1)
    steps.prepare()
    expected = value(steps.last)
    assert steps.last.prepared == expected
    assert (steps.last.rho, steps.last.commitment) == (expected.rho, expected.commitment)
    assert steps.last.gamma == b""
    steps.ready()
    assert steps.last.gamma == bytes([3]) * 32
    assert steps.send() == expected
    assert steps.last == SessionEntry(
        0, 0, expected.sid, Stage.SENT, expected, expected.commitment, expected.rho, bytes([3]) * 32
    )


def test_a_vector_and_many_members(steps: Any) -> None:
    steps.begin().open()
    words = tuple(range(0, 2**64, 2**64 // 999))
    members = tuple(range(1, 4941, 3))
    steps.sessions.prepare(1, value(steps.last)._replace(words=words, members=members))
    steps.ready()
    found = steps.send()
    assert (found.words, found.members) == (words, members)
    assert steps.last.prepared == found


def test_r1_an_attempt_sends_once(steps: Any) -> None:
    steps.begin().sent()
    with pytest.raises(LedgerError, match="query 1 is sent, expected prepared"):
        steps.send()
    with pytest.raises(LedgerError, match="has sent its value"):
        steps.open(0, 1)
    assert stages(steps) == [Stage.SENT]


@pytest.mark.parametrize("stage", [Stage.SENT, Stage.REFUNDED])
def test_r1_sending_itself_refuses_a_second_value_however_it_was_prepared(stage: Stage) -> None:
    """No step leads there; the rule does not rely on that. The next attempt may send."""
    earlier = SessionEntry(0, 0, bytes(32), stage, gamma=bytes(32))
    held = Prepared(b"\1" * 32, bytes(32), (0, 1), (7,), bytes(32), bytes(32))
    later = SessionEntry(0, 1, held.sid, Stage.PREPARED, held, gamma=bytes(32))
    with pytest.raises(LedgerError, match="attempt 1 of query 5 has sent a value"):
        rules.sent(5, (earlier, later))
    assert rules.sent(5, (earlier, replace(later, attempt=1)))[-1].stage is Stage.SENT


def test_r1_what_is_withdrawn_is_gone(steps: Any) -> None:
    steps.begin().open().prepare().ready().withdraw()
    assert stages(steps) == [Stage.WITHDRAWN]
    assert steps.last.prepared is None
    for call in (steps.send, steps.ready, steps.prepare, steps.withdraw):
        with pytest.raises(LedgerError, match="query 1 is withdrawn"):
            call()
    steps.sent(0, 1)
    assert stages(steps) == [Stage.WITHDRAWN, Stage.SENT]


def test_r1_a_value_is_sent_only_after_ready(steps: Any) -> None:
    steps.begin().open()
    with pytest.raises(LedgerError, match="opened, expected prepared"):
        steps.send()
    steps.prepare()
    with pytest.raises(LedgerError, match="only after Ready"):
        steps.send()
    assert stages(steps) == [Stage.PREPARED]


def test_r5_attempts_come_in_order_and_end(steps: Any) -> None:
    steps.begin().sent()
    steps.sent(1)
    with pytest.raises(LedgerError, match="attempt 3 of query 1, which has 2"):
        steps.open(2)
    assert stages(steps) == [Stage.SENT] * 2


def test_r5_a_view_is_never_used_twice(steps: Any) -> None:
    steps.begin().open(0, 3)
    for attempt, view in ((0, 3), (0, 2)):
        with pytest.raises(LedgerError, match="used before"):
            steps.open(attempt, view)
    steps.open(1)
    with pytest.raises(LedgerError, match="used before"):
        steps.open(0, 4)


def test_r5_one_is_open_at_a_time(steps: Any) -> None:
    steps.begin().open().prepare()
    for place in ((0, 1), (1, 0)):
        with pytest.raises(LedgerError, match="withdraw it first"):
            steps.open(*place)


def test_r5_a_query_begins_with_enough_for_every_attempt(steps: Any) -> None:
    with pytest.raises((LedgerError, BudgetExceeded), match="nothing was"):
        steps.begin(attempts=9)
    steps.begin(attempts=8)


def test_r6_one_commit_per_session(steps: Any) -> None:
    steps.begin().open()
    other = entry(steps.terms, 1, 0, 1)
    with pytest.raises(LedgerError, match="of another session"):
        steps.sessions.prepare(1, value(other))
    steps.prepare()
    with pytest.raises(LedgerError, match="prepared, expected opened"):
        steps.prepare(1)
    assert steps.last.prepared == value(steps.last)


def test_r6_one_ready_per_session(steps: Any) -> None:
    steps.begin().open()
    with pytest.raises(LedgerError, match="opened, expected prepared"):
        steps.ready()
    steps.prepare().ready().ready()
    with pytest.raises(LedgerError, match="ready for other commitments"):
        steps.ready(bytes([4]) * 32)
    assert steps.last.gamma == bytes([3]) * 32


def test_a_refund_leaves_the_attempt_used(steps: Any) -> None:
    prepared = steps.begin().sent()
    steps.refund()
    assert stages(steps) == [Stage.REFUNDED]
    assert steps.last.prepared == prepared  # public: it is sent again for ever
    with pytest.raises(LedgerError, match="nothing charged"):
        steps.refund()
    with pytest.raises(LedgerError, match="has sent its value"):
        steps.open(0, 1)
    steps.sent(1)
    assert stages(steps) == [Stage.REFUNDED, Stage.SENT]


def test_a_refund_needs_a_charge_and_evidence(steps: Any) -> None:
    steps.begin().open().prepare()
    with pytest.raises(LedgerError, match="nothing charged"):
        steps.sessions.refund(1, 0, withdraws(steps.last))
    steps.ready().send()
    other = entry(steps.terms, 1, 0, 1)
    for attempt, evidence in ((0, ()), (1, withdraws(steps.last)), (0, withdraws(other))):
        with pytest.raises(LedgerError, match="nothing charged, or a refund without"):
            steps.sessions.refund(1, attempt, evidence)
    assert stages(steps) == [Stage.SENT]


def test_a_false_refund_is_taken_again_once(steps: Any) -> None:
    steps.begin().sent()
    with pytest.raises(LedgerError, match="was not refunded"):
        steps.reinstate()
    assert steps.sessions.evidence(1) == ()
    steps.refund()
    proof = withdraws(steps.last)
    assert steps.sessions.evidence(1) == proof
    steps.sent(1)
    steps.reinstate()
    assert stages(steps) == [Stage.SENT, Stage.SENT]
    assert steps.sessions.evidence(1) == proof  # it convicts those who signed
    with pytest.raises(LedgerError, match="was not refunded"):
        steps.reinstate()


def test_beginning_again_changes_nothing(steps: Any) -> None:
    steps.begin().sent()
    steps.begin()
    assert stages(steps) == [Stage.SENT]


WEAKENED = {  # rule -> what it becomes: each lets something through that a test above refuses
    "sent": lambda *given: given[1],
    "opened": lambda *given: (*given[2], given[3]),
    "withdrawn": lambda *given: given[1],
    "prepared": lambda *given: (*given[1][:-1], replace(given[1][-1], prepared=given[2])),
    "ready": lambda *given: (*given[1][:-1], replace(given[1][-1], gamma=given[2])),
}


@pytest.mark.parametrize("rule", WEAKENED)
def test_the_suite_sees_a_ledger_with_one_rule_less(
    monkeypatch: Any, open_ledger: Any, terms: Any, rule: str
) -> None:
    monkeypatch.setattr(rules, rule, WEAKENED[rule])
    suite = (
        test_r1_an_attempt_sends_once,
        test_r1_what_is_withdrawn_is_gone,
        test_r5_attempts_come_in_order_and_end,
        test_r6_one_commit_per_session,
        test_r6_one_ready_per_session,
    )
    caught = 0
    for number, test in enumerate(suite):
        with open_ledger(f"{number}.ledger") as ledger:
            try:
                test(Steps(ledger.sessions(terms), terms))
            except (AssertionError, pytest.fail.Exception, LedgerError):
                caught += 1
    assert caught


def test_both_kinds_take_the_same_steps(open_ledger: Any, terms: Any, tmp_path: Any) -> None:
    """3,000 random calls: the same refusals and sessions, read from the disk again; seeded."""
    drawn = random.Random(5)
    memory, count = Memory(Fraction(100)), 0

    def opened() -> Any:
        ledger = open_ledger(budget=Budget(100.0))
        ledger._writer.store.db.execute("PRAGMA synchronous = OFF")
        vars(ledger._writer.store)["wait_for_disk"] = lambda _: None
        return ledger

    ledger = opened()
    for query in range(1, 31):
        pair = [Steps(one, terms, query) for one in (ledger.sessions(terms), memory)]
        for steps in pair:
            steps.begin(last=query)
        for turn in range(100):
            call, more = _any_call(drawn)
            outcomes = [_outcome(steps, call, more) for steps in pair]
            assert outcomes[0] == outcomes[1], (call, more)
            count += outcomes[0] is None
            if turn % 20 == 0:
                ledger.close()
                ledger = opened()
                pair[0] = Steps(ledger.sessions(terms), terms, query)
            assert pair[0].sessions.entries(query) == memory.entries(query)
        ledger.sessions(terms).conclude_query(query, "attempts", None)
        assert ledger.spent.epsilon == float(memory.charged)
        if [e.stage for e in memory.entries(query)][-1:] == [Stage.PREPARED]:
            memory.withdraw(query)
        for known in range(max(1, query - 20), query + 1):
            assert ledger.sessions(terms).entries(known) == memory.entries(known)
    assert count > 200  # not refused
    ledger.close()
    assert verify(tmp_path / "a.ledger").ok


def _any_call(drawn: Any) -> tuple[str, tuple[Any, ...]]:
    call = drawn.choice(["open", "prepare", "ready", "send", "withdraw", "refund", "reinstate"])
    if call == "open":
        return call, (drawn.randrange(3), drawn.randrange(4))
    if call == "ready":
        return call, (bytes([drawn.randrange(2)]) * 32,)
    return call, (drawn.randrange(2),) if call in ("refund", "reinstate") else ()


def _outcome(steps: Any, call: str, more: Any) -> str | None:
    found = steps.sessions.entries(steps.query)
    if call in ("prepare", "refund", "reinstate") and not found:
        return "nothing"
    try:
        if call == "refund":
            steps.sessions.refund(steps.query, *more, withdraws(found[-1]))
        else:
            getattr(steps, call)(*more)
    except LedgerError as problem:
        return str(problem)
    return None


def test_c_1_withdrawals_are_not_enough_for_the_disk(open_ledger: Any, terms: Any) -> None:
    steps = Steps(open_ledger().sessions(terms), terms).begin()
    steps.sent()
    assert terms.parameters.colluders == 1
    for labels in ("23", "233"):
        with pytest.raises(LedgerError, match="of enough members"):
            steps.sessions.refund(1, 0, withdraws(steps.last, *labels))
    steps.sessions.refund(1, 0, withdraws(steps.last, *"231"))


def test_what_only_the_disk_refuses(open_ledger: Any, terms: Any, manifest: Any) -> None:
    sessions = open_ledger().sessions(terms)
    assert isinstance(sessions, DiskSessionLedger)
    with pytest.raises(LedgerError, match="has no query 1; begin it first"):
        sessions.begin(1, EPS, 2)
    steps = Steps(sessions, terms).begin()
    for epsilon, attempts in ((EPS / 2, 2), (EPS, 3)):
        with pytest.raises(LedgerError, match="the manifest fixes both"):
            sessions.begin(1, epsilon, attempts)
    with pytest.raises(LedgerError, match="the name of another one"):
        sessions.open(1, entry(terms, 2))
    with pytest.raises(LedgerError, match="query 2 is not open"):
        sessions.open(2, entry(terms, 2))
    with pytest.raises(LedgerError, match=r"is open in ledger .* with other last"):
        steps.begin(last=2)
    with pytest.raises(LedgerError, match="conclude it first"):
        Steps(sessions, terms, 2).begin(last=2)
    other = made_terms(manifest)
    other = type(other)(bytes(32), other.nonce, other.members, other.parameters)
    with pytest.raises(LedgerError, match="use the terms of its manifest"):
        open_ledger("b.ledger").sessions(other)
