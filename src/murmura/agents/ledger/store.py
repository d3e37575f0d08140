"""The files of a ledger: the SQLite database, the lock beside it, and what their errors mean.

The database has a write-ahead log. A commit under FULL is on the disk when it returns; one under
NORMAL is with the operating system: it survives the process but perhaps not a power failure, after
which the log ends before it, as a whole. Either way the database itself is synced before the log is
overwritten.

The lock is `flock` on PATH.lock, held while the ledger is open and dropped by the kernel however
the process ends: one process per ledger. The lock file is also a second record of how many releases
there are. It names the process that holds it and, after each commit, the number of releases: if the
ledger itself later has fewer, its write-ahead log was deleted or it was replaced by an older copy.
(The lock cannot be on the ledger's own file: closing a second handle of that file would drop
SQLite's locks.)
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from murmura.agents.ledger.records import LedgerChange, LedgerEntry
from murmura.agents.messages import PeerStatus
from murmura.errors import LedgerError

SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE releases (seq INTEGER PRIMARY KEY, reading INTEGER NOT NULL UNIQUE, "
    "last INTEGER NOT NULL UNIQUE, readings INTEGER NOT NULL, round INTEGER NOT NULL, "
    "time REAL NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, sums TEXT NOT NULL, "
    "weight TEXT NOT NULL, origins TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE origins (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE passed (number INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE)",
    "CREATE TABLE changes (number INTEGER PRIMARY KEY, after INTEGER NOT NULL, "
    "time REAL NOT NULL, kind TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL, "
    "before TEXT NOT NULL, now TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE peers (member TEXT PRIMARY KEY, start INTEGER NOT NULL, run BLOB NOT NULL, "
    "proof BLOB NOT NULL, releases INTEGER NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL, "
    "checksum BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB NOT NULL, "
    "round INTEGER NOT NULL, checksum BLOB NOT NULL)",
)
PAGE = 2048  # bytes; half of the usual: a thousand ledgers then take 120 MB, not 190
CACHE_KIB = 32  # of pages cached in memory for each ledger
LOG_PAGES = 256  # pages in the log before they move into the database
SAVE_STATE = "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?)"
LOCK_BYTES = 160  # a record is padded to it, so that one write replaces all of the last one
HANDLES = 4  # the lock, the database, its log and its index
SPARE = 256  # for sockets and whatever else the process has open

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
OTHERWISE = ("it is not as expected", "run `murmura ledger verify` on it")


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
        self.full = True
        self.db.execute("PRAGMA synchronous = FULL")

    def wait_for_disk(self, full: bool) -> None:
        """Choose what the next commit waits for: the disk, or the operating system."""
        if full != self.full:
            self.db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self.full = full

    def checkpoint(self) -> None:
        """Move the log into the database and onto the disk; the log file stays, to be reused.

        Whatever a reader can now see is on the disk, even if an earlier write had failed to get
        there and only seemed to.
        """
        self.db.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

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
        """Add a release."""
        self.db.execute(f"INSERT INTO releases VALUES ({', '.join('?' * 13)})", entry.row)
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
        return next(self._select("WHERE reading = ?", reading), None)

    def covering(self, number: int) -> LedgerEntry | None:
        """The release that covers the reading of this number."""
        return next(iter(self.between(number, number)), None)

    def find_origin(self, origin: str) -> LedgerEntry | None:
        """The release of the reading with this origin."""
        where = "WHERE seq = (SELECT seq FROM origins WHERE origin = ?)"
        return next(self._select(where, origin), None)

    def has_origin(self, origin: str) -> bool:
        """Whether the reading with this origin was released or passed over."""
        where = "SELECT 1 FROM origins WHERE origin = ?1 UNION ALL SELECT 1 FROM passed WHERE origin = ?1"
        return self.db.execute(where, (origin,)).fetchone() is not None

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

    def integrity_errors(self) -> list[str]:
        """What SQLite finds wrong with the file itself."""
        found = [str(row[0]) for row in self.db.execute("PRAGMA integrity_check(5)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the connection; the log moves into the database."""
        self.db.close()


class LockRecord(NamedTuple):
    """The contents of a lock file."""

    pid: int  # 0: no process
    releases: int
    head: str


def lock_path(path: Path) -> Path:
    """The lock file of a ledger."""
    return path.with_name(path.name + ".lock")


def read_lock(path: Path) -> LockRecord | None:
    """The record in the lock file beside a ledger; None if there is none."""
    try:
        found = json.loads(lock_path(path).read_bytes())
        return LockRecord(int(found["pid"]), int(found["releases"]), str(found["head"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Lock:
    """Exclusive access to a ledger."""

    _open = 0  # in this process

    def __init__(self, path: Path) -> None:
        """Acquire it, or raise `LedgerError` with the process that holds it."""
        self._path = path
        raise_file_limit(Lock._open + 1)
        try:
            self._file = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise failure(path, f"open its lock {lock_path(path).name}", problem) from problem
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise self._locked() from None
        self.earlier = read_lock(path)
        Lock._open += 1

    def _locked(self) -> LedgerError:
        holder = read_lock(self._path)
        pid = "another process" if holder is None or not holder.pid else f"process {holder.pid}"
        return LedgerError(
            f"ledger {self._path} is open in {pid}; an agent runs once; nothing was released; "
            "stop that process, or give this agent another ledger"
        )

    def record(self, releases: int, head: str, pid: int | None = None) -> None:
        """Store the number of releases; it survives the end of the process, however it ends."""
        record = {"pid": os.getpid() if pid is None else pid, "releases": releases, "head": head}
        os.pwrite(self._file, json.dumps(record).encode().ljust(LOCK_BYTES), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
        Lock._open -= 1


def raise_file_limit(ledgers: int) -> None:
    """Raise the soft limit on open files if so many ledgers need it and the hard one permits."""
    need = HANDLES * ledgers + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or need <= soft:
        return
    target = 2 * need if hard == resource.RLIM_INFINITY else min(2 * need, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, target), hard))
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < need:
        raise LedgerError(
            f"{ledgers} ledgers need {need} open files and this process may have {hard}; "
            "nothing was released; raise the limit (ulimit -Hn) or run fewer agents in a process"
        )
