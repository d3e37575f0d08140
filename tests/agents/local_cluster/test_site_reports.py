"""What workers report of each agent for a page: what changed, bounded, and nothing without a page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from veilsum.agents import (
    IterableReadings,
    Ledger,
    Manifest,
    MemoryTransport,
    Node,
    ReleaseMechanism,
)
from veilsum.agents.local_cluster.cluster import LaunchOptions, prepare
from veilsum.agents.local_cluster.site_reports import LEFT_OUT, MOST_TRAILS, SiteReports
from veilsum.agents.local_cluster.worker import Worker
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.privacy import Budget
from veilsum.scenario import Scenario

SCENARIO = Scenario.parse("""
name = "ring"
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 20}
""")


@pytest.fixture
def finished(tmp_path: Path) -> Any:
    """The reports of four agents that ran to their last round."""
    problem = SCENARIO.build().problem
    manifest = Manifest.of(problem, "ring")
    held: list[SiteReports] = []
    node = Node(
        manifest,
        MemoryTransport(MemoryNetwork()),
        on_report=lambda agent, report: (
            held[0].record(agent, report) if report.kind == "round" else None
        ),
    )
    for label in manifest.certificates:
        ledger = Ledger.open(tmp_path / f"{label}.ledger", manifest, label, Budget(1.0))
        mechanism = ReleaseMechanism(manifest, problem, label)
        node.add(label, ledger, mechanism, IterableReadings([0.5]))
    held.append(SiteReports(node, problem.family))
    node.start()
    assert node.run(until=lambda: node.all_done, seconds=30)
    yield held[0]
    node.close()


def test_the_last_report_has_every_agent_and_every_round(finished: SiteReports) -> None:
    found = finished.take(all_done=True)
    assert set(found["sites"]) == {"0", "1", "2", "3"}
    assert set(found["trail"]) == set(range(1, 21))
    assert all(0 <= v <= 1 for row in found["trail"].values() for v in row.values())
    for status in found["sites"].values():
        assert (status["state"], status["round"]) == ("done", 20)
        assert status["half_width"][0] > 0  # computed at the end
        assert not set(status) & set(LEFT_OUT)
    assert finished.take(all_done=True) == {"sites": {}, "trail": {}}  # only what has changed


@pytest.mark.parametrize(
    ("size", "pause"), [(50, 0.25), (MOST_TRAILS, 0.25), (201, 1.005), (2000, 10)]
)
def test_many_agents_are_reported_less_often_and_without_their_rounds(
    size: int, pause: float
) -> None:
    reporter = SimpleNamespace(receivers=[])
    manifest = SimpleNamespace(members=range(size), masked=False)
    node: Any = SimpleNamespace(manifest=manifest, reporter=reporter)
    reports = SiteReports(node, SCENARIO.build().problem.family)
    assert reports.pause == reporter.least_interval == pytest.approx(pause)
    assert reporter.intervals is False  # not while rounds are running
    report: Any = SimpleNamespace(round=1, estimate=(0.5,))
    reports.record("0", report)
    assert bool(reports.take()["trail"]) == (size <= MOST_TRAILS)


@pytest.mark.parametrize("watched", [False, True])
def test_without_a_page_no_status_is_computed(watched: bool, tmp_path: Path) -> None:
    from dataclasses import replace

    plan, _, _ = prepare(SCENARIO, LaunchOptions(processes=1, insecure=True), tmp_path)
    assert plan.watched is False
    worker = Worker(replace(plan, watched=watched), 0)
    try:
        assert bool(worker.node.reporter.receivers) == watched
        assert (worker.sites is not None) == watched
    finally:
        worker.node.close()
        worker.node.observability.log._stream.close()
