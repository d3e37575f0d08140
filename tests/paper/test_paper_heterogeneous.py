"""Allocated budgets: equal ones give the simulator's numbers, others the scales they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, networks, paper, simulation
from veilsum.families import LogNormal
from veilsum.paper import allocation
from veilsum.paper.heterogeneous import simulate
from veilsum.privacy import NetworkDP, SignalDP
from veilsum.simulation import Problem, Record, SyntheticSignals

MIXING = networks.metropolis(networks.ring(9))
FAMILY = LogNormal(sigma=1.0)


def problem(algorithm: Any, privacy: Any, epsilons: Any = (0.5, 2.0)) -> Any:
    made = privacy(epsilon=1.0, delta=0.01, sensitivity="smooth-as-published")
    source = SyntheticSignals(FAMILY, {"mu": 1.0}, 9, seed=3)
    return Problem(
        MIXING, algorithms.get(algorithm, MIXING), FAMILY, source, made, 12, epsilons, 2, seed=3
    )


def equal(D: Any, epsilon: Any) -> Any:
    return allocation.homogeneous(D, epsilon, simulation_only=True)


@pytest.mark.parametrize(
    ("algorithm", "privacy"),
    [("average", SignalDP), ("average", NetworkDP), ("learn", SignalDP),
     ("learn-network", SignalDP), ("learn-network", NetworkDP)],
)  # fmt: skip
def test_equal_budgets_give_the_simulators_numbers(algorithm: Any, privacy: Any) -> None:
    asked = problem(algorithm, privacy)
    trace, overheads = simulate(asked, equal, Record(estimates=False))
    plain = simulation.simulate(asked, Record(estimates=False))
    np.testing.assert_allclose(trace.total, plain.total, rtol=1e-12)
    np.testing.assert_allclose(trace.privacy, plain.privacy, rtol=1e-12)
    assert all(row["overhead"] == pytest.approx(row["equal"]) for row in overheads)


@pytest.mark.parametrize("privacy", [SignalDP, NetworkDP])
def test_twice_the_budget_is_half_the_noise(privacy: Any) -> None:
    asked = problem("average", privacy)

    def double(D: Any, epsilon: Any) -> Any:
        return allocation.homogeneous(D, 2 * epsilon, simulation_only=True)

    trace, _ = simulate(asked, double, Record(estimates=False))
    plain = simulation.simulate(asked, Record(estimates=False))
    np.testing.assert_allclose(trace.privacy, plain.privacy / 2, rtol=1e-12)


def test_optimal_budgets_cost_less_and_spend_no_more() -> None:
    asked = problem("learn", SignalDP, epsilons=(1.0,))

    def best(D: Any, epsilon: Any) -> Any:
        return allocation.optimal(D, epsilon, 10 * epsilon, simulation_only=True)

    _, overheads = simulate(asked, best, Record(estimates=False))
    assert len(overheads) == 12 * 2
    assert all(row["overhead"] < row["equal"] for row in overheads)
    assert all(row["spent"] <= 1 + 1e-12 for row in overheads)


def test_the_curves_have_the_papers_rounds_and_as_many_replicas_online_as_offline() -> None:
    """T = 1,096 days, ten draws, for every task and allocation."""
    jobs = paper.EXPERIMENTS["fig-mse-budgets"].jobs(paper.Context())
    assert {(job.problem.rounds, job.problem.replicas) for job in jobs} == {(1096, 10)}
    assert len(jobs) == 12
