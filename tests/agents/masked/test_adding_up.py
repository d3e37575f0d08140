"""Which public records make a result, and which do not: built by hand, with every member's key."""

from fractions import Fraction
from typing import Any

import pytest

from tests.agents.masked.test_session import (
    hold_back,
    present_everywhere,
    roster,
    session_of,
    stages,
    started,
    victim,
)
from tests.agents.masked.world import EPSILON, LABELS, QUERY, World, signing_key
from veilsum.agents.masked import masks
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.masks import EphemeralKey, Participant
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    commitment,
    commitments_digest,
    sign,
)
from veilsum.agents.masked.results import SumResult, add_up
from veilsum.agents.masked.roster import participants


class Transcript:
    """A whole session of some members, whose masked values are 1, 2, 3, ... and carry no masks."""

    def __init__(self, members: str) -> None:
        world = World()
        self.terms = world.terms
        world.start("a")
        self.session = session_of(world, "a")
        self.sid = self.terms.sid(QUERY, 0, 1)  # the next view: a says nothing in it
        self.numbers = tuple(LABELS.index(one) for one in members)
        self.labels, self.salt = members, bytes(32)
        keys = {one: Participant(EphemeralKey().public) for one in members}
        self.rho = masks.roster_digest(self.terms.manifest, self.sid, keys)
        words = {one: (1 + k, 7) for k, one in enumerate(members)}
        hidden = {one: commitment(self.sid, one, words[one], self.salt) for one in members}
        self.gamma = commitments_digest(self.rho, hidden)
        proposer = self.terms.proposer(QUERY, 0, 1)
        self.records: list[Record] = [
            *(Present(self.sid, one, *keys[one]) for one in members),
            Roster(self.sid, proposer, self.rho, self.numbers),
            *(Commit(self.sid, one, self.rho, hidden[one]) for one in members),
            *(Ready(self.sid, one, self.rho, self.gamma) for one in members),
            *(
                Masked(self.sid, one, self.rho, self.gamma, self.salt, words[one])
                for one in members
            ),
        ]

    def result(self) -> SumResult | None:
        for record in self.records:
            signed = sign(record, self.terms.manifest, signing_key(record.label))
            self.session.records.add(signed)
        return add_up(self.terms, self.session.records, QUERY, 0, 1, self.sid)


def test_a_whole_transcript_has_a_result_for_an_agent_outside_of_it() -> None:
    found = Transcript("bcde").result()
    assert found is not None
    assert (found.members, found.totals) == (tuple("bcde"), (10, 28))


def test_a_roster_of_too_few_has_no_result() -> None:
    assert Transcript("cde").result() is None


@pytest.mark.parametrize("missing", range(4 + 1 + 3 * 4))
def test_without_any_one_record_there_is_no_result(missing: int) -> None:
    transcript = Transcript("bcde")
    del transcript.records[missing]
    assert transcript.result() is None


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (4, {"rho": bytes(32)}), (4, {"members": (0, 1, 2, 3)}), (4, {"members": (1, 2, 3, 4, 5)}),
        (5, {"commitment": bytes(32)}), (9, {"gamma": bytes(32)}), (13, {"words": (2, 7)}),
        (13, {"gamma": bytes(32)}), (13, {"salt": bytes([1]) * 32}), (13, {"words": (1,)}),
    ],
)  # fmt: skip
def test_a_record_that_does_not_fit_the_others_gives_no_result(at: int, change: Any) -> None:
    transcript = Transcript("bcde")
    transcript.records[at] = transcript.records[at]._replace(**change)
    assert transcript.result() is None


def test_a_second_commitment_and_its_value_are_not_those_that_all_were_ready_for() -> None:
    world = started()
    hold_back(world, "e")
    entry = world.ledgers["e"].entries(QUERY)[0]
    other, salt = (3, 4), bytes(32)
    world.inject("a", Commit(entry.sid, "e", entry.rho, commitment(entry.sid, "e", other, salt)))
    world.inject("a", Masked(entry.sid, "e", entry.rho, entry.gamma, salt, other))
    assert session_of(world, "a").result is None
    world.settle()
    found = session_of(world, "b").result
    assert found is not None
    assert session_of(world, "a").result == found
    assert found.totals == world.expected(found)


def test_nobody_sends_while_one_is_ready_for_other_commitments() -> None:
    world = started()
    for _ in range(4):
        for source in LABELS:
            for to in LABELS:
                world.exchange(
                    source, to, lambda s: isinstance(s.record, Present | Roster | Commit)
                )
    entry = world.ledgers["e"].entries(QUERY)[0]
    for to in "abcd":
        world.inject(to, Ready(entry.sid, "e", entry.rho, bytes(32)))
    for _ in range(3):
        for source in "abcd":
            for to in "abcd":
                world.exchange(source, to, lambda s: s.record.label != "e")
    for label in "abcd":
        assert stages(world, label) == [Stage.PREPARED]
        assert world.ledgers[label].charged == 0
        assert world.ledgers[label].reserved == Fraction(EPSILON)


def test_a_restarted_member_is_not_ready_for_other_commitments_than_before() -> None:
    world = started()
    for _ in range(4):
        for source in LABELS:
            for to in LABELS:
                world.exchange(
                    source, to, lambda s: isinstance(s.record, Present | Roster | Commit)
                )
    entry = world.ledgers["a"].entries(QUERY)[0]
    assert entry.gamma
    world.kill("a")
    world.start("a")
    world.inject("a", Commit(entry.sid, "e", entry.rho, bytes(32)))
    for source in "bcd":
        world.exchange(source, "a", lambda s: s.record.label != "e")
    said = {
        s.record.gamma
        for s in world.published["a"]
        if isinstance(s.record, Ready) and s.record.sid == entry.sid
    }
    assert said == {entry.gamma}
    assert Stage.SENT not in stages(world, "a")


def test_a_member_with_two_keys_is_in_no_roster() -> None:
    world = started()
    sid = present_everywhere(world)
    who = victim(world)
    other = next(one for one in LABELS if one != who)
    proposed = roster(world, (0, 1, 2, 3, 4), who=who)
    (entry,) = world.ledgers[who].entries(QUERY)
    assert session_of(world, who).objection(entry, proposed) == ""
    world.inject(who, Present(sid, other, EphemeralKey().public))
    assert "two keys" in session_of(world, who).objection(entry, proposed)
    world.inject(who, proposed)
    assert stages(world, who) == [Stage.OPENED]


def test_a_member_that_fell_silent_is_in_no_later_roster() -> None:
    world = started()
    hold_back(world, "e")
    world.fire("a", "attempt")
    sid, session = world.terms.sid(QUERY, 1, 0), session_of(world, "a")
    for label in "bcde":
        world.inject("a", Present(sid, label, EphemeralKey().public))
    entry = world.ledgers["a"].entries(QUERY)[-1]
    for members, words in (((0, 1, 2, 3, 4), "fell silent"), ((0, 1, 2, 3), "")):
        keys = participants(world.terms, session.records, sid, members)
        assert keys is not None
        rho = masks.roster_digest(world.terms.manifest, sid, keys)
        proposed = Roster(sid, world.terms.proposer(QUERY, 1, 0), rho, members)
        found = session.objection(entry, proposed)
        assert words in found
        assert bool(found) is bool(words)


def test_a_second_key_shown_first_does_not_hide_a_result_from_an_agent_outside() -> None:
    transcript = Transcript("bcde")
    transcript.records.insert(0, Present(transcript.sid, "e", EphemeralKey().public))
    assert transcript.result() is not None


def test_a_late_result_of_an_earlier_attempt_releases_what_is_prepared() -> None:
    world = started()
    hold_back(world, "e")
    for label in "abcd":
        world.fire(label, "attempt")
    for _ in range(3):
        for source in "abcd":
            for to in "abcd":
                world.exchange(source, to, lambda s: isinstance(s.record, Present))
    for label in "abcd":
        world.fire(label, "proposal")
    for source in "abcd":
        for to in "abcd":
            world.exchange(source, to, lambda s: isinstance(s.record, Roster))
    assert {stages(world, label)[-1] for label in "abcd"} == {Stage.PREPARED}
    world.settle()
    for label in "abcd":
        found = session_of(world, label).result
        assert found is not None
        assert found.attempt == 0
        assert found.totals == world.expected(found)
        assert stages(world, label) == [Stage.SENT, Stage.WITHDRAWN]
        assert world.ledgers[label].reserved == 0
        assert world.ledgers[label].charged == Fraction(EPSILON)
