"""Agents of a masked sum in one process: the same sum, no messages, and the disk before anything else."""

import sqlite3
import time
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.runtime.masked_sites import Sites, on_grid, terms
from tests.agents.runtime.test_masked_run import BATCHES, STREAM, estimates
from veilsum.agents.ledger import Ledger, read_ledger, verify
from veilsum.agents.ledger.sessions import DiskSessionLedger
from veilsum.agents.masked import masks, rules
from veilsum.agents.masked.local import LocalRecords
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.runtime.local_turns import LocalTurns, Turnstile
from veilsum.errors import LedgerError

READINGS = {str(k): [1.2578125 + k] for k in range(5)}


def processes(folder: Any, groups: Any, *, local: bool = True, **more: Any) -> Any:
    """Every group of agents in a process."""
    made = terms(5, ", absent = 1", gathering=0.3, **more)
    sites = Sites(folder, made, dict(READINGS))
    for group in groups:
        sites.start_together(group, local)
    return sites


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("groups", [["01234"], ["012", "34"], ["0", "123", "4"]])
def test_the_sum_is_the_same_however_agents_are_distributed(
    tmp_path: Any, groups: Any, local: bool
) -> None:
    sites = processes(tmp_path, groups, local=local).finish()
    mechanism = sites.agent("0").release_mechanism
    total = sum(on_grid(mechanism, values) for values in READINGS.values())
    total += sum(given[-1][0] for given in sites.noise.values())
    assert estimates(sites) == {(float(Fraction(total) * Fraction(mechanism.step) / 5).hex(),)}
    for label in READINGS:
        assert sites.agent(label).done.coverage.complete
        assert [e.epsilon for e in read_ledger(tmp_path / f"{label}.ledger").entries] == [1.0]
        assert verify(tmp_path / f"{label}.ledger").ok


def test_there_are_messages_between_processes_only(tmp_path: Any) -> None:
    sent: list[Any] = []
    sites = processes(tmp_path, [])
    usual = sites.network.send

    def send(message: Any) -> None:
        sent.append(message)
        usual(message)

    sites.network.send = send
    for group in ("012", "34"):
        sites.start_together(group, local=True)
    sites.finish()
    assert len(sent) > 20
    assert {("012".find(one.sender) < 0) ^ ("012".find(one.receiver) < 0) for one in sent} == {True}
    assert set(sites.agent("0").protocol.links_status().values()) <= {"done", "open"}


def test_a_pair_in_one_process_is_computed_once(tmp_path: Any, monkeypatch: Any) -> None:
    computed: list[bytes] = []
    usual = masks.EphemeralKey.exchange

    def exchange(self: Any, theirs: bytes) -> bytes:
        computed.append(theirs)
        return usual(self, theirs)

    monkeypatch.setattr(masks.EphemeralKey, "exchange", exchange)
    processes(tmp_path, ["01234"]).finish()
    assert len(computed) == 10


def test_queries_of_a_stream_follow_each_other(tmp_path: Any) -> None:
    stream = {str(k): [(7 * t + 3 * k) % 10 + 0.5 for t in range(12)] for k in range(4)}
    sites = Sites(tmp_path, terms(privacy=BATCHES, algorithm=STREAM), stream)
    sites.start_together("012", local=True)
    sites.start("3")
    sites.finish()
    assert len(estimates(sites)) == 1
    assert sites.agent("0").done.coverage.readings == (8, 8, 8, 8)


def test_an_agent_whose_ledger_is_lost_stops_alone(tmp_path: Any) -> None:
    """What it said before its process ended is known elsewhere."""
    sites = processes(tmp_path, ["012"])
    sites.start("3")
    sites.until(lambda: sites.agent("3").protocol.records_held >= 4)
    sites.nodes["0"].close()
    for path in tmp_path.glob("0.ledger*"):
        path.unlink()
    sites.start_together("012", local=True)
    sites.start("4")
    sites.finish()
    reasons = {label: sites.agent(label).done.reason for label in READINGS}
    assert reasons.pop("0") in ("rolled-back", "cloned")
    assert set(reasons.values()) == {"sum"}
    found = {sites.agent(label).done.estimate for label in "1234"}
    assert len(found) == 1
    assert sites.agent("1").done.coverage.missing == ("0",)


WANTED = {"Present": "opened", "Commit": "prepared", "Ready": "prepared", "Masked": "sent"}


@pytest.mark.parametrize("weakened", [False, True])
def test_what_others_read_is_on_the_disk_before(
    tmp_path: Any, monkeypatch: Any, weakened: bool
) -> None:
    """Looked up in the file by another connection; weakened: PREPARED is in memory alone."""
    early, seen = [], []
    usual = LocalRecords.add

    def add(self: Any, query: int, signed: Any) -> None:
        for one in signed:
            kind, label = one.place[1:]
            if kind in WANTED:
                seen.append(kind)
                with sqlite3.connect(f"file:{tmp_path}/{label}.ledger?mode=ro", uri=True) as file:
                    (stage,) = file.execute("SELECT stage FROM sessions").fetchone()
                file.close()
                if stage != WANTED[kind]:
                    early.append((kind, label, stage))
        usual(self, query, signed)

    def prepare(self: Any, query: int, prepared: Any) -> None:
        self._entries = rules.prepared(query, self._entries, prepared)

    monkeypatch.setattr(LocalRecords, "add", add)
    if weakened:
        monkeypatch.setattr(DiskSessionLedger, "prepare", prepare)
    processes(tmp_path, ["01234"]).finish()
    assert sorted(seen) == sorted(5 * list(WANTED))
    assert bool(early) is weakened


class SlowDisk:
    """A ledger each of whose commits takes a while; counts who works and who waits at once."""

    working = waiting = most_working = most_waiting = 0

    def wait_within(self, waiting: Any) -> None:
        self.within = waiting

    def work(self, agent: Any) -> None:
        SlowDisk.working += 1
        SlowDisk.most_working = max(SlowDisk.most_working, SlowDisk.working)
        time.sleep(0.002)
        SlowDisk.working -= 1
        with agent.ledger.within():
            SlowDisk.waiting += 1
            SlowDisk.most_waiting = max(SlowDisk.most_waiting, SlowDisk.waiting)
            time.sleep(0.05)
            SlowDisk.waiting -= 1
        agent.worked = True


@pytest.mark.parametrize("weakened", ["", "all work at once", "none waits for the disk"])
def test_one_works_at_a_time_while_others_wait_for_the_disk(
    monkeypatch: Any, weakened: str
) -> None:
    if weakened == "all work at once":
        monkeypatch.setattr(Turnstile, "working", lambda _: nullcontext())
    elif weakened:
        monkeypatch.setattr(Turnstile, "waiting", lambda _: nullcontext())
    disk = SlowDisk()
    SlowDisk.working = SlowDisk.waiting = SlowDisk.most_working = SlowDisk.most_waiting = 0
    agents: Any = [SimpleNamespace(ledger=disk, worked=False) for _ in range(12)]
    turns = LocalTurns(agents, LocalRecords(RecordPool(bytes(32), {})))
    turns.all_do(disk.work)
    turns.close()
    assert all(agent.worked for agent in agents)
    assert (disk.most_working == 1) is (weakened != "all work at once")
    assert (disk.most_waiting > 1) is (weakened != "none waits for the disk")


def test_the_error_of_one_agent_is_raised_once_all_have_had_their_turn() -> None:
    agents: Any = [SimpleNamespace(ledger=SlowDisk(), number=k) for k in range(6)]
    turns, worked = LocalTurns(agents, LocalRecords(RecordPool(bytes(32), {}))), []

    def work(agent: Any) -> None:
        if agent.number == 2:
            raise LedgerError("the disk is full")
        worked.append(agent.number)

    with pytest.raises(LedgerError, match="the disk is full"):
        turns.all_do(work)
    assert sorted(worked) == [0, 1, 3, 4, 5]
    agents[2].number = 6
    turns.all_do(work)
    assert len(worked) == 5 + 6, "the right to work was given back"
    turns.close()


def test_a_failed_commit_is_an_error_and_nothing_is_said(tmp_path: Any, monkeypatch: Any) -> None:
    sites = processes(tmp_path, [])
    said: set[str] = set()
    usual = LocalRecords.add

    def add(self: Any, query: int, signed: Any) -> None:
        said.update(one.record.label for one in signed)
        usual(self, query, signed)

    monkeypatch.setattr(LocalRecords, "add", add)

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    usual_open = Ledger.open

    def opened(path: Any, *arguments: Any, **more: Any) -> Any:
        ledger = usual_open(path, *arguments, **more)
        if path.name == "2.ledger":
            monkeypatch.setattr(ledger._writer.store, "commit", full)
        return ledger

    monkeypatch.setattr(Ledger, "open", opened)
    with pytest.raises(LedgerError, match=r"2\.ledger"):
        sites.start_together("01234", local=True)
    sites.nodes["2"].close()
    assert said == set("0134")
