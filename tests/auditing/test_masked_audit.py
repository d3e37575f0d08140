"""Class sums of a masked sum, attacked with the draws of colluders known."""

from typing import Any

import pytest

from murmura import algorithms, families, networks
from murmura.auditing import audit_masked, audit_problem
from murmura.errors import PrivacyError
from murmura.privacy import MaskedDP, MaskedParameters
from murmura.simulation import Problem, SyntheticSignals

TERMS = MaskedParameters(16, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=32)


def test_as_many_colluders_as_are_covered_learn_no_more_than_epsilon() -> None:
    report = audit_masked(TERMS, trials=15_000)
    assert not report.refuted
    assert report.exact == 1.0
    assert report.lower_bound > 0.7  # the attack is not a weak one
    assert not audit_masked(TERMS, colluders=0, trials=5_000).refuted


def test_half_of_the_noise_is_refuted_by_samples_alone() -> None:
    """beta = 0.5: nine of the fourteen of the smallest roster collude, where four are covered."""
    report = audit_masked(TERMS, colluders=9, trials=40_000)
    assert report.lower_bound > 1.3  # confidence 1 - 1e-6
    assert report.exact is not None
    assert report.exact > report.lower_bound
    assert report.refuted


def test_vectors_too() -> None:
    vector = MaskedParameters(16, 4, 2, epsilon=1.0, sensitivity_steps=8, dimension=2)
    assert not audit_masked(vector, trials=8_000).refuted
    weak = audit_masked(vector, colluders=9, trials=20_000)
    assert weak.exact is None
    assert weak.refuted


def test_many_members_are_drawn_together() -> None:
    many = MaskedParameters(400, 100, 50, epsilon=1.0, sensitivity_steps=64)
    assert not audit_masked(many, trials=15_000).refuted
    assert audit_masked(many, colluders=225, trials=40_000).lower_bound > 1.0
    with pytest.raises(PrivacyError, match="at most 349"):
        audit_masked(many, colluders=350)


def test_a_problem_is_audited_as_its_masked_sum() -> None:
    ring, family = networks.metropolis("ring:9"), families.Normal(1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, 9, seed=1)
    made: Any = algorithms.get("masked-sum", ring)
    request = MaskedDP(1.0, colluders=2, absent=1, steps=16)
    todo = Problem(ring, made, family, source, request, made.arrival)
    report = audit_problem(todo, trials=5_000)
    assert not report.refuted
    assert (report.name, report.epsilon, report.exact) == ("masked-sum", 1.0, 1.0)
