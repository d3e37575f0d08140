"""When a question that repeats is answered: slots of time, and batches of slots.

    slot k of `every` seconds:   [k every, (k + 1) every)                       UTC, whatever the zone
    slot k of days, weeks, ...:  from the first second of the period to that of the next, in the zone

A slot is due when its end is `tolerance` seconds ago by this site's clock: with clocks that differ by no
more, no reading comes after its slot was released. The schedule is part of the terms of a question, so all
sites have the same slots.

Growing batches (`privacy.batches`): release m covers the slots of batch m, counted from a first slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

from veilsum import _validate
from veilsum.errors import FleetError
from veilsum.fleet.periods import CALENDAR, CLOCK, EARLIEST, LATEST, CalendarPeriods, amount
from veilsum.fleet.plain import made_of
from veilsum.privacy.batches import Batches

TOLERANCE = 60  # seconds
LONGEST_TOLERANCE = 7 * 86_400


@dataclass(frozen=True)
class _Clock:
    """Periods of so many seconds since 1970."""

    seconds: int

    def at(self, time: int) -> int:
        return time // self.seconds

    def bounds(self, number: int) -> tuple[int, int]:
        return number * self.seconds, (number + 1) * self.seconds


@dataclass(frozen=True)
class Timetable:
    """The slots of a question, and which of them a release covers.

    >>> days = Timetable("1 day", zone="Europe/Zurich")
    >>> first, end = days.bounds(days.slot_at(1_743_300_000))  # 30 March 2025: clocks go forward
    >>> (end - first) // 3600
    23
    >>> [Timetable("1 h", growth=2.0).slots(m, first=100) for m in (1, 2, 3, 4)]
    [range(100, 101), range(101, 102), range(102, 104), range(104, 108)]
    """

    every: str | int  # "15 minutes", "1 day", "1 month", or seconds
    zone: str = "UTC"  # of days, weeks, months and years; hours are the same everywhere
    tolerance: int = TOLERANCE  # seconds by which clocks may differ
    growth: float = 1.0  # of batches of slots, as of `Batches`; each slot by itself without
    longest: int = 0

    def __post_init__(self) -> None:
        """Check all of them."""
        _validate.at_least(FleetError, 0, tolerance=self.tolerance)
        _validate.at_most(FleetError, LONGEST_TOLERANCE, tolerance=self.tolerance)
        _ = self._periods, self._growing

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """From plain values, as they are in the terms of a question."""
        return made_of(cls, table, "a schedule")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def slot_at(self, now: int) -> int:
        """The slot that a time is in."""
        _validate.at_least(FleetError, EARLIEST, now=now)
        _validate.at_most(FleetError, LATEST, now=now)
        return self._periods.at(now)

    def bounds(self, slot: int) -> tuple[int, int]:
        """The first second of a slot, and that of the next: its readings are those in between."""
        return self._periods.bounds(slot)

    def due(self, now: int) -> int:
        """The last slot whose end is `tolerance` seconds ago."""
        return self.slot_at(now - self.tolerance) - 1

    def slots(self, number: int, first: int) -> range:
        """The slots that release 1, 2, ... covers."""
        _validate.at_least(FleetError, 1, number=number)
        low, high = number, number  # reading `low` is in batch `number` or before
        while self._growing.count(high + 1) <= number:
            low, high = high, 2 * high + 1
        while low < high:  # the last reading of the batch
            middle = (low + high + 1) // 2
            low, high = (
                (middle, high) if self._growing.count(middle) <= number else (low, middle - 1)
            )
        length = self._growing.closes(low)
        return range(first + low - length, first + low)

    def releases(self, now: int, first: int) -> int:
        """How many releases are due: all slots of release 1, ..., m are."""
        slots = max(0, self.due(now) - first + 1)
        return self._growing.count(slots) - (self._growing.released(slots) < slots)

    def times(self, number: int, first: int) -> tuple[int, int]:
        """The first second of what a release covers, and the first one after."""
        slots = self.slots(number, first)
        return self.bounds(slots[0])[0], self.bounds(slots[-1])[1]

    @cached_property
    def _periods(self) -> _Clock | CalendarPeriods:
        count, unit = amount(self.every, "every", (*CLOCK, *CALENDAR))
        if unit not in CLOCK:
            return CalendarPeriods(unit, count, self.zone)
        if self.zone != "UTC":
            raise FleetError(
                f"zone = {_validate.found(self.zone)} means nothing for slots of {self.every}, which begin "
                "at the same time everywhere; it is for slots of days, weeks, months and years: leave it out"
            )
        return _Clock(count * CLOCK[unit])

    @cached_property
    def _growing(self) -> Batches:
        return Batches(self.growth, self.longest)
