"""Budgets by the calendar: the period that a budget is for, and when it is refilled.

Rolling: any two releases less than a period apart count together. A month is 31 days, the longest,
so that no month of the calendar exceeds the budget either.

Fixed: releases count together within a day, a week from Monday or a month of the calendar in a
zone, or within a multiple of a duration since 1970. A window of time that is no longer than the
shortest such period touches two of them at most, hence sees up to twice the budget.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple, Self

from veilsum import _validate
from veilsum.errors import PrivacyError

DAY = 86400.0
NAMED = {"day": DAY, "week": 7 * DAY, "month": 31 * DAY}
ROLLING, FIXED = "rolling", "fixed"
SHORTEST, LONGEST = 1.0, 36525 * DAY  # seconds
RANGE = "from a second to a hundred years"


class Period(NamedTuple):
    """The period of a budget.

    Attributes
    ----------
    name : str
        "day", "week", "month", or a number of seconds as text.
    refill : str
        "rolling" or "fixed".
    zone : str
        Of the calendar, for a fixed day, week or month.
    """

    name: str
    refill: str
    zone: str

    @classmethod
    def of(cls, per: str | float, refill: str = ROLLING, zone: str = "UTC") -> Self:
        """Check and normalise what a user writes."""
        _validate.one_of(PrivacyError, (ROLLING, FIXED), refill=refill)
        name = str(per)
        if not isinstance(per, str) or per not in NAMED:
            seconds = _seconds(per)
            name = f"{seconds:g}" if seconds == float(f"{seconds:g}") else repr(seconds)
        _zone(zone if isinstance(zone, str) else "")
        if zone != "UTC" and (refill != FIXED or name not in NAMED):
            raise PrivacyError(
                f"zone = {zone!r} has no meaning for a {refill} budget per {per}; it applies to "
                'refill = "fixed" and per = "day", "week" or "month"; leave it out'
            )
        return cls(name, refill, zone)

    @property
    def seconds(self) -> float:
        """Its length; the longest that it can be."""
        return NAMED[self.name] if self.name in NAMED else float(self.name)

    def bounds(self, moment: float) -> tuple[float, float]:
        """First moment of the fixed period that contains a moment, and of the next one."""
        if self.name not in NAMED:
            first = moment // self.seconds * self.seconds
            return first, first + self.seconds
        zone = _zone(self.zone)
        here = datetime.fromtimestamp(moment, zone)
        first_day = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.name == "week":
            first_day -= timedelta(days=here.weekday())
        if self.name == "month":
            first_day = first_day.replace(day=1)
        days = 32 if self.name == "month" else round(self.seconds / DAY)
        next_day = first_day + timedelta(days=days)
        if self.name == "month":
            next_day = next_day.replace(day=1)
        return first_day.timestamp(), next_day.timestamp()

    def __str__(self) -> str:
        """As in "epsilon = 1 per ..."."""
        if self.name in NAMED:
            text = self.name
        else:
            text = next(
                (
                    f"{self.seconds / length:g} {unit}"
                    for length, unit in ((DAY, "d"), (3600.0, "h"), (60.0, "min"))
                    if self.seconds % length == 0
                ),
                f"{self.name} s",
            )
        where = f" ({self.zone})" if self.refill == FIXED and self.name in NAMED else ""
        return f"{self.refill} {text}{where}"


def _seconds(per: str | float) -> float:
    try:
        seconds = _validate.duration(PrivacyError, per=per)
    except PrivacyError:
        seconds = 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise PrivacyError(
            f"per must be day, week, month or {_validate.DURATION}, {RANGE}; found "
            f"{_validate.found(per)}"
        )
    return seconds


@lru_cache
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise PrivacyError(
            f'zone must be a time zone of this system, such as "UTC" or "Europe/Madrid"; '
            f"found {_validate.found(name)}"
        ) from None
