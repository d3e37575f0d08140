"""One process per ledger, and a second memory of how far it had come.

The lock is `flock` on PATH.lock, held while the ledger is open and let go by the kernel however
the process ends. The file says who holds it, and after each commit how many releases there are:
if the ledger itself later knows of fewer, its write-ahead log was deleted or an older copy put in
its place. (The lock cannot be on the ledger's own file: closing a second handle of that would
drop SQLite's locks.)
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from murmura.agent.ledger.faults import failed
from murmura.errors import LedgerError

SIZE = 160  # a record is padded to it, so that one write replaces all of the last one
HANDLES = 4  # the lock, the database, its log and its index
SPARE = 256  # for sockets and whatever else the process has open


class Remembered(NamedTuple):
    """What the lock file says."""

    pid: int  # 0: nobody
    releases: int
    head: str


def beside(path: Path) -> Path:
    """Where the lock of a ledger lies."""
    return path.with_name(path.name + ".lock")


def remembered(path: Path) -> Remembered | None:
    """What the lock file beside a ledger says; None if it says nothing."""
    try:
        found = json.loads(beside(path).read_bytes())
        return Remembered(int(found["pid"]), int(found["releases"]), str(found["head"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Lock:
    """An exclusive hold on a ledger."""

    _held = 0  # by this process

    def __init__(self, path: Path) -> None:
        """Take hold, or raise `LedgerError` with the process that has it."""
        self._path = path
        make_room(Lock._held + 1)
        try:
            self._file = os.open(beside(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise failed(path, f"open its lock {beside(path).name}", problem) from problem
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise self._taken() from None
        self.before = remembered(path)
        Lock._held += 1

    def _taken(self) -> LedgerError:
        holder = remembered(self._path)
        pid = "another process" if holder is None or not holder.pid else f"process {holder.pid}"
        return LedgerError(
            f"ledger {self._path} is open in {pid}; an agent runs once; nothing was released; "
            "stop that process, or give this agent a ledger of its own"
        )

    def note(self, releases: int, head: str, pid: int | None = None) -> None:
        """Write down how far the ledger is; survives the end of the process, however it ends."""
        said = {"pid": os.getpid() if pid is None else pid, "releases": releases, "head": head}
        os.pwrite(self._file, json.dumps(said).encode().ljust(SIZE), 0)

    def close(self) -> None:
        """Let go."""
        os.close(self._file)
        Lock._held -= 1


def make_room(ledgers: int) -> None:
    """Raise the soft limit on open files where so many ledgers need it and the hard one allows."""
    need = HANDLES * ledgers + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or need <= soft:
        return
    wanted = 2 * need if hard == resource.RLIM_INFINITY else min(2 * need, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < need:
        raise LedgerError(
            f"{ledgers} ledgers need {need} open files and this process may have {hard}; "
            "nothing was released; raise the limit (ulimit -Hn) or run fewer agents in a process"
        )
