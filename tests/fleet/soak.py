"""A year of fifty sites that step every hour, in virtual time: `make soak-fleet`.

Sites, their ledgers and boards are real, and stay open as under `fleet run`; time and the store are not.
Faults come as often as real ones do. At the end faults are over for two days, and it is checked that nothing
was lost, nothing was opened twice and nothing was overspent. Figures: tests/fleet/soak.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.fleet.fleets import NOW, mean
from tests.fleet.random_runs import LastingFleet
from tests.fleet.safety.watching import HOUR, HOURLY
from veilsum.errors import StoreBusyError
from veilsum.fleet.answers import questions_on
from veilsum.fleet.pool import pooled
from veilsum.fleet.post import Kind
from veilsum.fleet.sources import DataSource
from veilsum.fleet.store import StoreFaults

RECORD = Path(__file__).with_name("soak.json")
BUDGET = 2.0  # of a reading: its hour, and one question about everything
REST = 48  # hours without faults
STORE = StoreFaults(before=2e-4, after=1e-4, half=2e-5, late=5e-5, again=2e-5)  # of a call
MISSED = 0.02  # of all steps: the machine is off, the program fails to start
GAPS = 0.005  # of all readings
YEARLY = {  # over all sites
    "kill": 700, "disk full": 30, "clock": 120, "cut off": 150, "partition": 12, "re-keyed": 10,
    "rolled back": 10, "copied": 5, "asked": 12, "restart": 2500,
}  # fmt: skip


@dataclass
class Clock:
    """The right time, whatever a site thinks."""

    now: int = NOW


@dataclass(frozen=True)
class Meter(DataSource):
    """A reading an hour, from the first one on; some are missing."""

    name = "meter"
    site: int
    clock: Clock

    def table(self) -> Mapping[str, Any]:
        return {"kwh": np.full(100, 10.0 + self.site % 20)}

    def readings(self, start: int, end: int, now: int | None = None) -> dict[str, Any] | None:
        del now
        end = min(end, self.clock.now)
        there = [hour for hour in range(-(-start // HOUR), -(-end // HOUR)) if self.has(hour)]
        return (
            {"kwh": np.array([10.0 + (hour + self.site) % 24 for hour in there])} if there else None
        )

    def has(self, hour: int) -> bool:
        """Whether the reading of an hour is there."""
        return hash((self.site, hour)) % 1000 >= GAPS * 1000

    def columns(self) -> list[str]:
        return ["kwh"]


class Year:
    """The run.

    Parameters
    ----------
    folder : Path
        New.
    sites, hours, seed : int
        Its size, and what decides when faults come.
    patch : MonkeyPatch
        Undone by the caller.
    """

    def __init__(
        self, folder: Path, sites: int, hours: int, seed: int, patch: pytest.MonkeyPatch
    ) -> None:
        self.random, self.hours = Random(seed), hours
        self.happened: Counter[str] = Counter()
        self.right = Clock()
        self.fleet = LastingFleet(folder, sites, patch, epsilon=BUDGET)
        self.names = [name for name in self.fleet.keys if name != "desk"]
        for number, name in enumerate(self.names):
            self.fleet.sources[name] = Meter(number, self.right)  # type: ignore[assignment]
        self.replaced: set[str] = set()  # that stopped, and wait for a new key
        self.ended: dict[str, set[int]] = {}  # last slots of the keys that a site had
        self.ahead: set[tuple[str, int]] = set()  # slots that a wrong clock took for over
        self.chances = {what: rate / 8760 for what, rate in YEARLY.items()}
        self.bytes = self.calls = 0

    def run(self) -> dict[str, Any]:
        """All hours, and the rest."""
        start = time.monotonic()
        self.fleet.ask(mean("pool", schedule=HOURLY))
        for name in self.names:
            view = self.fleet.view(name)
            view.faults, view.random = STORE, Random(self.random.random())
        for _ in range(self.hours):
            self.hour()
        self.rest()
        return self.figures(time.monotonic() - start)

    def hour(self) -> None:
        """Faults, and a step of each."""
        fleet = self.fleet
        fleet.now += HOUR
        self.right.now = fleet.now
        for what, chance in self.chances.items():
            if self.random.random() < chance:
                FAULTS[what](self, self.random.choice(self.names))
                self.happened[what] += 1
        for name in ("desk", *self.names):
            if self.random.random() < MISSED:
                self.happened["missed"] += 1
                continue
            view = fleet.view(name)
            if view.fails is not None and self.random.random() < 0.2:
                view.fails = None
            self.step(name)
        if self.replaced and self.random.random() < 0.05:
            self.rekey(self.replaced.pop())

    def step(self, name: str) -> None:
        """One step, and what it cost."""
        traffic = None
        if name in self.fleet.lasting:
            traffic = self.fleet.lasting[name].seat().traffic
            before = traffic.bytes, traffic.calls
        self.fleet.go(name)
        self.happened["step"] += 1
        if traffic is not None:
            self.bytes += traffic.bytes - before[0]
            self.calls += traffic.calls - before[1]
        if name != "desk" and name not in self.fleet.lasting:
            self.replaced.add(name)

    # ---- faults

    def kill(self, name: str) -> None:
        """At a moment of a step."""
        self.fleet.interrupted(name, self.random.randint(0, 400))

    def disk_full(self, name: str) -> None:
        """At a commit of a step."""

        def fails() -> None:
            if self.fleet.moments.names[-1] == "commit":
                raise sqlite3.OperationalError("database or disk is full")

        self.fleet.interrupted(name, self.random.randint(0, 120), fails)

    def clock(self, name: str) -> None:
        """One step by a clock that is wrong."""
        now = self.fleet.now
        self.fleet.now += self.random.choice((-HOUR, -30 * HOUR, 600, 2 * HOUR, 24 * HOUR))
        self.ahead |= {(name, slot) for slot in range(now // HOUR - 1, self.fleet.now // HOUR + 1)}
        self.fleet.go(name)
        self.fleet.now = now

    def cut_off(self, name: str) -> None:
        """Until the site has luck again."""
        self.fleet.view(name).fails = StoreBusyError

    def partition(self, name: str) -> None:
        """A third of all."""
        del name
        for one in self.random.sample(self.names, len(self.names) // 3):
            self.fleet.view(one).fails = StoreBusyError

    def rekey(self, name: str) -> None:
        """The disk is lost."""
        self.fleet.end()
        self.ended.setdefault(name, set()).add(max(self.slots_of(name), default=0))
        (self.fleet.folder / name).mkdir(exist_ok=True)
        self.fleet.rekey(name)
        self.happened["new key"] += 1

    def rolled_back(self, name: str) -> None:
        """An older state of a day ago comes back: its site stops, and gets a new key."""
        backup = self.fleet.copy(name, f"{name}-backup")
        self.fleet.copies.pop(backup)
        self.fleet.go(name)
        self.fleet.end(name)
        place = self.fleet.folder / name
        place.rename(self.fleet.folder / f"{name}-gone-{self.happened['rolled back']}")
        (self.fleet.folder / backup).rename(place)

    def copied(self, name: str) -> None:
        """A copy runs beside its site for some hours, or until one of them stops."""
        other = self.fleet.copy(name, f"{name}-copy")
        self.fleet.view(other).faults = STORE
        now = self.fleet.now
        for _ in range(4):
            self.fleet.now += HOUR
            self.fleet.go(other, name)
        self.fleet.now = now
        self.fleet.end(other)

    def asked(self, name: str) -> None:
        """A question about everything: the first is answered, others are refused by the budget."""
        del name
        self.fleet.ask(mean("pool", nonce=str(self.happened["asked"])))

    def restart(self, name: str) -> None:
        """The process ends in good order."""
        self.fleet.end(name)

    # ---- the end

    def rest(self) -> None:
        """Faults are over."""
        for view in self.fleet.views.values():
            view.settle()
            view.faults, view.fails = StoreFaults(), None
        for hour in range(REST + 3):
            self.fleet.now += HOUR if hour < REST else 0
            self.right.now = self.fleet.now
            for name in ("desk", *self.names):
                self.step(name)
            while self.replaced:
                self.rekey(self.replaced.pop())

    def slots_of(self, name: str) -> dict[int, bytes]:
        """What a site has released of the stream."""
        stream = self.fleet.asked[0].digest
        return self.fleet.checker.opened.get((name, Kind.POOL, stream), {})

    def missing(self, name: str) -> Counter[str]:
        """Readings that were not released, and why."""
        slots, meter, found = self.slots_of(name), self.fleet.sources[name], Counter[str]()
        before = 0
        for slot in range(min(slots, default=0), self.fleet.now // HOUR - 1):
            if slot in slots:
                before = slot
            elif not meter.has(slot):  # type: ignore[attr-defined]
                found["no reading"] += 1
            elif before in self.ended.get(name, ()):
                found["between two keys"] += 1
            else:
                found["a clock was ahead" if (name, slot) in self.ahead else "lost"] += 1
        return found

    def figures(self, seconds: float) -> dict[str, Any]:
        """What is written down; raises for what should not be."""
        fleet, checker = self.fleet, self.fleet.checker
        stream = fleet.asked[0]
        digests, answers, charges, size = set(), set(), 0, 0
        lost: Counter[str] = Counter()
        for name in self.names:
            with fleet.open(name) as site:
                charges += site.ledger.verify()
                board = site.seat().board
                size += site.file.path.stat().st_size
            posted = next(one for one in questions_on(board) if one.terms == stream.digest)
            found = pooled(board, posted.question)
            assert found is not None
            answers.add((found.steps, found.sites, found.draws))
            digests.add(
                frozenset(
                    (t, k, r.data) for t, ks in board.registers.items() for k, r in ks.items()
                )
            )
            lost += self.missing(name)
        opened = sum(len(slots) for slots in checker.opened.values())
        return {
            "sites": len(self.names), "hours": self.hours, "steps": self.happened.pop("step"),
            "releases": len(checker.numbers), "slots opened": opened, "charges in ledgers": charges,
            "opened twice": checker.faults["twice"], "not charged": checker.faults["charged"],
            "overspent": checker.faults["budget"], "noise shared": checker.faults["shared"],
            "headers without a ledger": checker.faults["kept"],
            "slots not released": dict(lost), "lost": lost["lost"],
            "different answers": len(answers), "different boards": len(digests),
            "faults": dict(sorted(self.happened.items())),
            "faults of the store": dict(
                sum((view.happened for view in fleet.views.values()), Counter())
            ),
            "bytes a site and hour": round(self.bytes / (len(self.names) * (self.hours + REST))),
            "calls a site and hour": round(self.calls / (len(self.names) * (self.hours + REST)), 1),
            "objects in the store": len(fleet.objects),
            "bytes in the store": sum(map(len, fleet.objects.values())),
            "site.db, MB, all": round(size / 1e6, 1),
            "largest memory, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
            "seconds": round(seconds, 1),
        }  # fmt: skip


FAULTS: dict[str, Callable[[Year, str], None]] = {
    "kill": Year.kill, "disk full": Year.disk_full, "clock": Year.clock, "cut off": Year.cut_off,
    "partition": Year.partition, "re-keyed": Year.rekey, "rolled back": Year.rolled_back,
    "copied": Year.copied, "asked": Year.asked, "restart": Year.restart,
}  # fmt: skip
NEVER = (
    "opened twice", "not charged", "overspent", "noise shared", "headers without a ledger", "lost",
)  # fmt: skip


def year(sites: int, hours: int, seed: int = 28, often: float = 1.0) -> dict[str, Any]:
    """Run it in a folder of its own; faults come so much more often than in a year."""
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        made = Year(Path(name) / "fleet", sites, hours, seed, patch)
        made.chances = {what: chance * often for what, chance in made.chances.items()}
        try:
            return made.run()
        finally:
            made.fleet.end()


def main(arguments: list[str]) -> int:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description="a year of a fleet in virtual time")
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--often", type=float, default=1.0)
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    given = parser.parse_args(arguments)
    found = year(given.sites, given.hours, often=given.often)
    print(json.dumps(found, indent=1))
    if given.record:
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        RECORD.write_text(json.dumps({"machine": machine, "year": found}, indent=1) + "\n")
    return int(any(found[what] for what in NEVER) or found["different answers"] > 1)


__all__ = ["NEVER", "Year", "year"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
