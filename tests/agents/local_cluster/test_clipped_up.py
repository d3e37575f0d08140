"""`veilsum up` with clipped rounds, over sockets: the simulator's numbers, and its reference."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.agents.local_cluster.replay import releases
from veilsum.agents import LaunchOptions, up
from veilsum.agents.local_cluster.cluster import prepare, result_of
from veilsum.scenario import Scenario
from veilsum.simulation import clipped_gossip

TEXT = """
name = "clipped"
seed = 5
network = {graph = "florentine-families", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 20.0, bounds = [0.0, 100.0]}
signals = {draw = {mu = 50.0}}
privacy = {protect = "signal", epsilon = 2.0}
algorithm = {name = "average", rounds = 60}
agents = {clip = 1.0}
"""


def scenario() -> Scenario:
    return Scenario.parse(TEXT, name="clipped")


def test_agents_come_to_the_numbers_of_the_simulator(tmp_path: Path) -> None:
    options = LaunchOptions(processes=3, deadline=30.0, timeout=120.0, folder=tmp_path / "run")
    found = up(scenario(), options).result
    problem = found.problem
    plan, _, _ = prepare(scenario(), LaunchOptions(processes=3, insecure=True), tmp_path / "plan")
    released = releases(replace(plan, folder=str(tmp_path / "run")), problem)[:, 0]
    trace: Any = found.trace
    private = trace.private[:, :, 0, 0, 0]
    expected = clipped_gossip(problem.network, released, 1.0, 60)
    np.testing.assert_allclose(private, expected, rtol=0, atol=1e-9)
    noiseless = trace.noiseless[:, :, 0, 0]
    reference = clipped_gossip(problem.network, noiseless[0], 1.0, 60)
    np.testing.assert_allclose(noiseless, reference, rtol=0, atol=1e-12)
    errors = np.linalg.norm(reference - trace.target[0, 0], axis=1)
    np.testing.assert_allclose(trace.decentralisation[:, 0], errors)
    np.testing.assert_allclose(trace.privacy[:, 0, 0], np.linalg.norm(private - reference, axis=1))


def test_the_reference_of_plain_rounds_would_be_another() -> None:
    """A variant that forgets the radius calls clipping a cost of privacy."""
    problem = scenario().with_(replicas=1).build().problem
    start = problem.family.columns(problem.source.signals(1, 1))[:, 0]
    clipped = clipped_gossip(problem.network, start[:, 0], 1.0, 60).T[:, :, None]
    right, wrong = (result_of(problem, clipped, "one", clip) for clip in (1.0, 0.0))
    assert right.errors.privacy < 1e-9
    assert wrong.errors.privacy > 10.0
