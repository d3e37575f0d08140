"""A post: a signed header, and a body that the header names by a salted hash.

    header = kind, terms, key, number, first and last slot, draws, readings, epsilon so far, H(salt, body)
    post   = header, Ed25519 signature of the header, salt (128 bits), body

`kind` and `terms` are the *topic*: terms is the digest of what is asked and how it is protected, never of
who takes part. Numbers of a topic and key count from 1. A header without its body is an *intent*: it says
what will be opened, and nothing of what is in it, as the salt is random.

Everything is bytes of one form: what does not parse to the same bytes again is no post.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from veilsum.errors import FleetError

FORMAT = 1
SALT = 16
SIGNATURE = 64
SHORT = 20  # hexadecimal digits of a key or a digest in the name of an object
_PACKED = struct.Struct(">BB32s32sIIIIId32s")
HEADER = _PACKED.size + SIGNATURE
LARGEST = (1 << 32) - 1
KB = 1024


class Kind(Enum):
    """What a post is: its code, who may make it, and how large it may be.

    `claimed`: it opens something drawn from readings or secrets, once and for ever, so that its header is
    claimed before its body leaves. `kept`: how many opened posts of one site and topic a board keeps.
    """

    MEMBERSHIP = (1, "authority", 4096 * KB, False, 1)
    QUESTION = (2, "asker", 64 * KB, False, 1)
    CONSENT = (3, "site", 2 * KB, False, 1)
    KEY = (4, "keeper", KB, False, 4)
    QUERY = (5, "asker", 4096 * KB, False, 1)
    DEAL = (6, "site", 4096 * KB, True, 4)
    ROSTER = (7, "asker", 16384 * KB, False, 1)
    ANSWER = (8, "keeper", 1024 * KB, True, 1)
    WORDS = (9, "keeper", 1024 * KB, False, 1)
    POOL = (10, "site", 1024 * KB, True, 1)

    def __init__(self, code: int, role: str, largest: int, claimed: bool, kept: int) -> None:
        """Name the parts."""
        self.code, self.role, self.largest = code, role, largest
        self.claimed, self.kept = claimed, kept

    @property
    def word(self) -> str:
        """In names of objects."""
        return self.name.lower()


_KINDS = {kind.code: kind for kind in Kind}
WORDS = {kind.word: kind for kind in Kind}


def short(value: bytes) -> str:
    """A key or a digest in the name of an object, or for people."""
    return value.hex()[:SHORT]


def digest(domain: str, *parts: bytes) -> bytes:
    """SHA-256 of parts with their lengths, for one purpose."""
    found = hashlib.sha256()
    for part in (domain.encode(), *parts):
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()


@dataclass(frozen=True)
class Topic:
    """What a post is about."""

    kind: Kind
    terms: bytes

    def __hash__(self) -> int:
        """That of bytes, which they keep."""
        return hash(self.terms)

    @cached_property
    def name(self) -> str:
        """In names of objects."""
        return f"{self.kind.word}-{short(self.terms)}"


@lru_cache(1 << 12)  # one object of each topic: what is held by topic is found without comparing
def topic_of(kind: Kind, terms: bytes) -> Topic:
    """Of a kind and terms."""
    return Topic(kind, terms)


@dataclass(frozen=True)
class Header:
    """A signed header; valid in form, and its signature is right once it came through `check`."""

    kind: Kind
    terms: bytes
    key: bytes
    number: int
    first: int = 0
    last: int = 0
    draws: int = 0
    readings: int = 0
    epsilon: float = 0.0
    digest: bytes = bytes(32)
    signature: bytes = bytes(SIGNATURE)

    def __post_init__(self) -> None:
        """Refuse numbers that no header has."""
        counts = (self.number, self.first, self.last, self.draws, self.readings)
        if not all(0 <= count <= LARGEST for count in counts) or self.number < 1:
            raise FleetError(f"a post counts from 1 up to {LARGEST}; found {counts}")
        if self.last < self.first or not 0 <= self.epsilon < float("inf"):
            raise FleetError("a post has slots in order, and a finite epsilon of at least 0")

    @cached_property
    def topic(self) -> Topic:
        """Kind and terms."""
        return topic_of(self.kind, self.terms)

    @cached_property
    def _unsigned(self) -> bytes:
        return _PACKED.pack(
            FORMAT, self.kind.code, self.terms, self.key, self.number, self.first, self.last,
            self.draws, self.readings, self.epsilon, self.digest,
        )  # fmt: skip

    @cached_property
    def data(self) -> bytes:
        """As bytes."""
        return self._unsigned + self.signature

    @cached_property
    def hash(self) -> bytes:
        """Of the header and its signature."""
        return digest("veilsum header 1", self.data)

    @property
    def rank(self) -> tuple[int, bytes]:
        """Of two headers of one key and topic the higher one is kept."""
        return self.number, self.hash

    def signed(self, key: Ed25519PrivateKey) -> Self:
        """The same, signed."""
        return replace(self, signature=key.sign(b"veilsum header 1" + self._unsigned))

    def check(self) -> Self:
        """Raise unless the signature is that of its key."""
        _verify(self.key, self.signature, self._unsigned)
        return self

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Of bytes; the signature is not checked."""
        if len(data) < HEADER:
            raise FleetError(f"a header has {HEADER} bytes; found {len(data)}")
        version, code, *rest = _PACKED.unpack(data[: _PACKED.size])
        if version != FORMAT:
            raise newer("a post", version, FORMAT)
        if code not in _KINDS:
            raise FleetError(f"no kind of post has code {code}")
        return cls(*(_KINDS[code], *rest, data[_PACKED.size : HEADER]))


@lru_cache(1 << 14)  # boards of one process hold the same headers; an error is not kept
def _verify(key: bytes, signature: bytes, unsigned: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, b"veilsum header 1" + unsigned)
    except (InvalidSignature, ValueError):
        raise FleetError("the signature of a post is not that of its key") from None


def newer(what: str, found: int, known: int) -> FleetError:
    """The error for a format that is not known here."""
    return FleetError(
        f"{what} has format {found}, and this veilsum knows format {known}: upgrade veilsum at this site"
    )


@dataclass(frozen=True)
class Post:
    """A header with its body, which it names."""

    header: Header
    salt: bytes = field(repr=False)
    body: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a body that the header does not name, or that is too large."""
        if len(self.salt) != SALT or self.header.digest != sealed(self.salt, self.body):
            raise FleetError("the body of a post is not the one that its header names")
        if len(self.body) > self.header.kind.largest:
            raise FleetError(
                f"a {self.header.kind.word} has at most {self.header.kind.largest:,} bytes; found "
                f"{len(self.body):,}"
            )

    @cached_property
    def data(self) -> bytes:
        """As bytes."""
        return self.header.data + self.salt + self.body

    @property
    def size(self) -> int:
        """In bytes."""
        return HEADER + SALT + len(self.body)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Of bytes; the signature is not checked."""
        header = Header.parse(data)
        return cls(header, data[HEADER : HEADER + SALT], data[HEADER + SALT :])


def sealed(salt: bytes, body: bytes) -> bytes:
    """What a header says of a body."""
    return digest("veilsum body 1", salt, body)


def public(key: Ed25519PrivateKey) -> bytes:
    """The public half."""
    return key.public_key().public_bytes_raw()


def pack(posts: tuple[bytes, ...]) -> bytes:
    """Several texts as one object, each with its length."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in posts)


def unpack(data: bytes) -> tuple[bytes, ...]:
    """What was packed."""
    found, place = [], 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        place += 4
        if place + size > len(data):
            raise FleetError("an object ends before its last post does")
        found.append(data[place : place + size])
        place += size
    return tuple(found)
