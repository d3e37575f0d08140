"""Attacks by proposers and by members that say two things: no value is sent, or nothing is read.

The index of all attacks is in `tests/attacks/test_masked_section9.py`.
"""

from itertools import count
from typing import Any

import pytest

from tests.agents.masked.adversary import (
    EPS,
    Lenient,
    Puppet,
    exchange_among,
    presences,
    said,
    session_at,
    stages,
    value,
    world_of,
)
from tests.agents.masked.world import LABELS, QUERY, FragileLedger, World, made_terms, signing_key
from veilsum.agents.masked import masks, records
from veilsum.agents.masked import session as session_module
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    commitment,
    commitments_digest,
)
from veilsum.agents.masked.roster import objection
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.errors import AgentError

THREE = "abc"  # one colluder, nobody absent: h = 2, and a roster has all three


class TooFew(Lenient):
    """Weakened variant: a roster may be smaller than n - d."""

    ignored = "at least"


class AnyNumber(Lenient):
    """Weakened variant: numbers of no member count as members."""

    ignored = "a number of no member"


class OpenTerms(MaskedTerms):
    """Weakened variant: one more name than the manifest has, which anybody may take."""

    def __post_init__(self) -> None:
        pass


def trio(session: type[Session], terms: MaskedTerms | None = None) -> tuple[World, Puppet, str]:
    """Three members, of whom the proposer colludes; the world, the puppet and its victim."""
    terms = terms or made_terms(1, 0, THREE)
    colluder = terms.proposer(QUERY, 0, 0)
    assert colluder in THREE
    world = world_of(session, terms, silent=colluder + "z")
    puppet = Puppet(world, colluder)
    victim = next(label for label in THREE if label != colluder)
    for to in THREE.replace(colluder, ""):
        puppet.present(to)
    return world, puppet, victim


def pair(puppet: Puppet, victim: str) -> tuple[str, tuple[int, ...]]:
    labels = "".join(sorted(victim + puppet.label))
    return labels, tuple(THREE.index(label) for label in labels)


@pytest.mark.parametrize("session", [Session, TooFew])
def test_a_roster_of_one_less_than_n_minus_d_reads_nobody(session: Any) -> None:
    """F = {victim, colluder}: the colluder knows the only mask, and the noise is half of what it is."""
    world, puppet, victim = trio(session)
    labels, members = pair(puppet, victim)
    roster = puppet.propose(victim, members, labels)
    puppet.go_on(victim, roster.rho)
    if session is Session:
        assert stages(world, victim) == [Stage.OPENED]
        assert not said(world, victim, Commit)
        return
    (masked,) = said(world, victim, Masked)
    found = presences(world, victim, puppet.sid, labels)
    assert puppet.read(masked.words, victim, found) == value(world, victim)
    numbers = world.terms.parameters
    steps = numbers.sensitivity_steps
    half = numbers.noise_of(1).epsilon(steps, float(steps))
    assert half > 4 * numbers.epsilon


@pytest.mark.parametrize("weakened", [False, True])
def test_a_roster_that_repeats_a_name_reads_nobody(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F = (victim, colluder, colluder) has three entries; a bitmap has no place for the third."""
    world, puppet, victim = trio(Session)
    world.settle()
    labels, members = pair(puppet, victim)
    number = THREE.index(puppet.label)
    repeated = tuple(sorted((*members, number)))
    if not weakened:
        with pytest.raises(AgentError, match="increasing numbers"):
            puppet.propose(victim, repeated, labels)
        assert stages(world, victim) == [Stage.OPENED]
        return
    monkeypatch.setattr(records, "_bitmap", bytes)  # and whoever counts entries is content
    monkeypatch.setattr(session_module, "agreed_commitments", lambda *_: bytes(32))
    monkeypatch.setattr(session_module, "all_ready", lambda *_: True)
    roster = puppet.propose(victim, repeated, labels)
    puppet.go_on(victim, roster.rho)
    entry = world.ledgers[victim].entries(QUERY)[0]
    assert entry.stage is Stage.SENT
    assert entry.prepared is not None
    found = presences(world, victim, puppet.sid, labels)
    assert puppet.read(entry.prepared.words, victim, found) == value(world, victim)


@pytest.mark.parametrize("weakened", [False, True])
def test_a_roster_with_a_name_of_no_member_reads_nobody(weakened: bool) -> None:
    """F = {victim, colluder, z}: z is in no manifest, and the adversary's."""
    terms = made_terms(1, 0, THREE)
    if weakened:
        extra = "z", signing_key("z").public_key().public_bytes_raw()
        named = (*terms.members, extra)
        tried = (
            OpenTerms(terms.manifest, bytes([k]) * 16, named, terms.parameters) for k in count()
        )
        terms = next(made for made in tried if made.proposer(QUERY, 0, 0) in THREE)
    world, puppet, victim = trio(AnyNumber if weakened else Session, terms)
    outsider = Puppet(world, "z")
    outsider.present(victim)
    labels, members = pair(puppet, victim)
    if not weakened:
        assert session_at(world, victim).records.get(puppet.sid, "Present", "z") is None
        found = presences(world, victim, puppet.sid, labels)
        rho = masks.roster_digest(world.terms.manifest, puppet.sid, found)
        world.inject(victim, Roster(puppet.sid, puppet.label, rho, (*members, 3)))
        assert stages(world, victim) == [Stage.OPENED]
        return
    roster = puppet.propose(victim, (*members, 3), labels + "z")
    for one in (puppet, outsider):
        world.inject(victim, Commit(one.sid, one.label, roster.rho, bytes(32)))
    for one in (puppet, outsider):
        one.go_on(victim, roster.rho)
    (masked,) = said(world, victim, Masked)
    found = presences(world, victim, puppet.sid, labels + "z")
    once = puppet.read(masked.words, victim, found)
    assert outsider.read(tuple(w % 2**64 for w in once), victim, found) == value(world, victim)


class AnyOwnKey(Lenient):
    """Weakened variant: rho need not be that of the keys that the agent knows, its own included."""

    ignored = "rho of other keys"


@pytest.mark.parametrize("session", [Session, AnyOwnKey])
def test_a_roster_with_a_foreign_own_key_costs_nothing(session: Any) -> None:
    """Else members pay for values whose masks are bound to keys that nobody has."""
    world, puppet, victim = trio(session)
    world.settle()
    own = presences(world, victim, puppet.sid, victim)[victim]
    foreign = own._replace(key=EphemeralKey().public)
    roster = puppet.propose(victim, (0, 1, 2), THREE, **{victim: foreign})
    others = THREE.replace(puppet.label, "")
    for to in others:
        world.inject(to, roster)
    for _ in range(2):
        world.settle()
        for to in others:
            puppet.go_on(to, roster.rho)
    spent = {world.ledgers[label].charged for label in others}
    assert spent == ({0} if session is Session else {EPS})
    assert all(session_at(world, label).result is None for label in others)


def test_a_second_roster_of_a_session_is_not_followed() -> None:
    """R6: one Commit per session, whatever else its proposer says."""
    world = world_of()
    world.settle()
    proposer = world.terms.proposer(QUERY, 0, 0)
    left = next(label for label in LABELS if label != proposer)
    others = LABELS.replace(left, "")
    numbers = tuple(LABELS.index(label) for label in others)
    puppet = Puppet(world, proposer)
    for to in others.replace(proposer, ""):
        puppet.propose(to, numbers, others)
    assert {len(said(world, label, Commit)) for label in LABELS} == {1}


def test_a_variant_that_follows_two_rosters_of_a_session_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weakened variant: rosters keyed by bytes, so an agent sends for each, with one key and noise.

    Each roster is played by itself with the same keys and noise: two closed sums, whose difference is
    the value of the member that one of them lacks.
    """
    kept = {label: EphemeralKey() for label in LABELS}
    monkeypatch.setattr(EphemeralKey, "drop", lambda _: None)
    left = "a" if made_terms().proposer(QUERY, 0, 0) != "a" else "b"
    sums = []
    for roster in (LABELS, LABELS.replace(left, "")):
        turn = iter(roster)
        monkeypatch.setattr(masks, "EphemeralKey", lambda turn=turn: kept[next(turn)])
        world = world_of(silent="" if left in roster else left)
        world.settle()
        for label in roster:
            world.fire(label, "proposal")
        world.settle()
        result = session_at(world, "c").result
        assert result is not None
        assert (result.members, result.view) == (tuple(roster), 0)
        sums.append((result.totals, world))
    read = tuple(one - other for one, other in zip(sums[0][0], sums[1][0], strict=True))
    assert read == value(sums[0][1], left)


def any_ready(records: Any, sid: bytes, _: bytes, __: bytes, labels: tuple[str, ...]) -> bool:
    """Weakened variant: a Ready counts whatever it is for."""
    return all(records.get(sid, "Ready", label) is not None for label in labels)


@pytest.mark.parametrize("weakened", [False, True])
def test_two_commitments_of_one_member_cost_nobody_anything(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """e commits to one value before a and b, to another before c and d, and keeps them apart."""
    if weakened:
        monkeypatch.setattr(session_module, "all_ready", any_ready)
    world = world_of()
    exchange_among(world, LABELS, lambda s: isinstance(s.record, Present | Roster))
    entry = world.ledgers["e"].entries(QUERY)[0]
    assert stages(world, "a") == [Stage.PREPARED]
    sides = {"ab": (1, 2), "cd": (3, 4)}
    for side, words in sides.items():
        hidden = commitment(entry.sid, "e", words, bytes(32))
        for to in side:
            world.inject(to, Commit(entry.sid, "e", entry.rho, hidden))
    exchange_among(world, "abcd", lambda s: s.record.label != "e")
    for to in "abcd":  # e is ready for whatever each of them is ready for
        (ready,) = said(world, to, Ready)
        world.inject(to, Ready(entry.sid, "e", entry.rho, ready.gamma))
    exchange_among(world, "abcd", lambda s: s.record.label != "e")
    assert len({said(world, to, Ready)[0].gamma for to in "abcd"}) == 2
    spent = {world.ledgers[label].charged for label in "abcd"}
    if weakened:
        assert spent == {EPS}  # paid for, and there is no sum that all have
        assert {session_at(world, label).result for label in "abcd"} == {None}
        return
    assert spent == {0}
    exchange_among(world, "abcd")  # the two commitments meet: evidence, and all withdraw
    assert all(stages(world, label)[0] is Stage.WITHDRAWN for label in "abcd")
    assert all(world.ledgers[label].charged == 0 for label in "abcd")
    session_a = session_at(world, "a")
    assert session_a.records.contradicted(entry.sid, "Commit", "e")


@pytest.mark.parametrize("weakened", [False, True])
def test_a_member_that_is_never_ready_costs_nobody_anything(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant sends as soon as it has all commitments."""
    if weakened:
        monkeypatch.setattr(session_module, "all_ready", lambda *_: True)
    world = world_of()
    exchange_among(
        world,
        LABELS,
        lambda s: not (s.record.label == "e" and isinstance(s.record, Ready | Masked)),
    )
    spent = {world.ledgers[label].charged for label in "abcd"}
    assert spent == ({EPS} if weakened else {0})
    assert {session_at(world, label).result for label in "abcd"} == {None}


@pytest.mark.parametrize("weakened", [False, True])
def test_two_readys_of_one_member_are_evidence(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """e is ready for other commitments before the others: nobody sends, and it is found out."""
    if weakened:
        monkeypatch.setattr(session_module, "all_ready", any_ready)
    world = world_of()
    exchange_among(world, LABELS, lambda s: isinstance(s.record, Present | Roster | Commit))
    entry = world.ledgers["e"].entries(QUERY)[0]
    false = commitments_digest(entry.rho, {label: bytes(32) for label in LABELS})
    for to in "abcd":
        world.inject(to, Ready(entry.sid, "e", entry.rho, false))
    exchange_among(world, "abcd", lambda s: s.record.label != "e")
    spent = {world.ledgers[label].charged for label in "abcd"}
    assert spent == ({EPS} if weakened else {0})
    exchange_among(world, LABELS)
    assert session_at(world, "a").records.contradicted(entry.sid, "Ready", "e")


def test_a_wrapped_or_implausible_sum_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """e adds 2^63 to a component: read centred, the sum of a variant without bounds is far off."""
    for weakened in (False, True):
        if weakened:
            monkeypatch.setattr(
                "veilsum.privacy.masked.MaskedParameters.plausible", lambda *_: True
            )
        world = World()
        world.statistics["e"] = (2**63, 0)
        for label in LABELS:
            world.start(label)
        world.settle()
        results = {session_at(world, label).result for label in LABELS}
        if not weakened:
            assert results == {None}
            continue
        (result,) = results
        assert result is not None
        assert abs(result.totals[0]) > 2**62


def test_a_roster_with_too_long_a_batch_is_not_accepted_whoever_proposes_it() -> None:
    """The sum would be refused as implausible, with epsilon spent."""
    world = World(made_terms(longest_batch=4))
    for label in "bcde":
        world.start(label)
    sid = world.terms.sid(QUERY, 0, 0)
    proposer = world.terms.proposer(QUERY, 0, 0)
    who = next(label for label in "bcde" if label != proposer)
    for readings, words in ((5, "too many readings"), (4, "")):
        world.kill(who)
        world.ledgers[who] = FragileLedger()
        world.start(who)
        for label in "bcde":
            world.exchange(label, who, lambda s: isinstance(s.record, Present))
        session = session_at(world, who)
        world.inject(who, Present(sid, "a", EphemeralKey().public, readings))
        found = presences(world, who, sid, LABELS)
        assert found["a"].readings == readings
        rho = masks.roster_digest(world.terms.manifest, sid, found)
        proposed = Roster(sid, proposer, rho, (0, 1, 2, 3, 4))
        (entry,) = world.ledgers[who].entries(QUERY)
        assert words in session.objection(entry, proposed)
        assert bool(session.objection(entry, proposed)) is bool(words)


def test_a_roster_with_another_key_of_this_agent_is_not_accepted_by_itself() -> None:
    """R2: whatever the set of records holds under its name, it is its present key that counts."""
    world = world_of()
    world.settle()
    session, sid = session_at(world, "a"), world.terms.sid(QUERY, 0, 0)
    found = presences(world, "a", sid, LABELS)
    rho = masks.roster_digest(world.terms.manifest, sid, found)
    proposed = Roster(sid, world.terms.proposer(QUERY, 0, 0), rho, (0, 1, 2, 3, 4))
    for own, words in (
        (found["a"], ""),
        (found["a"]._replace(key=EphemeralKey().public), "another key of this agent"),
        (found["a"]._replace(readings=2), "another key of this agent"),
        (None, "this agent has no key"),
    ):
        assert objection(world.terms, session.records, sid, proposed, ("a", own)) == words


def four_of_five() -> tuple[World, str, str, str]:
    """A roster that lacks one member; the proposer's victims, a liar of the roster, who is outside."""
    first = world_of().terms.proposer(QUERY, 0, 0)
    outsider, liar, *victims = (label for label in LABELS if label != first)
    world = world_of(silent=outsider)
    exchange_among(world, LABELS, lambda s: isinstance(s.record, Present))
    world.fire(first, "proposal")
    exchange_among(world, LABELS, lambda s: isinstance(s.record, Present | Roster))
    assert len(world.ledgers[first].entries(QUERY)[0].prepared.members) == 4  # type: ignore[union-attr]
    return world, first + "".join(victims), liar, outsider


@pytest.mark.parametrize("weakened", [False, True])
def test_a_ready_from_outside_the_roster_does_not_make_up_for_one_within(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many are ready as the roster has members; one of them is not in it, and one lies."""
    if weakened:
        monkeypatch.setattr("veilsum.agents.masked.agreement._are_ready", lambda *_: True)
    world, victims, liar, outsider = four_of_five()
    exchange_among(
        world, LABELS, lambda s: isinstance(s.record, Commit) or s.record.label in victims
    )
    entry = world.ledgers[liar].entries(QUERY)[0]
    for to in victims:
        (ready,) = said(world, to, Ready)
        world.inject(to, Ready(entry.sid, liar, entry.rho, bytes(32)))
        world.inject(to, Ready(entry.sid, outsider, entry.rho, ready.gamma))
    assert {world.ledgers[label].charged for label in victims} == ({EPS} if weakened else {0})


@pytest.mark.parametrize("weakened", [False, True])
def test_a_commitment_from_outside_the_roster_does_not_make_up_for_one_within(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if weakened:
        monkeypatch.setattr(
            "veilsum.agents.masked.agreement._gamma",
            lambda rho, found: commitments_digest(
                rho, {one.record.label: one.record.commitment for one in found}
            ),
        )
    world, victims, liar, outsider = four_of_five()
    entry = world.ledgers[liar].entries(QUERY)[0]
    for to in victims:
        world.inject(to, Commit(entry.sid, liar, bytes(32), bytes(32)))
        world.inject(to, Commit(entry.sid, outsider, entry.rho, bytes(32)))
    exchange_among(world, victims)
    assert {len(said(world, label, Ready)) for label in victims} == {int(weakened)}
