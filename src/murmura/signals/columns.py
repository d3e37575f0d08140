"""Which column is the agent, which the time, which the reading."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from murmura.errors import SignalError
from murmura.signals.core import shown

_WORDS = re.compile(r"[^\W\d]\w*(?:[ /()%-]+[^\W\d]\w*)*[)%]?")

KNOWN: dict[str, tuple[str, ...]] = {
    "agent": (
        *("agent", "household", "node", "meter", "sensor", "site", "hospital", "station"),
        *("supplier", "customer", "user", "device", "id", "label"),
    ),
    "time": (
        *("time", "timestamp", "datetime", "date", "day", "hour", "minute", "week", "month"),
        *("year", "round", "period", "step", "t"),
    ),
    "value": (
        *("value", "signal", "reading", "measurement", "consumption", "kwh", "kw", "mwh", "wh"),
        *("amount", "count", "s", "x"),
    ),
}
"""Names that are recognised without being told, whatever their case."""


@dataclass(frozen=True)
class Columns:
    """The columns of a long table; `time` is None when every agent has one reading."""

    agent: Hashable
    time: Hashable | None
    values: tuple[Hashable, ...]


@dataclass(frozen=True)
class Wanted:
    """What the caller said: names, or None to have them recognised."""

    agent: Hashable | None = None
    time: Hashable | None = None
    value: Hashable | Sequence[Hashable] | None = None

    @property
    def values(self) -> tuple[Hashable, ...]:
        """The value columns that were named: none, one, or several for vector signals."""
        if self.value is None:
            return ()
        several = isinstance(self.value, (list, tuple))
        return tuple(self.value) if several else (self.value,)  # type: ignore[arg-type]


def is_name(name: Hashable) -> bool:
    """Whether a column's name is words, so that a message may show it.

    Of a file without a header, the first readings stand where the names should.
    """
    words = isinstance(name, str) and _WORDS.fullmatch(name.strip()) is not None
    return words and str(name).strip().lower() not in ("nan", "inf", "infinity")


def column_name(name: Hashable) -> str:
    """How a message names a column; a name that may be a reading is not shown."""
    return f"column {name!r}" if is_name(name) else "a column whose name is not a word"


def columns_of(names: Sequence[Hashable]) -> str:
    """The columns, for a message: "the columns are 'meter', 'kwh'"."""
    words = [name for name in names if is_name(name)]
    rest = len(names) - len(words)
    if not rest:
        return f"the columns are {shown(words)}"
    doubt = "without words for names (does the file lack a header line?)"
    return (
        f"the columns are {shown(words)} and {rest} more {doubt}" if words else f"all are {doubt}"
    )


def check_distinct(names: Sequence[Hashable], where: str) -> None:
    """Refuse two columns of the same name: which of them is meant cannot be known."""
    counts = Counter(name for name in names if str(name).strip())
    twice = next((name for name, times in counts.items() if times > 1), None)
    if twice is not None:
        advice = "rename one of them" if is_name(twice) else "does the file lack a header line?"
        which = f" {twice!r}" if is_name(twice) else ""
        raise SignalError(f"{where} has two columns of the same name{which}; {advice}")


def number_of(text: Hashable) -> float:
    """The finite number that a text spells, NaN if it spells none."""
    try:
        number = float(str(text))
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def recognise(names: Sequence[Hashable], wanted: Wanted) -> Columns | None:
    """The columns of a long table with these names, or None if the table looks wide."""
    for name in (wanted.agent, wanted.time, *wanted.values):
        if name is not None and name not in names:
            raise SignalError(f"there is no column {name!r}; {columns_of(names)}")
    agent = wanted.agent if wanted.agent is not None else _match("agent", names, wanted)
    if agent is None:
        return None
    time = wanted.time if wanted.time is not None else _match("time", names, wanted)
    values = wanted.values or _value(names, agent, time, wanted)
    return Columns(agent, time, values) if values else None


def agent_column(names: Sequence[Hashable], wanted: Wanted) -> Hashable | None:
    """The agent column of a wide table, if it has one."""
    return wanted.agent if wanted.agent is not None else _match("agent", names, wanted)


def looks_like_time(name: Hashable) -> bool:
    """Whether a column of that name holds times."""
    return str(name).strip().lower() in KNOWN["time"]


def _value(
    names: Sequence[Hashable], agent: Hashable, time: Hashable | None, wanted: Wanted
) -> tuple[Hashable, ...]:
    """A known name, or the only column left over; none if the table looks wide."""
    found = _match("value", names, wanted)
    if found is not None:
        return (found,)
    rest = [name for name in names if name not in (agent, time)]
    if len(rest) == 1:
        return (rest[0],)
    if time is None:
        return ()
    raise SignalError(f"which column holds the readings? {columns_of(names)}; pass value=...")


def _match(role: str, names: Sequence[Hashable], wanted: Wanted) -> Hashable | None:
    taken = {wanted.agent, wanted.time, *wanted.values} - {None}
    found = [n for n in names if n not in taken and str(n).strip().lower() in KNOWN[role]]
    if len(found) > 1:
        raise SignalError(
            f"more than one column could be the {role}: {shown(found)}; pass {role}=..."
        )
    return found[0] if found else None
