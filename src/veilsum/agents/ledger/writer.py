"""The open file of a ledger: its lock, metadata and chain, and the one way to write to it.

A transaction is on the disk when it ends, unless it is asked not to wait. After a failed one the
contents of the disk are unknown, and nothing more is written until the ledger is opened again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.ledger.lock import Lock
from veilsum.agents.ledger.opening import OpenedStore, Opening, write_meta
from veilsum.agents.ledger.records import LedgerChange, LedgerEntry
from veilsum.agents.ledger.store import Store, as_ledger_errors, failure
from veilsum.errors import LedgerError

Probe = Callable[[str], None]  # called with the name of each step of a call
Waiting = Callable[[], AbstractContextManager[None]]
CLOSED = "it is closed"


class LedgerWriter:
    """One open ledger, for one process; its parts share it and its lock on threads.

    Parameters
    ----------
    lock : Lock
        Held until `close`.
    opened : OpenedStore
        The file, checked.
    opening : Opening
        How it was opened.
    probe : callable
        As for `Ledger.open`.
    """

    def __init__(self, lock: Lock, opened: OpenedStore, opening: Opening, probe: Probe) -> None:
        """Nothing is written yet."""
        self.path, self.key, self._identity = opening.path, opening.key, opening.identity
        self.agent = opening.identity.agent
        self.store, self.meta, self.budget, self.clock = opened[:4]
        self.probe, self.mutex = probe, threading.RLock()
        self.waiting: Waiting = nullcontext  # entered while a commit waits for the disk
        self.count, self.head = int(opened.meta["count"]), opened.meta["head"]
        self.last_number, self.open_query = opened.last_number, opened.open_query
        self._lock, self._pid, self._broken = lock, os.getpid(), ""
        self._changed: dict[str, str] = {}  # metadata of the transaction
        self.record()

    def usable(self) -> Store:
        """The file, unless an earlier write failed, it is closed, or this is a child process."""
        if self._broken:
            raise LedgerError(f"ledger {self.path}: {self._broken}; nothing was released")
        if self._pid != os.getpid():
            raise LedgerError(
                f"ledger {self.path} was opened by process {self._pid}, and this is its child "
                f"{os.getpid()}; nothing was released; open the ledger after forking"
            )
        return self.store

    @property
    def restored(self) -> bool:
        """Whether it continues a backup that not all neighbours have confirmed yet."""
        return self.meta["restored"] == "1"

    def check_confirmed(self, what: str) -> None:
        """Raise for a restored ledger that not all neighbours have confirmed."""
        if self.restored:
            raise LedgerError(
                f"ledger {self.path} was restored from a backup, and not all neighbours have "
                f"sent what they remember of it: {what} may have been released since; "
                "nothing was released; wait for them"
            )

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """The file, to read from."""
        with self.mutex, as_ledger_errors(self.path, "read it"):
            yield self.usable()

    @contextmanager
    def transaction(self, operation: str = "write it", wait: bool = True) -> Iterator[Store]:
        """Write; on the disk at the end, or with the operating system if it is not to wait."""
        with self.mutex:
            store = self.usable()
            emptied = self.meta["closed"] == records.LOG_EMPTIED
            try:
                store.wait_for_disk(wait)
                store.begin()
                self._changed.clear()
                yield store
                if emptied and "closed" not in self._changed:
                    self.put(closed=0)
                if self._changed:
                    write_meta(store, self.meta, self.key, **self._changed)
                with self.waiting():
                    store.commit()
                    if emptied:
                        store.checkpoint()  # from here on a log that is missing is a loss
                    elif store.behind:  # a reader kept the mark of an emptied log in the database
                        store.try_checkpoint()
            except (sqlite3.Error, OSError) as problem:
                raise self.fail(operation, problem) from problem
            except BaseException:
                self._give_up()  # `meta` may be ahead of the file
                raise

    def empty_log(self) -> bool:
        """Move the log into the database and cut it to nothing; False if a reader has it open.

        The database says so first: a crash before the next commit finds no log, and nothing lost.
        """
        with self.transaction("empty its log"):
            self.put(closed=records.LOG_EMPTIED)
        try:
            return self.store.empty_log()
        except sqlite3.Error as problem:
            raise self.fail("empty its log", problem) from problem

    def put(self, **changed: str | int | float) -> None:
        """Change metadata, in a transaction, which seals all of it at its end."""
        texts = {name: str(value) for name, value in changed.items()}
        self._changed.update(texts)
        self.meta.update(texts)

    def append(self, entry: LedgerEntry, **changed: str | int) -> LedgerEntry:
        """Chain a release, in a transaction; `linked` follows it."""
        entry = entry._replace(seq=self.count + 1, previous=self.head)
        entry = entry._replace(hash=records.entry_hash(self.head, entry.row))
        self.store.append(entry)
        self.put(count=entry.seq, head=entry.hash, time=entry.time, **changed)
        return entry

    def append_change(self, change: LedgerChange) -> LedgerChange:
        """Chain a change, in a transaction; `linked` follows it."""
        number = len(self.store.changes()) + 1
        change = change._replace(number=number, after=self.count, previous=self.head)
        change = change._replace(hash=records.change_hash(self.head, change))
        self.store.add_change(change)
        self.put(head=change.hash, time=change.time)
        return change

    def linked(self, entry: LedgerEntry | LedgerChange) -> None:
        """The end of the chain is now this one, which was committed."""
        if isinstance(entry, LedgerEntry):
            self.count = entry.seq
        self.head = entry.hash
        self.record()

    def record(self, pid: int | None = None) -> None:
        """Store in the lock file how far the ledger has come."""
        try:
            self._lock.record(self.count, self.head, int(self.meta["steps"]), pid)
        except OSError as problem:
            raise self.fail("write its lock file", problem) from problem

    def count_again(self) -> None:
        """Count all charges anew, after one was taken back; the reservation is to be made again."""
        with self.reading() as store:
            charged = store.charged()
            self.budget = BudgetTracker.of(self._identity, charged, store.charges_between)

    def fail(self, operation: str, problem: Exception) -> LedgerError:
        """After a failed write the contents of the disk are unknown until it is opened again."""
        self._give_up()
        return failure(self.path, operation, problem)

    def _give_up(self) -> None:
        self._broken = "an earlier write failed; open it again"
        try:
            self.store.rollback()
        except sqlite3.Error:
            self._broken = "an earlier write failed, and could not be undone; open it again"

    def close(self) -> None:
        """Mark it as closed and release it; may be called twice."""
        with self.mutex:
            if self._broken == CLOSED:
                return
            healthy = not self._broken and self._pid == os.getpid()
            try:
                if healthy:
                    with self.transaction("close it"):
                        self.put(closed=1, time=self.clock.now())
                    self.record(pid=0)
            finally:
                self._broken = CLOSED
                self.store.close()
                self._lock.close()
