"""The reading schedule of one agent: slots of equal length, aligned to the clock.

    slot(time) = floor(time/every),        the reading of number n belongs to slot base + n

With every = 3600 a slot is an hour of UTC, with 86400 a day. Numbers are rounds where agents have
rounds in common. A slot takes one reading: the first whose own time lies in it, or, of a source
without times, the first that arrives from its beginning until its end plus `grace`. A reading
without a time belongs to the oldest slot that still waits, so a source that is late within the
grace fills its slots in order, and so does a backlog after a pause in which nobody looked.

Slots follow elapsed time as well as the clock. If the clock is set while the agent runs, the base
moves by the whole slots of the jump: none counts as missed because of a clock set forward, and a
clock set back repeats none. What is left of the jump, less than a slot, ends the present slot
sooner, or lets the agent wait until the clock is where it was. Between two runs the time of the
last reading is known: a slot that is not later is never used again, unless it lies in the future by
more than a day and two slots: then that clock was wrong, and the slots begin anew.
"""

from __future__ import annotations

import math
import time
from enum import Enum

from veilsum.agents.ledger.clock import SystemClock

DAY = 86_400.0


class Phase(Enum):
    """Where a slot is in time."""

    FUTURE = "future"
    OPEN = "open"  # or within its grace
    OVER = "over"


class Place(Enum):
    """How a reading lies to the slot that waits for one."""

    EARLIER = "earlier"  # of a slot that has its reading, or was passed
    FITS = "fits"
    LATER = "later"  # of a slot that comes after the one that waits
    BEYOND = "beyond"  # of a slot that has not come for anybody


class SlotSchedule:
    """The slots of one agent.

    Parameters
    ----------
    every, grace : float
        Seconds of a slot, and how much later its reading may come.
    clocks : SystemClock
        Where the time comes from.
    number : int
        The number of the next reading.
    last : tuple of (int, int), optional
        Number and slot of an earlier reading.

    Attributes
    ----------
    notice : str
        What happened to the clock, to be reported once; empty if nothing did.

    Examples
    --------
    >>> from veilsum.agents.ledger.clock import SystemClock
    >>> clocks = SystemClock(lambda: 7200.0, lambda: 0.0)
    >>> schedule = SlotSchedule(3600.0, 60.0, clocks, number=1)
    >>> schedule.slot(1), schedule.phase(1).value, schedule.phase(2).value
    (2, 'open', 'future')
    >>> schedule.place(1, 3000.0).value, schedule.place(1, None).value
    ('earlier', 'fits')
    """

    def __init__(
        self,
        every: float,
        grace: float,
        clocks: SystemClock,
        number: int,
        last: tuple[int, int] | None = None,
    ) -> None:
        """Place the next number in the present slot, or where the last one says."""
        self.every, self.grace, self.clocks = every, grace, clocks
        self.notice = ""
        self._empty = -math.inf  # when the source was last seen to have nothing, in elapsed time
        self._wall, self._elapsed = clocks.wall(), clocks.elapsed()
        present = self.slot_of(self._wall)
        self._base = present - number
        if last is not None:
            self._continue(number, *last, present)

    def _continue(self, number: int, before: int, slot: int, present: int) -> None:
        """Go on after an earlier reading, unless it lies too far in the future."""
        base = slot - before
        ahead = (base + number - present) * self.every
        if ahead > DAY + 2 * self.every:
            self.notice = (
                f"the last reading was taken {ahead / 3600:.1f} hours after the present time: the "
                "clock was wrong then or is wrong now; slots begin anew with the present one"
            )
            return
        self._base = base

    def skip_to(self, number: int, before: int) -> None:
        """Rounds were skipped: this number has the present slot, or the one after the last used.

        Parameters
        ----------
        number : int
            The number that waits for a reading now.
        before : int
            The last one that was decided, whose slot is used.
        """
        self._base = max(self.slot_of(self.now()), self.slot(before) + 1) - number

    def slot_of(self, moment: float) -> int:
        """The slot of a time."""
        return math.floor(moment / self.every)

    def slot(self, number: int) -> int:
        """The slot of a number."""
        return self._base + number

    def now(self) -> float:
        """The time; if the clock was set since the last call, the base moves with it."""
        wall, elapsed = self.clocks.wall(), self.clocks.elapsed()
        jump = (wall - self._wall) - (elapsed - self._elapsed)
        self._wall, self._elapsed = wall, elapsed
        slots = math.trunc(jump / self.every)
        if slots:
            self._base += slots
            self.notice = (
                f"the clock was set {'forward' if slots > 0 else 'back'} by {abs(jump):.0f} s; "
                f"slots move with it by {abs(slots)}, and none is used twice"
            )
        return wall

    def phase(self, number: int) -> Phase:
        """Where the slot of a number is now."""
        now, start = self.now(), self.slot(number) * self.every
        if now < start:
            return Phase.FUTURE
        return Phase.OPEN if now < start + self.every + self.grace else Phase.OVER

    def seen_empty(self) -> None:
        """The source has nothing now: what it returns later arrived later."""
        self.now()
        self._empty = self._elapsed

    def _arrived_after(self, moment: float) -> bool:
        """Whether a reading that is there now was not yet there at a time of the wall."""
        return self._elapsed - self._empty <= self._wall - moment

    def place(self, number: int, observed_at: float | None) -> Place:
        """How a reading that is there now lies to the slot of a number."""
        phase = self.phase(number)
        if observed_at is None:
            if phase is Phase.OVER and self._arrived_after((self.slot(number) + 1) * self.every):
                return Place.LATER
            return Place.EARLIER if phase is Phase.FUTURE else Place.FITS
        own, due = self.slot_of(observed_at), self.slot(number)
        if own > max(self.slot_of(self._wall) + 1, due):
            return Place.BEYOND
        if own == due:
            return Place.LATER if phase is Phase.FUTURE else Place.FITS
        return Place.EARLIER if own < due else Place.LATER

    def wait(self, number: int) -> float:
        """Seconds until the phase of a number changes; 0 if it is over."""
        now, start = self.now(), self.slot(number) * self.every
        change = start if now < start else start + self.every + self.grace
        return max(0.0, change - now)

    def describe(self, number: int) -> str:
        """The slot of a number in words: when it began."""
        began = self.slot(number) * self.every
        try:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", _utc(began))
        except (OverflowError, ValueError):
            return f"{began:.0f}"


def _utc(moment: float) -> time.struct_time:
    return time.gmtime(moment)
