"""One agent's behaviour in a masked sum: results, failures, and each rule of privacy.

Every rule has a weakened variant here or in `test_session_chaos.py` that the same check convicts.
"""

import copy
import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.agents.masked.world import EPSILON, LABELS, QUERY, World, made_terms, signing_key
from veilsum.agents.masked import flooding, masks, pool, rules
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.masks import EphemeralKey, Participant, centred, to_words
from veilsum.agents.masked.memory import MemorySessionLedger
from veilsum.agents.masked.own_records import is_unknown
from veilsum.agents.masked.records import Commit, Masked, Present, Ready, Roster, Withdraw, sign
from veilsum.agents.masked.results import SumResult
from veilsum.agents.masked.roster import participants
from veilsum.agents.masked.session import Session
from veilsum.errors import AgentError, LedgerError

EPS = Fraction(EPSILON)


def started(silent: str = "", **more: Any) -> World:
    world = World(**more)
    for label in LABELS:
        if label not in silent:
            world.start(label)
    return world


def results(world: World, labels: str = LABELS) -> set[Any]:
    return {getattr(world.sessions[label], "result", None) for label in labels}


def session_of(world: World, label: str) -> Session:
    found = world.sessions[label]
    assert found is not None
    return found


def stages(world: World, label: str) -> list[Stage]:
    return [entry.stage for entry in world.ledgers[label].entries(QUERY)]


def test_all_members_have_the_sum_to_the_bit() -> None:
    world = started()
    world.run()
    (result,) = results(world)
    assert result.members == tuple(LABELS)
    assert result.totals == world.expected(result)
    assert result.means == tuple(total / 5 for total in result.totals)
    assert (result.attempt, result.view) == (0, 0)
    world.check(LABELS)
    assert {ledger.charged for ledger in world.ledgers.values()} == {EPS}
    assert {ledger.reserved for ledger in world.ledgers.values()} == {0}


@pytest.mark.parametrize("silent", LABELS)
def test_an_absent_member_is_left_out(silent: str) -> None:
    world = started(silent)
    world.run(silent)
    (result,) = results(world, LABELS.replace(silent, ""))
    assert result.members == tuple(LABELS.replace(silent, ""))
    assert result.totals == world.expected(result)
    assert world.ledgers[silent].charged == 0


def test_two_absent_members_are_too_many_and_cost_nothing() -> None:
    world = started("ab")
    world.run("ab", rounds=4)
    assert results(world, "cde") == {None}
    assert all(ledger.charged == ledger.reserved == 0 for ledger in world.ledgers.values())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", range(5))
def test_a_kill_at_every_write_leaves_one_value_and_one_charge(write: int, when: str) -> None:
    """The writes of an agent: open, prepare, ready, send, and none after."""
    world = started("a")
    names: list[str] = []
    ledger = world.ledgers["a"]
    real = ledger._write

    def counted(name: str, *arguments: Any) -> Any:
        if len(names) == write:
            ledger.fuse = when
        names.append(name)
        return real(name, *arguments)

    ledger._write = counted  # type: ignore[method-assign]
    world.start("a")
    for _ in range(6):
        world.settle()
        if world.sessions["a"] is None:
            world.start("a")
    world.run()
    world.check(LABELS)
    (result,) = results(world)
    assert result.totals == world.expected(result)
    assert ledger.charged == EPS * stages(world, "a").count(Stage.SENT) <= 2 * EPS
    assert ledger.reserved == 0


def hold_back(world: World, label: str) -> None:
    """Everything is exchanged, but nobody ever hears the masked value of one member."""

    def keep(signed: Any) -> bool:
        return not (signed.record.label == label and isinstance(signed.record, Masked))

    for _ in range(8):
        for source in LABELS:
            for to in LABELS.replace(label, ""):
                world.exchange(source, to, keep)
        for source in LABELS:
            world.exchange(source, label)


@pytest.mark.parametrize("held", ["a", "e"])
def test_a_member_silent_after_ready_costs_the_others_an_attempt(held: str) -> None:
    world = started()
    hold_back(world, held)
    others = LABELS.replace(held, "")
    assert results(world, others) == {None}
    for label in others:
        world.fire(label, "attempt")
    world.kill(held)
    world.run(held)
    (result,) = results(world, others)
    assert (result.attempt, result.members) == (1, tuple(others))
    assert result.totals == world.expected(result)
    assert {world.ledgers[label].charged for label in others} == {2 * EPS}
    world.check(LABELS)


def published_sum(world: World, sid: bytes, labels: str) -> tuple[int, ...]:
    """What an adversary adds up who has every published value."""
    words = [next(iter(world.sent(label)[sid])) for label in labels]
    return centred(sum((to_words(w) for w in words), to_words((0, 0))))


class KeepsNoise(Session):
    """Weakened variant: the noise of the first session serves them all."""

    kept: dict[str, tuple[int, ...]]

    def _enter(self, attempt: int, view: int) -> None:
        draw, kept = self._draw, self.kept
        self._draw = lambda: kept.setdefault(self.label, draw())
        super()._enter(attempt, view)
        self._draw = draw


@pytest.mark.parametrize("session", [Session, KeepsNoise])
def test_the_owner_of_an_only_link_cannot_read_the_member_behind_it(session: Any) -> None:
    """e's value is held back from the others; the adversary has it, and the retry without e."""
    KeepsNoise.kept = {}
    world = started(session=session)
    hold_back(world, "e")
    for label in "abcd":
        world.fire(label, "attempt")
    world.kill("e")
    world.run("e")
    first, second = (world.terms.sid(QUERY, attempt, 0) for attempt in (0, 1))
    difference = tuple(
        a - b
        for a, b in zip(
            published_sum(world, first, LABELS), published_sum(world, second, "abcd"), strict=True
        )
    )
    noise = world.drawn["e"][0]
    value = tuple(x + eta for x, eta in zip(world.statistics["e"], noise, strict=True))
    assert (difference == value) is (session is KeepsNoise)


class Hasty(Session):
    """Weakened variant: the time of a view ends an attempt that has sent."""

    def deadline(self, timer: str) -> Any:
        return super().deadline("attempt" if timer == "view" else timer)


@pytest.mark.parametrize("session", [Session, Hasty])
def test_an_attempt_that_has_sent_ends_at_its_own_deadline_only(session: Any) -> None:
    """R5: the timers of its view are still set when it sends, and spend no second epsilon."""
    world = started(session=session)
    hold_back(world, "e")
    assert {"proposal", "view", "attempt"} <= world.timers["a"]
    for timer in ("proposal", "view"):
        world.fire("a", timer)
    hasty = session is Hasty
    assert stages(world, "a") == [Stage.SENT] + [Stage.OPENED] * hasty
    assert len(world.drawn["a"]) == 1 + hasty
    if not hasty:
        world.fire("a", "attempt")
        assert stages(world, "a") == [Stage.SENT, Stage.OPENED]


def test_after_the_last_attempt_nothing_more_is_drawn() -> None:
    world = started()
    hold_back(world, "e")
    world.kill("e")
    for label in "abcd":
        world.fire(label, "attempt")
    hold_back_again = "d"
    for _ in range(8):
        for source in "abcd":
            for to in "abc":
                world.exchange(
                    source, to,
                    lambda s: not (s.record.label == "d" and isinstance(s.record, Masked)),
                )  # fmt: skip
        for source in "abc":
            world.exchange(source, hold_back_again)
    before = {label: len(world.drawn[label]) for label in "abc"}
    for label in "abc":
        world.fire(label, "attempt")
        assert session_of(world, label).reason == "attempts"
        assert world.ledgers[label].charged == 2 * EPS
    assert {label: len(world.drawn[label]) for label in "abc"} == before


def present_everywhere(world: World) -> bytes:
    """Every Present is known to all, and nothing else; the session's sid."""
    for source in LABELS:
        for to in LABELS:
            world.exchange(source, to, lambda s: isinstance(s.record, Present))
    return world.terms.sid(QUERY, 0, 0)


def proposer(world: World) -> str:
    return world.terms.proposer(QUERY, 0, 0)


def roster(world: World, members: tuple[int, ...], own: bytes = b"", who: str = "a") -> Roster:
    sid = world.terms.sid(QUERY, 0, 0)
    keys = {}
    for number in members:
        label = LABELS[number] if number < 5 else "z"
        signed = session_of(world, who).records.get(sid, "Present", label)
        record = getattr(signed, "record", None)
        keys[label] = Participant(record.key if isinstance(record, Present) else bytes(32))
    if own:
        keys[who] = Participant(own)
    rho = masks.roster_digest(world.terms.manifest, sid, keys)
    return Roster(sid, proposer(world), rho, members)


def victim(world: World) -> str:
    """A member that does not propose in the first view."""
    return next(label for label in LABELS if label != proposer(world))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("fewer", "3 members"), ("unknown", "a number of no member"), ("without", "without this"),
        ("foreign", "rho of other keys"), ("rho", "rho of other keys"), ("good", ""),
    ],
)  # fmt: skip
def test_which_rosters_a_member_objects_to(change: str, words: str) -> None:
    world = started()
    sid = present_everywhere(world)
    who = victim(world)
    session, number = session_of(world, who), LABELS.index(who)
    others = tuple(k for k in range(5) if k != number)
    found = {
        "fewer": roster(world, tuple(sorted((number, *others[:2]))), who=who),
        "unknown": roster(world, (0, 1, 2, 3, 4, 5), who=who),
        "without": roster(world, others, who=who),
        "foreign": roster(world, (0, 1, 2, 3, 4), own=EphemeralKey().public, who=who),
        "rho": roster(world, (0, 1, 2, 3, 4), who=who)._replace(rho=bytes(32)),
        "good": roster(world, (0, 1, 2, 3, 4), who=who),
    }[change]
    (entry,) = world.ledgers[who].entries(QUERY)
    assert entry.sid == sid
    assert words in session.objection(entry, found)
    assert bool(session.objection(entry, found)) is bool(words)
    world.inject(who, found)
    assert stages(world, who) == [Stage.OPENED if words else Stage.PREPARED]


def test_a_roster_of_another_member_than_the_proposer_is_not_followed() -> None:
    world = started()
    present_everywhere(world)
    who = victim(world)
    other = next(label for label in LABELS if label not in (who, proposer(world)))
    world.inject(who, roster(world, (0, 1, 2, 3, 4), who=who)._replace(label=other))
    assert stages(world, who) == [Stage.OPENED]


def test_two_rosters_of_one_proposer_are_evidence_and_nobody_prepares() -> None:
    world = started()
    present_everywhere(world)
    who = victim(world)
    number = LABELS.index(who)
    left = next(k for k in range(5) if k != number)
    four = tuple(k for k in range(5) if k != left)
    signed = [
        sign(roster(world, members, who=who), world.terms.manifest, signing_key(proposer(world)))
        for members in ((0, 1, 2, 3, 4), four)
    ]
    session = session_of(world, who)
    for one in signed:
        session.records.add(one)
    world.act(who, session.receive, [])
    assert stages(world, who) == [Stage.OPENED]


@pytest.mark.parametrize("kind", ["Commit", "Ready", "Withdraw"])
def test_a_contradiction_or_a_withdrawal_before_sent_costs_nothing(kind: str) -> None:
    """One member never gets far enough to send, the colluder e then says something else."""
    world = started()
    for _ in range(4):
        for source in LABELS:
            for to in LABELS:
                world.exchange(
                    source, to, lambda s: isinstance(s.record, Present | Roster | Commit)
                )
    assert {stages(world, label)[-1] for label in LABELS} == {Stage.PREPARED}
    sid = world.terms.sid(QUERY, 0, 0)
    entry = world.ledgers["e"].entries(QUERY)[0]
    other: Any = {
        "Commit": Commit(sid, "e", entry.rho, bytes(32)),
        "Ready": Ready(sid, "e", entry.rho, bytes(32)),
        "Withdraw": Withdraw(sid, "e", entry.rho),
    }[kind]
    for label in "abcd":
        if kind == "Ready":
            world.inject(label, Ready(sid, "e", entry.rho, bytes([1]) * 32))
        world.inject(label, other)
        assert stages(world, label)[0] is Stage.WITHDRAWN
        assert world.ledgers[label].charged == world.ledgers[label].reserved == 0
        assert world.ledgers[label].entries(QUERY)[0].prepared is None
    world.check("abcd")


class AddsWhatever(Session):
    """Weakened variant: any value of every member is added up, opened or not."""

    def _look_for_result(self) -> None:
        for sid, (attempt, view) in self._views:
            for signed in self.records.of(sid, "Roster").values():
                roster = signed.record
                assert isinstance(roster, Roster)
                if roster.members[-1] >= 5:
                    continue
                labels = [self.terms.labels[k] for k in roster.members]
                opened = self.records.of(sid, "Masked")
                if self.result is None and all(label in opened for label in labels):
                    words = [getattr(opened[label].record, "words", ()) for label in labels]
                    total = masks.to_words(sum(c) for c in zip(*words, strict=True))
                    found = SumResult(
                        self.query, attempt, view, roster.rho, tuple(labels),
                        (1,) * len(labels), masks.centred(total),
                    )  # fmt: skip
                    self._conclude(found, "sum")


@pytest.mark.parametrize("session", [Session, AddsWhatever])
def test_two_values_of_one_member_give_one_sum(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if session is AddsWhatever:
        monkeypatch.setattr(pool, "opened_by", lambda _: b"")
        monkeypatch.setattr(flooding, "opened_by", lambda _: b"")
    world = started(session=session)
    hold_back(world, "e")
    entry = world.ledgers["e"].entries(QUERY)[0]
    assert entry.prepared is not None
    false = Masked(entry.sid, "e", entry.rho, entry.gamma, entry.prepared.salt, (1, 2))
    world.inject("a", false)
    assert (session_of(world, "a").result is None) is (session is Session)
    world.settle()
    if session is AddsWhatever:
        assert len(results(world)) > 1  # a has the sum of a value that opens no commitment
        return
    (result,) = results(world)
    assert result.totals == world.expected(result)


class Deaf(Session):
    """Weakened variant: what others have heard of this agent is overlooked."""

    def receive(self, signed: Any) -> Any:
        return super().receive([one for one in signed if one.record.label != self.label])


@pytest.mark.parametrize("session", [Session, Deaf])
@pytest.mark.parametrize("earlier", [Stage.OPENED, Stage.PREPARED])
def test_a_restored_ledger_stops_at_the_first_own_record_that_it_does_not_know(
    earlier: Stage, session: Any
) -> None:
    world = started(session=session)
    present_everywhere(world)
    if earlier is Stage.PREPARED:
        for _ in range(2):
            for source in LABELS:
                for to in LABELS:
                    world.exchange(source, to, lambda s: isinstance(s.record, Roster))
    before = copy.deepcopy(world.ledgers["a"])
    assert before.entries(QUERY)[-1].stage is earlier
    world.run()
    charged = world.ledgers["a"].charged
    world.ledgers["a"] = before
    world.start("a")
    world.settle()
    if session is Deaf:  # it goes on; before PREPARED, with a ledger that lacks what it sent
        assert session_of(world, "a").reason != "rolled-back"
        assert (world.ledgers["a"].charged < charged) is (earlier is Stage.OPENED)
        return
    assert session_of(world, "a").reason == "rolled-back"
    assert charged == EPS
    assert len(world.sent("a")) == 1


def test_a_ledger_knows_what_was_said_up_to_its_last_step_and_nothing_else() -> None:
    """Whatever of it is heard first: an own record of a later step, or another one, is unknown."""
    world = started("a")
    ledger, kept = world.ledgers["a"], [world.ledgers["a"].entries(QUERY)]
    usual = ledger._write

    def noted(name: str, *arguments: Any) -> Any:
        found = usual(name, *arguments)
        kept.append(ledger.entries(QUERY))
        return found

    ledger._write = noted  # type: ignore[method-assign]
    world.start("a")
    world.run()
    said: list[Any] = [one.record for one in world.published["a"]]
    said = [one for one in said if not isinstance(one, Roster)]
    assert [type(one) for one in said] == [Present, Commit, Ready, Masked]
    assert len(kept) == 5
    for step, entries in enumerate(kept):
        found = [is_unknown(one, entries) for one in said]
        assert found == [place >= step for place in range(4)]
    present, commit, ready, masked = said
    for other in (
        present._replace(key=EphemeralKey().public),
        present._replace(readings=2),
        Roster(commit.sid, "a", bytes(32), (0, 1, 2, 3)),
        commit._replace(commitment=bytes(32)),
        ready._replace(gamma=bytes(32)),
        masked._replace(words=(1, 2)),
        Withdraw(commit.sid, "a", commit.rho),
        Withdraw(commit.sid, "a", bytes(32)),
        masked._replace(sid=bytes(32)),
    ):
        assert is_unknown(other, kept[-1]), other


def test_another_key_in_a_view_that_a_crash_ended_is_heard_as_that_of_another_process() -> None:
    """After the crash a's own Present of that view is in no set, so nothing contradicts the copy's."""
    world = started("a")
    copied = copy.deepcopy(world.ledgers["a"])
    world.start("a")
    world.kill("a")
    world.start("a")
    original = session_of(world, "a")
    assert [entry.view for entry in world.ledgers["a"].entries(QUERY)] == [0, 1]
    world.ledgers["a"] = copied  # of the same directory, started elsewhere
    world.start("a")
    said = [one for one in session_of(world, "a").records if isinstance(one.record, Present)]
    assert [one.record.sid for one in said] == [world.terms.sid(QUERY, 0, 0)]
    original.receive(said)
    assert original.reason == "rolled-back"


@pytest.mark.parametrize("helpers", ["b", "bc"])
def test_a_restored_ledger_in_a_split_network_sends_nothing_twice(helpers: str) -> None:
    """All have sent; a's ledger is restored, and only those beside it can be reached.

    They have sent in this attempt and take part in no other roster of it, so a finds no roster.
    """
    world = started()
    before = copy.deepcopy(world.ledgers["a"])
    world.run()
    world.ledgers["a"] = before
    world.start("a")
    side = "a" + helpers
    for _ in range(6):
        for source in side:
            for to in side:
                own = to == "a"
                world.exchange(source, to, lambda s, own=own: not (own and s.record.label == "a"))
        for timer in ("proposal", "view"):
            world.fire("a", timer)
    assert len(world.sent("a")) == 1


def test_two_processes_with_a_copied_directory_both_stop() -> None:
    world, copied = World(), World()
    world.start("a")
    copied.start("a")
    first, second = session_of(world, "a"), session_of(copied, "a")
    for here, there, place in ((first, second, copied), (second, first, world)):
        place.act("a", there.receive, [s for s in here.records if s.record.label == "a"][:1])
    assert first.reason == second.reason == "cloned"
    assert world.ledgers["a"].reserved == 0
    before = len(world.published["a"])
    world.fire("a", "view")
    assert len(world.published["a"]) == before


def test_a_query_starts_only_with_budget_for_every_attempt_and_draws_nothing_else() -> None:
    world = World()
    world.ledgers["a"].budget = Fraction(EPSILON) * 2 - Fraction(1, 10**9)
    with pytest.raises(LedgerError, match="nothing was drawn"):
        world.start("a")
    assert not world.drawn["a"]
    assert not world.published["a"]
    world.ledgers["b"].budget = Fraction(EPSILON) * 2
    world.start("b")
    assert len(world.drawn["b"]) == 1


def test_records_of_another_run_manifest_or_query_are_not_taken() -> None:
    world = started()
    session = session_of(world, "a")
    key = EphemeralKey().public
    terms = made_terms()
    for sid in (terms.sid(QUERY + 1, 0, 0), terms.sid(QUERY, 2, 0), terms.sid(QUERY, 0, 9)):
        signed = sign(Present(sid, "b", key), terms.manifest, signing_key("b"))
        assert session.records.add(signed) is Admission.UNEXPECTED
    sid = terms.sid(QUERY, 0, 0)
    for manifest, signer in ((bytes(32), "b"), (terms.manifest, "c")):
        signed = sign(Present(sid, "b", key), manifest, signing_key(signer))
        assert session.records.add(signed) is Admission.INVALID


def test_an_agent_with_another_key_than_the_pinned_one_does_not_begin() -> None:
    world = World()
    with pytest.raises(AgentError, match="pins another signing key"):
        Session(
            world.terms, "a", signing_key("b"), QUERY, (1, 2), world.ledgers["a"], lambda: (0, 0)
        )


def test_a_key_of_low_order_in_a_roster_is_masked_by_nobody() -> None:
    world = started("e")
    sid = world.terms.sid(QUERY, 0, 0)
    for label in "abcd":
        world.inject(label, Present(sid, "e", bytes([1]) + bytes(31)))
    world.settle("e")
    for label in "abcd":
        assert Stage.PREPARED not in stages(world, label)
        assert Stage.SENT not in stages(world, label)


def test_an_implausible_sum_is_no_result() -> None:
    world = World()
    world.statistics["e"] = (2**62, 0)  # far beyond the bounds that all agreed on
    for label in LABELS:
        world.start(label)
    world.settle()
    assert results(world) == {None}
    assert stages(world, "a") == [Stage.SENT]


def test_neither_keys_nor_noised_values_are_in_the_ledger_and_keys_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a key only its public half, which a Present has said to all, is written."""
    private: dict[bytes, bytes] = {}
    made = EphemeralKey.__init__

    def noted(self: Any) -> None:
        made(self)
        private[self.public] = self._private.private_bytes_raw()

    monkeypatch.setattr(EphemeralKey, "__init__", noted)
    world = started()
    world.run()
    for label in LABELS:
        session = session_of(world, label)
        assert session._key is not None
        assert session._key.dropped
        assert session._noise == ()
        (entry,) = world.ledgers[label].entries(QUERY)
        written = pickle.dumps(world.ledgers[label])
        assert session._key.public in written
        assert private[session._key.public] not in written
        value = to_words(
            x + eta for x, eta in zip(world.statistics[label], world.drawn[label][0], strict=True)
        )
        assert entry.prepared is not None
        assert not set(map(int, value)) & set(entry.prepared.words)


def test_noise_is_drawn_before_anything_of_its_session_is_visible() -> None:
    """A source that takes long delays the Present and nothing after it."""
    order: list[str] = []

    class Watched(Session):
        def _publish(self, record: Any) -> None:
            order.append(f"{self.label} {type(record).__name__}")
            super()._publish(record)

        def _enter(self, attempt: int, view: int) -> None:
            draw = self._draw
            self._draw = lambda: order.append(f"{self.label} draws") or draw()  # type: ignore[func-returns-value]
            super()._enter(attempt, view)
            self._draw = draw

    world = started(session=Watched)
    world.run()
    for label in LABELS:
        own = [one.split()[1] for one in order if one.startswith(label)]
        own = [one for one in own if one != "Roster"]
        assert own == ["draws", "Present", "Commit", "Ready", "Masked"]


def test_the_ledger_refuses_what_a_rule_forbids() -> None:
    world = started()
    world.run()
    ledger: MemorySessionLedger = world.ledgers["a"]
    (entry,) = ledger.entries(QUERY)
    assert entry.prepared is not None
    with pytest.raises(LedgerError, match="expected prepared"):
        ledger.send(QUERY)  # R1
    with pytest.raises(LedgerError, match="expected prepared"):
        ledger.withdraw(QUERY)  # R1
    with pytest.raises(LedgerError, match="used before"):
        ledger.open(QUERY, entry)  # R5
    with pytest.raises(LedgerError, match="has sent its value"):
        ledger.open(QUERY, replace(entry, view=1))  # R1
    with pytest.raises(LedgerError, match="attempt 3"):
        ledger.open(QUERY, replace(entry, attempt=2))  # R5
    with pytest.raises(LedgerError, match="expected opened"):
        ledger.prepare(QUERY, entry.prepared)  # R6
    ledger.open(QUERY, replace(entry, attempt=1, sid=bytes(32)))
    with pytest.raises(LedgerError, match="another session"):
        ledger.prepare(QUERY, entry.prepared)
    ledger.prepare(QUERY, entry.prepared._replace(sid=bytes(32)))
    with pytest.raises(LedgerError, match="only after Ready"):
        ledger.send(QUERY)
    ledger.ready(QUERY, bytes(32))
    with pytest.raises(LedgerError, match="other commitments"):
        ledger.ready(QUERY, bytes([1]) * 32)  # R6
    assert (ledger.charged, ledger.reserved) == (EPS, EPS)
    ledger.withdraw(QUERY)
    assert (ledger.charged, ledger.reserved) == (EPS, Fraction(0))


def test_a_second_value_of_an_attempt_is_refused_whatever_came_before() -> None:
    """R1 by itself: `opened` admits no second view after SENT, and `sent` does not rely on it."""
    world = started()
    world.run()
    (first,) = world.ledgers["a"].entries(QUERY)
    second = replace(first, view=1, stage=Stage.PREPARED)
    for stage in (Stage.SENT, Stage.REFUNDED):
        with pytest.raises(LedgerError, match="has sent a value"):
            rules.sent(QUERY, (replace(first, stage=stage), second))
    later = rules.sent(QUERY, (first, replace(second, attempt=1)))
    assert [entry.stage for entry in later] == [Stage.SENT, Stage.SENT]


def test_numbers_of_readings_are_public_and_the_mean_is_over_all_of_them() -> None:
    world = World(made_terms(longest_batch=4))
    world.readings |= {"a": 4, "c": 3}
    world.statistics["a"] = (4000, -4000)  # more than one reading's bound allows
    for label in LABELS:
        world.start(label)
    world.run()
    (result,) = results(world)
    assert result.readings == (4, 1, 3, 1, 1)
    assert result.totals == world.expected(result)
    assert result.means == tuple(total / 10 for total in result.totals)
    stored = result.stored(world.terms)
    assert (stored.query, stored.members, stored.totals) == (QUERY, (0, 1, 2, 3, 4), result.totals)
    assert (stored.rho, stored.readings) == (result.rho, result.readings)


def test_a_roster_is_bound_to_its_numbers_of_readings() -> None:
    world = World(made_terms(longest_batch=4))
    for label in LABELS:
        world.start(label)
    present_everywhere(world)
    who = victim(world)
    (entry,) = world.ledgers[who].entries(QUERY)
    good = roster(world, (0, 1, 2, 3, 4), who=who)
    present = participants(world.terms, session_of(world, who).records, entry.sid, good.members)
    assert present is not None
    other = next(label for label in LABELS if label != who)
    changed = present | {other: present[other]._replace(readings=2)}
    rho = masks.roster_digest(world.terms.manifest, entry.sid, changed)
    assert session_of(world, who).objection(entry, good) == ""
    objection = session_of(world, who).objection(entry, good._replace(rho=rho))
    assert objection == "rho of other keys or readings"


def test_more_readings_than_the_longest_batch_are_neither_offered_nor_accepted() -> None:
    world = World(made_terms(longest_batch=4))
    world.readings["a"] = 5
    with pytest.raises(AgentError, match="5 readings in query 3, the terms allow 1 to 4"):
        world.start("a")
    for label in "bcde":
        world.start(label)
    sid = world.terms.sid(QUERY, 0, 0)
    for label in "bcde":
        world.inject(label, Present(sid, "a", EphemeralKey().public, 5))
    world.run("a")
    (result,) = results(world, "bcde")
    assert result.members == tuple("bcde")
