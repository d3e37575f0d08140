"""What a process takes while it runs: memory, open files, threads, and bytes on the disk by kind."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """One look.

    Attributes
    ----------
    hours : float
        Of simulated time.
    releases : int
        Up to now, of all sites.
    memory, ledgers, logs : int
        Bytes: resident, and of files.
    files, threads : int
        Open now.
    """

    hours: float
    releases: int
    memory: int
    ledgers: int
    logs: int
    files: int
    threads: int


@dataclass
class Samples:
    """All looks at a folder and this process; those after `end` are of a time without releases."""

    home: Path
    end: float
    taken: list[Sample] = field(default_factory=list)

    def take(self, hours: float, releases: int) -> None:
        found = [*self.home.glob("*/agent.ledger*")]
        logs = [*self.home.glob("*/log.jsonl")]
        self.taken.append(
            Sample(
                hours, releases, resident(), sum(p.stat().st_size for p in found),
                sum(p.stat().st_size for p in logs), len(os.listdir("/proc/self/fd")),
                threading.active_count(),
            )
        )  # fmt: skip

    @property
    def second_half(self) -> list[Sample]:
        """The looks of the second half of the time in which there are releases."""
        return [sample for sample in self.taken if self.end / 2 <= sample.hours <= self.end + 1]

    def slope(self, of: str) -> float:
        """By how much an amount grows with each release, in the second half."""
        half = self.second_half
        x = [sample.releases for sample in half]
        y = [getattr(sample, of) for sample in half]
        middle, level = sum(x) / len(x), sum(y) / len(y)
        spread = sum((each - middle) ** 2 for each in x)
        together = sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True))
        return together / spread if spread else 0.0

    def largest(self, of: str) -> int:
        return max(int(getattr(sample, of)) for sample in self.taken)


def resident() -> int:
    """Bytes of this process in memory now, without what is free and waits to be used again."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
