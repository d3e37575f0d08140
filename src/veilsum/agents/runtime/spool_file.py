"""Readings that are taken from their source and not yet released: encrypted, beside the ledger.

A batch is released when its last reading is there. Until then its readings lie in a spool:

    PATH         magic and version, after, salt, then one record for each reading:  nonce, AEAD(reading)
    the ledger   a mark: salt, after, how many records were committed, the salt before

ChaCha20-Poly1305 under a key that HKDF-SHA256 derives from the device's secret and the salt. The
salt is new for every batch and the nonce of every record is random, so no pair of key and nonce
occurs twice, whatever copy of the file is restored. Each record is bound to the agent, the release
terms, the last release before the batch and its own place; all records have the same length, so
that the length tells nothing of a reading.

The order of writes makes each crash harmless:

    append   record, sync | mark (count + 1) | the source is acknowledged
    release  the ledger commits | mark (new salt, 0) | the file is emptied

A record beyond the mark was never acknowledged: if it is whole it counts, torn it is dropped, and
the source has it. Where numbers begin anew (a new run of masked sums), the open batch is written
under its new number to PATH.next, the mark is committed, and the file takes the place of the old
one; if a crash came in between, the next start does it. A batch whose last number the ledger has
released is dropped. Fewer records than the mark says, a salt that is neither the mark's nor the one
before, or a failed authentication mean that the file was cut, replaced by an older copy or another's,
or damaged. A file that was removed is begun anew, and what was in it is counted as lost and reported.
The mark is part of what the ledger seals, so a spool is as old as its ledger; that an old ledger is
in use, the neighbours detect.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from veilsum.agents.ledger.store import explain
from veilsum.agents.runtime.spool import SpooledReading
from veilsum.agents.versions import SPOOL
from veilsum.errors import LedgerError

FAMILY = b"mmspool"
MAGIC = FAMILY + str(SPOOL.newest).encode()  # all of it is compared, and its version named
SALT, NONCE, TAG, ORIGIN = 32, 12, 16, 16  # bytes
HEADER = struct.Struct(f"<{len(MAGIC)}sQ{SALT}s")  # magic, after, salt
FIXED = struct.Struct(f"<QQq{ORIGIN}sB")  # number, position, slot, origin, whether there is one


class SpoolMark(NamedTuple):
    """What a ledger knows of its spool.

    Attributes
    ----------
    salt, before : bytes
        The salt of the file, and of the one before it was last emptied.
    after : int
        The last release before the batch.
    committed : int
        How many readings were committed.
    """

    salt: bytes
    before: bytes
    after: int
    committed: int

    def __str__(self) -> str:
        """As the ledger stores it."""
        return f"{self.salt.hex()} {self.before.hex() or '-'} {self.after} {self.committed}"

    @classmethod
    def of(cls, text: str) -> SpoolMark:
        """Read what `str` wrote."""
        salt, before, after, count = text.split()
        former = b"" if before == "-" else bytes.fromhex(before)
        return cls(bytes.fromhex(salt), former, int(after), int(count))


class MarksSpool(Protocol):
    """What a spool needs of a ledger."""

    @property
    def spool_mark(self) -> str:
        """The last mark; empty if there is none."""

    def mark_spool(self, mark: str) -> None:
        """Commit a mark."""


class FileSpool:
    """A spool in an encrypted file.

    Parameters
    ----------
    path : Path
        The file.
    secret : bytes
        The device's secret (`Credentials.secret`).
    ledger : MarksSpool
        The open ledger, which stores the mark.
    agent, terms : str
        The identity of the ledger: label and release terms.
    last : int
        The number of the ledger's last release; 0 without one.
    components : int
        Numbers in a reading.
    anew : bool
        Whether numbers may begin anew after `last`, below those of the file.
    probe : callable
        Called with the name of each step of a write; for tests of crashes.

    Attributes
    ----------
    lost : int
        Readings that the ledger knows of and whose file is gone; to be reported.

    Raises
    ------
    LedgerError
        If the spool belongs to another agent, is damaged, cut or an older copy, or cannot be
        written; nothing is lost and nothing was released.
    """

    durable: bool

    def __init__(
        self,
        path: Path,
        secret: bytes,
        ledger: MarksSpool,
        agent: str,
        terms: str,
        last: int = 0,
        components: int = 1,
        probe: Callable[[str], None] = lambda _: None,
        *,
        anew: bool = False,
    ) -> None:
        """Open or create the file, and check it against the ledger."""
        self.path, self.durable, self._anew = path, True, anew
        self.records: list[SpooledReading] = []
        self.origins: set[str] = set()
        self._secret, self._bound = secret, f"veilsum spool\n{agent}\n{terms}\n".encode()
        self._ledger, self._probe, self._broken = ledger, probe, ""
        self._body = struct.Struct(f"<{components}d")
        self._size = NONCE + FIXED.size + self._body.size + TAG
        self._file, self.lost = -1, 0
        try:
            self._finish_renumbering()
            fresh = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if fresh:
                _sync_folder(path.parent)
            self._load(last, fresh)
        except OSError as problem:
            self.close()
            raise self._failure("open it", problem) from problem
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether it can be written."""
        return not self._broken

    def append(self, reading: SpooledReading) -> None:
        """Write a reading, and wait for the disk; if that fails, nothing of it is left."""
        self._check_usable()
        at = HEADER.size + len(self.records) * self._size
        try:
            if not self.records:
                _write(self._file, self._header(self._mark), 0)
            _write(self._file, self._encrypt(reading, len(self.records)), at)
            os.fsync(self._file)
        except OSError as problem:
            self._undo()
            raise self._failure("write a reading", problem) from problem
        self._probe("written")
        self._commit(self._mark._replace(committed=len(self.records) + 1))
        self._probe("marked")
        self._add(reading)

    def clear(self, after: int) -> None:
        """Empty it under a new salt; `after` is the number of the last release."""
        self._check_usable()
        try:
            self._renew(after, self._mark.salt)
        except OSError as problem:
            self._broken = "an earlier write failed; open it again"
            raise self._failure("empty it", problem) from problem

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._broken = -1, "it is closed"

    def _renew(self, after: int, before: bytes) -> None:
        self._commit(SpoolMark(secrets.token_bytes(SALT), before, after, 0))
        self.records.clear()
        self.origins.clear()
        self._probe("renewed")
        os.ftruncate(self._file, 0)
        os.fsync(self._file)
        self._probe("emptied")

    def _commit(self, mark: SpoolMark) -> None:
        """Store a mark in the ledger, which cannot be used again if that fails."""
        try:
            self._ledger.mark_spool(str(mark))
        except LedgerError:
            self._broken = "its ledger could not be written; open both again"
            raise
        self._take(mark)

    def _take(self, mark: SpoolMark) -> None:
        self._mark = mark
        self._key = _derive(self._secret, mark.salt, self._bound)

    def _undo(self) -> None:
        """After a failed write: what the mark does not count is cut off."""
        try:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
        except OSError:
            self._broken = "an earlier write failed, and could not be undone; open it again"

    def _load(self, last: int, fresh: bool) -> None:
        contents, text = _contents(self._file), self._ledger.spool_mark
        if not text:
            if contents:
                raise self._refusal("its ledger knows of none: it is of another agent")
            self._renew(last, b"")
            return
        self._take(SpoolMark.of(text))
        mark = self._mark
        if mark.after > last and self._anew and not (fresh and mark.committed):
            if not fresh:
                self._read(contents)
            self._renumber(last)
            return
        if mark.after > last and not self._anew:
            raise self._refusal(f"it follows release {mark.after}, and the ledger ends with {last}")
        if fresh and mark.committed and mark.after >= last:
            self.lost = mark.committed
            self._renew(last, mark.salt)
            return
        if not fresh:
            self._read(contents)
        if mark.after < last:
            if any(record.number > last for record in self.records):
                raise self._refusal("its batch is not the one that the ledger released")
            self._renew(last, mark.salt)  # a crash came before it was emptied
        elif len(self.records) != mark.committed or len(contents) > self._end:
            os.ftruncate(self._file, self._end)
            self._commit(mark._replace(committed=len(self.records)))

    @property
    def _next(self) -> Path:
        return self.path.with_name(f"{self.path.name}.next")

    def _renumber(self, last: int) -> None:
        """Give the open batch the number after `last`, whatever step a crash comes after.

        One for all: they are together the first batch, so that no later one is waited for.
        """
        old, salt = self.records, secrets.token_bytes(SALT)
        mark = SpoolMark(salt, self._mark.salt, last, len(old))
        self._mark = mark
        self._key = _derive(self._secret, salt, self._bound)
        new = [one._replace(number=last + 1) for one in old]
        written = self._header(mark) + b"".join(self._encrypt(one, k) for k, one in enumerate(new))
        handle = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(handle, written if new else b"", 0)
            os.fsync(handle)
        finally:
            os.close(handle)
        self._probe("renumbered")
        self._commit(mark)
        self._probe("renumbering marked")
        self.records = new
        os.replace(self._next, self.path)
        _sync_folder(self.path.parent)
        os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    def _finish_renumbering(self) -> None:
        """Put a file in place that a crash left beside, if the ledger's mark is that of it."""
        if not self._next.exists():
            return
        text = self._ledger.spool_mark
        mark = SpoolMark.of(text) if text else None
        header = self._next.read_bytes()[: HEADER.size]
        if mark is not None and (header == self._header(mark) or not (header or mark.committed)):
            os.replace(self._next, self.path)
        else:
            self._next.unlink()
        _sync_folder(self.path.parent)

    @property
    def _end(self) -> int:
        return HEADER.size + len(self.records) * self._size if self.records else 0

    @staticmethod
    def _header(mark: SpoolMark) -> bytes:
        return HEADER.pack(MAGIC, mark.after, mark.salt)

    def _read(self, contents: bytes) -> None:
        """Decrypt what the mark counts, and one more if it is whole."""
        count, header = self._mark.committed, contents[: HEADER.size]
        there = max(len(contents) - HEADER.size, 0) // self._size
        if there < count:
            raise self._refusal(
                f"it has {there} readings and had {count}: it was cut, or is an older copy"
            )
        if header != self._header(self._mark):
            stated = header[len(FAMILY) : len(MAGIC)]
            if header.startswith(FAMILY) and stated.isdigit() and not SPOOL.reads(int(stated)):
                raise self._refusal(SPOOL.refusal(int(stated)))
            if not count and self._was_emptied(header):
                return
            raise self._refusal(
                "its ledger knows of another: it is an older copy, or of another agent"
            )
        if there > count + 1:
            raise self._refusal(f"it has {there} readings and its ledger knows of {count}")
        for k in range(there):
            start = HEADER.size + k * self._size
            found = self._decrypt(contents[start : start + self._size], k)
            if found is None:
                if k < count:
                    raise self._refusal(f"record {k + 1} of {count} is damaged")
                return
            self._add(found)

    def _add(self, reading: SpooledReading) -> None:
        self.records.append(reading)
        self.origins.add(reading.origin)

    def _was_emptied(self, header: bytes) -> bool:
        """Whether a crash left the file before its emptying, or in its first write."""
        own = self._header(self._mark)
        torn = own.startswith(header.rstrip(b"\0")) and len(header) <= len(own)
        return torn or (bool(self._mark.before) and header.endswith(self._mark.before))

    def _associated(self, place: int) -> bytes:
        return self._bound + struct.pack("<QQ", self._mark.after, place) + self._mark.salt

    def _encrypt(self, reading: SpooledReading, place: int) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        origin = bytes.fromhex(reading.origin)
        fixed = FIXED.pack(
            reading.number, reading.position, reading.slot, origin, bool(reading.origin)
        )
        nonce = secrets.token_bytes(NONCE)
        plain = fixed + self._body.pack(*reading.value)
        return nonce + ChaCha20Poly1305(self._key).encrypt(nonce, plain, self._associated(place))

    def _decrypt(self, record: bytes, place: int) -> SpooledReading | None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        nonce, sealed = record[:NONCE], record[NONCE:]
        try:
            plain = ChaCha20Poly1305(self._key).decrypt(nonce, sealed, self._associated(place))
        except InvalidTag:
            return None
        number, position, slot, origin, named = FIXED.unpack(plain[: FIXED.size])
        value = self._body.unpack(plain[FIXED.size :])
        return SpooledReading(number, position, slot, origin.hex() if named else "", value)

    def _check_usable(self) -> None:
        if self._broken:
            raise LedgerError(f"spool {self.path}: {self._broken}; nothing was released")

    def _refusal(self, what: str) -> LedgerError:
        return LedgerError(
            f"spool {self.path} cannot be trusted: {what}; nothing was released; restore the spool "
            "that belongs to this ledger, or remove the file to go on without the unreleased "
            "readings in it"
        )

    def _failure(self, operation: str, problem: OSError) -> LedgerError:
        what, remedy = explain(problem)
        return LedgerError(
            f"spool {self.path}: cannot {operation}: {what}; no reading is lost: it stays with "
            f"its source; {remedy}"
        )


def _derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def _contents(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _write(handle: int, data: bytes, at: int) -> None:
    """Write all of it at a place; a disk that takes a part raises at the next part."""
    done = 0
    while done < len(data):
        done += os.pwrite(handle, data[done:], at + done)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
