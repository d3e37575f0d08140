"""An agent's way of a reading from a source to its ledger, in one process and without a network."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.agents.runtime.test_node import problem
from veilsum.agents.ledger import Ledger, LedgerEntry, read_ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.readings import IterableReadings, Readings
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import Log, Node
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.privacy.accounting import Budget

ROUNDS = 400


def run_agents(
    folder: Path,
    source: Readings,
    until: Callable[[int], bool],
    seconds: float = 30.0,
    meanwhile: Callable[[Node], None] | None = None,
    probe: Callable[[str], None] = lambda _: None,
    budget: float = 1e6,
) -> str:
    """Three agents; agent 0 reads the source until enough was released. What was logged."""
    made = problem("learn", rounds=ROUNDS)
    manifest = Manifest.of(made, "sources")
    text = io.StringIO()
    node = Node(
        manifest,
        MemoryNetwork().transport(),
        options=Options(deadline=0.3, resend=0.1, tick=0.01),
        log=Log(text, "debug"),
    )
    try:
        for label in "012":
            ledger = Ledger.open(
                folder / f"{label}.ledger",
                manifest,
                label,
                Budget(budget if label == "0" else 1e6),
                device=b"d" * 32,
                durability="process",
                probe=probe if label == "0" else lambda _: None,
            )
            readings = source if label == "0" else IterableReadings([5.0] * ROUNDS)
            node.add(label, ledger, ReleaseMechanism(manifest, made, label), readings)
        node.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until(node.agents["0"].ledger.releases):
            if meanwhile is not None:
                meanwhile(node)
            node.run(seconds=0.05)
    finally:
        node.close()
    return text.getvalue()


def entries(folder: Path) -> list[LedgerEntry]:
    return list(read_ledger(folder / "0.ledger").entries)


def taken(source: Readings, count: int, seconds: float = 20.0) -> list[Any]:
    """Readings until there are so many."""
    found: list[Any] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        value = source.next()
        if isinstance(value, float | tuple):
            found.append(value)
            source.acknowledge()
        else:
            time.sleep(0.005)
    return found
