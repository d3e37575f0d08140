"""Masked agents that are killed, rolled back, cloned, lied to, or of another mind."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.agents.masked.network import (
    LOSSY,
    OPTIONS,
    MaskedNetwork,
    key_of,
    manifest_of,
)
from veilsum.agents.events import (
    AgentReport,
    ConcludeQuery,
    Deadline,
    Done,
    Received,
    Send,
    Started,
)
from veilsum.agents.masked import links as links_module
from veilsum.agents.masked.actions import Concluded
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.masked.links import VERIFIED_PER_TICK
from veilsum.agents.masked.observer import Observer
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import Present, SignedRecord, Withdraw, sign
from veilsum.agents.messages import Hello, PeerStatus, RecordExchange
from veilsum.agents.protocol import Agent
from veilsum.agents.runtime.log import level_of

POOL = RecordPool(bytes(32), {})  # only to read and write chunks
WRITES = ("open", "prepare", "ready", "send")


def kinds(run: MaskedNetwork, kind: str) -> list[tuple[str, AgentReport]]:
    return [(label, report) for label, report in run.reports if report.kind == kind]


def agree(run: MaskedNetwork, labels: str = "01234") -> None:
    run.check()
    assert len({run.agent(label).estimate for label in labels}) == 1
    assert run.agent(labels[0]).estimate


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", range(4), ids=WRITES)
def test_a_kill_at_every_write_costs_nothing_more(write: int, when: str) -> None:
    """The same bytes after the restart, and one charge."""
    run = MaskedNetwork("ring:5", seed=write)
    ledger = run.kept["2"].ledger
    writes = 0

    def count(name: str, *arguments: Any) -> Any:
        nonlocal writes
        writes += 1
        ledger.fuse = when if writes == write + 1 else None
        return type(ledger)._write(ledger, name, *arguments)

    ledger._write = count  # type: ignore[method-assign]
    run.start()
    run.all_contribute()
    run.run(3, until_done=False)
    assert run.agents["2"].agent is None  # it was killed
    run.restart("2")
    assert run.run(400)
    agree(run)
    cost = run.terms.parameters.noise_cost
    assert all(kept.ledger.charged <= cost for kept in run.kept.values())


@pytest.mark.parametrize("restores", [True, False])
def test_what_was_sent_is_sent_again_after_a_restart_however_late(
    restores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last value was lost, and its agent had concluded: without `restore` nobody else gets it."""
    if not restores:
        monkeypatch.setattr(Observer, "restore", lambda *_: [])

    class Deaf(MaskedNetwork):
        mute = True

        def perform(self, host: Any, action: Any) -> None:
            if host.label == "4" and isinstance(action, Send) and self.mute:
                message = action.message
                if isinstance(message, RecordExchange) and any(
                    type(one.record).__name__ == "Masked" and one.record.label == "4"
                    for one in POOL.split(message.chunk)
                ):
                    return  # lost
            super().perform(host, action)
            if host.label == "4" and isinstance(action, ConcludeQuery) and self.mute:
                self.mute = False
                self.crash("4")

    run = Deaf("complete:5", options=OPTIONS)
    run.start()
    run.all_contribute()
    run.run(20, until_done=False)
    assert run.kept["4"].concluded
    assert not run.kept["0"].concluded
    run.restart("4")
    run.run(30, until_done=False)
    assert bool(run.kept["0"].concluded) is restores
    run.check()
    if restores:
        agree(run)


@pytest.mark.parametrize("says_present", [True, False])
def test_a_blackout_after_all_have_sent_costs_no_second_attempt(
    says_present: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody restarts; weakened: Present is not remembered, so nobody can check the roster."""
    if not says_present:
        monkeypatch.setattr("veilsum.agents.masked.session.present_of", lambda _: b"")
    run = MaskedNetwork("complete:5", attempts=1)
    run.start()
    run.all_contribute()
    sent = ("sent",) * 5
    while (
        tuple(
            one.ledger.entries(1)[-1].stage.value
            for one in run.kept.values()
            if one.ledger.entries(1)
        )
        != sent
    ):
        assert not any(one.concluded for one in run.kept.values())
        run.step()
    for label in run.terms.labels:
        run.crash(label)
    for label in run.terms.labels:
        if not run.kept[label].concluded:
            run.restart(label)
    done = run.run(200)
    run.check()
    assert done
    if says_present:
        agree(run)
    assert {run.agents[label].outcome.reason for label in "01234"} == (
        {"sum"} if says_present else {"attempts"}
    )


class Hasty(MaskedAgent):
    """Weakened: begins before a neighbour has said what it remembers."""

    gathered = True


@pytest.mark.parametrize("kind", [MaskedAgent, Hasty])
def test_a_ledger_that_was_rolled_back_ends_the_agent_before_it_says_anything(kind: Any) -> None:
    run = MaskedNetwork("ring:5", kind=kind)
    run.start()
    empty = copy.deepcopy(run.kept["2"].ledger)
    run.all_contribute()
    run.run(0.3, until_done=False)
    run.crash("2")
    said = len(run.said["2"])
    assert said
    empty._queries.clear()
    run.kept["2"].ledger = empty
    run.restart("2")
    run.run(3, until_done=False)
    found = run.ends["2"][-1]
    assert found.reason in ("rolled-back", "cloned")
    assert run.agent("2").settled
    assert "nothing more is sent" in kinds(run, found.reason)[0][1].text
    assert (len(run.said["2"]) == said) is (kind is MaskedAgent)
    assert run.agent("2").handle(Deadline("resend")) == []
    assert not any(one.query == 1 for one in run.conclusions["2"])  # its query stays open


def test_a_clone_ends_both() -> None:
    """Two processes with one signing key: whoever sees the other's record first stops, loudly."""
    run = MaskedNetwork("complete:5")
    run.start()
    run.all_contribute()
    run.run(0.2, until_done=False)
    run.feed("0", Deadline("resend"))
    sid = run.terms.sid(1, 0, 0)
    other = sign(Present(sid, "2", bytes(31) + b"\x01"), run.terms.manifest, key_of("2"))
    run.feed("2", exchange(run, "1", "2", [other]))
    assert run.agents["2"].outcome.reason == "cloned"
    assert run.run(100)
    run.check()
    assert {run.agents[label].outcome.reason for label in "0134"} == {"sum"}
    assert any(report.peer == "2" for _, report in kinds(run, "contradiction"))


def test_a_false_refund_is_taken_again_loudly_also_when_the_agent_is_done() -> None:
    run = MaskedNetwork("complete:5")
    run.start()
    run.all_contribute()
    assert run.run(100)
    ledger = run.kept["0"].ledger
    (found,) = ledger.entries(1)
    made = [Withdraw(found.sid, one, found.rho) for one in "123"]
    false = [sign(one, run.terms.manifest, key_of(one.label)) for one in made]
    ledger.refund(1, 0, tuple(false))
    assert not ledger.charged
    run.feed("0", exchange(run, "4", "0", false[:1]))
    assert ledger.charged == run.terms.parameters.noise_cost
    (report,) = [one for who, one in kinds(run, "reinstated") if who == "0"]
    assert "attempt 1 of query 1 was refunded and is taken again: 1 withdrew and" in report.text
    assert level_of(report.kind) == "warning"
    (liar,) = [one for who, one in kinds(run, "contradiction") if who == "0"]
    assert (liar.peer, liar.text[:35]) == ("1", "Withdraw and Masked for one roster ")


def exchange(run: MaskedNetwork, sender: str, to: str, records: list[SignedRecord]) -> Received:
    """A message with records from a neighbour that may be malicious."""
    (chunk,) = POOL.chunks(records)
    link: Any = run.agent(to).record_links.links[sender]
    return Received(RecordExchange(sender, to, link.run, 1, chunk=chunk))


def bad_records(run: MaskedNetwork, count: int) -> list[SignedRecord]:
    """Each would be new, if its signature were good."""
    sid = run.terms.sid(1, 0, 0)
    return [
        SignedRecord(Present(sid, "3", (k + 2).to_bytes(32, "little")), k.to_bytes(64, "big"))
        for k in range(count)
    ]


@pytest.mark.parametrize("bounded", [True, False])
def test_a_hundred_thousand_bad_signatures_cost_little(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tick verifies `VERIFIED_PER_TICK` of a neighbour that sent a bad one; unbounded: all."""
    verified = 0
    count = 100_000 if bounded else 3000
    run = MaskedNetwork("complete:5")
    run.start(*"012")
    run.run(2, until_done=False)
    records = run.agent("0").queries.records(1)
    assert records is not None
    real = type(records).verify

    def verify(self: Any, signed: SignedRecord) -> bool:
        nonlocal verified
        verified += 1
        return real(self, signed)

    monkeypatch.setattr(type(records), "verify", verify)
    if not bounded:
        monkeypatch.setattr(links_module, "VERIFIED_PER_TICK", count)
        run.agent("0").record_links.links["1"].renew()
    made = bad_records(run, 300)
    for _ in range(count // 300):
        run.feed("0", exchange(run, "1", "0", made))
    if not bounded:
        assert verified > 2500
        return
    assert verified <= 1 + VERIFIED_PER_TICK
    assert run.agent("0").record_links.links["1"].bad == verified
    assert 1 <= len(kinds(run, "rejected")) <= 2
    report = kinds(run, "rejected")[0][1]
    assert report.peer == "1"
    assert "bad signature" in report.text
    run.start(*"34")
    run.all_contribute()
    assert run.run(100)  # the neighbour is still served, and the others are not affected
    agree(run)


def test_bad_records_are_not_passed_on() -> None:
    run = MaskedNetwork("path:5")
    run.start()
    run.run(2, until_done=False)
    run.feed("1", exchange(run, "0", "1", bad_records(run, 5)))
    here = exchange(run, "0", "1", bad_records(run, 1)).message
    assert isinstance(here, RecordExchange)
    run.feed("1", Received(here._replace(chunk=b"\0\0\0\x09nonsense.")))
    run.run(5, until_done=False)
    assert {(label, report.peer) for label, report in kinds(run, "rejected")} == {("1", "0")}
    assert all(len(run.agent(label).queries.records(1) or ()) == 0 for label in "01234")


@pytest.mark.parametrize("verifies", [True, False])
def test_a_bad_signature_convicts_only_who_sent_it_first(
    verifies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: an agent that forwards before it verifies is convicted in place of the sender."""
    run = MaskedNetwork("path:5")
    run.start()
    run.run(2, until_done=False)
    (forged,) = bad_records(run, 1)
    if not verifies:
        links = run.agent("1").record_links

        def unverified(*_: Any) -> list[SignedRecord]:
            links.push(1, [forged], "0")
            return []

        monkeypatch.setattr(links, "unknown", unverified)
    run.feed("1", exchange(run, "0", "1", [forged]))
    run.run(1, until_done=False)
    convicted = {report.peer for _, report in kinds(run, "rejected")}
    assert convicted == ({"0"} if verifies else {"1"})


def test_another_manifest_is_named_and_not_served() -> None:
    run = MaskedNetwork("complete:5")
    run.agents["4"].manifest = manifest_of("complete:5", epoch=2)
    run.start()
    run.all_contribute()
    assert not run.run(60)
    run.check()
    assert {run.agents[label].outcome.reason for label in "0123"} == {"sum"}
    assert run.agents["4"].done is None
    assert run.agent("0").links_status()["4"] == "mismatched"
    assert set(run.agent("4").links_status().values()) == {"mismatched"}
    found = kinds(run, "mismatch")
    assert {report.peer for label, report in found if label == "4"} == set("0123")
    assert all("differ first in epoch" in report.text for _, report in found)
    assert len(found) == 8  # once each
    assert len(run.agent("4").queries.records(1) or ()) == 0


def test_a_message_of_another_run_is_answered_by_a_hello() -> None:
    run = MaskedNetwork("complete:5")
    run.start(*"01")
    run.run(2, until_done=False)
    agent = run.agent("0")
    message = RecordExchange("1", "0", b"otherrun", 1, done=True)
    sent: Any = [a.message for a in agent.handle(Received(message)) if isinstance(a, Send)]
    assert [type(one) for one in sent] == [Hello]
    assert not agent.record_links.links["1"].done
    assert agent.handle(Received(message)) == []  # once between two ticks
    status = PeerStatus(0, b"12345678")
    old = sent[0]._replace(sender="1", receiver="0", own=status, known=PeerStatus())
    agent.handle(Received(old))
    known = agent.record_links.links["1"].known
    assert known.run != b"12345678"
    second = old._replace(own=PeerStatus(known.start, b"abcdefgh"))
    (report,) = agent.handle(Received(second))
    assert isinstance(report, AgentReport)
    assert "two copies" in report.text


def test_messages_that_nobody_sends_here_are_refused() -> None:
    run = MaskedNetwork("path:5")
    run.start()
    run.run(1, until_done=False)
    agent = run.agent("1")
    for message in (
        RecordExchange("4", "1", b"", 1),
        RecordExchange("0", "2", b"", 1),
        exchange(run, "0", "1", bad_records(run, 1)).message._replace(sender="nobody"),
    ):
        (report,) = agent.handle(Received(message))
        assert isinstance(report, AgentReport)
        assert report.kind == "rejected"
    gossip = Agent(run.manifest, "1")
    gossip.handle(Started(1))
    (report,) = gossip.handle(Received(RecordExchange("0", "1", b"", 1)))
    assert isinstance(report, AgentReport)
    assert "records of a masked sum" in report.text


def test_a_result_of_an_earlier_attempt_replaces_a_later_one() -> None:
    """The value of one member arrives everywhere after a second attempt has succeeded without it."""

    class Withholding(MaskedNetwork):
        held = True

        def perform(self, host: Any, action: Any) -> None:
            message = getattr(action, "message", None)
            if (
                self.held
                and isinstance(message, RecordExchange)
                and any(
                    type(one.record).__name__ == "Masked" and one.record.label == "4"
                    for one in POOL.split(message.chunk)
                )
            ):
                return
            super().perform(host, action)

    run = Withholding("complete:5")
    run.start()
    run.all_contribute()
    run.run(300, until_done=False)
    first = {label: run.agents[label].outcome for label in "0123"}
    assert {done.coverage.missing for done in first.values()} == {("4",)}
    assert run.agents["4"].outcome.coverage.complete  # it had all values of the first attempt
    run.held = False
    run.run(100, until_done=False)
    agree(run)
    assert {run.agents[label].outcome.coverage.complete for label in "01234"} == {True}
    assert [one.summed.attempt for one in run.conclusions["0"] if one.summed] == [1, 0]
    assert isinstance(run.ends["0"][-1], Done)


def test_a_query_that_failed_elsewhere_is_given_up_by_a_late_member() -> None:
    run = MaskedNetwork("complete:5", queries=2)
    run.start(*"0123")
    run.all_contribute(1)
    run.run(0.2, until_done=False)
    for label in "0123":  # the others have given up: nobody is to be waited for
        agent = run.agent(label)
        found: Any = agent.queries.followed(1)
        found.reason = "attempts"
        agent._act(1, [Concluded(None, "attempts")])
    run.start("4")
    for label in "01234":
        run.contribute(label, 2)
    assert run.run(200)
    run.check()
    assert [(one.query, one.reason) for one in run.conclusions["4"]] == [
        (1, "missed"),
        (2, "sum"),
    ]


class WaitsForEqual(MaskedAgent):
    """Weakened variant: a query is over elsewhere only if both ends have the same records of it."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.record_links.covers = self.record_links.is_level  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", [MaskedAgent, WaitsForEqual])
@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_one_that_restarts_after_the_others_gave_up_does_not_wait_for_ever(
    restarts: int, kind: Any
) -> None:
    """Each restart leaves a view; the others do not follow views so far beyond their own."""
    run = MaskedNetwork("complete:5", kind=kind)
    run.start(*"0123")
    run.all_contribute(1, without="4")
    run.run(0.2, until_done=False)
    for label in "012":
        agent = run.agent(label)
        found: Any = agent.queries.followed(1)
        found.reason = "views"
    run.network.partition("3", "0124")
    for _ in range(restarts):
        run.crash("3")
        run.restart("3")
        run.feed("3", Deadline("resend"))
        begin: Any = run.agent("3").queries
        begin.begin()
    for label in "012":
        run.agent(label)._act(1, [Concluded(None, "views")])
    run.network.heal()
    run.run(run.agent("0").options.linger, until_done=False)
    assert bool(run.agent("3").reason) is (kind is MaskedAgent or restarts < 3)


@pytest.mark.parametrize("seed", range(3))
def test_loss_kills_and_partitions_together(seed: int) -> None:
    run = MaskedNetwork("ring:6", faults=LOSSY, seed=seed, absent=1)
    run.start()
    run.all_contribute()
    for step, label in enumerate("240"):
        run.kept[label].ledger.fuse = ("before", "after")[step % 2]
        run.run(3, until_done=False)
        run.network.partition("012", "345") if step == 1 else None
        run.run(4, until_done=False)
        run.network.heal()
        run.network.faults = LOSSY
        if run.agents[label].agent is None:
            run.restart(label)
    assert run.run(2000)
    run.run(100, until_done=False)
    agree(run, "012345")
