"""The simulator, the matrix and the agents' rows give the same numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.parity.rounds import by_agents, by_matrix
from veilsum import algorithms, networks, simulation
from veilsum.families import LogNormal, LogNormal1p
from veilsum.privacy import NetworkDP, SignalDP
from veilsum.simulation import Problem, SyntheticSignals

simulate: Any = simulation.simulate  # whose arrays may be None
GRAPH = networks.load("florentine-families")
ARCS = networks.as_graph(
    np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
)
NETWORKS = {
    "doubly-stochastic": networks.metropolis(GRAPH),
    "row-stochastic": networks.row_stochastic(ARCS),
    "column-stochastic": networks.column_stochastic(ARCS),
    "dynamic": networks.link_failures(GRAPH, 0.3, seed=5),
}


def cases() -> Any:
    for name, algorithm in algorithms.ALGORITHMS.items():
        if algorithm.summed:  # no matrix: tests/simulation/test_secure_run.py
            continue
        for kind, net in NETWORKS.items():
            if kind in algorithm.kinds or (kind == "dynamic" and not algorithm.static_only):
                yield pytest.param(name, net, id=f"{name}-{kind}")


def problem(name: Any, net: Any, privacy: Any, family: Any = None) -> Any:
    family = family or LogNormal1p(sigma=1.0)
    return Problem(
        network=net,
        algorithm=algorithms.get(name, net),
        family=family,
        source=SyntheticSignals(family, {"mu": 1.0}, net.size, seed=3),
        privacy=privacy,
        rounds=100,
        seed=11,
    )


@pytest.mark.parametrize(("name", "net"), list(cases()))
@pytest.mark.parametrize("privacy", [SignalDP(1.0), NetworkDP(0.5)], ids=["signal", "network"])
def test_simulator_matrix_and_rows_agree_to_1e_12_over_100_rounds(
    name: Any, net: Any, privacy: Any
) -> None:
    todo = problem(name, net, privacy)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    scale = max(1.0, np.abs(simulated).max())
    assert np.abs(by_matrix(todo) - simulated).max() <= 1e-12 * scale
    assert np.abs(by_agents(todo) - simulated).max() <= 1e-12 * scale


def test_they_agree_when_the_scale_is_read_off_the_signal() -> None:
    privacy = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth-as-published")
    todo = problem("learn-network", NETWORKS["doubly-stochastic"], privacy, LogNormal(sigma=1.0))
    assert by_agents(todo) == pytest.approx(simulate(todo).private[-1][:, 0, 0, 0], rel=1e-12)


def test_a_wrong_coefficient_would_be_seen() -> None:
    """The comparison can fail: an algorithm with one weight off by a millionth is distinguished."""

    class Off(algorithms.Learn):
        def coefficients(self, t: Any) -> Any:
            return super().coefficients(t)._replace(innovation=(1 + 1e-6) / t)

    todo = problem("learn", NETWORKS["doubly-stochastic"], SignalDP(1.0))
    wrong = by_matrix(replace(todo, algorithm=Off()))
    assert np.abs(wrong - simulate(todo).private[-1][:, 0, 0, 0]).max() > 1e-8
