"""What this user's machine knows of budgets: where each is, how far it went, and the rows it is of.

    fingerprint -> budget,    path of a file -> budget,    budget -> its path, its last entry, what was spent

It is one file of SQLite, owner only, in the user's data folder (or where VEILSUM_HOME says), and never
travels. It has the secret of all fingerprints. A budget that was deleted is missed here, and one that was
put back from a copy has fewer entries than are known here, or others.

An entry is written to the budget first, then here, and then the answer is returned. So whoever has seen an
answer has it in both; who is killed between the two finds the budget ahead, which is never a loss.
Without this file (another machine, another user) budgets are found beside the data alone.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum.asking.budget_log import check_format, connected, explained
from veilsum.errors import QuestionError

HOME = "VEILSUM_HOME"
NAME = "budgets.sqlite"
FORMAT = 1
SECRET_BYTES = 32
SCHEMA = (
    "create table if not exists meta (key text primary key, value text not null) strict",
    "create table if not exists budgets (id text primary key, path text not null, entries integer not null,"
    " head text not null, epsilon real not null, delta real not null, epsilon_limit real not null,"
    " delta_limit real not null) strict",
    "create table if not exists heads (budget text, head text, primary key (budget, head)) strict",
    "create table if not exists data (fingerprint text primary key, budget text not null) strict",
    "create table if not exists places (path text primary key, budget text not null) strict",
    "create table if not exists files (path text primary key, stamp text not null,"
    " fingerprint text not null) strict",
)


@dataclass(frozen=True)
class KnownBudget:
    """How far a budget went, when it was last seen."""

    id: str
    path: Path
    entries: int = 0
    head: str = ""
    epsilon: float = 0.0
    delta: float = 0.0
    epsilon_limit: float = 0.0
    delta_limit: float = 0.0


class LocalIndex:
    """The index of this user's budgets."""

    def __init__(self, path: Path | None = None) -> None:
        """Open it, or make it."""
        self.path = index_path() if path is None else path
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise QuestionError(
                f"cannot make the folder {self.path.parent}: {error.strerror}; say with {HOME} where veilsum "
                "may keep what it knows of budgets"
            ) from None
        self._db = connected(self.path, "index of budgets")
        try:
            with self._explained():
                self._db.execute("pragma synchronous = full")
                self.secret = self._secret()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the index alone: all changes are kept, or none."""
        with self._explained():
            self._db.execute("begin immediate")
        try:
            yield
            with self._explained():
                self._db.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("rollback")
            raise

    def budget(self, id: str | None) -> KnownBudget | None:
        """What is known of a budget."""
        row = self._one("select * from budgets where id = ?", id)
        return None if row is None else KnownBudget(row[0], Path(row[1]), *row[2:])

    def at(self, path: Path) -> KnownBudget | None:
        """The budget that was last seen at a path."""
        row = self._one("select id from budgets where path = ? order by rowid desc", str(path))
        return None if row is None else self.budget(row[0])

    def of_rows(self, fingerprint: str) -> str | None:
        """The id of the budget of some rows."""
        row = self._one("select budget from data where fingerprint = ?", fingerprint)
        return None if row is None else str(row[0])

    def of_place(self, path: Path | None) -> str | None:
        """The id of the budget of what was at a path."""
        row = self._one("select budget from places where path = ?", str(path))
        return None if row is None else str(row[0])

    def keep(self, known: KnownBudget) -> None:
        """Write how far a budget went; it never goes back by this."""
        if known == self.budget(known.id):
            return
        if not self._db.in_transaction:
            with self.transaction():
                self.keep(known)
            return
        row = (known.id, str(known.path), known.entries, known.head, known.epsilon, known.delta,
               known.epsilon_limit, known.delta_limit)  # fmt: skip
        self._do(
            "insert into budgets values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do update set "
            "path = excluded.path, entries = excluded.entries, head = excluded.head, "
            "epsilon = excluded.epsilon, delta = excluded.delta, epsilon_limit = excluded.epsilon_limit, "
            "delta_limit = excluded.delta_limit where excluded.entries >= budgets.entries",
            *row,
        )
        self._do("insert or ignore into heads values (?, ?)", known.id, known.head)

    def heads(self, id: str) -> set[str]:
        """The last entries that a budget had, whenever it was seen."""
        with self._explained():
            rows = self._db.execute("select head from heads where budget = ?", (id,)).fetchall()
        return {head for (head,) in rows}

    def forget(self, id: str) -> None:
        """How far a budget went; its rows and places stay known."""
        self._do("delete from budgets where id = ?", id)

    def register(self, budget: str, fingerprint: str, path: Path | None) -> None:
        """These rows, and what is at this path, have that budget."""
        if self.of_rows(fingerprint) != budget:
            self._do("insert or replace into data values (?, ?)", fingerprint, budget)
        if path is not None and self.of_place(path) != budget:
            self._do("insert or replace into places values (?, ?)", str(path), budget)

    def seen(self, path: Path, stamp: str) -> str | None:
        """The fingerprint of a file that has not changed since."""
        row = self._one(
            "select fingerprint from files where path = ? and stamp = ?", str(path), stamp
        )
        return None if row is None else str(row[0])

    def note(self, path: Path, stamp: str, fingerprint: str) -> None:
        """The fingerprint of a file as it is now."""
        self._do("insert or replace into files values (?, ?, ?)", str(path), stamp, fingerprint)

    def _do(self, statement: str, *values: Any) -> None:
        with self._explained():
            self._db.execute(statement, values)

    def _one(self, query: str, *values: Any) -> Any:
        with self._explained():
            return self._db.execute(query, values).fetchone()

    def _secret(self) -> bytes:
        """Drawn once, by whoever comes first."""
        with self.transaction():
            for statement in SCHEMA:
                self._db.execute(statement)
            self._db.execute("insert or ignore into meta values ('format', ?)", (str(FORMAT),))
            self._db.execute(
                "insert or ignore into meta values ('secret', ?)",
                (secrets.token_hex(SECRET_BYTES),),
            )
            meta = dict(self._db.execute("select key, value from meta").fetchall())
            check_format(self.path, meta, FORMAT)
        return bytes.fromhex(meta["secret"])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self.path, self._damaged):
            yield

    def _damaged(self, why: str) -> QuestionError:
        return QuestionError(
            f"the index of budgets {self.path} is damaged: {why}; nothing was released; put the latest copy "
            "of it back, or move it away: budgets are then found beside their data alone"
        )


def index_path() -> Path:
    """Where the index is."""
    home = os.environ.get(HOME)
    if home:
        return Path(home) / NAME
    from platformdirs import user_data_path

    return user_data_path("veilsum", appauthor=False) / NAME
