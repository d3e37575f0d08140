"""Skellam noise has its distribution, adds up, and costs no more than its bound says."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from tests.privacy.gdl import FALSE_ALARM, LIMIT, chi_square, deviation, stream
from veilsum.errors import PrivacyError
from veilsum.privacy import Accountant, Budget, BudgetExceeded, ReleaseEvent
from veilsum.privacy.laws.skellam import Skellam, SkellamCost, skellam_variance


def probabilities(variance: Any, reach: int) -> Any:
    """e^-v I_k(v) for |k| <= reach."""
    return special.ive(np.abs(np.arange(-reach, reach + 1)), float(variance))


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(60), Fraction(700)])
def test_draws_have_their_probabilities_and_a_wrong_variance_is_found(variance: Any) -> None:
    count = 8_000 if variance < 100 else 400
    factor = Fraction(7, 5) if variance < 100 else Fraction(2)
    reach = int(14 * float(variance) ** 0.5) + 14
    right, wrong = probabilities(variance, reach), probabilities(variance * factor, reach)
    draws = Skellam(variance).draw(count, stream(1))
    assert abs(deviation(draws, right, wrong)) < LIMIT
    if variance < 100:
        assert chi_square(draws, right) > FALSE_ALARM
    more = Skellam(variance * factor).draw(count, stream(2))
    assert deviation(more, right, wrong) > LIMIT


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(60)])
def test_parts_add_up_and_the_fast_sampler_catches_a_variance_five_percent_off(
    variance: Any,
) -> None:
    h, count, reach = 4, 200_000, int(14 * float(variance) ** 0.5) + 14
    right, wrong = probabilities(variance, reach), probabilities(variance * 1.05, reach)
    rng = np.random.default_rng(3)
    sums = Skellam(variance / h).sample((count, h), rng).sum(axis=1)
    assert abs(deviation(sums, right, wrong)) < LIMIT
    off = Skellam(variance * Fraction(21, 20 * h)).sample((count, h), rng).sum(axis=1)
    assert deviation(off, right, wrong) > LIMIT


def test_a_variance_beyond_tables_has_its_size() -> None:
    draws = Skellam(Fraction(2**50, 7)).draw(300, stream(5)).astype(np.float64)
    assert abs(draws.var() * 7 / 2**50 - 1) < 1.5 * LIMIT * math.sqrt(2 / 300)
    assert stats.kstest(draws / math.sqrt(2**50 / 7), "norm").pvalue > FALSE_ALARM


def divergence(variance: float, move: int, order: int) -> float:
    """The Renyi divergence of one component that moves, by its sum."""
    reach = int(move * order + 40 * math.sqrt(variance + 1)) + 60
    k = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        here, there = (np.log(special.ive(np.abs(k - m), variance)) for m in (move, 0))
        terms = order * here - (order - 1) * there
    terms = terms[np.isfinite(terms)]
    assert max(terms[0], terms[-1]) < terms.max() - 20, "the sum is cut off"
    return float(special.logsumexp(terms)) / (order - 1)


CASES = [  # with probabilities above the smallest float
    (v, m, a)
    for v in (2.0, 10.0, 300.0)
    for m in (1, 3, 12)
    for a in (2, 3, 9, 30)
    if a * m <= 3 * v + 40
]


@pytest.mark.parametrize(("variance", "move", "order"), CASES)
def test_the_exact_divergence_is_below_the_bound(variance: float, move: int, order: int) -> None:
    cost = SkellamCost(variance, move, move)
    exact = divergence(variance, move, order)
    assert exact <= cost.divergence(order) * (1 + 1e-9)
    assert exact <= cost.offset + cost.rho * (order - 1)


def test_the_check_of_the_bound_finds_one_for_less_noise() -> None:
    """Weakened variant: half of the noise is missing, the bound is for all of it."""
    for variance, move, order in [(10.0, 1, 2), (300.0, 3, 9), (300.0, 12, 3)]:
        assert divergence(variance / 2, move, order) > SkellamCost(variance, move, move).divergence(
            order
        )


@pytest.mark.parametrize(("variance", "l1", "l2"), [(1e4, 60.0, 20.0), (1e8, 1e4, 1e3)])
def test_epsilon_is_above_the_one_of_gaussian_noise_and_close_to_it(
    variance: float, l1: float, l2: float
) -> None:
    """Exact delta of a Gaussian mechanism (Balle and Wang 2018), which Skellam noise tends to."""
    delta, mu = 1e-6, l2 / math.sqrt(variance)
    found = SkellamCost(variance, l1, l2).epsilon(delta)
    gaussian = stats.norm.cdf(mu / 2 - found / mu) - math.exp(found) * stats.norm.cdf(
        -mu / 2 - found / mu
    )
    assert gaussian <= delta
    less = 0.85 * found
    assert (
        stats.norm.cdf(mu / 2 - less / mu) - math.exp(less) * stats.norm.cdf(-mu / 2 - less / mu)
        > delta
    )


def test_sessions_compose_better_than_they_add_and_an_accountant_refuses_the_last() -> None:
    cost = SkellamCost(1e6, 1000.0, 100.0)
    assert cost.epsilon(1e-6, 100) < 25 * cost.epsilon(1e-6)
    event = cost.event(1e-7)
    accountant = Accountant(Budget(2.5 * event.epsilon, 1e-6))
    charges = [ReleaseEvent("a", k, "sum", **vars(event)) for k in (1, 2, 3)]
    for charge in charges[:2]:
        accountant.charge(charge)
    with pytest.raises(BudgetExceeded):
        accountant.charge(charges[2])
    composing = Accountant(Budget(2.5 * event.epsilon, 1e-6), composition="best")
    for charge in charges:
        composing.charge(charge)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize(("l1", "l2"), [(1.0, 1.0), (2.0**24, 2.0**20)])
def test_the_variance_is_the_least_that_fits(epsilon: float, l1: float, l2: float) -> None:
    v = float(skellam_variance(epsilon, 1e-8, l1, l2, sessions=3))
    assert SkellamCost(v, l1, l2).epsilon(1e-8, 3) <= epsilon
    assert SkellamCost(0.999 * v, l1, l2).epsilon(1e-8, 3) > epsilon


def test_colluders_beyond_the_bound_cost_a_factor_and_no_cliff() -> None:
    cost = SkellamCost(2.0**40, 2.0**20, 2.0**16)
    law = Skellam(Fraction(2**40))
    half, all_of_it = (
        law.part(b).epsilon(2**20, 2.0**16, delta=1e-6) for b in (Fraction(1, 2), Fraction(1))
    )
    assert all_of_it == cost.epsilon(1e-6)
    assert half == pytest.approx(math.sqrt(2) * all_of_it, rel=0.05)


@pytest.mark.parametrize("variance", [0, 0.5, True, Fraction(2**122)])
def test_what_is_no_fraction_in_range_is_refused(variance: Any) -> None:
    with pytest.raises(PrivacyError, match="variance"):
        Skellam(variance)
    with pytest.raises(PrivacyError, match="l2 must be at most l1"):
        SkellamCost(1.0, 1.0, 2.0)


def test_the_bound_is_the_published_one_with_both_of_its_terms() -> None:
    """Theorem 3.5 of the paper, by hand; in the cases above the first term alone would do as well."""
    assert SkellamCost(10.0, 3.0, 3.0).divergence(4) == pytest.approx(36 / 20 + 81 / 400)
    assert SkellamCost(1.0, 9.0, 3.0).divergence(4) == pytest.approx(36 / 2 + 27 / 2)


def test_sessions_add_their_divergences() -> None:
    """Four sessions cost about as much as one with a quarter of the noise, and not as one."""
    cost = SkellamCost(1e8, 1e4, 1e3)
    four, quarter = cost.epsilon(1e-6, sessions=4), SkellamCost(0.25e8, 1e4, 1e3).epsilon(1e-6)
    assert four == pytest.approx(quarter, rel=0.01)
    assert four > 1.9 * cost.epsilon(1e-6)
    one, many = (skellam_variance(1.0, 1e-6, 1e4, 1e3, sessions=k) for k in (1, 4))
    assert float(many / one) == pytest.approx(4, rel=0.01)
