"""With the same releases, agents and the simulator give the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
from core_cases import FLORENTINE, geometric, problem, released, releases

from murmura import network
from murmura.agent import sums
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.manifest import Manifest
from murmura.agent.transport.memory import Faults
from murmura.engine import simulate
from murmura.privacy import NetworkDP, SignalDP

ARCS = network.as_graph(
    np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
)
LATE = Faults(duplicate=0.2, delay=(0.001, 0.05))


def rehearsed(todo, **options):
    manifest = Manifest.of(todo)
    rehearsal = Rehearsal(manifest, **options)
    for label, own in releases(todo, manifest).items():
        rehearsal.release(label, own)
    rehearsal.start()
    assert rehearsal.run(60)
    assert all(p.done.round == todo.rounds for p in rehearsal.players.values())
    assert rehearsal.reports == []
    return np.array([p.done.estimate[0] for p in rehearsal.players.values()])


@pytest.mark.parametrize("net", [FLORENTINE, geometric()], ids=["florentine", "geometric"])
@pytest.mark.parametrize("law", ["average", "learn", "learn-network"])
def test_agents_agree_with_the_simulator_to_1e_9_after_100_rounds(law, net):
    todo = problem(law, net)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    assert np.abs(rehearsed(todo) - simulated).max() <= 1e-9


@pytest.mark.parametrize("law", ["push-sum", "push-sum-learn"])
@pytest.mark.parametrize("want", [SignalDP(1.0), NetworkDP(0.5)], ids=["signal", "network"])
def test_agents_agree_with_the_simulator_on_directed_links(law, want):
    todo = problem(law, network.column_stochastic(ARCS), want)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    assert np.abs(rehearsed(todo) - simulated).max() <= 1e-9


@pytest.mark.parametrize("law", ["average", "learn-network"])
def test_delay_and_repetition_do_not_change_the_numbers(law):
    todo = problem(law, FLORENTINE)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    assert np.abs(rehearsed(todo, faults=LATE) - simulated).max() <= 1e-9


def test_a_law_that_is_off_by_a_millionth_would_be_seen(monkeypatch):
    passed = sums.passed
    monkeypatch.setattr(sums, "passed", lambda law, t: passed(law, t) * (1 - 1e-6))
    todo = problem("learn", FLORENTINE)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    assert np.abs(rehearsed(todo) - simulated).max() > 1e-9


def test_taking_in_whatever_came_last_is_not_the_law():
    """A twin that takes later rounds when it has the right one is told apart."""

    class Hasty(Rounds):
        def _arrived(self, link, message):
            self.absorb(link, message)
            self._changed()

    todo = problem("learn", FLORENTINE)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    assert np.abs(rehearsed(todo, core=Hasty, faults=LATE) - simulated).max() > 1e-9


def test_several_components_travel_together():
    manifest = Manifest.of(problem("average", FLORENTINE))
    wide = replace(manifest, dimension=3)
    rehearsal = Rehearsal(wide)
    for k, label in enumerate(rehearsal.players):
        rehearsal.release(label, [released(wide, 1, k, -k, 1 / (k + 1))])
    rehearsal.start()
    assert rehearsal.run(60)
    mean = np.mean([[k, -k, 1 / (k + 1)] for k in range(15)], axis=0)
    for estimate in rehearsal.estimates().values():
        assert np.abs(np.array(estimate) - mean).max() < 1e-2
