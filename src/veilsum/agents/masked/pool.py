"""What the agents of one process hold in common: verified records, and masks of pairs among them.

A record is decoded, verified, named and stored once per process; each agent has only a mark whether
it has heard it. Nothing is known to an agent by way of the pool that it has not received. Agents of
one process trust that process with their keys and values already, so sharing a verdict or a mask
that both of its ends have costs them nothing.

For an agent a place (kind, label) of a session has one record, and at most one more that contradicts
it; so it has for the process, but for masked values: what one agent may hold another must not.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from veilsum.agents.masked.masks import PairCache
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Ready,
    Record,
    SignedRecord,
    commitment,
    decode_record,
    encode_record,
    is_valid,
)
from veilsum.agents.wire import MOST_BYTES, NAME, WireError

WEIGHT = 16  # bytes of a record's hash that go into that of its bucket
MOST_VERIFIED = 4096  # records that were verified and are not stored yet
_SID = slice(4, 36)  # of a frame

Columns = tuple[tuple[SignedRecord, ...], NDArray[np.int64]]


class PooledRecord:
    """A verified record with what is computed of it once.

    Parameters
    ----------
    signed : SignedRecord
        The record.
    index : int
        Its number in its session.
    rivals : list of PooledRecord
        All records of its place, this one among them.
    """

    __slots__ = (
        "bucket", "frame", "index", "kind", "name", "opens", "rivals", "signed", "tally", "weight",
    )  # fmt: skip

    def __init__(self, signed: SignedRecord, index: int, rivals: list[PooledRecord]) -> None:
        """Encode it; its name is that of `RecordPool.name`."""
        self.signed, self.index, self.rivals = signed, index, rivals
        sid, self.kind, label = signed.place
        self.frame = encode_record(signed)
        content = hashlib.sha256(self.frame[:-64]).digest()
        self.name, self.weight = content[:NAME], int.from_bytes(content[:WEIGHT], "big")
        self.bucket = hashlib.sha256(sid + self.kind.encode() + b"/" + label.encode()).digest()[0]
        self.tally = tally_of(signed)
        self.opens = opened_by(signed.record)


def opened_by(record: Record) -> bytes:
    """The commitment that a Masked opens; empty for other records."""
    if not isinstance(record, Masked):
        return b""
    return commitment(record.sid, record.label, record.words, record.salt)


def tally_of(signed: SignedRecord) -> tuple[Hashable, ...]:
    """What a record is counted under: its kind, and the roster and commitments that it is for."""
    record = signed.record
    if isinstance(record, Commit):
        return "Commit", record.rho
    if isinstance(record, Ready):
        return "Ready", record.rho, record.gamma
    return (type(record).__name__,)


class SessionRecords:
    """The verified records of one session."""

    def __init__(self) -> None:
        """Empty."""
        self.records: list[PooledRecord] = []
        self.by_signature: dict[bytes, PooledRecord] = {}
        self.frames: dict[bytes, SignedRecord] = {}
        self.by_kind: defaultdict[str, list[PooledRecord]] = defaultdict(list)
        self.places: dict[tuple[str, str], list[PooledRecord]] = {}
        self.buckets: dict[int, list[PooledRecord]] = {}
        self.clean = True  # no place has two records
        self._memo: dict[Hashable, Any] = {}

    def put(self, signed: SignedRecord) -> PooledRecord:
        """Store a record that was verified."""
        rivals = self.places.setdefault(signed.place[1:], [])
        made = PooledRecord(signed, len(self.records), rivals)
        rivals.append(made)
        self.records.append(made)
        self.by_kind[made.kind].append(made)
        self.by_signature[signed.signature] = made
        self.frames[made.frame] = signed
        self.buckets.setdefault(made.bucket, []).append(made)
        if len(rivals) > 1:
            self.clean = False
            self._memo.clear()
        return made

    def columns(self, kind: str, labels: tuple[str, ...]) -> Columns | None:
        """The first record of each of these members, and their indices; None if one is missing."""
        if not all((kind, label) in self.places for label in labels):
            return None
        found = [self.places[kind, label][0] for label in labels]
        return tuple(one.signed for one in found), np.array([one.index for one in found])

    def derived(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What follows from records that are the same for every agent; computed once, unless None."""
        if not self.clean:
            return compute()
        found = self._memo.get(key)
        if found is None:
            found = compute()
            if found is not None:
                self._memo[key] = found
        return found


class RecordBatch(list[SignedRecord]):
    """Records that many agents of a process add, with what that changes, computed once.

    Parameters
    ----------
    pool : RecordPool
        Where they are.
    records : iterable of SignedRecord
        The records; those that the pool does not have are in no part.
    """

    def __init__(self, pool: RecordPool, records: Iterable[SignedRecord]) -> None:
        """Sort them by session."""
        super().__init__(records)
        sessions: dict[bytes, list[PooledRecord]] = {}
        self.rest: list[SignedRecord] = []
        for one in self:
            known = pool.find(one)
            if known is None:
                self.rest.append(one)
            else:
                sessions.setdefault(one.record.sid, []).append(known)
        self.parts = [BatchPart(sid, found) for sid, found in sessions.items()]


class BatchPart:
    """Those of one session.

    Parameters
    ----------
    sid : bytes
        The session.
    records : list of PooledRecord
        Each once.
    """

    __slots__ = ("by_index", "by_label", "indices", "last", "records", "sid", "sums", "tallies")

    def __init__(self, sid: bytes, records: list[PooledRecord]) -> None:
        """Count them, and add their hashes up by bucket."""
        self.sid, self.records = sid, records
        self.by_index = {one.index: one for one in records}
        self.indices = np.array([one.index for one in records])
        self.last = int(self.indices.max())
        self.by_label: defaultdict[str, list[int]] = defaultdict(list)
        for one in records:
            self.by_label[one.signed.record.label].append(one.index)
        self.tallies = Counter(one.tally for one in records)
        self.sums: dict[int, int] = {}
        for one in records:
            self.sums[one.bucket] = self.sums.get(one.bucket, 0) ^ one.weight


class RecordPool:
    """The verified records of a process, by session; a session goes when no agent follows it.

    Parameters
    ----------
    manifest : bytes
        The digest of the terms that every signature is bound to.
    keys : mapping of str to bytes
        The pinned Ed25519 key of every member.

    Examples
    --------
    >>> pool = RecordPool(bytes(32), {})
    >>> list(pool.chunks([])), pool.split(b"")
    ([], [])
    """

    def __init__(self, manifest: bytes, keys: Mapping[str, bytes]) -> None:
        """Nothing is known yet."""
        self.manifest, self.keys, self.pairs = manifest, keys, PairCache()
        self._verified: dict[bytes, Record] = {}  # between a link's check and a session's
        self._sessions: WeakValueDictionary[bytes, SessionRecords] = WeakValueDictionary()

    def common(self, sid: bytes) -> SessionRecords:
        """The records of a session."""
        found = self._sessions.get(sid)
        if found is None:
            found = self._sessions[sid] = SessionRecords()
        return found

    def find(self, signed: SignedRecord) -> PooledRecord | None:
        """A record that is known, under this signature."""
        common = self._sessions.get(signed.record.sid)
        known = common.by_signature.get(signed.signature) if common else None
        return known if known is not None and known.signed.record == signed.record else None

    def name(self, signed: SignedRecord) -> bytes:
        """By content, not by signature: a second valid signature is the same record.

        Of a record that is not stored here nothing is kept: a neighbour may send as many as it likes.
        """
        known = self.find(signed)
        if known is not None:
            return known.name
        return hashlib.sha256(encode_record(signed)[:-64]).digest()[:NAME]

    def verify(self, signed: SignedRecord) -> bool:
        """R3: whether a member's pinned key signed this; what is known is not verified again."""
        if self.find(signed) is not None:
            return True
        if self._verified.get(signed.signature) == signed.record:
            return True
        key = self.keys.get(signed.record.label)
        if key is None or not is_valid(signed, self.manifest, key):
            return False
        if len(self._verified) >= MOST_VERIFIED:
            self._verified.clear()
        self._verified[signed.signature] = signed.record
        return True

    def chunks(self, records: Iterable[SignedRecord], limit: int = MOST_BYTES) -> Iterator[bytes]:
        """Records as messages of at most `limit` bytes, each record with its length before it."""
        parts: list[bytes] = []
        size, sid, common = 0, b"", None
        for signed in records:
            if signed.record.sid != sid:
                sid = signed.record.sid
                common = self._sessions.get(sid)
            known = common.by_signature.get(signed.signature) if common else None
            fits = known is not None and known.signed.record == signed.record
            frame = known.frame if known is not None and fits else encode_record(signed)
            if 4 + len(frame) > limit:
                raise WireError(f"a record of {len(frame):,} bytes exceeds a message of {limit:,}")
            if size + 4 + len(frame) > limit:
                yield b"".join(parts)
                parts, size = [], 0
            parts += len(frame).to_bytes(4, "big"), frame
            size += 4 + len(frame)
        if parts:
            yield b"".join(parts)

    def split(self, message: bytes, limit: int = MOST_BYTES) -> list[SignedRecord]:
        """The records of a message, those known not decoded again; `WireError` for anything else."""
        if len(message) > limit:
            raise WireError(f"{len(message):,} bytes, at most {limit:,} are accepted")
        at, found = 0, []
        sid, common = b"", None
        while at < len(message):
            end = at + 4 + int.from_bytes(message[at : at + 4], "big")
            if end > len(message):
                raise WireError("a chunk that ends within a record")
            frame = message[at + 4 : end]
            if frame[_SID] != sid:
                sid = frame[_SID]
                common = self._sessions.get(sid)
            known = common.frames.get(frame) if common else None
            found.append(decode_record(frame) if known is None else known)
            at = end
        return found
