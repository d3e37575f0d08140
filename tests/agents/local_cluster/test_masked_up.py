"""Masked sums in processes of their own, with mutual TLS: one result, and the simulator's numbers."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.agents.runtime.masked_sites import on_grid
from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.local_cluster.cluster import (
    LaunchOptions,
    LocalCluster,
    collect_estimates,
    in_rounds,
    prepare,
    result_of,
    up,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ContributionMechanism
from veilsum.errors import AgentError
from veilsum.privacy.masked import MaskedParameters
from veilsum.scenario import Scenario
from veilsum.simulation import simulate
from veilsum.testing import PredictableEntropy

SCENARIO = """
name = "sum"
seed = 5
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", mode = "masked", epsilon = 1.0, colluders = 1}
algorithm = {name = "masked-sum", rounds = 12}
"""


def test_four_processes_with_mutual_tls_have_one_sum_of_their_readings(tmp_path: Any) -> None:
    """The noise lies within 2^-60 of its tail, and is a whole number of grid steps."""
    scenario = Scenario.parse(SCENARIO, name="sum")
    plan, problem, name = prepare(scenario, LaunchOptions(processes=4), tmp_path / "run")
    with LocalCluster(plan) as cluster:
        cluster.wait(60)
        cluster.stop()
    manifest = Manifest.from_json(plan.manifest)
    table = collect_estimates(plan, problem)
    assert table.shape == (4, 13, 1)
    arrival = problem.algorithm.arrival  # type: ignore[attr-defined]
    assert not table[:, :arrival].any()
    assert len(np.unique(table[:, arrival:])) == 1, "identical to the bit"
    signals = problem.source.signals(1, 1)[:, 0].tolist()
    mechanism = ContributionMechanism(manifest, problem, "0")
    steps = Fraction(float(table[0, -1, 0])) * 4 / Fraction(mechanism.step)
    assert steps.denominator == 1
    noise = int(steps) - on_grid(mechanism, signals)
    assert abs(noise) <= mechanism.terms.noise_tail(4)
    for number in range(4):
        path = tmp_path / "run" / "ledgers" / f"{number}.ledger"
        assert verify(path).ok
        assert [entry.epsilon for entry in read_ledger(path).entries] == [1.0]
    found = result_of(problem, table, name)
    simulated = simulate(found.problem)
    np.testing.assert_array_equal(found.trace.target, simulated.target)
    error = abs(table[0, -1, 0] - simulated.target.ravel()[0])
    assert found.trace.total[-1, 0, 0] == pytest.approx(2 * error)  # l2 over 4 agents
    assert all(status["bytes"] > 2000 for status in cluster.status.values())
    written = "".join(p.read_text() for p in Path(plan.folder).glob("*.*") if p.suffix != ".npz")
    assert not [x for x in signals if f"{x:.6f}"[:6] in written.replace(plan.scenario, "")]


def test_the_noise_of_the_agents_is_distributed_as_the_simulators() -> None:
    """Kolmogorov and Smirnov, fixed seed, false alarms below 1e-6; h off by one is caught."""
    problem = Scenario.parse(SCENARIO, name="sum").build().problem
    made = ContributionMechanism(Manifest.of(problem, "sum"), problem, "0")
    exact = made.terms.noise.draw(4 * 6000, entropy=PredictableEntropy(3, simulation_only=True))
    drawn = np.array(exact, dtype=np.int64).reshape(-1, 4).sum(axis=1)
    rng = np.random.default_rng(8)
    mechanism: Any = problem.plan.mechanism(1.0, 1)
    simulated = mechanism.sum_noise(4, rng, 40_000)
    assert ks_2samp(drawn, simulated).pvalue > 1e-6
    terms = made.terms
    weakened = MaskedParameters(4, 2, 0, terms.epsilon, terms.sensitivity_steps)
    assert ks_2samp(drawn, weakened.sum_noise(4).sample(40_000, rng)).pvalue < 1e-6


def test_a_stream_of_masked_sums_reports_in_the_rounds_of_the_simulator() -> None:
    text = SCENARIO.replace("colluders = 1", "colluders = 1, batches = {growth = 2.0}")
    text = text.replace("masked-sum", "masked-learn")
    found = up(
        Scenario.parse(text, name="sum"), LaunchOptions(processes=1, insecure=True, timeout=60)
    )
    assert found.result.trace.private is not None
    private = found.result.trace.private[:, :, 0, 0, 0]  # (round, agent)
    assert private.shape == (13, 4)
    assert (private == private[:, :1]).all()
    changed = 1 + np.flatnonzero(np.diff(private[:, 0]))
    assert changed.tolist() == [1, 2, 4, 8], "when a batch closes"
    errors = np.abs(private[[1, 2, 4, 8], 0] - 5.0)
    assert (errors < 40 / np.array([1, 2, 4, 8])).all()
    assert found.status["process-1"]["bytes"] == 0, "within a process there are no messages"


def test_agents_that_disagree_are_not_reported(tmp_path: Any) -> None:
    scenario = Scenario.parse(SCENARIO, name="sum")
    plan, problem, _ = prepare(scenario, LaunchOptions(processes=1), tmp_path / "run")
    table = np.array([[[0.0], [5.0]]] * 4)

    def write(values: Any) -> None:
        np.savez(
            tmp_path / "run" / "estimates-0.npz", agents=np.array(plan.assignments[0].agents),
            estimates=values,
        )  # fmt: skip

    write(table)
    np.testing.assert_array_equal(
        collect_estimates(plan, problem),
        in_rounds(Manifest.from_json(plan.manifest), problem, table),
    )
    table[2, 1] = np.nextafter(5.0, 6.0)
    write(table)
    with pytest.raises(AgentError, match="different sums of query 1"):
        collect_estimates(plan, problem)
    table[2, 1] = np.nan
    write(table)
    with pytest.raises(AgentError, match="1 of 4 agents have no sum"):
        collect_estimates(plan, problem)
