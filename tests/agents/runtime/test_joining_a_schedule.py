"""A member that joins a stream with a schedule: its slots are those of the clock, not of its rounds."""

import io
from pathlib import Path
from typing import Any

import pytest

from murmura.agents.ledger import Ledger
from murmura.agents.manifest import Manifest
from murmura.agents.protocol import Options
from murmura.agents.release import ReleaseMechanism
from murmura.agents.runtime import Log, Node
from murmura.agents.runtime.schedule import SlotSchedule
from murmura.agents.transport.memory import MemoryNetwork
from murmura.privacy.accounting import Budget
from tests.agents.runtime.test_node import problem
from tests.agents.runtime.test_schedule import TimedReadings
from tests.agents.runtime.test_slots import HOUR, NOON, SetClocks

HOURS = 24


class Stream:
    """Agents in nodes of their own, which start when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clocks = folder, SetClocks(NOON + 60)
        self.made = problem("learn", rounds=HOURS)
        self.manifest = Manifest.of(self.made, "late", rounds=0, every=HOUR, grace=600.0)
        self.network = MemoryNetwork()
        self.nodes: dict[str, Any] = {}

    def start(self, label: str) -> None:
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
        readings = [(NOON + k * HOUR, 1.0, NOON + k * HOUR) for k in range(HOURS)]
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
    stream = Stream(tmp_path)
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
