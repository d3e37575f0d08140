"""What sources over a network have in common: a thread that fetches, and a bounded queue.

    thread: connect, fetch --> queue --> next() --> release, commit --> acknowledge()

A failure is reported once it happens and once it is over, and is retried after pauses that grow.
Errors of a driver are shown by their type: their text may quote a row.
"""

from __future__ import annotations

import json
import math
import os
import queue
import stat
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import (
    Notice,
    OriginCheck,
    Pauses,
    Readings,
    SourceState,
    Value,
    joined,
    moment,
    number,
    put_until,
)
from veilsum.errors import AgentError, SignalError

MOST_WAITING = 1000  # readings in the queue before a source is no longer read
SEPARATOR = "\x1f"  # between the parts of a key


class Item(NamedTuple):
    """One reading as it was fetched, or why it is unusable.

    Attributes
    ----------
    key : str or None
        What identifies it; None if it has none.
    value : float or tuple of float, optional
        The reading.
    problem : str
        Why it cannot be used; never its text.
    observed_at : float or None
        Its time, if there is one.
    token : object
        What its acknowledgement needs.
    """

    key: str | None
    value: Value = 0.0
    problem: str = ""
    observed_at: float | None = None
    token: Any = None


class UnavailableError(Exception):
    """The source cannot be read now; the text has no reading and no password."""


class QueuedReadings(Readings):
    """A source whose readings arrive in a queue; they are identified by a key."""

    keyed = True

    def __init__(self, naming: str, most_waiting: int = MOST_WAITING) -> None:
        """Nothing is fetched yet."""
        self.naming = naming
        self._queue: queue.Queue[Item] = queue.Queue(most_waiting)
        self._notices: deque[Notice] = deque(maxlen=100)
        self._last: Item | None = None
        self._failing = False

    def skip(self, count: int, check: OriginCheck | None = None) -> None:
        """Skip none: released readings are recognised by their keys."""

    def next(self) -> Value | SourceState:
        """The next reading that has arrived."""
        try:
            item = self._queue.get_nowait()
        except queue.Empty:
            return SourceState.WAITING
        self._last = item
        self.origin = None if item.key is None else ReadingOrigin(item.key, keyed=True)
        self.observed_at = item.observed_at
        if item.problem or item.key is None:
            raise SignalError(item.problem or "a reading has no key")
        return item.value

    def acknowledge(self) -> None:
        """The last reading is committed."""
        if self._last is not None:
            last, self._last = self._last, None
            self._acknowledged(last)

    def notices(self) -> list[Notice]:
        """Failures, and when they were over."""
        found: list[Notice] = []
        while self._notices:
            found.append(self._notices.popleft())
        return found

    def _acknowledged(self, item: Item) -> None:
        """A reading is committed."""

    def _failed(self, text: str, level: str = "warning") -> None:
        """Report a failure; a repeated one is not repeated in the log."""
        if not self._failing:
            self._notices.append(Notice(text, level))
        self._failing = True

    def _works(self, text: str) -> None:
        if self._failing:
            self._notices.append(Notice(text, "info"))
        self._failing = False


class PolledReadings(QueuedReadings):
    """A source that is asked for its readings from time to time.

    Parameters
    ----------
    naming : str
        What identifies a reading.
    where : str
        The source, for reports; without a password.
    interval : float or str
        Seconds between two looks, or a time such as "10m".
    pauses : Pauses, optional
        How long to wait after failures.
    """

    def __init__(
        self, naming: str, where: str, interval: float | str, pauses: Pauses | None = None
    ) -> None:
        """Nothing is fetched yet: subclasses call `_start`."""
        super().__init__(naming)
        self.where, self.interval = where, arguments.seconds("interval", interval)
        self._pauses = pauses or Pauses()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def close(self) -> None:
        """Stop asking."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(2)

    @abstractmethod
    def _fetch(self) -> Iterable[Item]:
        """Readings that were not fetched before; raises `UnavailableError`."""

    def _start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                for item in self._fetch():
                    if not put_until(self._stopping, self._queue, item):
                        return
            except UnavailableError as problem:
                pause = self._pauses.next()
                self._failed(f"{problem}; tried again, after pauses that grow")
            except Exception as problem:  # a thread must not end unseen; the text may quote a row
                pause = self._pauses.next()
                self._failed(f"{self.where} cannot be read ({type(problem).__name__})", "error")
            else:
                self._works(f"{self.where} is read again")
                self._pauses.reset()
                pause = self.interval
            self._stopping.wait(pause)


class Fields:
    """Which fields of a record hold the values, the key and the time.

    A field is a name, or a JSON pointer such as `/meter/0/kwh`.

    Parameters
    ----------
    columns : str or sequence of str
        The values; empty for a document that is a number.
    key : str or sequence of str
        What identifies a reading.
    time : str, optional
        Its time.
    """

    def __init__(
        self, columns: str | Sequence[str], key: str | Sequence[str], time: str | None = None
    ) -> None:
        """Names become lists."""
        self.columns = arguments.names("columns", columns, least=0)
        self.key = sorted(arguments.names("key", key, least=0))
        arguments.texts(time=time)
        self.time = time
        if not self.key:
            raise AgentError("key is empty; expected the field that identifies a reading")

    @property
    def naming(self) -> str:
        """What identifies a reading."""
        return f"key {', '.join(self.key)}"

    def item(self, record: Any, where: str, token: Any = None, key: str | None = None) -> Item:
        """A record as a reading, its key given or in it; a problem names the place and the field."""
        try:
            if key is None:
                key = SEPARATOR.join(
                    key_text(pointed(record, name, where), f"{where}, {name}") for name in self.key
                )
            names = self.columns or [""]
            value = joined(
                numeric(pointed(record, name, where), f"{where}{', ' * bool(name)}{name}")
                for name in names
            )
            at = None if self.time is None else moment(pointed(record, self.time, where), where)
        except SignalError as problem:
            return Item(key, problem=str(problem), token=token)
        return Item(key, value, observed_at=at, token=token)


def pointed(record: Any, name: str, where: str) -> Any:
    """The part of a document that a field or a JSON pointer names."""
    if not name:
        return record
    parts = name[1:].split("/") if name.startswith("/") else [name]
    for part in parts:
        place = part.replace("~1", "/").replace("~0", "~")
        if isinstance(record, list) and place.isdecimal() and int(place) < len(record):
            record = record[int(place)]
        elif isinstance(record, dict) and place in record:
            record = record[place]
        else:
            raise SignalError(f"{where} has no field {name}")
    return record


def parsed(data: bytes, where: str) -> Any:
    """A JSON document; an error names the place and not the text."""
    try:
        return json.loads(data)
    except UnicodeDecodeError as problem:
        raise SignalError(f"{where} is not UTF-8 text, at its byte {problem.start + 1}") from None
    except json.JSONDecodeError as problem:
        raise SignalError(f"{where} is not JSON, at its character {problem.pos + 1}") from None
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        raise SignalError(f"{where} is not JSON that can be read") from None


def numeric(value: Any, where: str) -> float:
    """A number; true and false are none."""
    if isinstance(value, bool):
        raise SignalError(f"{where} is not a number; expected one such as 3.5")
    return number(value, where)


def key_text(value: Any, where: str) -> str:
    """A key as text that is the same in every session: times in UTC, numbers without trailing zeros."""
    match value:
        case bool() | None:
            pass
        case str() if value.strip():
            return value.strip()
        case int() | UUID():
            return str(value)
        case float() if math.isfinite(value):
            return str(int(value)) if value.is_integer() else repr(value)
        case Decimal() if value.is_finite():
            return f"{value.normalize():f}"
        case datetime():
            return (
                value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            ).isoformat()
        case date():
            return value.isoformat()
        case bytes() | memoryview() if len(value):
            return bytes(value).hex()
    raise SignalError(f"{where} identifies no reading; expected text, a number or a time")


def secret_of(file: str | os.PathLike[str]) -> str:
    """The first line of a file that only its owner can read."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as problem:
        raise AgentError(f"cannot read the password file {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise AgentError(f"the password file {path} is not UTF-8 text") from None
    if os.name == "posix" and mode & 0o077:
        raise AgentError(f"the password file {path} can be read by others; run `chmod 600 {path}`")
    lines = text.splitlines()
    if not lines or not lines[0]:
        raise AgentError(f"the password file {path} is empty; expected the password in a line")
    return lines[0]
