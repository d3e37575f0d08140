"""One question to a fleet, once: what privacy rests on, in one digest.

`SumQuery.body` is what is posted. It leaves out the sites, which the membership lists, and names the
membership by its digest. `SumQuery.digest` (q) covers the authority's key, the membership, the sites, every
field and every signed Key, so that one query on two boards, or in two epochs, is two queries.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.field import Elements, P, digest, lagrange
from veilsum.fleet.secure_sum.numbers import SumNumbers

VERSION = 1
LONGEST_LABEL = 255  # bytes
_CURVE = (1 << 255) - 19
_LOW_ORDER = {
    0,
    1,
    _CURVE - 1,
    0xB8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
}


@dataclass(frozen=True)
class Keeper:
    """A keeper of one query: its label, its X25519 key, and the digest of its signed Key."""

    label: str
    key: bytes
    post: bytes


def good_key(key: bytes) -> bool:
    """Rule K5: an X25519 key is 32 bytes, in its one spelling, and not of low order."""
    number = int.from_bytes(key, "little")
    return len(key) == 32 and number < _CURVE and number not in _LOW_ORDER


def key_body(name: str, key: bytes) -> bytes:
    """The body of a Key: it names the one query that it is for."""
    return _text(name) + key


def read_key(body: bytes) -> tuple[str, bytes]:
    """The query's name and the X25519 key; raises FleetError for anything else."""
    cursor = _Cursor(body, "Key")
    name, key = cursor.text(), cursor.take(32)
    cursor.end()
    if not good_key(key):
        raise FleetError(
            "a Key holds no X25519 key, or one of low order; its keeper must post another"
        )
    return name, key


@dataclass(frozen=True)
class SumQuery:
    """A secure sum that is asked; `sites` come from the membership of `epoch`."""

    name: str  # a site deals once under it
    terms: bytes  # digest of what is asked and how it is protected
    fleet: bytes  # the authority's key
    membership: bytes  # its digest
    epoch: int
    sites: tuple[tuple[str, bytes], ...]  # label and Ed25519 key
    keepers: tuple[Keeper, ...]  # keeper j holds the point j = 1 .. k
    proposer: bytes  # the key of the site that posts the roster
    deadline: int  # UTC seconds
    numbers: SumNumbers  # for the keepers listed
    length: int
    bound: int  # the largest plausible sum in size, in steps

    def __post_init__(self) -> None:
        """Refuse what no query can be."""

        def refuse(why: str) -> None:
            raise FleetError(f"query {self.name!r}: {why}")

        for what in ("terms", "fleet", "membership", "proposer"):
            if len(getattr(self, what)) != 32:
                refuse(f"{what} must be 32 bytes; found {len(getattr(self, what))}")
        for what, held in (("sites", self.sites), ("keepers", self.keepers)):
            if len(held) != getattr(self.numbers, what):
                refuse(f"lists {len(held)} {what}; its numbers say {getattr(self.numbers, what)}")
        columns: list[list[Any]] = [
            [label for label, _ in self.sites],
            [key for _, key in self.sites],
            [keeper.label for keeper in self.keepers],
            [keeper.key for keeper in self.keepers],
        ]
        if any(len(set(column)) != len(column) for column in columns):
            refuse("a label or a key is listed twice")
        if not all(0 < len(label.encode()) <= LONGEST_LABEL for label in columns[0] + columns[2]):
            refuse(f"a label must have 1 to {LONGEST_LABEL} bytes")
        if not all(good_key(k.key) and len(k.post) == 32 for k in self.keepers):
            refuse("a keeper's key is no X25519 key, or one of low order; list only valid Keys")
        if not 0 < len(self.name.encode()) <= LONGEST_LABEL:
            refuse(f"a name must have 1 to {LONGEST_LABEL} bytes")
        if not 1 <= self.length < 1 << 32 or not 1 <= self.bound < P // 2:
            refuse("length and bound must be above 0, and the bound below p/2")
        if not (0 <= self.epoch < 1 << 32 and 0 <= self.deadline < 1 << 62):
            refuse("epoch and deadline must be whole numbers from 0")

    @cached_property
    def body(self) -> bytes:
        """What is posted."""
        head = struct.pack(">B", VERSION) + _text(self.name)
        head += self.terms + self.fleet + self.membership + self.proposer
        head += struct.pack(">IQIQ", self.epoch, self.deadline, self.length, self.bound)
        head += struct.pack(">7I", *astuple(self.numbers))
        return head + b"".join(_text(k.label) + k.key + k.post for k in self.keepers)

    @classmethod
    def read(cls, body: bytes, sites: tuple[tuple[str, bytes], ...]) -> SumQuery:
        """The query of a body and of the sites that its membership lists; else FleetError."""
        cursor = _Cursor(body, "Query")
        (version,) = cursor.numbers(">B")
        if version != VERSION:
            raise FleetError(f"a Query of format {version}; this version reads format {VERSION}")
        name = cursor.text()
        terms, fleet, membership, proposer = (cursor.take(32) for _ in range(4))
        epoch, deadline, length, bound = cursor.numbers(">IQIQ")
        numbers = SumNumbers(*cursor.numbers(">7I"))
        if numbers.keepers > len(body):
            raise FleetError("a Query is cut off")
        keepers = tuple(
            Keeper(cursor.text(), cursor.take(32), cursor.take(32)) for _ in range(numbers.keepers)
        )
        cursor.end()
        return cls(
            name, terms, fleet, membership, epoch, sites, keepers, proposer, deadline, numbers,
            length, bound,
        )  # fmt: skip

    @cached_property
    def digest(self) -> bytes:
        """q: of everything that privacy rests on."""
        sites = b"".join(_text(label) + key for label, key in self.sites)
        return digest(b"query", self.fleet, self.membership, self.body, sites)

    @cached_property
    def index(self) -> dict[str, int]:
        """The place of a site, by label."""
        return {label: i for i, (label, _) in enumerate(self.sites)}

    @cached_property
    def point(self) -> dict[str, int]:
        """The point of a keeper, by label."""
        return {keeper.label: j for j, keeper in enumerate(self.keepers, 1)}

    @cached_property
    def columns(self) -> int:
        """Polynomials of a Deal; the last one, g, only hides the check word."""
        return -(-self.length // self.numbers.pack) + 1

    @property
    def secrets(self) -> tuple[int, ...]:
        """The points 0, -1, .. that hold the coordinates."""
        return tuple(-i for i in range(self.numbers.pack))

    @property
    def spread(self) -> Elements:
        """The matrix from values at the secrets and at keepers 1 .. t-1 to those at t .. k."""
        return _spread(self.numbers.pack, self.numbers.threshold, len(self.keepers))

    def check_signed(
        self, signed: SumNumbers, membership: bytes, epoch: int, keepers: frozenset[str]
    ) -> None:
        """Rule K1: the newest membership that is held signs these numbers, sites and keepers."""
        if (self.epoch, self.membership) != (epoch, membership):
            raise FleetError(
                f"query {self.name!r} is of epoch {self.epoch}, the newest one here is {epoch}; "
                "ask again in the newest epoch"
            )
        if self.numbers != signed.listed(len(self.keepers), self.numbers.pack):
            raise FleetError(
                f"query {self.name!r} has other numbers than the authority signed for "
                f"{len(self.keepers)} keepers; expected {signed.listed(len(self.keepers))}"
            )
        strange = sorted(set(self.point) - keepers)
        if strange:
            raise FleetError(f"query {self.name!r} lists {strange[0]!r}, who is no keeper")

    def check_keys(self, keys: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Rule K1: each keeper's own signed Key, (digest of the post, body), names this query."""
        for keeper in self.keepers:
            post, body = keys.get(keeper.label, (b"", b""))
            if post != keeper.post or read_key(body) != (self.name, keeper.key):
                raise FleetError(
                    f"query {self.name!r}: the key listed for {keeper.label!r} is not one that it "
                    "signed for this query"
                )


@lru_cache(16)
def _spread(pack: int, threshold: int, keepers: int) -> Elements:
    nodes = (*(-i for i in range(pack)), *range(1, threshold))
    return lagrange(nodes, tuple(range(threshold, keepers + 1)))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">B", len(data)) + data


class _Cursor:
    """Reads a body from front to end, and refuses what is missing or left over."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._data, self._kind, self._at = data, kind, 0

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) != count:
            raise FleetError(f"a {self._kind} is cut off")
        self._at += count
        return part

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        (count,) = self.numbers(">B")
        try:
            return self.take(count).decode()
        except UnicodeDecodeError:
            raise FleetError(f"a {self._kind} holds a label that is no text") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise FleetError(f"a {self._kind} has {len(self._data) - self._at} bytes too many")
