"""One site of the soak: its machine's clock, its meter, and its agent, which is started again and again.

A kill leaves the ledger as `kill -9` does: the files as they are at that moment, with the write-ahead
log and without the mark that they were closed.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TextIO

from tests.soak.meter import Meter
from tests.soak.record import ReadingRecord, WatchedMechanism
from veilsum.agents.events import AgentReport, Leave
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.runtime import Log, Node
from veilsum.agents.runtime.spool import MemorySpool
from veilsum.agents.transport.memory import MemoryNetwork, MemoryTransport
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Problem
from veilsum.testing import VirtualClock, VirtualTime

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
STEPS = ("checked", "drawn", "written", "committed")  # of a charge, at which an agent is killed
OPTIONS = Options(deadline=4 * DAY, resend=3 * HOUR, tick=2 * HOUR, linger=DAY, poll=50 * MINUTE)


class Killed(BaseException):
    """The process ends here, without any further step."""


class Signalling(MemoryTransport):
    """A transport in memory that says when something has arrived."""

    arrived: Callable[[], None]

    def notify(self, agent: str, arrival: Any) -> None:
        super().notify(agent, arrival)
        self.arrived()


class SoakSite:
    """A site that runs for a year.

    Parameters
    ----------
    label, number : str, int
        Which member it is.
    home : Path
        Folder of all sites.
    time, start : VirtualTime, float
        What passes, and the time of the wall at the beginning.
    epsilon, budget : float
        Of a reading, and for any day.
    most : int
        Readings that its record has room for.
    seed : int
        Decides when it is killed.
    """

    def __init__(
        self, label: str, number: int, home: Path, time: VirtualTime, start: float,
        epsilon: float, budget: float, most: int, seed: int,
    ) -> None:  # fmt: skip
        self.label, self.number, self.time = label, number, time
        self.clock = VirtualClock(time, start)
        self.folder = home / label
        kind = "plain" if number % 25 == 3 else ("timed", "keyed")[number % 2]
        self.meter = Meter(self.folder, kind, self.clock.system)
        self.record = ReadingRecord(label, epsilon, budget, most)
        self.budget = budget
        self.device = bytes([1 + number % 255]) * 32
        self.minute = 2 + (7 * number) % 45  # of the hour, when the meter writes
        self.rng = random.Random(f"{seed} {label}")
        self.node: Node | None = None
        self.log: TextIO | None = None
        self.left = self.full = self.metering = False
        self.dying = ""  # the step of a charge at which it is killed next
        self.counts: Counter[str] = Counter()
        self._booted = 0.0

    @property
    def ledger(self) -> Path:
        return self.folder / "agent.ledger"

    def next_row(self) -> float:
        """When the meter writes next, as time passes: a fixed minute of each hour of its clock."""
        wall = self.clock.wall()
        due = (wall // HOUR) * HOUR + self.minute * MINUTE
        return self.time.now + (due - wall if due > wall else due + HOUR - wall)

    def write(self) -> None:
        """The meter writes a row."""
        self.record.written += 1
        self.meter.write(self.record.written)

    def start(
        self, manifest: Manifest, problem: Problem, network: MemoryNetwork,
        arrived: Callable[[], None],
    ) -> None:  # fmt: skip
        """Start the agent, under these terms."""
        assert self.node is None
        transport = Signalling(network)
        transport.arrived = arrived
        self._booted = self.time.now - self.clock.elapsed()
        clock, self.log = self.clock.system, (self.folder / "log.jsonl").open("a")
        node = Node(
            manifest, transport, options=OPTIONS, clock=clock, on_report=self._reported,
            log=Log(self.log, "info", clock.monotonic, clock.wall),
        )  # fmt: skip
        with ExitStack() as opened:  # a start that fails closes its files
            opened.callback(self.log.close)
            opened.callback(node.close)
            ledger = Ledger.open(
                self.ledger, manifest, self.label, Budget(self.budget), per="day",
                probe=self._probe, device=self.device, clock=clock,
            )  # fmt: skip
            opened.callback(ledger.close)
            if self.full:
                _fill(ledger)
            mechanism = WatchedMechanism(manifest, problem, self.label)
            mechanism.record = self.record
            node.add(self.label, ledger, mechanism, self.meter.source(), MemorySpool())
            node.start()
            opened.pop_all()
        self.node = node
        self.counts["starts"] += 1

    def step(self) -> float | None:
        """Do what is there to do; when there is more, as time passes."""
        if self.node is None:
            return None
        due = self.node.step()
        agent = self.node.agents[self.label]
        if agent.done is not None and agent.done.reason == "left" and not self.left:
            self.left = True
            self.stop()
            return None
        return None if due is None else due + self._booted

    def stop(self) -> None:
        """End the agent in good order."""
        if self.node is not None:
            self._forget(self.node.close)
            self.counts["stops"] += 1

    def fail(self) -> None:
        """End the agent after an error, as a process does that reports it."""
        assert self.node is not None
        with suppress(LedgerError):
            self._forget(self.node.close)

    def kill(self) -> None:
        """End the agent at once."""
        if self.node is not None:
            self._forget(self._abandon)
            self.counts["kills"] += 1

    def leave(self) -> None:
        """Leave for good: the mass is handed over."""
        assert self.node is not None
        self.node.handle(self.label, Leave())

    def fill_disk(self) -> None:
        """From now on no file of the site can grow."""
        self.full = True
        if self.node is not None:
            _fill(self.node.agents[self.label].ledger)

    def _abandon(self) -> None:
        assert self.node is not None
        self.node.transport.close()
        agent = self.node.agents[self.label]
        files = [self.ledger, self.ledger.with_name("agent.ledger-wal")]
        kept = {path: self.folder / f"{path.name}.kept" for path in files if path.exists()}
        for path, copy in kept.items():
            shutil.copyfile(path, copy)
        agent.readings.close()
        agent.ledger._writer.store.close()  # it moves the log away, which a kill does not
        agent.ledger._writer._lock.close()
        for path, copy in kept.items():
            copy.replace(path)

    def _forget(self, end: Callable[[], None]) -> None:
        try:
            end()
        finally:
            self.node = None
            if self.log is not None:
                self.log.close()

    def _probe(self, step: str) -> None:
        if step == "committed":
            self.record.committed(self.time.now)
            self.counts["charges"] += 1
        if step == self.dying:
            self.dying = ""
            self.counts["killed in a charge"] += 1
            raise Killed

    def _reported(self, _: str, report: AgentReport) -> None:
        self.counts[f"report {report.kind}"] += 1
        self.record.report(report)


def _fill(ledger: Ledger) -> None:
    """Have SQLite find the disk full with the next page."""
    db = ledger._writer.store.db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
