"""Periods of the calendar: days, weeks from Monday, months and years, in a zone, numbered from 1970.

    bounds(k) = [first second of period k, first second of period k + 1)

Periods follow each other without a gap or an overlap, whatever the zone does to its clocks: a period ends
where the next begins. A day that a zone left out (Apia, 30 December 2011) has no second at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from veilsum import _validate
from veilsum.errors import FleetError

EARLIEST, LATEST = -62_000_000_000, 253_000_000_000  # seconds: the years 5 to 9987
EPOCH = date(1970, 1, 1).toordinal()
CLOCK = {"second": 1, "minute": 60, "hour": 3600}  # times that no zone moves
SECONDS = CLOCK | {"day": 86_400, "week": 604_800}
SHORT = {"s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day", "w": "week"}
AMOUNT = re.compile(r"([1-9][0-9]{0,9}) *([a-z]+?)s?")
LENGTHS = 'such as "15 minutes", "1 h", "7 days" or "2w"'


class CalendarUnit(NamedTuple):
    """One kind of period: the number of the one that has a day, and the first day of a number."""

    number: Callable[[date], int]
    first: Callable[[int], date]


CALENDAR = {
    "day": CalendarUnit(lambda day: day.toordinal() - EPOCH, lambda k: date.fromordinal(EPOCH + k)),
    "week": CalendarUnit(  # 1 January 1970 was a Thursday
        lambda day: (day.toordinal() - EPOCH + 3) // 7,
        lambda k: date.fromordinal(EPOCH + 7 * k - 3),
    ),
    "month": CalendarUnit(
        lambda day: 12 * (day.year - 1970) + day.month - 1,
        lambda k: date(1970 + k // 12, k % 12 + 1, 1),
    ),
    "year": CalendarUnit(lambda day: day.year - 1970, lambda k: date(1970 + k, 1, 1)),
}


@dataclass(frozen=True)
class CalendarPeriods:
    """Periods of `count` days, weeks, months or years in a zone.

    >>> months = CalendarPeriods("month")
    >>> months.at(0), months.bounds(1)
    (0, (2678400, 5097600))
    """

    unit: str
    count: int = 1
    zone: str = "UTC"

    def __post_init__(self) -> None:
        """Check all three."""
        _validate.one_of(FleetError, CALENDAR, unit=self.unit)
        _validate.at_least(FleetError, 1, count=self.count)
        zone_of(self.zone)

    def at(self, time: int) -> int:
        """The period that a time is in."""
        local = datetime.fromtimestamp(time, zone_of(self.zone)).date()
        number = CALENDAR[self.unit].number(local) // self.count
        first, end = self.bounds(number)  # a clock that was put back shows the day before once more
        return number + (time >= end) - (time < first)

    def bounds(self, number: int) -> tuple[int, int]:
        """Its first second, and that of the next."""
        return self._first(number), self._first(number + 1)

    def _first(self, number: int) -> int:
        day = CALENDAR[self.unit].first(number * self.count)
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone_of(self.zone))
        return int(midnight.timestamp())


def amount(given: Any, what: str, units: Any = SECONDS) -> tuple[int, str]:
    """How many of which unit: (7, "day") of "7 days"; whole numbers of seconds are seconds."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return given, "second"
    found = AMOUNT.fullmatch(given.strip().lower()) if isinstance(given, str) else None
    unit = SHORT.get(found[2], found[2]) if found else ""
    if found is None or unit not in units:
        raise FleetError(
            f"{what} must be a whole number of {', '.join(f'{unit}s' for unit in units)}, {LENGTHS}; found "
            f"{_validate.found(given)}"
        )
    return int(found[1]), unit


def seconds_of(given: Any, what: str) -> int:
    """A length of time in seconds."""
    count, unit = amount(given, what)
    return count * SECONDS[unit]


@lru_cache
def zone_of(name: str) -> tzinfo:
    """A zone by its IANA name, such as "Europe/Zurich"."""
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError, TypeError):
        raise FleetError(
            f'zone must be a time zone that this system knows, such as "UTC" or "Europe/Zurich"; found '
            f"{_validate.found(name)}; without a database of zones, pip install tzdata"
        ) from None


def written(time: int) -> str:
    """A time for people and for files: 2026-01-31T12:00:00Z."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
