"""From what SQLite and the disk say to what a person can do about it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from murmura.errors import LedgerError

REMEDIES = (  # the first whose beginning fits the error's name
    ("SQLITE_FULL", "the disk is full", "free some space and start the agent again"),
    ("SQLITE_READONLY", "it is read-only", "let the agent's user write the file and its folder"),
    ("SQLITE_PERM", "access is denied", "let the agent's user write the file and its folder"),
    ("SQLITE_CANTOPEN", "it cannot be opened", "check the folder, and that it may be written"),
    ("SQLITE_CORRUPT", "the file is damaged", "restore the latest copy"),
    ("SQLITE_NOTADB", "it is not a ledger, or damaged", "check the path, or restore a copy"),
    ("SQLITE_BUSY", "another program is writing it", "close that program"),
    ("SQLITE_IOERR", "the disk reports an error", "check the disk and how full it is"),
)
NUMBERS = {  # errors of the operating system, as SQLite would name them
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
    """What is wrong, and what to do."""
    name = getattr(problem, "sqlite_errorname", "") or ""
    if isinstance(problem, OSError):
        name = NUMBERS.get(problem.errno or 0, "SQLITE_IOERR")
    for beginning, what, remedy in REMEDIES:
        if name.startswith(beginning):
            return f"{what} ({problem})", remedy
    return f"{OTHERWISE[0]} ({problem})", OTHERWISE[1]


def failed(path: Path, doing: str, problem: Exception) -> LedgerError:
    """The error that names the ledger, what was tried, what is wrong and what to do."""
    what, remedy = explain(problem)
    return LedgerError(f"ledger {path}: cannot {doing}: {what}; nothing was released; {remedy}")


@contextmanager
def told(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a `LedgerError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        raise failed(path, doing, problem) from problem
