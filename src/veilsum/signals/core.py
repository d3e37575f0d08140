"""Signals: what each agent measured in each round, labelled. They are private: nothing displays them.

No message, `repr` or note of this module contains a value; a reading is named by its agent, its
time and, when it came from a file, its row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum._validate import as_float, found
from veilsum.errors import FamilyError, SignalError

if TYPE_CHECKING:
    from veilsum._types import Family

Array = NDArray[np.float64]
_LISTED = 5
_NOT_NUMBERS = (np.datetime64, np.timedelta64, complex, np.complexfloating)


@dataclass(frozen=True, eq=False)
class Origin:
    """Where readings came from, so that messages can name a line or a row.

    Parameters
    ----------
    name : str
        Of the file or table.
    word : {"line", "row"}
        A line counts from 1 with the header, as an editor does; a row from 0, as `frame.iloc` does.
    rows : ndarray of int64, shape (agents, rounds)
        The number of each reading; -1 for those that no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum.signals import Origin
    >>> Origin("meters.csv", "line", np.array([[12]])).place(0, 0)
    ', line 12 of meters.csv'
    """

    name: str
    word: str
    rows: NDArray[np.int64]

    def place(self, agent: int, time: int) -> str:
        """A reading's place, such as ", line 12 of meters.csv", or nothing."""
        row = int(self.rows[agent, time])
        return f", {self.word} {row} of {self.name}" if row >= 0 else ""


@dataclass(frozen=True, eq=False, repr=False)
class Signals:
    """Readings of every agent in every round.

    Parameters
    ----------
    values : array_like, shape (agents, rounds) or (agents, rounds, d)
        The readings, d numbers each for vector signals; a private read-only copy is made.
    labels : sequence of hashable
        A distinct name for each agent.
    times : sequence of hashable
        A distinct name for each round.
    notes : tuple of str
        What was dropped or filled while reading.
    clipped : int
        How many numbers `clip` has moved: a fact about private data, so do not publish it.
    origin : Origin, optional
        Where the readings came from.

    Raises
    ------
    SignalError
        For values that are not real numbers, or labels and times that do not fit.

    Examples
    --------
    >>> from veilsum.signals import Signals
    >>> Signals([[1.0, 2.0], [3.0, 4.0]], labels=["a", "b"], times=[0, 1])
    Signals(2 agents, 2 rounds)
    """

    values: Array
    labels: Sequence[Hashable]
    times: Sequence[Hashable]
    notes: tuple[str, ...] = ()
    clipped: int = 0
    origin: Origin | None = None

    def __post_init__(self) -> None:
        """Copy the values, freeze them, and refuse shapes and labels that do not fit."""
        if (kind := not_numbers(self.values)) is not None:
            raise SignalError(f"values must be real numbers; found {kind}")
        values = np.array(self.values, dtype=np.float64)
        if values.ndim not in (2, 3) or values.size == 0:
            raise SignalError(
                "values must have shape (agents, rounds) or (agents, rounds, d), none of them 0; "
                f"found {values.shape}"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        for name, length in (("labels", values.shape[0]), ("times", values.shape[1])):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            _distinct(name, getattr(self, name), length)
        if self.origin is not None and self.origin.rows.shape != values.shape[:2]:
            raise SignalError(f"origin has rows for {self.origin.rows.shape}, not {values.shape}")

    def __repr__(self) -> str:
        """The shape, never a value."""
        shape = f"{self.agents} agents, {self.rounds} rounds"
        return (
            f"Signals({shape})"
            if self.values.ndim == 2
            else f"Signals({shape}, {self.width} numbers)"
        )

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return int(self.values.shape[0])

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        """How many numbers a reading has."""
        return int(np.prod(self.values.shape[2:], dtype=np.int64))

    def aligned(self, labels: Iterable[Hashable]) -> Signals:
        """The same readings in the order of a network's labels.

        Parameters
        ----------
        labels : iterable of hashable
            The same agents, in the order wanted.

        Raises
        ------
        SignalError
            If the signals and the labels do not name the same agents.
        """
        requested = tuple(labels)
        if requested == self.labels:
            return self
        _distinct("labels", requested, len(requested))
        index = {label: k for k, label in enumerate(self.labels)}
        known = set(requested)
        missing = [label for label in requested if label not in index]
        unknown = [label for label in self.labels if label not in known]
        if missing or unknown:
            raise SignalError(_misfit(missing, unknown))
        order = np.array([index[label] for label in requested])
        origin = self.origin and replace(self.origin, rows=self.origin.rows[order])
        return replace(self, values=self.values[order], labels=requested, origin=origin)

    def check(self, family: Family) -> Signals:
        """The signals themselves, if every reading is finite and inside the support of the family.

        Parameters
        ----------
        family : Family
            Whose support is checked.

        Raises
        ------
        SignalError
            With the agent, the time and the row of the first reading outside, never its value.
        """
        self._check_shape(family)
        outside = family.support.violations(self.values)
        if not outside.any():
            self._check_statistic(family)
            return self
        cells = outside.reshape(self.agents, self.rounds, -1).any(axis=-1)
        agent, time = (int(k) for k in np.argwhere(cells)[0])
        others = int(cells.sum()) - 1
        likewise = f" ({count(others, 'other reading')} likewise)" if others else ""
        finite = bool(np.isfinite(self.values[agent, time]).all())
        remedy = family.remedy if finite else "fill the gap: as_signals(..., missing=constant)"
        raise SignalError(
            f"{self.where(agent, time)} "
            f"{'is outside the support of' if finite else 'is not a finite number, as needed for'} "
            f"{family.name}, which expects {family.support.describe()}{likewise}; {remedy}"
        )

    def _check_statistic(self, family: Family) -> None:
        """Raise if xi(s) is not a finite number: a custom statistic may not be."""
        for time in range(self.rounds):
            agent = family.first_not_finite(self.values[:, time])
            if agent is not None:
                raise FamilyError(
                    f"the statistic of {family.name} is not a finite number for "
                    f"{self.where(agent, time)}, though it lies in the support "
                    f"({family.support.describe()}); narrow the bounds, or change the statistic"
                )

    def clip(self, low: float | None = None, high: float | None = None) -> Signals:
        """min(max(s, low), high) with public bounds; `clipped` counts the numbers moved.

        NaN and infinities stay as they are: a broken reading is an error, not a large one.

        Parameters
        ----------
        low, high : float, optional
            The bounds, one of them at least.
        """
        floor = -math.inf if low is None else as_float(low)
        ceiling = math.inf if high is None else as_float(high)
        if not floor < ceiling or (low is None and high is None):
            raise SignalError(
                f"clip needs low < high, one of them given; found ({found(low)}, {found(high)})"
            )
        finite = np.isfinite(self.values)
        values = np.where(finite, np.clip(self.values, floor, ceiling), self.values)
        moved = int((finite & (values != self.values)).sum())
        return replace(self, values=values, clipped=self.clipped + moved)

    def where(self, agent: int, time: int) -> str:
        """A description of a reading: its agent, its time and its row, never its value."""
        place = self.origin.place(agent, time) if self.origin else ""
        who, when = as_label(self.labels[agent]), as_label(self.times[time])
        return f"the signal of agent {who} at time {when}{place}"

    def _check_shape(self, family: Family) -> None:
        if self.values.shape[2:] != family.signal_shape:
            requested = ("agents", "rounds", *map(str, family.signal_shape))
            raise SignalError(
                f"{family.name} takes signals of shape ({', '.join(requested)}); "
                f"found {self.values.shape}"
            )


def not_numbers(values: Any) -> str | None:
    """The kind of an array's entries, if numpy would make of them numbers that they are not."""
    array = np.asarray(values)
    if array.dtype.kind in "Mmc":
        return str(array.dtype)
    if array.dtype.kind != "O":
        return None
    strange = (x for x in array.flat if isinstance(x, _NOT_NUMBERS))
    return next((type(x).__name__ for x in strange), None)


def listed(items: Sequence[Any]) -> str:
    """The first few of a list, and how many there are: "'a', 'b' and 7 more"."""
    first = ", ".join(as_label(item) for item in items[:_LISTED])
    return first if len(items) <= _LISTED else f"{first} and {len(items) - _LISTED} more"


def as_label(item: Hashable) -> str:
    """A label or time for a message; one with a fraction may be a reading in the wrong column."""
    try:
        whole = float(str(item)).is_integer()
    except ValueError:
        return repr(item)
    return repr(item) if whole else "(not listed: a number with a fraction, as readings have)"


def count(number: int, noun: str) -> str:
    """ "1 agent", "2 agents"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _distinct(name: str, items: tuple[Hashable, ...], length: int) -> None:
    if len(items) != length:
        raise SignalError(f"{name} must have one entry for each of {length}; found {len(items)}")
    if len(set(items)) == len(items):
        return
    seen: set[Hashable] = set()
    repeated = [item for item in items if item in seen or seen.add(item)]  # type: ignore[func-returns-value]
    raise SignalError(f"{name} must be distinct; repeated: {listed(repeated)}")


def _misfit(missing: list[Hashable], unknown: list[Hashable]) -> str:
    """What the network has and the signals lack, and the other way round."""
    parts = []
    if missing:
        parts.append(f"{count(len(missing), 'agent')} without signals: {listed(missing)}")
    if unknown:
        parts.append(
            f"{count(len(unknown), 'agent')} with signals but not in the network: {listed(unknown)}"
        )
    if missing and unknown and {str(x) for x in missing} & {str(x) for x in unknown}:
        kinds = type(missing[0]).__name__, type(unknown[0]).__name__
        parts.append(
            f"the labels look alike: the network's are {kinds[0]}, the signals' {kinds[1]}"
        )
    order = '; or match = "order" under [signals]' if len(missing) == len(unknown) else ""
    return "; ".join(parts) + f"; the signals and the network must name the same agents{order}"
