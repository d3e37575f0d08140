"""Which column is the agent, which the time, which the reading."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from murmura.errors import SignalError
from murmura.signals.core import shown

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


def recognise(names: Sequence[Hashable], wanted: Wanted) -> Columns | None:
    """The columns of a long table with these names, or None if the table looks wide."""
    for name in (wanted.agent, wanted.time, *wanted.values):
        if name is not None and name not in names:
            raise SignalError(f"there is no column {name!r}; the columns are {shown(names)}")
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
    raise SignalError(
        f"which column holds the readings? the columns are {shown(names)}; pass value=..."
    )


def _match(role: str, names: Sequence[Hashable], wanted: Wanted) -> Hashable | None:
    taken = {wanted.agent, wanted.time, *wanted.values} - {None}
    found = [n for n in names if n not in taken and str(n).strip().lower() in KNOWN[role]]
    if len(found) > 1:
        raise SignalError(
            f"more than one column could be the {role}: {shown(found)}; pass {role}=..."
        )
    return found[0] if found else None
