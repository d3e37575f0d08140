"""Sources of an agent's readings: a CSV file that grows, the output of a command, or Python.

A source returns one reading at a time and never blocks: `SourceState.WAITING` means that there is
none yet, `SourceState.END` that there will be none. Readings are numbered 1, 2, ... in order; an
agent that restarts skips those it has released. A reading that is not a number raises an error that
names its position and never its text.

`origin` identifies the last reading: the cells of key columns, or the whole row. The ledger stores
a keyed hash of it, so a file that was rewritten between two starts is detected before any of its
rows is released again.
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

from murmura.agents.ledger import ReadingOrigin
from murmura.errors import AgentError, SignalError

Value = float | tuple[float, ...]
OriginCheck = Callable[[int, ReadingOrigin], None]  # called with number and origin of a skipped one
FIRST = "first"  # the key of a command's lines: the first value of each


class SourceState(Enum):
    """Returned by a source that has no reading."""

    WAITING = "waiting"
    END = "end"


class Readings(Protocol):
    """A source of readings.

    Attributes
    ----------
    keyed : bool
        Whether a key identifies readings, wherever they are.
    naming : str
        What identifies a reading, as text; constant for a ledger.
    """

    keyed: bool
    naming: str

    @property
    def origin(self) -> ReadingOrigin | None:
        """The origin of the last reading; None if only its number identifies it."""

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Skip readings that were released before a restart, calling `check` for each.

        A source with a key skips none: it returns all again, and the ledger recognises them.
        """

    def next(self) -> Value | SourceState:
        """Return the next reading, or why there is none; never blocks."""

    def close(self) -> None:
        """Close files and processes; may be called twice."""


class IterableReadings:
    """Readings from Python.

    Parameters
    ----------
    values : iterable
        Numbers, or tuples for several components; consumed as readings are taken.

    Examples
    --------
    >>> readings = IterableReadings([3.5, 4])
    >>> readings.next(), readings.next(), readings.next()
    (3.5, 4.0, <SourceState.END: 'end'>)
    """

    keyed: bool
    naming: str
    origin: ReadingOrigin | None

    def __init__(self, values: Iterable[Any]) -> None:
        """Nothing is read yet."""
        self._values: Iterator[Any] = iter(values)
        self._count = 0
        self.keyed, self.origin, self.naming = False, None, "its place and value"

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Consume released readings; raise `SignalError` if there are fewer."""
        for _ in range(count):
            value = next(self._values, SourceState.END)
            if isinstance(value, SourceState):
                raise SignalError(
                    f"there are {self._count} readings and {count} were released before; give the "
                    "agent those it had"
                )
            self._count += 1
            if check is not None:
                check(self._count, _origin_of(value))

    def next(self) -> Value | SourceState:
        """The next value, until the iterable ends."""
        value = next(self._values, SourceState.END)
        if isinstance(value, SourceState):
            return value
        self._count += 1
        self.origin = _origin_of(value)
        where = f"reading {self._count}"
        if isinstance(value, tuple | list):
            return tuple(_number(component, where) for component in value)
        return _number(value, where)

    def close(self) -> None:
        """Nothing to close."""


class CsvReadings:
    """The rows of a CSV file, followed as it grows; a row counts once its line has ended.

    Parameters
    ----------
    path : str or path
        A CSV file with a line of column names.
    columns : str or sequence of str, optional
        The columns to read; the last one by default.
    follow : bool
        Whether to wait for further rows at the end of the file.
    key : str or sequence of str, optional
        Columns that identify a reading. With a key, rows may be inserted, reordered or removed
        between two starts; without, only appended.

    Raises
    ------
    SignalError
        If the file cannot be read.
    AgentError
        If a column is missing. The message has no text of the first line, which may hold a reading
        if the line of names was forgotten.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "readings.csv"
    ...     _ = path.write_text("hour,load\\n1,42.5\\n2,40.25\\n")
    ...     readings = CsvReadings(path, "load", follow=False)
    ...     found = readings.next(), readings.next(), readings.next()
    ...     readings.close()
    >>> found
    (42.5, 40.25, <SourceState.END: 'end'>)
    """

    keyed: bool
    naming: str
    origin: ReadingOrigin | None

    def __init__(
        self, path: str | PathLike[str], columns: str | Sequence[str] | None = None,
        follow: bool = True, key: str | Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Open the file and find the columns."""
        self.path, self.follow = Path(path), follow
        try:
            self._file = self.path.open("rb")
        except OSError as problem:
            raise SignalError(
                f"cannot read the readings {self.path}: {problem.strerror}; expected a CSV file "
                "with a line of column names"
            ) from None
        self._rest, self._row = b"", 0
        self._columns = [columns] if isinstance(columns, str) else columns
        self._key = [key] if isinstance(key, str) else sorted(key or ())
        self.keyed, self.origin = bool(self._key), None
        self.naming = f"key {', '.join(self._key)}" if self._key else "its place and row"
        self._places: list[int] | None = None
        self._key_places: list[int] = []
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    @property
    def has_header(self) -> bool:
        """Whether the line of column names is there."""
        return self._places is not None

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Skip released rows without parsing their values; raise `SignalError` if there are fewer."""
        for _ in range(0 if self.keyed else count):
            line = self._line()
            if line is None:
                raise SignalError(
                    f"{self.path} has {self._row} readings and {count} were released from it "
                    "before; it was truncated or replaced: give the agent the file it had"
                )
            self._row += 1
            if check is not None:
                check(self._row, self._origin(_cells(line, self._here)))

    def next(self) -> Value | SourceState:
        """The next complete row."""
        line = self._line()
        if line is None:
            return SourceState.WAITING if self.follow else SourceState.END
        self._row += 1
        assert self._places is not None
        where, self.origin = self._here, None
        cells = _cells(line, where)
        if len(cells) <= max(*self._places, *self._key_places, 0):
            raise SignalError(f"{where}: the row has {len(cells)} columns, too few")
        self.origin = self._origin(cells)
        return _value(_number(cells[place], where) for place in self._places)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def _here(self) -> str:
        return f"{self.path}, reading {self._row}"

    def _origin(self, cells: list[str]) -> ReadingOrigin:
        """The cells of the key columns, or all of them."""
        chosen = [cells[place] for place in self._key_places] if self.keyed else cells
        return ReadingOrigin("\x1f".join(cell.strip() for cell in chosen), self.keyed)

    def _read_header(self) -> bool:
        """Find the columns in the first line, if it is there."""
        if self._places is None:
            header = self._raw_line()
            self._places = None if header is None else self._find_columns(header)
        return self._places is not None

    def _line(self) -> str | None:
        return self._raw_line() if self._read_header() else None

    def _raw_line(self) -> str | None:
        """The next line that is not blank, if it has ended."""
        while True:
            while b"\n" not in self._rest:
                more = self._file.read(65536)
                if not more:
                    if self.follow:
                        self._check_same_file()
                    if self.follow or not self._rest:
                        return None
                    more = b"\n"  # the last line of a file that no longer grows
                self._rest += more
            line, self._rest = self._rest.split(b"\n", 1)
            text = line.decode("utf-8", errors="replace").strip()
            if text:
                return text

    def _check_same_file(self) -> None:
        """Raise if the file was truncated or replaced: rows would be mistaken for others."""
        ours = os.fstat(self._file.fileno())
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return  # perhaps about to be replaced
        same = (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        if same and ours.st_size >= self._file.tell():
            return
        raise AgentError(
            f"{self.path} was {'truncated' if same else 'replaced by another file'} while it was "
            "followed; nothing of it was released since; start the agent again, which checks "
            "every row that it released before"
        )

    def _find_columns(self, header: str) -> list[int]:
        where = f"{self.path}, the line of column names"
        names = [name.strip() for name in _cells(header.lstrip("\ufeff"), where)]
        absent = [name for name in (*(self._columns or ()), *self._key) if name not in names]
        if absent:
            raise AgentError(
                f"{self.path} has no column {', '.join(absent)} among the {len(names)} of its "
                "first line; check [readings] column and key, and that the first line holds the "
                "names"
            )
        self._key_places = [names.index(name) for name in self._key]
        if self._columns is None:
            return [len(names) - 1]
        return [names.index(name) for name in self._columns]


class CommandReadings:
    """The lines that a command prints: one reading each, components separated by commas.

    What is printed after a restart counts as new, so a command must not repeat itself, unless it is
    `keyed`: then a line whose key was released is skipped.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; started at once.
    keyed : bool
        Whether the first value of each line identifies the reading (a message number, a time
        stamp).

    Raises
    ------
    SignalError
        If the command cannot be started.

    Examples
    --------
    >>> import time
    >>> readings = CommandReadings(["echo", "42.5"])
    >>> value = readings.next()
    >>> while value is SourceState.WAITING:
    ...     time.sleep(0.01)
    ...     value = readings.next()
    >>> value
    42.5
    >>> readings.close()
    """

    keyed: bool
    naming: str
    origin: ReadingOrigin | None

    def __init__(self, command: Sequence[str], keyed: bool = False) -> None:
        """Start the command, and a thread that reads its lines."""
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

    def skip(self, count: int, check: OriginCheck | None = None) -> None:  # noqa: ARG002 - lines are new
        """Continue counting from what was released: the lines to come are new ones."""
        self._count = 0 if self.keyed else count

    def next(self) -> Value | SourceState:
        """The next line, if there is one."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return SourceState.WAITING
        if line is None:
            self._lines.put(None)
            return SourceState.END
        self._count += 1
        where, self.origin = f"line {self._count} of {self.command[0]}", None
        cells = line.split(",")
        if self.keyed:
            self.origin = ReadingOrigin(cells.pop(0).strip(), keyed=True)
            if not cells:
                raise SignalError(f"{where} has a key and no value; expected both, with a comma")
        return _value(_number(cell, where) for cell in cells)

    def close(self) -> None:
        """Terminate the command."""
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


def _origin_of(value: Any) -> ReadingOrigin:
    """A value from Python, as it is; numbers to the bit."""
    parts = value if isinstance(value, tuple | list) else [value]
    return ReadingOrigin("\x1f".join(map(repr, parts)))


def _value(numbers: Iterable[float]) -> Value:
    """One number as itself, several as a tuple."""
    found = tuple(numbers)
    return found[0] if len(found) == 1 else found


def _cells(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error:
        raise SignalError(f"{where} is not CSV; expected values separated by commas") from None


def _number(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SignalError(f"{where} is not a number; expected one such as 3.5") from None
