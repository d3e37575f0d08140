"""Lines of a file that grows and is rotated: by rename, or by copying and truncating it.

    readings.csv.2  ->  readings.csv.1  ->  readings.csv        oldest first, the last one grows

A renamed file is read to its end before the next one is begun, also what its writer still adds to
it. A truncated file is recognised by its content: the bytes before the place that was reached are
no longer those that were read. Its copy is found by the hash of everything that was read, and is
read on from there.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, NamedTuple, cast

from veilsum.agents.ledger.clock import MACHINE, SystemClock
from veilsum.agents.readings.base import Notice
from veilsum.errors import AgentError, SignalError

CHUNK = 65536
TAIL = 4096  # bytes before the reached place that are compared at every look
SETTLE = 5.0  # seconds without growth after which a renamed file is left for the next one
UNFINISHED = 60.0  # the same, if its last row has not ended
GONE = 60.0  # seconds without a file of this name after which it is reported
MOST_LATE = 4  # renamed files that are still looked at for rows that come late
TRIES = 20  # to list and open the files of a rotation that is going on
SHORT_NUMBER = 4  # digits; more are a date


class Line(NamedTuple):
    """A line, and where it comes from.

    Attributes
    ----------
    data : bytes
        The line without its end.
    path : Path
        Its file, under the name by which it was opened.
    first : bool
        Whether it is the first of its file, and may hold the names of columns.
    carried : bytes
        What the file before ended with, if that line had no end.
    continues : bool or None
        Whether the file continues the one before in the middle of a line; None if unknown.
    """

    data: bytes
    path: Path
    first: bool = False
    carried: bytes = b""
    continues: bool | None = None


class TruncatedError(Exception):
    """The file no longer holds what was read of it."""


class Part:
    """One file of a rotation, and how far it was read."""

    def __init__(self, path: Path, clock: SystemClock = MACHINE) -> None:
        """Open the file."""
        self.path, self._clock = path, clock
        self.packed = path.suffix == ".gz"
        opener = gzip.open if self.packed else open
        self.file = cast("IO[bytes]", opener(path, "rb"))
        self.offset, self.digest, self.tail, self.rest = 0, hashlib.sha256(), b"", b""
        self.lines = 0  # that were returned
        self.carried, self.continues = b"", None
        self.grown_at = self._clock.monotonic()
        self.complete = self.packed  # never grows: packed, or a copy

    carried: bytes
    continues: bool | None

    @property
    def identity(self) -> tuple[int, int]:
        """The device and the inode."""
        found = os.fstat(self.file.fileno())
        return found.st_dev, found.st_ino

    def line(self) -> Line | None:
        """The next line that is not blank, if it has ended."""
        while True:
            while b"\n" not in self.rest:
                if not self.grow():
                    return None
            data, self.rest = self.rest.split(b"\n", 1)
            if data.strip():
                return self.as_line(data)

    def as_line(self, data: bytes) -> Line:
        """A line of this file."""
        found = Line(data, self.path)
        if not self.lines:
            found = Line(data, self.path, True, self.carried, self.continues)
        self.lines += 1
        return found

    @property
    def only_names(self) -> bool:
        """Whether no more than its first line was read, with which a file after it may begin too."""
        return bool(self.offset) and self.lines <= 1 and not self.rest.strip()

    def grow(self) -> bool:
        """Read a little more; whether there was any. Raises if the file was truncated."""
        self.file.seek(self.offset)
        more = self.file.read(CHUNK)
        if not self._intact():  # looked at after reading: what was read is of the same file
            raise TruncatedError
        if not more:
            return False
        self.offset += len(more)
        self.digest.update(more)
        self.tail = (self.tail + more)[-TAIL:]
        # A writer that does not append leaves a hole at the start of a truncated file.
        self.rest += more if self.lines or self.rest else more.lstrip(b"\0")
        self.grown_at = self._clock.monotonic()
        return True

    def continue_as(self, copy: Part) -> None:
        """Let a copy of this file continue where this one was left."""
        copy.offset, copy.digest, copy.tail = self.offset, self.digest.copy(), self.tail
        copy.rest, copy.lines = self.rest, self.lines
        copy.carried, copy.continues = self.carried, self.continues

    def is_copied_in(self, other: Part) -> bool:
        """Whether another file begins with everything that was read of this one."""
        digest, left = hashlib.sha256(), self.offset
        other.file.seek(0)
        while left:
            more = other.file.read(min(CHUNK, left))
            if not more:
                return False
            digest.update(more)
            left -= len(more)
        return digest.digest() == self.digest.digest()

    def is_settled(self, settle: float, unfinished: float) -> bool:
        """Whether nothing more is expected of a renamed file."""
        age = self._clock.wall() - os.fstat(self.file.fileno()).st_mtime
        age = max(age, self._clock.monotonic() - self.grown_at)
        return self.complete or age >= (unfinished if self.rest.strip() else settle)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _intact(self) -> bool:
        if self.packed:
            return True
        self.file.seek(self.offset - len(self.tail))
        return self.file.read(len(self.tail)) == self.tail


class FollowedFile:
    """The lines of a file and of those it was rotated to.

    Parameters
    ----------
    path : Path
        The file that grows.
    follow : bool
        Whether there may be more; otherwise its last line needs no end.
    keyed : bool
        Whether lines may be returned twice: they are recognised. Without, a rotation is followed
        only where it is certain which files come next.
    settle, unfinished : float
        Seconds without growth after which a renamed file is left, and the same if its last row has
        not ended.
    clock : SystemClock
        By which these seconds pass.
    """

    def __init__(
        self,
        path: Path,
        follow: bool,
        keyed: bool,
        settle: float = SETTLE,
        unfinished: float = UNFINISHED,
        clock: SystemClock = MACHINE,
    ) -> None:
        """Open the file."""
        self.path, self.follow, self.keyed, self._clock = path, follow, keyed, clock
        self.settle, self.unfinished = settle, unfinished
        self.notices: deque[Notice] = deque(maxlen=100)
        self._late: deque[Part] = deque()
        self._known: set[int] = set()  # rotated files when everything had been read, by their time
        self._folder_time = 0
        self._gone_since: float | None = None  # when the file was first not there
        self._gone_reported = False
        try:
            self._parts = deque([Part(path, clock)])
        except OSError as problem:
            raise SignalError(
                f"cannot read the readings {path}: {problem.strerror}; expected a CSV file "
                "with a line of column names"
            ) from None
        self._beside: Part | None = None  # the newest rotated file: its writer may still add to it
        self._remember_rotated()
        with suppress(OSError, IndexError):
            self._beside = Part(self.rotated()[-1], clock) if follow else None

    def restart_at(self, paths: Sequence[Path]) -> None:
        """Read these files, oldest first, from their beginning."""
        self._close_parts()
        self._parts = deque(Part(path, self._clock) for path in paths)

    def line(self) -> Line | None:
        """The next line, or None if there is none yet."""
        while True:
            part = self._parts[0]
            if self.follow and part is self._parts[-1] and not part.offset:
                self._find_copied(part)
                part = self._parts[0]
            if self.follow and part is self._parts[-1] and part.only_names:
                if self._is_unseen_copy(part):
                    self._truncated(part)
                part = self._parts[0]
            try:
                found = part.line()
            except TruncatedError:
                self._truncated(part)
                continue
            if found is not None:
                return found
            if len(self._parts) == 1 and not (self.follow and self._find_rotated(part)):
                self._remember_rotated()
                return self._last_line(part)
            if self.follow and not part.is_settled(self.settle, self.unfinished):
                return None
            self._advance()

    def close(self) -> None:
        """Close all files."""
        self._close_parts()
        if self._beside is not None:
            self._beside.close()

    def _close_parts(self) -> None:
        for part in (*self._parts, *self._late):
            part.close()
        self._late.clear()

    def rotated(self) -> list[Path]:
        """The files beside this one that it was rotated to, oldest first.

        `readings.csv.2`, `readings.csv-20300101`, `readings-20300101.csv`, also with `.gz`. Not the
        file itself under another name, as where `readings.csv` is a link to the newest of them.
        """
        name, stem, suffix = (
            re.escape(t) for t in (self.path.name, self.path.stem, self.path.suffix)
        )
        date = r"(\d[\dT:._-]*?)"
        pattern = re.compile(rf"(?:{name}[.-]{date}|{stem}[._-]{date}{suffix})(?:\.gz)?")
        found: list[tuple[tuple[int, int, str], Path]] = []
        for path in self.path.parent.iterdir():
            match = pattern.fullmatch(path.name)
            if match is not None and not self._is_same(path):
                digits = re.sub(r"\D", "", match[1] or match[2])
                numbered = len(digits) < SHORT_NUMBER
                found.append(((numbered, -int(digits) if numbered else 0, digits), path))
        return [path for _, path in sorted(found)]

    def _is_same(self, path: Path) -> bool:
        """Whether a path is another name of the file that grows."""
        with suppress(FileNotFoundError):  # renamed at this moment
            return path.name == self.path.name or path.samefile(self.path)
        return False

    def _last_line(self, part: Part) -> Line | None:
        """At the end of everything: a row that came late, or the rest of a file that is complete."""
        if not self.follow:
            data, part.rest = part.rest, b""
            return part.as_line(data) if data.strip() else None
        for late in self._late:
            try:
                found = late.line()
            except TruncatedError:
                continue
            if found is not None and self.keyed:
                return found
            if found is not None:
                raise AgentError(
                    f"a row was added to {late.path} after it had been renamed and a new file begun; "
                    "without [readings] key its place among the others is unknown; nothing of it was "
                    "released; start the agent again, which reads the files in their order"
                )
        return None

    def _advance(self) -> None:
        """Go on with the next file; the one before is still looked at for a while."""
        part, following = self._parts.popleft(), self._parts[0]
        following.carried = part.rest.strip(b"\r\n")
        if part.complete:
            part.close()
        else:
            self._late.append(part)
        if len(self._late) > MOST_LATE:
            self._late.popleft().close()

    def _find_rotated(self, part: Part) -> bool:
        """Whether another file has this name now; it and those in between are read next."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            self._report_gone()
            return False  # about to be replaced
        self._gone_since, self._gone_reported = None, False
        if (there.st_dev, there.st_ino) == part.identity:
            return False
        opened = self._open(lambda: [*self._after(part, "replaced by another file"), self.path])
        following = [one for one in opened if one.identity != part.identity]
        if not following:
            return False
        for one in following:
            one.continues = False
        self._parts.extend(following)
        if part.rest.strip():
            self._notice(
                f"the last row of {self.path} had not ended when it was renamed; it counts if it "
                "ends within a minute"
            )
        self._notice(
            f"{self.path} was renamed and begun anew; reading goes on with "
            f"{_count(len(following), 'file')} after the one that was open", "info"
        )  # fmt: skip
        return True

    def _report_gone(self) -> None:
        """Say once that there has been no file for longer than a rotation takes."""
        now = self._clock.monotonic()
        if self._gone_since is None:
            self._gone_since = now
        if now - self._gone_since >= GONE and not self._gone_reported:
            self._gone_reported = True
            self._notice(
                f"{self.path} was deleted or renamed, and no other file has its name; no reading comes "
                "until there is one: look at what writes it; a new file is read from its first row"
            )

    def _find_copied(self, part: Part) -> None:
        """Nothing was read of the file: it may have been filled, copied and truncated since."""
        with suppress(FileNotFoundError):
            new = [path for path in self._appeared(part) if path.stat().st_size]
            if not self._truncated_after(new):
                return
            opened = self._open(lambda: [*self._truncated_after(self._unknown()), self.path])
            self._use_copies(part, opened)
            self._notice(f"{self.path} was copied and truncated; its copy is read", "info")

    def _is_unseen_copy(self, part: Part) -> bool:
        """Whether the file was filled, copied, truncated and begun with the same names since."""
        with suppress(FileNotFoundError):
            new = [path for path in self._appeared(part) if _goes_on(part, path)]
            return bool(self._truncated_after(new))
        return False

    def _truncated_after(self, copies: list[Path]) -> list[Path]:
        """Copies without the last one, if all that it has is still in the file: not yet truncated."""
        done = bool(copies) and _begins_with(self.path, copies[-1])
        return copies[:-1] if done else copies

    def _appeared(self, part: Part) -> list[Path]:
        """Rotated files that are new, beside a file that was not renamed."""
        there = self.path.stat()
        renamed = (there.st_dev, there.st_ino) != part.identity
        unchanged = self.path.parent.stat().st_mtime_ns == self._folder_time
        return [] if renamed or unchanged else self._unknown()

    def _truncated(self, part: Part) -> None:
        """The file begins anew under the same inode: read its copy on, then those after it."""
        if part is not self._parts[-1]:  # renamed before, and then emptied
            self._notice(
                f"{part.path} was truncated before it was read to its end; rows are lost", "error"
            )
            self._parts.popleft().close()
            return
        opened = self._open(
            lambda: [
                *self._truncated_after(self._after(part, "truncated", copies=True)),
                self.path,
            ]
        )
        copied = len(opened) > 1 and part.is_copied_in(opened[0])
        if copied:
            part.continue_as(opened[0])
            self._notice(
                f"{self.path} was copied and truncated; its copy was read to its end", "info"
            )
        else:
            self._notice(
                f"{self.path} was truncated, and no copy of it is beside it: rows that were written "
                "after the last look are lost"
            )
            opened[0].carried, opened[0].continues = part.rest, True
        self._use_copies(part, opened)

    def _use_copies(self, part: Part, opened: list[Part]) -> None:
        for one in opened[1:]:
            one.continues = True
        for one in opened[:-1]:
            one.complete = True
        part.close()
        self._parts = deque(opened)

    def _after(self, part: Part, what: str, copies: bool = False) -> list[Path]:
        """The rotated files after one; its own copy first, if it was copied."""
        siblings = self.rotated()
        if not copies:
            for place, path in enumerate(siblings):
                found = path.stat()
                if (found.st_dev, found.st_ino) == part.identity:
                    return siblings[place + 1 :]
        if part.offset:
            # Where only the names were read, several files begin with them: the first new one is it.
            new = set(self._unknown())
            places = [place for place, path in enumerate(siblings) if path in new]
            places += [place for place in reversed(range(len(siblings))) if place not in places]
            for place in places:
                with closing(Part(siblings[place])) as other:
                    if part.is_copied_in(other):
                        return siblings[place + (not copies) :]
        if not self.keyed:
            raise AgentError(
                f"{self.path} was {what} while it was followed, and the former file is not beside "
                "it under a name such as "
                f"{self.path.name}.1; nothing of it was released since; restore it and start the "
                "agent again, which checks every row that it released before; with [readings] key "
                "rows are recognised wherever they are"
            )
        return self._unknown()

    def _unknown(self) -> list[Path]:
        """Rotated files that were not there when everything had been read.

        A renamed file that was, and to which its writer has added a row since, is none, packed or not:
        it is open here, and says its present time.
        """
        followed = [*tuple(self._parts)[:-1], *self._late]
        followed += [] if self._beside is None else [self._beside]
        known = self._known | {os.fstat(part.file.fileno()).st_mtime_ns for part in followed}
        return [path for path in self.rotated() if path.stat().st_mtime_ns not in known]

    def _remember_rotated(self) -> None:
        """All was read: rotated files that appear from now on are new."""
        changed = self.path.parent.stat().st_mtime_ns
        if changed != self._folder_time:
            with suppress(FileNotFoundError):  # renamed at this moment: looked at again
                self._known = {path.stat().st_mtime_ns for path in self.rotated()}
                self._folder_time = changed

    def _open(self, choose: Callable[[], Iterable[Path]]) -> list[Part]:
        """Open files that are being renamed: all of one moment."""
        for _ in range(TRIES):
            parts: list[Part] = []
            try:
                paths = list(choose())
                before = [path.stat().st_ino for path in paths]
                parts.extend(Part(path, self._clock) for path in paths)
                if before == [part.identity[1] for part in parts] and paths == list(choose()):
                    self._remember_rotated()
                    return parts
            except FileNotFoundError:
                pass
            for part in parts:
                part.close()
            time.sleep(0.01)
        raise AgentError("the files of readings are renamed all the time; stop the rotation")

    def _notice(self, text: str, level: str = "warning") -> None:
        self.notices.append(Notice(text, level))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _goes_on(part: Part, path: Path) -> bool:
    """Whether a file begins with what was read of another, and goes on after it."""
    with closing(Part(path)) as other:
        if not part.is_copied_in(other):
            return False
        other.file.seek(part.offset)
        return bool(other.file.read(1))


def _begins_with(path: Path, copy: Path) -> bool:
    """Whether a file begins with another, that is packed or not."""
    with closing(Part(copy)) as other:
        while other.grow():
            pass
        with closing(Part(path)) as whole:
            return other.is_copied_in(whole)
