"""Members that say two things hide no sum from those who sent, and values that open nothing none at all."""

from typing import Any

import pytest

from tests.agents.masked.adversary import exchange_among, session_at, world_of
from tests.agents.masked.world import LABELS, QUERY, World, made_terms, signing_key
from veilsum.agents.masked import flooding, masks, pool, results
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.flooding import Admission, RecordSet
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    SignedRecord,
    commitment,
    sign,
)
from veilsum.agents.masked.results import add_up

MANY, COLLUDERS = "abcdefghijklmno", "efghijklmno"


def all_sent(world: World) -> Any:
    """Everything gets through but the masked values; the session."""
    labels = "".join(world.terms.labels)
    exchange_among(world, labels, lambda s: not isinstance(s.record, Masked), rounds=4)
    entry = world.ledgers["a"].entries(QUERY)[0]
    assert entry.stage is Stage.SENT
    return entry


def values(world: World) -> list[SignedRecord]:
    said = (one for label in world.terms.labels for one in world.published[label])
    return [one for one in said if isinstance(one.record, Masked)]


def signed(world: World, record: Any) -> SignedRecord:
    return sign(record, world.terms.manifest, signing_key(record.label))


def accept_whatever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weakened variant: a masked value takes a place whether it opens anything or not."""
    monkeypatch.setattr(pool, "opened_by", lambda _: b"")
    monkeypatch.setattr(flooding, "opened_by", lambda _: b"")


@pytest.mark.parametrize(("pooled", "weak"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("junk", ["words", "gamma", "roster"])
def test_values_that_open_nothing_take_no_place(
    pooled: bool, junk: str, weak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them come before the true one, from a member that sends that one to the others."""
    if weak:
        accept_whatever(monkeypatch)
    world = World()
    if pooled:
        world = World(pool=RecordPool(world.terms.manifest, world.terms.keys))
    for label in LABELS:
        world.start(label)
    entry = all_sent(world)
    true = next(one.record for one in values(world) if one.record.label == "e")
    assert isinstance(true, Masked)
    changes: dict[str, Any] = {
        "words": lambda k: true._replace(words=(k, k)),
        "gamma": lambda k: true._replace(gamma=bytes([k]) * 32),
        "roster": lambda k: true._replace(rho=bytes([k]) * 32),
    }
    false = [changes[junk](k) for k in (1, 2)]
    session = session_at(world, "a")
    world.act("a", session.receive, [signed(world, one) for one in false])
    assert session.records.count(entry.sid, "Masked") == 1 + weak
    for label in "bcd":
        world.act(label, session_at(world, label).receive, values(world))
    world.settle()
    assert (session.result is None) is weak
    if not weak:
        assert len({session_at(world, label).result for label in LABELS}) == 1


def test_a_value_waits_for_its_commitment_and_readiness() -> None:
    world = world_of()
    entry = all_sent(world)
    source = session_at(world, "b").records
    late = RecordSet(RecordPool(world.terms.manifest, world.terms.keys), lambda _: True)
    value = next(one for one in values(world) if one.record.label == "e")
    kinds = {k: source.get(entry.sid, k, "e") for k in ("Commit", "Ready")}
    assert late.add(value) is Admission.EARLY
    assert not late.knows(value)
    assert len(late) == 0
    first, second = kinds.values()
    assert first is not None
    assert second is not None
    late.add(first)
    assert late.add(value) is Admission.EARLY
    assert late.add_all([value, second]) == []  # in whichever order they come
    assert late.knows(value)
    assert late.add(value) is Admission.KNOWN


def test_comparison_sends_values_after_what_they_open() -> None:
    world = world_of()
    world.settle()
    records = session_at(world, "a").records
    everything = {bucket: frozenset[bytes]() for bucket in range(256)}
    kinds = [one.place[1] for one in records.lacking(everything)]
    assert kinds.index("Masked") == len(kinds) - kinds.count("Masked")


def second_values(world: World, entry: Any) -> list[SignedRecord]:
    """Of every colluder, another commitment, and a value that opens it for the true gamma."""
    found: list[SignedRecord] = []
    for label in COLLUDERS:
        words, salt = (1, 2), bytes(32)
        hidden = commitment(entry.sid, label, words, salt)
        found.append(signed(world, Commit(entry.sid, label, entry.rho, hidden)))
        made = Masked(entry.sid, label, entry.rho, entry.gamma, salt, words)
        found.append(signed(world, made))
    return found


@pytest.mark.parametrize("weak", [False, True])
def test_whoever_is_ready_does_not_choose_among_values(
    weak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven colluders have two values each, the false one heard first: 2,048 combinations."""
    if weak:
        monkeypatch.setattr(RecordSet, "agreed", lambda *_: None)
    world = world_of(terms=made_terms(11, 1, MANY))
    entry = all_sent(world)
    session = session_at(world, "a")
    world.act("a", session.receive, second_values(world, entry))
    assert session.records.count(entry.sid, "Masked") == 12
    world.act("a", session.receive, values(world))
    assert (session.result is None) is weak
    if session.result is not None:
        assert session.result.totals == world.expected(session.result)


def observed(world: World, entry: Any, *said: SignedRecord) -> Any:
    """What an agent that took no part finds in these records, in this order."""
    records = RecordSet(RecordPool(world.terms.manifest, world.terms.keys), lambda _: True)
    records.add_all(said)
    return add_up(world.terms, records, QUERY, 0, 0, entry.sid)


def test_an_observer_tries_what_it_heard_first_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(terms=made_terms(11, 1, MANY))
    entry = all_sent(world)
    world.settle()
    true = [one for one in session_at(world, "a").records if one.record.sid == entry.sid]
    keys = [signed(world, Present(entry.sid, one, EphemeralKey().public)) for one in COLLUDERS]
    tried: list[bytes] = []
    usual = masks.roster_digest

    def counted(*given: Any) -> bytes:
        tried.append(usual(*given))
        return tried[-1]

    monkeypatch.setattr(masks, "roster_digest", counted)
    assert observed(world, entry, *true, *keys) is not None
    assert len(tried) == 1
    one_first = [keys[0], *true, *keys[1:]]
    assert observed(world, entry, *one_first) is not None
    assert len(tried) <= 1 + 12
    tried.clear()
    assert observed(world, entry, *keys, *true) is None  # stated: colluders can hide it from some
    assert len(tried) == results.MOST_CHOICES


def test_one_that_restarted_finds_the_sum_by_its_gamma() -> None:
    """It has forgotten the commitments; a few contested values are found by trying."""
    world = world_of()
    entry = all_sent(world)
    world.kill("a")
    world.start("a")
    known = list(session_at(world, "b").records)
    words, salt = (5, 6), bytes(32)
    hidden = commitment(entry.sid, "e", words, salt)
    commit = Commit(entry.sid, "e", entry.rho, hidden)
    other = Ready(entry.sid, "e", entry.rho, bytes(32))
    junk = [
        Masked(entry.sid, "e", entry.rho, gamma, salt, words) for gamma in (entry.gamma, bytes(32))
    ]
    session = session_at(world, "a")
    false = [signed(world, one) for one in (commit, other, *junk)]
    world.act("a", session.receive, [*false, *known])
    assert len(session.records.both(entry.sid, "Masked", "e")) == 2
    world.act("a", session.receive, values(world))
    assert len(session.records.both(entry.sid, "Masked", "e")) == 3
    assert session.result is not None
    assert session.result.totals == world.expected(session.result)
