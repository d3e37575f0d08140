"""What neighbours remember of a member ends it if its ledger was rolled back or copied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.masked.network import LOSSY, MaskedNetwork, manifest_of
from veilsum.agents.events import AgentReport, Deadline, Done, Received, Send, Started
from veilsum.agents.masked import links as links_module
from veilsum.agents.masked.remembered import OwnStatus, doubt, follow
from veilsum.agents.messages import Hello, PeerStatus

BEYOND = 1 << 20  # starts that `ledger restore` adds


def next_run(before: MaskedNetwork, rolled_back: str = "", starts: int = 0) -> MaskedNetwork:
    """The next epoch with the same ledgers; one of them may be an older copy."""
    graph = f"ring:{len(before.terms.labels)}"
    run = MaskedNetwork(manifest=manifest_of(graph, epoch=2))
    for label, host in run.agents.items():
        old = before.agents[label]
        run.kept[label].before = [one.sums for one in before.released_by(label)]
        host.memory, host.starts = dict(old.memory), old.starts
        if label == rolled_back:
            run.kept[label].before.pop()
            host.starts = starts
    return run


def concluded() -> MaskedNetwork:
    run = MaskedNetwork("ring:5")
    run.start()
    run.all_contribute()
    assert run.run(60)
    run.run(5, until_done=False)
    return run


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("starts", [0, BEYOND])
def test_a_ledger_that_was_rolled_back_takes_no_part_in_the_next_run(
    starts: int, checks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have restarted under a new manifest; weakened: nobody compares, and it takes part."""
    if not checks:
        monkeypatch.setattr(OwnStatus, "judge", lambda *_: None)
        monkeypatch.setattr(links_module, "doubt", lambda *_: "")
    run = next_run(concluded(), "2", starts)
    run.start()
    run.all_contribute()
    assert run.run(100)
    run.check()
    assert bool(run.said["2"]) is not checks
    assert run.agents["2"].outcome.reason == ("rolled-back" if checks else "sum")
    assert {run.agents[label].outcome.reason for label in "0134"} == {"sum"}
    if checks:
        (text,) = [r.text for label, r in run.reports if (label, r.kind) == ("2", "rolled-back")]
        assert "remembers 1 releases of this name, and the ledger here has 0" in text
        assert run.agents["0"].outcome.coverage.missing == ("2",)


def test_whole_ledgers_go_on_in_the_next_run() -> None:
    run = next_run(concluded())
    run.start()
    run.all_contribute()
    assert run.run(100)
    assert {host.outcome.reason for host in run.agents.values()} == {"sum"}
    assert all(host.outcome.coverage.complete for host in run.agents.values())


@pytest.mark.parametrize("says", [True, False])
def test_neighbours_remember_every_value_that_was_sent(
    says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: a member that has not compared counts as one that has sent nothing more."""
    if not says:
        monkeypatch.setattr(links_module, "follow", lambda k, o, _: follow(k, o, False))
    run = MaskedNetwork("ring:5", queries=2, faults=LOSSY, seed=3)
    run.start()
    for query in (1, 2):
        run.all_contribute(query)
    assert run.run(300)
    run.run(30, until_done=False)
    for host in run.agents.values():
        assert {known.releases for known in host.memory.values()} == ({2} if says else {0})


def test_a_value_is_announced_before_it_is_sent() -> None:
    announced: list[bool] = []

    class Listening(MaskedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            super().perform(host, action)
            if isinstance(action, Send) and host.label == "2" and self.sent("2"):
                announced.append(self.hello)
            if isinstance(action, Send) and isinstance(action.message, Hello):
                self.hello = self.hello or (host.label == "2" and action.message.own.releases == 1)

        hello = False

    run = Listening("ring:5")
    run.start()
    run.all_contribute()
    assert run.run(60)
    assert announced
    assert announced[0]


def copy_of(run: MaskedNetwork, label: str, start: int) -> tuple[Any, list[Any]]:
    """A second process with a copy of a ledger, and what it says first."""
    made = run.make(run.manifest, label, run.options)
    released = tuple(run.released_by(label))
    secret = run.agents[label].secret
    return made, made.handle(Started(1, released, secret, start, b"c" * 8))


def hand(run: MaskedNetwork, copy: Any, said: list[Any], to: str) -> list[Any]:
    """Pass what a copy says to a neighbour, and the neighbour's answers back to it."""
    answers = []
    for action in said:
        if isinstance(action, Send) and action.message.receiver == to:
            found = run.agent(to).handle(Received(action.message))
            for one in found:
                run.perform(run.agents[to], one)
            answers += [a.message for a in found if isinstance(a, Send)]
    return [action for message in answers for action in copy.handle(Received(message))]


def test_the_original_learns_of_a_copy_that_started_later() -> None:
    run = MaskedNetwork("ring:5")
    run.start()
    run.run(5, until_done=False)
    copy, said = copy_of(run, "2", start=2)
    answers = hand(run, copy, said, "1")
    run.run(10, until_done=False)
    assert run.agent("2").reason == ""  # one Hello may be wrong
    hand(run, copy, answers, "1")
    run.run(10, until_done=False)
    assert run.agents["2"].outcome.reason == "cloned"
    texts = [
        report.text for label, report in run.reports if (label, report.kind) == ("2", "cloned")
    ]
    assert "it knows start 2 of this ledger, here is start 1" in texts[0]
    assert "stop all but one" in texts[0]
    assert run.agent("2").handle(Deadline("resend")) == []
    assert copy.reason == ""  # one of them goes on


def test_a_copy_of_the_same_start_is_refused_and_learns_why() -> None:
    run = MaskedNetwork("ring:5")
    run.start()
    run.run(5, until_done=False)
    copy, said = copy_of(run, "2", start=1)
    found = hand(run, copy, said, "1")
    (done,) = [a for a in found if isinstance(a, Done)]
    assert done.reason == "cloned"
    assert ("1", "2") in {(n, r.peer) for n, r in run.reports if r.kind == "conflicting-releases"}
    run.all_contribute()
    assert run.run(60)
    assert {host.outcome.reason for host in run.agents.values()} == {"sum"}


@pytest.mark.parametrize(
    "claim",
    [
        PeerStatus(1, b"r" * 8, b"p" * 8, 5, b"h" * 16, b"p" * 8),
        PeerStatus(9, b"r" * 8, b"p" * 8),
        PeerStatus(2, b"r" * 8, b"p" * 8),
    ],
)
def test_a_false_claim_of_a_neighbour_ends_nobody(claim: PeerStatus) -> None:
    run = next_run(concluded())
    run.start()
    run.run(2, until_done=False)
    link = run.agent("1").record_links.links["2"]
    hello = Hello("1", "2", 1, 1, 2, run.manifest.digest, run.manifest.field_digests,
                  own=run.agent("1").record_links.own.status, known=claim)  # fmt: skip
    (report,) = run.agent("2").handle(Received(hello))
    assert isinstance(report, AgentReport)
    assert (report.kind, report.peer) == ("rejected", "1")
    assert "which it does not prove" in report.text
    assert link.open
    run.all_contribute()
    assert run.run(60)
    assert run.agents["2"].outcome.reason == "sum"


def test_what_a_neighbour_doubts() -> None:
    known = PeerStatus(4, b"r" * 8, b"", 3, b"h" * 16)
    assert "after start 4" in doubt(known, known._replace(start=3, run=b"x" * 8))
    assert "two copies" in doubt(known, known._replace(run=b"x" * 8))
    later = known._replace(start=5, run=b"x" * 8)
    assert doubt(known, later) == doubt(PeerStatus(), later) == ""
    assert "older copy" in doubt(known, later._replace(releases=2))
    assert "not those remembered" in doubt(known, later._replace(head=b"g" * 16))
    assert doubt(known, known._replace(releases=2)) == ""  # an old message of the same run
    more = later._replace(releases=7, head=b"g" * 16)
    assert follow(known, more, certain=False)[:2] == (5, b"x" * 8)
    assert follow(known, more, certain=False).releases == 3
    assert follow(known, more, certain=True) == more


def test_nothing_begins_before_a_neighbour_has_said_what_it_remembers() -> None:
    """Records are level, but the neighbour has not named this run."""
    run = MaskedNetwork("ring:5")
    run.start("1")
    made = run.make(run.manifest, "2", run.options)
    made.handle(Started(1, start=1, run=b"r" * 8))
    hello = Hello("1", "2", 1, 0, 1, run.manifest.digest, run.manifest.field_digests,
                  own=PeerStatus(1, b"n" * 8))  # fmt: skip
    made.handle(Received(hello))
    link = made.record_links.links["1"]
    records = made.queries.records(1)
    assert records is not None
    link.level[1] = records.digests()
    made.record_links._check_confirmed(link, 1)
    assert not made.gathered
    made.handle(Received(hello._replace(known=PeerStatus(1, b"r" * 8))))
    assert made.gathered
