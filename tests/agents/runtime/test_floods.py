"""Names and manifests without number: few lines, few series, and all of them counted."""

import io
import json
import random
from typing import Any

import pytest

from tests.agents.masked.network import MaskedNetwork
from tests.agents.protocol.cases import small
from veilsum.agents.events import AgentReport, Received, Started
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, PeerStatus, RecordExchange
from veilsum.agents.observers.publisher import StatusPublisher
from veilsum.agents.protocol import Agent
from veilsum.agents.runtime import log as logs
from veilsum.agents.runtime.log import BURST, MOST_TEXTS, Log
from veilsum.agents.runtime.observability import Metrics, Observability

MANY = 20_000
FEW_LINES = BURST * (MOST_TEXTS + 2)
FEW_BYTES = 100_000
TERMS = small(rounds=50)


class Clock:
    """Two minutes in which everything happens."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 120 / MANY
        return self.now


class Flooded:
    """An agent with its log and metrics, as a node has them."""

    def __init__(self, agent: Any, label: str, neighbours: Any) -> None:
        self.stream, self.metrics, self.agent, self.label = io.StringIO(), Metrics(), agent, label
        self.seen = Observability(Log(self.stream, clock=Clock()), self.metrics)
        self.seen.know(label, neighbours)

    def take(self, message: Any) -> None:
        for action in self.agent.handle(Received(message)):
            if isinstance(action, AgentReport):
                self.seen.report(self.label, action)

    @property
    def lines(self) -> Any:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    @property
    def series(self) -> int:
        return sum(len(family.samples) for family in self.metrics.registry.collect())

    def refused(self, peer: str) -> float:
        labels = {"agent": self.label, "peer": peer}
        name = "veilsum_messages_refused_total"
        return float(self.metrics.registry.get_sample_value(name, labels) or 0)


def flooded() -> Flooded:
    agent = Agent(TERMS, "0")
    agent.handle(Started(1))
    return Flooded(agent, "0", TERMS.link_weights("0"))


def invented(rng: Any, k: int) -> str:
    return f"{rng.randbytes(6).hex()}-{k}"


def names(found: Flooded, many: int = MANY) -> Flooded:
    rng = random.Random(1)
    for k in range(many):
        sender = invented(rng, k)
        kinds = (
            Hello(sender, "0", 1, 1, 1, TERMS.digest, ()),
            CumulativeMass(sender, "0", 1, 1, 1, 0, (1,), 1),
            Attendance(sender, "0", 1, b""),
            RecordExchange(sender, "0", b"r" * 8, 1),
        )
        found.take(kinds[k % 4])
    return found


def test_invented_senders_make_few_lines_and_one_series() -> None:
    found = names(flooded())
    before = flooded().series
    assert len(found.lines) <= FEW_LINES
    assert len(found.stream.getvalue()) < FEW_BYTES
    assert found.series <= before + 2  # of unknown names: how many, and since when
    assert found.refused("unknown") == MANY
    assert found.lines[0]["peer"] == invented(random.Random(1), 0)  # the first are named
    found.seen.close()
    written = sum(line.get("omitted", 0) for line in found.lines)
    assert written + len([x for x in found.lines if "more of these" not in x["text"]]) == MANY


def test_a_log_that_counts_each_name_by_itself_would_be_caught(monkeypatch: Any) -> None:
    monkeypatch.setattr(Observability, "_group", lambda *_: None)
    monkeypatch.setattr(logs, "MOST_KEYS", 10**9)
    assert len(names(flooded(), 4000).lines) > 10 * FEW_LINES


def manifests(found: Flooded) -> Flooded:
    """A neighbour that says Hello under another manifest each time."""
    rng = random.Random(2)
    for _ in range(MANY):
        fields = tuple(rng.randbytes(8) for _ in range(3))
        hello = Hello("1", "0", 1, 1, 1, rng.randbytes(32), fields)
        found.take(hello._replace(own=PeerStatus(1, b"r" * 8)))
    return found


def test_random_manifests_make_few_lines_and_no_series() -> None:
    found, before = manifests(flooded()), flooded().series
    assert 0 < len(found.lines) <= FEW_LINES
    assert len(found.stream.getvalue()) < FEW_BYTES
    assert found.series <= before + 2
    assert {line["peer"] for line in found.lines} == {"1"}


def test_so_it_is_for_members_of_a_masked_sum() -> None:
    run = MaskedNetwork("ring:5")
    run.start("1")
    found = Flooded(run.agent("1"), "1", run.manifest.link_weights("1"))
    before, rng = found.series, random.Random(3)
    for k in range(MANY // 2):
        found.take(RecordExchange(invented(rng, k), "1", b"r" * 8, 1, chunk=rng.randbytes(40)))
        found.take(Hello("2", "1", 1, 1, 1, rng.randbytes(32), (rng.randbytes(8),)))
    assert 0 < len(found.lines) <= 2 * FEW_LINES
    assert len(found.stream.getvalue()) < 2 * FEW_BYTES
    assert found.series <= before + 4
    assert found.refused("unknown") == MANY // 2


@pytest.mark.parametrize("what", ["hosts", "names"])
def test_so_it_is_where_observers_connect(what: str) -> None:
    stream, rng = io.StringIO(), random.Random(4)
    publisher = StatusPublisher.__new__(StatusPublisher)  # its refusals need no socket
    publisher.agent, publisher._log = "0", Log(stream, clock=Clock())
    for _ in range(MANY):
        host = f"fe80::{rng.randbytes(2).hex()}:{rng.randbytes(2).hex()}"
        name = f"observer {rng.randbytes(6).hex()} is not allowed here"
        publisher._refuse(*((host, "no TLS") if what == "hosts" else ("10.0.0.1", name)))
    assert 0 < len(stream.getvalue().splitlines()) <= FEW_LINES
    assert len(stream.getvalue()) < FEW_BYTES
