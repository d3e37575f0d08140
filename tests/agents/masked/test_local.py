"""Records between the agents of one process: nothing is lost to one that reads late or stops."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.masked.network import OPTIONS, MaskedNetwork, key_of
from veilsum.agents.events import (
    AgentReport,
    ConcludeQuery,
    Contribute,
    Contribution,
    Deadline,
    LocalBatch,
    PeerDown,
    Received,
    Send,
    Started,
)
from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.links import RecordLinks
from veilsum.agents.masked.local import LocalRecords
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.queries import KEPT
from veilsum.agents.masked.records import Commit, sign
from veilsum.agents.messages import Hello

ALL = "01234"


class Process:
    """All agents of a network in one process, read to by hand; `said` has their other actions."""

    def __init__(self, contributors: str = ALL, **more: Any) -> None:
        self.run = MaskedNetwork("ring:5", in_common=True, **more)
        assert self.run.pool is not None
        self.common = LocalRecords(self.run.pool)
        self.agents = {
            label: self.run.make(self.run.manifest, label, OPTIONS)
            for label in self.run.terms.labels
        }
        self.said: dict[str, list[Any]] = {label: [] for label in ALL}
        for label in self.agents:
            self.common.enter(label)
        for label, agent in self.agents.items():
            agent.connect_locally(self.common)
            self.handle(label, Started(1, start=1, run=bytes(8)))
            if label in contributors:
                self.contribute(label)

    def contribute(self, label: str) -> None:
        given = Contribution(1, self.run.statistic(label, 1), 1)
        self.handle(label, Contribute(given))

    def handle(self, labels: str, event: Any) -> None:
        for label in labels:
            self.said[label] += self.agents[label].handle(event)

    def turns(self, labels: str = ALL) -> None:
        """Let agents read until nothing changes."""
        heard = -1
        while heard != self.common.changes:
            heard = self.common.close_batch()
            self.handle(labels, LocalBatch())

    def sum_of(self, label: str) -> Any:
        return [one.summed for one in self.said[label] if isinstance(one, ConcludeQuery)]


def test_a_sum_without_a_message() -> None:
    process = Process()
    process.turns()
    (found,) = {one for label in ALL for one in process.sum_of(label)}
    assert found.members == (0, 1, 2, 3, 4)
    assert process.run.expected(found) == found.totals
    sent = [one for said in process.said.values() for one in said if isinstance(one, Send)]
    assert sent == []
    assert all(agent.settled for agent in process.agents.values())
    assert process.agents["0"].links_status() == {"1": "done", "4": "done"}


@pytest.mark.parametrize("weakened", [False, True])
def test_an_agent_that_reads_late_finds_the_sum_of_a_view_that_it_did_not_expect(
    monkeypatch: pytest.MonkeyPatch, weakened: bool
) -> None:
    """Weakened: it does not begin anew when it accepts more views."""
    if weakened:
        monkeypatch.setattr(
            RecordSet, "widened", property(lambda _: 0, lambda *_: None), raising=False
        )
    process = Process()
    for timer in ("view", "view", "view", *8 * ("proposal",)):
        process.turns("0123")
        process.handle("0123", Deadline(f"{timer}/1"))
    process.turns("0123")
    (found,) = {one for label in "0123" for one in process.sum_of(label)}
    assert found.view >= 3
    assert found.members == (0, 1, 2, 3)
    assert process.sum_of("4") == []
    process.turns()
    assert (process.sum_of("4") == [found]) is not weakened


@pytest.mark.parametrize("weakened", [False, True])
def test_a_member_without_a_reading_hears_that_there_is_no_sum(
    monkeypatch: pytest.MonkeyPatch, weakened: bool
) -> None:
    if weakened:
        monkeypatch.setattr(RecordLinks, "look_around", lambda _: [])
    process = Process("0123")
    for _ in range(100):
        process.turns("0123")
        process.handle("0123", Deadline("view/1"))
        process.handle("0123", Deadline("attempt/1"))
    assert {process.agents[label].reason for label in "0123"} <= {"views", "attempts"}
    process.turns()
    assert process.agents["4"].reason == ("" if weakened else "missed")


def test_an_agent_that_must_stop_stops_alone() -> None:
    """A record that it signed, and that its ledger does not know, comes into the process."""
    process = Process(absent=1)
    sid = process.run.terms.sid(1, 0, 0)
    unknown = sign(Commit(sid, "2", bytes(32), bytes(32)), process.run.terms.manifest, key_of("2"))
    process.common.add(1, [unknown])
    process.turns()
    assert process.agents["2"].reason == "rolled-back"
    assert process.agents["2"].handle(LocalBatch()) == []
    for _ in range(6):
        process.handle("0134", Deadline("view/1"))
        process.turns()
        process.handle("0134", Deadline("proposal/1"))
        process.turns()
    (found,) = {one for label in "0134" for one in process.sum_of(label)}
    assert found.members == (0, 1, 3, 4)
    assert process.sum_of("2") == []


def test_who_speaks_from_elsewhere_as_an_agent_of_this_process_is_reported() -> None:
    process = Process()
    manifest = process.run.manifest
    hello = Hello("1", "0", 1, 0, manifest.epoch, manifest.digest, manifest.field_digests)
    process.handle("0", Received(hello))
    reports = [one for one in process.said["0"] if isinstance(one, AgentReport)]
    assert [(one.kind, one.peer) for one in reports if one.kind == "rejected"] == [
        ("rejected", "1")
    ]
    process.handle("0", PeerDown("1"))
    assert process.agents["0"].links_status()["1"] == "open"


def test_the_log_is_as_long_as_agents_hold_records() -> None:
    common, signed = (
        LocalRecords(RecordPool(bytes(32), {})),
        sign(Commit(bytes(32), "a", bytes(32), bytes(32)), bytes(32), key_of("a")),
    )
    for label in "ab":
        common.enter(label)
    for query in range(1, KEPT + 3):
        common.add(query, [signed, signed])
        common.close_batch()
        common.note("a", query, done=False)
    assert common.readable() == dict.fromkeys(range(3, KEPT + 3), 1)
    before = common.changes
    common.add(KEPT + 2, [signed])
    common.note("a", KEPT + 2, done=False)
    assert common.changes == before, "nothing is new"
    common.note("a", KEPT + 2, done=True)
    assert (common.changes, common.done) == (before + 1, {"a"})
