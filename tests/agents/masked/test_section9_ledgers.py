"""Attacks on what an agent remembers: kills, restored and copied ledgers, retries, slow noise.

The index of all attacks is in `tests/attacks/test_masked_section9.py`.
"""

import copy
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.masked.adversary import (
    EPS,
    closed_sums,
    exchange_among,
    said,
    session_at,
    stages,
    unchecked_terms,
    without,
    world_of,
)
from tests.agents.masked.world import LABELS, QUERY, World, made_terms
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.masks import to_words
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    SignedRecord,
    Withdraw,
    commitment,
    encode_record,
)
from veilsum.agents.masked.roster import Missing
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.algorithms.masked_session import RECORD_BYTES
from veilsum.errors import LedgerError, PrivacyError
from veilsum.privacy.masked import MaskedParameters


@pytest.mark.parametrize("durable", [True, False])
def test_a_kill_right_after_a_value_was_sent_leaves_one_value(durable: bool) -> None:
    """a's Ready is held back, so a alone sends; then it is killed and all others withdraw.

    The weakened variant writes SENT some time after Masked: the write is lost in the kill, a withdraws
    with the others, and sends a second value in the next view, for one charge.
    """
    world = world_of()
    held = {Ready, Masked}
    exchange_among(world, LABELS, lambda s: not isinstance(s.record, Ready | Masked))
    before = copy.deepcopy(world.ledgers["a"])
    exchange_among(world, LABELS, lambda s: not (type(s.record) in held and s.record.label == "a"))
    assert len(said(world, "a", Masked)) == 1
    assert {stages(world, label)[-1] for label in "bcde"} == {Stage.PREPARED}
    world.kill("a")
    if not durable:
        world.ledgers["a"] = before
    world.start("a")
    for label in LABELS:
        world.fire(label, "view")
    exchange_among(world, LABELS, lambda s: s.record.sid != world.terms.sid(QUERY, 0, 0))
    values = {masked.rho for masked in said(world, "a", Masked)}
    assert world.ledgers["a"].charged == EPS
    assert len(values) == (1 if durable else 2)
    if durable:
        world.check(LABELS)
    else:
        with pytest.raises(AssertionError, match="two sent values for one attempt"):
            world.check(LABELS)


def split_attack(terms: MaskedTerms, earlier: Stage, first: str, second: str) -> World:
    """a takes part on one side, its ledger is restored, and it takes part on the other side.

    e colludes: it is on both sides, says what suits it, and shows a nothing of the first one.
    """
    world = world_of(terms=terms, silent="".join(set(terms.labels) - set(first)))
    kept = {}
    if earlier is Stage.PREPARED:
        exchange_among(world, first, lambda s: isinstance(s.record, Present))
        for label in first:
            world.fire(label, "proposal")
        exchange_among(world, first, lambda s: isinstance(s.record, Present | Roster))
    for label in "ae":
        kept[label] = copy.deepcopy(world.ledgers[label])
    assert kept["a"].entries(QUERY)[-1].stage is earlier
    exchange_among(world, first)
    for label in first:
        world.fire(label, "proposal")
    exchange_among(world, first)
    for label in "ae":  # e as well: a colluder forgets what it likes
        world.kill(label)
        world.ledgers[label] = kept[label]
        world.published[label + " before"] = world.published[label][:]
    for label in set(second) - set(first):
        world.start(label)
    for label in "ae":
        world.start(label)
    for _ in range(8):
        exchange_among(world, second, lambda s: not hidden(s, world), rounds=3)
        for timer in ("proposal", "view"):
            for label in second:
                world.fire(label, timer)
                exchange_among(world, second, lambda s: not hidden(s, world), rounds=2)
    return world


def hidden(signed: Any, world: World) -> bool:
    """What a and e said before the ledger was restored."""
    return any(signed in world.published[label + " before"] for label in "ae")


@pytest.mark.parametrize("earlier", [Stage.OPENED, Stage.PREPARED])
def test_a_restored_ledger_in_a_split_network_leaks_if_two_rosters_have_one_honest_member_in_common(
    earlier: Stage,
) -> None:
    """n - c - 2d = 1: a is in two closed sums of one attempt, and its ledger knows of one."""
    with pytest.raises(PrivacyError, match="two honest members in common"):
        MaskedParameters(4, 1, 1, 1.0, 100)
    world = split_attack(unchecked_terms("abce", 1, 1), earlier, "abe", "ace")
    found = closed_sums(world, "abc", "e")
    both = [honest for honest, _ in found if "a" in honest]
    assert sorted(map(sorted, both)) == [["a", "b"], ["a", "c"]]
    assert world.ledgers["a"].charged == EPS < len(both) * EPS


@pytest.mark.parametrize("earlier", [Stage.OPENED, Stage.PREPARED])
@pytest.mark.parametrize("second", ["ade", "acde", "abde"])
def test_a_restored_ledger_in_a_split_network_does_not_leak(second: str, earlier: Stage) -> None:
    """n - c - 2d = 2: a second roster needs a member that has sent, and it does not come."""
    world = split_attack(made_terms(), earlier, "abce", second)
    closed = [honest for honest, _ in closed_sums(world, "abcd", "e") if "a" in honest]
    assert closed == [{"a", "b", "c"}]
    assert len({masked.rho for masked in said(world, "a", Masked)}) == 1


class Readmits(Session):
    """Weakened variant: who fell silent may be in the next roster."""

    def _missing(self, attempt: int) -> Missing:
        del attempt
        return Missing()


@pytest.mark.parametrize("weakened", [False, True])
def test_a_member_that_falls_silent_after_ready_again_and_again_drains_at_most_a_attempts(
    weakened: bool,
) -> None:
    """e hears everything and never sends: it reads the honest sum once per attempt."""
    terms = unchecked_terms(LABELS, 1, 1, attempts=5) if weakened else made_terms()
    world = world_of(Readmits if weakened else Session, terms)
    for _ in range(6):
        exchange_among(world, LABELS, lambda s: not isinstance(s.record, Masked))
        exchange_among(world, "abcd", without("e", Masked))
        for label in LABELS:
            world.fire(label, "attempt")
    drawn = {label: len(world.drawn[label]) for label in "abcd"}
    spent = {world.ledgers[label].charged for label in "abcd"}
    if weakened:
        assert spent == {5 * EPS}
        return
    assert spent == {2 * EPS}
    assert {session_at(world, label).reason for label in "abcd"} == {"sum"}  # without e
    assert set(drawn.values()) == {2}


class Forgiving(Session):
    """Weakened variant: a withdrawal, or a value that opens another commitment, is as good as a value."""

    def _missing(self, attempt: int) -> Missing:
        found = super()._missing(attempt)
        sid = self.terms.sid(QUERY, 0, 0)
        heard = {self.terms.numbers[label] for label in self.records.of(sid, "Masked")}
        return Missing(found.silent - heard)


@pytest.mark.parametrize("session", [Session, Forgiving])
@pytest.mark.parametrize("excuse", ["nothing", "junk", "withdraws", "another", "both"])
def test_whoever_has_not_opened_its_commitment_is_left_out(excuse: str, session: Any) -> None:
    """e says something else instead of its value, and would do so in every attempt."""
    world = world_of(session)
    vars(session_at(world, "e"))["_missing"] = lambda _: Missing()
    exchange_among(world, LABELS, lambda s: not isinstance(s.record, Masked))
    entry = world.ledgers["a"].entries(QUERY)[0]
    place = entry.sid, "e", entry.rho
    hidden = commitment(entry.sid, "e", (1, 2), bytes(32))
    junk = Masked(*place, entry.gamma, bytes(32), (1, 2))
    said: dict[str, list[Any]] = {
        "nothing": [], "junk": [junk], "withdraws": [Withdraw(*place)],
        "another": [Commit(*place, hidden), junk],
        "both": [Commit(*place, hidden), junk, Withdraw(*place)],
    }  # fmt: skip
    for record in said[excuse]:
        for label in "abcd":
            world.inject(label, record)
    exchange_among(world, "abcd", without("e", Masked))
    for label in LABELS:
        world.fire(label, "attempt")
    assert world.terms.proposer(QUERY, 1, 0) != "e"
    for _ in range(6):
        exchange_among(world, "abcd", lambda s: not isinstance(s.record, Masked), rounds=1)
        for label in "abcd":
            world.exchange("e", label, without("e", Masked))
            world.exchange(
                label, "e", lambda s: not isinstance(s.record, Masked) and s.record.label != "e"
            )
    second = world.ledgers["a"].entries(QUERY)[-1]
    assert (second.attempt, second.stage) == (1, Stage.SENT)
    assert second.prepared is not None
    weak = session is Forgiving and excuse in ("withdraws", "another", "both")
    assert (4 in second.prepared.members) is weak
    exchange_among(world, "abcd", without("e", Masked))
    assert {session_at(world, label).reason for label in "abcd"} == {"" if weak else "sum"}


def test_members_that_withdrew_are_kept_where_too_few_would_remain() -> None:
    """Two honest ones did not hear in time that all were ready."""
    world = world_of()
    exchange_among(world, LABELS, lambda s: not isinstance(s.record, Ready | Masked))
    for source in LABELS:
        for to in "abe":
            world.exchange(source, to, lambda s: isinstance(s.record, Ready))
    for label in "cd":
        world.fire(label, "view")
    world.settle()
    for label in "abe":
        world.fire(label, "attempt")
    world.run()
    (result,) = {session_at(world, label).result for label in LABELS}
    assert result is not None
    assert (result.attempt, len(result.members)) == (1, 4)
    assert world.terms.proposer(QUERY, 1, 0) == "d"  # it does not leave itself out
    assert "c" not in result.members


class Endless(Session):
    """Weakened variant: a session does not know how many attempts there are; its ledger does."""

    def _has_attempt(self, attempt: int) -> bool:  # noqa: ARG002
        return True


@pytest.mark.parametrize("session", [Session, Endless])
def test_a_further_attempt_is_refused_before_anything_is_drawn(session: Any) -> None:
    """d and e fall silent one after the other: there is no third attempt, nor noise for one."""
    world = world_of(session)
    exchange_among(world, LABELS, without("e", Masked))
    for label in "abcd":
        world.fire(label, "attempt")
    exchange_among(world, "abcd", without("d", Masked))
    before = {label: len(world.drawn[label]) for label in "abc"}
    assert set(before.values()) == {2}
    for label in "abc":
        if session is Endless:
            with pytest.raises(LedgerError, match="attempt 3"):
                world.fire(label, "attempt")
            assert len(world.drawn[label]) == before[label] + 1  # refused, but drawn
            continue
        world.fire(label, "attempt")
        assert session_at(world, label).reason == "attempts"
        entry = world.ledgers[label].entries(QUERY)[-1]
        with pytest.raises(LedgerError, match="attempt 3"):
            world.ledgers[label].open(QUERY, type(entry)(2, 0, bytes(32)))
    if session is Session:
        assert {label: len(world.drawn[label]) for label in "abc"} == before


class Deaf(Session):
    """Weakened variant: own records of another process are overlooked."""

    def receive(self, signed: Any) -> Any:
        return super().receive([one for one in signed if one.record.label != self.label])


@pytest.mark.parametrize("session", [Session, Deaf])
def test_a_copied_directory_is_noticed_before_both_send(session: Any) -> None:
    """Two processes have a's key and ledger; each side of a split network has one of them.

    n - c - 2d = 1, so that two rosters can be closed: what stops this is that a hears itself.
    """
    terms = unchecked_terms("abce", 1, 1)
    sides = []
    for side in ("abe", "ace"):
        world = World(terms, session=session)
        for label in side:
            world.start(label)
        sides.append((side, world))
    (_, one), (_, other) = sides
    for here, there in ((one, other), (other, one)):  # somebody carries one record across
        mine = [s for s in session_at(here, "a").records if s.record.label == "a"]
        there.act("a", session_at(there, "a").receive, mine[:1])
    sent = []
    for side, world in sides:
        world.run(rounds=3)
        exchange_among(world, side)
        sent += said(world, "a", Masked)
    assert len({masked.rho for masked in sent}) == (0 if session is Session else 2)
    if session is Session:
        assert {session_at(world, "a").reason for _, world in sides} == {"cloned"}


class DrawsLate(Session):
    """Weakened variant: noise is drawn when it is needed, between the roster and the Commit."""

    def objection(self, entry: Any, roster: Any) -> str:
        found = super().objection(entry, roster)
        if not found:
            self._noise = self._draw()
        return found


def times_of(session: type[Session], seconds: int) -> list[tuple[str, int]]:
    """When a's records became visible, on a clock that only drawing moves."""
    seen: list[tuple[str, int]] = []
    clock = 0

    class Timed(session):  # type: ignore[misc, valid-type]
        def _publish(self, record: Any) -> None:
            super()._publish(record)
            if self.label == "a":
                seen.append((type(record).__name__, clock))

        def start(self) -> Any:
            nonlocal clock
            draw: Any = self._draw  # type: ignore[has-type]
            ahead = [draw()]  # by the driver, at a time that nobody sees

            def slow() -> Any:
                nonlocal clock
                if ahead:
                    return ahead.pop()
                clock += seconds
                return draw()

            self._draw = slow
            return super().start()

    world = world_of(Timed)
    world.run()
    assert session_at(world, "a").result is not None
    assert [kind for kind, _ in seen if kind != "Roster"] == [
        "Present", "Commit", "Ready", "Masked",
    ]  # fmt: skip
    return seen


def test_a_noise_source_that_sleeps_moves_no_message() -> None:
    assert times_of(Session, 0) == times_of(Session, 1000)
    assert times_of(DrawsLate, 0) != times_of(DrawsLate, 1000)  # the weakened variant shows it


@pytest.mark.parametrize("weakened", [False, True])
def test_a_commitment_that_was_withdrawn_is_not_opened_by_trying_all_sums(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a is ready, hears too late that all are, and withdraws; all others have published.

    Their values fix a's but for the sum, of which there are few. The weakened variant has a salt that
    is known: the sum that fits a's commitment is read, and a is not charged.
    """
    if weakened:
        known = SimpleNamespace(urandom=bytes)
        monkeypatch.setattr("veilsum.agents.masked.session.os", known)
    world = world_of()
    for _ in range(6):
        for source in LABELS:
            for to in LABELS:
                late = to == "a"
                world.exchange(
                    source, to, lambda s, late=late: not (late and isinstance(s.record, Ready))
                )
    world.fire("a", "view")
    assert stages(world, "a")[0] is Stage.WITHDRAWN
    assert world.ledgers["a"].charged == 0
    values = [to_words(one.words) for label in "bcde" for one in said(world, label, Masked)]
    assert len(values) == 4
    (hidden,) = said(world, "a", Commit)
    rest = sum(values[1:], values[0])
    found = []
    for total in product(range(60, 120), range(450, 550)):
        words = tuple(int(word) for word in to_words(total) - rest)
        if commitment(hidden.sid, "a", words, bytes(32)) == hidden.commitment:
            found.append(total)
    noised = [
        [x + eta for x, eta in zip(world.statistics[one], world.drawn[one][0], strict=True)]
        for one in LABELS
    ]
    assert found == [tuple(sum(column) for column in zip(*noised, strict=True))] * weakened


class Fastidious(Session):
    """Weakened variant: a member refuses to send a value with much noise, and begins anew."""

    def objection(self, entry: Any, roster: Any) -> str:
        return super().objection(entry, roster) or ("much noise" if self._noise[1] > 500 else "")


@pytest.mark.parametrize("session", [Session, Fastidious])
def test_kinds_and_sizes_of_records_do_not_depend_on_readings_or_noise(session: Any) -> None:
    """R6: the same sequence whatever is measured and drawn."""

    def seen(drawn_before: int, statistic: int) -> list[tuple[str, int]]:
        world = World(session=session)
        for label in LABELS:
            world.statistics[label] = (statistic, -statistic)
            world.drawn[label] = [(0, 0)] * drawn_before
            world.start(label)
        world.run()
        return [(type(s.record).__name__, len(encode_record(s))) for s in world.published["a"]]

    assert seen(0, 0) == seen(3, 90)
    assert (seen(0, 0) == seen(500, -100)) is (session is Session)


def test_the_formula_of_bytes_is_that_of_the_records() -> None:
    """`MaskedSum.bytes_per_link` counts records of one number and a label of three bytes."""
    sid = rho = gamma = salt = bytes(32)
    found: list[Any] = [
        Present(sid, "abc", bytes(32)),
        Commit(sid, "abc", rho, bytes(32)),
        Ready(sid, "abc", rho, gamma),
        Masked(sid, "abc", rho, gamma, salt, (1,)),
    ]
    sizes = [4 + len(encode_record(SignedRecord(one, bytes(64)))) for one in found]
    assert sum(sizes) == RECORD_BYTES
