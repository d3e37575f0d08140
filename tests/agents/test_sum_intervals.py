"""Intervals of masked sums: as wide as their noise, and no wider."""

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from veilsum.agents.coverage import Coverage
from veilsum.agents.intervals import interval
from veilsum.agents.manifest import Manifest
from veilsum.agents.results import AgentResult
from veilsum.api import solve
from veilsum.scenario import Scenario
from veilsum.theory import precision

SCENARIO = """
network = {graph = "complete:3", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", mode = "masked", epsilon = 1.0, radius = 1.0, colluders = 1}
algorithm = {name = "masked-sum", rounds = 10}
"""


def terms(text: str = SCENARIO) -> Any:
    problem = Scenario.parse(text).build().problem
    return Manifest.of(problem, "three"), problem


@pytest.mark.parametrize("batches", [None, ", batches = {growth = 2.0, longest = 4}"])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_agents_plans_and_simulations_state_the_same_noise(batches: Any, confidence: float) -> None:
    """Weakened: a normal or a Laplace quantile differs by 1% and more for three members."""
    text = SCENARIO.replace("sigma = 1.0", "sigma = 1e-9")  # the noise is all that counts
    if batches:
        text = text.replace("colluders = 1", f"colluders = 1{batches}").replace("-sum", "-learn")
    manifest, problem = terms(text)
    draws, readings = (3 * 4, 3 * 8) if batches else (3, 3)  # batches of 1, 1, 2 and 4 readings
    made: Any = problem.plan.mechanism(1.0, 1)
    width = made.half_width(draws, readings, confidence)
    counts = (readings // 3,) * 3
    stated = interval(manifest, problem.family, counts, draws=draws, confidence=confidence)
    (agents,) = stated.noise
    assert agents == width
    simulated = solve(problem).intervals(confidence=confidence)["mu"]
    assert (simulated.high - simulated.low) / 2 == pytest.approx(width, rel=1e-6)
    if confidence == 0.95:
        found = precision(problem)
        assert found is not None
        assert found.half_width == pytest.approx(width, rel=1e-6)
    deviation = math.sqrt(made.worst_variance * draws) / readings
    for other in (NormalDist().inv_cdf((1 + confidence) / 2), -math.log(1 - confidence) / 2**0.5):
        assert abs(other * deviation / width - 1) > 0.01 or batches


def test_three_members_have_an_interval_that_covers_at_the_stated_rate() -> None:
    """20,000 sums of the simulator: five standard deviations, false alarms below 1e-6."""
    manifest, problem = terms()
    (width,) = interval(manifest, problem.family).half_width
    mechanism: Any = problem.plan.mechanism(1.0, 1)
    rng = np.random.default_rng(3)
    errors = np.abs(mechanism.sum_noise(3, rng, 20_000)) * mechanism.step / 3
    off = 5 * math.sqrt(0.95 * 0.05 / len(errors))
    assert abs((errors <= width - mechanism.step / 2).mean() - 0.95) < off
    assert abs((errors <= 0.9 * width).mean() - 0.95) > off, "a narrower one is noticed"
    assert width == pytest.approx(1.2015, rel=1e-3)  # the 95% quantile of GDL(3/2), over 3


def test_there_is_no_mixing_and_the_bounds_limit_the_width() -> None:
    manifest, problem = terms()
    found = interval(manifest, problem.family, estimate=(5.0,))
    assert found.mixing == (0.0,)
    assert found.sampling is not None
    assert found.sampling[0] == pytest.approx(1.959964 / math.sqrt(3))
    narrow = replace(manifest, epsilon=0.01)
    assert interval(narrow, problem.family).half_width == (10.0,)
    assert interval(manifest, problem.family, (0, 0, 0)).half_width == (math.inf,)


def test_more_sums_have_the_noise_of_all_their_draws() -> None:
    text = SCENARIO.replace("masked-sum", "masked-learn").replace("rounds = 10", "rounds = 64")
    batches = text.replace("colluders = 1", "colluders = 1, batches = {growth = 2.0}")
    every, few = terms(text), terms(batches)
    assert (every[0].queries, few[0].queries) == (64, 7)
    wide, narrow = (interval(m, p.family).half_width[0] for m, p in (every, few))
    assert wide / narrow == pytest.approx(math.sqrt(64 / 7), rel=0.05)
    manifest, problem = few
    counts = (8, 8, 8)
    partly = interval(manifest, problem.family, counts, round=4, draws=12)
    fewer = interval(manifest, problem.family, counts, round=4, draws=11)
    assert partly.half_width > fewer.half_width


def test_results_say_how_they_came_about() -> None:
    manifest, problem = terms()
    labels = manifest.labels
    coverage = Coverage(labels, labels, (1, 1, 1), draws=3, attempt=1)
    found = AgentResult.of(manifest, problem.family, "0", 1, "sum", (4.5,), coverage)
    assert found.sentence().startswith(
        "0: 4.5 +- 1.2 (95% of the mean of these readings) from a masked sum in attempt 1 of 1 over a "
        "roster of 3 of 3"
    )
    assert found.exit_code == 0
    assert found.to_json()["coverage"]["draws"] == 3
    two = Coverage(labels, labels[:2], (1, 1, 0), draws=2, attempt=1)
    partly = AgentResult.of(manifest, problem.family, "0", 1, "sum", (4.5,), two)
    assert "(95% of the mean of the readings present) from a masked sum" in partly.sentence()
    for reason, word in (("attempts", "silent"), ("views", "roster"), ("cloned", "signing key")):
        none = AgentResult.of(manifest, problem.family, "0", 1, reason, (), Coverage.none(labels))
        assert word in none.sentence()
        assert none.exit_code == 3
    stopped = AgentResult.of(manifest, problem.family, "0", 1, "cloned", (4.5,), coverage)
    assert not stopped.estimate
