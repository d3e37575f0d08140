"""A keeper's key while a question is open: one file, outside site.db and outside backups (rule K7).

    keeper-<fleet>-<question>.key     32 bytes, of its owner alone; erased once the Answer is durable

It is the key of one question on one board. What is in it is no key before all 32 bytes are on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from veilsum.fleet.post import short

SIZE = 32
_FLEET = 10  # hexadecimal digits of a fleet in the name


def key_file(folder: Path, fleet: bytes, terms: bytes) -> Path:
    """Where a site has its key for a question."""
    return folder / f"{_prefix(fleet)}{short(terms)}.key"


def _prefix(fleet: bytes) -> str:
    return f"keeper-{fleet.hex()[:_FLEET]}-"


def made_key(path: Path) -> bytes:
    """The key in a file, made now if there is none; on the disk when this returns."""
    found = read_secret(path)
    if found is None:
        path.unlink(missing_ok=True)  # of a process that was killed while it wrote
        found = os.urandom(SIZE)
        write_secret(path, found)
    return found


def read_secret(path: Path) -> bytes | None:
    """The key in a file; None if there is none."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == SIZE else None


def write_secret(path: Path, data: bytes) -> None:
    """To a new file that only its owner can read."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def erase(path: Path) -> None:
    """Overwrite a key and remove it: gone from the disk when this returns, as far as the disk obeys."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        file.write(bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
        file.truncate(0)
    path.unlink()
    _sync(path.parent)


def erase_over(folder: Path, fleet: bytes, open_terms: Collection[bytes]) -> None:
    """Erase the keys of questions of a fleet that are not open any more."""
    kept = {key_file(folder, fleet, terms).name for terms in open_terms}
    for path in folder.glob(f"{_prefix(fleet)}*.key"):
        if path.name not in kept:
            erase(path)


def _sync(folder: Path) -> None:
    """Names of files, too; where folders cannot be opened (Windows), they are kept anyway."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
