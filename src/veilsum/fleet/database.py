"""site.db: all that a site remembers, in one SQLite file that only its owner can read.

The file is held alone from opening to closing, so that two steps cannot overlap: the second one ends with
`SiteBusyError`. A transaction is on the disk when it ends. What the file holds:

    meta        the site's own key, the seed of its draws, why it stopped
    posts       the boards: newest headers and opened posts
    forks       evidence
    outbox      releases that are drawn and charged, and whose body has not left
    released    the last release of each topic: number, hash, slots
    witnessed   headers of others that this member holds as a witness
    seen        what others last said that they hold
    objects     versions of the objects that were read, by store
    sent        digests of the objects that were written, by store
    decisions   what was decided about questions, and by whom
    words       check words that were computed, one for each dealing, for ever

The charges are a table of `ledger`. Never restore this file from a copy: its site would be an older state of
itself. It stops as soon as the board shows so; a new key (`fleet join` in an empty folder) is the way back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.errors import FleetError
from veilsum.fleet.board import Board, Fork, TopicRegister
from veilsum.fleet.draws import SEED
from veilsum.fleet.membership import Membership
from veilsum.fleet.post import Header, Kind, Post, Topic, newer
from veilsum.fleet.seen import Seen

FORMAT = 1
NAME = "site.db"
WAIT = 5.0  # seconds for another step to end
_KINDS = {kind.code: kind for kind in Kind}
SCHEMA = (
    "create table meta (key text primary key, value blob not null) strict, without rowid",
    "create table posts (fleet blob, kind int, terms blob, key blob, place int, data blob not null,"
    " primary key (fleet, kind, terms, key, place)) strict, without rowid",
    "create table forks (fleet blob, kind int, terms blob, key blob, data blob not null,"
    " primary key (fleet, kind, terms, key)) strict, without rowid",
    "create table outbox (fleet blob, kind int, terms blob, number int, data blob not null, at int,"
    " primary key (fleet, kind, terms, number)) strict, without rowid",
    "create table released (fleet blob, kind int, terms blob, number int, hash blob, last int,"
    " primary key (fleet, kind, terms)) strict, without rowid",
    "create table witnessed (fleet blob, site text, kind int, terms blob, key blob, number int, hash blob,"
    " last int, primary key (fleet, kind, terms, key, number)) strict, without rowid",
    "create table seen (fleet blob, key blob, ahead int, data blob not null,"
    " primary key (fleet, key)) strict, without rowid",
    "create table objects (store text, name text, version text,"
    " primary key (store, name)) strict, without rowid",
    "create table sent (store text, name text, digest blob, primary key (store, name)) strict, without rowid",
    "create table decisions (fleet blob, terms blob, verdict text, reason text, by text, at int,"
    " primary key (fleet, terms)) strict, without rowid",
    "create table words (fleet blob, query blob, mark blob, data blob,"
    " primary key (fleet, query, mark)) strict, without rowid",
)


class SiteBusyError(FleetError):
    """Another step of this site is running."""


def _absent(path: Path) -> str:
    if (path.parent / "site.toml").is_file():
        return (
            f"{path} is lost, with the key of this site: veilsum fleet join ADDRESS in an empty folder, "
            "and veilsum fleet admit NAME at the authority; never take it from a backup"
        )
    return f"there is no site at {path.parent}: veilsum fleet join ADDRESS makes one"


def _unopened(path: Path, error: sqlite3.OperationalError) -> str:
    return f"{path} cannot be opened: {error}; look at the rights of it and of its folder, and at the disk"


class SiteFile:
    """An open site.db; not `durable`, it never waits for the disk: tests of many sites in virtual time."""

    def __init__(
        self, path: Path, *, new: bool = False, durable: bool = True, wait: float = WAIT
    ) -> None:
        """Open it alone, or make it."""
        if not new and not path.is_file():
            raise FleetError(_absent(path))
        if new:
            if path.exists():
                raise FleetError(
                    f"{path} exists: a site keeps its one key; join in an empty folder"
                )
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.path = path
        self._memberships: dict[bytes, bytes] = {}  # hash of the one that is kept, by fleet
        try:
            self.db = sqlite3.connect(path, timeout=wait, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise FleetError(_unopened(path, error)) from None
        try:
            self._open(new, durable)
        except BaseException as error:
            self.db.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise SiteBusyError(
                    f"another step of {path.parent} is running: let it end"
                ) from None
            if isinstance(error, sqlite3.OperationalError):
                raise FleetError(_unopened(path, error)) from None
            if isinstance(error, sqlite3.DatabaseError):
                raise FleetError(f"{path} is no site of veilsum, or is damaged: {error}") from None
            raise

    def _open(self, new: bool, durable: bool) -> None:
        self.db.execute("pragma locking_mode = exclusive")
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma secure_delete = on")  # of earlier seeds nothing is left
        self.db.execute(f"pragma synchronous = {'full' if durable else 'off'}")
        self.db.execute("begin exclusive")
        if new:
            for statement in SCHEMA:
                self.db.execute(statement)
            self.set("format", str(FORMAT).encode())
            self.set("key", Ed25519PrivateKey.generate().private_bytes_raw())
            self.set("seed", os.urandom(SEED))
        self.db.execute("commit")
        version = int(self.get("format") or b"0")
        if version != FORMAT:
            raise newer(str(self.path), version, FORMAT)
        self.key = Ed25519PrivateKey.from_private_bytes(self.get("key") or b"")

    def close(self) -> None:
        """Let others have it; nothing stays beside it."""
        self.db.close()

    def __enter__(self) -> SiteFile:
        """Open until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it is kept, or nothing; on the disk when it ends."""
        try:
            self.db.execute("begin immediate")
            yield
            self.db.execute("commit")
        except BaseException as error:
            if self.db.in_transaction:
                self.db.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                raise FleetError(
                    f"{self.path} cannot be written: {error}; nothing was released that is not in it; make "
                    "room on the disk, and let the next step go on"
                ) from None
            raise

    # ---- single values

    def get(self, key: str) -> bytes | None:
        """Of `meta`."""
        row = self.db.execute("select value from meta where key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def set(self, key: str, value: bytes) -> None:
        """In `meta`, within a transaction."""
        self.db.execute("insert or replace into meta values (?, ?)", (key, value))

    # ---- boards

    def load(self, fleet: bytes) -> Board:
        """The board of a fleet, as it was saved."""
        board = Board()
        self._memberships.pop(fleet, None)
        rows = self.db.execute(
            "select kind, terms, key, place, data from posts where fleet = ? order by place",
            (fleet,),
        )
        found: dict[tuple[Topic, bytes], tuple[Header | None, list[Post]]] = {}
        for kind, terms, key, place, data in rows:
            if kind == Kind.MEMBERSHIP.code:
                board.membership = Membership.of(Post.parse(data))
                self._memberships[fleet] = Header.parse(data).hash
                continue
            topic = Topic(_KINDS[kind], terms)
            header, posts = found.setdefault((topic, key), (None, []))
            if place == 0:
                found[topic, key] = Header.parse(data), posts
            else:
                posts.append(Post.parse(data))
        for (topic, key), (own, posts) in found.items():
            header = own or posts[0].header  # the newest one, where it is not opened yet
            board.registers.setdefault(topic, {})[key] = TopicRegister(header, tuple(posts))
        for kind, terms, key, data in self.db.execute(
            "select kind, terms, key, data from forks where fleet = ?", (fleet,)
        ):
            one, other = Header.parse(data), Header.parse(data[len(data) // 2 :])
            board.forks[Topic(_KINDS[kind], terms), key] = Fork(one, other)
        return board

    def save(self, fleet: bytes, board: Board) -> None:
        """What changed of a board since it was loaded or saved, within a transaction."""
        post = None if board.membership is None else board.membership.post
        if post is not None and self._memberships.get(fleet) != post.header.hash:
            self._keep(fleet, post.header.topic, bytes(32), 1, post.data)
            self._memberships[fleet] = post.header.hash
        for topic, key in board.changed:
            register = board.register(topic, key)
            self.db.execute(
                "delete from posts where fleet = ? and kind = ? and terms = ? and key = ?",
                (fleet, topic.kind.code, topic.terms, key),
            )
            newest = register.post
            if register.header is not None and (newest is None or register.header != newest.header):
                self._keep(fleet, topic, key, 0, register.header.data)
            for place, post in enumerate(register.opened, 1):
                self._keep(fleet, topic, key, place, post.data)
        board.changed.clear()
        for (topic, key), fork in board.forks.items():
            self.db.execute(
                "insert or replace into forks values (?, ?, ?, ?, ?)",
                (fleet, topic.kind.code, topic.terms, key, fork.data),
            )

    def _keep(self, fleet: bytes, topic: Topic, key: bytes, place: int, data: bytes) -> None:
        self.db.execute(
            "insert or replace into posts values (?, ?, ?, ?, ?, ?)",
            (fleet, topic.kind.code, topic.terms, key, place, data),
        )

    def forget(self, fleet: bytes, terms: bytes) -> None:
        """Posts about a question, within a transaction; not what was released, charged or decided."""
        self.db.execute("delete from posts where fleet = ? and terms = ?", (fleet, terms))

    # ---- releases

    def outbox(self, fleet: bytes) -> list[Post]:
        """Drawn and charged, and not yet opened; in the order of the draws."""
        rows = self.db.execute(
            "select data from outbox where fleet = ? order by at, number", (fleet,)
        )
        return [Post.parse(data) for (data,) in rows]

    def released(self, fleet: bytes, topic: Topic) -> tuple[int, bytes, int]:
        """Number, hash and last slot of the last release of a topic, drawn or opened; zeros if none."""
        row = self.db.execute(
            "select number, hash, last from released where fleet = ? and kind = ? and terms = ?",
            (fleet, topic.kind.code, topic.terms),
        ).fetchone()
        return (0, b"", 0) if row is None else (row[0], bytes(row[1]), row[2])

    def releases(self, fleet: bytes) -> dict[Topic, tuple[int, bytes, int]]:
        """The last release of each topic."""
        rows = self.db.execute(
            "select kind, terms, number, hash, last from released where fleet = ?", (fleet,)
        )
        return {
            Topic(_KINDS[k], terms): (number, hash, last) for k, terms, number, hash, last in rows
        }

    def drawn(self, fleet: bytes, post: Post, at: int) -> None:
        """Keep a release that was drawn, within its transaction."""
        header = post.header
        place = (fleet, header.kind.code, header.terms)
        self.db.execute(
            "insert into outbox values (?, ?, ?, ?, ?, ?)", (*place, header.number, post.data, at)
        )
        self.db.execute(
            "insert or replace into released values (?, ?, ?, ?, ?, ?)",
            (*place, header.number, header.hash, header.last),
        )

    def opened(self, fleet: bytes, header: Header) -> None:
        """Take a release out of the outbox, within a transaction."""
        self.db.execute(
            "delete from outbox where fleet = ? and kind = ? and terms = ? and number = ?",
            (fleet, header.kind.code, header.terms, header.number),
        )

    # ---- stores

    def version(self, store: str, name: str) -> str | None:
        """Of an object that was read."""
        row = self.db.execute(
            "select version from objects where store = ? and name = ?", (store, name)
        ).fetchone()
        return None if row is None else str(row[0])

    def versions(self, store: str) -> dict[str, str]:
        """Of the objects that were read."""
        return dict(self.db.execute("select name, version from objects where store = ?", (store,)))

    def read(self, store: str, versions: Mapping[str, str]) -> None:
        """Remember versions of objects that were read, within a transaction."""
        self.db.executemany(
            "insert or replace into objects values (?, ?, ?)",
            [(store, name, version) for name, version in versions.items()],
        )

    def sent(self, store: str) -> dict[str, bytes]:
        """Digests of the objects that were written."""
        return dict(self.db.execute("select name, digest from sent where store = ?", (store,)))

    def wrote(self, store: str, name: str, digest: bytes) -> None:
        """Remember what was written, within a transaction; it is read again, as any version may come back."""
        self.db.execute("insert or replace into sent values (?, ?, ?)", (store, name, digest))
        self.db.execute("delete from objects where store = ? and name = ?", (store, name))

    def unless_sent(self, store: str, name: str, digest: bytes) -> None:
        """Forget that an own object was written, if another one is shown in its place."""
        self.db.execute(
            "delete from sent where store = ? and name = ? and digest != ?", (store, name, digest)
        )

    def unless_shown(self, store: str, names: Mapping[str, str]) -> None:
        """Forget that own objects were written, which a store does not show."""
        lost = [name for name in self.sent(store) if name.startswith("post/") and name not in names]
        if lost:
            with self.transaction():
                self.db.executemany(
                    "delete from sent where store = ? and name = ?",
                    [(store, name) for name in lost],
                )

    # ---- decisions

    def decision(self, fleet: bytes, terms: bytes) -> tuple[str, str, str, int] | None:
        """Verdict, reason, by whom, when."""
        row = self.db.execute(
            "select verdict, reason, by, at from decisions where fleet = ? and terms = ?",
            (fleet, terms),
        ).fetchone()
        return None if row is None else tuple(row)

    def decide(
        self, fleet: bytes, terms: bytes, verdict: str, reason: str, by: str, at: int
    ) -> None:
        """Keep a decision, within a transaction."""
        self.db.execute(
            "insert or replace into decisions values (?, ?, ?, ?, ?, ?)",
            (fleet, terms, verdict, reason, by, at),
        )

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of a query, for reports and checks."""
        return self.db.execute(query, values).fetchall()


class HeldLists(Mapping[bytes, Seen]):
    """What others last said that they hold, by key; each list is read when it is asked for."""

    def __init__(self, file: SiteFile, fleet: bytes) -> None:
        """Without reading any."""
        self._file, self._fleet = file, fleet
        self._read: dict[bytes, Seen] = {}

    def __getitem__(self, key: bytes) -> Seen:
        """The list of a key."""
        if key not in self._read:
            rows = self._file.rows(
                "select data from seen where fleet = ? and key = ?", self._fleet, key
            )
            if not rows:
                raise KeyError(key)
            self._read[key] = Seen.parse(rows[0][0])
        return self._read[key]

    def __iter__(self) -> Iterator[bytes]:
        """Keys."""
        rows = self._file.rows("select key from seen where fleet = ? order by key", self._fleet)
        return iter([bytes(key) for (key,) in rows])

    def __len__(self) -> int:
        """How many there are."""
        return len(list(iter(self)))

    def take(self, one: Seen, ahead: bool) -> None:
        """Keep a list, within a transaction, and whether it names more of this site than its ledger has."""
        self._read[one.key] = one
        self._file.db.execute(
            "insert or replace into seen values (?, ?, ?, ?)",
            (self._fleet, one.key, ahead, one.data),
        )

    def ahead(self) -> list[Seen]:
        """Those that named more of this site than its ledger had when they were taken."""
        rows = self._file.rows(
            "select key from seen where fleet = ? and ahead order by key", self._fleet
        )
        return [self[bytes(key)] for (key,) in rows]
