"""Records have one encoding, bounded sizes and signatures that bind everything; sets become equal."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from veilsum.agents.masked import pool as pool_module
from veilsum.agents.masked.flooding import Admission, RecordSet
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import (
    KINDS,
    Commit,
    Masked,
    Present,
    Ready,
    Roster,
    SignedRecord,
    Withdraw,
    commitment,
    commitments_digest,
    decode_record,
    encode_record,
    is_valid,
    sign,
)
from veilsum.agents.wire import MOST_BYTES, WireError
from veilsum.errors import AgentError

MANIFEST, SID = bytes(32), bytes([7]) * 32
KEYS = {label: Ed25519PrivateKey.from_private_bytes(label.encode() * 32) for label in "abcd"}
PINNED = {label: key.public_key().public_bytes_raw() for label, key in KEYS.items()}
HASHES = st.binary(min_size=32, max_size=32)
KEY = st.integers(0, 2**255 - 20).map(lambda n: n.to_bytes(32, "little"))
LABELS = st.text(min_size=1, max_size=50).filter(
    lambda text: 0 < len(text.encode(errors="ignore")) <= 200 and text.isprintable()
)
WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20).map(tuple)
MEMBERS = st.sets(st.integers(0, 500), min_size=1).map(lambda s: tuple(sorted(s)))
RECORDS = st.one_of(
    st.builds(Present, HASHES, LABELS, KEY, st.integers(1, 2**32 - 1)),
    st.builds(Roster, HASHES, LABELS, HASHES, MEMBERS),
    st.builds(Commit, HASHES, LABELS, HASHES, HASHES),
    st.builds(Ready, HASHES, LABELS, HASHES, HASHES),
    st.builds(Masked, HASHES, LABELS, HASHES, HASHES, HASHES, WORDS),
    st.builds(Withdraw, HASHES, LABELS, HASHES),
)
EXAMPLES: list[Any] = [
    Present(SID, "a", bytes([9]) + bytes(31)),
    Roster(SID, "a", bytes(32), (0, 3, 9)),
    Commit(SID, "a", bytes(32), bytes(32)),
    Ready(SID, "a", bytes(32), bytes(32)),
    Masked(SID, "a", bytes(32), bytes(32), bytes(32), (1, 2**64 - 1)),
    Withdraw(SID, "a", bytes(32)),
]


@given(RECORDS, st.binary(min_size=64, max_size=64))
def test_a_record_is_what_its_bytes_say(record: Any, signature: bytes) -> None:
    signed = SignedRecord(record, signature)
    assert decode_record(encode_record(signed)) == signed


@given(st.binary(max_size=400), st.integers(0, 8))
def test_bytes_are_refused_or_have_one_record(data: bytes, kind: int) -> None:
    for frame in (data, b"mm\x01" + bytes([kind]) + data, b"mm\x01" + bytes([kind]) + SID + data):
        try:
            signed = decode_record(frame)
        except WireError:
            continue
        assert encode_record(signed) == frame


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_changed_frame_is_refused_or_another_record(record: Any, data: Any) -> None:
    signed = sign(record, MANIFEST, KEYS["a"])
    frame = bytearray(encode_record(signed))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    try:
        other = decode_record(bytes(frame))
    except WireError:
        return
    assert other != signed
    assert not is_valid(other, MANIFEST, PINNED["a"])


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda r: type(r).__name__)
def test_a_signature_is_for_one_manifest_session_kind_label_and_payload(record: Any) -> None:
    signed = sign(record, MANIFEST, KEYS["a"])
    assert is_valid(signed, MANIFEST, PINNED["a"])
    assert not is_valid(signed, bytes([1]) * 32, PINNED["a"])
    assert not is_valid(signed, MANIFEST, PINNED["b"])
    for change in ({"sid": bytes(32)}, {"label": "b"}):
        assert not is_valid(
            signed._replace(record=record._replace(**change)), MANIFEST, PINNED["a"]
        )


def test_equal_payloads_of_two_kinds_have_different_signatures() -> None:
    commit, ready = EXAMPLES[2], EXAMPLES[3]
    signature = sign(commit, MANIFEST, KEYS["a"]).signature
    assert not is_valid(SignedRecord(ready, signature), MANIFEST, PINNED["a"])


@pytest.mark.parametrize(
    "record",
    [
        Present(SID, "a", b"\xff" * 32), Present(SID, "", bytes(32)), Present(b"", "a", bytes(32)),
        Present(SID, "a" * 201, bytes(32)), Present(SID, "a", bytes(32), 0),
        Present(SID, "a", bytes(32), 2**32), Present(SID, "a", bytes(32), True),
        Roster(SID, "a", bytes(32), ()),
        Roster(SID, "a", bytes(32), (3, 1)), Roster(SID, "a", bytes(32), (1, 1)),
        Roster(SID, "a", bytes(32), (-1, 2)), Roster(SID, "a", bytes(32), (100_000,)),
        Commit(SID, "a", bytes(31), bytes(32)), Masked(SID, "a", *(bytes(32),) * 3, ()),
        Masked(SID, "a", *(bytes(32),) * 3, (2**64,)), Masked(SID, "a", *(bytes(32),) * 3, (True,)),
        Masked(SID, "a", *(bytes(32),) * 3, (1,) * 1025), Withdraw(SID, "a", b""),
    ],
)  # fmt: skip
def test_fields_of_a_wrong_type_or_size_are_never_signed_or_sent(record: Any) -> None:
    with pytest.raises(AgentError):
        sign(record, MANIFEST, KEYS["a"])
    with pytest.raises(AgentError):
        encode_record(SignedRecord(record, bytes(64)))


def test_the_largest_records_fit_a_message() -> None:
    for record in (
        Roster(SID, "a" * 200, bytes(32), (99_999,)),
        Masked(SID, "a" * 200, bytes(32), bytes(32), bytes(32), (1,) * 1024),
    ):
        assert len(encode_record(SignedRecord(record, bytes(64)))) < MOST_BYTES // 4
    assert len(KINDS) == 6


def known(*records: Any, expected: Any = lambda _: True) -> RecordSet:
    found = RecordSet(RecordPool(MANIFEST, PINNED), expected)
    for record in records:
        assert found.add(sign(record, MANIFEST, KEYS[record.label])) is Admission.NEW
    return found


def test_a_place_has_one_record_and_one_as_evidence() -> None:
    found = known(EXAMPLES[2])
    other = EXAMPLES[2]._replace(commitment=bytes([1]) * 32)
    third = EXAMPLES[2]._replace(commitment=bytes([2]) * 32)
    assert found.add(sign(EXAMPLES[2], MANIFEST, KEYS["a"])) is Admission.KNOWN
    assert found.add(sign(other, MANIFEST, KEYS["a"])) is Admission.CONFLICT
    assert found.add(sign(third, MANIFEST, KEYS["a"])) is Admission.KNOWN
    assert found.contradicted(SID, "Commit", "a")
    assert len(found) == 2


def test_what_is_of_no_member_no_session_or_has_no_signature_never_enters() -> None:
    found = known(expected=lambda sid: sid == SID)
    present = EXAMPLES[0]
    assert found.add(SignedRecord(present, bytes(64))) is Admission.INVALID
    assert found.add(sign(present, MANIFEST, KEYS["b"])) is Admission.INVALID
    assert found.add(sign(present._replace(label="e"), MANIFEST, KEYS["a"])) is (
        Admission.UNEXPECTED
    )
    assert found.add(sign(present._replace(sid=bytes(32)), MANIFEST, KEYS["a"])) is (
        Admission.UNEXPECTED
    )
    assert len(found) == 0


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.integers(300, 2000))
def test_two_sets_become_equal_within_the_message_limit(
    left: set[int], right: set[int], limit: int
) -> None:
    ends = [RecordSet(RecordPool(MANIFEST, PINNED), lambda _: True) for _ in range(2)]
    for end, numbers in zip(ends, (left, right), strict=True):
        for number in numbers:
            end.add(SIGNED[number])
    for here, there in (ends, ends[::-1]):
        lacking = there.lacking(here.names(there.digests()))
        for message in there.pool.chunks(lacking, limit):
            assert len(message) <= limit
            for signed in here.pool.split(message):
                assert here.add(signed) is Admission.NEW
    assert ends[0].digests() == ends[1].digests()
    assert len(ends[0]) == len(ends[1]) == len(left | right)


SIGNED = [
    sign(Present(bytes([n]) * 32, "abcd"[n % 4], bytes(32)), MANIFEST, KEYS["abcd"[n % 4]])
    for n in range(41)
]


POOL = RecordPool(MANIFEST, PINNED)


@given(st.binary(max_size=300))
def test_a_chunk_is_split_or_refused(data: bytes) -> None:
    for message in (data, len(data).to_bytes(4, "big") + data):
        try:
            found = POOL.split(message)
        except WireError:
            continue
        assert b"".join(POOL.chunks(found)) == message


def test_bad_signatures_cost_one_verification_each_and_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = known(EXAMPLES[0])
    calls: list[int] = []

    def refuse(*_: Any) -> bool:
        calls.append(1)
        return False

    monkeypatch.setattr(pool_module, "is_valid", refuse)
    for n in range(1000):
        found.add(SignedRecord(EXAMPLES[1], n.to_bytes(64, "big")))
        found.add(SignedRecord(EXAMPLES[0], n.to_bytes(64, "big")))  # known: not verified
    assert len(calls) == 1000
    assert len(found) == 1


def test_a_commitment_is_for_one_session_member_value_and_salt() -> None:
    """So a member that repeats another one's commitment cannot open it with that one's value."""
    sid, words, salt = bytes(32), (1, 2), bytes(32)
    other = bytes([1]) * 32
    found = {
        commitment(sid, "a", words, salt), commitment(other, "a", words, salt),
        commitment(sid, "b", words, salt), commitment(sid, "a", (1, 3), salt),
        commitment(sid, "a", (1,), salt), commitment(sid, "a", words, other),
    }  # fmt: skip
    assert len(found) == 6
    hidden = {"a": sid, "b": other}
    gammas = {
        commitments_digest(sid, hidden), commitments_digest(other, hidden),
        commitments_digest(sid, {"a": other, "b": sid}), commitments_digest(sid, {"a": sid}),
        commitments_digest(sid, {"a": sid, "c": other}),
    }  # fmt: skip
    assert len(gammas) == 5
