"""One release, never two: the five rules, each in one place.

What must hold: the same reading is never opened with two draws of noise; what left was charged; whatever is
lost, copied or rolled back.

1. *One transaction*: budget, draw, charge, header, body (`Releases.draw`). The header is the intent.
2. *Claim, then open* (`Releases.advance`): the header leaves first, the body when the witnesses hold the
   header. After a granted claim the site reads its register, its claims and the membership once more: a copy
   that slept between reading and claiming finds what happened meanwhile. The register alone does not show it:
   a copy that slept before its put may have written an old one over it. The highest claim is never removed.
3. *A refused claim means stop*, for good (`stop`): another copy is alive. Never the next number.
4. *The key is in the ledger's file* (`Releases.covered`): a lost ledger is a lost key. A new key begins
   after all slots of the keys before it, and takes over what they spent.
5. *Derived draws* (`Releases.entropy`): the same readings give the same bits, other content shares nothing.

Witnesses are the store, which refuses to put a name twice, or members (`membership.Witnesses`). A member
takes a header as a witness (`witnessed`) before it shows it, one for each number, and only if its slots begin
after all that it holds of that site, under any key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from veilsum.errors import FleetError, StoppedError, StoreBusyError
from veilsum.fleet.draws import DerivedEntropy, ratcheted
from veilsum.fleet.membership import Member, Membership
from veilsum.fleet.post import SALT, Header, Post, Topic, sealed, short
from veilsum.fleet.seen import PREFIX
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, read

if TYPE_CHECKING:
    from veilsum.fleet.budget_units import Spending
    from veilsum.fleet.ledger import SiteLedger
    from veilsum.fleet.seat import Seat

STOPPED = "stopped"


class Claimed(Enum):
    """What became of a claim."""

    GRANTED = "granted"
    REFUSED = "refused"
    WAITING = "waiting"


@dataclass(frozen=True)
class Draft:
    """What is to be released: everything but the draw."""

    topic: Topic
    first: int  # slots that it covers
    last: int
    make: Callable[[Entropy], bytes]  # the body; called once, within the transaction
    content: bytes  # all that shapes the body but the draw, exactly; secret
    draws: int = 1  # so far, this one included, as the readings
    readings: int = 0
    spending: Spending | None = None  # None: it says nothing of a reading
    fresh: bool = False  # draws from the operating system
    also: Callable[[], None] | None = None  # kept with it, within the transaction


class Witness(ABC):
    """Who must hold a header before its body leaves; abstract, chosen once for a membership."""

    @abstractmethod
    def claim(self, seat: Seat, header: Header) -> Claimed:
        """Ask for it; asking again changes nothing."""

    def overtaken(self, seat: Seat, header: Header) -> bool:
        """Whether a copy of this site claimed what is not in this ledger, in this epoch or one before.

        All topics count, as there is one budget for all. A claim is removed only where a higher one stands,
        and so the highest always stands: of two copies that claim, the later one finds the other's.
        """
        ledger = {t.name: number for t, (number, _, _) in seat.file.releases(seat.fleet).items()}
        claims = seat.claimed()
        if (header.topic.name, header.number) in claims:
            name = StoreWitness.name(header)
            if seat.stores[0].get(name) not in (header.data, None):
                return True
        return any(number > ledger.get(name, 0) for name, number in claims)

    def release(self, seat: Seat, header: Header) -> None:  # noqa: B027  nothing, for most
        """Forget what came before an opened release."""


class StoreWitness(Witness):
    """A store that refuses to put a name twice: the name is the number of the release."""

    @staticmethod
    def name(header: Header, number: int | None = None) -> str:
        """Of a claim."""
        place = header.number if number is None else number
        return f"claim/{short(header.key)}/{header.topic.name}/{place}"

    def claim(self, seat: Seat, header: Header) -> Claimed:
        """Put it; what stands there instead may be this site's own, from before a crash."""
        if seat.stores[0].put(self.name(header), header.data, new=True):
            return Claimed.GRANTED
        there = seat.stores[0].get(self.name(header))
        if there is None:
            raise StoreBusyError(f"{seat.stores[0].address} refuses a claim and does not show it")
        return Claimed.GRANTED if there == header.data else Claimed.REFUSED

    def release(self, seat: Seat, header: Header) -> None:
        """Remove the claim before: this one stands."""
        if header.number > 1:
            seat.stores[0].remove(self.name(header, header.number - 1))


@dataclass(frozen=True)
class MemberWitnesses(Witness):
    """Members, of whom so many must say that they hold the header.

    A site is no witness of its own releases: what it held as one is lost with its ledger. Of the m' others
    it takes W' with 2 W' > m' + k, where that is less than W.
    """

    members: tuple[Member, ...]
    needed: int
    silent: int

    def claim(self, seat: Seat, header: Header) -> Claimed:
        """Count those who hold it; whoever holds another one has seen another copy of this site."""
        others = [one for one in self.members if one.name != seat.member.name]
        holding = 0
        for one in others:
            seen = seat.seen.get(one.public)
            held = None if seen is None else seen.holds(header.topic, header.key)
            if held is None or held[0] < header.number:
                continue
            if held != (header.number, header.hash[:PREFIX]):
                return Claimed.REFUSED
            holding += 1
        needed = min(self.needed, (len(others) + self.silent) // 2 + 1)
        return Claimed.GRANTED if holding >= needed else Claimed.WAITING


def witness_of(membership: Membership) -> Witness:
    """Of a fleet."""
    wit = membership.witnesses
    if wit.store:
        return StoreWitness()
    return MemberWitnesses(tuple(map(membership.member, wit.members)), wit.needed, wit.silent)


class Releases:
    """What a site releases on one board."""

    def __init__(self, seat: Seat, ledger: SiteLedger, now: int) -> None:
        """Without doing anything."""
        self.seat, self.ledger, self.now = seat, ledger, now
        self.file, self.board = seat.file, seat.board

    # ---- rule 1

    def draw(self, draft: Draft) -> Post:
        """Charge, draw and keep a release, or nothing of it."""
        topic = draft.topic
        number, _, _ = self.file.released(self.seat.fleet, topic)
        if draft.first <= self.covered(topic):
            raise FleetError(f"slot {draft.first} of {topic.name} was released before")
        if any(post.header.topic == topic for post in self.file.outbox(self.seat.fleet)):
            raise FleetError(f"the release of {topic.name} before this one has not left yet")
        if draft.spending is not None:
            self.ledger.check(draft.spending)
        with self.seat.keeping():
            self.charge(draft)
            entropy = SYSTEM if draft.fresh else self.entropy(draft, number + 1)
            body = draft.make(entropy)
            salt = read(entropy, SALT)
            post = Post(self._header(draft, number + 1, sealed(salt, body)), salt, body)
            self.file.drawn(self.seat.fleet, post, self.now)
            if draft.also is not None:
                draft.also()
            self.file.set("seed", ratcheted(self.file.get("seed") or b""))
            self.board.take_header(post.header)
            self.file.save(self.seat.fleet, self.board)
        return post

    def charge(self, draft: Draft) -> None:
        """To the budget, which may refuse."""
        if draft.spending is not None:
            self.ledger.charge(draft.spending)

    def _header(self, draft: Draft, number: int, body: bytes) -> Header:
        before = self.board.register(draft.topic, self.seat.public).header
        spent = 0.0 if before is None else before.epsilon
        cost = 0.0 if draft.spending is None else draft.spending.event.epsilon
        header = Header(
            draft.topic.kind, draft.topic.terms, self.seat.public, number, draft.first, draft.last,
            draft.draws, draft.readings, spent + cost, body,
        )  # fmt: skip
        return header.signed(self.file.key)

    # ---- rule 5

    def entropy(self, draft: Draft, number: int) -> Entropy:
        """Bits that are the same for the same release, and share nothing with another one."""
        seed = self.file.get("seed") or b""
        place = b"".join(n.to_bytes(8, "big") for n in (number, draft.first, draft.last))
        return DerivedEntropy(
            seed,
            self.seat.fleet,
            draft.topic.name.encode(),
            draft.topic.terms,
            place,
            draft.content,
        )

    # ---- rule 4

    def covered(self, topic: Topic) -> int:
        """The last slot that this site has released, under any of its keys."""
        own = [self.file.released(self.seat.fleet, topic)[2]]
        for key in self.seat.member.keys:
            header = self.board.register(topic, key).header
            own.append(0 if header is None else header.last)
        return max(own)

    # ---- rules 2 and 3

    def check(self) -> None:
        """Stop where the board is ahead of the ledger: it was restored, or another copy goes on."""
        known = self.file.releases(self.seat.fleet)
        for topic, keys in self.board.registers.items():
            register = keys.get(self.seat.public)
            if register is None or register.header is None:
                continue
            number, hash, _ = known.get(topic, (0, b"", 0))
            header = register.header
            if header.number > number or (header.number == number and header.hash != hash):
                self.stop(
                    f"number {header.number} of {topic.name} on the board is not in this ledger, which ends "
                    f"at {number}: site.db was restored, or a copy of this site goes on"
                )
        self._check_lists()

    def _check_lists(self) -> None:
        """Wait where a member holds a later release of this key than the ledger: the store forgot it, too.

        A list is no evidence that anyone can check, so the site does not stop for good.
        """
        for one in self.seat.lists():
            for topic, number in one.of(self.seat.public):
                ends = self.file.released(self.seat.fleet, topic)[0]
                if number > ends:
                    raise FleetError(
                        f"{self.seat.membership.keys[one.key].name} holds number {number} of {topic.name} of "
                        f"this site, whose ledger ends at {ends}: site.db was restored, and the store with "
                        "it. Nothing is released: join again in an empty folder"
                    )

    def advance(self) -> list[Post]:
        """Claim what is drawn, and open what the witnesses hold; what was opened."""
        opened = []
        for post in self.file.outbox(self.seat.fleet):
            found = self.seat.witness.claim(self.seat, post.header)
            if found is Claimed.REFUSED:
                self.stop(
                    f"number {post.header.number} of {post.header.topic.name} was claimed by another copy of "
                    "this site"
                )
            if found is Claimed.GRANTED and self.confirm(post.header):
                self.open(post)
                opened.append(post)
        return opened

    def confirm(self, header: Header) -> bool:
        """Whether, after the claim, the board still ends before it and this key is still the site's.

        In another epoch the witnesses may be others: the next step claims it of them.
        """
        epoch = self.seat.membership.number
        self.seat.look_again(header.topic)
        self.check()
        if self.seat.witness.overtaken(self.seat, header):
            self.stop(
                f"another copy of this site has claimed what is not in this ledger, beside number "
                f"{header.number} of {header.topic.name}"
            )
        self.seat.check_membership()
        return self.seat.membership.number == epoch

    def open(self, post: Post) -> None:
        """Let the body leave: to all stores, and then out of the outbox."""
        self.seat.put_opened(post)
        with self.seat.keeping():
            self.board.take_post(post)
            self.file.save(self.seat.fleet, self.board)
            self.file.opened(self.seat.fleet, post.header)
        self.seat.witness.release(self.seat, post.header)

    def stop(self, reason: str) -> None:
        """Stop for good: the next start finds it."""
        with self.file.transaction():
            self.file.set(STOPPED, reason.encode())
        raise stopped(reason)


def stopped(reason: str) -> StoppedError:
    """The error of a site that stopped."""
    return StoppedError(
        f"this site has stopped for good: {reason}. Nothing was released twice. Find the other copy and end "
        "it; then join again in an empty folder, and let the authority admit the new key"
    )


def check_stopped(reason: bytes | None) -> None:
    """Raise where a site stopped before."""
    if reason is not None:
        raise stopped(reason.decode())


def witnessed(seat: Seat, member: Member, header: Header) -> bool:
    """Take a header as a witness: one a number, and only after all slots of that site."""
    place = (seat.fleet, header.kind.code, header.terms)
    db = seat.file.db
    topic = "select {} from witnessed where fleet = ? and kind = ? and terms = ? and {}"
    taken = db.execute(
        topic.format("1", "key = ? and number = ?"), (*place, header.key, header.number)
    ).fetchone()
    (last,) = db.execute(
        topic.format("coalesce(max(last), 0)", "site = ?"), (*place, member.name)
    ).fetchone()
    if taken or header.first <= max(last, shown(seat, member, header)):
        return False
    db.execute(  # slots are in order: only the last number is ever looked at
        "delete from witnessed where fleet = ? and kind = ? and terms = ? and key = ?",
        (*place, header.key),
    )
    db.execute(
        "insert into witnessed values (?, ?, ?, ?, ?, ?, ?, ?)",
        (seat.fleet, member.name, header.kind.code, header.terms, header.key, header.number, header.hash,
         header.last),
    )  # fmt: skip
    return True


def shown(seat: Seat, member: Member, header: Header) -> int:
    """The last slot of that site that the board shows beside a header: what a new witness knows of it."""
    found = [0]
    for key in member.keys:
        register = seat.board.register(header.topic, key)
        headers = [post.header for post in register.opened]
        if key != header.key and register.header is not None:
            headers.append(register.header)
        found += [one.last for one in headers if one.hash != header.hash]
    return max(found)
