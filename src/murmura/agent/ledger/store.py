"""The SQLite file: its tables, and the few statements that touch them.

Write-ahead log; a commit under FULL is on the disk when it returns, one under NORMAL is with the
operating system: it survives the process but perhaps not a power cut, after which the log ends
before it, as a whole. Either way the database itself is synced before the log is overwritten.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from murmura.agent.ledger.records import Entry, numbers, words
from murmura.agent.messages import Standing

SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE releases (seq INTEGER PRIMARY KEY, reading INTEGER NOT NULL UNIQUE, "
    "round INTEGER NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, sums TEXT NOT NULL, "
    "weight TEXT NOT NULL, origin TEXT NOT NULL, before TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE UNIQUE INDEX origins ON releases (origin) WHERE origin <> ''",
    "CREATE TABLE seen (member TEXT PRIMARY KEY, start INTEGER NOT NULL, run BLOB NOT NULL, "
    "proof BLOB NOT NULL, releases INTEGER NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL) "
    "WITHOUT ROWID",
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB NOT NULL, "
    "round INTEGER NOT NULL, mark BLOB NOT NULL)",
)
COLUMNS = "seq, reading, round, epsilon, delta, sums, weight, origin, before, hash"
PAGE = 2048  # bytes; half of the usual: a thousand ledgers then take 120 MB, not 190
CACHE_KIB = 32  # of pages kept in memory for each ledger
LOG_PAGES = 256  # pages in the log before they move into the database
SAVE = "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?)"


def log_of(path: Path) -> Path:
    """Where the write-ahead log of a ledger lies."""
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    """Whether there is a log, with something in it."""
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


class Store:
    """One connection to one ledger."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Connect; a file that is not there is made, readable by its owner alone."""
        if not read_only:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        mode = "ro" if read_only else "rw"
        if read_only and not log_of(path).exists():
            mode += "&immutable=1"  # nobody writes it: leave no log and no index behind
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
            self.db.execute("PRAGMA synchronous = OFF")  # nothing is in it yet: `settle` syncs it
        mode = self.db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise sqlite3.OperationalError(f"no write-ahead log on this file system, only {mode}")
        self.db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        self.full = True
        self.db.execute("PRAGMA synchronous = FULL")

    def durable(self, full: bool) -> None:
        """Choose what the next commit waits for: the disk, or the operating system."""
        if full != self.full:
            self.db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self.full = full

    def settle(self) -> None:
        """Move the log into the database and onto the disk; the log itself stays, to be reused.

        Whatever a reader can now see is on the disk, also where an earlier write had failed to
        get there and only seemed to.
        """
        self.db.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    @property
    def empty(self) -> bool:
        """Whether nothing was ever committed."""
        return bool(self.db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,))

    def begin(self) -> None:
        """Begin to write."""
        self.db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make what was written hold."""
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what was written since `begin`, if anything."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def create(self) -> None:
        """Make the tables."""
        for statement in SCHEMA:
            self.db.execute(statement)

    def meta(self) -> dict[str, str]:
        """Every fact by its name."""
        return dict(self.db.execute("SELECT name, value FROM meta"))

    def put(self, **facts: str | int | float) -> None:
        """Write facts down."""
        rows = ((name, str(value)) for name, value in facts.items())
        self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def append(self, entry: Entry) -> None:
        """Add a release."""
        values = (*entry[:5], words(entry.sums), format(entry.weight, "x"), *entry[7:])
        self.db.execute(f"INSERT INTO releases ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", values)

    def entries(self) -> Iterator[Entry]:
        """Every release, in the order in which it was made."""
        return self._select("ORDER BY seq")

    def near(self, reading: int, width: int) -> list[Entry]:
        """The releases of readings less than `width` away."""
        low, high = reading - width + 1, reading + width - 1
        return list(self._select("WHERE reading BETWEEN ? AND ? ORDER BY seq", low, high))

    def find(self, reading: int) -> Entry | None:
        """The release of a reading."""
        return next(self._select("WHERE reading = ?", reading), None)

    def find_origin(self, origin: str) -> Entry | None:
        """The release of whatever is known by this name."""
        return next(self._select("WHERE origin = ? AND origin <> ''", origin), None)

    def _select(self, which: str, *values: int | str) -> Iterator[Entry]:
        for row in self.db.execute(f"SELECT {COLUMNS} FROM releases {which}", values):
            seq, reading, round, epsilon, delta, sums, weight, *rest = row
            size = int(weight, 16)
            yield Entry(seq, reading, round, epsilon, delta, numbers(sums), size, *rest)

    def state(self) -> tuple[bytes, int, bytes] | None:
        """The state of mixing, its round and its checksum."""
        found: tuple[bytes, int, bytes] | None = self.db.execute(
            "SELECT bytes, round, mark FROM state"
        ).fetchone()
        return found

    def save(self, state: bytes, round: int, mark: bytes) -> None:
        """Replace the state of mixing."""
        self.db.execute(SAVE, (state, round, mark))

    def remember(self, seen: Mapping[str, Standing]) -> None:
        """Replace where some members stood when they were last heard."""
        rows = ((member, *standing) for member, standing in seen.items())
        self.db.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def remembered(self) -> dict[str, Standing]:
        """Where every member stood that was ever heard."""
        return {row[0]: Standing(*row[1:]) for row in self.db.execute("SELECT * FROM seen")}

    def drop_state(self) -> None:
        """Forget the state of mixing."""
        self.db.execute("DELETE FROM state")

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file itself."""
        found = [str(row[0]) for row in self.db.execute("PRAGMA integrity_check(5)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Let go; the log moves into the database."""
        self.db.close()
