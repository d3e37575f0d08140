"""Time that passes when a test says so, and the clocks of machines that follow it."""

from __future__ import annotations

import math

from veilsum import _validate
from veilsum.agents.ledger.clock import SystemClock
from veilsum.errors import AgentError


class VirtualTime:
    """The time that has passed, the same for all machines of a test.

    Attributes
    ----------
    now : float
        Seconds since the beginning.

    Examples
    --------
    >>> time = VirtualTime()
    >>> time.advance(3600.0)
    >>> time.now
    3600.0
    """

    def __init__(self) -> None:
        """Nothing has passed."""
        self.now = 0.0

    def advance(self, to: float) -> None:
        """Let time pass.

        Parameters
        ----------
        to : float
            Seconds since the beginning; an earlier time than now changes nothing.
        """
        self.now = max(self.now, to)


class VirtualClock:
    """The clocks of one machine: one of the wall, which can be set, and one of the time since boot.

    Parameters
    ----------
    time : VirtualTime
        What has passed.
    wall : float
        What the clock of the wall showed at the beginning, in seconds since 1970.

    Attributes
    ----------
    ahead : float
        By how much the clock of the wall was set forward in all.

    Raises
    ------
    AgentError
        If `wall` is not a finite number.

    Examples
    --------
    >>> time = VirtualTime()
    >>> clock = VirtualClock(time, wall=1_800_000_000.0)
    >>> time.advance(60.0)
    >>> clock.set(-10.0)
    >>> clock.system.wall(), clock.system.elapsed()
    (1800000050.0, 60.0)
    >>> clock.reboot()
    >>> clock.system.elapsed()
    0.0
    """

    def __init__(self, time: VirtualTime, wall: float = 0.0) -> None:
        """A machine that booted at the beginning."""
        if not math.isfinite(wall):
            raise AgentError(
                f"wall must be seconds since 1970, such as 1.8e9; found {_validate.found(wall)}"
            )
        self._time, self._wall = time, wall
        self.ahead, self._booted, self._boots = 0.0, time.now, 1
        self.system = SystemClock(self.wall, self.elapsed, self.boot, self.elapsed)

    def wall(self) -> float:
        """Seconds since 1970, as the machine believes."""
        return self._wall + self._time.now + self.ahead

    def elapsed(self) -> float:
        """Seconds since the machine booted."""
        return self._time.now - self._booted

    def boot(self) -> str:
        """Identifies the boot."""
        return f"boot {self._boots}"

    def set(self, by: float) -> None:
        """Set the clock of the wall forward, or back if negative."""
        self.ahead += by

    def reboot(self) -> None:
        """Boot the machine: the time since boot begins anew."""
        self._boots, self._booted = self._boots + 1, self._time.now
