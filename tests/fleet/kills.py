"""Real processes of a small fleet, all killed again and again: `python -m tests.fleet.kills`.

Each site is two processes, as two crons that overlap: one steps, the other finds it busy. Everything that is
ever written is first noted in a log beside the site, so that at the end all of it can be checked.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.fleet.fleets import NOW, SmallFleet, mean
from tests.fleet.safety.watching import HOUR, HOURLY, Checker
from tests.fleet.soak import Clock, Meter
from veilsum.errors import StoppedError
from veilsum.fleet import site as site_module
from veilsum.fleet.answers import questions_on
from veilsum.fleet.database import SiteBusyError, SiteFile
from veilsum.fleet.post import Kind
from veilsum.fleet.site import Site
from veilsum.fleet.step import step
from veilsum.fleet.store import FolderStore, Store

SPEED = 4 * HOUR  # seconds of the fleet in a second
LOG, NOTES = "left.log", "outcomes"


class NotingFolder(FolderStore):
    """A folder; what is written there is noted before."""

    def __init__(self, path: Path, log: Path) -> None:
        super().__init__(path, create=True)
        self._log = log

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        with self._log.open("ab") as log:
            log.write(data.hex().encode() + b"\n")
        return super().put(name, data, new)


@dataclass
class KilledFleet:
    """Sites in folders, and a time that all processes share."""

    fleet: SmallFleet
    began: float
    seed: int

    @classmethod
    def made(cls, folder: Path, sites: int, seed: int) -> KilledFleet:
        """New, with a stream and a secure sum asked."""
        board = folder / "board"

        def store(name: str, address: str) -> Store:
            del address
            return NotingFolder(board, folder / "sites" / name / LOG)

        fleet = SmallFleet(
            folder / "sites",
            sites,
            epsilon=2.0,
            store=FolderStore(board, create=True),
            stores=store,
        )
        clock = Clock(2**40)
        for number, name in enumerate(list(fleet.keys)[1:]):
            fleet.sources[name] = Meter(number, clock)  # type: ignore[assignment]
        fleet.ask(mean("pool", schedule=HOURLY))
        fleet.ask(mean("secure-sum", deadline=NOW + 10**6))
        return cls(fleet, time.monotonic(), seed)

    @property
    def now(self) -> int:
        """Of the fleet."""
        return NOW + int((time.monotonic() - self.began) * SPEED)

    def site(self, name: str) -> Site:
        """Open, and durable."""
        fleet = self.fleet
        return Site(
            fleet.folder / name, stores=partial(fleet._stores, name), source=fleet.sources.get(name)
        )

    def forked(self, name: str) -> int:
        """A process that steps until it is killed; its id."""
        process = os.fork()
        if process:
            return process
        outcomes = self.fleet.folder / name / NOTES
        vars(site_module)["SiteFile"] = partial(SiteFile, wait=0.01)
        try:
            while True:
                what = self._stepped(name)
                with outcomes.open("a") as file:
                    file.write(what + "\n")
                time.sleep(0.005)
        finally:
            os._exit(1)

    def _stepped(self, name: str) -> str:
        try:
            with self.site(name) as site:
                step(site, self.now)
        except SiteBusyError:
            return "busy"
        except StoppedError as error:
            return f"stopped: {error}"
        except Exception as error:
            return f"failed: {error!r}"
        return "step"

    def killed(self, rounds: int) -> None:
        """Start all, wait a little, kill all."""
        random = Random(self.seed)
        names = list(self.fleet.keys)
        for _ in range(rounds):
            running = [self.forked(name) for name in names + names]
            time.sleep(random.uniform(0.02, 0.5))
            for process in running:
                os.kill(process, signal.SIGKILL)
            for process in running:
                os.waitpid(process, 0)

    def checked(self) -> dict[str, object]:
        """Some quiet steps; then everything that ever left is looked at."""
        fleet, checker = self.fleet, Checker()
        for _ in range(6):
            for name in fleet.keys:
                with self.site(name) as site:
                    step(site, self.now)
        checker.budget = 2.0
        outcomes: Counter[str] = Counter()
        for name, key in fleet.keys.items():
            checker.sites[key] = name
        with self.site("desk") as site:
            checker.questions = {one.terms: one.question for one in questions_on(site.seat().board)}
        for name in fleet.keys:
            place = fleet.folder / name
            with self.site(name) as site:
                site.ledger.verify()
                for line in (place / LOG).read_bytes().split(b"\n")[:-1]:
                    checker.left(bytes.fromhex(line.decode()), site)
            if (place / NOTES).exists():
                outcomes.update((place / NOTES).read_text().split("\n"))
        slots = [
            (min(found), len(found), max(found))
            for (_, kind, _), found in checker.opened.items()
            if kind is Kind.POOL
        ]
        kept = [one.name for one in fleet.folder.glob("*/keeper-*.key")]
        return {
            "faults": dict(checker.faults), "releases": len(checker.numbers),
            "slots not released": sum(last - first + 1 - count for first, count, last in slots),
            "answers of keepers": sum(kind is Kind.ANSWER for _, kind, _ in checker.opened),
            "keys of keepers left": len(kept), "outcomes": {k: n for k, n in outcomes.items() if k},
        }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Kill, check, print."""
    parser = argparse.ArgumentParser(description="kill all processes of a fleet, again and again")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=28)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        made = KilledFleet.made(Path(name), 3, given.seed)
        start = time.monotonic()
        made.killed(given.rounds)
        found = made.checked() | {"rounds": given.rounds}
        found["seconds"] = round(time.monotonic() - start)
    print(json.dumps(found))
    return int(bool(found["faults"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
