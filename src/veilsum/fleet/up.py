"""Many sites on this machine, to try everything: real folders, real steps, a board in a folder.

    tables ── begin, join, admit ──> folders ── a thread each steps its site ──> the asker's answer

Each site has its own folder, key, ledger and budget, as on a machine of its own; the board is shared.
"""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

from veilsum.errors import FleetError
from veilsum.fleet.consent import Policy
from veilsum.fleet.joining import FleetAuthority, begin, join
from veilsum.fleet.running import run
from veilsum.questions import QUESTIONS

BOARD, DESK = "board", "desk"
EVERY = 0.5  # seconds between steps that find nothing
ROWS = 200
COLUMNS = ("kwh", "region", "days", "event")
MOST = 200


def generated(folder: Path, name: str, seed: int, rows: int = ROWS) -> Path:
    """A table to try with: loads, regions, days until an event."""
    draw = random.Random(f"table {seed} of {name}")
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for _ in range(rows):
            days = min(int(draw.expovariate(1 / 200)) + 1, 365)
            writer.writerow(
                [
                    round(min(max(draw.gauss(12, 4), 0), 40), 2),
                    draw.choice(("north", "south")),
                    days,
                    int(days < 365),
                ]
            )
    return path


class LocalFleet:
    """A fleet in one folder."""

    def __init__(self, folder: Path, tables: Sequence[Path], epsilon: float = 100.0) -> None:
        """Begin, join, admit."""
        if not 2 <= len(tables) <= MOST:
            raise FleetError(f"a fleet to try has 2 to {MOST} sites; found {len(tables)}")
        self.folder, self.names = folder, [table.stem.lower() for table in tables]
        self.desk, address = folder / DESK, f"../{BOARD}"
        self.desk.mkdir()
        begin(self.desk, address, name="try", mounted=True)
        for name, table in zip(self.names, tables, strict=True):
            place = folder / name
            place.mkdir()
            join(
                place, address, name=name, data=str(table.resolve()), epsilon=epsilon,
                policy=policy_of(table, epsilon),
            )  # fmt: skip
        authority = FleetAuthority(self.desk)
        with authority.seated() as seat:
            from veilsum.fleet.joining import requested, requests_on

            entries = requested(seat.membership, requests_on(seat.stores[0]), self.names)
        authority.admit(entries)

    @contextmanager
    def running(self, every: float = EVERY) -> Iterator[None]:
        """Let all sites step until the block ends."""
        ended = Event()
        steps = partial(run, every=every, say=lambda _: None, clock=time.time, wait=ended.wait)
        threads = [
            Thread(target=steps, args=(self.folder / name,), name=f"site {name}")
            for name in self.names
        ]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def policy_of(table: Path, epsilon: float) -> Policy:
    """Yes to everything: these tables are to try with."""
    from veilsum.fleet.sources import open_source

    columns = open_source({"path": str(table.resolve())}, table.parent).columns() or []
    return Policy(tuple(QUESTIONS.names()), tuple(columns), epsilon, "year")
