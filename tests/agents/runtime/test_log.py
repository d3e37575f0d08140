"""Logs are JSON lines, of a bounded rate for each kind and peer."""

import heapq
import io
import itertools
import json
from typing import Any

import pytest

from veilsum.agents.events import AgentReport, Deadline, PeerDown, SetTimer, Started
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.runtime import log as logs
from veilsum.agents.runtime.log import BURST, LONGEST_INTERVAL, MOST_KEYS, MOST_TEXTS, Log
from veilsum.agents.runtime.observability import Metrics, Observability
from veilsum.errors import AgentError
from veilsum.scenario import Scenario

DAY = 86_400.0
ALONE_A_DAY = 200_000  # bytes


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_a_json_object_without_empty_fields() -> None:
    stream = io.StringIO()
    log = Log(stream, "info")
    log.write("peer", "north", "south is up", peer="south", round=None)
    log.write("round", "north", "too quiet")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "kind": "peer", "agent": "north", "peer": "south", "text": "south is up",
    }  # fmt: skip


def test_what_peers_do_wrong_is_a_warning() -> None:
    stream = io.StringIO()
    log = Log(stream, "warning")
    log.write("refused", "north", "not a member", peer="mallory")
    log.write("peer", "north", "south is up")
    assert json.loads(stream.getvalue())["peer"] == "mallory"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(AgentError, match="one of debug, info, warning, error; found 'loud'"):
        Log(level="loud")


def test_lines_that_repeat_are_written_at_doubling_intervals_with_a_count() -> None:
    stream, clock = io.StringIO(), Clock()
    log = Log(stream, clock=clock)
    for second in range(10_000):
        clock.now = float(second)
        log.write("peer", "a", f"b is up, {second}", peer="b")
        if second == 100:
            log.write("peer", "a", "another peer is not affected", peer="c")
    own = [line for line in lines(stream) if line["peer"] == "b"]
    at = [int(line["text"].split()[-1]) for line in own]
    gaps = [after - before for before, after in itertools.pairwise(at)][BURST - 1 :]
    assert at[:BURST] == list(range(BURST))
    assert gaps == [min(2**k, 3600) for k in range(len(gaps))]
    assert [line.get("omitted", 0) for line in own[BURST:]] == [gap - 1 for gap in gaps]
    assert sum(line["peer"] == "c" for line in lines(stream)) == 1
    log.close()
    assert sum(line.get("omitted", 0) for line in lines(stream)) + len(own) == 10_000
    log.close()
    assert len(lines(stream)) == len(own) + 2


def test_after_an_hour_of_silence_lines_are_written_again() -> None:
    stream, clock = io.StringIO(), Clock()
    log = Log(stream, clock=clock)
    for k in range(3):
        clock.now = k * (LONGEST_INTERVAL + 1)
        for _ in range(100):
            log.write("peer", "a", "up")
    assert len(lines(stream)) == 3 * BURST


def test_the_end_and_what_debugging_asks_for_are_always_written() -> None:
    stream = io.StringIO()
    log = Log(stream, "debug")
    for _ in range(50):
        log.write("done", "a", "done")
        log.write("round", "a", "")
    assert len(lines(stream)) == 100


def test_strangers_without_number_take_bounded_memory_and_few_lines() -> None:
    stream, metrics = io.StringIO(), Metrics()
    seen = Observability(Log(stream), metrics)
    metrics.know("a", ["b"])
    for k in range(5 * MOST_KEYS):
        seen.refused("a", f"stranger {k}", "nonsense")
    seen.refused("a", "b", "nonsense")
    assert len(lines(stream)) <= MOST_KEYS + BURST
    assert seen.counts["refused"] == 5 * MOST_KEYS + 1
    series = [s.labels["peer"] for f in metrics.registry.collect() for s in f.samples
              if s.name == "veilsum_messages_refused_total"]  # fmt: skip
    assert sorted(series) == ["b", "unknown"]


def test_other_texts_about_a_peer_are_news_up_to_a_number_of_them() -> None:
    stream, clock = io.StringIO(), Clock()
    log = Log(stream, clock=clock)
    for k in range(100):
        log.write("refused", "a", f"mass of round {k}: it fell", peer="b")
    assert len(lines(stream)) == BURST
    log.write("refused", "a", "an unknown session", peer="b")
    assert len(lines(stream)) == BURST + 1
    for k in range(10_000):
        log.write("refused", "a", "x" * (k % 190) + "y", peer="b")
    assert len(lines(stream)) <= BURST * (MOST_TEXTS + 1)


def alone_for_a_day(asynchronous: bool) -> int:
    """Bytes that an agent without any neighbour writes in a day, by its own timers."""
    problem = (
        Scenario.parse("""
        network = {graph = "ring:50", weights = "lazy-metropolis"}
        family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
        signals = {draw = {mu = 0.5}}
        privacy = {protect = "signal", epsilon = 1.0}
        algorithm = {name = "learn", rounds = 100}
    """)
        .build()
        .problem
    )
    manifest = Manifest.of(problem, "ring", asynchronous=asynchronous)
    stream, clock = io.StringIO(), Clock()
    seen = Observability(Log(stream, clock=clock))
    agent = Agent(manifest, "0", Options(deadline=20.0, resend=60.0, tick=10.0))
    timers: list[tuple[float, int, str]] = []
    current: dict[str, int] = {}
    tickets = itertools.count()

    def perform(event: Any) -> None:
        for action in agent.handle(event):
            if isinstance(action, SetTimer):
                current[action.timer] = ticket = next(tickets)
                heapq.heappush(timers, (clock.now + action.seconds, ticket, action.timer))
            elif isinstance(action, AgentReport):
                seen.report("0", action)

    perform(Started(1))
    while timers and timers[0][0] < DAY:
        clock.now, ticket, name = heapq.heappop(timers)
        if current.get(name) == ticket:
            perform(Deadline(name))
        if ticket % 100 == 0:  # the transport tries again and again
            seen.peer("0", "1", up=False, links=0)
            perform(PeerDown("1"))
    return len(stream.getvalue().encode())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_alone_for_a_day_writes_little(asynchronous: bool) -> None:
    assert 0 < alone_for_a_day(asynchronous) < ALONE_A_DAY / 5


def repeated_for_a_day() -> int:
    """Bytes of a day in which an agent says every ten seconds that it waits."""
    stream, clock = io.StringIO(), Clock()
    seen = Observability(Log(stream, clock=clock))
    for second in range(0, int(DAY), 10):
        clock.now = float(second)
        seen.report("0", AgentReport("alone", 3, "", "no neighbour answers; round 3 waits"))
        seen.peer("0", "1", up=second % 20 == 0, links=0)
    return len(stream.getvalue().encode())


def test_reports_that_repeat_for_a_day_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < repeated_for_a_day() < ALONE_A_DAY / 5
    monkeypatch.setattr(logs, "BURST", 10**9)  # weakened: every line is written
    assert repeated_for_a_day() > ALONE_A_DAY
