"""What a site's budget is for: which charges count together.

A charge counts at the moments of its *span*. The budget holds at every moment:

    spent over {charges of the source whose span contains t}  <=  limit      for every t

    per                span of a charge for the readings of [start, end)      readings that move together
    reading            [start, end)                                           1
    window W           [start - W + 1, end): windows of W seconds by their first one   all of the release
    stream             all time                                               all of the release
    day, week, ...     whole periods, in UTC                                  all of the release

So one rule serves all units. A static table is one reading per row, at all times: its charges add up, but
for a budget by the calendar, where they count in the period in which they were made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from veilsum import _validate
from veilsum._registry import did_you_mean
from veilsum.errors import FleetError
from veilsum.fleet.periods import (
    CALENDAR,
    EARLIEST,
    LATEST,
    CalendarPeriods,
    seconds_of,
)
from veilsum.privacy.accounting import Composition, PrivacyEvent, Release

FOREVER = 2**62  # the end of a static table
ROUNDING = 1 + 2**-50  # eight roundings of a float: 3 x 0.1 fits 0.3, and nothing larger does
PER = 'per must be "reading", "window 7 days" (or another length), "stream", "day", "week", "month" or "year"'
Span = tuple[int, int]


@dataclass(frozen=True)
class Spending:
    """One charge.

    >>> Spending("meter", 0, 3600, 1, PrivacyEvent(0.1), 3700, "ab12", "board").static
    False
    """

    source: str  # which data of the site
    start: int  # UTC seconds; a static table has (0, FOREVER)
    end: int
    readings: int  # that the release adds up
    event: PrivacyEvent  # its cost for one of them
    at: int
    what: str  # digest of what was asked
    board: str

    def __post_init__(self) -> None:
        """Check the times and the number of readings."""
        _validate.at_least(FleetError, 1, readings=self.readings)
        _validate.at_least(FleetError, EARLIEST, start=self.start, end=self.end, at=self.at)
        _validate.at_most(FleetError, LATEST, start=self.start, at=self.at)
        if not (self.start < self.end <= LATEST or self.static):
            raise FleetError(
                f"a charge is for readings of [start, end), which end by {LATEST} or, of a static table, are "
                f"[0, 2**62); found [{self.start}, {self.end})"
            )

    @property
    def static(self) -> bool:
        """Whether it is for a table, whose rows have no time."""
        return self.end == FOREVER


class BudgetUnit(ABC):
    """What counts together; abstract."""

    per: str
    refills = "never for these readings; other readings have a budget of their own"

    @abstractmethod
    def span(self, one: Spending) -> Span:
        """The moments at which a charge counts."""

    def moved(self, one: Spending) -> int:
        """How many readings of a release move together."""
        return one.readings

    def release(self, one: Spending) -> Release:
        """What `spent` prices."""
        return Release(one.event, 1, self.moved(one))

    def refilled(self, one: Spending, end: int) -> int | None:
        """When the same question has room again, if what counts now ends at `end`; None: never."""
        del one, end
        return None

    def __str__(self) -> str:
        """As it is written after `per` in site.toml."""
        return self.per


@dataclass(frozen=True)
class PerReading(BudgetUnit):
    """Any one reading."""

    per = "reading"

    def span(self, one: Spending) -> Span:
        """Its readings."""
        return one.start, one.end

    def moved(self, one: Spending) -> int:
        """One."""
        del one
        return 1


@dataclass(frozen=True)
class PerWindow(BudgetUnit):
    """All readings of any W seconds."""

    seconds: int

    def span(self, one: Spending) -> Span:
        """Every window that has one of its readings, by its first second."""
        return one.start - self.seconds + 1, one.end

    def refilled(self, one: Spending, end: int) -> int | None:
        """A window that begins when the last one has gone ends so much later."""
        return None if one.static or end >= LATEST else end + self.seconds - 1

    def __str__(self) -> str:
        """As in site.toml."""
        return f"window {self.seconds} seconds"


@dataclass(frozen=True)
class PerStream(BudgetUnit):
    """All readings."""

    per = "stream"
    refills = "never"

    def span(self, one: Spending) -> Span:
        """All time."""
        del one
        return -FOREVER, FOREVER


@dataclass(frozen=True)
class PerPeriod(BudgetUnit):
    """All readings of a day, week, month or year, in UTC."""

    per: str

    def span(self, one: Spending) -> Span:
        """The whole periods of its readings; of a static table, the one in which it is charged."""
        periods = CalendarPeriods(self.per)
        first, last = (one.at, one.at) if one.static else (one.start, one.end - 1)
        return periods.bounds(periods.at(first))[0], periods.bounds(periods.at(last))[1]

    def refilled(self, one: Spending, end: int) -> int | None:
        """With the next period."""
        del one
        return end


def unit_of(per: str) -> BudgetUnit:
    """The unit of a budget, from what site.toml says after `per`.

    >>> unit_of("window 7 days")
    PerWindow(seconds=604800)
    """
    known = {"reading": PerReading(), "stream": PerStream()} | {
        name: PerPeriod(name) for name in CALENDAR
    }
    name, _, length = per.strip().lower().partition(" ")
    if name == "window" and length:
        return PerWindow(seconds_of(length, "the length of a window"))
    if length or name not in known:
        raise FleetError(f"{PER}; {did_you_mean(per, known)}found {_validate.found(per)}")
    return known[name]


@dataclass(frozen=True)
class SiteBudget:
    """The limit of a site, for each of its sources.

    >>> str(SiteBudget.of(1.0, per="window 7 days"))
    'epsilon 1 per window 604800 seconds'
    """

    epsilon: float
    delta: float
    unit: BudgetUnit

    def __post_init__(self) -> None:
        """Check both numbers."""
        _validate.positive(FleetError, epsilon=self.epsilon)
        _validate.probability(FleetError, delta=self.delta)

    @classmethod
    def of(cls, epsilon: float, delta: float = 0.0, per: str = "reading") -> Self:
        """From `[budget]` of site.toml."""
        return cls(epsilon, delta, unit_of(per))

    def covers(self, total: Composition) -> bool:
        """Whether a total is within it."""
        return total.epsilon <= self.epsilon * ROUNDING and total.delta <= self.delta * ROUNDING

    def __str__(self) -> str:
        """For people."""
        return f"{said(self.epsilon, self.delta)} per {self.unit}"


def said(epsilon: float, delta: float) -> str:
    """Both, for people; the delta if there is any."""
    return f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")
