"""Where an agent's readings come from: a CSV file that grows, a command's output, or Python.

A source gives one reading at a time and never waits: `Waiting` means that there is none yet, `End`
that there will be none. Readings are numbered 1, 2, ... in their order; an agent that restarts
passes over those it has already released. A reading that is not a number is an error that names
its place and never its text.

`origin` is what the source knows its last reading by: the cells of key columns, or the whole row.
The ledger writes down a keyed hash of it, so a file that was rewritten between two starts is found
out before any of its rows is released anew.
"""

from __future__ import annotations

import csv
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from murmura.agent.ledger import Origin
from murmura.errors import AgentError, SignalError

Value = float | tuple[float, ...]
Check = Callable[[int, Origin], None]  # told the number and the origin of what is passed over
FIRST = "first"  # the key of a command's lines: the first value of each


class Now(Enum):
    """What a source says when it has no reading to give."""

    WAITING = "waiting"
    END = "end"


class Readings(Protocol):
    """Gives readings in their order."""

    keyed: bool  # whether readings are known by a key, wherever they stand
    naming: str  # what a reading is known by, in words: it stays the same for a ledger's life

    @property
    def origin(self) -> Origin | None:
        """What the last reading is known by; None: its number alone."""

    def skip(self, count: int, check: Check | None = None) -> None:
        """Pass over readings that were released before a restart, as `check` is told of each.

        A source with a key passes over none: it gives all again, and the ledger knows which.
        """

    def next(self) -> Value | Now:
        """Give the next reading, or say why there is none; never waits."""

    def close(self) -> None:
        """Let go of files and processes; may be called twice."""


class Given:
    """Readings from Python: any iterable of numbers, or of tuples for several components."""

    def __init__(self, values: Iterable[Any]) -> None:
        """Nothing is read before it is asked for."""
        self._values: Iterator[Any] = iter(values)
        self._count = 0
        self.keyed, self.origin, self.naming = False, None, "its place and value"

    keyed: bool
    naming: str
    origin: Origin | None

    def skip(self, count: int, check: Check | None = None) -> None:
        """Draw and drop."""
        for _ in range(count):
            value = next(self._values, Now.END)
            if isinstance(value, Now):
                raise SignalError(
                    f"there are {self._count} readings and {count} were released before; give the "
                    "agent those it had"
                )
            self._count += 1
            if check is not None:
                check(self._count, _origin_of(value))

    def next(self) -> Value | Now:
        """The next value, until the iterable ends."""
        value = next(self._values, Now.END)
        if isinstance(value, Now):
            return value
        self._count += 1
        self.origin = _origin_of(value)
        where = f"reading {self._count}"
        if isinstance(value, tuple | list):
            return tuple(_one(component, where) for component in value)
        return _one(value, where)

    def close(self) -> None:
        """Nothing to let go of."""


class Follow:
    """The rows of a CSV file, followed as it grows; a row counts when its line has ended.

    With `follow=False` the file is read to its end. With `key`, the columns that tell readings
    apart, rows may be inserted, put in order or taken out between two starts; without, only added.
    """

    def __init__(
        self, path: str | PathLike[str], columns: str | Sequence[str] | None = None,
        follow: bool = True, key: str | Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Open the file and find the columns; without `columns` the last one is read.

        A wrong column is told now, by its name alone: what stands in the file's first line may be
        a reading, if the line of names was forgotten.
        """
        self.path, self.follow = Path(path), follow
        try:
            self._file = self.path.open("rb")
        except OSError as problem:
            raise SignalError(
                f"cannot read the readings {self.path}: {problem.strerror}; expected a CSV file "
                "with a line of column names"
            ) from None
        self._rest, self._row = b"", 0
        self._wanted = [columns] if isinstance(columns, str) else columns
        self._key = [key] if isinstance(key, str) else sorted(key or ())
        self.keyed, self.origin = bool(self._key), None
        self.naming = f"key {', '.join(self._key)}" if self._key else "its place and row"
        self._places: list[int] | None = None
        self._key_places: list[int] = []
        self._begin()

    keyed: bool
    naming: str
    origin: Origin | None

    def skip(self, count: int, check: Check | None = None) -> None:
        """Pass over rows without looking at their values."""
        for _ in range(0 if self.keyed else count):
            line = self._line()
            if line is None:
                raise SignalError(
                    f"{self.path} has {self._row} readings and {count} were released from it "
                    "before; it was cut or replaced: give the agent the file it had"
                )
            self._row += 1
            if check is not None:
                check(self._row, self._name(_cells(line, self._here)))

    def next(self) -> Value | Now:
        """The next complete row."""
        line = self._line()
        if line is None:
            return Now.WAITING if self.follow else Now.END
        self._row += 1
        assert self._places is not None
        where, self.origin = self._here, None
        cells = _cells(line, where)
        if len(cells) <= max(*self._places, *self._key_places, 0):
            raise SignalError(f"{where}: the row has {len(cells)} columns, too few")
        self.origin = self._name(cells)
        return _several(_one(cells[place], where) for place in self._places)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def _here(self) -> str:
        return f"{self.path}, reading {self._row}"

    def _name(self, cells: list[str]) -> Origin:
        """The cells of the key columns, or all of them."""
        named = [cells[place] for place in self._key_places] if self.keyed else cells
        return Origin("\x1f".join(cell.strip() for cell in named), self.keyed)

    def _begin(self) -> bool:
        """Find the columns in the first line, if it is there."""
        if self._places is None:
            header = self._raw()
            self._places = None if header is None else self._find(header)
        return self._places is not None

    def _line(self) -> str | None:
        return self._raw() if self._begin() else None

    def _raw(self) -> str | None:
        """The next line that is not blank, if it has ended."""
        while True:
            while b"\n" not in self._rest:
                more = self._file.read(65536)
                if not more:
                    if self.follow:
                        self._check_same()
                    if self.follow or not self._rest:
                        return None
                    more = b"\n"  # the last line of a file that no longer grows
                self._rest += more
            line, self._rest = self._rest.split(b"\n", 1)
            text = line.decode("utf-8", errors="replace").strip()
            if text:
                return text

    def _check_same(self) -> None:
        """Raise if the file was cut or another one put in its place: rows would be mistaken."""
        held = os.fstat(self._file.fileno())
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return  # on its way to be replaced, perhaps
        same = (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
        if same and held.st_size >= self._file.tell():
            return
        raise AgentError(
            f"{self.path} was {'cut' if same else 'replaced by another file'} while it was "
            "followed; nothing of it was released since; start the agent again, which looks at "
            "every row that it released before"
        )

    def _find(self, header: str) -> list[int]:
        where = f"{self.path}, the line of column names"
        names = [name.strip() for name in _cells(header.lstrip("\ufeff"), where)]
        absent = [name for name in (*(self._wanted or ()), *self._key) if name not in names]
        if absent:
            self._file.close()
            raise AgentError(
                f"{self.path} has no column {', '.join(absent)} among the {len(names)} of its "
                "first line; check [readings] column and key, and that the first line holds the "
                "names"
            )
        self._key_places = [names.index(name) for name in self._key]
        if self._wanted is None:
            return [len(names) - 1]
        return [names.index(name) for name in self._wanted]


class Command:
    """The lines that a command prints: one reading each, components apart by commas.

    What is printed after a restart counts as new, so a command must not repeat itself; unless
    `keyed`, when the first value of each line is what the reading is known by (the number of a
    message, a time stamp) and a line whose key was released is passed over.
    """

    keyed: bool
    naming: str
    origin: Origin | None

    def __init__(self, command: Sequence[str], keyed: bool = False) -> None:
        """Start the command; its lines are read by a thread of their own."""
        self.command = list(command)
        self.keyed, self.origin = keyed, None
        self.naming = "key first" if keyed else "its number"
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
        except OSError as problem:
            raise SignalError(
                f"cannot start {self.command[0]!r} for readings: {problem.strerror}"
            ) from None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def skip(self, count: int, check: Check | None = None) -> None:  # noqa: ARG002 - lines are new
        """Count on from what was released: the lines that come are new ones."""
        self._count = 0 if self.keyed else count

    def next(self) -> Value | Now:
        """The next line, if there is one."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return Now.WAITING
        if line is None:
            self._lines.put(None)
            return Now.END
        self._count += 1
        where, self.origin = f"line {self._count} of {self.command[0]}", None
        cells = line.split(",")
        if self.keyed:
            self.origin = Origin(cells.pop(0).strip(), keyed=True)
            if not cells:
                raise SignalError(f"{where} has a key and no value; expected both, with a comma")
        return _several(_one(cell, where) for cell in cells)

    def close(self) -> None:
        """End the command."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip():
                    self._lines.put(line.strip())
        self._lines.put(None)


def _origin_of(value: Any) -> Origin:
    """A value from Python, as it is; numbers to the bit."""
    parts = value if isinstance(value, tuple | list) else [value]
    return Origin("\x1f".join(map(repr, parts)))


def _several(values: Iterable[float]) -> Value:
    """One number as itself, several as a tuple."""
    found = tuple(values)
    return found[0] if len(found) == 1 else found


def _cells(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error:
        raise SignalError(f"{where} is not CSV; expected values with commas between") from None


def _one(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SignalError(f"{where} is not a number; expected one such as 3.5") from None
