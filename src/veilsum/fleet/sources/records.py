"""Records by their time: which rows of a table are the readings of [start, end).

    readings(start, end) = {record: start <= its time < end}, each key once

A record is identified by its key (its time, if nothing else is named), so that a file that was written
anew, or beside which the rotated one still is, gives no reading twice. Two records with one key and other
values are an error: one of them would count, and nobody knows which.
"""

from __future__ import annotations

import math
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

    def within(self, table: Table, start: int, end: int) -> Columns | None:
        """The records of a table."""
        table.check([self.time, *self.key])
        seen: dict[Any, tuple[int, Any]] = {}
        parts: list[Columns] = []
        first = 0
        for batch in table.batches(table.columns):
            found: Columns = {name: np.asarray(batch[name]) for name in table.columns}
            rows = [
                row
                for row, value in enumerate(found[self.time].tolist())
                if start <= self._moment(value, table, first + row) < end
                and self._is_new(found, row, first + row, table, seen)
            ]
            parts.append({name: values[rows] for name, values in found.items()})
            first += len(found[self.time])
        if len(seen) < max(1, self.expected):
            return None
        return {name: _joined([part[name] for part in parts]) for name in table.columns}

    def _moment(self, value: Any, table: Table, row: int) -> float:
        try:
            return moment(value, self.zone, "")
        except FleetError as problem:
            raise FleetError(f"{_place(table, row)}, column {self.time}{problem}") from None

    def _is_new(
        self, batch: Columns, k: int, row: int, table: Table, seen: dict[Any, tuple[int, Any]]
    ) -> bool:
        """Whether no record of that key came before."""
        names = self.key or (self.time,)
        key = tuple(_plain(batch[name][k]) for name in names)
        values = tuple(_plain(column[k]) for column in batch.values())
        before, known = seen.setdefault(key, (row, values))
        if known != values:
            raise FleetError(
                f"{_place(table, row)}: {', '.join(names)} is that of {_place(table, before)}, and other "
                "values are not; leave one of them out, or name in [data] what identifies a record, such as "
                'key = ["at", "meter"]'
            )
        return before == row


def _place(table: Table, row: int) -> str:
    one = len(table.stored) == 1
    return f"{table.name}, {table.where(row)}" if one else table.where(row)


def _plain(value: Any) -> Any:
    """A value that equals itself: NaN is None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    some = [part for part in parts if len(part)]
    if len({part.dtype for part in some}) > 1:
        some = [part.astype(object) for part in some]
    return np.concatenate(some)
