"""A board: a set of posts. Copies are merged by union; what is answered is a function of the set.

For each topic and key a board keeps a `TopicRegister`: the newest header, and the newest opened posts. Beside
them are evidence of *forks*, two headers of one key, topic and number, which anyone can check, and the newest
membership. Each of these is the largest of what came, by an order without ties:

    header, opened    (number, hash)          membership    (number, hash)          fork    its bytes

so that merging is idempotent, commutative and associative. A fork is found by a copy that is given the second
of two headers while it holds the first, never by a merge: who finds it depends on how posts travelled. So it
changes no answer. Two memberships of one number are evidence, too: with it everyone stops.

What is no post of a known key, of its form, its size and its signature, changes nothing and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from veilsum.errors import FleetError
from veilsum.fleet.membership import Member, Membership
from veilsum.fleet.post import HEADER, Header, Kind, Post, Topic, digest, pack, unpack


@dataclass(frozen=True)
class TopicRegister:
    """Of one topic and key: the newest header, and the newest opened posts, newest first."""

    header: Header | None = None
    opened: tuple[Post, ...] = ()

    def merged(self, other: Self) -> Self:
        """The larger of both, part by part."""
        if self is NOTHING:
            return other
        headers = [one.header for one in (self, other) if one.header is not None]
        posts = {post.header.hash: post for post in (*self.opened, *other.opened)}
        order = sorted(posts.values(), key=lambda post: post.header.rank, reverse=True)
        kept = order[0].header.kind.kept if order else 0
        return replace(
            self,
            header=max(headers, key=lambda h: h.rank, default=None),
            opened=tuple(order[:kept]),
        )

    @property
    def post(self) -> Post | None:
        """The newest opened post."""
        return self.opened[0] if self.opened else None

    @property
    def hashes(self) -> bytes:
        """Of all headers, which name their bodies: two registers are equal if these are."""
        newest = b"" if self.header is None else self.header.hash
        return b"".join(post.header.hash for post in self.opened) + newest

    @property
    def data(self) -> bytes:
        """As an object of a store: opened posts, and the newest header unless it is one of theirs."""
        posts = [post.data for post in self.opened]
        if self.header is not None and all(self.header != post.header for post in self.opened):
            posts.append(self.header.data)
        return pack(tuple(posts))


@dataclass(frozen=True)
class Fork:
    """Two headers of one key, topic and number: whoever signed them said two things."""

    one: Header
    other: Header

    @classmethod
    def of(cls, one: Header, other: Header) -> Fork:
        """In order."""
        return cls(*sorted((one, other), key=lambda header: header.hash))

    def __post_init__(self) -> None:
        """Refuse what is no evidence."""
        same = (self.one.key, self.one.topic, self.one.number) == (
            self.other.key, self.other.topic, self.other.number,
        )  # fmt: skip
        if not same or self.one.hash >= self.other.hash:
            raise FleetError("a fork is two different headers of one key, topic and number")

    @property
    def rank(self) -> tuple[int, bytes, bytes]:
        """Of several, the largest is kept."""
        return self.one.number, self.one.hash, self.other.hash

    @property
    def data(self) -> bytes:
        """As bytes."""
        return self.one.data + self.other.data

    @classmethod
    def parse(cls, data: bytes) -> Fork:
        """Of bytes, with both signatures checked."""
        if len(data) != 2 * HEADER:
            raise FleetError(f"a fork has {2 * HEADER} bytes; found {len(data)}")
        return cls(Header.parse(data).check(), Header.parse(data[HEADER:]).check())


@dataclass
class Board:
    """A set of posts of one fleet."""

    membership: Membership | None = None  # without it no key is known
    registers: dict[Topic, dict[bytes, TopicRegister]] = field(default_factory=dict)
    forks: dict[tuple[Topic, bytes], Fork] = field(default_factory=dict)  # evidence
    dropped: Counter[str] = field(default_factory=Counter)  # refused, by reason
    changed: set[tuple[Topic, bytes]] = field(default_factory=set)  # since `saved` was called

    def become(self, other: Board) -> None:
        """All that another one holds, and nothing else."""
        self.membership, self.registers, self.forks = other.membership, other.registers, other.forks
        self.changed.clear()

    # ---- what comes in

    def take(self, data: bytes) -> bool:
        """Add the posts of an object of a store; whether any of it is new."""
        return any(news for _, news in self.take_parts(self.parsed(data)))

    def parsed(self, data: bytes) -> list[Header | Post]:
        """The posts and headers of an object of a store, by their form alone."""
        found: list[Header | Post] = []
        try:
            parts = unpack(data)
        except FleetError as error:
            self.dropped[str(error)] += 1
            return found
        for part in parts:
            try:
                found.append(Header.parse(part) if len(part) == HEADER else Post.parse(part))
            except FleetError as error:
                self.dropped[str(error)] += 1
        return found

    def take_parts(self, parts: Iterable[Header | Post]) -> list[tuple[int, bool]]:
        """Add posts and headers; the number of each that is right, and whether it is new."""
        found = []
        for one in parts:
            try:
                if isinstance(one, Post):
                    found.append((one.header.number, self.take_post(one)))
                else:
                    found.append((one.number, self.take_header(one)))
            except FleetError as error:
                self.dropped[str(error)] += 1
        return found

    def take_post(self, post: Post) -> bool:
        """Add a post and its header; whether the opened post is new."""
        held = self.register(post.header.topic, post.header.key)
        if any(post.header.hash == one.header.hash for one in held.opened):
            return False
        self._check(post.header)
        return self._take(TopicRegister(post.header, (post,)), post.header)

    def take_header(self, header: Header) -> bool:
        """Add a header whose body has not left its site; whether it is new."""
        held = self.register(header.topic, header.key)
        if held.header is not None and held.header.hash == header.hash:
            return False
        self._check(header)
        return self._take(TopicRegister(header), header)

    def take_fork(self, data: bytes) -> bool:
        """Add evidence; whether it is new."""
        try:
            fork = Fork.parse(data)
            if self.membership is None or not self.membership.signs(fork.one):
                self._check_key(fork.one)
        except FleetError as error:
            self.dropped[str(error)] += 1
            return False
        return self._merge_fork(fork)

    def take_membership(self, membership: Membership) -> bool:
        """Adopt a later membership of the same authority; whether it is later."""
        if self.membership is None:
            self.membership = membership
            return True
        before = self.membership
        if before.conflicts(membership):
            self.membership = before.with_evidence(membership)
            assert before.post is not None
            assert membership.post is not None
            self._merge_fork(Fork.of(before.post.header, membership.post.header))
        else:
            self.membership = before.later(membership)
        return self.membership != before

    def merge(self, other: Board) -> None:
        """The union of both."""
        if other.membership is not None:
            mine = self.membership
            self.membership = other.membership if mine is None else mine.later(other.membership)
        for topic, keys in other.registers.items():
            for key, register in keys.items():
                self._merge_register(topic, key, register)
        for fork in other.forks.values():
            self._merge_fork(fork)

    def _check(self, header: Header) -> None:
        self._check_key(header)
        header.check()

    def _check_key(self, header: Header) -> None:
        if self.membership is None or header.key not in self.membership.keys:
            raise FleetError("a post of a key that the membership does not name")

    def _take(self, new: TopicRegister, header: Header) -> bool:
        """Add one post, and evidence if its header and one that is held have the same number."""
        held = self.register(header.topic, header.key)
        for mine in (held.header, *(post.header for post in held.opened)):
            if mine is not None and mine.number == header.number and mine.hash != header.hash:
                self._merge_fork(Fork.of(mine, header))
        return self._merge_register(header.topic, header.key, new)

    def _merge_register(self, topic: Topic, key: bytes, new: TopicRegister) -> bool:
        held = self.register(topic, key)
        merged = held.merged(new)
        if merged == held:
            return False
        self.registers.setdefault(topic, {})[key] = merged
        self.changed.add((topic, key))
        return True

    def _merge_fork(self, fork: Fork) -> bool:
        place = fork.one.topic, fork.one.key
        held = self.forks.get(place)
        if held is not None and held.rank >= fork.rank:
            return False
        self.forks[place] = fork
        return True

    # ---- what is held

    @property
    def two_authorities(self) -> bool:
        """Whether there is evidence that the authority signed two memberships of one number."""
        return any(topic.kind is Kind.MEMBERSHIP for topic, _ in self.forks)

    def register(self, topic: Topic, key: bytes) -> TopicRegister:
        """Of a topic and key; empty if there is none."""
        return self.registers.get(topic, {}).get(key, NOTHING)

    def register_of(self, kind: Kind, terms: bytes, key: bytes) -> TopicRegister:
        """Of a kind, terms and key."""
        return self.register(Topic(kind, terms), key)

    def having(self, role: str) -> tuple[Member, ...]:
        """Members of a role, in order."""
        return () if self.membership is None else self.membership.having(role)

    def opened(self, kind: Kind, terms: bytes) -> dict[bytes, Post]:
        """The newest opened post of each key, in the order of keys."""
        found = self.registers.get(Topic(kind, terms), {})
        return {key: found[key].opened[0] for key in sorted(found) if found[key].opened}

    def all_opened(self, kind: Kind, terms: bytes) -> Iterator[Post]:
        """All opened posts that are kept, in the order of keys."""
        found = self.registers.get(Topic(kind, terms), {})
        for key in sorted(found):
            yield from found[key].opened

    def of_kind(self, kind: Kind) -> dict[bytes, list[Post]]:
        """The newest opened posts of a kind by their terms, in order."""
        topics = sorted(
            (t for t in self.registers if t.kind is kind), key=lambda topic: topic.terms
        )
        return {topic.terms: list(self.opened(kind, topic.terms).values()) for topic in topics}

    @property
    def digest(self) -> bytes:
        """Of the set: two boards are equal if theirs are."""
        parts = [b"" if self.membership is None else self.membership.evidence]
        for topic in sorted(self.registers, key=lambda t: (t.kind.code, t.terms)):
            held = self.registers[topic]
            parts += [held[key].hashes for key in sorted(held)]
        parts += sorted(fork.data for fork in self.forks.values())
        return digest("veilsum board 1", *parts)


NOTHING = TopicRegister()
