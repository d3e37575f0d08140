"""Records by their time: which rows of a table are the readings of [start, end).

    readings(start, end) = {record: start <= its time < end}, each key once

A record is identified by its key (its time, if nothing else is named), so that a file that was written
anew, or beside which the rotated one still is, gives no reading twice. Two records with one key and other
values are an error: one of them would count, and nobody knows which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.asking.tables import Table
from veilsum.errors import FleetError
from veilsum.fleet.periods import LATEST, zone_of
from veilsum.fleet.sources.base import Columns, DataSource

TIMES = "a time such as 2030-01-31T12:00:00Z, or seconds since 1970"


def moment(value: Any, zone: str, where: str) -> float:
    """A time in UTC seconds: a number of them, or a date and time with a zone or in the one that is named."""
    seconds = _validate.as_float(value)
    if math.isnan(seconds):
        seconds = _calendar(value, zone, where)
    if not abs(seconds) <= LATEST:
        raise FleetError(f"{where}: expected {TIMES}; correct it")
    return seconds


def _calendar(value: Any, zone: str, where: str) -> float:
    try:
        text = str(value).strip()
        found = value if isinstance(value, datetime) else _parsed(text)
    except (ValueError, OverflowError):
        return math.nan
    if isinstance(found, float):
        return found
    if found.tzinfo is None:
        if not zone:
            raise FleetError(
                f"{where}: the time has no zone; write it with one, such as 2030-01-31T12:00:00+01:00, or "
                'name the zone of all of them in [data], such as zone = "Europe/Zurich"'
            )
        found = found.replace(tzinfo=zone_of(zone))
    return found.timestamp()


def _parsed(text: str) -> datetime | float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text)


@dataclass(frozen=True, kw_only=True)
class TimedSource(DataSource):
    """A source whose records have a time; abstract."""

    time: str = ""  # the column with the time of a record, for questions that repeat
    key: tuple[str, ...] = ()  # the columns that identify a record; its time without any
    zone: str = ""  # of times that have none
    expected: int = 0  # records that a slot must have before it is read; 0: any

    def __post_init__(self) -> None:
        """Check the zone and the number."""
        _validate.at_least(FleetError, 0, expected=self.expected)
        if self.zone:
            zone_of(self.zone)

    @property
    def _key(self) -> tuple[str, ...]:
        return self.key or (self.time,)

    def within(self, table: Table, start: int, end: int) -> Columns | None:
        """The records of a table."""
        table.check([self.time, *self._key])
        one = len(table.stored) == 1

        def place(row: int) -> str:
            return f"{table.name}, {table.where(row)}" if one else table.where(row)

        return self.select(table.columns, table.batches(table.columns), place, start, end)

    def select(
        self,
        names: Any,
        batches: Any,
        place: Callable[[int], str],
        start: int,
        end: int,
    ) -> Columns | None:
        """The records of batches of columns; `place` says where row 0, 1, ... is."""
        seen: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
        parts: list[Columns] = []
        first = 0
        for batch in batches:
            found: Columns = {name: np.asarray(batch[name]) for name in names}
            rows = self._between(found, first, place, start, end)
            rows = [row for row in rows if self._is_new(found, row, first, place, seen)]
            parts.append({name: values[rows] for name, values in found.items()})
            first += len(found[self.time])
        if len(seen) < max(1, self.expected):
            return None
        return {name: _joined([part[name] for part in parts]) for name in names}

    def _between(
        self, batch: Columns, first: int, place: Callable[[int], str], start: int, end: int
    ) -> list[int]:
        found = []
        for row, value in enumerate(batch[self.time].tolist()):
            try:
                at = moment(value, self.zone, "")
            except FleetError as problem:
                raise FleetError(f"{place(first + row)}, column {self.time}{problem}") from None
            if start <= at < end:
                found.append(row)
        return found

    def _is_new(
        self,
        batch: Columns,
        row: int,
        first: int,
        place: Callable[[int], str],
        seen: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]],
    ) -> bool:
        """Whether no record of that key came before."""
        key = tuple(_plain(batch[name][row]) for name in self._key)
        values = tuple(_plain(column[row]) for column in batch.values())
        before, known = seen.setdefault(key, (first + row, values))
        if known != values:
            raise FleetError(
                f"{place(first + row)}: {', '.join(self._key)} is that of {place(before)}, and other values "
                "are not; leave one of them out, or name in [data] what identifies a record, such as "
                'key = ["at", "meter"]'
            )
        return before == first + row


def _plain(value: Any) -> Any:
    """A value that equals itself: NaN is None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    some = [part for part in parts if len(part)]
    if len({part.dtype for part in some}) > 1:
        some = [part.astype(object) for part in some]
    return np.concatenate(some)
