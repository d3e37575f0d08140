"""The rows of a CSV file that grows."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from murmura.agents.ledger import ReadingOrigin
from murmura.agents.readings.base import OriginCheck, Readings, SourceState, Value, joined, number
from murmura.errors import AgentError, SignalError


class CsvReadings(Readings):
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
        self.keyed = bool(self._key)
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
        return joined(number(cells[place], where) for place in self._places)

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


def _cells(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error:
        raise SignalError(f"{where} is not CSV; expected values separated by commas") from None
