"""What the soak knows of every reading, apart from the ledgers: written, released, passed over.

A reading's value is its number in disguise, so that the record sees at the release mechanism which
reading is released, whatever names, places and ledgers the agent uses.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from veilsum.agents.events import AgentReport, Released
from veilsum.agents.ledger import Ledger
from veilsum.agents.release import ReleaseMechanism
from veilsum.privacy.accounting import BudgetExceeded

LEAST, STEP = 10.0, 0.005  # the value of reading n is LEAST + n STEP
DAY = 86_400.0
ROUNDING = 1e-3  # seconds: a ledger adds its time up from two clocks
PASSED = re.compile(r"reading (\d+) of the source is ")  # whatever the reason that follows


def value_of(number: int) -> float:
    return round(LEAST + number * STEP, 3)


def number_of(value: float) -> int:
    return round((value - LEAST) / STEP)


class ReadingRecord:
    """What became of the readings of one site, and what its releases cost in any day.

    Parameters
    ----------
    label : str
        The site.
    epsilon, budget : float
        What one release costs, and what the releases of any 24 hours may.
    most : int
        Readings at most: the record takes the same memory from the beginning to the end.
    """

    def __init__(self, label: str, epsilon: float, budget: float, most: int) -> None:
        self.label, self.epsilon, self.budget = label, epsilon, budget
        self.written = 0
        self.written_before = (
            0  # the first release: all but one of these are surplus, as documented
        )
        self.releases = bytearray(most + 1)  # of each reading, by its number
        self.passed = {kind: bytearray(most + 1) for kind in ("budget", "surplus")}
        self.skipped = 0
        self.violations: list[str] = []
        self.dearest_day = 0.0
        self._asked = 0
        self._day: deque[float] = deque()

    def asked(self, number: int) -> None:
        """The mechanism is asked for a release of this reading."""
        self._asked = number

    def committed(self, now: float) -> None:
        """The release that was asked for is on the disk."""
        self.written_before = self.written_before or self.written
        self.releases[self._asked] += 1
        if self.releases[self._asked] > 1:
            self.violations.append(f"reading {self._asked} of {self.label} was released twice")
        self._day.append(now)
        while self._day[0] <= now - DAY + ROUNDING:
            self._day.popleft()
        cost = len(self._day) * self.epsilon
        self.dearest_day = max(self.dearest_day, cost)
        if cost > self.budget:
            self.violations.append(f"{self.label} spent {cost:g} within a day of {self.budget:g}")

    def refused(self) -> None:
        """The budget does not cover the reading that was asked for."""
        self.passed["budget"][self._asked] = 1

    def report(self, report: AgentReport) -> None:
        """What the agent says of readings that it does not release."""
        if report.kind == "surplus":
            self._surplus(report.text)
        elif report.kind == "slot":
            self.skipped += 1

    def _surplus(self, text: str) -> None:
        """A reading is of a slot that has its reading or was passed, or of a time that has not come."""
        found = PASSED.match(text)
        if found is None:
            self.violations.append(
                f"{self.label} does not say which reading it passed over: {text}"
            )
            return
        number = int(found[1])
        if self.releases[number]:
            self.violations.append(f"reading {number} of {self.label} was released and is surplus")
        self.passed["surplus"][number] = 1

    @property
    def late_surplus(self) -> int:
        """Readings that are surplus, and were written after the first slot had begun."""
        return sum(self.passed["surplus"][self.written_before + 1 :])

    @property
    def lost(self) -> list[int]:
        """Readings that were written and of which nobody knows anything."""
        fates = zip(self.releases, *self.passed.values(), strict=True)
        known = [any(fate) for fate in fates]
        return [number for number in range(1, self.written + 1) if not known[number]]


class WatchedMechanism(ReleaseMechanism):
    """The release mechanism of a site, with its record beside it."""

    record: ReadingRecord

    def release(
        self, ledger: Any, reading: int, signal: Any, round: int | None = None, **more: Any
    ) -> Released:
        assert isinstance(ledger, Ledger)
        self.record.asked(number_of(signal))
        try:
            return super().release(ledger, reading, signal, round, **more)
        except BudgetExceeded:
            self.record.refused()
            raise
