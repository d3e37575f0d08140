"""Agents in processes of their own, over sockets, come to the simulator's numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest

from murmura.agent.fleet.collect import estimates
from murmura.agent.fleet.fleet import Fleet
from murmura.agent.fleet.launch import Terms, prepare
from murmura.agent.ledger import look, verify
from murmura.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parent))
from replay import releases, simulated

FLORENTINE = 'graph = "links.csv"'
GEOMETRIC = 'graph = "random-geometric"\noptions = { size = 50, radius = 0.3, seed = 1 }'
SCENARIO = """
name = "parity"
seed = 5

[network]
{network}

[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]

[signals]
draw = {{ mu = 5.0 }}

[privacy]
protect = "{protect}"
epsilon = 1.0

[law]
name = "{law}"
rounds = 100
"""


def scenario(folder, network, law):
    import networkx as nx

    lines = ["source,target", *(f"{a},{b}" for a, b in nx.florentine_families_graph().edges)]
    (folder / "links.csv").write_text("\n".join(lines))
    protect = "network" if law == "learn-network" else "signal"
    text = SCENARIO.format(network=network, law=law, protect=protect)
    return Scenario.parse(text, folder=folder, name="parity")


def run(folder, network, law, **terms):
    made = scenario(folder, network, law)
    plan, problem, _ = prepare(made, Terms(deadline=30.0, **terms), folder / "run")
    with Fleet(plan) as fleet:
        fleet.wait(120)
        fleet.stop()
    return plan, problem, estimates(plan, problem)[:, :, 0]


def agree(folder, network, law, **terms):
    plan, problem, held = run(folder, network, law, **terms)
    expected = simulated(problem, releases(plan, problem))
    assert held.shape == expected.shape
    readings = 100 if problem.law.online else 1
    for i in range(problem.network.size):
        path = folder / "run" / "ledgers" / f"{i}.ledger"
        assert verify(path).ok
        entries = look(path).entries
        assert [entry.reading for entry in entries] == list(range(1, readings + 1))
    np.testing.assert_allclose(held[:, -1], expected[:, -1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(held, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("law", ["average", "learn", "learn-network"])
def test_four_processes_with_mutual_tls_on_the_florentine_families(law, tmp_path):
    agree(tmp_path, FLORENTINE, law, processes=4)


def test_fifty_agents_over_sockets_without_certificates(tmp_path):
    agree(tmp_path, GEOMETRIC, "average", processes=2, insecure=True)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["average", "learn", "learn-network"])
@pytest.mark.parametrize("insecure", [True, False])
def test_four_processes_on_fifty_agents(law, insecure, tmp_path):
    agree(tmp_path, GEOMETRIC, law, processes=4, insecure=insecure)


@pytest.mark.slow
def test_fifty_processes_of_one_agent_each_with_mutual_tls(tmp_path):
    agree(tmp_path, GEOMETRIC, "average", processes=50, every_round=True)
