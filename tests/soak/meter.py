"""The meter of a site: writes a row an hour to a CSV file, which is rotated in two ways."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.soak.record import value_of
from veilsum.agents.ledger.clock import SystemClock
from veilsum.agents.readings import CsvReadings

KEPT = 4  # rotated files beside the one that grows, where rows have a key
HEADS = {"timed": "n,time,kwh", "keyed": "n,kwh", "plain": "n,kwh"}


class Meter:
    """Appends rows to readings.csv; its files have the times of the site's clock.

    Parameters
    ----------
    folder : Path
        Where readings.csv is.
    kind : str
        "timed": rows have a key and a time; "keyed": a key; "plain": neither.
    clock : SystemClock
        The site's.
    """

    def __init__(self, folder: Path, kind: str, clock: SystemClock) -> None:
        self.path, self.kind, self._clock = folder / "readings.csv", kind, clock
        self.rotations = {"rename": 0, "copytruncate": 0}
        folder.mkdir(parents=True, exist_ok=True)
        self._begin()

    def source(self) -> CsvReadings:
        """What the agent reads them with."""
        key = None if self.kind == "plain" else "n"
        time = "time" if self.kind == "timed" else None
        return CsvReadings(self.path, "kwh", True, key, time, clock=self._clock)

    def write(self, number: int) -> None:
        """Append the row of a reading."""
        time = f"{self._clock.wall():.0f}," if self.kind == "timed" else ""
        with self.path.open("a") as file:
            file.write(f"{number},{time}{value_of(number)}\n")
        self._date(self.path)

    def rotate(self, how: str) -> None:
        """Rotate the file by "rename", or by "copytruncate"."""
        self.rotations[how] += 1
        older = sorted(self.path.parent.glob("readings.csv.*"), key=_place, reverse=True)
        for path in older:
            if self.kind != "plain" and _place(path) >= KEPT:
                path.unlink()
            else:
                path.rename(path.with_name(f"readings.csv.{_place(path) + 1}"))
        first = self.path.with_name("readings.csv.1")
        if how == "rename":
            self.path.rename(first)
            self._begin()
        else:
            shutil.copyfile(self.path, first)
            self._date(first)
            os.truncate(self.path, 0)
        self._date(self.path)

    def _begin(self) -> None:
        self.path.write_text(f"{HEADS[self.kind]}\n")
        self._date(self.path)

    def _date(self, path: Path) -> None:
        """Give a file and the folder the time of the site: hours pass in milliseconds here."""
        now = int(self._clock.wall() * 1e9)
        os.utime(path, ns=(now, now))
        os.utime(path.parent, ns=(now, now))


def _place(path: Path) -> int:
    return int(path.suffix[1:])
