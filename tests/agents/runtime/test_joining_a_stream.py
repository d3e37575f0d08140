"""A member that joins a stream: its readings are those of now, and not as many as others have had."""

import io
from pathlib import Path
from typing import Any

import pytest

from tests.agents.runtime.test_node import problem
from tests.agents.runtime.test_schedule import TimedReadings
from tests.agents.runtime.test_slots import HOUR, NOON, SetClocks
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import Log, Node, scheduler
from veilsum.agents.runtime.schedule import SlotSchedule
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.privacy.accounting import Budget

HOURS = 24


class Stream:
    """Agents in nodes of their own, which start when the test says so."""

    def __init__(self, folder: Path, **schedule: Any) -> None:
        self.folder, self.clocks = folder, SetClocks(NOON + 60)
        self.made = problem("learn", rounds=HOURS)
        self.manifest = Manifest.of(self.made, "late", rounds=0, **schedule)
        self.network = MemoryNetwork()
        self.nodes: dict[str, Any] = {}

    def start(self, label: str, first: int = 0) -> None:
        """Start an agent whose source has readings from this hour on."""
        node = Node(
            self.manifest, self.network.transport(),
            options=Options(deadline=0.05, resend=0.02, tick=0.01), log=Log(io.StringIO()),
        )  # fmt: skip
        node._scheduler.clocks = self.clocks.clocks
        node._scheduler.poll = 0.002
        ledger = Ledger.open(
            self.folder / f"{label}.ledger", self.manifest, label, Budget(1000.0),
            clock=self.clocks.clocks,
        )  # fmt: skip
        readings = [(NOON + k * HOUR, 1.0, NOON + k * HOUR) for k in range(first, HOURS)]
        source = TimedReadings(self.clocks, readings)
        node.add(label, ledger, ReleaseMechanism(self.manifest, self.made, label), source)
        self.nodes[label] = node
        node.start()

    def run(self, hours: int) -> None:
        """A slot in four steps, with time for messages, deadlines included, after each."""
        for _ in range(4 * hours):
            self.clocks.pass_(HOUR / 4)
            for _ in range(30):
                for node in self.nodes.values():
                    node.run(seconds=0.002)

    def released(self, label: str) -> int:
        return int(self.nodes[label].agents[label].counts.released)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


@pytest.mark.parametrize("follows", [True, False])
def test_who_joins_in_a_later_round_reads_the_next_slot(
    tmp_path: Path, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: its second reading is due in as many slots as the others have rounds."""
    if not follows:
        monkeypatch.setattr(SlotSchedule, "skip_to", lambda *_: None)
    stream = Stream(tmp_path, every=HOUR, grace=600.0)
    try:
        for label in ("0", "1"):
            stream.start(label)
        stream.run(8)
        assert stream.released("0") >= 6
        stream.start("2")
        stream.run(6)
        assert (stream.released("2") >= 4) == follows
        assert stream.released("2") >= 1
    finally:
        stream.close()


@pytest.mark.parametrize("follows", [True, False])
def test_without_a_schedule_its_next_reading_is_that_of_the_present_round(
    tmp_path: Path, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: it waits for as many readings as the others have had, who go on meanwhile."""
    monkeypatch.setattr(scheduler, "POLL", 0.002)
    if not follows:
        monkeypatch.setattr(scheduler.ReadingScheduler, "_follow_rounds", lambda *_: None)
    stream = Stream(tmp_path)
    try:
        for label in ("0", "1"):
            stream.start(label)
        stream.run(8)
        stream.start("2", first=9)
        stream.run(10)
        late, other = (stream.nodes[label].agents[label] for label in ("2", "0"))
        assert late.counts.released >= 6  # it takes readings in either case,
        assert (late.protocol.round >= other.protocol.round - 2) == follows  # and mixes them in
        numbers = [one.reading for one in late.ledger.released()]
        assert len(numbers) == len(set(numbers)) == late.counts.released
    finally:
        stream.close()
