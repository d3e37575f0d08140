"""Whatever happens to a masked sum: loss, order, partitions, kills at every write, a colluder.

Also an absent member, replays from other runs, attempts and views, and a ledger that is restored.
At any time: no honest agent sends two values for one attempt, all sums of one attempt are the same to
the bit and the sum over their roster, what was sent was charged, and what was refunded is in no sum that
anybody can read. An agent whose ledger was restored may send twice, and still no two of its sums of
one attempt can be read.
"""

import copy
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.agents.masked.world import (
    EPSILON,
    LABELS,
    QUERY,
    FragileLedger,
    World,
    made_terms,
    signing_key,
)
from veilsum.agents.masked import masks
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    Withdraw,
    commitment,
    commitments_digest,
    sign,
)
from veilsum.agents.masked.roster import participants
from veilsum.agents.masked.session import Session

HONEST, COLLUDER, RESTORED = "abcd", "e", "a"
WHO, HONEST_WHO = st.sampled_from(LABELS), st.sampled_from(HONEST)
LOSS = st.sampled_from([0, 0, 0, 1, 2])


class MaskedChaos(RuleBasedStateMachine):
    """Five members, one of them a colluder that also says other things than its session does."""

    session: ClassVar[type[Session]] = Session
    ledger: ClassVar[type[FragileLedger]] = FragileLedger
    pooled: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        terms = made_terms()
        pool = RecordPool(terms.manifest, terms.keys) if self.pooled else None
        self.world = World(terms, self.session, pool)
        self.world.ledgers = {label: self.ledger() for label in LABELS}
        self.lied = False
        self.copies: list[FragileLedger] = []
        self.restored = False
        self.rosters: dict[bytes, tuple[int, str]] = {}

    @initialize(absent=st.sampled_from(["", "", "b", "e"]))
    def start_all_but(self, absent: str) -> None:
        """An absent member comes later, if at all before the end."""
        for label in LABELS:
            if label != absent:
                self.world.start(label)

    @rule(copied=st.booleans())
    def copy_or_restore_a_ledger(self, copied: bool) -> None:
        """One agent's ledger is replaced by what it was before; nobody tells it."""
        if self.world.sessions[RESTORED] is None:
            return
        if copied or not self.copies:
            self.copies.append(copy.deepcopy(self.world.ledgers[RESTORED]))
            return
        older = copy.deepcopy(self.copies[len(self.copies) // 2])
        if older.entries(QUERY) != self.world.ledgers[RESTORED].entries(QUERY):
            self.restored = True
        self.world.ledgers[RESTORED] = older
        self.world.start(RESTORED)

    @rule(to=HONEST_WHO, source=WHO, number=st.integers(0, 30), attempt=st.integers(0, 1),
          view=st.integers(0, 2))  # fmt: skip
    def replay(self, to: str, source: str, number: int, attempt: int, view: int) -> None:
        """A record under another session, and one of another run: neither is ever taken."""
        session, said = self.world.sessions[to], self.world.published[source]
        if session is None or not said:
            return
        signed = said[number % len(said)]
        sid = self.world.terms.sid(QUERY, attempt, view)
        moved = signed._replace(record=signed.record._replace(sid=sid))
        other = sign(signed.record, bytes(32), signing_key(source))
        if sid != signed.record.sid:
            refused = Admission.INVALID, Admission.UNEXPECTED, Admission.KNOWN
            assert session.records.add(moved) in refused
            if not session.records.knows(signed):
                assert session.records.add(other) in refused
        self.world.act(to, session.receive, [moved, other])

    @rule(source=WHO, to=WHO, loss=LOSS)
    def exchange(self, source: str, to: str, loss: int) -> None:
        """One direction, with every third record or so lost."""
        turn = iter(range(10**6))
        self.world.exchange(source, to, lambda _: loss == 0 or next(turn) % 3 != loss - 1)

    @rule(group=st.sets(WHO, min_size=2))
    def exchange_within(self, group: set[str]) -> None:
        """All of one side of a partition."""
        for source in sorted(group):
            for to in sorted(group - {source}):
                self.world.exchange(source, to)

    @rule(held=WHO, kind=st.sampled_from([Present, Roster, Commit, Ready, Masked]))
    def exchange_all_but(self, held: str, kind: Any) -> None:
        """Everything gets through but one member's records of a kind."""
        for _ in range(2):
            for source in LABELS:
                for to in LABELS:
                    self.world.exchange(
                        source,
                        to,
                        lambda s: not (isinstance(s.record, kind) and s.record.label == held),
                    )

    @rule(who=HONEST_WHO)
    def one_hears_that_all_are_ready(self, who: str) -> None:
        """It sends, and the others give the view up."""
        for _ in range(3):
            for source in LABELS:
                for to in LABELS:
                    self.world.exchange(
                        source, to, lambda s: isinstance(s.record, Present | Roster | Commit)
                    )
        for source in LABELS:
            self.world.exchange(source, who, lambda s: isinstance(s.record, Ready))
        for label in LABELS.replace(who, ""):
            self.world.fire(label, "view")

    @rule(who=WHO, timer=st.sampled_from(["proposal", "view", "attempt"]))
    def deadline(self, who: str, timer: str) -> None:
        self.world.fire(who, timer)

    @rule(timer=st.sampled_from(["view", "attempt"]))
    def all_deadlines(self, timer: str) -> None:
        for label in LABELS:
            self.world.fire(label, timer)

    @rule(who=WHO)
    def kill_and_restart(self, who: str) -> None:
        self.world.kill(who)
        self.world.start(who)

    @rule(who=WHO, when=st.sampled_from(["before", "after"]))
    def kill_at_the_next_write(self, who: str, when: str) -> None:
        self.world.ledgers[who].fuse = when

    @precondition(lambda self: any(one is None for one in self.world.sessions.values()))
    @rule()
    def restart_the_dead(self) -> None:
        for label, session in self.world.sessions.items():
            if session is None:
                self.world.start(label)

    @rule(to=HONEST_WHO, kind=st.sampled_from(["Present", "Commit", "Ready", "Masked", "Withdraw"]),
          other=st.booleans())  # fmt: skip
    def lie(self, to: str, kind: str, other: bool) -> None:
        """The colluder says something else to one member: a second value, opened or not."""
        entries = self.world.ledgers[COLLUDER].entries(QUERY)
        session = self.world.sessions[to]
        if not entries or session is None:
            return
        self.lied = True
        entry = entries[-1]
        words, salt, rho = (7, 8 + other), bytes(32), entry.rho or bytes(32)
        hidden = commitment(entry.sid, COLLUDER, words, salt)
        commits = {
            label: one.record.commitment
            for label, one in session.records.of(entry.sid, "Commit").items()
            if isinstance(one.record, Commit)
        } | {COLLUDER: hidden}
        gamma = commitments_digest(rho, commits)
        record: Any = {
            "Present": Present(entry.sid, COLLUDER, EphemeralKey().public),
            "Commit": Commit(entry.sid, COLLUDER, rho, hidden),
            "Ready": Ready(entry.sid, COLLUDER, rho, gamma),
            "Masked": Masked(entry.sid, COLLUDER, rho, gamma, salt, words),
            "Withdraw": Withdraw(entry.sid, COLLUDER, rho),
        }[kind]
        self.world.inject(to, record)

    @rule(to=HONEST_WHO, members=st.sets(st.integers(0, 5), min_size=3))
    def propose_something_else(self, to: str, members: set[int]) -> None:
        """An equivocating proposer, in the views that are the colluder's."""
        session = self.world.sessions[to]
        if session is None:
            return
        for entry in self.world.ledgers[to].entries(QUERY)[-1:]:
            if self.world.terms.proposer(QUERY, entry.attempt, entry.view) == COLLUDER:
                self.lied = True
                known = tuple(sorted(members - {5}))
                keys = participants(self.world.terms, session.records, entry.sid, known) or {}
                rho = masks.roster_digest(self.world.terms.manifest, entry.sid, keys)
                self.world.inject(to, Roster(entry.sid, COLLUDER, rho, tuple(sorted(members))))

    def strict(self) -> str:
        """Whose ledger was never restored."""
        return HONEST.replace(RESTORED, "") if self.restored else HONEST

    def unclear(self) -> str:
        """Whose value in a sum may be another one than it drew last."""
        return (COLLUDER if self.lied else "") + (RESTORED if self.restored else "")

    @invariant()
    def every_rule_holds(self) -> None:
        started = [label for label in self.strict() if self.world.published[label]]
        self.world.check("".join(started) + ("" if self.lied else COLLUDER) * self.is_there())
        for label in HONEST:
            for one in self.world.concluded[label]:
                result = one.result
                if result and not set(self.unclear()) & set(result.members):
                    assert result.totals == self.world.expected(result), "not the sum"
                    assert len(result.members) >= self.world.terms.parameters.smallest_roster

    def is_there(self) -> bool:
        return bool(self.world.published[COLLUDER])

    @invariant()
    def no_two_sums_of_an_attempt_can_be_read(self) -> None:
        """A sum can be read once all honest members of its roster have sent for it."""
        for label in LABELS:
            if self.world.published[label]:
                for entry in self.world.ledgers[label].entries(QUERY):
                    if entry.prepared:
                        members = "".join(LABELS[k] for k in entry.prepared.members)
                        self.rosters[entry.prepared.rho] = entry.attempt, members
        sent = {
            (signed.record.rho, label)
            for label in HONEST
            for signed in self.world.published[label]
            if isinstance(signed.record, Masked)
        }
        closed = {
            rho
            for rho, (_, members) in self.rosters.items()
            if all((rho, label) in sent for label in members if label in HONEST)
        }
        for label in HONEST:
            counts = Counter(
                a for rho, (a, m) in self.rosters.items() if rho in closed and label in m
            )
            assert all(count <= 1 for count in counts.values()), "two sums of one attempt"
        for label in self.strict():
            if self.world.published[label]:
                for entry in self.world.ledgers[label].entries(QUERY):
                    if entry.stage is Stage.REFUNDED:
                        assert entry.rho not in closed, "a refund of a sum that can be read"

    def teardown(self) -> None:
        """Healed: all return and hear everything; then the sums of all agents are one and the same."""
        for label in LABELS:
            self.world.ledgers[label].fuse = None
            if self.world.sessions[label] is None:
                self.world.start(label)
        self.world.run()
        self.every_rule_holds()
        self.no_two_sums_of_an_attempt_can_be_read()
        live = [s for label, s in self.world.sessions.items() if label in self.strict() and s]
        found = {session.result for session in live}
        assert len(found) == 1, "the sums of two agents differ"
        for label in self.strict():
            ledger, sent = self.world.ledgers[label], self.world.sent(label)
            entries = ledger.entries(QUERY)
            refunded = sum(entry.stage is Stage.REFUNDED for entry in entries)
            assert ledger.charged == Fraction(EPSILON) * (len(sent) - refunded), "not exact"
            assert {entry.sid for entry in entries if entry.sent} == set(sent)
            if found != {None}:
                assert ledger.reserved == 0
        if not self.lied and not self.restored:
            for session in live:  # whoever restarted alone may wait for the others to come
                assert session.reason in ("sum", "attempts", "views") or not session._running


def chaos(machine: type[MaskedChaos], examples: int, steps: int = 25) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True,
            phases=(Phase.generate,),
        ),
    )  # fmt: skip


class PooledChaos(MaskedChaos):
    """The same, and all agents are of one process."""

    pooled = True


@pytest.mark.thorough
@pytest.mark.parametrize("machine", [MaskedChaos, PooledChaos])
def test_nothing_breaks_a_masked_sum(machine: type[MaskedChaos]) -> None:
    chaos(machine, 30)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [MaskedChaos, PooledChaos])
def test_nothing_breaks_a_masked_sum_in_many_more_ways(machine: type[MaskedChaos]) -> None:
    chaos(machine, 1000, 40)


class ForgetfulLedger(FragileLedger):
    """Weakened variant: what was sent is remembered as withdrawn."""

    def send(self, query: Any) -> Any:
        found = super().send(query)
        held = self._queries[query]
        held.entries = (*held.entries[:-1], replace(held.entries[-1], stage=Stage.WITHDRAWN))
        return found


def test_a_ledger_that_forgets_what_it_sent_is_found() -> None:
    class Machine(MaskedChaos):
        ledger = ForgetfulLedger

    with pytest.raises(AssertionError):
        chaos(Machine, 40)
