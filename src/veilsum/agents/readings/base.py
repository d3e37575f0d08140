"""What a source of readings is: one reading at a time, without waiting, and what identifies it.

`SourceState.WAITING` means that there is no reading yet, `SourceState.END` that there will be none,
`SourceState.FAILED` that there will be none because the source broke. A reading that is not a
number raises an error that names its position and never its text.

`origin` identifies the last reading: its key, or the whole row. The ledger stores a keyed hash of
it, so a reading that a source returns again is recognised, and a file that was rewritten between
two starts is detected before any of its rows is released a second time.

    next() --> release, commit --> acknowledge()
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from veilsum.agents.ledger import ReadingOrigin
from veilsum.errors import SignalError

LATEST = 253_402_300_800.0  # the year 10000, in seconds since 1970
_Item = TypeVar("_Item")
Value = float | tuple[float, ...]
# Called with number and origin of a reading: whether it was released. Raises if another reading was
# released under the number.
OriginCheck = Callable[[int, ReadingOrigin], bool]
# Called with number and origin of a reading: its keyed hash, which may be stored.
OriginHash = Callable[[int, ReadingOrigin], str]


def put_until(stopping: threading.Event, items: queue.Queue[_Item], item: _Item) -> bool:
    """Put an item into a queue, waiting for a free place; False if `stopping` is set before there is one."""
    while not stopping.is_set():
        try:
            items.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


class SourceState(Enum):
    """Returned by a source that has no reading."""

    WAITING = "waiting"
    END = "end"
    FAILED = "failed"


class Notice(NamedTuple):
    """Something an operator should know of a source; never contains a reading.

    Attributes
    ----------
    text : str
        What happened, and what to do.
    level : str
        "info", "warning" or "error".
    """

    text: str
    level: str = "warning"


class Readings(Protocol):
    """A source of readings.

    Attributes
    ----------
    keyed : bool
        Whether a key identifies readings, wherever they are.
    naming : str
        What identifies a reading, as text; constant for a ledger.
    origin : ReadingOrigin or None
        The origin of the last reading; None if only its number identifies it.
    observed_at : float or None
        The time of the last reading (seconds since 1970), if the source has one.
    """

    keyed: bool
    naming: str
    origin: ReadingOrigin | None = None
    observed_at: float | None = None

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Skip readings that were released before a restart, calling `check` for each.

        A source with a key skips none: it returns all again, and the ledger recognises them.
        """

    def next(self) -> Value | SourceState:
        """Return the next reading, or why there is none; never blocks."""

    def acknowledge(self) -> None:
        """The last reading is committed: released, passed over, or in the spool."""
        return

    def notices(self) -> list[Notice]:
        """What happened since the last call."""
        return []

    def close(self) -> None:
        """Close files and processes; may be called twice."""


@runtime_checkable
class HasBeginning(Protocol):
    """A source that must remember across restarts where the readings of an agent begin."""

    def find_beginning(self, stored: str, hashed: OriginHash) -> str:
        """Find where the agent's readings begin; called before `Readings.skip`.

        Parameters
        ----------
        stored : str
            What this call returned when the agent first started; empty at that start.
        hashed : callable
            The keyed hash of a reading's origin: nothing else of a reading may be returned.

        Returns
        -------
        str
            What to store in the ledger.
        """


class Pauses:
    """Pauses between attempts: each is twice the one before, up to a longest.

    Parameters
    ----------
    first, longest : float
        Seconds.

    Examples
    --------
    >>> pauses = Pauses(1.0, 5.0)
    >>> [pauses.next() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, first: float = 1.0, longest: float = 300.0) -> None:
        """Begin with the first."""
        self.first, self.longest = first, longest
        self._next = first

    def next(self) -> float:
        """The pause before the next attempt."""
        pause, self._next = self._next, min(2 * self._next, self.longest)
        return pause

    def reset(self) -> None:
        """An attempt was good: begin with the first again."""
        self._next = self.first


def joined(numbers: Iterable[float]) -> Value:
    """One number as itself, several as a tuple."""
    found = tuple(numbers)
    return found[0] if len(found) == 1 else found


def number(value: Any, where: str) -> float:
    """A number, or an error that says where there is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise SignalError(f"{where} is not a number; expected one such as 3.5") from None


def moment(value: Any, where: str) -> float:
    """A time as seconds since 1970: a number of them, or ISO 8601; without a zone it is UTC."""
    try:
        seconds = (
            value.timestamp() if isinstance(value, datetime) and value.tzinfo else float(value)
        )
    except (TypeError, ValueError, OverflowError):
        seconds = _calendar(value)
    if not abs(seconds) <= LATEST:
        raise SignalError(
            f"{where} has no time; expected seconds since 1970 or one such as 2030-01-31T12:00:00Z"
        )
    return seconds


def _calendar(value: Any) -> float:
    """Seconds since 1970 of a date and time without a zone, or as text; nan if it is neither."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan
