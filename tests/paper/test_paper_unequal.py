"""Budgets of one's own: equal ones give the engine's numbers, others the scales they should."""

from __future__ import annotations

import numpy as np
import pytest

from murmura import engine, laws, network
from murmura.engine import Drawn, Problem, Record
from murmura.families import LogNormal
from murmura.paper.unequal import simulate
from murmura.privacy import NetworkDP, SignalDP, budgets

MIXING = network.metropolis(network.ring(9))
FAMILY = LogNormal(sigma=1.0)


def problem(law, want, epsilons=(0.5, 2.0)):
    made = want(epsilon=1.0, delta=0.01, sensitivity="smooth-printed")
    source = Drawn(FAMILY, {"mu": 1.0}, 9, seed=3)
    return Problem(MIXING, laws.get(law, MIXING), FAMILY, source, made, 12, epsilons, 2, seed=3)


def equal(D, epsilon):
    return budgets.homogeneous(D, epsilon, simulation_only=True)


@pytest.mark.parametrize(
    ("law", "want"),
    [("average", SignalDP), ("average", NetworkDP), ("learn", SignalDP),
     ("learn-network", SignalDP), ("learn-network", NetworkDP)],
)  # fmt: skip
def test_equal_budgets_are_the_engines_own(law, want):
    asked = problem(law, want)
    trace, overheads = simulate(asked, equal, Record(estimates=False))
    plain = engine.simulate(asked, Record(estimates=False))
    np.testing.assert_allclose(trace.total, plain.total, rtol=1e-12)
    np.testing.assert_allclose(trace.privacy, plain.privacy, rtol=1e-12)
    assert all(row["overhead"] == pytest.approx(row["equal"]) for row in overheads)


@pytest.mark.parametrize("want", [SignalDP, NetworkDP])
def test_twice_the_budget_is_half_the_noise(want):
    asked = problem("average", want)

    def double(D, epsilon):
        return budgets.homogeneous(D, 2 * epsilon, simulation_only=True)

    trace, _ = simulate(asked, double, Record(estimates=False))
    plain = engine.simulate(asked, Record(estimates=False))
    np.testing.assert_allclose(trace.privacy, plain.privacy / 2, rtol=1e-12)


def test_optimal_budgets_cost_less_and_spend_no_more():
    asked = problem("learn", SignalDP, epsilons=(1.0,))

    def best(D, epsilon):
        return budgets.optimal(D, epsilon, 10 * epsilon, simulation_only=True)

    _, overheads = simulate(asked, best, Record(estimates=False))
    assert len(overheads) == 12 * 2
    assert all(row["overhead"] < row["equal"] for row in overheads)
    assert all(row["spent"] <= 1 + 1e-12 for row in overheads)
