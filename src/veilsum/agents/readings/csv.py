"""The rows of a CSV file that grows and may be rotated.

With a key, rows are recognised wherever they are: files may be rotated in any way, also while the
agent is down. Without a key a row is identified by its number and content: after a restart every
row that was released must be found again, in the file or in those it was rotated to, and each is
compared before anything is released.

The readings of an agent begin with the file as it is at its first start: rows in files that were
rotated before are not read. Until the first release that beginning is known by two origin hashes, of
the first row in the file and of the last one in the files beside it.
"""

from __future__ import annotations

import csv
import time as clocks
import zlib
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from veilsum import _validate
from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.ledger.clock import MACHINE, SystemClock
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import (
    Notice,
    OriginCheck,
    OriginHash,
    Readings,
    SourceState,
    Value,
    joined,
    moment,
    number,
)
from veilsum.agents.readings.rotation import (
    SETTLE,
    TRIES,
    UNFINISHED,
    FollowedFile,
    Line,
    Part,
    TruncatedError,
)
from veilsum.errors import AgentError, SignalError

UNREADABLE = ReadingOrigin("\x1f\x1f")  # of no row
# Why a file beside the one that is followed may not be read: damaged, of others, being rotated.
DAMAGED = (AgentError, SignalError, OSError, EOFError, zlib.error, TruncatedError)
NO_ROW, UNKNOWN_ROW = "-", "?"


class Beginning(NamedTuple):
    """Where an agent's readings begin, as found at its first start.

    Attributes
    ----------
    first : str
        Origin hash of the first row of the file; `NO_ROW` if it had none.
    before : str
        Origin hash of the last row of the files that it was rotated to; `NO_ROW` if there was none,
        `UNKNOWN_ROW` if none could be read.
    place : str
        Hash of the file's path: elsewhere is another beginning.
    """

    first: str
    before: str
    place: str


class CsvReadings(Readings):
    """The rows of a CSV file, followed as it grows; a row counts once its line has ended.

    Parameters
    ----------
    path : str or path
        A CSV file with a line of column names.
    columns : str or sequence of str, optional
        The columns to read; the last one by default.
    follow : bool
        Whether to wait for further rows at the end of the file, and for files that replace it.
    key : str or sequence of str, optional
        Columns that identify a reading. With a key, rows may be inserted, reordered or removed
        between two starts; without, only appended.
    time : str, optional
        The column with the time of a reading: seconds since 1970, or ISO 8601.
    settle, unfinished : float
        Seconds without growth after which a renamed file is left for the one that replaced it, and
        the same if its last row has not ended.
    clock : SystemClock
        By which these seconds pass; the machine's by default.

    Raises
    ------
    SignalError
        If the file cannot be read.
    AgentError
        If an argument means nothing, or a column is missing. The message has no text of the first
        line, which may hold a reading if the line of names was forgotten.

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
        follow: bool = True, key: str | Sequence[str] | None = None, time: str | None = None,
        *, settle: float = SETTLE, unfinished: float = UNFINISHED, clock: SystemClock = MACHINE,
    ) -> None:  # fmt: skip
        """Open the file and find the columns."""
        self.path, self.follow = arguments.file("path", path), follow
        self._columns = None if columns is None else arguments.names("columns", columns)
        self._key = [] if key is None else sorted(arguments.names("key", key, least=0))
        arguments.texts(time=time)
        settle = _validate.duration(AgentError, settle=settle)
        unfinished = _validate.duration(AgentError, unfinished=unfinished)
        self._time = time
        self.keyed = bool(self._key)
        self.naming = f"key {', '.join(self._key)}" if self._key else "its place and row"
        self._names: list[str] | None = None
        self._row = 0
        self._pending: Line | None = None  # the first row of a file without names
        self._beginning: Beginning | None = None
        self._hashed: OriginHash | None = None
        self._older: list[Path] = []  # rotated files at the first start
        self._lines = FollowedFile(self.path, follow, self.keyed, settle, unfinished, clock)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    @property
    def has_header(self) -> bool:
        """Whether the line of column names is there."""
        return self._names is not None

    @property
    def value_columns(self) -> list[str]:
        """The columns of the values; none if the last is read and names are not there yet."""
        if self._columns is not None:
            return list(self._columns)
        return [] if self._names is None else self._names[-1:]

    def find_beginning(self, stored: str, hashed: OriginHash) -> str:
        """Find where the agent's readings begin: with the file as it is at the first start.

        Parameters
        ----------
        stored : str
            What this returned at the first start; empty at that start.
        hashed : callable
            The keyed hash of a row's origin.

        Returns
        -------
        str
            Two origin hashes and one of the path; empty if the file is not followed.
        """
        if not self.follow:
            return stored
        place = hashed(0, ReadingOrigin(str(self.path.absolute())))
        if stored.endswith(place):
            self._beginning, self._hashed = Beginning(*stored.split(" ")), hashed
            return stored
        return " ".join(self._first_look(hashed, place))

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Find where reading goes on, in the file or in those it was rotated to.

        Without a key, released rows are skipped without parsing their values; raises `SignalError`
        if there are fewer or others. With a key none is skipped: reading begins with the newest
        file that holds a released row. Before the first release it begins where the agent's readings
        do (`find_beginning`).
        """
        rotated = self._lines.rotated() if self.follow else []
        if self._older and not count:
            self._report_older()
        if rotated and not count and self._beginning is not None:
            self._restart_at(self._since_the_beginning(rotated))
            return
        rotated = rotated if count and check else []
        if self.keyed:
            if rotated and check is not None:
                self._restart_at(self._newest_known(rotated, check))
            return
        if rotated and check is not None:
            self._restart_at(self._matching(rotated, count, check))
        for _ in range(count):
            line = self._line()
            if line is None:
                raise SignalError(
                    f"{self.path} has {self._row} readings and {count} were released from it "
                    "before; it was truncated or replaced: give the agent the file it had"
                )
            self._row += 1
            if check is not None:
                check(self._row, self._origin_of(line))

    def next(self) -> Value | SourceState:
        """The next complete row."""
        line = self._line()
        if line is None:
            return SourceState.WAITING if self.follow else SourceState.END
        self._row += 1
        where, self.origin, self.observed_at = self._here, None, None
        cells = self._cells(line)
        places, keys, times = self._places
        if len(cells) <= max(*places, *keys, *times, 0):
            raise SignalError(f"{where}: the row has {len(cells)} columns, too few")
        if any(cell.strip() for cell in cells[self._width :]):
            raise SignalError(
                f"{where}: the row has {len(cells)} columns and the line of names {self._width}; "
                "write decimals as 1.5, not 1,5, and quote text with commas"
            )
        self.origin = self._origin(cells)
        self.observed_at = next((moment(cells[place], where) for place in times), None)
        return joined(number(cells[place], where) for place in places)

    def notices(self) -> list[Notice]:
        """Rotations, and rows that may be lost."""
        found = list(self._lines.notices)
        self._lines.notices.clear()
        return found

    def close(self) -> None:
        """Close the files."""
        self._lines.close()

    @property
    def _width(self) -> int:
        """How many columns have a name."""
        assert self._names is not None
        return len(self._names)

    @property
    def _here(self) -> str:
        return f"{self.path}, reading {self._row}"

    @property
    def _places(self) -> tuple[list[int], list[int], list[int]]:
        """Where values, keys and the time are in a row."""
        assert self._names is not None
        values = [self._names[-1]] if self._columns is None else self._columns
        wanted = (values, self._key, [] if self._time is None else [self._time])
        values_at, keys_at, times_at = ([self._names.index(n) for n in names] for names in wanted)
        return ([len(self._names) - 1] if self._columns is None else values_at), keys_at, times_at

    def _origin(self, cells: list[str]) -> ReadingOrigin:
        """The cells of the key columns, or all of them."""
        if self.keyed:
            cells = [cells[place] for place in self._places[1]]
        return ReadingOrigin("\x1f".join(cell.strip() for cell in cells), self.keyed)

    def _origin_of(self, line: Line) -> ReadingOrigin:
        """The origin of a row that is not returned; one that cannot be read was not released."""
        try:
            cells = self._cells(line)
        except SignalError:
            return UNREADABLE
        complete = len(cells) > max(self._places[1], default=0)
        return self._origin(cells) if complete else UNREADABLE

    def _line(self) -> Line | None:
        """The next line that is no line of names."""
        if not self._read_header():
            return None
        found, self._pending = self._pending or self._lines.line(), None
        while found is not None and found.first and self._is_header(found.data):
            self._use_header(found.data)
            found = self._lines.line()
        return found

    def _read_header(self) -> bool:
        """Find the names in the first line, or in a rotated file: a truncated one has none."""
        if self._names is None:
            first = self._lines.line()
            if first is None:
                return False
            if not self._is_header(first.data):
                for path in reversed(self._lines.rotated()):
                    self._use_header(_first_line(path))
                    self._pending = first
                    if self._names is not None:
                        return True
                self._refuse_header(first.data)
            self._use_header(first.data)
        return True

    def _is_header(self, data: bytes) -> bool:
        named = self._named
        if not named:
            return self._names is None or _names(data) == self._names
        return set(named) <= set(_names(data))

    @property
    def _named(self) -> list[str]:
        return [*(self._columns or ()), *self._key, *([self._time] if self._time else ())]

    def _use_header(self, data: bytes) -> None:
        if self._is_header(data):
            self._names = _names(data)

    def _refuse_header(self, data: bytes) -> None:
        names = _names(data)
        absent = [name for name in self._named if name not in names]
        raise AgentError(
            f"{self.path} has no column {', '.join(absent)} among the {len(names)} of its "
            "first line; check [readings] column, key and time, and that the first line holds the "
            "names"
        )

    def _cells(self, line: Line) -> list[str]:
        """The cells of a row; one that a rotation cut in two is put together."""
        cells, whole = _cells(line.data, self._here), self._width
        if not line.first:
            return cells
        if line.carried.strip() and line.continues is not False:
            both = _cells(line.carried + line.data, self._here)
            fitting = [one for one in (both, cells) if len(one) == whole]
            if line.continues:
                fitting = fitting[:1] if fitting and fitting[0] is both else []
            if len(fitting) != 1:
                raise SignalError(
                    f"{self._here} was cut in two by a rotation of the file, and could not be put "
                    "together"
                )
            return fitting[0]
        values = self._places[0]
        if len(cells) == whole and not all(_is_number(cells[place]) for place in values):
            self._refuse_header(line.data)  # other names of columns: positions mean nothing
        return cells

    def _restart_at(self, paths: list[Path]) -> None:
        self._lines.restart_at(paths)
        self._pending, self._row = None, 0
        if len(paths) > 1:
            self._lines.notices.append(
                Notice(f"{self.path} was rotated: reading begins with {paths[0].name}", "info")
            )

    def _newest_known(self, rotated: list[Path], check: OriginCheck) -> list[Path]:
        """The files from the newest one that holds a released row."""
        files = [*rotated, self.path]
        held = self._holding(files, lambda _, origin: check(0, origin))
        if held:
            return files[held[-1] :]
        if self._older:  # another path than before: its first start is this one
            self._report_older()
            return [self.path]
        if self._beginning is not None:
            return self._since_the_beginning(rotated)
        self._lines.notices.append(
            Notice(
                f"no row of {self.path}, nor of the {len(rotated)} files it was rotated to, was "
                "released before; rows in between may be lost; all files are read"
            )
        )
        return files

    def _first_look(self, hashed: OriginHash, place: str) -> Beginning:
        """What is there at the first start; files that were rotated before are not read."""
        for _ in range(TRIES):
            try:
                rotated, before = self._lines.rotated(), self._moment()
                self._restart_at([self.path])
                found = Beginning(
                    next(self._hashes(self.path, hashed), NO_ROW),
                    self._last_row(rotated, hashed),
                    place,
                )
                if before == self._moment():
                    break
            except FileNotFoundError:  # renamed at this moment
                pass
            clocks.sleep(0.01)
        else:
            raise AgentError("the files of readings are renamed all the time; stop the rotation")
        self._older = rotated
        return found

    def _report_older(self) -> None:
        """Say which files are not read, because they are from before the first start."""
        older = self._older
        names = " to ".join(dict.fromkeys((older[0].name, older[-1].name)))
        are, rows = ("is", "its") if len(older) == 1 else ("are", "their")
        files = "1 file" if len(older) == 1 else f"{len(older)} files"
        self._lines.notices.append(
            Notice(
                f"{files} beside {self.path} ({names}) {are} from before the first start of this "
                f"agent: {rows} rows are not read; if some are to be released, add them to "
                f"{self.path.name}"
            )
        )

    def _moment(self) -> list[tuple[Path, int, int]]:
        """Changes when files are rotated."""
        files = [(path, path.stat()) for path in self._lines.rotated()]
        own = self.path.stat()
        return [*((path, s.st_ino, s.st_mtime_ns) for path, s in files), (self.path, own.st_ino, 0)]

    def _last_row(self, rotated: list[Path], hashed: OriginHash) -> str:
        """The origin hash of the last row of these files."""
        found = NO_ROW
        for path in reversed(rotated):
            last = ""
            try:
                for row in self._hashes(path, hashed):
                    last = row
            except DAMAGED:
                found = UNKNOWN_ROW
            if last:
                return last
        return found

    def _since_the_beginning(self, rotated: list[Path]) -> list[Path]:
        """The files from the one that the agent was given when it first started."""
        assert self._beginning is not None
        assert self._hashed is not None
        (first, before, _), hashed = self._beginning, self._hashed
        files = [*rotated, self.path]
        held = self._holding(files, lambda number, origin: hashed(number, origin) == first)
        if len(held) > 1 and before == NO_ROW:
            held = held[:1]  # all of them are of the time since
        if held and (self.keyed or len(held) == 1):
            return files[held[-1] :]
        if held:
            raise SignalError(self._ambiguous)
        older = self._holding(rotated, lambda number, origin: hashed(number, origin) == before)
        if not older and before != NO_ROW:
            self._lines.notices.append(
                Notice(
                    f"{len(rotated)} files that {self.path} was rotated to are not read: neither the "
                    "rows that this agent was given at its first start are there, nor those of before, "
                    "so that it is unknown which came since; rows may be lost; those that are to be "
                    f"released can be added to {self.path.name}",
                    "error",
                )
            )
            return [self.path]
        if first != NO_ROW:
            self._lines.notices.append(
                Notice(
                    f"the rows of {self.path} at the first start of this agent were not released, and "
                    "are in no file beside it any more; rows in between may be lost; all files since "
                    "are read"
                )
            )
        return files[older[-1] + 1 :] if older else files

    def _holding(
        self, files: list[Path], wanted: Callable[[int, ReadingOrigin], bool]
    ) -> list[int]:
        """Which files hold a wanted row; with a key, the newest of them."""
        found: list[int] = []
        for place in reversed(range(len(files))):
            try:
                if any(wanted(*row) for row in self._rows(files[place])):
                    found.insert(0, place)
            except DAMAGED:
                continue
            if found and self.keyed:
                break
        return found

    def _hashes(self, path: Path, hashed: OriginHash) -> Iterator[str]:
        return (hashed(number, origin) for number, origin in self._rows(path))

    def _rows(self, path: Path) -> Iterator[tuple[int, ReadingOrigin]]:
        """The number in its file and the origin of each row that has ended and can be read."""
        other, part, number = self._like_this(), Part(path), 0
        try:
            while (line := part.line()) is not None:
                if line.first and other._is_header(line.data):
                    other._use_header(line.data)
                    continue
                number += 1
                if other._names is None:
                    return
                origin = other._origin_of(line)
                if origin != UNREADABLE:
                    yield number, origin
        finally:
            part.close()

    @property
    def _ambiguous(self) -> str:
        return (
            f"{self.path} and the files it was rotated to have equal rows, so that the place that was "
            "reached is unknown; nothing was released; move away the rotated files that the agent "
            "never read"
        )

    def _matching(self, rotated: list[Path], count: int, check: OriginCheck) -> list[Path]:
        """The files whose rows begin with all released ones."""
        files = [*rotated, self.path]
        found = [
            files[place:]
            for place in range(len(files))
            if self._begins_with_released(files[place:], count, check)
        ]
        if len(found) > 1:
            raise SignalError(self._ambiguous)
        return found[0] if found else [self.path]

    def _begins_with_released(self, files: list[Path], count: int, check: OriginCheck) -> bool:
        seen = 0
        try:
            for seen, origin in enumerate(self._origins(files), 1):
                check(seen, origin)
                if seen == count:
                    return True
        except SignalError:
            return False
        return False

    def _origins(self, files: list[Path]) -> Iterator[ReadingOrigin]:
        """The origins of all complete rows of some files."""
        other = self._like_this()
        other._lines = FollowedFile(self.path, False, self.keyed)
        other._lines.restart_at(files)
        other._pending = None
        try:
            while (line := other._line()) is not None:
                yield other._origin_of(line)
        finally:
            other.close()

    def _like_this(self) -> CsvReadings:
        """Another reader of the same columns, which has no file of its own yet."""
        other = CsvReadings.__new__(CsvReadings)
        other.__dict__.update(self.__dict__)
        return other


def _first_line(path: Path) -> bytes:
    part = Part(path)
    try:
        found = part.line()
    finally:
        part.close()
    return b"" if found is None else found.data


def _names(data: bytes) -> list[str]:
    """The cells of a line of column names; of another line, whatever it has."""
    text = data.decode("utf-8", errors="replace").lstrip("\ufeff").strip()
    return [name.strip() for name in next(csv.reader([text]), [])]


def _cells(data: bytes, where: str) -> list[str]:
    try:
        return next(csv.reader([data.decode("utf-8").strip()]))
    except UnicodeDecodeError as problem:
        raise SignalError(f"{where} is not UTF-8 text, at its byte {problem.start + 1}") from None
    except csv.Error:
        raise SignalError(f"{where} is not CSV; expected values separated by commas") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
