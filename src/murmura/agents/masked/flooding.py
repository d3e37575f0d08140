"""The records that an agent knows: a set that only grows, and how two of them become equal.

A place (sid, kind, label) has one record, and at most one more that contradicts it: the evidence of
an equivocation. Records with a bad signature, of unknown members or of other sessions than those
expected never enter, so what a neighbour can make an agent store is bounded.

Anti-entropy: records are put into 256 buckets by the hash of their place. One end sends the hash of
each bucket (`digests`, 2 KB), the other answers with what it has in the buckets that differ
(`names`), and gets the records that it lacks (`lacking`) in chunks within a message's limit. All
three are idempotent, so any of them may be lost.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache

from murmura.agents.masked.records import SignedRecord, decode_record, encode_record, is_valid
from murmura.agents.wire import MOST_BYTES, WireError

BUCKETS = 256
NAME = 8  # bytes that name a record within a bucket
VERIFIED = 1 << 16  # records whose verification, name and bucket a process remembers

Place = tuple[bytes, str, str]


class Admission(Enum):
    """What became of a record."""

    NEW = "new"
    KNOWN = "known"
    CONFLICT = "conflict"  # a second record for one place: stored as evidence, once
    UNEXPECTED = "unexpected"  # of no session that this agent follows, or of no member
    INVALID = "invalid"  # whoever sent this did not verify it


class RecordSet:
    """A grow-only set of verified records.

    Parameters
    ----------
    manifest : bytes
        The digest of the terms that every signature is bound to.
    keys : mapping of str to bytes
        The pinned Ed25519 key of every member.
    expected : callable
        Whether a session's records are followed at present.

    Examples
    --------
    >>> RecordSet(bytes(32), {}, lambda sid: True).digests() == RecordSet(
    ...     bytes(32), {}, lambda sid: True
    ... ).digests()
    True
    """

    def __init__(
        self, manifest: bytes, keys: Mapping[str, bytes], expected: Callable[[bytes], bool]
    ) -> None:
        """An empty set."""
        self._manifest, self._keys, self._expected = manifest, keys, expected
        self._records: dict[Place, SignedRecord] = {}
        self._by_kind: defaultdict[tuple[bytes, str], dict[str, SignedRecord]] = defaultdict(dict)
        self._evidence: dict[Place, SignedRecord] = {}
        self._buckets: defaultdict[int, dict[bytes, SignedRecord]] = defaultdict(dict)
        self._hashes: dict[int, bytes] = {}
        self._joined = b""

    def add(self, signed: SignedRecord) -> Admission:
        """Verify and add a record; what is known is not verified again."""
        record = signed.record
        key = self._keys.get(record.label)
        if key is None or not self._expected(record.sid):
            return Admission.UNEXPECTED
        known, other = self._records.get(signed.place), self._evidence.get(signed.place)
        if known is not None and (known.record == record or other is not None):
            return Admission.KNOWN
        if not _verified(signed, self._manifest, key):
            return Admission.INVALID
        where = self._records if known is None else self._evidence
        where[signed.place] = signed
        if known is None:
            self._by_kind[signed.place[:2]][record.label] = signed
        bucket = _bucket(signed.place)
        self._buckets[bucket][_name(signed)] = signed
        self._hashes.pop(bucket, None)
        self._joined = b""
        return Admission.NEW if known is None else Admission.CONFLICT

    def of(self, sid: bytes, kind: str) -> Mapping[str, SignedRecord]:
        """The records of one kind in a session, by label, those contradicted included."""
        return self._by_kind.get((sid, kind), {})

    def get(self, sid: bytes, kind: str, label: str) -> SignedRecord | None:
        """The record at a place."""
        return self._records.get((sid, kind, label))

    def both(self, sid: bytes, kind: str, label: str) -> list[SignedRecord]:
        """The record at a place, and the one that contradicts it."""
        place = sid, kind, label
        found = self._records.get(place), self._evidence.get(place)
        return [signed for signed in found if signed is not None]

    def contradicted(self, sid: bytes, kind: str, label: str) -> bool:
        """Whether a member said two different things at this place."""
        return (sid, kind, label) in self._evidence

    def __iter__(self) -> Iterator[SignedRecord]:
        """Every record, evidence included."""
        yield from self._records.values()
        yield from self._evidence.values()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._records) + len(self._evidence)

    def digests(self) -> bytes:
        """A hash of 8 bytes for each bucket."""
        if not self._joined:
            self._joined = b"".join(self._digest(bucket) for bucket in range(BUCKETS))
        return self._joined

    def _digest(self, bucket: int) -> bytes:
        if bucket not in self._hashes:
            names = sorted(self._buckets[bucket]) if bucket in self._buckets else []
            self._hashes[bucket] = hashlib.sha256(b"".join(names)).digest()[:NAME]
        return self._hashes[bucket]

    def names(self, theirs: bytes) -> dict[int, frozenset[bytes]]:
        """What this set has in the buckets whose hash differs from theirs."""
        if len(theirs) != BUCKETS * NAME:
            raise WireError(f"digests of {len(theirs)} bytes, expected {BUCKETS * NAME}")
        found = {}
        for bucket in range(BUCKETS) if theirs != self.digests() else ():
            if theirs[bucket * NAME : (bucket + 1) * NAME] != self._digest(bucket):
                found[bucket] = frozenset(self._buckets.get(bucket, ()))
        return found

    def lacking(self, theirs: Mapping[int, frozenset[bytes]]) -> list[SignedRecord]:
        """Records of the named buckets that the other end does not have."""
        return [
            signed
            for bucket, names in sorted(theirs.items())
            for name, signed in self._buckets.get(bucket, {}).items()
            if name not in names
        ]


def chunks(records: Iterable[SignedRecord], limit: int = MOST_BYTES) -> Iterator[bytes]:
    """Records as messages of at most `limit` bytes, each record with its length before it."""
    message = bytearray()
    for signed in records:
        frame = encode_record(signed)
        part = len(frame).to_bytes(4, "big") + frame
        if len(part) > limit:
            raise WireError(f"a record of {len(frame):,} bytes exceeds a message of {limit:,}")
        if len(message) + len(part) > limit:
            yield bytes(message)
            message = bytearray()
        message += part
    if message:
        yield bytes(message)


def split_chunk(message: bytes, limit: int = MOST_BYTES) -> list[SignedRecord]:
    """The records of a message; `WireError` for anything else."""
    if len(message) > limit:
        raise WireError(f"{len(message):,} bytes, at most {limit:,} are accepted")
    at, found = 0, []
    while at < len(message):
        end = at + 4 + int.from_bytes(message[at : at + 4], "big")
        if end > len(message):
            raise WireError("a chunk that ends within a record")
        found.append(decode_record(message[at + 4 : end]))
        at = end
    return found


@lru_cache(maxsize=VERIFIED)
def _verified(signed: SignedRecord, manifest: bytes, key: bytes) -> bool:
    """`is_valid`, once per process: its agents hear the same records."""
    return is_valid(signed, manifest, key)


@lru_cache(maxsize=VERIFIED)
def _name(signed: SignedRecord) -> bytes:
    """By content, not by signature: a second valid signature is the same record."""
    return hashlib.sha256(encode_record(signed._replace(signature=bytes(64)))).digest()[:NAME]


@lru_cache(maxsize=VERIFIED)
def _bucket(place: Place) -> int:
    sid, kind, label = place
    return hashlib.sha256(sid + kind.encode() + b"/" + label.encode()).digest()[0]
