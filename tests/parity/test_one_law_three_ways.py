"""The simulator, the matrix and the agents' rows give the same numbers."""

import numpy as np
import pytest
from rounds import by_agents, by_matrix

from murmura import laws, network
from murmura.engine import Drawn, Problem, simulate
from murmura.families import LogNormal, LogNormal1p
from murmura.privacy import NetworkDP, SignalDP

GRAPH = network.load("florentine-families")
ARCS = network.as_graph(
    np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
)
NETWORKS = {
    "doubly-stochastic": network.metropolis(GRAPH),
    "row-stochastic": network.row_stochastic(ARCS),
    "column-stochastic": network.column_stochastic(ARCS),
    "dynamic": network.link_failures(GRAPH, 0.3, seed=5),
}


def cases():
    for name, law in laws.LAWS.items():
        for kind, net in NETWORKS.items():
            if kind in law.kinds or (kind == "dynamic" and not law.static_only):
                yield pytest.param(name, net, id=f"{name}-{kind}")


def problem(name, net, want, family=None):
    family = family or LogNormal1p(sigma=1.0)
    return Problem(
        network=net,
        law=laws.get(name, net),
        family=family,
        source=Drawn(family, {"mu": 1.0}, net.size, seed=3),
        want=want,
        rounds=100,
        seed=11,
    )


@pytest.mark.parametrize(("name", "net"), list(cases()))
@pytest.mark.parametrize("want", [SignalDP(1.0), NetworkDP(0.5)], ids=["signal", "network"])
def test_simulator_matrix_and_rows_agree_to_1e_12_over_100_rounds(name, net, want):
    todo = problem(name, net, want)
    simulated = simulate(todo).private[-1][:, 0, 0, 0]
    scale = max(1.0, np.abs(simulated).max())
    assert np.abs(by_matrix(todo) - simulated).max() <= 1e-12 * scale
    assert np.abs(by_agents(todo) - simulated).max() <= 1e-12 * scale


def test_they_agree_when_the_scale_is_read_off_the_signal():
    want = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth-printed")
    todo = problem("learn-network", NETWORKS["doubly-stochastic"], want, LogNormal(sigma=1.0))
    assert by_agents(todo) == pytest.approx(simulate(todo).private[-1][:, 0, 0, 0], rel=1e-12)


def test_a_wrong_coefficient_would_be_seen():
    """The comparison can fail: a law with one weight off by a millionth is told apart."""

    class Off(laws.Learn):
        def coefficients(self, t):
            return super().coefficients(t)._replace(learn=(1 + 1e-6) / t)

    todo = problem("learn", NETWORKS["doubly-stochastic"], SignalDP(1.0))
    wrong = by_matrix(Problem(**{**vars(todo), "law": Off()}))
    assert np.abs(wrong - simulate(todo).private[-1][:, 0, 0, 0]).max() > 1e-8
