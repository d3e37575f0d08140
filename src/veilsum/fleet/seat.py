"""A site's place in one fleet: its copy of the board, the stores, and what others say that they hold.

    read     membership ── seen ── listing ── objects that changed ── board
    write    own registers, evidence, the own list of what is held: what changed, to each store

Stores are not trusted. What one withholds is named by the lists that other members sign, which are read
before the posts, so that what they name must be there already; a number lower than one that is held is a
store that went back. A call that fails is counted, the rest goes on, and the next step tries again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from random import SystemRandom

from veilsum.errors import FleetError, StoreBusyError, StoreError
from veilsum.fleet.board import NOTHING, Board, TopicRegister
from veilsum.fleet.database import HeldLists, SiteFile
from veilsum.fleet.membership import WITNESS, Member, Membership, fleet_id
from veilsum.fleet.post import SALT, WORDS, Header, Kind, Post, Topic, public, sealed, short
from veilsum.fleet.release import STOPPED, Witness, check_stopped, stopped, witness_of, witnessed
from veilsum.fleet.seen import PREFIX, Seen, seen_name
from veilsum.fleet.store import Store
from veilsum.fleet.withheld import GONE, QUESTION, RELEASE, NotShown, named

SAMPLE, ENTRIES = 8, 1000  # lists of others that a step reads, and members that they name, at most
_RANDOM = SystemRandom()
FIRST = (Kind.QUESTION,)  # what other topics are about
SPENT = (Kind.POOL, Kind.DEAL)  # releases of readings


def sample_of(members: int) -> int:
    """How many lists of others a step reads: fewer where they are long, and never fewer than two."""
    return max(2, min(SAMPLE, ENTRIES // max(members, 1)))


def _were_read(versions: Mapping[str, str], read: Mapping[str, bytes | None]) -> dict[str, str]:
    """Versions of objects that a store gave: others are read again."""
    return {name: versions[name] for name, data in read.items() if data is not None}


class NotAdmittedError(FleetError):
    """A site that the membership does not name yet."""


@dataclass
class Traffic:
    """What a step read, wrote and could not."""

    calls: int = 0
    bytes: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    rolled_back: list[str] = field(default_factory=list)
    missing: dict[NotShown, int] = field(default_factory=dict)  # and when who says so wrote it
    withheld: list[str] = field(default_factory=list)
    ignored: int = 0


class Seat:
    """A site's place in one fleet; the first of its stores witnesses, where a store does."""

    def __init__(self, file: SiteFile, fleet: bytes, stores: Sequence[Store]) -> None:
        """Load what was saved."""
        self.file, self.fleet, self.stores = file, fleet, tuple(stores)
        self.board: Board = file.load(fleet)
        self.public = public(file.key)
        self.traffic = Traffic()
        self.seen = HeldLists(file, fleet)
        self._absent: set[str] = set()  # stores that are not the board now

    # ---- who this is

    @property
    def membership(self) -> Membership:
        """The newest one; an error before the first has arrived."""
        if self.board.membership is None:
            raise NotAdmittedError(f"no membership of fleet {short(self.fleet)} has arrived yet")
        return self.board.membership

    @property
    def name(self) -> str:
        """Of the fleet."""
        found = self.board.membership
        return short(self.fleet) if found is None else found.fleet

    @property
    def member(self) -> Member:
        """Who this site is in it."""
        found = self.membership.present(self.public)
        if found is None:
            raise NotAdmittedError(
                f"{self.name} has not admitted this site yet: send its line to the authority "
                "(veilsum fleet status shows it)"
            )
        return found

    @cached_property
    def witness(self) -> Witness:
        """Who holds headers before bodies leave."""
        return witness_of(self.membership)

    def check_membership(self) -> None:
        """Stop for a key that was replaced, and where the authority said two things."""
        check_stopped(self.file.get(STOPPED))
        found = self.membership
        if found.fork is not None or self.board.two_authorities:
            raise FleetError(
                f"{self.name} has two memberships of one number (up to {found.number}): the authority's key "
                "was used twice or stolen. Nobody releases anything here until the authority has explained "
                "it and begun a new fleet"
            )
        own = found.keys.get(self.public)
        if own is not None and own.public != self.public:
            reason = f"epoch {found.number} gave {own.name} another key"
            with self.file.transaction():
                self.file.set(STOPPED, reason.encode())
            raise stopped(reason)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """A transaction that changes the board: what is not kept is not on the board, and never leaves."""
        try:
            with self.file.transaction():
                yield
        except BaseException:
            self.board.become(self.file.load(self.fleet))
            raise

    # ---- what comes in

    def read(
        self, wants: Callable[[Topic], bool] = lambda _: True, sample: int | None = None
    ) -> None:
        """Read what changed in all stores."""
        self._absent.clear()
        for store in self.stores:
            try:
                self._read_membership(store)
                lists = self._read_seen(store, sample)
                self._read_posts(store, wants)
                self._read_forks(store)
            except StoreError as error:
                self.traffic.failed[str(error)] += 1
                continue
            self._compare(lists, wants)
        self._witness()

    def _read_membership(self, store: Store) -> None:
        """Follow the authority's registers, from the first key on."""
        signer = self.fleet
        for _ in range(64):  # successors
            name = f"post/{short(signer)}/{Topic(Kind.MEMBERSHIP, fleet_id(self.fleet)).name}"
            found = self._membership_at(store, name, signer)
            if found is None or found.signer == signer:
                break
            signer = found.signer
        self.__dict__.pop("witness", None)

    def _membership_at(self, store: Store, name: str, signer: bytes) -> Membership | None:
        """What a register of the authority says; it is large, and read only where it changed."""
        self.traffic.calls += 1
        version, held = store.version(name), self.board.membership
        if version is None:
            self._check_there(store, name, signer)
            return None
        same = version == self.file.version(store.address, name)
        if same and held is not None and held.authority == signer:
            return held
        data = self._get(store, [name])[name]
        found = None if data is None else self._membership(data, signer)
        if found is not None:
            self._check_epoch(store, found)
            with self.keeping():
                self.board.take_membership(found)
                self.file.read(store.address, {name: version})
                self.file.save(self.fleet, self.board)
        return found

    def _check_there(self, store: Store, name: str, signer: bytes) -> None:
        """Raise for an empty store that showed a membership before: an empty mount is no board."""
        held = self.board.membership
        if held is None or held.authority != signer:
            return
        before = self.file.version(store.address, name)
        if before is not None and not any(map(store.names, ("join", "post", "seen"))):
            self._absent.add(store.address)
            raise StoreBusyError(
                f"{store.address} shows no membership, as it did before: nothing is written there; look "
                "whether it is mounted, and is the board"
            )

    def _check_epoch(self, store: Store, shown: Membership) -> None:
        """Name a store that shows an older membership than it did."""
        held = self.board.membership
        if held is not None and shown.authority == held.authority and shown.number < held.number:
            self._went_back(store, f"membership {shown.number}, and {held.number} was there before")

    def _went_back(self, store: Store, what: str) -> None:
        if len(self.stores) == 1:
            self.traffic.rolled_back.append(f"{store.address} shows {what}")

    def _membership(self, data: bytes, signer: bytes) -> Membership | None:
        try:
            found = Membership.of(Post.parse(data))
            if found.post is None or found.post.header.key != signer or found.id != self.fleet:
                raise FleetError("a membership that the authority did not sign")
        except FleetError as error:
            self.board.dropped[str(error)] += 1
            return None
        return found

    def _read_seen(self, store: Store, sample: int | None) -> list[Seen]:
        """Lists of the witnesses, and of some others: s of them, drawn by lot.

        A post that a share f of the writers holds and this site is not shown is in none of them with
        probability (1 - f)^s: found in 1 / (1 - (1 - f)^s) steps on average, 4/3 with f = 1/2 and s = 2.
        """
        if self.board.membership is None:
            return []
        names = self._names(store, "seen")
        keys = {seen_name(short(m.public)): m for m in self.membership.members if m.roles}
        known = self.file.versions(store.address)
        changed = [name for name in keys if name in names and names[name] != known.get(name)]
        named = set(self.membership.witnesses.members)
        chosen = [n for n in changed if keys[n].name in named or WITNESS in keys[n].roles]
        others = [
            name for name in changed if name not in chosen and keys[name].public != self.public
        ]
        most = sample_of(len(keys)) if sample is None else sample
        chosen += others if len(others) <= most else _RANDOM.sample(others, most)
        found = []
        read = self._get(store, chosen)
        with self.file.transaction():
            for name, data in read.items():
                one = self._take_seen(store, keys[name], data)
                found += [] if one is None else [one]
            self.file.read(store.address, _were_read(names, read))
        return found

    def _take_seen(self, store: Store, member: Member, data: bytes | None) -> Seen | None:
        try:
            one = None if data is None else Seen.parse(data)
        except FleetError as error:
            self.board.dropped[str(error)] += 1
            return None
        if one is None or one.key != member.public:
            return None
        before = self.seen.get(one.key)
        if before is not None and one.counter < before.counter:
            self.traffic.rolled_back.append(
                f"{store.address} shows an older list of {member.name} ({one.counter} after {before.counter})"
            )
            return before
        self.seen.take(
            one, any(n > self.file.released(self.fleet, t)[0] for t, n in one.of(self.public))
        )
        return one

    def _read_posts(self, store: Store, wants: Callable[[Topic], bool]) -> None:
        """Objects that changed, and are wanted: those that name other topics first."""
        if self.board.membership is None:
            return
        names = self._names(store, "post")
        known = self.file.versions(store.address)
        changed = {name: v for name, v in names.items() if known.get(name) != v}
        keys = {short(key): key for key in self.membership.keys}
        for kinds in (FIRST, tuple(k for k in Kind if k not in FIRST)):
            due = self._due(changed, keys, kinds, wants)
            read = self._get(store, due)
            with self.keeping():
                before = self.board.dropped.total()
                for name, data in read.items():
                    if data is not None:
                        self._take_object(store, name, data, keys)
                        if self.board.dropped.total() > before:  # is read again: it may be replaced
                            before, read[name] = self.board.dropped.total(), None
                self.file.read(store.address, _were_read(changed, read))
                self.file.save(self.fleet, self.board)
        self._name_gone(store, names, known)
        self.file.unless_shown(store.address, names)

    def _due(
        self,
        names: Iterable[str],
        keys: dict[str, bytes],
        kinds: tuple[Kind, ...],
        wants: Callable[[Topic], bool],
    ) -> list[str]:
        """Objects of known keys and wanted topics, as their names say; each topic is looked at once."""
        own, topics, found = short(self.public), dict[str, tuple[bool, bool]](), []
        for name in names:
            key, _, topic = name.partition("/")[2].partition("/")
            if key in keys:
                if topic not in topics:
                    topics[topic] = self._wanted(topic, kinds, wants)
                of_kind, wanted = topics[topic]
                if wanted or (of_kind and key == own):
                    found.append(name)
        return found

    def _wanted(
        self, name: str, kinds: tuple[Kind, ...], wants: Callable[[Topic], bool]
    ) -> tuple[bool, bool]:
        """Whether a topic, by its name, is of these kinds, and is read of others."""
        word, _, terms = name.partition("-")
        kind = WORDS.get(word)
        if kind is None or kind not in kinds or kind is Kind.MEMBERSHIP or "/" in terms:
            return False, False
        if kind is Kind.QUESTION:
            return True, True
        known = (one for one in self.questions if short(one) == terms)
        return True, any(wants(Topic(kind, one)) for one in known)

    @property
    def questions(self) -> list[bytes]:
        """Terms of all questions on the board: what other posts are about."""
        return [topic.terms for topic in self.board.registers if topic.kind is Kind.QUESTION]

    def _take_object(self, store: Store, name: str, data: bytes, keys: dict[str, bytes]) -> None:
        key, topic = keys[name.split("/")[1]], name.split("/")[2]
        if key == self.public:
            self.file.unless_sent(store.address, name, hashlib.sha256(data).digest())
        parts = self.board.parsed(data)
        headers = [one.header if isinstance(one, Post) else one for one in parts]
        if any(one.key != key or one.topic.name != topic for one in headers):
            self.board.dropped["an object that does not hold what its name says"] += 1
            return
        held = self._number(headers[0].topic, key) if headers else 0
        shown = max((number for number, _ in self.board.take_parts(parts)), default=held)
        if shown < held:
            maker = self.membership.keys[key].name
            self._went_back(
                store, f"number {shown} of {maker} ({topic}), and {held} was there before"
            )

    def _number(self, topic: Topic, key: bytes) -> int:
        """Of what a store must show: an own release is not there before it is opened."""
        register = self.board.register(topic, key)
        if key == self.public:
            return 0 if register.post is None else register.post.header.number
        return 0 if register.header is None else register.header.number

    def _read_forks(self, store: Store) -> None:
        """Evidence that others found."""
        names = self._names(store, "fork")
        known = self.file.versions(store.address)
        due = [name for name, version in names.items() if known.get(name) != version][:1000]
        if not due:
            return
        read = self._get(store, due)
        with self.keeping():
            for data in read.values():
                if data is not None:
                    self.board.take_fork(data)
            self.file.read(store.address, _were_read(names, read))
            self.file.save(self.fleet, self.board)

    def _compare(self, lists: list[Seen], wants: Callable[[Topic], bool]) -> None:
        """Name what a member holds and the store does not show."""
        for one in lists:
            for topic, entries in one.entries.items():
                if not wants(topic):
                    continue
                if Topic(Kind.QUESTION, topic.terms) not in self.board.registers:
                    self._unknown(one, topic)
                    continue
                held = {
                    key[:PREFIX]: (key, 0 if register.header is None else register.header.number)
                    for key, register in self._all_of(topic)
                }
                for prefix, (number, _) in entries.items():
                    key, own = held.get(prefix, (self.public, 0))
                    if number > own and key != self.public:
                        place = topic.kind.word, topic.terms.hex(), key.hex(), number
                        self.traffic.missing[NotShown(RELEASE, *place, one.key.hex())] = one.at

    def _unknown(self, one: Seen, topic: Topic) -> None:
        """A list that names a question which is not shown; witnesses list those that are over, too."""
        if not any(hash for _, hash in one.entries[topic].values()):
            place = NotShown(QUESTION, topic.kind.word, topic.terms.hex(), "", 0, one.key.hex())
            self.traffic.missing[place] = one.at

    def _name_gone(self, store: Store, names: Mapping[str, str], known: Mapping[str, str]) -> None:
        """Objects of others that were read and are not listed."""
        for topic, registers in self.board.registers.items():
            for key, register in registers.items():
                name = f"post/{short(key)}/{topic.name}"
                if key != self.public and register.opened and name in known and name not in names:
                    place = topic.kind.word, topic.terms.hex(), key.hex(), 0
                    self.traffic.missing[NotShown(GONE, *place, store.address)] = 0

    def _all_of(self, topic: Topic) -> Iterator[tuple[bytes, TopicRegister]]:
        """The register of every key that members have or had; an empty one where there is none."""
        held = self.board.registers.get(topic, {})
        for key in self.membership.keys:
            yield key, held.get(key, NOTHING)

    def _witness(self) -> None:
        """As a witness: take the headers of others before they are shown."""
        if self.board.membership is None or self.membership.witnesses.store:
            return
        own = self.membership.present(self.public)
        if own is None or own.name not in self.membership.witnesses.members:
            return
        with self.file.transaction():
            for topic, registers in self.board.registers.items():
                for key, register in registers.items() if topic.kind.claimed else ():
                    member = self.membership.keys.get(key)
                    if member is not None and register.header is not None:
                        witnessed(self, member, register.header)

    def look_again(self, topic: Topic) -> None:
        """Read the own register and the membership once more, from the store that witnesses."""
        store = self.stores[0]
        name = f"post/{short(self.public)}/{topic.name}"
        self._read_membership(store)
        data = self._get(store, [name])[name]
        if data is not None:
            with self.keeping():
                self._take_object(store, name, data, {short(self.public): self.public})
                self.file.save(self.fleet, self.board)

    def claimed(self) -> list[tuple[str, int]]:
        """Own claims that stand in the store that witnesses: names of topics, and numbers."""
        names = self._names(self.stores[0], f"claim/{short(self.public)}")
        parts = [name.split("/")[2:] for name in names]
        return [(topic, int(number)) for topic, number in parts if number.isdigit()]

    def lists(self) -> list[Seen]:
        """Lists of other present members that named releases of this key which its ledger did not have."""
        return [
            one
            for one in self.seen.ahead()
            if one.key != self.public and self.membership.present(one.key) is not None
        ]

    def claims(self, key: bytes) -> None:
        """Take the claims of an earlier key of this site as headers, whose bodies may still leave."""
        store = self.stores[0]
        read = self._get(store, list(self._names(store, f"claim/{short(key)}")))
        with self.keeping():
            for data in read.values():
                try:
                    header = None if data is None else Header.parse(data)
                    if header is not None and header.key == key:
                        self.board.take_header(header)
                except FleetError as error:
                    self.board.dropped[str(error)] += 1
            self.file.save(self.fleet, self.board)

    # ---- what goes out

    def publish(self, kind: Kind, terms: bytes, body: bytes, now: int) -> Post | None:
        """Post what is no release: nothing in it is drawn. None if it stands there already."""
        topic = Topic(kind, terms)
        before = self.board.register(topic, self.public).post
        if before is not None and before.body == body:
            return None
        number = self.file.released(self.fleet, topic)[0] + 1
        salt = bytes(SALT)
        header = Header(kind, terms, self.public, number, 0, 0, digest=sealed(salt, body))
        post = Post(header.signed(self.file.key), salt, body)
        with self.keeping():
            self.file.drawn(self.fleet, post, now)
            self.file.opened(self.fleet, post.header)
            self.board.take_post(post)
            self.file.save(self.fleet, self.board)
        return post

    def put_opened(self, post: Post) -> None:
        """Write a register with a body that may leave now: to one store at least."""
        topic = post.header.topic
        held = self.board.register(topic, self.public)
        data = held.merged(TopicRegister(post.header, (post,))).data
        name = f"post/{short(self.public)}/{topic.name}"
        failed: list[StoreError] = []
        for store in self.stores:
            try:
                self._put(store, name, data)
            except StoreError as error:
                self.traffic.failed[str(error)] += 1
                failed.append(error)
        if len(failed) == len(self.stores):
            raise failed[0]

    def name_withheld(self, now: int) -> None:
        """Name what has not been shown for a while, although a member's list says that it is there."""
        self.traffic.withheld += named(self, now)

    def write(self, now: int) -> None:
        """Write own registers, evidence and the own list, where they changed."""
        objects = {
            f"post/{short(self.public)}/{topic.name}": registers[self.public].data
            for topic, registers in self.board.registers.items()
            if self.public in registers
        }
        for (topic, key), fork in self.board.forks.items():
            objects[f"fork/{short(self.public)}/{short(key)}.{topic.name}"] = fork.data
        written: list[tuple[str, str, bytes]] = []
        own = self.board.membership is not None and self.membership.present(self.public)
        counter = int(self.file.get("counter") or b"0") + 1
        seen = self.holding(now, counter).data if own else b""
        for store in self.stores:
            if store.address in self._absent:
                continue
            try:
                sent = self.file.sent(store.address)
                for name, data in objects.items():
                    mark = hashlib.sha256(data).digest()
                    if sent.get(name) != mark:
                        self._put(store, name, data)
                        written.append((store.address, name, mark))
                if seen:
                    self._put(store, seen_name(short(self.public)), seen)
            except StoreError as error:
                self.traffic.failed[str(error)] += 1
        with self.file.transaction():
            self.file.set("counter", str(counter).encode())
            for place in written:
                self.file.wrote(*place)

    def forget(self, terms: bytes) -> None:
        """Remove what is about a question that was over long ago: own objects, and the copy here.

        Deals that nobody keeps cannot be opened by whoever breaks X25519 later. Headers of what readings
        cost stay in the stores, and the question: a new key of this site takes over what was spent.
        """
        topics = [topic for topic in self.board.registers if topic.terms == terms]
        for store in self.stores:
            for topic in topics:
                register = self.board.register(topic, self.public)
                name = f"post/{short(self.public)}/{topic.name}"
                if topic.kind in SPENT and register.header is not None:
                    store.put(name, TopicRegister(register.header).data)
                elif topic.kind is not Kind.QUESTION and self.public in self.board.registers[topic]:
                    store.remove(name)
        with self.file.transaction():
            self.file.forget(self.fleet, terms)
        for topic in topics:
            del self.board.registers[topic]

    def holding(self, now: int, counter: int) -> Seen:
        """The own list of what is held."""
        entries: dict[Topic, dict[bytes, tuple[int, bytes]]] = {}
        for topic, key, number, hash in self._held():
            before = entries.setdefault(topic, {}).get(key[:PREFIX])
            if before is None or before[0] <= number:
                entries[topic][key[:PREFIX]] = number, hash[:PREFIX]
        return Seen(self.public, counter, now, self.board.digest, entries).signed(self.file.key)

    def _held(self) -> Iterable[tuple[Topic, bytes, int, bytes]]:
        """As a witness what was taken as one; else what is on the board."""
        found = self.board.membership
        own = None if found is None else found.present(self.public)
        if found is not None and own is not None and own.name in found.witnesses.members:
            codes = {kind.code: kind for kind in Kind}
            for code, terms, key, number, hash in self.file.rows(
                "select kind, terms, key, number, hash from witnessed where fleet = ?", self.fleet
            ):
                yield Topic(codes[code], terms), key, number, hash
            return
        for topic, registers in self.board.registers.items():
            for key, register in registers.items() if topic.kind.claimed else ():
                if register.header is not None:
                    yield topic, key, register.header.number, b""

    # ---- calls

    def _names(self, store: Store, prefix: str) -> dict[str, str]:
        self.traffic.calls += 1
        found = store.names(prefix)
        self.traffic.bytes += sum(map(len, found)) + sum(map(len, found.values()))
        self.traffic.ignored += store.ignored
        return found

    def _get(self, store: Store, names: Sequence[str]) -> dict[str, bytes | None]:
        self.traffic.calls += len(names)
        found = store.get_many(names) if names else {}
        self.traffic.bytes += sum(len(data) for data in found.values() if data is not None)
        return found

    def _put(self, store: Store, name: str, data: bytes) -> None:
        self.traffic.calls += 1
        self.traffic.bytes += len(data)
        store.put(name, data)
