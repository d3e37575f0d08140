"""Agents stop at the same round, and only when they agree."""

from typing import Any

import networkx
import pytest

from tests.agents.protocol.cases import FLORENTINE, released, small
from veilsum import networks
from veilsum.agents.events import Send
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

TOLERANCE = 1e-3
MOMENTS = [3.5 + k / 400 for k in range(20)]  # just before the decision has reached all


def stopped(rounds: Any = 400, **options: Any) -> Any:
    run = SimulatedNetwork(small(net=FLORENTINE, rounds=rounds, tolerance=TOLERANCE), **options)
    for k, label in enumerate(run.agents):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    run.run(2000)
    return run


def spread(run: Any) -> Any:
    values = [p.outcome.estimate[0] for p in run.agents.values()]
    return max(values) - min(values)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(drop=0.3),
        Faults(drop=0.3, duplicate=0.2, reorder=0.3, delay=(0.001, 0.08)),
    ],
    ids=["no loss", "loss", "loss and reordering"],
)
@pytest.mark.parametrize("seed", [1, 19])
def test_all_stop_at_the_same_round_and_agree(faults: Any, seed: Any) -> None:
    run = stopped(faults=faults, seed=seed)
    assert run.all_done
    done = [p.done for p in run.agents.values()]
    assert {d.reason for d in done} == {"tolerance"}
    assert len({d.round for d in done}) == 1
    assert done[0].round % (run.manifest.diameter + 1) == 0
    assert spread(run) <= TOLERANCE


def test_all_decide_on_the_same_range() -> None:
    run = stopped()
    reports = {agent.detector.report for agent in run.running.values()}
    assert len(reports) == 1


def test_one_step_too_few_would_be_seen() -> None:
    """A variant that takes its neighbourhood for everyone stops too early or not together."""

    class Short(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            detector: Any = self.detector
            detector.depth = 1

    run = stopped(agent=Short)
    together = run.all_done and len({p.outcome.round for p in run.agents.values()}) == 1
    assert not (together and spread(run) <= TOLERANCE)


def test_who_restarts_within_a_phase_stops_with_the_others() -> None:
    run = SimulatedNetwork(small(net=FLORENTINE, rounds=400, tolerance=TOLERANCE))
    for k, label in enumerate(run.agents):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    victim = next(iter(run.agents))
    for goal in (10, 15, 20, 25):
        while run.running[victim].round < goal:
            run.step()
        run.crash(victim)
        run.restart(victim)
    assert run.run(1000)
    assert len({p.outcome.round for p in run.agents.values()}) == 1
    assert spread(run) <= TOLERANCE


def test_nobody_stops_while_somebody_cannot_be_heard() -> None:
    terms = small(net=FLORENTINE, rounds=400, tolerance=100.0, quorum=14, gathering=60.0)
    run = SimulatedNetwork(terms)
    labels = list(run.agents)
    for k, label in enumerate(labels):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start(*labels[1:])
    run.run(50, until_done=False)
    assert {agent.round for agent in run.running.values()} == {0}
    run.agents[labels[0]].killed = True
    assert run.run(100)  # after the gathering time it is not waited for
    assert {run.agents[k].outcome.reason for k in labels[1:]} == {"tolerance"}


def test_in_a_view_that_is_longer_agents_still_stop_together() -> None:
    """A ring of 10 without one is a path of 9: its diameter is 8, not 5."""
    terms = small(
        net=networks.lazy_metropolis(networks.ring(10)), rounds=4000, tolerance=TOLERANCE,
        quorum=9, lost_after=60.0,
    )  # fmt: skip
    run = SimulatedNetwork(terms, faults=Faults(delay=(0.001, 0.01)))
    for k, label in enumerate(run.agents):
        run.release(label, [released(terms, 1, float(k * k))])
    run.start()
    while run.running["3"].round < 5:
        run.step()
    run.kill("3")
    assert run.run(500)
    rest = [host.outcome for host in run.agents.values() if not host.killed]
    assert {done.reason for done in rest} == {"tolerance"}
    assert len({done.round for done in rest}) == 1
    assert rest[0].round % 9 == 0
    values = [done.estimate[0] for done in rest]
    assert max(values) - min(values) <= TOLERANCE
    mean = sum(k * k for k in range(10) if k != 3) / 9
    assert all(abs(value - mean) <= TOLERANCE for value in values)


def cut_off(moment: Any, agent: Any = Agent) -> Any:
    """Six in a row, without a last round, whose halves lose each other for a while as they agree."""
    terms = small(net=networks.lazy_metropolis(networkx.path_graph(6)), tolerance=TOLERANCE)
    run = SimulatedNetwork(terms, faults=Faults(delay=(0.02, 0.03)), agent=agent)
    for k, label in enumerate(run.agents):
        run.release(label, [released(terms, 1, float(k))])
    run.start()
    labels = list(run.agents)
    run.run(moment)
    run.network.partition(labels[:3], labels[3:])
    run.run(10)
    run.network.heal()
    run.run(300)
    return run


def stop_together(run: Any) -> Any:
    if not run.all_done or {p.outcome.reason for p in run.agents.values()} != {"tolerance"}:
        return False
    rounds = [p.outcome.round for p in run.agents.values()]
    return max(rounds) - min(rounds) <= 2 * run.manifest.diameter and spread(run) <= TOLERANCE


@pytest.mark.thorough
def test_who_misses_the_decision_stops_soon_after_the_others() -> None:
    assert all(stop_together(cut_off(moment)) for moment in MOMENTS)


@pytest.mark.thorough
def test_a_decision_that_is_passed_on_changed_would_be_seen() -> None:
    """A variant that passes the round on, with another phase: the next one does not take it."""

    class Changed(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            detector: Any = self.detector
            detector.adopt = self.adopt

        def adopt(self, link: Any) -> Any:
            detector: Any = self.detector
            theirs = link.range_report
            if theirs.stop and not detector.report.stop and detector.decides(theirs):
                detector.report, detector.over = detector.report._replace(stop=theirs.stop), True
            return detector.report.stop > 0

    assert not all(stop_together(cut_off(moment, Changed)) for moment in MOMENTS)


def test_a_stop_beyond_the_own_estimate_is_refused_and_named() -> None:
    class Liar(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            message = getattr(action, "message", None)
            if host.label == "5" and isinstance(message, CumulativeMass):
                deep = self.manifest.diameter
                lie = RangeReport(1, deep, (0,), (0,), 2 * deep + 2)
                action = Send(message._replace(range_report=lie))
            super().perform(host, action)

    terms = small(net=networks.lazy_metropolis(networkx.path_graph(6)), rounds=60, tolerance=1e-6)
    run = Liar(terms, options=Options(deadline=1.0))
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label) + 1)])
    run.start()
    run.run(3000)
    assert {run.agents[label].outcome.reason for label in "01234"} == {"rounds"}
    rejected = [(who, r.peer, r.text) for who, r in run.reports if r.kind == "rejected"]
    assert [(who, peer) for who, peer, _ in rejected] == [("4", "5")]
    assert "range does not contain" in rejected[0][2]
