"""The membership: one signed register of the authority, whose number is the epoch.

It names the members with their keys and roles, who witnesses releases, the numbers of secure sums, and
where the board is. Keys are never forgotten: a member that is given a new key keeps the old ones as *closed*
(what they posted stays true, and they post nothing more), and one that leaves stays without a role. So every
post that was once valid stays valid, and boards can be merged in any order.

Which of two memberships of one number holds nobody can say: `fork` holds both hashes, and everyone stops.

    witnesses    the store, if it refuses to put a name twice (`probe_witness`)
                 or m members, of which W must hold a header before its body leaves; k of them may withhold or
                 forget:    2 W > m + k    (two headers of one number cannot both be held by W)
                            W <= m - k     (k silent members cannot stop the fleet)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.errors import FleetError
from veilsum.fleet.post import SALT, Header, Kind, Post, Topic, digest, newer, public, sealed

FORMAT = 1
SITE, KEEPER, WITNESS, ASKER, OBSERVER = "site", "keeper", "witness", "asker", "observer"
ROLES = (SITE, KEEPER, WITNESS, ASKER, OBSERVER)
CLOCK = 60  # seconds that clocks of members may be apart, unless said
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Member:
    """A member: its name, its key, the keys that it had before, and what it may do."""

    name: str  # in lower case
    key: str  # Ed25519, in hexadecimal digits
    roles: tuple[str, ...] = (SITE, KEEPER)  # none: it left
    closed: tuple[str, ...] = ()  # keys that it had before

    def __post_init__(self) -> None:
        """Refuse names, keys and roles that are none."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise FleetError(
                f"a member is named by small letters, digits, dots, lines; found {self.name!r}"
            )
        for key in (self.key, *self.closed):
            _check_key(key, self.name)
        unknown = [role for role in self.roles if role not in ROLES]
        if unknown:
            raise FleetError(
                f"{self.name} has no role {unknown[0]!r}; there are {', '.join(ROLES)}"
            )

    @property
    def data(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "name": self.name, "key": self.key, "roles": list(self.roles), "closed": list(self.closed)
        }  # fmt: skip

    @cached_property
    def public(self) -> bytes:
        """The key."""
        return bytes.fromhex(self.key)

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """All keys that it has or had, the present one first."""
        return (self.public, *map(bytes.fromhex, self.closed))


def _check_key(text: str, name: str) -> None:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9a-f]{64}", text):
        raise FleetError(f"the key of {name} must be 64 hexadecimal digits; found {text!r}")


@dataclass(frozen=True)
class Witnesses:
    """Who must hold a header before its body leaves: the store, or members."""

    members: tuple[str, ...] = ()  # names; none: the store
    needed: int = 0  # W
    silent: int = 0  # k, how many may withhold or forget

    def __post_init__(self) -> None:
        """Refuse numbers under which a release may be opened twice, or never."""
        m, w, k = len(self.members), self.needed, self.silent
        if not m:
            return
        if not 2 * w > m + k:
            raise FleetError(
                f"{w} of {m} witnesses, {k} of whom may forget, could open a release twice: it takes at "
                f"least {(m + k) // 2 + 1}"
            )
        if w > m - k:
            raise FleetError(
                f"{k} silent witnesses of {m} could stop the fleet, as {w} are needed: name more witnesses"
            )

    @property
    def store(self) -> bool:
        """Whether the store is the witness."""
        return not self.members


@dataclass(frozen=True)
class Membership:
    """Who is in, as the authority says: see the module."""

    fleet: str
    founder: str  # hexadecimal digits of the first key; it names the fleet for ever
    number: int  # the epoch
    members: tuple[Member, ...]  # in the order in which they came
    witnesses: Witnesses
    addresses: tuple[str, ...]  # the first one witnesses
    sums: Mapping[str, Any]  # of secure sums: what is not usual
    clock: int = CLOCK  # seconds that clocks may be apart
    successor: str = ""  # the key that signs all later epochs; empty: the same one
    post: Post | None = None
    fork: tuple[bytes, bytes] | None = None

    def __post_init__(self) -> None:
        """Refuse names and keys that two members have, and witnesses that are no members."""
        names = [member.name for member in self.members]
        keys = [key for member in self.members for key in member.keys]
        shorts = [key.hex()[:20] for key in keys]
        for what, found in (("name", names), ("key", shorts)):
            twice = sorted(one for one, count in Counter(found).items() if count > 1)
            if twice:
                raise FleetError(f"two members have the {what} {twice[0]}")
        strangers = set(self.witnesses.members) - set(names)
        if strangers:
            raise FleetError(f"{sorted(strangers)[0]} is to be a witness, and is no member")
        _check_key(self.founder, "the first authority")
        if self.successor:
            _check_key(self.successor, "the next authority")

    def __hash__(self) -> int:
        """That of its header, which names all that it says."""
        return hash(self.evidence)

    @cached_property
    def id(self) -> bytes:
        """The key of the authority that began it."""
        return bytes.fromhex(self.founder)

    @property
    def authority(self) -> bytes:
        """The key that signed it."""
        return b"" if self.post is None else self.post.header.key

    @property
    def signer(self) -> bytes:
        """The key that signs the next epoch."""
        return bytes.fromhex(self.successor) if self.successor else self.authority

    @cached_property
    def keys(self) -> dict[bytes, Member]:
        """Members by every key that they have or had."""
        return {key: member for member in self.members for key in member.keys}

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        return {member.name: member for member in self.members}

    def member(self, name: str) -> Member:
        """By its name."""
        if name not in self._by_name:
            raise FleetError(
                f"{self.fleet} has no member {name!r}; it has {', '.join(self._by_name)}"
            )
        return self._by_name[name]

    def get(self, name: str) -> Member | None:
        """By its name, if there is one."""
        return self._by_name.get(name)

    def having(self, role: str) -> tuple[Member, ...]:
        """Members with a role, in order."""
        return tuple(member for member in self.members if role in member.roles)

    def present(self, key: bytes) -> Member | None:
        """Whose present key this is."""
        member = self.keys.get(key)
        return member if member is not None and member.public == key else None

    def signs(self, header: Header) -> bool:
        """Whether this is the header of a membership, by the first authority, the present or the next one."""
        keys = (self.id, self.authority, self.signer)
        return header.topic == Topic(Kind.MEMBERSHIP, fleet_id(self.id)) and header.key in keys

    @property
    def evidence(self) -> bytes:
        """In the digest of a board: its hash, and a fork."""
        own = b"" if self.post is None else self.post.header.hash
        return own + b"".join(self.fork or ())

    @property
    def digest(self) -> bytes:
        """Of all that it says."""
        return digest("veilsum membership 1", self.body)

    def later(self, other: Membership) -> Membership:
        """The larger of two by (number, hash), with the evidence of both."""
        pairs = [one.fork for one in (self, other) if one.fork is not None]
        found = self if self._rank >= other._rank else other
        return replace(found, fork=max(pairs, default=None))

    def conflicts(self, other: Membership) -> bool:
        """Whether the authority signed two memberships of one number."""
        return self.number == other.number and self._rank != other._rank

    def with_evidence(self, other: Membership) -> Membership:
        """The later one, with both as evidence that there are two of one number."""
        low, high = sorted((self._rank[1], other._rank[1]))
        found = self.later(other)
        return replace(found, fork=max((low, high), found.fork or (b"", b"")))

    @property
    def _rank(self) -> tuple[int, bytes]:
        return self.number, b"" if self.post is None else self.post.header.hash

    # ---- as bytes

    @cached_property
    def body(self) -> bytes:
        """What is signed."""
        found = {
            "format": FORMAT, "fleet": self.fleet, "founder": self.founder, "number": self.number,
            "members": [member.data for member in self.members],
            "witnesses": asdict(self.witnesses), "addresses": list(self.addresses),
            "sums": dict(self.sums), "clock": self.clock, "successor": self.successor,
        }  # fmt: skip
        return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()

    def signed(self, authority: Ed25519PrivateKey) -> Membership:
        """The same, signed by the authority."""
        salt = bytes(SALT)  # nothing in it is secret
        header = Header(
            Kind.MEMBERSHIP, fleet_id(self.id), public(authority), self.number,
            digest=sealed(salt, self.body),
        )  # fmt: skip
        return replace(self, post=Post(header.signed(authority), salt, self.body))

    @classmethod
    def of(cls, post: Post) -> Self:
        """What a post says, whose signature is checked by its own key."""
        post.header.check()
        try:
            return cls._of(post.data)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FleetError(f"a membership is not written as one: {error!r}") from None

    @classmethod
    @lru_cache(8)  # sites of one process hold the same one, which never changes
    def _of(cls, data: bytes) -> Self:
        return cls._read(Post.parse(data))

    @classmethod
    def _read(cls, post: Post) -> Self:
        found = json.loads(post.body)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise newer("a membership", _version(found), FORMAT)
        members = tuple(
            Member(one["name"], one["key"], tuple(one["roles"]), tuple(one["closed"]))
            for one in found["members"]
        )
        wit = found["witnesses"]
        made = cls(
            found["fleet"], found["founder"], found["number"], members,
            Witnesses(tuple(wit["members"]), wit["needed"], wit["silent"]),
            tuple(found["addresses"]), found["sums"], found["clock"], found["successor"], post,
        )  # fmt: skip
        if made.body != post.body or made.number != post.header.number:
            raise FleetError("a membership is not written in the one form that it has")
        if post.header.terms != fleet_id(made.id) or post.header.kind is not Kind.MEMBERSHIP:
            raise FleetError("a membership is of another fleet than its header says")
        return made


def _version(found: Any) -> int:
    version = found.get("format") if isinstance(found, dict) else None
    return version if isinstance(version, int) else 0


def fleet_id(founder: bytes) -> bytes:
    """The terms of a membership."""
    return digest("veilsum fleet 1", founder)


def following(before: Membership, members: Sequence[Member], **changes: Any) -> Membership:
    """The next epoch, unsigned: keys that were known stay known."""
    made = replace(
        before, number=before.number + 1, members=tuple(members), post=None, fork=None, **changes
    )
    missing = before.keys.keys() - made.keys.keys()
    if missing:
        name = before.keys[min(missing)].name
        raise FleetError(f"{name} must stay in the membership, without a role if it leaves")
    return made
