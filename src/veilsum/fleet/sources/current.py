"""Sources that show a value now: what a program prints, what an address answers.

    readings(start, end) = what is shown, while end <= now < end + (end - start)

A value of now stands for the slot that ended last and for no other, so that a site that was off does not give
one value to many slots. A record that says its own time (`time`), or a source that is asked for a time
("{start}" and "{end}" in what is sent), has no such limit.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum import _validate
from veilsum.asking.tables import ArrayTable
from veilsum.errors import FleetError
from veilsum.fleet.periods import seconds_of, written
from veilsum.fleet.sources.base import Columns, SourceBusyError, seconds_now
from veilsum.fleet.sources.records import TimedSource

LARGEST = 1_000_000  # bytes of an answer
VALUE = "value"  # the column of a number that has no name
PLACE = re.compile(r"\{(start|end)\}")
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CurrentSource(TimedSource):
    """A source whose answer is one JSON object, one number, or a list of objects; abstract."""

    timeout: str = "10s"  # of one answer

    def __post_init__(self) -> None:
        """Check what they have in common."""
        super().__post_init__()
        seconds_of(self.timeout, "timeout")

    @abstractmethod
    def _sent(self) -> Sequence[str]:
        """What is sent, in which {start} and {end} are replaced."""

    @abstractmethod
    def _fetch(self, sent: Sequence[str]) -> bytes:
        """The answer."""

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """What is shown, if it is of these times."""
        sent = self._sent()
        asks = any(PLACE.search(part) for part in sent)
        present = end <= seconds_now(now) < end + (end - start)
        if not (present or asks or self.time):
            return None
        known = {"start": written(start), "end": written(end)}
        data = self._fetch([PLACE.sub(lambda found: known[found[1]], part) for part in sent])
        place = f"the answer of {self.where}"
        found = records(data, place)
        if len(found) < max(1, self.expected):
            return None
        if self.time:
            return self.within(ArrayTable(columns_of(found), place), start, end)
        return columns_of(found)

    @property
    def _seconds(self) -> int:
        return seconds_of(self.timeout, "timeout")


def records(data: bytes, where: str) -> list[Record]:
    """The records of a JSON text: an object, a number, or a list of objects."""
    try:
        found = json.loads(data, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise SourceBusyError(
            f"{where} is no JSON text ({len(data)} bytes); expected one object, one number or a list"
        ) from None
    many = found if isinstance(found, list) else [found]
    return [_record(one, where, k) for k, one in enumerate(many, 1)]


def _record(one: Any, where: str, place: int) -> Record:
    if isinstance(one, int | float) and not isinstance(one, bool):
        return {VALUE: one}
    if not isinstance(one, dict):
        raise FleetError(
            f"{where}, record {place}: expected an object or a number; correct what is answered"
        )
    for name, value in one.items():
        if isinstance(value, dict | list):
            raise FleetError(
                f"{where}, record {place}, field {name}: expected a number or a text, found more; "
                "let the answer have its fields side by side"
            )
    return one


def columns_of(found: Sequence[Record]) -> Columns:
    """Records as columns; None where one has no such field."""
    names = dict.fromkeys(name for one in found for name in one)
    made: Columns = {}
    for name in names:
        values = [one.get(name) for one in found]
        numbers = all(np.isfinite(_validate.as_float(value)) for value in values)
        made[name] = np.array(values, dtype=np.float64 if numbers else object)
    return made


def _refused(text: str) -> Any:
    raise ValueError(text)
