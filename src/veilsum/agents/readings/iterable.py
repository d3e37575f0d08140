"""Readings from Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings.base import OriginCheck, Readings, SourceState, Value, number
from veilsum.errors import SignalError


class IterableReadings(Readings):
    """Readings from Python.

    Parameters
    ----------
    values : iterable
        Numbers, or tuples for several components; consumed as readings are taken.

    Examples
    --------
    >>> readings = IterableReadings([3.5, 4])
    >>> readings.next(), readings.next(), readings.next()
    (3.5, 4.0, <SourceState.END: 'end'>)
    """

    def __init__(self, values: Iterable[Any]) -> None:
        """Nothing is read yet; text is no collection of readings."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise SignalError(
                f"readings must be numbers in a list or another iterable; found {type(values).__name__}"
            )
        self._values: Iterator[Any] = iter(values)
        self._count = 0
        self.keyed, self.naming = False, "its place and value"

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Consume released readings; raise `SignalError` if there are fewer."""
        for _ in range(count):
            value = next(self._values, SourceState.END)
            if isinstance(value, SourceState):
                raise SignalError(
                    f"there are {self._count} readings and {count} were released before; give the "
                    "agent those it had"
                )
            self._count += 1
            if check is not None:
                check(self._count, _origin_of(value))

    def next(self) -> Value | SourceState:
        """The next value, until the iterable ends."""
        value = next(self._values, SourceState.END)
        if isinstance(value, SourceState):
            return value
        self._count += 1
        self.origin = _origin_of(value)
        where = f"reading {self._count}"
        if isinstance(value, tuple | list):
            return tuple(number(component, where) for component in value)
        return number(value, where)

    def close(self) -> None:
        """Nothing to close."""


def _origin_of(value: Any) -> ReadingOrigin:
    """A value from Python, as it is; numbers to the bit."""
    parts = value if isinstance(value, tuple | list) else [value]
    return ReadingOrigin("\x1f".join(map(repr, parts)))
