"""The records that an agent knows: a set that only grows, and how two of them become equal.

A place (sid, kind, label) has one record, and at most one more that contradicts it: the evidence of
an equivocation. Records with a bad signature, of unknown members or of other sessions than those
expected never enter, so what a neighbour can make an agent store is bounded.

A masked value enters once it opens a commitment of its member that is held, for commitments that the
member is ready for. Until then it is `EARLY`, and comparison brings it again. So values that open
nothing are not held, and since a member has at most two commitments and is ready at most twice, all
that can be opened are held, four at most: none takes the place of another.

Records are counted as they come, so that a session never searches for what is missing.

Anti-entropy: records are put into 256 buckets by the hash of their place. One end sends the hash of
each bucket (`digests`, 2 KB), the other answers with what it has in the buckets that differ
(`names`), and gets the records that it lacks (`lacking`) in chunks within a message's limit. All
three are idempotent, so any of them may be lost. A bucket's hash is that of the exclusive or of its
records' hashes, of 16 bytes each: it costs the same however many there are.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from veilsum.agents.masked.pool import (
    WEIGHT,
    PooledRecord,
    RecordBatch,
    RecordPool,
    SessionRecords,
    opened_by,
)
from veilsum.agents.masked.records import Commit, Masked, Ready, Record, SignedRecord
from veilsum.agents.wire import BUCKETS, NAME, WireError

_GROWTH = 1024  # marks added at a time
_EMPTY = hashlib.sha256(bytes(WEIGHT)).digest()[:NAME]


class Admission(Enum):
    """What became of a record."""

    NEW = "new"
    KNOWN = "known"
    CONFLICT = "conflict"  # a second record for one place: stored as evidence, once
    UNEXPECTED = "unexpected"  # of no session that this agent follows, or of no member
    EARLY = "early"  # a masked value that opens no commitment which is held
    INVALID = "invalid"  # whoever sent this did not verify it


class Agreement(NamedTuple):
    """What an agent is ready for, in one session.

    Attributes
    ----------
    rho, gamma : bytes
        The roster, and the hash of its commitments.
    commitments : mapping of str to bytes
        Those of the roster, by label; empty after a restart, which leaves gamma only.
    """

    rho: bytes
    gamma: bytes
    commitments: Mapping[str, bytes]


class _Held:
    """Which records of a session an agent has: 1 the record of its place, 2 one that contradicts it."""

    __slots__ = ("by_signature", "common", "contradicted", "counts", "marks")

    def __init__(self, common: SessionRecords) -> None:
        self.common, self.by_signature, self.marks = common, common.by_signature, bytearray()
        self.counts: defaultdict[tuple[Hashable, ...], int] = defaultdict(int)
        self.contradicted: set[tuple[str, str]] = set()

    def mark(self, one: PooledRecord) -> int:
        return self.marks[one.index] if one.index < len(self.marks) else 0

    def said(self, kind: str, label: str) -> list[Record]:
        """The record at a place, and the one that contradicts it."""
        rivals = self.common.places.get((kind, label), ())
        return [one.signed.record for one in rivals if self.mark(one)]


class RecordSet:
    """A grow-only set of verified records.

    Parameters
    ----------
    pool : RecordPool
        Where the agents of this process keep them.
    expected : callable
        Whether a session's records are followed at present; once they are, they always are.

    Examples
    --------
    >>> pool = RecordPool(bytes(32), {})
    >>> len(RecordSet(pool, lambda sid: True).digests())
    2048
    """

    def __init__(self, pool: RecordPool, expected: Callable[[bytes], bool]) -> None:
        """An empty set."""
        self.pool, self._expected = pool, expected
        self.widened = 0  # how often `expected` came to hold for more sessions
        self._held: dict[bytes, _Held] = {}
        self._log: list[PooledRecord] = []
        self._sums = [0] * BUCKETS
        self._hashed: list[tuple[int, bytes]] = [(0, _EMPTY)] * BUCKETS
        self._joined = b""
        self._agreements: dict[bytes, Agreement] = {}

    def agree(self, sid: bytes, agreement: Agreement) -> None:
        """Note which commitments of a session this agent is ready for: no others have a sum."""
        self._agreements[sid] = agreement

    def agreed(self, sid: bytes) -> Agreement | None:
        """Which commitments this agent is ready for, if that is known."""
        return self._agreements.get(sid)

    def add(self, signed: SignedRecord) -> Admission:
        """Add a record, verified unless this process knows it."""
        held = self._held.get(signed.record.sid)
        if held is not None:
            known = held.common.by_signature.get(signed.signature)
            if known is not None and known.signed.record == signed.record:
                if held.mark(known):
                    return Admission.KNOWN
                if known.opens and not self._opens(held, signed.record, known.opens):
                    return Admission.EARLY
                return self._hold(held, known)
        return self._admit(signed)

    def add_all(
        self, signed: Iterable[SignedRecord], label: str = ""
    ) -> list[tuple[SignedRecord, Admission]]:
        """Add records; only those of `label`, and those that are neither new nor known, are returned.

        The short way is for records that this process has verified and nobody contradicts: a look
        for the record, a mark, a count.
        """
        remarkable, early = [], []
        if isinstance(signed, RecordBatch):
            signed = self._add_batch(signed, label)
        sessions, sums, log = self._held, self._sums, self._log
        for one in signed:
            record = one.record
            held = sessions.get(record.sid)
            known = held.by_signature.get(one.signature) if held is not None else None
            if (
                held is not None
                and known is not None
                and known.index < len(held.marks)
                and (known.signed is one or known.signed.record == record)
            ):
                if held.marks[known.index]:
                    continue
                if (
                    len(known.rivals) == 1
                    and record.label != label
                    and (not known.opens or self._opens(held, record, known.opens))
                ):
                    held.marks[known.index] = 1
                    held.counts[known.tally] += 1
                    sums[known.bucket] ^= known.weight
                    log.append(known)
                    continue
            admission = self.add(one)
            if admission is Admission.EARLY:
                early.append(one)
                continue
            own = record.label == label and admission is Admission.NEW
            if own or admission not in (Admission.NEW, Admission.KNOWN):
                remarkable.append((one, admission))
        self._joined = b""
        found = [one for one in early if self.knows(one) or self._can_open(one)]
        return remarkable + (self.add_all(found, label) if found else [])

    def _can_open(self, signed: SignedRecord) -> bool:
        """Whether a masked value that came before its commitment can enter by now."""
        held = self._held[signed.record.sid]
        return self._opens(held, signed.record, opened_by(signed.record))

    def _opens(self, held: _Held, record: Record, opened: bytes) -> bool:
        """Whether a masked value opens what its member has committed to and is ready for."""
        assert isinstance(record, Masked)
        return (
            Commit(record.sid, record.label, record.rho, opened) in held.said("Commit", record.label)
            and Ready(*record[:4]) in held.said("Ready", record.label)
        )  # fmt: skip

    def _add_batch(self, batch: RecordBatch, label: str) -> list[SignedRecord]:
        """Add what needs no look at each record; what is left to be added one by one."""
        left = list(batch.rest)
        for part in batch.parts:
            held = self._held.get(part.sid)
            if held is None or not held.common.clean:
                left += [one.signed for one in part.records]
                continue
            missing = part.last + 1 - len(held.marks)
            if missing > 0:
                held.marks.extend(bytes(missing + _GROWTH))
            marks = np.frombuffer(held.marks, dtype=np.uint8)
            known = part.indices[marks[part.indices] > 0].tolist()
            own = all(marks[index] for index in part.by_label.get(label, ()))
            if not own or len(known) > len(part.records) // 2:
                left += [one.signed for one in part.records]
                continue
            marks[part.indices] = 1
            for tally, count in part.tallies.items():
                held.counts[tally] += count
            for bucket, total in part.sums.items():
                self._sums[bucket] ^= total
            for index in known:
                one = part.by_index[index]
                held.counts[one.tally] -= 1
                self._sums[one.bucket] ^= one.weight
            already = set(known)
            self._log += [one for one in part.records if one.index not in already]
        return left

    def knows(self, signed: SignedRecord) -> bool:
        """Whether `add` would not change anything, without verifying."""
        held = self._held.get(signed.record.sid)
        if held is None:
            return False
        known = held.common.by_signature.get(signed.signature)
        if known is not None and known.signed.record == signed.record and held.mark(known):
            return True
        found = self.both(*signed.place)
        if any(one.record == signed.record for one in found):
            return True
        return len(found) > 1 and not isinstance(signed.record, Masked)

    def expects(self, signed: SignedRecord) -> bool:
        """Whether it is of a member, in a session that is followed at present."""
        return signed.record.label in self.pool.keys and self._expected(signed.record.sid)

    def verify(self, signed: SignedRecord) -> bool:
        """Whether its signature is that of the pinned key; computed once per process."""
        return signed.record.label in self.pool.keys and self.pool.verify(signed)

    def _admit(self, signed: SignedRecord) -> Admission:
        """A record that this process does not know under this signature."""
        sid, kind, label = signed.place
        if not self.expects(signed):
            return Admission.UNEXPECTED
        held = self._held.get(sid)
        if held is None:
            held = self._held[sid] = _Held(self.pool.common(sid))
        rivals = held.common.places.get((kind, label), [])
        same = [one for one in rivals if one.signed.record == signed.record]
        marked = [one for one in rivals if held.mark(one)]
        opened = opened_by(signed.record)
        if any(held.mark(one) for one in same) or (len(marked) > 1 and not opened):
            return Admission.KNOWN
        if not self.pool.verify(signed):
            return Admission.INVALID
        if opened and not self._opens(held, signed.record, opened):
            return Admission.EARLY
        if same:
            return self._hold(held, same[0])
        if len(rivals) < 2 or opened:
            return self._hold(held, held.common.put(signed))
        return [self._hold(held, one) for one in rivals if not held.mark(one)][-1]

    def _hold(self, held: _Held, one: PooledRecord) -> Admission:
        missing = one.index + 1 - len(held.marks)
        if missing > 0:
            held.marks.extend(bytes(missing + _GROWTH))
        second = len(one.rivals) > 1 and any(held.mark(rival) for rival in one.rivals)
        held.marks[one.index] = 1 + second
        if second:
            held.contradicted.add(one.signed.place[1:])
        else:
            held.counts[one.tally] += 1
        self._sums[one.bucket] ^= one.weight
        self._joined = b""
        self._log.append(one)
        return Admission.CONFLICT if second else Admission.NEW

    def count(self, sid: bytes, *tally: Hashable) -> int:
        """How many members said something: `pool.tally_of` says what is counted."""
        held = self._held.get(sid)
        return held.counts.get(tally, 0) if held else 0

    def of(self, sid: bytes, kind: str) -> Mapping[str, SignedRecord]:
        """The records of one kind in a session, by label, those contradicted included."""
        held = self._held.get(sid)
        if held is None:
            return {}
        return {
            one.signed.record.label: one.signed
            for one in held.common.by_kind.get(kind, ())
            if held.mark(one) == 1
        }

    def get(self, sid: bytes, kind: str, label: str) -> SignedRecord | None:
        """The record at a place."""
        found = self.both(sid, kind, label)
        return found[0] if found else None

    def both(self, sid: bytes, kind: str, label: str) -> list[SignedRecord]:
        """The record at a place, and the one that contradicts it."""
        held = self._held.get(sid)
        if held is None:
            return []
        rivals = held.common.places.get((kind, label), ())
        marked = [(held.mark(one), one.signed) for one in rivals if held.mark(one)]
        return [signed for _, signed in sorted(marked, key=lambda pair: pair[0])]

    def contradicted(self, sid: bytes, kind: str, label: str) -> bool:
        """Whether a member said two different things at this place."""
        held = self._held.get(sid)
        return held is not None and (kind, label) in held.contradicted

    def contradictions(self, sid: bytes) -> frozenset[tuple[str, str]]:
        """Every (kind, label) of a session at which a member said two different things."""
        held = self._held.get(sid)
        return frozenset(held.contradicted) if held else frozenset()

    def gather(
        self, sid: bytes, kind: str, labels: tuple[str, ...]
    ) -> tuple[SignedRecord, ...] | None:
        """One record of each of these members, in order; None if one is missing or contradicted."""
        held = self._held.get(sid)
        if held is None:
            return None
        if not held.common.clean:
            found = [self.get(sid, kind, label) for label in labels]
            whole = tuple(one for one in found if one is not None)
            sound = not any((kind, label) in held.contradicted for label in labels)
            return whole if sound and len(whole) == len(labels) else None
        found = held.common.derived((kind, labels), lambda: held.common.columns(kind, labels))
        if found is None or found[1].max() >= len(held.marks):
            return None
        whole, indices = found
        return whole if np.frombuffer(held.marks, dtype=np.uint8)[indices].all() else None

    def derived(self, sid: bytes, key: Hashable, compute: Callable[[], Any]) -> Any:
        """A function of what `gather` found for every agent alike: once per process."""
        held = self._held.get(sid)
        return held.common.derived(key, compute) if held else compute()

    def __iter__(self) -> Iterator[SignedRecord]:
        """Every record, evidence included, in the order in which they came."""
        return (one.signed for one in self._log)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._log)

    def since(self, start: int) -> list[SignedRecord]:
        """Those that came after the first `start`."""
        return [one.signed for one in self._log[start:]]

    def digests(self) -> bytes:
        """A hash of 8 bytes for each bucket."""
        if not self._joined:
            for bucket, total in enumerate(self._sums):
                if self._hashed[bucket][0] != total:
                    hashed = hashlib.sha256(total.to_bytes(WEIGHT, "big")).digest()[:NAME]
                    self._hashed[bucket] = total, hashed
            self._joined = b"".join(hashed for _, hashed in self._hashed)
        return self._joined

    def names_in(self, bucket: int) -> frozenset[bytes]:
        """What this set has in a bucket."""
        return frozenset(one.name for one in self._in(bucket))

    def names(self, theirs: bytes) -> dict[int, frozenset[bytes]]:
        """What this set has in the buckets whose hash differs from theirs."""
        if len(theirs) != BUCKETS * NAME:
            raise WireError(f"digests of {len(theirs)} bytes, expected {BUCKETS * NAME}")
        own = self.digests()
        if theirs == own:
            return {}
        places = ((k, slice(k * NAME, (k + 1) * NAME)) for k in range(BUCKETS))
        return {bucket: self.names_in(bucket) for bucket, at in places if theirs[at] != own[at]}

    def lacking(self, theirs: Mapping[int, frozenset[bytes]]) -> list[SignedRecord]:
        """Records of the named buckets that the other end does not have, masked values last."""
        found = [
            one
            for bucket, names in sorted(theirs.items())
            for one in self._in(bucket)
            if one.name not in names
        ]
        return [one.signed for one in sorted(found, key=lambda one: bool(one.opens))]

    def _in(self, bucket: int) -> Iterator[PooledRecord]:
        for held in self._held.values():
            for one in held.common.buckets.get(bucket, ()):
                if held.mark(one):
                    yield one
