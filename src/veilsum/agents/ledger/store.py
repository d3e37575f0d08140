"""The database of a ledger, and what errors of SQLite and of the disk mean.

The database has a write-ahead log. A commit under FULL is on the disk when it returns; one under
NORMAL is with the operating system: it survives the process but perhaps not a power failure, after
which the log ends before it, as a whole. Either way the database itself is synced before the log is
overwritten.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.records import LedgerChange, LedgerEntry, refunded
from veilsum.agents.ledger.session_rows import SESSION_TABLES, QueryRow, SessionRow
from veilsum.agents.messages import PeerStatus
from veilsum.errors import LedgerError

SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE releases (seq INTEGER PRIMARY KEY, reading INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, last INTEGER NOT NULL, readings INTEGER NOT NULL, "
    "round INTEGER NOT NULL, time REAL NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, "
    "sums TEXT NOT NULL, weight TEXT NOT NULL, origins TEXT NOT NULL, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL, UNIQUE (reading, attempt), UNIQUE (last, attempt))",
    "CREATE TABLE origins (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE passed (number INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE)",
    "CREATE TABLE changes (number INTEGER PRIMARY KEY, after INTEGER NOT NULL, "
    "time REAL NOT NULL, kind TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL, "
    "before TEXT NOT NULL, now TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE peers (member TEXT PRIMARY KEY, start INTEGER NOT NULL, run BLOB NOT NULL, "
    "proof BLOB NOT NULL, releases INTEGER NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL, "
    "checksum BLOB NOT NULL) WITHOUT ROWID",
    *SESSION_TABLES,
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB NOT NULL, "
    "round INTEGER NOT NULL, checksum BLOB NOT NULL)",
)
SCHEMAS = {6: SCHEMA, 7: SCHEMA}  # by format, of all that are read
PAGE = 2048  # bytes; half of the usual: a thousand ledgers then take 120 MB, not 190
CACHE_KIB = 32  # of pages cached in memory for each ledger
LOG_PAGES = 256  # pages in the log before they move into the database
SAVE_STATE = "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?)"


REMEDIES = (  # the first whose prefix fits the error's name
    ("SQLITE_FULL", "the disk is full", "free some space and start the agent again"),
    ("SQLITE_READONLY", "it is read-only", "let the agent's user write the file and its folder"),
    ("SQLITE_PERM", "access is denied", "let the agent's user write the file and its folder"),
    ("SQLITE_CANTOPEN", "it cannot be opened", "check the folder, and that it may be written"),
    ("SQLITE_CORRUPT", "the file is damaged", "restore the latest copy"),
    ("SQLITE_NOTADB", "it is not a ledger, or damaged", "check the path, or restore a copy"),
    ("SQLITE_BUSY", "another program is writing it", "close that program"),
    ("SQLITE_IOERR", "the disk reports an error", "check the disk and how full it is"),
)
OS_ERRORS = {  # errors of the operating system, as SQLite would name them
    errno.ENOSPC: "SQLITE_FULL",
    errno.EDQUOT: "SQLITE_FULL",
    errno.EROFS: "SQLITE_READONLY",
    errno.EACCES: "SQLITE_PERM",
    errno.EPERM: "SQLITE_PERM",
    errno.ENOENT: "SQLITE_CANTOPEN",
    errno.ENOTDIR: "SQLITE_CANTOPEN",
    errno.EISDIR: "SQLITE_CANTOPEN",
    errno.EIO: "SQLITE_IOERR",
}
OTHERWISE = ("it is not as expected", "run `veilsum ledger verify` on it")


def explain(problem: Exception) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    name = getattr(problem, "sqlite_errorname", "") or ""
    if isinstance(problem, OSError):
        name = OS_ERRORS.get(problem.errno or 0, "SQLITE_IOERR")
    for prefix, what, remedy in REMEDIES:
        if name.startswith(prefix):
            return f"{what} ({problem})", remedy
    return f"{OTHERWISE[0]} ({problem})", OTHERWISE[1]


def failure(path: Path, operation: str, problem: Exception) -> LedgerError:
    """The error that names the ledger, the operation, what is wrong and what to do."""
    what, remedy = explain(problem)
    return LedgerError(f"ledger {path}: cannot {operation}: {what}; nothing was released; {remedy}")


@contextmanager
def as_ledger_errors(path: Path, operation: str) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a `LedgerError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        raise failure(path, operation, problem) from problem


def log_path(path: Path) -> Path:
    """The write-ahead log of a ledger."""
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    """Whether there is a write-ahead log that is not empty."""
    log = log_path(path)
    return log.exists() and log.stat().st_size > 0


class Store:
    """One connection to one ledger."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Connect; a missing file is created, readable by its owner alone."""
        if not read_only:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        mode = "ro" if read_only else "rw"
        if read_only and not log_path(path).exists():
            mode += "&immutable=1"  # no process writes it: leave no log and no index behind
        self.db = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            cached_statements=16,
            check_same_thread=False,
            timeout=1.0,
        )
        try:
            self.db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            if not read_only:
                self._prepare(new=path.stat().st_size == 0)
        except sqlite3.Error:
            self.db.close()
            raise

    def _prepare(self, new: bool) -> None:
        self.db.execute(f"PRAGMA page_size = {PAGE}")
        if new:
            self.db.execute("PRAGMA synchronous = OFF")  # it is empty: `checkpoint` syncs it
        mode = self.db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise sqlite3.OperationalError(f"no write-ahead log on this file system, only {mode}")
        self.db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        self.db.execute("PRAGMA secure_delete = ON")  # zeros where a withdrawn value was
        self.full = True
        self.log_emptied = False  # the last time that it was to be
        self.behind = False  # whether the last checkpoint left something in the log alone
        self.db.execute("PRAGMA synchronous = FULL")

    def wait_for_disk(self, full: bool) -> None:
        """Choose what the next commit waits for: the disk, or the operating system."""
        if full != self.full:
            self.db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self.full = full

    def checkpoint(self) -> None:
        """Move the log into the database and onto the disk; the log file stays, to be reused.

        Whatever a reader can now see is on the disk, even if an earlier write had failed to get
        there and only seemed to. A reader may delay it; `behind` says so.
        """
        self._checkpoint("FULL")

    def try_checkpoint(self) -> None:
        """The same without waiting for a reader."""
        self._checkpoint("PASSIVE")

    def _checkpoint(self, mode: str) -> None:
        busy, frames, moved = self.db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        self.behind = bool(busy) or moved < frames

    def empty_log(self) -> bool:
        """Move the log into the database and cut it to nothing: what was overwritten is in neither.

        False if a reader has the log open; then it is to be tried again.
        """
        busy = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        self.log_emptied = bool(busy == 0)
        return self.log_emptied

    @property
    def empty(self) -> bool:
        """Whether nothing was ever committed."""
        return bool(self.db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,))

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self.db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit the transaction."""
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back the transaction, if there is one."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def create(self) -> None:
        """Create the tables."""
        for statement in SCHEMA:
            self.db.execute(statement)

    def meta(self) -> dict[str, str]:
        """All metadata by name."""
        return dict(self.db.execute("SELECT name, value FROM meta"))

    def put_meta(self, **values: str | int | float) -> None:
        """Insert or replace metadata."""
        rows = ((name, str(value)) for name, value in values.items())
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def append(self, entry: LedgerEntry) -> None:
        """Add a release; a further attempt has the origins of the one before."""
        before = entry.attempt and self._one(
            "SELECT 1 FROM releases WHERE reading = ?", entry.reading
        )
        self.db.execute(f"INSERT INTO releases VALUES ({', '.join('?' * 14)})", entry.row)
        if before:
            return
        named = ((origin, entry.seq) for origin in entry.origins if origin)
        self.db.executemany("INSERT INTO origins VALUES (?, ?)", named)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Every release in order, as stored."""
        return self.db.execute("SELECT * FROM releases ORDER BY seq")

    def entries(self) -> Iterator[LedgerEntry]:
        """Every release, in order."""
        return map(LedgerEntry.of_row, self.rows())

    def between(self, low: int, high: int) -> list[LedgerEntry]:
        """The releases that cover a reading from `low` to `high`."""
        found = self._select("WHERE last >= ? AND last <= ?", low, high)
        beyond = self._select("WHERE last > ? ORDER BY last LIMIT 1", high)
        return [*found, *(entry for entry in beyond if entry.first <= high)]

    def find(self, reading: int) -> LedgerEntry | None:
        """The release with this number."""
        return next(self._select("WHERE reading = ? AND attempt = 0", reading), None)

    def sent(self, query: int) -> list[LedgerEntry]:
        """The masked values of a query that were sent, by its number in the ledger."""
        return list(self._select("WHERE reading = ? AND attempt > 0 ORDER BY attempt", query))

    def all_sent(self) -> Iterator[LedgerEntry]:
        """The masked values of all queries that were sent, in order."""
        return self._select("WHERE attempt > 0 ORDER BY seq")

    def charged(self) -> Iterator[LedgerEntry]:
        """Every release whose charge was not taken back, in order."""
        gone = refunded(self.changes())
        return (entry for entry in self.entries() if entry.seq not in gone)

    def covering(self, number: int) -> LedgerEntry | None:
        """The release that covers the reading of this number."""
        return next(iter(self.between(number, number)), None)

    def find_origin(self, origin: str) -> LedgerEntry | None:
        """The release of the reading with this origin."""
        where = "WHERE seq = (SELECT seq FROM origins WHERE origin = ?)"
        return next(self._select(where, origin), None)

    def has_origin(self, origin: str, but: int = 0) -> bool:
        """Whether the reading with this origin was released or passed over; not in query `but`."""
        where = (
            "SELECT 1 FROM origins JOIN releases USING (seq) WHERE origin = ? "
            "AND NOT (attempt > 0 AND reading = ?) "
            "UNION ALL SELECT 1 FROM passed WHERE origin = ?"
        )
        return self._one(where, origin, but, origin)

    def was_passed_over(self, origin: str) -> bool:
        """Whether the reading with this origin was passed over."""
        found = self.db.execute("SELECT 1 FROM passed WHERE origin = ?", (origin,))
        return found.fetchone() is not None

    def pass_over(self, rows: Sequence[tuple[int, str]]) -> None:
        """Add numbered origins of readings that are passed over."""
        self.db.executemany("INSERT INTO passed VALUES (?, ?)", rows)

    def passed(self) -> Iterator[tuple[int, str]]:
        """The origins of readings that were passed over, numbered from 1, in order."""
        return self.db.execute("SELECT number, origin FROM passed ORDER BY number")

    def last_time(self) -> float | None:
        """When the last release was made."""
        found = self.db.execute("SELECT time FROM releases ORDER BY seq DESC LIMIT 1").fetchone()
        return None if found is None else float(found[0])

    def charges_between(self, low: int, high: int) -> list[Charge]:
        """What counts of the releases that cover a reading from `low` to `high`."""
        gone = refunded(self.changes())
        return [Charge.of(entry) for entry in self.between(low, high) if entry.seq not in gone]

    def _one(self, question: str, *values: Any) -> bool:
        return self.db.execute(question, values).fetchone() is not None

    def _select(self, where: str, *values: Any) -> Iterator[LedgerEntry]:
        found = self.db.execute(f"SELECT * FROM releases {where}", values)
        return map(LedgerEntry.of_row, found.fetchall())

    def origins(self) -> Iterator[tuple[str, int]]:
        """Every origin and the release that it is in."""
        return self.db.execute("SELECT origin, seq FROM origins")

    def add_change(self, change: LedgerChange) -> None:
        """Add a change of terms."""
        self.db.execute(f"INSERT INTO changes VALUES ({', '.join('?' * 10)})", change)

    def changes(self) -> list[LedgerChange]:
        """Every change of terms, in order."""
        return [LedgerChange(*r) for r in self.db.execute("SELECT * FROM changes ORDER BY number")]

    def schema(self) -> list[str]:
        """The statements that made the tables, and whatever else is in the file."""
        found = self.db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return sorted(str(row[0]) for row in found)

    def state(self) -> tuple[bytes, int, bytes] | None:
        """The mixing state, its round and its checksum."""
        row = self.db.execute("SELECT bytes, round, checksum FROM state").fetchone()
        return None if row is None else (bytes(row[0]), int(row[1]), bytes(row[2]))

    def save_state(self, state: bytes, round: int, checksum: bytes) -> None:
        """Replace the mixing state."""
        self.db.execute(SAVE_STATE, (state, round, checksum))

    def drop_state(self) -> None:
        """Delete the mixing state."""
        self.db.execute("DELETE FROM state")

    def save_peers(self, peers: Mapping[str, tuple[PeerStatus, bytes]]) -> None:
        """Replace the last known status of some members, each with its checksum."""
        rows = ((member, *status, checksum) for member, (status, checksum) in peers.items())
        self.db.executemany("INSERT OR REPLACE INTO peers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def peers(self) -> dict[str, tuple[PeerStatus, bytes]]:
        """The last known status of every member ever heard, with its checksum."""
        found = self.db.execute("SELECT * FROM peers")
        return {row[0]: (PeerStatus(*row[1:7]), bytes(row[7])) for row in found}

    def queries(self) -> list[QueryRow]:
        """Every query, in order."""
        return [QueryRow(*row) for row in self.db.execute("SELECT * FROM queries ORDER BY number")]

    def find_query(self, run: str, query: int) -> QueryRow | None:
        """A query by its number in its run."""
        found = self.db.execute("SELECT * FROM queries WHERE run = ? AND query = ?", (run, query))
        row = found.fetchone()
        return None if row is None else QueryRow(*row)

    def save_query(self, row: QueryRow) -> None:
        """Add or replace a query."""
        marks = ", ".join("?" * len(row))
        self.db.execute(f"INSERT OR REPLACE INTO queries VALUES ({marks})", row)

    def sessions(self, query: int | None = None) -> list[SessionRow]:
        """Every session, or those of one query by its number in the ledger, in order."""
        where, values = ("", ()) if query is None else ("WHERE query = ? ", (query,))
        found = self.db.execute(f"SELECT * FROM sessions {where}ORDER BY number", values)
        return [SessionRow(*row) for row in found]

    def previous_of_session(self, number: int) -> str:
        """The hash that a session is chained to."""
        found = self.db.execute("SELECT previous FROM sessions WHERE number = ?", (number,))
        return str(found.fetchone()[0])

    def add_session(self, row: SessionRow) -> None:
        """Add a session."""
        self.db.execute(f"INSERT INTO sessions VALUES ({', '.join('?' * len(row))})", row)

    def change_session(self, row: SessionRow) -> None:
        """Replace a session; a value that it no longer has is overwritten where it is."""
        if not row.words:
            zeros = "words = zeroblob(length(words)), salt = zeroblob(length(salt))"
            self.db.execute(f"UPDATE sessions SET {zeros} WHERE number = ?", (row.number,))
        columns = ", ".join(f"{name} = ?" for name in row._fields)
        self.db.execute(f"UPDATE sessions SET {columns} WHERE number = ?", (*row, row.number))

    def integrity_errors(self) -> list[str]:
        """What SQLite finds wrong with the file itself."""
        found = [str(row[0]) for row in self.db.execute("PRAGMA integrity_check(5)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the connection; the log moves into the database."""
        self.db.close()

    def close_with_log(self, path: Path) -> None:
        """Close the connection and leave the log, as if the process had been killed.

        The last connection to a database moves the log, unless it can only read.
        """
        last = Store(path, read_only=True) if has_log(path) else None
        if last is not None:
            last.db.execute("BEGIN")
            last.db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self.db.close()
        if last is not None:
            last.db.close()
