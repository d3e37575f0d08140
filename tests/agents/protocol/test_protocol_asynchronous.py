"""The asynchronous algorithm: no rounds in common, and the mean of all that was released."""

from typing import Any

import numpy as np
import pytest

from tests.agents.protocol.cases import FLORENTINE, drawn, problem, released, small, whole
from veilsum import networks
from veilsum.agents.events import Leave, Persist, Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.transport.memory import Faults
from veilsum.errors import AgentError
from veilsum.privacy import NetworkDP
from veilsum.simulation import simulate
from veilsum.testing import SimulatedNetwork

LOSSY = Faults(drop=0.3, duplicate=0.2, reorder=0.2, delay=(0.001, 0.2))


def mean_of(run: Any) -> Any:
    return sum(r.sums[0] for p in run.agents.values() for r in p.released) / sum(
        r.weight for p in run.agents.values() for r in p.released
    )


def agree(run: Any, tolerance: Any = 1e-9) -> Any:
    return all(abs(e - mean_of(run)) <= tolerance for (e,) in run.estimates().values())


@pytest.mark.thorough
@pytest.mark.parametrize("faults", [Faults(), LOSSY], ids=["no loss", "loss"])
def test_errors_are_those_of_learn_and_the_mean_is_exact_once_readings_stop(faults: Any) -> None:
    rounds = 60
    todo = problem("learn", FLORENTINE, rounds=rounds)
    manifest = Manifest.of(todo, asynchronous=True, rounds=0)
    run = SimulatedNetwork(manifest, faults=faults, seed=3)
    run.start()
    for t in range(1, rounds + 1):
        for label, value in zip(run.agents, drawn(todo, t), strict=True):
            run.release(label, [released(manifest, t, value)])
        run.run(0.1, until_done=False)
    run.run(0.3, until_done=False)
    trace = simulate(todo)
    errors = [e - trace.target[0, 0] for (e,) in run.estimates().values()]
    assert np.linalg.norm(errors) <= 2 * trace.total[-1, 0, 0] + 0.1
    run.network.heal()
    run.run(120, until_done=False)
    assert agree(run)


@pytest.mark.thorough
def test_late_joiners_and_different_speeds_just_work() -> None:
    run = SimulatedNetwork(small(net=FLORENTINE, asynchronous=True), faults=LOSSY, seed=5)
    labels = list(run.agents)
    run.start(*labels[:-2])
    for t in range(1, 31):
        for k, label in enumerate(labels[:-2]):
            if t % (k + 1) == 0:
                number = len(run.agents[label].released) + 1
                run.release(label, [released(run.manifest, number, float(k))])
        run.run(0.5, until_done=False)
    for label in labels[-2:]:
        run.start(label)
        run.release(label, [released(run.manifest, 1, 50.0)])
    run.run(300, until_done=False)
    assert agree(run)
    assert all(r.kind != "rejected" for _, r in run.reports)


@pytest.mark.thorough
def test_leaving_hands_over_and_the_rest_hold_the_mean() -> None:
    net = networks.lazy_metropolis(networks.complete(6))
    run = SimulatedNetwork(small(net=net, asynchronous=True), faults=LOSSY, seed=6)
    labels = list(run.agents)
    for k, label in enumerate(labels):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    run.run(2, until_done=False)
    for label in labels[:2]:
        run.feed(label, Leave())
    run.run(300, until_done=False)
    assert {run.agents[k].outcome.reason for k in labels[:2]} == {"left"}
    rest = [run.running[k] for k in labels[2:]]
    mean = mean_of(run)
    assert all(abs(agent.estimate[0] - mean) <= 1e-9 for agent in rest)
    totals = run.totals()
    assert totals["released"][1] == whole(run.manifest, len(labels))
    for label in labels[:2]:
        run.crash(label)


def test_who_left_may_come_back_in_a_new_incarnation() -> None:
    run = SimulatedNetwork(small(asynchronous=True))
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])
    run.start()
    run.run(2, until_done=False)
    run.feed("1", Leave())
    run.run(5, until_done=False)
    assert run.agents["1"].outcome.reason == "left"
    run.start("1")
    run.release("1", [released(run.manifest, 2, 10.0)])
    run.run(100, until_done=False)
    assert agree(run)
    totals = run.totals()
    assert totals["present"][1] + totals["in_transit"][1] == whole(run.manifest, 5)


def test_a_partition_does_not_empty_anybody() -> None:
    run = SimulatedNetwork(small(asynchronous=True), options=Options(patience=8))
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])
    run.start()
    run.run(1, until_done=False)
    run.network.partition({"0"}, {"1", "2", "3"})
    run.run(100, until_done=False)
    assert run.running["0"].mass.weight > whole(run.manifest, 1e-4)
    run.network.heal()
    run.run(60, until_done=False)
    assert agree(run)


def test_the_end_after_so_many_pushes() -> None:
    run = SimulatedNetwork(small(asynchronous=True, rounds=200), options=Options(tick=0.01))
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])
    run.start()
    assert run.run(30)
    assert {p.outcome.round for p in run.agents.values()} == {200}
    run.run(30, until_done=False)
    assert all(agent.settled for agent in run.running.values())


def test_terms_that_need_rounds_in_common_are_refused() -> None:
    todo = problem("learn-network", FLORENTINE, NetworkDP(1.0))
    with pytest.raises(AgentError, match="Network DP"):
        Agent(Manifest.of(todo, asynchronous=True), str(FLORENTINE.labels[0]))
    with pytest.raises(AgentError, match="tolerance"):
        Agent(small(asynchronous=True, tolerance=0.1), "0")


class Counted(SimulatedNetwork):
    """Counts what agents write and send."""

    writes = sends = 0

    def perform(self, host: Any, action: Any) -> None:
        self.writes += isinstance(action, Persist)
        self.sends += isinstance(action, Send)
        super().perform(host, action)


def idle(agent: Any = Agent) -> Any:
    """Ten minutes after all has converged: what is written and sent in them."""
    run = Counted(small(asynchronous=True), agent=agent)
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label) ** 2)])
    run.start()
    run.run(60, until_done=False)
    assert agree(run)
    run.writes = run.sends = 0
    run.run(600, until_done=False)
    return run


def test_who_has_converged_is_quiet_until_something_is_new() -> None:
    run = idle()
    assert run.writes <= 8  # an agent that did not rest would write 6,000 times
    assert run.sends <= 100
    assert run.totals()["in_transit"] == (0, 0)
    run.release("2", [released(run.manifest, 2, 100.0)])
    run.run(60, until_done=False)
    assert agree(run)
    assert {agent.coverage.readings for agent in run.running.values()} == {(1, 1, 2, 1)}


def test_a_variant_that_never_rests_is_caught() -> None:
    class Restless(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.schedule._rest = self.schedule._send  # type: ignore[union-attr,method-assign]

    assert idle(Restless).writes > 20_000


def test_what_was_lost_on_the_way_to_rest_is_repeated() -> None:
    run = SimulatedNetwork(small(asynchronous=True), faults=Faults(drop=0.5), seed=9)
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label) ** 2)])
    run.start()
    run.run(300, until_done=False)
    assert agree(run)
    assert run.totals()["in_transit"] == (0, 0)


def test_an_agent_that_is_alone_says_so_less_and_less_often() -> None:
    run = SimulatedNetwork(small(asynchronous=True))
    run.release("0", [released(run.manifest, 1, 1.0)])
    run.start("0")
    run.run(3600, until_done=False)
    alone = [r for _, r in run.reports if r.kind == "alone"]
    assert 8 <= len(alone) <= 12
