"""Agents of one process: records and masks once, and nobody knows what it has not heard."""

import gc
import pickle
from typing import Any

import numpy as np
import pytest

from tests.agents.masked.test_session import results, session_of, stages
from tests.agents.masked.world import LABELS, QUERY, World, made_terms, signing_key
from veilsum.agents.masked import masks, pool
from veilsum.agents.masked.flooding import Admission, RecordSet
from veilsum.agents.masked.masks import EphemeralKey, PairCache, Participant, pad
from veilsum.agents.masked.pool import RecordBatch, RecordPool
from veilsum.agents.masked.records import (
    Commit,
    Present,
    Roster,
    SignedRecord,
    is_valid,
    sign,
)

TERMS = made_terms()
SID = TERMS.sid(QUERY, 0, 0)


def in_one_process() -> tuple[World, RecordPool]:
    shared = RecordPool(TERMS.manifest, TERMS.keys)
    world = World(TERMS, pool=shared)
    for label in LABELS:
        world.start(label)
    return world, shared


def test_each_pair_is_computed_once_and_each_signature_verified_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = {"exchange": 0, "verify": 0}
    exchange = EphemeralKey.exchange

    def counted(name: str, real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return real(*arguments)

        return call

    monkeypatch.setattr(EphemeralKey, "exchange", counted("exchange", exchange))
    monkeypatch.setattr(pool, "is_valid", counted("verify", is_valid))
    found = []
    for together in (True, False):
        calls.update(exchange=0, verify=0)
        world, shared = in_one_process() if together else (World(TERMS), None)
        for label in LABELS:
            if not together:
                world.start(label)
        world.run()
        (result,) = results(world)
        assert result.totals == world.expected(result)
        assert shared is None or len(shared.pairs) == 0
        found.append(dict(calls))
    assert found[0] == {"exchange": 10, "verify": 21}  # pairs; 4 records of each and the roster
    assert found[1] == {"exchange": 20, "verify": 5 * 21}


def test_an_agent_knows_nothing_by_way_of_the_pool() -> None:
    world, _ = in_one_process()
    world.run("e")
    (result,) = results(world, "abcd")
    assert result is not None
    alone = session_of(world, "e")
    assert alone.result is None
    assert len(alone.records) == 1
    assert alone.records.count(SID, "Present") == 1
    assert alone.records.count(SID, "Masked") == 0
    assert alone.records.get(SID, "Present", "a") is None
    assert alone.records.gather(SID, "Present", tuple(LABELS)) is None
    assert alone.records.lacking(dict.fromkeys(range(256), frozenset())) == list(alone.records)


class KeyedByPair(PairCache):
    """Weakened variant: a mask is kept for a pair, whatever the roster."""

    def take(self, sid: bytes, pair: Any) -> Any:
        return super().take(sid, (b"", *pair[1:]))

    def keep(self, sid: bytes, pair: Any, mask: Any) -> None:
        super().keep(sid, (b"", *pair[1:]), mask)


@pytest.mark.parametrize("cache", [PairCache, KeyedByPair])
def test_a_mask_serves_one_roster_only(cache: Any) -> None:
    """A proposer shows a the roster {a, b, c}, and b the roster {a, b}: their masks are independent."""
    pairs = cache()
    keys = {label: EphemeralKey() for label in "abc"}
    three = {label: Participant(key.public) for label, key in keys.items()}
    two = {label: three[label] for label in "ab"}
    for label in "abc":
        pairs.enter(label)
    pad(keys["a"], "a", three, bytes(32), SID, 1, pairs)
    with_cache = pad(keys["b"], "b", two, bytes(32), SID, 1, pairs)
    without = pad(keys["b"], "b", two, bytes(32), SID, 1)
    assert (with_cache == without).all() == (cache is PairCache)


@pytest.mark.parametrize("room", [0, 1000, masks.MOST_CACHED])
def test_masks_are_right_and_gone_however_little_room_there_is(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "MOST_CACHED", room)
    pairs = PairCache()
    keys = {label: EphemeralKey() for label in "abcdef"}
    roster = {label: Participant(key.public) for label, key in keys.items()}
    for label in keys:
        pairs.enter(label)
    total = np.zeros(3, dtype=np.uint64)
    for label, key in keys.items():
        total += pad(key, label, roster, bytes(32), SID, 3, pairs)
        assert len(pairs) <= room // 200
    assert not total.any()
    assert len(pairs) == 0


def test_masks_of_a_session_that_is_given_up_are_dropped_and_none_is_shown_or_written() -> None:
    world, shared = in_one_process()
    for source in LABELS:
        for to in LABELS:
            world.exchange(source, to, lambda s: isinstance(s.record, Present))
    proposer = world.terms.proposer(QUERY, 0, 0)
    other = next(label for label in LABELS if label != proposer)
    world.exchange(proposer, other, lambda s: isinstance(s.record, Roster))
    assert len(shared.pairs) == 3 + 3  # each has a mask ready for the three that are not prepared
    assert repr(shared.pairs) == "PairCache(6 in memory)"
    with pytest.raises(TypeError, match="memory only"):
        pickle.dumps(shared.pairs)
    world.fire(other, "view")
    assert stages(world, other)[0].value == "withdrawn"
    assert len(shared.pairs) == 0


def test_a_record_is_decoded_once_and_freed_with_its_last_session() -> None:
    world, shared = in_one_process()
    world.run()
    session = session_of(world, "a")
    (chunk,) = shared.chunks(session.records)
    known = list(session.records)
    assert all(one is two for one, two in zip(shared.split(chunk), known, strict=True))
    assert len(shared._sessions) > 0
    world.sessions.clear()
    del session
    gc.collect()
    assert len(shared._sessions) == 0
    assert shared.split(chunk) == known  # decoded again


def commit(number: int) -> SignedRecord:
    record = Commit(SID, "e", bytes(32), bytes([number]) * 32)
    return sign(record, TERMS.manifest, signing_key("e"))


def test_a_third_statement_of_a_member_is_answered_with_the_proof_that_there_are_two() -> None:
    shared = RecordPool(TERMS.manifest, TERMS.keys)
    first, second = (RecordSet(shared, lambda _: True) for _ in range(2))
    assert first.add(commit(1)) is Admission.NEW
    assert first.add(commit(2)) is Admission.CONFLICT
    assert first.add(commit(3)) is Admission.KNOWN
    forged = commit(3)._replace(signature=bytes(64))
    assert second.add(forged) is Admission.INVALID
    assert second.add(commit(3)) is Admission.CONFLICT
    assert second.contradicted(SID, "Commit", "e")
    assert first.digests() == second.digests()
    assert {one.record for one in second} == {commit(1).record, commit(2).record}


def test_the_first_statement_that_an_agent_heard_is_the_record_of_its_place() -> None:
    shared = RecordPool(TERMS.manifest, TERMS.keys)
    first, second = (RecordSet(shared, lambda _: True) for _ in range(2))
    assert [first.add(commit(k)) for k in (1, 2)] == [Admission.NEW, Admission.CONFLICT]
    assert [second.add(commit(k)) for k in (2, 2)] == [Admission.NEW, Admission.KNOWN]
    assert not second.contradicted(SID, "Commit", "e")
    assert first.get(SID, "Commit", "e") == commit(1)
    assert second.get(SID, "Commit", "e") == commit(2)
    assert first.count(SID, "Commit", bytes(32)) == second.count(SID, "Commit", bytes(32)) == 1
    assert first.gather(SID, "Commit", ("e",)) is None
    assert second.gather(SID, "Commit", ("e",)) == (commit(2),)


def test_many_at_once_are_added_as_one_by_one() -> None:
    world, _ = in_one_process()
    world.run()
    known = [*session_of(world, "a").records, commit(1), commit(2), commit(2)]
    forged = known[0]._replace(signature=bytes(64))
    sets = [RecordSet(RecordPool(TERMS.manifest, TERMS.keys), lambda _: True) for _ in range(2)]
    one_by_one = [(one, sets[0].add(one)) for one in (*known, forged)]
    for _ in range(2):
        at_once = sets[1].add_all((*known, forged), "a")
    again = sets[1].add_all((*known, forged), "a")
    assert at_once == again == []
    fresh = RecordSet(sets[0].pool, lambda _: True)
    remarkable = fresh.add_all((*known, forged), "a")
    expected = [
        (one, admission)
        for one, admission in one_by_one
        if admission in (Admission.CONFLICT, Admission.INVALID)
        or (one.record.label == "a" and admission is Admission.NEW)
    ]
    assert remarkable == expected
    assert sets[0].digests() == sets[1].digests() == fresh.digests()
    assert len(sets[0]) == len(sets[1]) == len(fresh)
    assert fresh.since(3) == list(fresh)[3:]


@pytest.mark.parametrize("weakened", [False, True])
def test_a_batch_is_added_as_one_by_one(monkeypatch: pytest.MonkeyPatch, weakened: bool) -> None:
    """Whatever an agent has already; weakened: what it has is counted twice."""
    world, shared = in_one_process()
    world.run()
    known = list(session_of(world, "a").records)
    if weakened:
        monkeypatch.setattr(np, "frombuffer", lambda marks, dtype: np.zeros(len(marks), dtype))
    differs = False
    for first in (1, 2, 5, len(known) - 1):
        sets = [RecordSet(shared, lambda _: True) for _ in range(2)]
        for one in sets:
            one.add_all(known[:first], "z")
        assert sets[0].add_all(RecordBatch(shared, known), "z") == sets[1].add_all(known, "z") == []
        states = [
            (one.digests(), len(one), set(one), one.count(known[0].record.sid, "Present"))
            for one in sets
        ]
        differs = differs or states[0] != states[1]
        assert len(sets[1]) == len(known)
    assert differs is weakened


def test_an_own_record_in_a_batch_is_remarkable_and_so_is_a_contradiction() -> None:
    world, shared = in_one_process()
    world.run()
    known = list(session_of(world, "a").records)
    mine = [one for one in known if one.record.label == "b"]
    others = [one for one in known if one.record.label != "b"]
    fresh = RecordSet(shared, lambda _: True)
    fresh.add_all([mine[0], *others[:3]], "b")
    found = fresh.add_all(RecordBatch(shared, known), "b")
    assert found == [(one, Admission.NEW) for one in mine[1:]]
    assert fresh.add_all(RecordBatch(shared, known[:1]), "b") == []
    found = fresh.add_all(RecordBatch(shared, [commit(1), commit(2)]), "b")
    assert found == [(commit(1), Admission.CONFLICT)], "e has committed to something else"
    again = RecordSet(shared, lambda _: True)
    again.add_all(known[:3], "b")
    found = again.add_all(RecordBatch(shared, [*known, commit(1)]), "z")
    assert found == [(commit(1), Admission.CONFLICT)]


class BySignature(RecordPool):
    """Weakened variant: what has a known signature is taken for what was signed."""

    def find(self, signed: SignedRecord) -> Any:
        common = self._sessions.get(signed.record.sid)
        return common.by_signature.get(signed.signature) if common else None


@pytest.mark.parametrize("kind", [RecordPool, BySignature])
@pytest.mark.parametrize("stored", [False, True])
def test_a_known_signature_serves_no_other_record(kind: type[RecordPool], stored: bool) -> None:
    """R3: verdicts are shared by all agents of a process; they are of records, not of signatures."""
    shared = kind(TERMS.manifest, TERMS.keys)
    known, other = RecordSet(shared, lambda _: True), RecordSet(shared, lambda _: True)
    record = Commit(SID, "b", bytes(32), bytes(32))
    good = sign(record, TERMS.manifest, signing_key("b"))
    forged = good._replace(record=record._replace(commitment=bytes([1]) * 32))
    assert shared.verify(good)
    if stored:
        assert known.add(good) is Admission.NEW
    weakened = stored and kind is BySignature
    assert shared.verify(forged) is weakened
    for agent in (other, known):
        admitted = agent.add(forged)
        assert (admitted is Admission.INVALID) is not weakened
    assert bool(RecordBatch(shared, [forged]).parts) is weakened
