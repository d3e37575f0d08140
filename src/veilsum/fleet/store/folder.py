"""A folder: local, mounted, a stick, or kept in step by another program.

    put(name, data):            write .veilsum-*.tmp, fsync, rename to name
    put(name, data, new=True):  write .veilsum-*.tmp, fsync, link to name (fails if it is there)

Both are atomic, so that nobody sees half an object. Reading 500 objects takes a third of the time that
obstore's local store needs.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store.base import (
    LARGEST,
    BoardStore,
    NoPutIfAbsentError,
    checked,
    folder_of,
    is_name,
)

ABANDONED = 3600.0  # seconds after which a temporary file is nobody's
_TEMPORARY = ".veilsum-"
_SETTLED = 3.0  # seconds after which a file of a coarse clock has its last version
_KINDS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), StoreDeniedError),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), StoreFullError),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EAGAIN, errno.ENOTCONN,
         errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOENT, errno.EMFILE, errno.ENFILE), StoreBusyError
    ),
}  # fmt: skip


class FolderStore(BoardStore):
    """Objects are files below a folder, which must be there unless `create`."""

    may_be_a_copy = True

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        """Nothing is read yet."""
        self._root = os.path.abspath(os.path.expanduser(path))
        self.address = self._root
        if create:
            with self._errors("making the folder"):
                os.makedirs(self._root, exist_ok=True)

    def names(self, prefix: str) -> dict[str, str]:
        """Objects in a folder: name -> version."""
        folder = folder_of(prefix)
        self.ignored = 0
        with self._errors(f"listing {folder or 'the folder'}"):
            if not os.path.isdir(self._root):
                raise StoreBusyError(
                    f"{self.address}: there is no such folder; mount it, or correct the address"
                )
            return dict(self._walk(f"{self._root}/{folder}", folder, time.time()))

    def _walk(self, path: str, folder: str, now: float) -> Iterator[tuple[str, str]]:
        try:
            entries = os.scandir(path)
        except FileNotFoundError:  # never written, or just removed
            return
        with entries:
            for entry in entries:
                name = folder + entry.name
                if not is_name(name):
                    self._pass_over(entry, now)
                elif entry.is_dir(follow_symlinks=False):
                    yield from self._walk(entry.path, f"{name}/", now)
                else:
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST:
                            yield name, _version(found, now)
                        else:
                            self.ignored += 1

    def _pass_over(self, entry: os.DirEntry[str], now: float) -> None:
        """Count it; a temporary file of a process that was killed is removed."""
        self.ignored += 1
        if entry.name.startswith(_TEMPORARY):
            with suppress(OSError):
                if now - entry.stat().st_mtime > ABANDONED:
                    os.unlink(entry.path)

    def version(self, name: str) -> str | None:
        """That of one object; None if it is absent."""
        with self._errors(f"reading {name}"):
            try:
                found = os.stat(self._path(name), follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _version(found, time.time())

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it is absent."""
        path = self._path(name)
        with self._errors(f"reading {name}"):
            try:  # neither a link nor a pipe that somebody put there
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                    return None
                return _read(file, found.st_size)
            finally:
                os.close(file)

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        """Write an object; with `new` only if it is absent."""
        path = self._path(name)
        folder = os.path.dirname(path)
        temporary = f"{folder}/{_TEMPORARY}{secrets.token_hex(8)}.tmp"
        with self._errors(f"writing {name}"):
            file = self._opened(temporary)
            try:
                try:
                    _write(file, data)
                finally:
                    os.close(file)
                if not new:
                    os.replace(temporary, path)
                    return True
                return self._linked(temporary, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)

    def _opened(self, temporary: str) -> int:
        """A new file, in folders below the root that are made if need be."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(temporary, flags, 0o666)
        except FileNotFoundError:
            os.stat(self._root)  # never made here: a stick that is not in must not become a folder
            os.makedirs(os.path.dirname(temporary), exist_ok=True)
            return os.open(temporary, flags, 0o666)

    def _linked(self, temporary: str, path: str) -> bool:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise self._error(
                    NoPutIfAbsentError, f"writing {path}", "this file system has no hard links"
                ) from error
            raise
        return True

    def remove(self, name: str) -> None:
        """Remove an object, present or not."""
        path = self._path(name)
        with self._errors(f"removing {name}"), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)
        with suppress(OSError):  # folders that are empty now
            while (path := os.path.dirname(path)) != self._root:
                os.rmdir(path)

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked(name)}"

    @contextmanager
    def _errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = _KINDS.get(error.errno or 0, StoreError)
            raise self._error(kind, operation, error.strerror) from error


def _version(found: os.stat_result, now: float) -> str:
    """Inode, time and size; on a coarse clock another one at each listing while the file is young."""
    version = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    coarse = found.st_mtime_ns % 1_000_000 == 0
    return f"{version}-{now}" if coarse and now - found.st_mtime < _SETTLED else version


def _read(file: int, size: int) -> bytes:
    data = os.read(file, size + 1)
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)
