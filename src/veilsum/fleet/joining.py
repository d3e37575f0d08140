"""Who is in: a fleet begins, sites ask to join, the authority says yes in the next epoch.

    begin ── epoch 1 ──> board    site: JoinRequest ──> board    FleetAuthority.admit ── epoch n + 1 ──> board

The authority's key is one file, `authority.key`, in the folder of the member that asks. Each epoch is kept in
that member's site.db before it is shown, so that no number is signed twice, whatever the store shows.

A request proves nothing but that its sender has the key: the authority compares fingerprints by phone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from veilsum.errors import FleetError
from veilsum.fleet.config import read_site_config, write_site_toml
from veilsum.fleet.database import NAME, SiteFile
from veilsum.fleet.membership import (
    ASKER,
    KEEPER,
    SITE,
    Member,
    Membership,
    Witnesses,
    fleet_id,
    following,
)
from veilsum.fleet.post import Kind, Post, Topic, newer, public, short
from veilsum.fleet.seat import Seat
from veilsum.fleet.site import TOML, Site
from veilsum.fleet.store import open_store
from veilsum.fleet.store.witness import WitnessProbe, probe_witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from veilsum.fleet.consent import Policy
    from veilsum.fleet.store import Store

FORMAT = 1
AUTHORITY, NEXT = "authority.key", "authority.next.key"
SITES = (SITE, KEEPER)
MOST_WITNESSES = 3  # chosen, unless said
LARGEST_REQUEST = 4096
_DOMAIN = b"veilsum join 1"


def fingerprint(key: bytes | str) -> str:
    """A key for two people on the phone.

    Examples
    --------
    >>> fingerprint(bytes(range(32)))
    '0001 0203 0405 0607 0809'
    """
    digits = key if isinstance(key, str) else short(key)
    return " ".join(digits[at : at + 4] for at in range(0, 20, 4))


def named(text: str, usual: str = "fleet") -> str:
    """A name of members and fleets from any text.

    Examples
    --------
    >>> named("/srv/North Grid")
    'north-grid'
    """
    last = re.split(r"[/:\\]", text.rstrip("/\\"))[-1].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", last).strip("-._")[:63] or usual


# ---- a site asks to join


@dataclass(frozen=True)
class JoinRequest:
    """A site's line to the authority: its name, its key, the roles that it asks for."""

    name: str
    key: str  # in hexadecimal digits, as the signature
    roles: tuple[str, ...] = SITES
    signature: str = ""

    def __post_init__(self) -> None:
        """Refuse what no member can be."""
        Member(self.name, self.key, self.roles)

    @property
    def line(self) -> str:
        """What `admit` takes."""
        return f"{self.name}={self.key}"

    @property
    def object(self) -> str:
        """Its name in a store."""
        return f"join/{self.key[:20]}"

    @property
    def _signed_part(self) -> bytes:
        found = {"format": FORMAT, "key": self.key, "name": self.name, "roles": list(self.roles)}
        return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()

    @property
    def data(self) -> bytes:
        """As bytes."""
        return json.dumps([self._signed_part.decode(), self.signature]).encode()

    def signed(self, key: Ed25519PrivateKey) -> Self:
        """The same, signed."""
        return replace(self, signature=key.sign(_DOMAIN + self._signed_part).hex())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Of bytes, with the signature checked."""
        try:
            text, signature = json.loads(data[: LARGEST_REQUEST + 1])
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise newer("a request to join", int(found["format"]), FORMAT)
            made = cls(found["name"], found["key"], tuple(found["roles"]), signature)
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(made.key)).verify(
                bytes.fromhex(signature), _DOMAIN + text.encode()
            )
        except (
            ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, InvalidSignature,
        ):  # fmt: skip
            raise FleetError("a request to join is not signed by its key") from None
        return made


def requests_on(store: Store) -> list[JoinRequest]:
    """All requests to join on a store, by name; what is none is left out."""
    found = []
    for name in store.names("join"):
        with suppress(FleetError):
            made = JoinRequest.parse(store.get(name) or b"")
            found += [made] if made.object == name else []
    return sorted(found, key=lambda one: (one.name, one.key))


def _shown(store: Store) -> list[Membership]:
    """What each key of an authority signed last on a store."""
    found = []
    for name in sorted(store.names("post")):
        if name.split("/")[-1].startswith(f"{Kind.MEMBERSHIP.word}-"):
            with suppress(FleetError):
                found.append(Membership.of(Post.parse(store.get(name) or b"")))
    return found


def fleets_on(store: Store) -> list[Membership]:
    """What each authority that began a fleet on a store signed there last with its first key."""
    return [one for one in _shown(store) if one.authority == one.id]


def newest(fleet: Membership, store: Store) -> Membership:
    """The newest epoch that a store shows of a fleet: each key names the one that signs after it."""
    shown = {one.authority: one for one in _shown(store) if one.id == fleet.id}
    while (after := shown.get(fleet.signer)) is not None and after.number > fleet.number:
        fleet = after
    return fleet


def chosen_fleet(store: Store, authority: str = "") -> Membership:
    """The fleet at an address: the one of that authority, or the only one."""
    wanted = authority.replace(" ", "").lower()
    known = fleets_on(store)
    found = [one for one in known if one.founder.startswith(wanted)]
    if len(found) == 1 and (not wanted or len(wanted) >= 20):
        return found[0]
    shown = ", ".join(f"{one.fleet} of {fingerprint(one.founder)}" for one in known)
    if not known:
        raise FleetError(
            f"{store.address} has no fleet: correct the address, or let the authority begin one there: "
            "veilsum fleet init ADDRESS"
        )
    if len(wanted) < 20 and wanted:
        raise FleetError(f"--authority takes 20 digits of a key at least; here is {shown}")
    if wanted:
        raise FleetError(
            f"{store.address} has no fleet of the authority {authority}; here is {shown}. If the authority's "
            "own screen says another key than this store, somebody else wrote there: do not join"
        )
    raise FleetError(f"{store.address} has several fleets: {shown}; say which with --authority KEY")


def join(
    folder: Path, address: str, *, name: str, data: str | None, epsilon: float, per: str = "reading",
    policy: Policy | None = None, roles: Sequence[str] = SITES, authority: str = "",
) -> tuple[Membership, JoinRequest]:  # fmt: skip
    """Make a site in a folder, and put its request on the board; the fleet and the request.

    Nothing is left in the folder if it cannot be done.
    """
    check_empty(folder)
    store = opened(address, folder)
    fleet = chosen_fleet(store, authority)
    with undone(folder):
        write_site_toml(
            folder / TOML, name=name, address=address, authority=fleet.founder, table=data,
            epsilon=epsilon, per=per, policy=policy,
        )  # fmt: skip
        with SiteFile(folder / NAME, new=True) as file:
            key = file.key
        with Site(folder) as site:
            if site.data is not None:
                site.data.columns()
        request = JoinRequest(name, public(key).hex(), tuple(roles)).signed(key)
        store.put(request.object, request.data)
    return fleet, request


def check_empty(folder: Path) -> None:
    """Raise where a site or an authority is already."""
    for name in (TOML, NAME, AUTHORITY):
        if (folder / name).exists():
            raise FleetError(
                f"{folder} has a {name} already: a folder is one site, with one key for good; make another "
                "folder, go there, and try again"
            )


@contextmanager
def undone(folder: Path) -> Iterator[None]:
    """Remove what was made in a folder if the block fails."""
    before = set(folder.iterdir())
    try:
        yield
    except BaseException:
        for path in set(folder.iterdir()) - before:
            path.unlink()
        raise


def opened(address: str, folder: Path, *, create: bool = False) -> Store:
    """The store at an address that may be relative to a folder."""
    return open_store(placed(address, folder), create=create)


def placed(address: str, folder: Path) -> str:
    """An address, absolute if it is a folder."""
    kind, colon, _ = address.partition(":")
    if colon and "/" not in kind:
        return address
    return os.path.abspath(folder / Path(address).expanduser())


def is_folder(address: str) -> bool:
    """Whether an address is a folder of this machine."""
    kind, colon, _ = address.partition(":")
    return not colon or "/" in kind or kind == "file"


# ---- the authority


def begin(
    folder: Path, address: str, *, name: str = "", desk: str = "desk", mounted: bool = False,
    witnesses: bool | None = None,
) -> tuple[Membership, WitnessProbe]:  # fmt: skip
    """Begin a fleet: the authority's key, a member that asks, and epoch 1 on the board.

    `mounted`: all sites mount the same folder. `witnesses`: members are witnesses in any case.
    """
    check_empty(folder)
    store = opened(address, folder, create=True)
    if known := fleets_on(store):
        raise FleetError(
            f"{address} has a fleet already, {known[0].fleet} of {fingerprint(known[0].founder)}: choose "
            "another address for a new one, such as a folder below it"
        )
    probe = probe_witness(store, one_file_system=mounted)
    with undone(folder):
        key = new_key(folder / AUTHORITY)
        authority = public(key).hex()
        write_site_toml(
            folder / TOML, name=desk, address=address, authority=authority, table=None, epsilon=1.0
        )
        with SiteFile(folder / NAME, new=True) as file:
            member = Member(desk, public(file.key).hex(), (ASKER,))
        store_alone = probe.able and not witnesses
        first = Membership(
            name or named(address), authority, 1, (member,),
            Witnesses() if store_alone else Witnesses((desk,), 1, 0), (address,), {},
        )  # fmt: skip
        with Site(folder) as site:
            return publish(site.seat(), first, key), probe


def publish(seat: Seat, membership: Membership, key: Ed25519PrivateKey) -> Membership:
    """Sign an epoch, keep it, and show it: in this order."""
    signed = membership.signed(key)
    with seat.file.transaction():
        seat.board.take_membership(signed)
        seat.file.save(seat.fleet, seat.board)
    show(seat)
    return signed


def show(seat: Seat) -> None:
    """Put the newest epoch on all stores that do not show it."""
    post = seat.membership.post
    assert post is not None
    name = f"post/{short(post.header.key)}/{Topic(Kind.MEMBERSHIP, fleet_id(seat.fleet)).name}"
    for store in seat.stores:
        if store.get(name) != post.data:
            store.put(name, post.data)


def new_key(path: Path) -> Ed25519PrivateKey:
    """A key in a new file that only its owner can read."""
    key = Ed25519PrivateKey.generate()
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key.private_bytes_raw().hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    return key


def read_key(path: Path) -> Ed25519PrivateKey:
    """The key of a file."""
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))
    except (ValueError, UnicodeDecodeError):
        raise FleetError(
            f"{path} is no key of an authority: 64 hexadecimal digits; take it from its copy"
        ) from None


class FleetAuthority:
    """The authority of a fleet, in the folder where it began: what it may do, each the next epoch."""

    def __init__(self, folder: Path) -> None:
        """Without opening anything but the key."""
        self.folder = folder
        if not (folder / AUTHORITY).is_file():
            raise FleetError(
                f"{folder.resolve()} has no {AUTHORITY}: this is done where veilsum fleet init was called; "
                "go there, and try again"
            )

    @contextmanager
    def seated(self) -> Iterator[Seat]:
        """The asker's seat with the newest epoch, which is shown again if the store lacks it."""
        with Site(self.folder) as site:
            seat = site.seat()
            seat.read()
            if seat.traffic.failed:
                raise FleetError(next(iter(seat.traffic.failed)))
            seat.check_membership()
            show(seat)
            yield seat

    def key(self, seat: Seat) -> Ed25519PrivateKey:
        """The key that signs the next epoch."""
        for name in (AUTHORITY, NEXT):
            if (self.folder / name).is_file():
                key = read_key(self.folder / name)
                if public(key) == seat.membership.signer:
                    if name == NEXT:
                        (self.folder / NEXT).replace(self.folder / AUTHORITY)
                    return key
        raise FleetError(
            f"{self.folder / AUTHORITY} is not the key that signs {seat.name}: it was rotated, or is of "
            "another fleet"
        )

    def _sign(self, seat: Seat, members: Sequence[Member], witnesses: Witnesses) -> Membership:
        made = following(seat.membership, members, witnesses=witnesses, successor="")
        return publish(seat, made, self.key(seat))

    def admit(self, entries: Sequence[JoinRequest]) -> Membership:
        """Admit members, or give those that are in another key or other roles."""
        with self.seated() as seat:
            members = admitted(seat.membership, entries)
            return self._sign(seat, members, witnesses_for(seat, members))

    def remove(self, names: Iterable[str]) -> Membership:
        """Take all roles of members: what they posted stays, and they post nothing more."""
        with self.seated() as seat:
            gone = removable(seat.membership, names)
            members = tuple(
                replace(one, roles=()) if one.name in gone else one
                for one in seat.membership.members
            )
            wit = seat.membership.witnesses
            if gone & set(wit.members):
                wit = chosen_witnesses(members, seat.membership)
            return self._sign(seat, members, wit)

    def set_witnesses(self, witnesses: Witnesses) -> Membership:
        """Name who must hold a header before its body leaves."""
        with self.seated() as seat:
            return self._sign(seat, seat.membership.members, witnesses)

    def rotate(self) -> Membership:
        """Sign with a new key from the next epoch but one on."""
        with self.seated() as seat:
            key = self.key(seat)
            path = self.folder / NEXT
            following_key = read_key(path) if path.is_file() else new_key(path)
            made = following(
                seat.membership, seat.membership.members, successor=public(following_key).hex()
            )
            found = publish(seat, made, key)
            path.replace(self.folder / AUTHORITY)
            return found

    def close(self) -> Membership:
        """End a fleet: nobody has a role any more, so nobody asks and nobody releases."""
        with self.seated() as seat:
            names = [one.name for one in seat.membership.members if one.roles]
        if not names:
            raise FleetError(f"{seat.name} is closed already")
        return self.remove(names)


def removable(membership: Membership, names: Iterable[str]) -> set[str]:
    """Members that have roles to lose."""
    found = [membership.member(name) for name in names]
    for one in found:
        if not one.roles:
            raise FleetError(f"{one.name} is out already")
    return {one.name for one in found}


def admitted(before: Membership, entries: Sequence[JoinRequest]) -> tuple[Member, ...]:
    """The members of the next epoch."""
    members = {one.name: one for one in before.members}
    for entry in entries:
        held = members.get(entry.name)
        closed = () if held is None else held.closed
        if held is not None and held.key != entry.key:
            closed = (held.key, *closed)
        if entry.key in closed:
            raise FleetError(
                f"{entry.key[:20]} was a key of {entry.name} and is closed: a site that lost its file joins "
                "again in an empty folder, which makes a new key"
            )
        members[entry.name] = Member(entry.name, entry.key, entry.roles, closed)
    return tuple(members.values())


def requested(
    membership: Membership, requests: Sequence[JoinRequest], words: Sequence[str],
    roles: Sequence[str] = (),
) -> list[JoinRequest]:  # fmt: skip
    """Which requests `NAME` and `NAME=KEY` mean; KEY is 20 digits that a key begins with, at least."""
    found = []
    for word in words:
        name, _, digits = word.partition("=")
        one = _requested(membership, requests, name.strip(), digits.replace(" ", "").lower())
        found.append(replace(one, roles=tuple(roles)) if roles else one)
    return found


def _requested(
    membership: Membership, requests: Sequence[JoinRequest], name: str, digits: str
) -> JoinRequest:
    if digits and len(digits) < 20:
        raise FleetError(f"{name}={digits}: 20 digits of a key at least, as the site's screen says")
    held = membership.get(name)
    closed = set() if held is None else set(held.closed)
    same = [one for one in requests if one.name == name and one.key not in closed]
    fits = [one for one in same if one.key.startswith(digits)]
    if held is not None and not digits:
        fits = [one for one in fits if one.key != held.key] or fits
    if len(fits) == 1:
        return fits[0]
    if len(fits) > 1:
        lines = "".join(f"\n  {one.name}={one.key[:20]}" for one in fits)
        raise FleetError(
            f"{len(fits)} requests are called {name}. Ask the site by phone which key is its own, and admit "
            f"that one:{lines}"
        )
    if len(digits) == 64:
        return JoinRequest(name, digits, held.roles if held is not None and held.roles else SITES)
    if held is not None and held.key.startswith(digits):
        return JoinRequest(name, held.key, held.roles or SITES)
    if same:
        raise FleetError(
            f"the request of {name} has the key {fingerprint(same[0].key)}, not {digits}: somebody else may "
            "have sent it; admit nobody, and ask the site"
        )
    names = ", ".join(sorted({one.name for one in requests} - {m.name for m in membership.members}))
    raise FleetError(
        f"nobody called {name} asks to join; on the board are requests of {names or 'nobody'}. The site "
        "calls veilsum fleet join ADDRESS first"
    )


# ---- witnesses


def witnesses_for(seat: Seat, members: Sequence[Member]) -> Witnesses:
    """Of the next epoch: chosen anew while members witness and nothing was released."""
    before = seat.membership.witnesses
    released = any(topic.kind.claimed for topic in seat.board.registers)
    return before if before.store or released else chosen_witnesses(members, seat.membership)


def chosen_witnesses(members: Sequence[Member], before: Membership) -> Witnesses:
    """2 of the first 3 sites; 2 of 2; of a single site the members that ask, one of them."""
    if before.witnesses.store:
        return before.witnesses
    sites = [one.name for one in members if SITE in one.roles][:MOST_WITNESSES]
    if len(sites) >= 2:
        return Witnesses(tuple(sites), len(sites) // 2 + 1, 0)
    asking = [one.name for one in members if ASKER in one.roles][:1]
    return Witnesses(tuple(asking or sites or [members[0].name]), 1, 0)


def said_of(witnesses: Witnesses) -> str:
    """Who witnesses, in words."""
    if witnesses.store:
        return "the store refuses to write a name twice, so it witnesses releases"
    names = ", ".join(witnesses.members)
    if len(witnesses.members) == 1:
        return f"{names} witnesses releases"
    return f"{witnesses.needed} of {names} witness releases"


def config_fleet(folder: Path, address: str) -> str:
    """The address in a site.toml that means the same as one that was typed."""
    config = read_site_config(folder / TOML)
    for one in config.fleets:
        if one.address == address or placed(one.address, folder) == placed(address, Path.cwd()):
            return one.address
    return config.fleet(address).address
