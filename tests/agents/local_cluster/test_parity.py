"""Agents in processes of their own, over sockets, come to the simulator's numbers."""

from typing import Any

import numpy as np
import pytest

from tests.agents.local_cluster.replay import releases, simulated
from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.local_cluster.cluster import (
    LaunchOptions,
    LocalCluster,
    collect_estimates,
    prepare,
)
from veilsum.scenario import Scenario

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
protect = "signal"
epsilon = 1.0

[algorithm]
name = "{algorithm}"
rounds = 100
"""


def scenario(folder: Any, network: Any, algorithm: Any) -> Any:
    import networkx as nx

    lines = ["source,target", *(f"{a},{b}" for a, b in nx.florentine_families_graph().edges)]
    (folder / "links.csv").write_text("\n".join(lines))
    text = SCENARIO.format(network=network, algorithm=algorithm)
    return Scenario.parse(text, folder=folder, name="parity")


def run(folder: Any, network: Any, algorithm: Any, **terms: Any) -> Any:
    made = scenario(folder, network, algorithm)
    plan, problem, _ = prepare(made, LaunchOptions(deadline=30.0, **terms), folder / "run")
    with LocalCluster(plan) as cluster:
        cluster.wait(120)
        cluster.stop()
    return plan, problem, collect_estimates(plan, problem)[:, :, 0]


def agree(folder: Any, network: Any, algorithm: Any, **terms: Any) -> None:
    plan, problem, held = run(folder, network, algorithm, **terms)
    expected = simulated(problem, releases(plan, problem))
    assert held.shape == expected.shape
    readings = 100 if problem.algorithm.online else 1
    for i in range(problem.network.size):
        path = folder / "run" / "ledgers" / f"{i}.ledger"
        assert verify(path).ok
        entries = read_ledger(path).entries
        assert [entry.reading for entry in entries] == list(range(1, readings + 1))
    np.testing.assert_allclose(held[:, -1], expected[:, -1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(held, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("algorithm", ["average", "learn", "learn-network"])
def test_four_processes_with_mutual_tls_on_the_florentine_families(
    algorithm: Any, tmp_path: Any
) -> None:
    agree(tmp_path, FLORENTINE, algorithm, processes=4)


def test_fifty_agents_over_sockets_without_certificates(tmp_path: Any) -> None:
    agree(tmp_path, GEOMETRIC, "average", processes=2, insecure=True)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["average", "learn", "learn-network"])
@pytest.mark.parametrize("insecure", [True, False])
def test_four_processes_on_fifty_agents(algorithm: Any, insecure: Any, tmp_path: Any) -> None:
    agree(tmp_path, GEOMETRIC, algorithm, processes=4, insecure=insecure)


@pytest.mark.slow
def test_fifty_processes_of_one_agent_each_with_mutual_tls(tmp_path: Any) -> None:
    agree(tmp_path, GEOMETRIC, "average", processes=50, every_round=True)
