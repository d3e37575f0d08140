"""Tables to signals: long (agent, time, value) and wide (an agent a row, a time a column)."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.errors import SignalError
from murmura.signals.columns import (
    Columns,
    Wanted,
    agent_column,
    check_distinct,
    column_name,
    columns_of,
    looks_like_time,
    number_of,
    recognise,
)
from murmura.signals.core import Array, Origin, Signals, as_label
from murmura.signals.times import instants

_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_ROOM, _SPARSE = 10_000_000, 20
_OTHER = {"M", "m", "c"}  # dates, spans of time and complex numbers


@dataclass(frozen=True, eq=False)
class Source:
    """A table's name, whether it counts lines or rows, the number of each, and if it is text."""

    name: str
    word: str
    rows: NDArray[np.int64]
    text: bool = False

    def at(self, position: int) -> str:
        """The place of a row, such as "line 12 of meters.csv"."""
        return f"{self.word} {int(self.rows[position])} of {self.name}"


def from_frame(frame: Any, wanted: Wanted, source: Source) -> Signals:
    """Long if the columns say so, wide otherwise."""
    check_distinct([n for n in (*frame.index.names, *frame.columns) if n is not None], source.name)
    frame, wanted = _with_index(frame, wanted)
    columns = recognise(list(frame.columns), wanted)
    return from_long(frame, columns, source) if columns else from_wide(frame, wanted, source)


def from_long(frame: Any, columns: Columns, source: Source) -> Signals:
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


def from_wide(frame: Any, wanted: Wanted, source: Source) -> Signals:
    """The index or the agent column names the agents, the other columns the times."""
    column = agent_column(list(frame.columns), wanted)
    if column is not None:
        agents, body = frame[column], frame.drop(columns=column)
    else:
        _check_index(frame, wanted)
        agents, body = frame.index.to_series(), frame
    agent, labels = _codes(agents, "agent", source)
    _check_repeats(
        agent, _last(agent, len(labels)), lambda k: f"agent {as_label(labels[agent[k]])}", source
    )
    names = list(body.columns)
    if not names or not len(body):
        raise SignalError(f"{source.name} holds no readings")
    values = np.stack([_numbers(body.iloc[:, j], source) for j in range(len(names))], axis=-1)
    rows = np.broadcast_to(source.rows[:, None], values.shape)
    times = _tidy(names) if source.text else names
    return Signals(values, labels, times, origin=Origin(source.name, source.word, rows))


def _codes(column: Any, role: str, source: Source) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Each row's number among the distinct entries, and these in order of appearance."""
    import pandas as pd

    codes, uniques = pd.factorize(column)
    entries = [x.strip() if isinstance(x, str) else x for x in uniques.tolist()]
    absent = np.array([*(x == "" for x in entries), True])[codes]  # -1, no entry, is the last
    if absent.any():
        raise SignalError(f"{source.at(int(np.argmax(absent)))} has no {role}")
    return np.asarray(codes, dtype=np.int64), _tidy(entries) if source.text else entries


def _times(
    frame: Any, columns: Columns, source: Source
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


def _order(times: list[Hashable], source: Source) -> list[Any] | None:
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


def _numbers(column: Any, source: Source) -> Array:
    """A column as float64, blanks as NaN; text that is no number is an error with its place."""
    import pandas as pd

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
    cell: NDArray[np.int64], last: NDArray[np.int64], name: Any, source: Source
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


def _name(label: Hashable, time: Hashable, columns: Columns) -> str:
    if columns.time is None:
        return f"there is no time column, and agent {as_label(label)}"
    return f"agent {as_label(label)} at time {as_label(time)}"


def _numbered(positions: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    return np.where(positions >= 0, source.rows[positions], -1)


def _with_index(frame: Any, wanted: Wanted) -> tuple[Any, Wanted]:
    """A named index is a column like the others; it names the agents if no other column does."""
    names = list(frame.index.names)
    if None in names:
        return frame, wanted
    frame = frame.reset_index()
    if agent_column(list(frame.columns), wanted) is None and not looks_like_time(names[0]):
        wanted = replace(wanted, agent=names[0])
    return frame, wanted


def _check_index(frame: Any, wanted: Wanted) -> None:
    """A bare index 0, 1, 2, ... beside named columns names no agents, nor does a long table's."""
    import pandas as pd

    bare = isinstance(frame.index, pd.RangeIndex) and any(isinstance(c, str) for c in frame.columns)
    long = wanted.time is not None or wanted.values or any(map(looks_like_time, frame.columns))
    if bare or long:
        raise SignalError(
            f"which column names the agents? {columns_of(list(frame.columns))}; pass "
            "agent=..., or frame.rename_axis('agent') if the index does"
        )
