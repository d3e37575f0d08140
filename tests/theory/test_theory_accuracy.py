"""What a budget buys: half widths against runs, and remedies that are just enough."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import theory
from veilsum.families import Bernoulli, Categorical, Laplace, LogNormal, Normal, NormalBoth, Poisson
from veilsum.privacy import NoPrivacy, SignalDP
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate
from veilsum.theory.accuracy import EstimateError, narrowest_range

LOADS = Normal(sigma=10.0, bounds=(0.0, 100.0))
ANY = math.inf


def problem(
    n: int = 20, epsilon: float = 1.0, online: bool = False, rounds: int = 60, **asked: Any
) -> Problem:
    algorithm = vs.algorithms.Learn() if online else vs.algorithms.Average()
    source = SyntheticSignals(LOADS, {"mu": 50.0}, n, seed=1)
    request = SignalDP(epsilon=epsilon, radius=ANY, **asked)
    network = vs.networks.metropolis(f"complete:{n}")
    return Problem(network, algorithm, LOADS, source, request, rounds, seed=7)


def half_width(problem: Problem) -> float:
    found = theory.precision(problem)
    assert found is not None
    return found.half_width


@pytest.mark.thorough
@pytest.mark.parametrize("online", [False, True])
def test_the_half_width_is_that_of_runs(online: bool) -> None:
    """19 in 20 estimates are within it of their noiseless value, once mixing is taken off.

    4,000 runs: a fraction of 0.95 has a standard deviation of 0.0034, and 6 of them are allowed.
    """
    made = replace(problem(12, 2.0, online, rounds=20), replicas=4000)
    error = EstimateError.of(made, made.run_epsilons, 50.0)
    assert half_width(made) == pytest.approx(error.half_width[-1])
    trace = simulate(made, Record(every=20, agents=[0]))
    assert trace.private is not None
    assert trace.noiseless is not None
    away = trace.private[-1, 0, 0, :, 0] - trace.noiseless[-1, 0, :, 0]
    inside = float(np.mean(np.abs(away) <= half_width(made) - error.mixing[-1]))
    assert abs(inside - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 4000)


def test_mixing_is_what_sites_at_the_ends_of_the_bounds_leave() -> None:
    """By all 64 ways to place six sites at 0 or 100: the worst is what is predicted."""
    network = vs.networks.lazy_metropolis("path:6")
    source = SyntheticSignals(LOADS, {"mu": 50.0}, 6, seed=1)
    request = SignalDP(epsilon=1.0, radius=ANY)
    made = Problem(network, vs.algorithms.Learn(), LOADS, source, request, 12, seed=7)
    loads = 100.0 * np.array(list(product([0, 1], repeat=6))).T
    estimate, matrix = np.zeros_like(loads), network.at(1).toarray()
    for t in range(1, 13):
        estimate = ((t - 1) * matrix @ estimate + loads) / t
    worst = np.abs(estimate - loads.mean(axis=0)).max()
    assert EstimateError.of(made, (1.0,), 50.0).mixing[-1] == pytest.approx(worst)


def test_an_assumed_deviation_narrows_what_mixing_leaves() -> None:
    """By the matrix: the weights of twelve constant readings, whose sum has z s |c_i - 1/n|."""
    network = vs.networks.lazy_metropolis("path:6")
    source = SyntheticSignals(LOADS, {"mu": 50.0}, 6, seed=1)
    request = SignalDP(epsilon=1000.0, radius=ANY)
    made = Problem(network, vs.algorithms.Learn(), LOADS, source, request, 12, seed=7)
    weights, matrix = np.zeros((6, 6)), network.at(1).toarray()
    for t in range(1, 13):
        weights = ((t - 1) * matrix @ weights + np.eye(6)) / t
    apart = np.sqrt(((weights - 1 / 6) ** 2).sum(axis=1)).max()
    assumed, anywhere = theory.precision(made, 2.0), theory.precision(made)
    assert assumed is not None
    assert anywhere is not None
    assert assumed.mixing == pytest.approx(1.959964 * 2.0 * apart)
    assert assumed.half_width < anywhere.half_width
    assert theory.precision(made, 1e6) == anywhere  # bounds hold in any case
    planned = theory.plan(made, deviation=2.0)
    assert planned.precision == theory.precision(planned.problem, 2.0)


def test_a_warning_blames_rounds_or_the_budget() -> None:
    network = vs.networks.lazy_metropolis("path:6")
    few = replace(problem(6, epsilon=1000.0, rounds=2), network=network)
    found = theory.precision(few)
    assert found is not None
    assert "budget buys nothing" not in found.warning()
    assert f"after so few rounds agents may differ by +- {found.mixing:.3g}" in found.warning()
    many = theory.precision(replace(few, rounds=400, privacy=SignalDP(epsilon=0.1, radius=ANY)))
    assert many is not None
    assert "this budget buys nothing; for +- 10 you need" in many.warning()
    assert "so few rounds" not in many.warning()


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "duchi", "piecewise", "hybrid"])
def test_the_epsilon_that_is_named_is_enough_and_not_much_more(mechanism: str) -> None:
    made = problem(mechanism=mechanism)
    found = theory.precision(made)
    assert found is not None
    if found.epsilon is None:  # the variance of a two-point mechanism has a floor
        assert mechanism == "duchi"
        assert half_width(problem(epsilon=100.0, mechanism=mechanism)) > 10
        return
    assert half_width(problem(epsilon=found.epsilon, mechanism=mechanism)) <= 10.0001
    assert half_width(problem(epsilon=found.epsilon / 1.1, mechanism=mechanism)) > 10


def test_the_agents_and_readings_that_are_named_are_enough_and_not_much_more() -> None:
    found = theory.precision(problem(epsilon=4.0))
    assert found is not None
    assert found.agents is not None
    assert found.readings is None
    assert half_width(problem(found.agents, 4.0)) <= 10
    assert half_width(problem(round(found.agents / 1.1), 4.0)) > 10
    stream = theory.precision(problem(online=True, rounds=4))
    assert stream is not None
    assert stream.readings is not None
    assert stream.agents is None  # the noise of the last reading is an agent's own
    assert half_width(problem(online=True, rounds=stream.readings)) <= 10
    assert half_width(problem(online=True, rounds=round(stream.readings / 1.1))) > 10


def test_a_budget_that_buys_nothing_is_said_and_one_that_buys_something_is_not() -> None:
    poor = theory.precision(problem(3))
    assert poor is not None
    assert not poor.useful
    assert "covers all of [0, 100]" in poor.warning()
    assert "n = 770 agents or epsilon = 16.01" in poor.warning()
    assert "readings" not in poor.warning()  # one reading each
    most = theory.precision(problem(3, epsilon=5.0))
    assert most is not None
    assert "covers most of [0, 100]" in most.warning()
    rich = theory.precision(problem(3, epsilon=20.0))
    assert rich is not None
    assert rich.useful
    assert rich.warning() == ""


def test_too_few_rounds_of_mixing_are_no_question_of_epsilon() -> None:
    network = vs.networks.metropolis("ring:101")
    source = SyntheticSignals(LOADS, {"mu": 50.0}, 101, seed=1)
    request = SignalDP(epsilon=100.0, radius=ANY)
    made = Problem(network, vs.algorithms.Average(), LOADS, source, request, 2, seed=7)
    found = theory.precision(made)
    assert found is not None
    assert (found.agents, found.epsilon) == (None, None)
    assert found.warning().endswith("add rounds, or narrow the bounds")


def test_nothing_is_compared_without_noise_or_without_bounds() -> None:
    assert theory.precision(replace(problem(), privacy=NoPrivacy(), epsilons=())) is None
    family = Normal(sigma=10.0)
    source = SyntheticSignals(family, {"mu": 50.0}, 20, seed=1)
    made = replace(problem(), family=family, source=source, privacy=SignalDP(epsilon=1.0))
    assert theory.precision(made) is None


def test_one_way_links_have_a_half_width_too() -> None:
    network = vs.networks.column_stochastic(np.roll(np.eye(9), 1, axis=0))  # a ring, one way
    source = SyntheticSignals(LOADS, {"mu": 50.0}, 9, seed=1)
    request = SignalDP(epsilon=1.0, radius=ANY)
    made = Problem(network, vs.algorithms.PushSum(), LOADS, source, request, 60, seed=7)
    assert half_width(made) == pytest.approx(1.96 * math.sqrt(2) * 100 / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (Normal(sigma=1.0, bounds=(-2.0, 3.0)), (-2.0, 3.0)),
        (Bernoulli(), (0.0, 1.0)),
        (Poisson(bounds=(0, 7)), (0.0, 7.0)),
        (LogNormal(sigma=1.0, bounds=(1.0, math.e)), (0.0, 1.0)),
        (Laplace(location=1.0, bounds=(0.0, 5.0)), (0.0, 4.0)),
        (NormalBoth(bounds=(-1.0, 2.0)), (0.0, 0.75)),  # of s - c and (s - c)^2/w the narrower
        (Categorical(categories=3), (0.0, 1.0)),
    ],
)
def test_the_range_of_the_statistic(family: Any, expected: tuple[float, float]) -> None:
    assert narrowest_range(family) == pytest.approx(expected)
