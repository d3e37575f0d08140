"""Times as text, compared as times: 10:00+02:00 comes before 09:00Z, and 08:00Z is the same."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Sequence
from fractions import Fraction

from murmura.errors import SignalError

ISO = re.compile(
    r"(\d{4})-(\d{2})(?:-(\d{2})(?:[T ](\d{2})(?::(\d{2}))?(?::(\d{2}))?(?:\.(\d+))?"
    r"(Z|[+-]\d{2}:?\d{2})?)?)?"
)
Instant = tuple[dt.datetime, Fraction]  # whole seconds in UTC (or without a zone), and the rest


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
