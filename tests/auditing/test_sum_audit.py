"""The sum over a roster of a secure sum, attacked with the draws of colluders known."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from veilsum import algorithms, families, networks
from veilsum.auditing import audit_problem, audit_sum, sum_likelihoods, sums
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    Batches,
    DiscreteLaplace,
    SecureParameters,
    SecureSumDP,
    SignalDP,
    Skellam,
)
from veilsum.privacy.laws import GeneralizedDiscreteLaplace
from veilsum.simulation import Problem, SyntheticSignals

TERMS = SecureParameters(16, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=32)


def test_as_many_colluders_as_are_covered_learn_no_more_than_epsilon() -> None:
    report = audit_sum(TERMS, trials=15_000)
    assert not report.refuted
    assert report.exact == 1.0
    assert report.lower_bound > 0.7  # the attack is not a weak one
    assert not audit_sum(TERMS, colluders=0, trials=5_000).refuted


def test_half_of_the_noise_is_refuted_by_samples_alone() -> None:
    """beta = 0.5: nine of the fourteen of the smallest roster collude, where four are covered."""
    report = audit_sum(TERMS, colluders=9, trials=40_000)
    assert report.lower_bound > 1.3  # confidence 1 - 1e-6
    assert report.exact is not None
    assert report.exact > report.lower_bound
    assert report.refuted


def test_likelihoods_of_all_draws_together_agree_with_the_claim_and_with_its_quadrature() -> None:
    """By the characteristic function of what each member draws; the quadrature starts from the sum."""
    for terms in (TERMS, replace(TERMS, epsilon=0.25, sensitivity_steps=4096)):
        covered = sum_likelihoods(terms)
        assert covered is not None
        assert covered.exact == pytest.approx(terms.epsilon, rel=1e-9)
        assert not covered.refuted
        for count in (5, 9, 13):
            more = sum_likelihoods(terms, count)
            assert more is not None
            assert more.refuted
            assert more.exact == pytest.approx(terms.epsilon_against(count), rel=1e-9)


def test_likelihoods_of_a_vector_are_those_of_its_components_together() -> None:
    vector = SecureParameters(16, 4, 2, epsilon=1.0, sensitivity_steps=8, dimension=2)
    found = sum_likelihoods(vector)
    assert found is not None
    assert found.exact == pytest.approx(1.0, rel=1e-9)
    assert sum_likelihoods(VECTOR) is None, "a loss says nothing of a delta"


def test_likelihoods_refute_a_law_that_is_a_hundredth_of_a_percent_too_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    law = TERMS.noise.shrunk(0.9999)
    monkeypatch.setattr(SecureParameters, "noise", law)
    found = sum_likelihoods(replace(TERMS))
    assert found is not None
    assert found.refuted


@pytest.mark.parametrize("epsilon", [1e-3, 14.9, 16.0])
def test_likelihoods_beyond_what_floats_resolve_are_left_out(epsilon: float) -> None:
    """A rounding error must not refute a claim that holds."""
    found = sum_likelihoods(replace(TERMS, epsilon=epsilon, sensitivity_steps=4096))
    assert (found is None) == (epsilon != 14.9)
    assert found is None or not found.refuted
    most = sum_likelihoods(TERMS, TERMS.smallest_roster - 1)
    assert most is not None
    assert most.refuted


def zeros(_: Any, count: int, entropy: Any = None) -> Any:  # noqa: ARG001
    return np.zeros(count, dtype=np.int64)


VECTOR = SecureParameters(
    14, 4, 2, epsilon=1.0, sensitivity_steps=64, dimension=16, delta=1e-6, l2_steps=16.0
)


@pytest.mark.parametrize(
    ("terms", "noise"), [(TERMS, GeneralizedDiscreteLaplace), (VECTOR, Skellam)]
)
def test_what_agents_draw_is_audited_and_not_only_what_simulations_draw(
    terms: Any, noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Confidence 1 - 1e-6: the sampler of agents is the one that is patched to draw nothing."""
    sound = audit_sum(terms, drawn_exactly=True, trials=200)
    assert not sound.refuted
    assert ", exact" in str(sound)
    monkeypatch.setattr(noise, "draw", zeros)
    patched = audit_sum(terms, drawn_exactly=True)
    assert patched.refuted
    assert patched.lower_bound > terms.epsilon
    assert patched.sampler == "exact", "every member's own draw"
    blind = audit_sum(terms, trials=2000)  # the weakened variant looks at the other sampler
    assert not blind.refuted
    assert ", floating-point sampler)" in str(blind)


def test_a_sampler_that_is_too_slow_draws_the_parts_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sums, "LONGEST", 0.0)
    found = audit_sum(TERMS, drawn_exactly=True)
    assert not found.refuted  # alarm below 1e-6
    monkeypatch.setattr(DiscreteLaplace, "draw", zeros)  # of all honest members together
    assert audit_sum(TERMS, drawn_exactly=True).refuted
    assert ", exact (parts at once) sampler)" in str(found)


def test_vectors_too() -> None:
    vector = SecureParameters(16, 4, 2, epsilon=1.0, sensitivity_steps=8, dimension=2)
    assert not audit_sum(vector, trials=8_000).refuted
    weak = audit_sum(vector, colluders=9, trials=20_000)
    assert weak.exact is None
    assert weak.refuted


def test_many_members_are_drawn_together() -> None:
    many = SecureParameters(400, 100, 50, epsilon=1.0, sensitivity_steps=64)
    assert not audit_sum(many, trials=15_000).refuted
    assert audit_sum(many, colluders=225, trials=40_000).lower_bound > 1.0
    with pytest.raises(PrivacyError, match=r"at most 349 .* n - absent = 350 members"):
        audit_sum(many, colluders=350)


def test_a_problem_is_audited_as_its_secure_sum() -> None:
    ring, family = networks.metropolis("ring:9"), families.Normal(1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, 9, seed=1)
    made: Any = algorithms.get("secure-sum", ring)
    request = SecureSumDP(1.0, colluders=2, absent=1, steps=16)
    todo = Problem(ring, made, family, source, request, made.arrival)
    report = audit_problem(todo, trials=5_000)
    assert not report.refuted
    assert (report.name, report.epsilon, report.exact) == ("secure-sum", 1.0, 1.0)


def test_a_stream_is_audited_batch_by_batch() -> None:
    """A reading moves one query, of its batch, by what it moves its own statistic."""
    ring, family = networks.metropolis("ring:9"), families.Normal(1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, 9, seed=1)
    made: Any = algorithms.get("secure-learn", ring)
    request = SecureSumDP(1.0, colluders=2, absent=1, steps=16, batches=Batches(2.0, 4))
    todo = Problem(ring, made, family, source, request, 8)
    report = audit_problem(todo, trials=5_000)
    assert not report.refuted
    assert (report.name, report.epsilon, report.exact) == ("secure-learn", 1.0, 1.0)
    # two readings of a batch move its sum by twice as much: the claim for one does not hold for them
    terms = made_terms(todo)
    double = replace(terms, epsilon=2.0, sensitivity_steps=2 * terms.sensitivity_steps)
    both = audit_sum(double, trials=15_000)
    assert both.lower_bound > 1.3
    assert not both.refuted  # two readings cost two epsilon


def made_terms(problem: Problem) -> SecureParameters:
    made: Any = problem.plan.mechanism(1.0, 1)
    return cast(SecureParameters, made.terms)


def test_a_stream_is_beyond_its_claim_where_more_collude_than_it_covers() -> None:
    """beta = 0.5: of the eight in the smallest roster, five collude where two are covered."""
    ring, family = networks.metropolis("ring:9"), families.Normal(1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, 9, seed=1)
    made: Any = algorithms.get("secure-learn", ring)
    request = SecureSumDP(1.0, colluders=2, absent=1, steps=16, batches=Batches(2.0, 4))
    todo = Problem(ring, made, family, source, request, 8)
    weak = audit_problem(todo, trials=40_000, colluders=5)
    assert weak.lower_bound > 1.2  # by samples alone, confidence 1 - 1e-6: more than is claimed
    assert weak.epsilon == weak.exact == made_terms(todo).epsilon_against(5)
    assert (weak.verdict, weak.refuted) == ("beyond", False)
    assert "5 colluders are beyond the 2 covered, so that nothing is claimed; epsilon = " in str(
        weak
    )
    assert "would have found it" not in str(weak)
    assert replace(weak, lower_bound=weak.epsilon + 0.1).verdict == "REFUTED"  # what is stated, too
    covered = audit_problem(todo, trials=2_000, colluders=2)
    assert (covered.verdict, covered.beyond, covered.epsilon) == ("not refuted", "", 1.0)


def test_colluders_are_refused_where_the_noise_is_local() -> None:
    ring, family = networks.metropolis("ring:9"), families.Normal(1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, 9, seed=1)
    todo = Problem(ring, algorithms.get("average", ring), family, source, SignalDP(1.0), 3)
    with pytest.raises(PrivacyError, match="are covered"):
        audit_problem(todo, trials=1_000, colluders=2)
    with pytest.raises(PrivacyError, match="is for sums over a roster"):
        audit_problem(todo, trials=1_000, drawn_exactly=True)
