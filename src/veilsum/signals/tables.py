"""Tables to signals: long (agent, time, value) and wide (an agent a row, a time a column).

Columns are recognised by name, times as text are compared as times: 10:00+02:00 comes before
09:00Z, and 08:00Z is the same.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum.errors import SignalError
from veilsum.signals.core import Array, Origin, Signals, as_label, listed

_WORDS = re.compile(r"[^\W\d]\w*(?:[ /()%-]+[^\W\d]\w*)*[)%]?")
KNOWN: dict[str, tuple[str, ...]] = {
    "agent": (
        *("agent", "household", "node", "meter", "sensor", "site", "hospital", "station"),
        *("supplier", "customer", "user", "device", "id", "label"),
    ),
    "time": (
        *("time", "timestamp", "datetime", "date", "day", "hour", "minute", "week", "month"),
        *("year", "round", "period", "step", "t"),
    ),
    "value": (
        *("value", "signal", "reading", "measurement", "consumption", "kwh", "kw", "mwh", "wh"),
        *("amount", "count", "s", "x"),
    ),
}
"""Names that are recognised by themselves, whatever their case."""
_NUMBERED = re.compile(r"(.*?)[+-]?\d+(?:\.\d+)?")  # "day 1", "h_07", "12"
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_ROOM, _SPARSE = 10_000_000, 20  # cells of a table, and cells for each reading, at most
_OTHER = {"M", "m", "c"}  # dates, spans of time and complex numbers
ISO = re.compile(
    r"(\d{4})-(\d{2})(?:-(\d{2})(?:[T ](\d{2})(?::(\d{2}))?(?::(\d{2}))?(?:\.(\d+))?"
    r"(Z|[+-]\d{2}:?\d{2})?)?)?"
)
Instant = tuple[dt.datetime, Fraction]  # whole seconds in UTC (or without a zone), and the rest


@dataclass(frozen=True)
class TableColumns:
    """The columns of a long table; `time` is None when every agent has one reading."""

    agent: Hashable
    time: Hashable | None
    values: tuple[Hashable, ...]


@dataclass(frozen=True)
class ColumnNames:
    """The columns that the caller named; None to have them recognised."""

    agent: Hashable | None = None
    time: Hashable | None = None
    value: Hashable | Sequence[Hashable] | None = None

    @property
    def values(self) -> tuple[Hashable, ...]:
        """The value columns that were named: none, one, or several for vector signals."""
        if self.value is None:
            return ()
        several = isinstance(self.value, (list, tuple))
        return tuple(self.value) if several else (self.value,)  # type: ignore[arg-type]


def is_name(name: Hashable) -> bool:
    """Whether a column's name is words, so that a message may display it.

    Of a file without a header, the first readings stand where the names should.
    """
    words = isinstance(name, str) and _WORDS.fullmatch(name.strip()) is not None
    return words and str(name).strip().lower() not in ("nan", "inf", "infinity")


def column_name(name: Hashable) -> str:
    """How a message names a column; a name that may be a reading is not listed."""
    return f"column {name!r}" if is_name(name) else "a column whose name is not a word"


def columns_of(names: Sequence[Hashable]) -> str:
    """The columns, for a message: "the columns are 'meter', 'kwh'"."""
    words = [name for name in names if is_name(name)]
    rest = len(names) - len(words)
    if not rest:
        return f"the columns are {listed(words)}"
    doubt = "without words for names (does the file lack a header line?)"
    return (
        f"the columns are {listed(words)} and {rest} more {doubt}" if words else f"all are {doubt}"
    )


def check_distinct(names: Sequence[Hashable], where: str) -> None:
    """Refuse two columns of the same name: which of them is meant cannot be known."""
    counts = Counter(name for name in names if str(name).strip())
    twice = next((name for name, times in counts.items() if times > 1), None)
    if twice is not None:
        advice = "rename one of them" if is_name(twice) else "does the file lack a header line?"
        which = f" {twice!r}" if is_name(twice) else ""
        raise SignalError(f"{where} has two columns of the same name{which}; {advice}")


def number_of(text: Hashable) -> float:
    """The finite number that a text spells, NaN if it spells none."""
    try:
        number = float(str(text))
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def recognise(names: Sequence[Hashable], requested: ColumnNames) -> TableColumns | None:
    """The columns of a long table with these names, or None if the table looks wide."""
    for name in (requested.agent, requested.time, *requested.values):
        if name is not None and name not in names:
            raise SignalError(f"there is no column {name!r}; {columns_of(names)}")
    agent = requested.agent if requested.agent is not None else _match("agent", names, requested)
    if agent is None:
        return None
    time = requested.time if requested.time is not None else _match("time", names, requested)
    values = requested.values or _value(names, agent, time, requested)
    return TableColumns(agent, time, values) if values else None


def agent_column(names: Sequence[Hashable], requested: ColumnNames) -> Hashable | None:
    """The agent column of a wide table, if it has one."""
    return requested.agent if requested.agent is not None else _match("agent", names, requested)


def are_rounds(names: Sequence[Hashable]) -> bool:
    """Whether columns are one quantity at several times: 1, 2, 3; 2024-01-01, ...; day 1, day 2, ...

    Columns of other names are several quantities, and reading them as rounds would mix them up.
    """
    if not all(isinstance(name, str) for name in names):
        return True  # numbers and dates
    words = [_NUMBERED.fullmatch(str(name).strip()) for name in names]
    stems = {match[1].strip(" _-.").lower() for match in words if match}
    return (all(words) and len(stems) == 1) or all(ISO.fullmatch(str(n).strip()) for n in names)


def looks_like_time(name: Hashable) -> bool:
    """Whether a column of that name holds times."""
    return str(name).strip().lower() in KNOWN["time"]


def _value(
    names: Sequence[Hashable], agent: Hashable, time: Hashable | None, requested: ColumnNames
) -> tuple[Hashable, ...]:
    """A known name, or the only column left over; none if the table looks wide."""
    found = _match("value", names, requested)
    if found is not None:
        return (found,)
    rest = [name for name in names if name not in (agent, time)]
    if len(rest) == 1:
        return (rest[0],)
    if time is None:
        return ()
    raise SignalError(f"which column holds the readings? {columns_of(names)}; pass value=...")


def _match(role: str, names: Sequence[Hashable], requested: ColumnNames) -> Hashable | None:
    taken = {requested.agent, requested.time, *requested.values} - {None}
    found = [n for n in names if n not in taken and str(n).strip().lower() in KNOWN[role]]
    if len(found) > 1:
        raise SignalError(
            f"more than one column could be the {role}: {listed(found)}; pass {role}=..."
        )
    return found[0] if found else None


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table's name, whether it counts lines or rows, the number of each, and if it is text."""

    name: str
    word: str
    rows: NDArray[np.int64]
    text: bool = False

    def at(self, position: int) -> str:
        """The place of a row, such as "line 12 of meters.csv"."""
        return f"{self.word} {int(self.rows[position])} of {self.name}"


def from_frame(frame: Any, requested: ColumnNames, source: TableSource) -> Signals:
    """Long if the columns say so, wide otherwise."""
    check_distinct([n for n in (*frame.index.names, *frame.columns) if n is not None], source.name)
    frame, requested = _with_index(frame, requested)
    columns = recognise(list(frame.columns), requested)
    return from_long(frame, columns, source) if columns else from_wide(frame, requested, source)


def from_long(frame: Any, columns: TableColumns, source: TableSource) -> Signals:
    """values[agent, time] = value; a cell that no row holds is NaN, two rows for one an error."""
    agent, labels = _codes(frame[columns.agent], "agent", source)
    time, times, notes = _times(frame, columns, source)
    readings = np.stack([_numbers(frame[c], source) for c in columns.values], axis=-1)
    n, T = len(labels), len(times)
    _check_room(n, T, len(frame))
    cell = agent * T + time
    rows = np.full(n * T, -1, dtype=np.int64)
    rows[cell] = np.arange(len(frame))
    _check_repeats(cell, rows, lambda k: _name(labels[agent[k]], times[time[k]], columns), source)
    values = np.full((n * T, readings.shape[1]), np.nan)
    values[cell] = readings
    origin = Origin(source.name, source.word, _numbered(rows, source).reshape(n, T))
    shape = (n, T) if len(columns.values) == 1 else (n, T, len(columns.values))
    return Signals(values.reshape(shape), labels, times, notes=notes, origin=origin)


def from_wide(frame: Any, requested: ColumnNames, source: TableSource) -> Signals:
    """The index or the agent column names the agents, the other columns the times."""
    column = agent_column(list(frame.columns), requested)
    if column is not None:
        agents, body = frame[column], frame.drop(columns=column)
    else:
        _check_index(frame, requested, source)
        agents, body = frame.index.to_series(), frame
    agent, labels = _codes(agents, "agent", source)
    _check_repeats(
        agent, _last(agent, len(labels)), lambda k: f"agent {as_label(labels[agent[k]])}", source
    )
    names = list(body.columns)
    if not names or not len(body):
        raise SignalError(f"{source.name} holds no readings")
    if len(names) > 1 and not are_rounds(names):
        raise SignalError(
            f"which column holds the readings? {columns_of(names)}; pass value=..., or, if "
            "each column is a round, name them so: 1, 2, ..., or day 1, day 2, ..., or by dates"
        )
    values = np.stack([_numbers(body.iloc[:, j], source) for j in range(len(names))], axis=-1)
    rows = np.broadcast_to(source.rows[:, None], values.shape)
    times = _tidy(names) if source.text else names
    return Signals(values, labels, times, origin=Origin(source.name, source.word, rows))


def _codes(column: Any, role: str, source: TableSource) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Each row's number among the distinct entries, and these in order of appearance."""
    pd = _extras.load("pandas")
    codes, uniques = pd.factorize(column)
    entries = [x.strip() if isinstance(x, str) else x for x in uniques.tolist()]
    absent = np.array([*(x == "" for x in entries), True])[codes]  # -1, no entry, is the last
    if absent.any():
        raise SignalError(f"{source.at(int(np.argmax(absent)))} has no {role}")
    return np.asarray(codes, dtype=np.int64), _tidy(entries) if source.text else entries


def _times(
    frame: Any, columns: TableColumns, source: TableSource
) -> tuple[NDArray[np.int64], list[Hashable], tuple[str, ...]]:
    """As `_codes`, sorted; times that have no evident order keep that of appearance."""
    if columns.time is None:
        return np.zeros(len(frame), dtype=np.int64), [0], ()
    codes, times = _codes(frame[columns.time], "time", source)
    keys = _order(times, source)
    if keys is None:
        return codes, times, (f"times of {source.name} are in order of appearance",)
    try:
        order = sorted(range(len(times)), key=keys.__getitem__)
    except TypeError:
        raise SignalError(f"the times of {source.name} are of kinds with no common order") from None
    firsts = [k for j, k in enumerate(order) if not j or keys[order[j - 1]] != keys[k]]
    rank = np.empty(len(times), dtype=np.int64)
    place = -1
    for j, k in enumerate(order):  # one instant, written in two ways, is one time
        place += not j or keys[order[j - 1]] != keys[k]
        rank[k] = place
    return rank[codes], [times[k] for k in firsts], ()


def _order(times: list[Hashable], source: TableSource) -> list[Any] | None:
    """What to sort times by: themselves, the instants or numbers that all spell, or None."""
    if not any(isinstance(time, str) for time in times):
        return times
    moments = instants(times, source.name)
    if moments is not None:
        return moments
    numbers = [number_of(time) for time in times]
    return None if any(map(math.isnan, numbers)) else numbers


def _tidy(entries: Sequence[Any]) -> list[Hashable]:
    """Text to whole numbers when all of it is that, written plainly: "007" stays text."""
    if all(isinstance(x, str) and _WHOLE.fullmatch(x) for x in entries):
        return [int(x) for x in entries]
    return list(entries)


def _numbers(column: Any, source: TableSource) -> Array:
    """A column as float64, blanks as NaN; text that is no number is an error with its place."""
    pd = _extras.load("pandas")
    if column.dtype.kind in "fiub":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    numbers = pd.to_numeric(column, errors="coerce")
    if isinstance(column.dtype, pd.PeriodDtype) or {column.dtype.kind, numbers.dtype.kind} & _OTHER:
        raise SignalError(
            f"{column_name(column.name)} of {source.name} holds {column.dtype}, not numbers; name "
            "the column of the readings, value=..., and that of the times, time=..."
        )
    blank = column.isna() | (column.astype(str).str.strip() == "")
    bad = np.asarray(numbers.isna() & ~blank)
    if bad.any():
        raise SignalError(
            f"{source.at(int(np.argmax(bad)))} does not hold a number in "
            f"{column_name(column.name)} ({int(bad.sum()) - 1} others likewise); write numbers as "
            "1.5, and leave a missing one blank"
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _check_room(n: int, T: int, rows: int) -> None:
    """Refuse a table whose agents hardly share a time, before a huge array is made of it."""
    if n * T > max(_ROOM, _SPARSE * rows):
        raise SignalError(
            f"{rows} readings of {n} agents at {T} times: {n * T - rows} are missing; agents must "
            "share their times: round them to a common period first"
        )


def _last(codes: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    last = np.full(length, -1, dtype=np.int64)
    last[codes] = np.arange(len(codes))
    return last


def _check_repeats(
    cell: NDArray[np.int64], last: NDArray[np.int64], name: Any, source: TableSource
) -> None:
    """Every row must be the last of its cell."""
    early = np.flatnonzero(last[cell] != np.arange(len(cell)))
    if early.size:
        k = int(early[0])
        second = int(np.flatnonzero(cell == cell[k])[1])
        raise SignalError(
            f"{name(k)} has two readings, {source.at(k)} and {source.word} "
            f"{int(source.rows[second])} ({early.size - 1} others likewise); keep one of them"
        )


def _name(label: Hashable, time: Hashable, columns: TableColumns) -> str:
    if columns.time is None:
        return f"there is no time column, and agent {as_label(label)}"
    return f"agent {as_label(label)} at time {as_label(time)}"


def _numbered(positions: NDArray[np.int64], source: TableSource) -> NDArray[np.int64]:
    return np.where(positions >= 0, source.rows[positions], -1)


def _with_index(frame: Any, requested: ColumnNames) -> tuple[Any, ColumnNames]:
    """A named index is a column like the others; it names the agents if no other column does."""
    names = list(frame.index.names)
    if None in names:
        return frame, requested
    frame = frame.reset_index()
    if agent_column(list(frame.columns), requested) is None and not looks_like_time(names[0]):
        requested = replace(requested, agent=names[0])
    return frame, requested


def _check_index(frame: Any, requested: ColumnNames, source: TableSource) -> None:
    """A bare index 0, 1, 2, ... beside named columns names no agents, nor does a long table's."""
    pd = _extras.load("pandas")
    bare = isinstance(frame.index, pd.RangeIndex) and any(isinstance(c, str) for c in frame.columns)
    long = (
        requested.time is not None or requested.values or any(map(looks_like_time, frame.columns))
    )
    if bare or long:
        raise SignalError(
            f"which column names the agents? {columns_of(list(frame.columns))}; "
            f"{_agents_advice(list(frame.columns), source)}"
        )


def _agents_advice(names: Sequence[Hashable], source: TableSource) -> str:
    """How to say which agents the rows of a table are of."""
    if not source.text:
        return "pass agent=..., or frame.rename_axis('agent') if the index does"
    if not any(map(is_name, names)):
        return (
            "begin the file with a line of names such as agent,value, and every row with an agent"
        )
    if len(names) == 1:
        return (
            "begin every row with the agent whose reading it is, and the line of names with agent"
        )
    return "pass agent=..., or, if none does, add a column agent"


def instants(times: Sequence[Hashable], where: str) -> list[Instant] | None:
    """The instant of each time, if all of them are ISO 8601 text; None if one is not.

    With and without a zone do not mix: which came first could not be known.
    """
    found = [ISO.fullmatch(time) if isinstance(time, str) else None for time in times]
    parts = [match for match in found if match is not None]
    if len(parts) < len(times):
        return None
    zoned = [match[8] is not None for match in parts]
    if any(zoned) and not all(zoned):
        raise SignalError(
            f"some times of {where} have a zone, such as {_example(parts, zoned, True)!r}, and "
            f"others none, such as {_example(parts, zoned, False)!r}: they cannot be put in order; "
            "write a zone (Z, +02:00) behind all of them, or behind none"
        )
    return [_instant(match, where) for match in parts]


def _example(parts: list[re.Match[str]], zoned: list[bool], kind: bool) -> str:
    return parts[zoned.index(kind)][0]


def _instant(match: re.Match[str], where: str) -> Instant:
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        local = dt.datetime(year, month, day or 1, hour, minute, second)
        moment = local - _offset(match[8])
    except (ValueError, OverflowError):
        raise SignalError(
            f"{match[0]!r} in {where} is not a time: there is no such day or hour; expected "
            "YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS with or without a zone"
        ) from None
    return moment, Fraction(int(match[7]), 10 ** len(match[7])) if match[7] else Fraction(0)


def _offset(zone: str | None) -> dt.timedelta:
    """How far a zone is ahead of UTC."""
    if zone is None or zone == "Z":
        return dt.timedelta(0)
    ahead = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    if int(zone[1:3]) > 23 or int(zone[-2:]) > 59:
        raise ValueError
    return ahead if zone[0] == "+" else -ahead
