"""Agents whose readings have different means: who stays apart, what is said, what is planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, networks
from veilsum.algorithms import Coefficients
from veilsum.privacy import Batches, SignalDP
from veilsum.simulation import Problem, RecordedSignals, SyntheticSignals
from veilsum.theory import planning

NET = networks.metropolis("random-geometric:30,0.4,1")
OWN = np.linspace(-2.0, 3.0, NET.size)
NOTE = "does not lead agents that differ to their mean"


@dataclass(frozen=True)
class Heavier(algorithms.Learn):
    """Alg. 4 with half of the estimate kept: averaging still has a constant weight."""

    name: ClassVar[str] = "heavier"

    def coefficients(self, t: int) -> Coefficients:
        """Half own, half averaged."""
        half = (t - 1) / (2 * t)
        return Coefficients(own=half, mixing=half, innovation=1 / t, noise=1 / t)


ONLINE = [
    (algorithms.Learn(), False),
    (Heavier(), False),
    (algorithms.LearnNetwork(), True),
    (algorithms.LearnDynamic(), True),
    (algorithms.FirstOrderOnline(), True),
    (algorithms.Batched(algorithms.Learn(), Batches(2.0, 24)), False),
    (algorithms.Batched(algorithms.LearnNetwork(), Batches(2.0, 24)), True),
]


def limits(algorithm: Any, rounds: int) -> Iterator[float]:
    """Disagreement in every round in which each agent reads its own mean."""
    A, zero = NET.weights, 0 * OWN
    state = algorithms.init(algorithm, OWN, zero)
    for t in range(1, rounds + 1):
        xi = OWN * algorithm.readings(t)
        state = algorithms.step(algorithm, t, state, A @ state.nu, xi, zero)
        yield float(np.linalg.norm(state.nu - state.nu.mean()))


@pytest.mark.parametrize(("algorithm", "stays"), ONLINE)
def test_who_stays_apart_is_what_a_run_shows(algorithm: Any, stays: bool) -> None:
    """The decision at lambda = 0 against all of a network."""
    assert algorithms.keeps_differences(algorithm) is stays
    apart = list(limits(algorithm, 8000))
    assert (min(apart[4000:]) > 0.75 * min(apart[2000:4000])) is stays


def test_offline_algorithms_have_one_reading_each() -> None:
    assert not algorithms.keeps_differences(algorithms.Average())


def test_alg_5_tends_to_its_fixed_point() -> None:
    """(2I - A)^-1 m, to rounding that falls as 1/t; the mean of all agents is right."""
    A, zero = NET.weights.toarray(), 0 * OWN
    state, algorithm = (
        algorithms.init(algorithms.LearnNetwork(), OWN, zero),
        algorithms.LearnNetwork(),
    )
    for t in range(1, 3001):
        state = algorithms.step(algorithm, t, state, A @ state.nu, OWN, zero)
    limit = np.linalg.solve(2 * np.eye(len(A)) - A, OWN)
    np.testing.assert_allclose(state.nu, limit, atol=1e-3)
    assert state.nu.mean() == pytest.approx(OWN.mean())
    left = np.linalg.norm(limit - OWN.mean()) / np.linalg.norm(OWN - OWN.mean())
    assert 1 / 3 < left < 1


def test_alg_4_learns_on_changing_networks_what_the_dynamic_rule_does_not() -> None:
    links, zero = networks.link_failures("random-geometric:30,0.4,1", 0.3, seed=1), 0 * OWN
    apart = {}
    for algorithm in (algorithms.Learn(), algorithms.LearnDynamic()):
        state = algorithms.init(algorithm, OWN, zero)
        for t in range(1, 501):
            state = algorithms.step(algorithm, t, state, links.at(t) @ state.nu, OWN, zero)
        apart[algorithm.name] = float(np.linalg.norm(state.nu - OWN.mean()))
    assert apart["learn"] < 0.05 * apart["learn-dynamic"]


def problem(algorithm: Any, measured: bool) -> Problem:
    family = vs.families.Normal(sigma=1.0)
    readings = np.random.default_rng(1).normal(OWN[:, None], 1.0, (NET.size, 12))
    source: Any = SyntheticSignals(family, {"mu": 0.0}, NET.size, 1)
    if measured:
        source = RecordedSignals(vs.signals.as_signals(readings, labels=NET.labels))
    return Problem(NET, algorithm, family, source, SignalDP(1.0, radius=1.0), 12)


@pytest.mark.parametrize(("name", "said"), [("learn-network", True), ("learn", False)])
def test_a_result_of_a_measured_stream_says_so(name: str, said: bool) -> None:
    algorithm = algorithms.get(name, NET)
    for measured in (True, False):
        made = problem(algorithm, measured)
        result = vs.results.Result(made, vs.simulation.simulate(made))
        assert any(NOTE in note for note in result.warnings) is (said and measured)


def test_plans_for_measured_streams_offer_what_reaches_the_mean() -> None:
    """Alg. 5 is no alternative there; asked for, it stays."""

    def offered(own: str, measured: bool) -> list[str]:
        algorithm = algorithms.get(own, NET)
        return [each.name for each in planning._algorithms(algorithm, NET, measured)]

    assert offered("learn", measured=True) == ["learn"]
    assert offered("learn", measured=False) == ["learn", "learn-network"]
    assert offered("learn-network", measured=True) == ["learn", "learn-network"]
