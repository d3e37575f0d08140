"""What a member says that it holds: a signed list of releases, with a counter and a time.

    seen/<key>    counter, time, digest of its board, and for each topic: key, number, hash of each register

A witness lists the headers that it took as a witness; others list what is on their board, without hashes,
which only a claim asks for. Whoever reads it
learns what a store withholds (a release that is named here and not shown there), that a store rolled back
(the counter went back), and how old the view of this member is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from veilsum.errors import FleetError
from veilsum.fleet.post import SIGNATURE, Kind, Topic, newer, public

FORMAT = 1
PREFIX = 8  # bytes of a key and of a hash
_HEAD = struct.Struct(">B32sQQ32sBI")
_TOPIC = struct.Struct(">B32sI")
_ENTRIES = {size: struct.Struct(f">{PREFIX}sI{size}s") for size in (0, PREFIX)}
_CODES = {kind.code: kind for kind in Kind}
Entries = Mapping[Topic, Mapping[bytes, tuple[int, bytes]]]


@dataclass(frozen=True)
class Seen:
    """What a member holds, signed by its key.

    `entries`: for each topic, by the first bytes of a key: number, and the first bytes of the header's hash,
    or none of any hash.
    """

    key: bytes
    counter: int  # one more each time
    at: int  # UTC seconds, by its clock
    digest: bytes  # of its board
    entries: Entries = field(default_factory=dict)
    signature: bytes = bytes(SIGNATURE)

    def holds(self, topic: Topic, key: bytes) -> tuple[int, bytes] | None:
        """Number and hash of what it holds of a register as a witness."""
        found = self.entries.get(topic, {}).get(key[:PREFIX])
        return found if found is not None and found[1] else None

    def of(self, key: bytes) -> Iterator[tuple[Topic, int]]:
        """Topics of a key that it holds releases of, and their numbers."""
        for topic, keys in self.entries.items():
            if key[:PREFIX] in keys:
                yield topic, keys[key[:PREFIX]][0]

    def __iter__(self) -> Iterator[tuple[Topic, bytes, int, bytes]]:
        """Of all entries."""
        for topic, keys in self.entries.items():
            for key, (number, hash) in keys.items():
                yield topic, key, number, hash

    @cached_property
    def _size(self) -> int:
        """Of a hash, in bytes."""
        return max((len(hash) for _, _, _, hash in self), default=0)

    @cached_property
    def _unsigned(self) -> bytes:
        parts = [
            _HEAD.pack(
                FORMAT, self.key, self.counter, self.at, self.digest, self._size, len(self.entries)
            )
        ]
        entry = _ENTRIES[self._size]
        for topic, keys in self.entries.items():
            parts.append(_TOPIC.pack(topic.kind.code, topic.terms, len(keys)))
            parts += [entry.pack(key, number, hash) for key, (number, hash) in keys.items()]
        return b"".join(parts)

    @property
    def data(self) -> bytes:
        """As bytes."""
        return self._unsigned + self.signature

    def signed(self, key: Ed25519PrivateKey) -> Self:
        """The same, signed."""
        made = replace(self, key=public(key))
        return replace(made, signature=key.sign(b"veilsum seen 1" + made._unsigned))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Of bytes, with the signature checked."""
        try:
            made = cls._read(data)
            Ed25519PublicKey.from_public_bytes(made.key).verify(
                made.signature, b"veilsum seen 1" + made._unsigned
            )
        except (struct.error, InvalidSignature, ValueError, KeyError) as error:
            raise FleetError(
                f"a list of what a member holds is not signed by it: {error!r}"
            ) from None
        return made

    @classmethod
    def _read(cls, data: bytes) -> Self:
        version, key, counter, at, held, size, topics = _HEAD.unpack_from(data)
        if version != FORMAT:
            raise newer("a list of what a member holds", version, FORMAT)
        place, entries, entry = _HEAD.size, {}, _ENTRIES[size]
        for _ in range(topics):
            code, terms, count = _TOPIC.unpack_from(data, place)
            place += _TOPIC.size
            rows = entry.iter_unpack(data[place : place + count * entry.size])
            place += count * entry.size
            entries[Topic(_CODES[code], terms)] = {k: (number, hash) for k, number, hash in rows}
        made = cls(key, counter, at, held, entries, data[place:])
        if made.data != data:
            raise ValueError("it is not written in the one form that it has")
        return made


def seen_name(short_key: str) -> str:
    """Of the object in a store."""
    return f"seen/{short_key}"
