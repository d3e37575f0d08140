"""Readings that are taken again after a restart, because a query is open that they are in.

Without a spool that survives a restart, readings stay at their source until their query is
concluded. What the ledger knows of an open query are the places and the origins of its readings:
the same ones are taken again, whatever the schedule says, and no others.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from veilsum.agents.readings.base import Value
from veilsum.agents.runtime.query_ledger import OpenReadings
from veilsum.errors import SignalError


class TakenReading(NamedTuple):
    """A reading in the hands of the scheduler; never logged or shown.

    Attributes
    ----------
    value : float or tuple of float
        The reading.
    position : int
        Its place among all readings of the source.
    origin : str
        Its origin hash.
    observed_at : float or None
        Its own time.
    """

    value: Value
    position: int
    origin: str
    observed_at: float | None

    def __repr__(self) -> str:
        """The position, and nothing else."""
        return f"TakenReading({self.position})"


class Recovery:
    """Collects the readings of an open query.

    Parameters
    ----------
    opened : OpenReadings
        What the ledger knows of them.
    label : str
        The agent, for messages.

    Attributes
    ----------
    query : int
        Which one.
    others : deque of TakenReading
        Readings that a source with a key returned in between: for later queries.
    """

    def __init__(self, opened: OpenReadings, label: str) -> None:
        """Nothing is found yet."""
        self.query, self.readings, self.last = opened.query, opened.readings, opened.last
        self.label = label
        count = len(opened.origins) or opened.readings
        self.first = opened.last - count + 1
        self._origins = tuple(opened.origins) or ("",) * count
        self._named = {name: k for k, name in enumerate(self._origins) if name}
        self._found: dict[int, TakenReading] = {}
        self.others: deque[TakenReading] = deque()

    def expects(self, origin: str) -> bool:
        """Whether a reading with this origin is one of them."""
        return origin in self._named

    def offer(self, taken: TakenReading, keyed: bool) -> None:
        """Take a reading from the source.

        Raises
        ------
        SignalError
            If another reading is at the place of one of them.
        """
        if keyed:
            place = self._named.get(taken.origin)
            if place is None:
                self.others.append(taken)
            else:
                self._found[place] = taken._replace(position=self.first + place)
            return
        place = taken.position - self.first
        name = self._origins[place]
        if name and name != taken.origin:
            raise SignalError(
                f"reading {taken.position} of agent {self.label} is not the one with which it takes "
                f"part in query {self.query}: the source was rewritten, or readings were inserted, "
                "changed, reordered or removed before it; nothing was sent; give the agent the "
                "readings it had and add new ones at the end"
            )
        if name or not self._named:
            self._found[place] = taken

    @property
    def complete(self) -> bool:
        """Whether all are found."""
        return len(self._found) == self.readings

    def found(self) -> list[TakenReading]:
        """All of them, in order."""
        return [self._found[place] for place in sorted(self._found)]
