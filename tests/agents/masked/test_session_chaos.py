"""Whatever happens to a masked sum: loss, order, partitions, kills at every write, a colluder.

At any time: no honest agent sends two values for one attempt, all sums of one attempt are the same to
the bit and the sum over their roster, and what was sent was charged.
"""

from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from murmura.agents.masked import masks
from murmura.agents.masked.entries import Stage
from murmura.agents.masked.masks import EphemeralKey
from murmura.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    Withdraw,
    commitment,
    commitments_digest,
)
from murmura.agents.masked.session import Session
from tests.agents.masked.world import LABELS, QUERY, FragileLedger, World

HONEST, COLLUDER = "abcd", "e"
WHO, HONEST_WHO = st.sampled_from(LABELS), st.sampled_from(HONEST)
LOSS = st.sampled_from([0, 0, 0, 1, 2])


class MaskedChaos(RuleBasedStateMachine):
    """Five members, one of them a colluder that also says other things than its session does."""

    session: ClassVar[type[Session]] = Session
    ledger: ClassVar[type[FragileLedger]] = FragileLedger

    def __init__(self) -> None:
        super().__init__()
        self.world = World(session=self.session)
        self.world.ledgers = {label: self.ledger() for label in LABELS}
        self.lied = False
        for label in LABELS:
            self.world.start(label)

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
                keys = session._keys(entry.sid, tuple(sorted(members - {5}))) or {}
                rho = masks.roster_digest(self.world.terms.manifest, entry.sid, keys)
                self.world.inject(to, Roster(entry.sid, COLLUDER, rho, tuple(sorted(members))))

    @invariant()
    def every_rule_holds(self) -> None:
        self.world.check(HONEST if self.lied else LABELS)
        for label in HONEST:
            for one in self.world.concluded[label]:
                result = one.result
                if result and not (self.lied and COLLUDER in result.members):
                    assert result.totals == self.world.expected(result), "not the sum"
                    assert len(result.members) >= self.world.terms.parameters.smallest_roster

    def teardown(self) -> None:
        """Healed: all return and hear everything; then the sums of all agents are one and the same."""
        for label in LABELS:
            self.world.ledgers[label].fuse = None
            if self.world.sessions[label] is None:
                self.world.start(label)
        self.world.run()
        self.every_rule_holds()
        live = [s for label, s in self.world.sessions.items() if label in HONEST and s is not None]
        found = {session.result for session in live}
        assert len(found) == 1, "the sums of two agents differ"
        for label in HONEST:
            ledger = self.world.ledgers[label]
            spent = ledger.charged / self.world.terms.parameters.noise_cost
            assert spent == sum(e.stage is Stage.SENT for e in ledger.entries(QUERY))
            if found != {None}:
                assert ledger.reserved == 0
        if not self.lied:
            assert all(session.reason in ("sum", "attempts", "views") for session in live)


def chaos(machine: type[MaskedChaos], examples: int, steps: int = 25) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True,
            phases=(Phase.generate,),
        ),
    )  # fmt: skip


@pytest.mark.thorough
def test_nothing_breaks_a_masked_sum() -> None:
    chaos(MaskedChaos, 40)


@pytest.mark.slow
def test_nothing_breaks_a_masked_sum_in_many_more_ways() -> None:
    chaos(MaskedChaos, 1500, 40)


class ForgetfulLedger(FragileLedger):
    """Weakened variant: what was sent is remembered as withdrawn."""

    def send(self, query: Any) -> Any:
        found = super().send(query)
        self._replace(query, stage=Stage.WITHDRAWN)
        return found


def test_a_ledger_that_forgets_what_it_sent_is_found() -> None:
    class Machine(MaskedChaos):
        ledger = ForgetfulLedger

    with pytest.raises(AssertionError):
        chaos(Machine, 40)
