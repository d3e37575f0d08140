"""Attacks on keys and signatures: copied, second, weak and replayed ones, and a flood of bad ones.

The index of all attacks is in `tests/attacks/test_masked_section9.py`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tests.agents.masked.adversary import (
    Puppet,
    said,
    session_at,
    stages,
    value,
    world_of,
)
from tests.agents.masked.world import LABELS, QUERY, World, made_terms, signing_key
from veilsum.agents.masked import masks, pool
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.masked.records import (
    Masked,
    Present,
    SignedRecord,
    Withdraw,
    _payload,
    sign,
)
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms


def unlabelled(manifest: bytes, sid: bytes, rho: bytes, *pair: tuple[str, bytes]) -> bytes:
    """Weakened variant: labels left out of the derivation of a pair's key."""
    return masks.digest(b"pair", manifest, sid, rho, *sorted(key for _, key in pair))


@pytest.mark.parametrize("weakened", [False, True])
def test_a_copied_ephemeral_key_reads_nobody(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c presents a's key as its own: without labels b's masks with a and c cancel."""
    if weakened:
        monkeypatch.setattr(masks, "pair_info", unlabelled)
    world = world_of(terms=made_terms(1, 0, "abc"), silent="c")
    sid = world.terms.sid(QUERY, 0, 0)
    (copied,) = said(world, "a", Present)
    puppet = Puppet(world, "c")
    for to in "ab":
        puppet.present(to, copied.key)
    world.settle()
    if world.terms.proposer(QUERY, 0, 0) == "c":
        for to in "ab":
            puppet.propose(to, (0, 1, 2), "abc")
    world.settle()
    rho = world.ledgers["b"].entries(QUERY)[0].rho
    for _ in range(2):
        for to in "ab":
            puppet.go_on(to, rho)
        world.settle()
    (masked,) = said(world, "b", Masked)
    assert masked.sid == sid
    assert (masks.centred(masks.to_words(masked.words)) == value(world, "b")) is weakened


def other_key(label: str) -> Ed25519PrivateKey:
    """A second signing key for a label, which the authority certifies just as well."""
    return Ed25519PrivateKey.from_private_bytes(label.upper().encode() * 32)


def certified_terms(victim: str) -> MaskedTerms:
    """What a network would agree on that pins names only: any certified key speaks for a label."""
    terms = made_terms()
    members = tuple(
        (label, key if label == victim else other_key(label).public_key().public_bytes_raw())
        for label, key in terms.members
    )
    return replace(terms, members=members)


class Impersonated(World):
    """All members but the victim are the authority's: it has a second key for each."""

    def __init__(self, victim: str, victims_terms: MaskedTerms) -> None:
        super().__init__(certified_terms(victim))
        self.victim, self.victims_terms = victim, victims_terms

    def start(self, label: str) -> None:
        own = label == self.victim

        def draw() -> tuple[int, ...]:
            self.drawn[label].append((5, -6) if own else (0, 0))
            return self.drawn[label][-1]

        session = Session(
            self.victims_terms if own else self.terms, label,
            signing_key(label) if own else other_key(label), QUERY, self.statistics[label],
            self.ledgers[label], draw,
        )  # fmt: skip
        self.sessions[label] = session
        self.act(label, session.start)


@pytest.mark.parametrize("weakened", [False, True])
def test_a_second_signing_key_for_a_label_is_not_taken(weakened: bool) -> None:
    """An only link through the authority: it plays every other member to the victim."""
    victim = "a"
    world = Impersonated(victim, certified_terms(victim) if weakened else made_terms())
    for label in LABELS:
        world.start(label)
    world.run(rounds=3)
    if not weakened:
        assert Stage.PREPARED not in stages(world, victim)
        assert (
            len(session_at(world, victim).records.of(world.terms.sid(QUERY, 0, 0), "Present")) == 1
        )
        assert not said(world, victim, Masked)
        return
    result = session_at(world, victim).result
    assert result is not None
    others = [value(world, label) for label in LABELS if label != victim]
    read = tuple(int(t) - sum(v[k] for v in others) for k, t in enumerate(result.totals))
    assert read == value(world, victim)


@pytest.mark.parametrize("point", [0, 1, 2**255 - 20])
def test_a_key_of_low_order_gives_a_mask_that_everybody_knows(
    point: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused; a variant that takes the secret as it comes has one that outsiders can compute."""
    weak = point.to_bytes(32, "little")
    with pytest.raises(masks.MaskError, match="low order"):
        EphemeralKey().exchange(weak)

    def unchecked(self: EphemeralKey, theirs: bytes) -> bytes:
        return bytes(32) if theirs == weak else exchange(self, theirs)

    exchange = EphemeralKey.exchange
    monkeypatch.setattr(EphemeralKey, "exchange", unchecked)
    info = masks.pair_info(bytes(32), bytes(32), bytes(32), ("a", bytes(32)), ("b", weak))
    used = masks.stream(EphemeralKey().exchange(weak), info, 4)
    outsider = masks.stream(bytes(32), info, 4)
    assert np.array_equal(used, outsider)


def test_another_encoding_of_a_key_would_be_a_copy_that_looks_different() -> None:
    """X25519 ignores the top bit: the library gives one secret for two encodings; this code refuses."""
    key = EphemeralKey()
    other = bytes([*key.public[:31], key.public[31] | 0x80])
    private = X25519PrivateKey.generate()
    library = X25519PublicKey.from_public_bytes
    assert private.exchange(library(key.public)) == private.exchange(library(other))
    with pytest.raises(masks.MaskError, match="canonical"):
        EphemeralKey().exchange(other)
    world = world_of()
    with pytest.raises(Exception, match="below 2"):
        world.inject("a", Present(world.terms.sid(QUERY, 0, 0), "b", other))


def transcript(silent: str) -> tuple[list[SignedRecord], Any]:
    """All records of a finished session without one member, and its result."""
    world = world_of(silent=silent)
    world.run(silent)
    session = session_at(world, next(label for label in LABELS if label not in silent))
    assert session.result is not None
    return list(session.records), session.result


def later_terms(what: str) -> MaskedTerms:
    terms = made_terms()
    if what == "nonce":
        return replace(terms, nonce=bytes([9]) * 16)
    return replace(terms, manifest=bytes([9]) * 32)


@pytest.mark.parametrize("weakened", [False, True])
@pytest.mark.parametrize("what", ["nonce", "epoch"])
def test_a_replayed_session_of_another_run_is_no_result(
    what: str, weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that was said in an earlier run arrives again, before anybody speaks in this one."""
    if weakened:  # a session's name that knows neither run nor manifest, and signatures likewise
        monkeypatch.setattr(
            MaskedTerms, "sid", lambda _, *place: masks.digest(b"session", repr(place).encode())
        )
        usual = masks.digest
        named = {made_terms().manifest, later_terms("epoch").manifest}
        monkeypatch.setattr(
            "veilsum.agents.masked.records.digest",
            lambda purpose, *parts: usual(purpose, *(p for p in parts if p not in named)),
        )
        monkeypatch.setattr(
            masks, "digest",
            lambda purpose, *parts: usual(purpose, *(p for p in parts if p not in named)),
        )  # fmt: skip
    old, earlier = transcript("a")
    world = World(later_terms(what))
    world.start("a")
    session = session_at(world, "a")
    world.act("a", session.receive, old)
    if weakened:
        assert session.result == earlier
        assert session.reason == "sum"
        return
    assert [type(one.record) for one in session.records] == [Present]
    assert {session.records.add(one) for one in old} == {Admission.UNEXPECTED}
    readdressed = [
        one._replace(record=one.record._replace(sid=world.terms.sid(QUERY, 0, 0))) for one in old
    ]
    assert {session.records.add(one) for one in readdressed} == {Admission.INVALID}


@pytest.mark.parametrize("weakened", [False, True])
@pytest.mark.parametrize("place", [(QUERY, 1, 0), (QUERY, 0, 1)])
def test_records_of_an_earlier_attempt_do_not_serve_in_the_next(
    place: tuple[int, int, int], weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What members said in one session is said to be of another; b falls silent in that one.

    In the weakened variant a signature does not name the session: a holds b's old Present as one of
    this attempt, and waits for a member that never spoke in it.
    """
    if weakened:
        monkeypatch.setattr(
            "veilsum.agents.masked.records._signed_bytes",
            lambda record, manifest: masks.digest(
                b"record", type(record).__name__.encode(), manifest, record.label.encode(),
                _payload(record),
            ),
        )  # fmt: skip
    world = world_of()
    world.run()
    sid = world.terms.sid(*place)
    assert sid != world.terms.sid(QUERY, 0, 0)
    session = session_at(world_of(), "a")
    old = [one for one in session_at(world, "a").records if one.record.label == "b"]
    moved = [one._replace(record=one.record._replace(sid=sid)) for one in old]
    found = [session.records.add(one) for one in moved if not isinstance(one.record, Masked)]
    assert set(found) == {Admission.NEW if weakened else Admission.INVALID}
    assert (session.records.get(sid, "Present", "b") is not None) is weakened


@pytest.mark.parametrize("kind", ["fresh", "cached"])
def test_a_hundred_thousand_bad_signatures_cost_one_verification_each_and_no_memory(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a neighbour can cost before it is cut off; verified first, nothing of it goes on."""
    world = world_of()
    session = session_at(world, "a")
    sid = world.terms.sid(QUERY, 0, 0)
    record = Withdraw(sid, "b", bytes(32))
    calls = 0

    def refuse(*_: Any) -> bool:
        nonlocal calls
        calls += 1
        return False

    monkeypatch.setattr(pool, "is_valid", refuse)
    count = 100_000 if kind == "fresh" else 1_000
    before = len(session.records)
    for n in range(count):
        number = n if kind == "fresh" else 0
        signed = SignedRecord(record, number.to_bytes(64, "big"))
        assert session.records.add(signed) is Admission.INVALID
    assert calls <= count
    assert len(session.records) == before
    monkeypatch.undo()
    good = sign(record, world.terms.manifest, signing_key("b"))
    assert session.records.add(good) is Admission.NEW  # bad ones do not keep a good one out


def test_a_variant_that_verifies_later_holds_what_nobody_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weakened variant: two forged records take both places of a member, and are passed on."""
    monkeypatch.setattr(pool, "is_valid", lambda *_: True)
    world = world_of()
    session = session_at(world, "a")
    sid, before = world.terms.sid(QUERY, 0, 0), len(session_at(world, "a").records)
    for number in (1, 2):
        forged = SignedRecord(Withdraw(sid, "b", bytes([number]) * 32), bytes([number]) * 64)
        session.records.add(forged)
    assert len(session.records) == before + 2
    monkeypatch.undo()
    good = sign(Withdraw(sid, "b", bytes(32)), world.terms.manifest, signing_key("b"))
    assert session.records.add(good) is Admission.KNOWN  # it has no place any more
