"""The time of a ledger: it never decreases, and setting the machine's clock does not move it.

    time = anchor + (time since boot now - time since boot at the anchor)

The anchor is taken when the ledger is first opened after a boot of the machine: the wall clock, or
the ledger's own last time if that is later. From then on only the kernel's clock of the time since
boot counts, suspension included, which cannot be set. Hence

- a clock that is set back refills nothing, and does not stop the budget from refilling either;
- a clock that is set forward refills nothing while the machine runs;
- after a boot with a clock that is ahead, the time jumps forward once: one refill too many, after
  which the ledger's time stays ahead by as much, so that correcting the clock gives nothing more.

Whoever sets the clock and boots the machine at will can refill a budget at will; no file on that
machine can prevent it. `LedgerClock.difference` is what there is to report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE = 60.0  # seconds between the wall clock and the ledger's time that need no report


def boot_id() -> str:
    """Identifies the machine's last boot; empty if unknown."""
    with suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def since_boot() -> float:
    """Seconds since the machine booted, suspension included where the system counts it."""
    kernel = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if kernel is None else time.clock_gettime(kernel)


class SystemClock(NamedTuple):
    """What ledgers, sources of readings and a node's timers read the time from.

    Attributes
    ----------
    wall : callable
        Seconds since 1970.
    elapsed : callable
        Seconds since boot.
    boot : callable
        Identifies the boot.
    monotonic : callable
        Seconds that never decrease, by which timers are set.
    """

    wall: Callable[[], float] = time.time
    elapsed: Callable[[], float] = since_boot
    boot: Callable[[], str] = lambda: boot_id()
    monotonic: Callable[[], float] = time.monotonic


MACHINE = SystemClock()


class ClockAnchor(NamedTuple):
    """A ledger's time at some moment of a boot."""

    boot: str
    elapsed: float
    time: float


class LedgerClock:
    """The time of one open ledger.

    Parameters
    ----------
    clock : SystemClock
        The machine's clocks.
    stored : ClockAnchor, optional
        The anchor in the ledger.
    last : float
        The latest time in the ledger.
    """

    def __init__(self, clock: SystemClock, stored: ClockAnchor | None = None, last: float = 0.0):
        """Keep the stored anchor within one boot, or take a new one."""
        self._clock, self._last = clock, last
        boot, elapsed = clock.boot(), clock.elapsed()
        same = stored is not None and bool(boot) and stored.boot == boot
        if stored is not None and same and stored.elapsed <= elapsed:
            self.anchor = stored
        else:
            self.anchor = ClockAnchor(boot, elapsed, max(clock.wall(), last))

    def now(self) -> float:
        """The time; never less than any before."""
        elapsed = self._clock.elapsed() - self.anchor.elapsed
        self._last = max(self._last, self.anchor.time + max(elapsed, 0.0))
        return self._last

    @property
    def difference(self) -> float:
        """Seconds by which the wall clock is ahead of the ledger's time."""
        return self._clock.wall() - self.now()

    def report(self) -> str:
        """What a difference to the wall clock means; empty if there is none to speak of."""
        ahead = self.difference
        if abs(ahead) <= TOLERANCE:
            return ""
        relation = "ahead of" if ahead > 0 else "behind"
        return (
            f"the machine's clock is {abs(ahead):,.0f} s {relation} the time of the ledger: it was "
            "set since the machine booted, or was wrong then; budgets refill by the time that has "
            "passed since the boot, never by setting the clock; if the clock is right now, boot "
            "the machine"
        )
