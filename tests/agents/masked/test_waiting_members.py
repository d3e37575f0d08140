"""Members that come when all others have restarted, that only observe, and what is said meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.masked.network import MaskedNetwork, manifest_of
from veilsum.agents.events import Deadline, NoMoreReadings, Persist, Restarted
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.masked.archive import from_archive, to_archive
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import Masked
from veilsum.agents.protocol import Options
from veilsum.agents.results import WITHOUT
from veilsum.agents.wire import WireError


def texts(run: MaskedNetwork, label: str, kind: str) -> list[str]:
    return [report.text for who, report in run.reports if (who, report.kind) == (label, kind)]


def restarted_near(late: str, **more: Any) -> MaskedNetwork:
    """Everybody but one has the sum; its two neighbours have restarted since, the rest are gone."""
    run = MaskedNetwork("ring:6", **more)
    others = [label for label in run.terms.labels if label != late]
    run.start(*others)
    for label in others:
        run.contribute(label)
    run.run(60, until_done=False)
    assert {run.agents[label].outcome.reason for label in others} == {"sum"}
    near = run.manifest.link_weights(late)
    for label in others:
        run.crash(label) if label in near else run.kill(label)
    for label in near:
        run.restart(label)
    return run


class Forgetful(MaskedAgent):
    """Weakened: keeps nothing."""

    def to_bytes(self) -> bytes:
        return b""


@pytest.mark.parametrize("kind", [MaskedAgent, Forgetful])
def test_a_late_member_finds_the_sum_though_its_neighbours_have_restarted(kind: Any) -> None:
    """Weakened: nobody has the records any more, and the reason says so."""
    run = restarted_near("3", kind=kind)
    run.start("3")
    run.contribute("3")
    run.run(60, until_done=False)
    run.check()
    found = run.agents["3"].outcome
    assert run.kept["3"].ledger.charged == 0
    assert found.reason == ("sum" if kind is MaskedAgent else "missed")
    if kind is MaskedAgent:
        assert found.estimate == run.agents["2"].outcome.estimate
        assert found.coverage.missing == ("3",)
    else:
        assert "no new query is needed" in WITHOUT["missed"]


def test_what_is_kept_is_public_and_enough() -> None:
    run = MaskedNetwork("complete:5")
    run.start()
    run.all_contribute()
    assert run.run(60)
    agent = run.agent("0")
    state = agent.to_bytes()
    query, records = from_archive(RecordPool(bytes(32), {}), state)
    assert query == 1
    assert sum(isinstance(one.record, Masked) for one in records) == 5
    held = agent.queries.records(1)
    assert held is not None
    assert {one.record for one in records} == {one.record for one in held}
    assert to_archive(1, bytes(32), held) < state  # only the Presents of another session
    with pytest.raises(WireError):
        from_archive(agent.queries.pool, b"abc")


def test_a_state_that_cannot_be_read_is_reported_and_the_agent_goes_on() -> None:
    run = MaskedNetwork("complete:5")
    made = run.make(run.manifest, "0", run.options)
    actions = made.handle(Restarted(1, b"\0" * 8 + b"\0\0\0\x09nonsense.", start=1, run=b"r" * 8))
    assert any("cannot be read" in getattr(one, "text", "") for one in actions)
    assert made.reason == ""
    assert not any(isinstance(one, Persist) for one in actions)


@pytest.mark.parametrize("linger", [20.0, 4000.0])
def test_a_member_without_a_reading_stays_until_there_is_a_result(linger: float) -> None:
    """It links two halves, and the last of the others comes much later than `linger`."""
    run = MaskedNetwork("path:5", options=Options(linger=linger))
    run.start(*"0123")
    run.all_contribute(without="2 4")
    run.feed("2", NoMoreReadings())
    run.run(3 * run.manifest.lost_after, until_done=False)
    assert run.agents["2"].done is None
    run.start("4")
    run.contribute("4")
    assert run.run(200)
    run.check()
    assert {host.outcome.reason for host in run.agents.values()} == {"sum"}
    assert run.agents["2"].outcome.coverage.missing == ("2",)
    assert run.agents["2"].outcome.coverage.meets(4)


def test_a_member_without_a_reading_that_hears_nobody_ends_after_lost_after() -> None:
    run = MaskedNetwork("path:5")
    run.start("2")
    run.feed("2", NoMoreReadings())
    run.run(run.manifest.lost_after / 2, until_done=False)
    assert run.agents["2"].done is None
    run.run(run.manifest.lost_after, until_done=False)
    assert run.agents["2"].outcome.reason == "readings"


def test_who_is_missing_is_said_after_seconds_and_then_every_minute() -> None:
    run = MaskedNetwork("complete:6")
    run.start(*"0124")
    for label in "0124":
        run.contribute(label)
    run.run(4, until_done=False)
    assert not texts(run, "0", "gathering")
    run.run(8, until_done=False)
    assert texts(run, "0", "gathering") == [
        "waiting for 2 of 6 members: 3 (never heard), 5 (never heard)"
    ]
    agent = run.agent("0")
    assert not agent.assembled
    assert agent.coverage.absent == ("3", "5")
    run.run(240, until_done=False)
    assert 3 <= len(texts(run, "0", "gathering")) <= 6
    run.start("3")
    run.contribute("3")
    run.run(2, until_done=False)
    assert agent.assembled
    assert agent.coverage.absent == ("5",)
    run.kill("5")
    assert run.run(100)
    assert agent.coverage.absent == ("5",)


def test_it_is_said_when_the_missing_are_no_longer_waited_for() -> None:
    times = MaskedNetwork("ring:5").times._replace(proposal=600.0, view=660.0)
    run = MaskedNetwork("ring:5", times=times)
    run.start(*"0123")
    run.all_contribute(without="4")
    run.run(12, until_done=False)
    (text,) = texts(run, "1", "gathering")
    assert text == (
        "waiting for 1 of 5 members: 4 (never heard); enough are present, 600 s later they go on "
        "without the missing"
    )


def test_a_member_that_falls_silent_is_named() -> None:
    """Its Ready is there, its value is not."""

    class Withholding(MaskedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            message = getattr(action, "message", None)
            chunk = getattr(message, "chunk", b"")
            if host.label == "4" and any(
                isinstance(one.record, Masked) for one in RecordPool(bytes(32), {}).split(chunk)
            ):
                return
            super().perform(host, action)

    run = Withholding("complete:5")
    run.start()
    run.all_contribute()
    run.run(20, until_done=False)
    assert texts(run, "0", "deadline") == ["attempt 1 waits for masked values of 4"]


def test_a_stream_is_silent_while_it_waits_for_readings() -> None:
    run = MaskedNetwork("complete:5", queries=2)
    run.start()
    run.all_contribute()
    run.run(300, until_done=False)
    assert not [report for _, report in run.reports if report.kind in ("gathering", "deadline")]
    assert all(run.agent(label).assembled for label in run.terms.labels)


def test_a_neighbour_with_another_manifest_is_named_as_such() -> None:
    run = MaskedNetwork("complete:5")
    run.agents["4"].manifest = manifest_of("complete:5", epoch=2)
    run.start("0", "1", "4")
    run.all_contribute()
    run.run(12, until_done=False)
    assert "4 (its manifest differs in epoch)" in texts(run, "0", "gathering")[0]
    run.feed("0", Deadline("resend"))
    assert replace(run.agent("0").coverage).absent == ("2", "3", "4")
