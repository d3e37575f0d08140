"""The lock beside a ledger.

The lock is `flock` on PATH.lock, held while the ledger is open and dropped by the kernel however
the process ends: one process per ledger. The lock file is also a second record of how many releases
there are. It names the process that holds it and, after each commit, the number of releases and of
steps of sessions: if the ledger itself later has fewer, its write-ahead log was deleted or it was
replaced by an older copy.
(The lock cannot be on the ledger's own file: closing a second handle of that file would drop
SQLite's locks.)
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from veilsum.agents.ledger.store import failure
from veilsum.errors import LedgerError

LOCK_BYTES = 160  # a record is padded to it, so that one write replaces all of the last one
HANDLES = 4  # the lock, the database, its log and its index
_COUNTING = threading.Lock()  # ledgers may be opened by several threads at once
SPARE = 256  # for sockets and whatever else the process has open


class LockRecord(NamedTuple):
    """The contents of a lock file."""

    pid: int  # 0: no process
    releases: int
    head: str
    steps: int  # of sessions


def lock_path(path: Path) -> Path:
    """The lock file of a ledger."""
    return path.with_name(path.name + ".lock")


def read_lock(path: Path) -> LockRecord | None:
    """The record in the lock file beside a ledger; None if there is none."""
    try:
        found = json.loads(lock_path(path).read_bytes())
        numbers = int(found["pid"]), int(found["releases"])
        return LockRecord(*numbers, str(found["head"]), int(found["steps"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_open(path: Path) -> bool:
    """Whether a process has the ledger open.

    Parameters
    ----------
    path : Path
        The ledger's file.
    """
    try:
        handle = os.open(lock_path(path), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


class Lock:
    """Exclusive access to a ledger."""

    _open = 0  # in this process

    def __init__(self, path: Path) -> None:
        """Acquire it, or raise `LedgerError` with the process that holds it."""
        self._path = path
        with _COUNTING:
            raise_file_limit(Lock._open + 1)
            Lock._open += 1
        try:
            self.earlier = self._acquire(path)
        except BaseException:
            Lock._forget()
            raise

    @staticmethod
    def _forget() -> None:
        with _COUNTING:
            Lock._open -= 1

    def _acquire(self, path: Path) -> LockRecord | None:
        try:
            self._file = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise failure(path, f"open its lock {lock_path(path).name}", problem) from problem
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise self._locked() from None
        return read_lock(path)

    def _locked(self) -> LedgerError:
        holder = read_lock(self._path)
        pid = "another process" if holder is None or not holder.pid else f"process {holder.pid}"
        return LedgerError(
            f"ledger {self._path} is open in {pid}; an agent runs once; nothing was released; "
            "stop that process first; another agent needs another ledger"
        )

    def record(self, releases: int, head: str, steps: int, pid: int | None = None) -> None:
        """Store how far the ledger is; it survives the end of the process, however it ends."""
        process = os.getpid() if pid is None else pid
        record = {"pid": process, "releases": releases, "steps": steps, "head": head}
        os.pwrite(self._file, json.dumps(record).encode().ljust(LOCK_BYTES), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
        self._forget()


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
