"""With the same releases, agents and the simulator give the same numbers, for every algorithm.

Agents move integers in units of 2^-unit and link weights in units of 2^-53, the simulator updates floats:
after 100 rounds the two differ by rounding alone, which is far below `TOLERANCE`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.agents.protocol.cases import FLORENTINE, geometric, problem, released, releases
from veilsum import algorithms, networks
from veilsum.agents import conservation
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Agent
from veilsum.agents.transport.memory import Faults
from veilsum.algorithms.base import COLUMN
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.privacy import NetworkDP, SignalDP
from veilsum.simulation import simulate
from veilsum.testing import SimulatedNetwork

TOLERANCE = 1e-9
ARCS = networks.as_graph(
    np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
)
LATE = Faults(duplicate=0.2, delay=(0.001, 0.05))
DIRECTED = [n for n in conservation.supported() if COLUMN in algorithms.ALGORITHMS[n].kinds]
UNDIRECTED = [n for n in conservation.supported() if n not in DIRECTED]


def by_agents(todo: Any, **options: Any) -> Any:
    """The estimates of real agents over a simulated network."""
    manifest = Manifest.of(todo)
    network = SimulatedNetwork(manifest, **options)
    for label, own in releases(todo, manifest).items():
        network.release(label, own)
    network.start()
    assert network.run(60)
    outcomes = [host.outcome for host in network.agents.values()]
    assert all(one.round == todo.rounds for one in outcomes)
    assert network.reports == []
    return np.array([one.estimate[0] for one in outcomes])


def by_simulator(todo: Any) -> Any:
    private = simulate(todo).private
    assert private is not None
    return private[-1][:, 0, 0, 0]


def test_agents_support_the_algorithms_of_the_paper_on_both_kinds_of_links() -> None:
    assert {"average", "learn", "learn-network", "learn-dynamic"} <= set(UNDIRECTED)
    assert {"push-sum", "push-sum-learn"} <= set(DIRECTED)


MASKED = {name for name in algorithms.names() if algorithms.ALGORITHMS[name].masked}


@pytest.mark.parametrize("name", sorted({*algorithms.names()} - {*UNDIRECTED, *DIRECTED} - MASKED))
def test_no_manifest_is_written_for_any_other(name: str) -> None:
    with pytest.raises(AlgorithmError, match="does not conserve mass"):
        Manifest.of(problem(name, FLORENTINE, SignalDP(1.0)))


@pytest.mark.parametrize("name", sorted(MASKED))
def test_a_masked_sum_has_a_manifest_with_its_own_privacy_only(name: str) -> None:
    with pytest.raises(PrivacyError, match="MaskedDP goes with"):
        Manifest.of(problem(name, FLORENTINE, SignalDP(1.0)))


@pytest.mark.thorough
@pytest.mark.parametrize("net", [FLORENTINE, geometric()], ids=["florentine", "geometric"])
@pytest.mark.parametrize("algorithm", UNDIRECTED)
def test_agents_agree_with_the_simulator_after_100_rounds(algorithm: Any, net: Any) -> None:
    todo = problem(algorithm, net)
    assert np.abs(by_agents(todo) - by_simulator(todo)).max() <= TOLERANCE


@pytest.mark.parametrize("algorithm", DIRECTED)
@pytest.mark.parametrize("privacy", [SignalDP(1.0), NetworkDP(0.5)], ids=["signal", "network"])
def test_agents_agree_with_the_simulator_on_directed_links(algorithm: Any, privacy: Any) -> None:
    todo = problem(algorithm, networks.column_stochastic(ARCS), privacy)
    assert np.abs(by_agents(todo) - by_simulator(todo)).max() <= TOLERANCE


@pytest.mark.parametrize("algorithm", ["average", "learn-network"])
def test_delay_and_repetition_do_not_change_the_numbers(algorithm: Any) -> None:
    todo = problem(algorithm, FLORENTINE)
    assert np.abs(by_agents(todo, faults=LATE) - by_simulator(todo)).max() <= TOLERANCE


@pytest.mark.parametrize("algorithm", UNDIRECTED)
def test_a_fraction_that_is_off_by_a_millionth_is_caught(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = conservation.sent_fraction
    monkeypatch.setattr(conservation, "sent_fraction", lambda a, t: right(a, t) * (1 - 1e-6))
    todo = problem(algorithm, FLORENTINE, rounds=20)
    assert np.abs(by_agents(todo) - by_simulator(todo)).max() > TOLERANCE


def test_receiving_whatever_arrived_last_is_not_the_algorithm() -> None:
    """A variant that receives later rounds when it has the right one is caught."""

    class Hasty(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.schedule.arrived = self.arrived  # type: ignore[method-assign]

        def arrived(self, link: Any, message: Any) -> None:
            self.mass.receive(link, message)
            self.schedule.advance()

    todo = problem("learn", FLORENTINE)
    found = by_agents(todo, agent=Hasty, faults=LATE)
    assert np.abs(found - by_simulator(todo)).max() > TOLERANCE


def test_several_components_travel_together() -> None:
    manifest = Manifest.of(problem("average", FLORENTINE))
    wide = replace(manifest, dimension=3)
    network = SimulatedNetwork(wide)
    for k, label in enumerate(network.agents):
        network.release(label, [released(wide, 1, k, -k, 1 / (k + 1))])
    network.start()
    assert network.run(60)
    mean = np.mean([[k, -k, 1 / (k + 1)] for k in range(15)], axis=0)
    for estimate in network.estimates().values():
        assert np.abs(np.array(estimate) - mean).max() < 1e-2
