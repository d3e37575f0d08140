"""The file of a budget: entries in SQLite that are only ever added, each with a hash of all before it.

    head_0 = the budget's id,      head_n = SHA-256(head_(n-1), kind_n, body_n, at_n)

An entry is a limit, data that became known, a release, or what a lost entry had cost. `head` at a number of
entries names one history: a file that was put back from a copy, or went on from a copy, does not have it.
The hashes are no signature: they find accidents, and copies that came apart.

Every change is one transaction of a rollback journal that waits for the disk (`synchronous = extra`), and
nothing of the file is kept between two transactions. The file is owner only from its first byte on.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum.errors import QuestionError

FORMAT = 1
OWNER_ONLY = 0o600
JOURNAL = "-journal"  # of SQLite, beside a file while it is changed
ELSEWHERE = "say with --budget (budget=PATH) where it is kept, in a folder of your own"
PATIENCE = 600.0  # seconds to wait for another process, which may be reading many rows
LIMIT, DATA, RELEASE, LOST = "limit", "data", "release", "lost"
DURABLE = "pragma synchronous = extra"  # a commit is on the disk, and so is the end of its journal
SCHEMA = (
    "create table if not exists meta (key text primary key, value text not null) strict",
    "create table if not exists entries (n integer primary key, kind text not null,"
    " body text not null, at text not null, head text not null) strict",
    "create table if not exists answers (n integer primary key, answer text not null) strict",
)


@dataclass(frozen=True)
class BudgetEntry:
    """One entry: what kind, and its contents."""

    n: int
    kind: str
    body: Mapping[str, Any]
    at: str
    head: str


class BudgetLog:
    """The entries of a budget's file.

    Parameters
    ----------
    path : Path
        Of the file.
    new : bool
        Whether it may be made, or must be there.
    id : str, optional
        Of a new one; random without it.
    """

    def __init__(self, path: Path, new: bool = False, id: str | None = None) -> None:
        """Open it and check it, or make it."""
        self.path, self.entries = path, list[BudgetEntry]()
        if not new and not path.is_file():
            raise QuestionError(f"there is no budget at {path}")
        self._db = connected(path, "budget")
        try:
            with self.explained():
                self._db.execute(DURABLE)
                self.id = self._made(id) if new else self._id()
                self.read()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def head(self) -> str:
        """Of the last entry."""
        return self.entries[-1].head if self.entries else self.id

    def head_at(self, n: int) -> str | None:
        """Of entry n; None if there are fewer."""
        if n == 0:
            return self.id
        return self.entries[n - 1].head if n <= len(self.entries) else None

    def of_kind(self, kind: str) -> list[BudgetEntry]:
        """The entries of a kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def answer(self, entry: BudgetEntry) -> Any:
        """What a release answered."""
        with self.explained():
            (text,) = self._db.execute(
                "select answer from answers where n = ?", (entry.n,)
            ).fetchone() or ("",)
        if hashlib.sha256(text.encode()).hexdigest() != entry.body["answer"]:
            raise self.damaged(f"the answer of entry {entry.n} is not the one that was kept")
        return json.loads(text)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the file alone: all that is added is kept, or nothing; others wait."""
        with self.explained():
            self._db.execute("begin immediate")
        try:
            with self.explained():
                self.read()
            yield
            with self.explained():
                self._db.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("rollback")
            with suppress(sqlite3.Error, QuestionError):
                self.read()
            raise

    def add(self, kind: str, body: Mapping[str, Any], answer: Any = None) -> None:
        """Add an entry, within a transaction; a release has an answer."""
        n = len(self.entries) + 1
        kept = None if answer is None else json.dumps(answer)
        if kept is not None:
            body = {**body, "answer": hashlib.sha256(kept.encode()).hexdigest()}
        text = json.dumps(body, sort_keys=True)
        with self.explained():
            (at,) = self._db.execute("select strftime('%Y-%m-%dT%H:%M:%fZ')").fetchone()
            head = next_head(self.head, kind, text, at)
            self._db.execute(
                "insert into entries values (?, ?, ?, ?, ?)", (n, kind, text, at, head)
            )
            if kept is not None:
                self._db.execute("insert into answers values (?, ?)", (n, kept))
        self.entries.append(BudgetEntry(n, kind, json.loads(text), at, head))

    def read(self) -> None:
        """Read what was added since, and check it."""
        rows = self._db.execute(
            "select n, kind, body, at, head from entries where n > ? order by n",
            (len(self.entries),),
        ).fetchall()
        (count,) = self._db.execute("select count(*) from entries").fetchone()
        if count < len(self.entries):  # of a transaction that was rolled back
            del self.entries[count:]
        for n, kind, body, at, head in rows:
            if n != len(self.entries) + 1 or head != next_head(self.head, kind, body, at):
                raise self.damaged(f"entry {n} does not follow from those before it")
            self.entries.append(BudgetEntry(n, kind, json.loads(body), at, head))

    def damaged(self, why: str) -> QuestionError:
        """The error for contents that cannot be."""
        return QuestionError(
            f"{self.path} is no budget of veilsum, or is damaged: {why}; nothing was released; put the "
            f"latest copy of it back, or see {mending(self.path)}"
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors of SQLite, in the words of a budget."""
        with explained(self.path, self.damaged):
            yield

    def _made(self, id: str | None) -> str:
        self._db.execute("begin immediate")
        for statement in SCHEMA:
            self._db.execute(statement)
        if not self._db.execute("select count(*) from meta").fetchone()[0]:
            given = {"format": str(FORMAT), "id": id or secrets.token_hex(16)}
            self._db.executemany("insert into meta values (?, ?)", given.items())
        self._db.execute("commit")
        return self._id()

    def _id(self) -> str:
        meta = dict(self._db.execute("select key, value from meta").fetchall())
        check_format(self.path, meta, FORMAT)
        return str(meta["id"])


def check_format(path: Path, meta: Mapping[str, str], known: int) -> None:
    """Raise for a file of a later format."""
    if int(meta["format"]) > known:
        raise QuestionError(
            f"{path} has format {meta['format']}, and this veilsum knows format {known}: it was written by "
            "a later version; nothing was released; upgrade veilsum"
        )


def connected(path: Path, what: str) -> sqlite3.Connection:
    """A connection to a file that only its owner can read."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY))
        if path.stat().st_mode & 0o077 and os.name == "posix":
            path.chmod(OWNER_ONLY)
    except OSError as error:
        raise QuestionError(
            f"cannot write the {what} {path}: {error.strerror}; {ELSEWHERE}"
        ) from None
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)


def undo(path: Path) -> None:
    """Let SQLite undo a change that was interrupted; one that goes on is left alone."""
    db = connected(path, "budget")
    try:
        with suppress(sqlite3.Error):
            db.execute("select count(*) from sqlite_master").fetchone()
    finally:
        db.close()


@contextmanager
def explained(path: Path, damaged: Any) -> Iterator[None]:
    """Errors of SQLite as errors of the file: it is in use, the disk is full, it is damaged."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise QuestionError(
                f"{path} has been in use by another process for {PATIENCE:g} seconds; nothing was released; "
                "try again when that has ended"
            ) from None
        if "no such table" in str(error):
            raise damaged("its tables are missing") from None
        raise QuestionError(
            f"cannot write {path}: {error}; nothing was released or charged; check the disk, and ask again"
        ) from None
    except sqlite3.DatabaseError as error:
        raise damaged(str(error)) from None
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise damaged(f"an entry has other contents ({type(error).__name__})") from None


def mending(path: Path) -> str:
    """The command that goes on without what was lost."""
    return f"`veilsum budget {path.name} --mend`"


def next_head(head: str, kind: str, body: str, at: str) -> str:
    """The hash of an entry and of all before it."""
    return hashlib.sha256("\n".join([head, kind, body, at]).encode()).hexdigest()
