"""Skellam noise in a masked sum, from a request with delta: guarantee, simulator, plan, refusals."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum import algorithms, families, networks, theory
from veilsum.auditing import audit_sum
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    Batches,
    DiscreteLaplace,
    MaskedDP,
    MaskedParameters,
    Skellam,
    guarantee_of,
    plan,
)
from veilsum.scenario import Scenario
from veilsum.simulation import Problem, SyntheticSignals, simulate

RING, COMPONENTS = networks.metropolis("ring:21"), 64
VECTOR = families.get(
    "multivariate-normal", sigma=(0.01 * np.eye(COMPONENTS)).tolist(), bounds=(0.0, 1.0)
)
ASKED = MaskedDP(1.0, 1e-6, radius=float("inf"), colluders=4, absent=2, attempts=1)
TERMS = MaskedParameters(
    16, 4, 2, epsilon=1.0, sensitivity_steps=64, dimension=16, delta=1e-3, l2_steps=16.0
)


def problem(privacy: Any = ASKED, **kwargs: Any) -> Problem:
    made: Any = algorithms.get("masked-sum", RING)
    source = SyntheticSignals(VECTOR, {"mu": [0.5] * COMPONENTS}, RING.size, seed=1)
    return Problem(RING, made, VECTOR, source, privacy, made.arrival, **kwargs)


def test_a_request_with_delta_ends_in_skellam_noise_of_the_l2_norm() -> None:
    made = plan(ASKED, VECTOR, members=21).mechanism()
    terms, law = made.terms, made.terms.law
    assert isinstance(law, Skellam)
    assert terms.l2_steps is not None
    # every component moves by 1: 8 in l2 norm, and rounding
    assert terms.l2_steps == pytest.approx(8 / made.step + 8)
    assert terms.sensitivity_steps == 64 / made.step + 64
    less = law.part(Fraction(9, 10))  # a tenth less noise would not do
    costs = [
        noise.epsilon(terms.sensitivity_steps, terms.l2_steps, COMPONENTS, 1e-6)
        for noise in (law, less)
    ]
    assert costs[0] <= 1.0 < costs[1]
    assert terms.noise.variance * terms.honest == law.variance
    assert terms.noise.draw(COMPONENTS).shape == (COMPONENTS,)
    pure = plan(replace(ASKED, delta=0.0), VECTOR, members=21).mechanism()
    assert not isinstance(pure.terms.law, Skellam)
    assert pure.worst_variance > 4 * made.worst_variance


def test_the_guarantee_has_epsilon_and_delta_for_every_attempt() -> None:
    made = algorithms.get("masked-sum", RING)
    one = guarantee_of(ASKED, made, 60, VECTOR)
    assert (one.status, one.epsilon, one.delta) == ("proved", 1.0, 1e-6)
    assert "one full Skellam draw" in one.reason
    assert "If 8 colluded, epsilon would be 1.1" in str(one)
    twice = guarantee_of(replace(ASKED, attempts=2), made, 60, VECTOR)
    assert (twice.epsilon, twice.delta) == (1.0, 1e-6)
    stream = guarantee_of(ASKED, algorithms.get("masked-learn", RING), 60, VECTOR)
    assert stream.for_window(3).delta == pytest.approx(3e-6)
    assert type(twice).from_dict(twice.to_dict()) == twice


def test_runs_have_the_errors_of_theory() -> None:
    """64 components and 30 replicas: 1,920 nearly normal draws, within 5.5 sqrt(2/1920) (1e-7)."""
    todo = problem(replicas=30)
    trace, exact = simulate(todo), theory.expected(todo, deviation=0.1)
    found = (trace.privacy[-1, 0] ** 2).mean() / exact.privacy[-1, 0] ** 2
    assert abs(found - 1) < 5.5 * np.sqrt(2 / 1920)
    assert not abs(found * 21 / 15 - 1) < 5.5 * np.sqrt(2 / 1920)
    noise = (trace.mean[0] - trace.target).ravel()
    assert stats.kstest(noise / noise.std(), "norm").pvalue > 1e-6


def test_the_plan_compares_it_and_writes_it_down() -> None:
    found = theory.plan(problem(), deviation=0.1)
    assert found.best.algorithm == "masked-sum"
    assert "privacy.delta = 1e-06\n" in found.toml()


def test_the_tail_holds_and_is_not_far_out() -> None:
    drawn = TERMS.sum_noise(16).sample(400_000, np.random.default_rng(1))
    far = TERMS.noise_tail(16, 1e-3)
    beyond = float((np.abs(drawn) >= far).mean())
    assert beyond <= 1e-3  # Chernoff's bound is loose by more than ten standard errors here
    assert float((np.abs(drawn) >= far / 2).mean()) > 1e-3
    assert TERMS.largest_sum == 16 * 64 + TERMS.noise_tail(16)


def test_exact_and_fast_draws_have_one_distribution() -> None:
    exact = TERMS.noise.draw(3000)
    fast = TERMS.noise.sample(20_000, np.random.default_rng(2))
    assert stats.ks_2samp(exact, fast).pvalue > 1e-7
    half = replace(TERMS, epsilon=2.0).noise.sample(20_000, np.random.default_rng(2))
    assert stats.ks_2samp(exact, half).pvalue < 1e-7


def test_more_colluders_cost_gradually() -> None:
    costs = [TERMS.epsilon_against(k) for k in (0, 4, 6, 9, 13)]
    assert costs[:2] == [1.0, 1.0]
    assert costs[2:] == sorted(costs[2:])
    assert 1.0 < costs[2] < costs[3] < 1.0 / np.sqrt(0.5) + 0.15
    pure = MaskedParameters(16, 4, 2, epsilon=1.0, sensitivity_steps=64, dimension=16)
    assert pure.epsilon_against(9) > 2 * costs[3]  # the cliff that Skellam noise does not have


def test_the_audit_takes_it() -> None:
    many = replace(TERMS, n=60, colluders=20, absent=4)
    assert not audit_sum(many, trials=2_000).refuted
    weak = audit_sum(TERMS, colluders=13, trials=6_000)  # a tenth of the noise
    assert weak.refuted


def test_what_delta_does_not_help_is_refused() -> None:
    made = algorithms.get("masked-sum", RING)
    normal = families.Normal(1.0, bounds=(0.0, 1.0))
    number = guarantee_of(MaskedDP(1.0, 1e-6, colluders=0), made, 60, normal)
    assert number.status == "none"
    assert "Skellam noise has" in number.reason
    near = guarantee_of(replace(ASKED, radius=1.0), made, 60, VECTOR)
    assert "leave delta out" in near.reason
    with pytest.raises(PrivacyError, match="buys nothing here"):
        _ = problem(replace(ASKED, radius=1.0)).plan
    with pytest.raises(PrivacyError, match="readings of one batch"):
        MaskedDP(1.0, 1e-6, batches=Batches(), colluders=0)
    for delta in (-1e-9, 1.0):
        with pytest.raises(PrivacyError, match="delta"):
            replace(TERMS, delta=delta)
    with pytest.raises(PrivacyError, match="l2_steps"):
        replace(TERMS, l2_steps=0.0)


def test_without_a_delta_the_same_terms_have_pure_noise() -> None:
    """Skellam noise never comes without a delta: no draw of it costs a pure epsilon."""
    pure = replace(TERMS, delta=0.0)
    assert pure.law == DiscreteLaplace(TERMS.scale)
    assert (pure.event.epsilon, pure.event.delta) == (1.0, 0.0)
    assert isinstance(TERMS.law, Skellam)
    assert (TERMS.event.epsilon, TERMS.event.delta) == (1.0, 1e-3)


def test_from_a_file() -> None:
    text = """
name = "vectors"
[network]
graph = "ring:21"
[family]
name = "multivariate-normal"
sigma = {sigma}
bounds = [0.0, 1.0]
[signals]
draw = {{ mu = {mu} }}
[privacy]
protect = "signal"
mode = "masked"
colluders = 0
epsilon = 1.0
delta = 1e-6
radius = inf
[algorithm]
name = "masked-sum"
rounds = 50
"""
    sigma = (0.01 * np.eye(24)).tolist()
    built = Scenario.parse(text.format(sigma=sigma, mu=[0.5] * 24)).build().problem
    assert built.privacy == MaskedDP(1.0, 1e-6, radius=float("inf"), colluders=0)
    assert built.guarantee.delta == 1e-6
    made: Any = built.plan.mechanism(1.0, 1)
    assert made.terms.noise.variance == made.terms.law.variance * Fraction(1, 21)
