"""Masked agents over a network: one result for all, whoever is late, absent or without a reading."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import pytest

from tests.agents.masked.network import LOSSY, OPTIONS, SLOW, MaskedNetwork
from veilsum.agents.events import (
    Contribute,
    Contribution,
    Deadline,
    Leave,
    NoMoreReadings,
    Send,
    Started,
)
from veilsum.agents.masked.actions import Publish
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.links import RecordLinks
from veilsum.agents.masked.records import Masked, SignedRecord, Withdraw
from veilsum.agents.messages import RecordExchange
from veilsum.agents.protocol import Options
from veilsum.agents.runtime.log import level_of
from veilsum.testing import Faults


def finished(run: MaskedNetwork, labels: Any = None) -> None:
    """All have the same result, to the bit."""
    run.check()
    labels = labels or run.terms.labels
    assert {run.agents[label].outcome.reason for label in labels} == {"sum"}
    estimates = {run.agents[label].outcome.estimate for label in labels}
    assert len(estimates) == 1
    covered = [run.agents[label].outcome.coverage for label in labels]
    assert len({(found.readings, found.draws) for found in covered}) == 1
    assert len(estimates.pop()) == run.terms.parameters.dimension


@pytest.mark.parametrize("graph", ["complete:5", "ring:6", "star:6", "path:5"])
def test_all_get_the_same_sum(graph: str) -> None:
    run = MaskedNetwork(graph)
    run.start()
    run.all_contribute()
    assert run.run(60)
    finished(run)
    assert all(len(found) == 1 for found in run.conclusions.values())
    first = run.terms.labels[0]
    (done,) = run.ends[first]
    assert done.coverage.complete
    summed = run.conclusions[first][0].summed
    assert summed is not None
    total = sum(run.statistic(label, 1)[0] for label in run.terms.labels)
    noise = sum(kept.ledger.noise[run.terms.sid(1, 0, 0)][0] for kept in run.kept.values())
    assert summed.totals[0] == total + noise
    assert done.estimate[0] == (total + noise) * 0.5 / len(run.terms.labels)
    assert all(kept.ledger.charged == run.terms.parameters.noise_cost for kept in run.kept.values())


def test_all_settle_and_fall_silent() -> None:
    run = MaskedNetwork("ring:6")
    run.start()
    run.all_contribute()
    assert run.run(60)
    run.run(20, until_done=False)
    assert all(run.agent(label).settled for label in run.terms.labels)
    assert set(run.agent("0").links_status().values()) == {"done"}
    sent = run.messages
    run.run(300, until_done=False)
    assert run.messages == sent


@pytest.mark.parametrize("compares", [True, False])
def test_loss_repetition_and_reordering_cost_only_time(
    compares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: without comparisons what is lost is lost, and somebody never has a result."""
    if not compares:
        monkeypatch.setattr(RecordLinks, "compare", lambda *_: False)
    for seed in range(4):
        run = MaskedNetwork("ring:6", faults=LOSSY, seed=seed)
        run.start()
        run.all_contribute()
        if not compares:
            done = run.run(100)
            assert not done or {one.outcome.reason for one in run.agents.values()} != {"sum"}
            continue
        assert run.run(100), seed
        finished(run)


def test_a_start_after_the_end_says_that_it_shows_what_was_before() -> None:
    """With the same nonce: a new reading at its source is not taken, which nobody else would say."""
    run = MaskedNetwork("ring:6")
    run.start()
    run.all_contribute()
    assert run.run(60)
    before = run.agent("3").estimate
    assert not [one for _, one in run.reports if "earlier start" in one.text]
    run.crash("3")
    run.restart("3")
    said = [(who, one) for who, one in run.reports if "earlier start" in one.text]
    ((who, report),) = said
    assert (who, report.kind, report.estimate) == ("3", "readings", before)
    assert "all sites need a new nonce" in report.text
    assert level_of(report.kind) == "warning"


def test_a_member_without_a_reading_finds_the_result() -> None:
    run = MaskedNetwork("ring:6")
    run.start()
    run.all_contribute(without="3")
    run.feed("3", NoMoreReadings())
    assert run.run(60)
    finished(run)
    assert run.agent("3").coverage.missing == ("3",)
    assert run.kept["3"].ledger.charged == 0
    assert run.drawn["3"] == 0


def test_a_member_that_starts_after_the_others_are_done_finds_the_result() -> None:
    run = MaskedNetwork("ring:6")
    run.start(*"01245")
    run.all_contribute(without="3")
    run.run(60)
    run.contribute("3")
    run.start("3")
    assert run.run(60)
    finished(run)
    assert (
        run.drawn["3"] == 0
    )  # its contribution is of no use any more, and nothing is drawn for it


def test_an_absent_member_is_left_out() -> None:
    run = MaskedNetwork("complete:5")
    run.kill("4")
    run.start(*"0123")
    run.all_contribute()
    assert run.run(100)
    finished(run, "0123")
    assert run.agent("0").coverage.missing == ("4",)


def test_queries_come_one_after_the_other() -> None:
    run = MaskedNetwork("ring:5", queries=4, faults=Faults(drop=0.1, delay=(0.01, 0.03)))
    run.start()
    for query in (1, 2, 3, 4):
        for label in run.terms.labels:
            run.contribute(label, query, readings=1 + query % 3)
    assert run.run(300)
    finished(run)
    for label in run.terms.labels:
        found = [one.query for one in run.conclusions[label]]
        assert found == [1, 2, 3, 4]
        assert run.agent(label).round == 4
    sums = list(run.agent("0").queries.sums.values())
    readings = sum(sum(one.readings) for one in sums)
    assert readings == 5 * (2 + 3 + 1 + 2)
    assert run.agent("0").estimate[1] == sum(one.totals[1] for one in sums) * 0.5 / readings
    assert run.agent("0").coverage.readings == (8,) * 5


def test_a_member_can_take_part_in_some_queries_only() -> None:
    run = MaskedNetwork("complete:5", queries=3)
    run.start()
    for query in (1, 2, 3):
        run.all_contribute(query, without="2" if query == 2 else "")
    assert run.run(300)
    finished(run)
    assert run.agent("0").coverage.readings == (3, 3, 2, 3, 3)


def test_an_open_ended_agent_is_done_when_there_are_no_more_readings() -> None:
    run = MaskedNetwork("complete:5", queries=0)
    run.start()
    for query in (1, 2):
        run.all_contribute(query)
    for label in run.terms.labels:
        run.feed(label, NoMoreReadings())
    assert run.run(100)
    finished(run)
    assert {one.outcome.round for one in run.agents.values()} == {2}


def test_a_member_that_comes_back_after_many_queries_goes_on_with_the_present_one() -> None:
    """Records of the last 8 queries are held; what is older is lost to a late member, and said so."""
    run = MaskedNetwork("complete:5", queries=14)
    run.start(*"0123")
    for query in range(1, 13):
        run.all_contribute(query)
    run.run(400, until_done=False)
    assert run.agent("0").round == 12
    run.start("4")
    run.run(60, until_done=False)
    assert run.agent("4").round == 12
    assert [one.query for one in run.conclusions["4"] if one.summed] == list(range(5, 13))
    assert [one.query for one in run.conclusions["4"] if not one.summed] == [1, 2, 3, 4]
    assert {one.reason for one in run.conclusions["4"] if not one.summed} == {"late"}
    for query in (13, 14):
        run.all_contribute(query)
    assert run.run(100)
    run.check()
    assert run.agent("4").coverage.readings == (10, 10, 10, 10, 2)
    assert run.agent("0").coverage.readings == (14, 14, 14, 14, 2)
    assert run.agent("4").queries.sums.items() <= run.agent("0").queries.sums.items()


def until_prepared(label: str, queries: int = 1) -> MaskedNetwork:
    """Five agents, until one of them has prepared its value."""
    run = MaskedNetwork("complete:5", queries=queries)
    run.start()
    run.all_contribute()
    while not any(e.stage is Stage.PREPARED for e in run.kept[label].ledger.entries(1)):
        run.run(0.01, until_done=False)
        assert run.network.now < 100
    return run


def test_who_leaves_says_that_it_withdrew_only_when_its_value_is_gone() -> None:
    """R1: WITHDRAWN is durable before Withdraw, also on the way out."""
    run = until_prepared("4")
    ledger = run.kept["4"].ledger
    run.feed("4", Leave())
    (entry,) = ledger.entries(1)
    assert (entry.stage, entry.prepared) == (Stage.WITHDRAWN, None)
    assert [one.record for one in run.said["4"] if isinstance(one.record, Withdraw)] == [
        Withdraw(entry.sid, "4", entry.rho)
    ]
    assert ledger.charged == ledger.reserved == 0

    failing = until_prepared("4")
    failing.kept["4"].ledger.fuse = "before"
    failing.feed("4", Leave())  # its process ends at the write
    failing.run(5, until_done=False)
    assert not [one for one in failing.said["4"] if isinstance(one.record, Withdraw)]


@pytest.mark.parametrize("timer", ["proposal", "view", "attempt"])
def test_a_query_that_was_skipped_is_left_whatever_timer_of_it_still_runs(timer: str) -> None:
    """The ledger concludes it: a further view of it would be refused, and end the process."""
    run = until_prepared("4", queries=14)
    agent, ledger = run.agent("4"), run.kept["4"].ledger
    session = agent.session
    assert session is not None
    drawn = run.drawn["4"]
    agent.queries.skip_to(3)
    assert agent.queries.followed(1) is session
    ledger._write = lambda *_: pytest.fail("a step of a query that is concluded")  # type: ignore[method-assign]
    actions = [*agent.handle(Deadline(f"{timer}/1")), *session.receive([])]
    assert run.drawn["4"] == drawn
    assert not [one for one in actions if isinstance(one, Publish)]
    assert session.reason == "late"


def test_a_neighbour_that_lies_about_its_queries_makes_nobody_skip_any() -> None:
    class Liar(MaskedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            if host.label == "4" and isinstance(action, Send):
                message: Any = action.message
                if isinstance(message, RecordExchange):
                    action = Send(message._replace(concluded=10))
            super().perform(host, action)

    run = Liar("complete:5", queries=14)
    run.start()
    run.all_contribute(1, without="4")
    run.run(100, until_done=False)
    assert {run.agent(label).round for label in "0123"} == {1}
    assert all(len(run.agent(label).queries._followed) <= 1 + 2 + 4 for label in "0123")
    run.check()


def test_the_same_bits_after_a_partition() -> None:
    run = MaskedNetwork("ring:6", absent=1)
    run.start()
    run.network.partition("012", "345")
    run.all_contribute()
    run.run(50, until_done=False)
    assert not any(one.done for one in run.agents.values())  # neither half is a roster
    run.network.heal()
    assert run.run(300)
    finished(run)


def test_who_leaves_is_waited_for_by_nobody() -> None:
    run = MaskedNetwork("complete:5")
    run.start()
    run.all_contribute()
    run.run(0.2, until_done=False)
    run.feed("2", Leave())
    run.feed("2", Deadline("resend"))
    assert run.agent("2").reason == "left"
    assert run.agent("2").settled
    assert run.run(100)
    finished(run, "0134")


def test_nobody_begins_before_a_neighbour_has_said_what_it_remembers() -> None:
    run = MaskedNetwork("complete:5")
    run.start("0")
    run.contribute("0")
    run.run(10, until_done=False)
    assert not run.agent("0").gathered
    assert run.drawn["0"] == 0
    run.start("1")
    run.run(5, until_done=False)
    assert run.agent("0").gathered
    assert not run.agent("0").confirmed
    assert run.drawn["0"] == 1


def test_a_contribution_shows_nothing() -> None:
    given = Contribute(Contribution(1, (4711, 4712), 1))
    assert "471" not in repr(given)
    run = MaskedNetwork("complete:5")
    run.start()
    run.feed("0", given)
    agent = run.agent("0")
    shown = f"{agent!r} {agent.queries!r} {agent.session!r} {agent.queries.__dict__!r}"
    assert "471" not in re.sub(r"0x[0-9a-f]+", "", shown)  # addresses may have any digits
    assert agent.to_bytes() == b""


@pytest.mark.parametrize(
    ("graph", "most"), [("ring:12", 60), ("random-geometric:30", 80), ("star:30", 40)]
)
def test_messages_are_few(graph: str, most: int) -> None:
    """Five floods, the Hellos and the comparisons: less than `most` messages on a link, both ways."""

    def per_link(options: Options) -> float:
        run = MaskedNetwork(
            graph, colluders=2, absent=2, options=options, faults=SLOW, in_common=True
        )
        run.start()
        run.all_contribute()
        assert run.run(100)
        finished(run)
        run.run(30, until_done=False)
        return 2 * run.messages / len(run.manifest.links)

    assert per_link(OPTIONS) < most
    if graph.startswith("random"):  # records one by one
        assert per_link(Options(linger=4000.0, tick=1e-6)) > 1.5 * most


def test_started_again_with_everything_concluded() -> None:
    run = MaskedNetwork("complete:5")
    run.start()
    run.all_contribute()
    assert run.run(60)
    before = run.agents["3"].outcome
    run.crash("3")
    run.start("3")
    assert run.agents["3"].outcome == before  # at once, from the ledger
    assert run.drawn["3"] == 1
    run.run(30, until_done=False)
    assert run.agent("3").settled
    assert run.agent("3").handle(Started(9)) is not None


def test_records_of_no_session_leave_nothing_in_memory() -> None:
    """A neighbour may send as many as it likes: they are not verified, and none is kept."""
    run = MaskedNetwork("ring:6")
    run.start()
    agent = run.agent(run.terms.labels[0])
    links = agent.record_links
    link = next(iter(links.links.values()))
    records = agent.queries.records(1)
    assert records is not None
    chunks: list[bytes] = []
    for k in range(40):
        other = k.to_bytes(32, "big")  # no session of the query
        words = tuple(range(2**63 + 1000 * k, 2**63 + 1000 * (k + 1)))
        made = Masked(other, link.peer, bytes(32), bytes(32), bytes(32), words)
        chunks += agent.queries.pool.chunks([SignedRecord(made, bytes(64))])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for chunk in chunks:
            assert links.unknown(link, records, chunk) == []
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 100_000, "one of them takes nearly as much"
