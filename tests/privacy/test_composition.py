"""Composition against dp_accounting, exact fractions and closed forms."""

import math
import re
import sys
from fractions import Fraction
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum._extras import install_command
from veilsum.errors import MissingExtraError, PrivacyError
from veilsum.privacy.accounting import (
    Composition,
    PrivacyEvent,
    ReleaseEvent,
    compose,
    events,
    spent,
)
from veilsum.privacy.accounting import composition as methods

LAPLACE = [  # (scale / sensitivity, count) of every kind of release, delta
    ([(10.0, 100)], 1e-6), ([(10.0, 10)], 1e-6), ([(10.0, 1000)], 1e-6), ([(10.0, 100)], 1e-3),
    ([(10.0, 100)], 1e-9), ([(1.0, 1)], 0.1), ([(1.0, 2)], 1e-2), ([(1.0, 10)], 1e-5),
    ([(1.0, 30)], 1e-5), ([(2.0, 50)], 1e-6), ([(5.0, 365)], 1e-6), ([(20.0, 365)], 1e-6),
    ([(100.0, 1096)], 1e-6), ([(50.0, 5000)], 1e-8), ([(0.5, 3)], 1e-2), ([(0.25, 4)], 1e-4),
    ([(10.0, 20), (5.0, 20)], 1e-6), ([(1.0, 1), (10.0, 99)], 1e-6), ([(2.0, 7), (30.0, 7)], 1e-4),
    ([(3.0, 5), (6.0, 5), (12.0, 5)], 1e-5), ([(8.0, 64), (16.0, 256)], 1e-6),
]  # fmt: skip


def laplace(scale: float) -> PrivacyEvent:
    return PrivacyEvent(1 / scale, mechanism="laplace")


def theirs(kinds: list[tuple[float, int]], delta: float) -> float:
    accountant = PLDAccountant()
    for scale, count in kinds:
        accountant.compose(dp_accounting.LaplaceDpEvent(scale), count)
    return float(accountant.get_epsilon(delta))


@pytest.mark.thorough
@pytest.mark.parametrize(("kinds", "delta"), LAPLACE)
def test_laplace_releases_cost_what_dp_accounting_says(kinds: Any, delta: Any) -> None:
    releases = [laplace(scale) for scale, count in kinds for _ in range(count)]
    assert compose(releases, delta).epsilon == pytest.approx(theirs(kinds, delta), rel=1e-3)


def test_a_hundred_laplace_releases_of_ten_times_the_sensitivity() -> None:
    assert compose([laplace(10)] * 100) == Composition(10.0, 0.0, "basic", 100)
    found = compose([laplace(10)] * 100, 1e-6)
    assert found.epsilon == pytest.approx(4.6927, abs=5e-5)
    assert (found.method, found.count, found.delta) == ("tight", 100, 1e-6)


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.3])
def test_one_laplace_release_in_closed_form(delta: Any) -> None:
    """delta(eps) = 1 - e^{(eps - eps0)/2} below eps0."""
    found = compose([laplace(1)], delta, method="tight")
    assert found.epsilon == pytest.approx(1 + 2 * math.log(1 - delta), abs=1e-6)


def exact_delta(epsilons: list[float], epsilon: float) -> float:
    """The hockey-stick divergence of coins of these epsilons, in fractions, over all outcomes."""
    shift, total = Fraction(math.exp(epsilon)), Fraction(0)
    pairs = [(Fraction(1), Fraction(1))]
    for one in epsilons:
        e = Fraction(math.exp(one))
        pairs = [(p * a, q * b) for p, q in pairs for a, b in ((e, Fraction(1)), (Fraction(1), e))]
        pairs = [(p / (1 + e), q / (1 + e)) for p, q in pairs]
    for p, q in pairs:
        total += max(Fraction(0), p - shift * q)
    return float(total)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("one", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1])
def test_the_optimal_theorem_is_exact_for_coins(k: Any, one: Any, delta: Any) -> None:
    found = methods.optimal([one] * k, [0.0] * k, delta)
    assert exact_delta([one] * k, found) <= delta
    if found > 0:
        assert exact_delta([one] * k, found) == pytest.approx(delta, rel=1e-6)
        assert exact_delta([one] * k, found - 1e-5) > delta


@pytest.mark.parametrize(("k", "i", "one"), [(10, 3, 0.5), (9, 4, 0.2), (100, 20, 0.1)])
def test_the_corners_of_kairouz_oh_and_viswanath(k: Any, i: Any, one: Any) -> None:
    """((k - 2i) eps, delta_i) is their Theorem 3.3; ours meets it and interpolates."""
    delta = (
        sum(
            math.comb(k, ell) * (math.exp((k - ell) * one) - math.exp((k - 2 * i + ell) * one))
            for ell in range(i)
        )
        / (1 + math.exp(one)) ** k
    )
    assert methods.optimal([one] * k, [0.0] * k, delta) == pytest.approx(
        (k - 2 * i) * one, abs=1e-6
    )


@pytest.mark.parametrize(("k", "one", "delta"), [(20, 0.1, 1e-6), (100, 0.1, 1e-6), (7, 1.0, 1e-4)])
def test_pure_releases_by_distribution_and_in_closed_form(k: Any, one: Any, delta: Any) -> None:
    tight = compose([PrivacyEvent(one)] * k, delta, method="tight").epsilon
    assert compose([PrivacyEvent(one)] * k, delta, method="optimal").epsilon == pytest.approx(
        tight, rel=1e-5
    )


@pytest.mark.parametrize("k", [1, 5, 50])
def test_approximate_releases(k: Any) -> None:
    event = PrivacyEvent(0.2, 1e-8, "approximate")
    tight, closed = (compose([event] * k, 1e-5, method=m) for m in ("tight", "optimal"))
    assert tight.epsilon == pytest.approx(closed.epsilon, rel=1e-3)
    summed = compose([event] * k)
    assert (summed.epsilon, summed.delta) == pytest.approx((0.2 * k, 1e-8 * k))


def test_deltas_above_the_wanted_one_do_not_compose() -> None:
    with pytest.raises(PrivacyError, match=r"add up to 0\.01"):
        compose([PrivacyEvent(0.1, 1e-3, "approximate")] * 10, 1e-3)


def test_a_known_mechanism_costs_no_more_than_an_unknown_one() -> None:
    known = compose([laplace(10)] * 100, 1e-6).epsilon
    unknown = compose([PrivacyEvent(0.1)] * 100, 1e-6).epsilon
    assert known < unknown == pytest.approx(4.7746, abs=1e-4)


losses = st.lists(
    st.builds(PrivacyEvent, st.floats(0.01, 3), mechanism=st.sampled_from(["pure", "laplace"])),
    min_size=1,
    max_size=4,
)


@pytest.mark.thorough
@settings(deadline=None, derandomize=True, max_examples=40)
@given(losses, st.sampled_from([1e-9, 1e-6, 1e-2]))
def test_best_is_the_least_of_all_methods(releases: Any, delta: Any) -> None:
    methods = ("basic", "optimal", "advanced", "renyi", "tight")
    found = {m: compose(releases, delta, method=m).epsilon for m in methods}
    best = compose(releases, delta)
    assert best.epsilon == min(found.values()) == found[best.method]
    assert compose(releases[::-1], delta) == best


@settings(deadline=None, derandomize=True, max_examples=40)
@given(losses, st.floats(1e-12, 0.1))
def test_closed_forms_cover_mixed_coins(releases: Any, delta: Any) -> None:
    """What the closed forms allow for any mechanisms holds for the worst of them, exactly."""
    epsilons = [event.epsilon for event in releases]
    for form in (methods.optimal, methods.advanced):
        assert exact_delta(epsilons, form(epsilons, [0.0] * len(epsilons), delta)) <= delta


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(1, 500), st.floats(0.001, 2), st.floats(1e-12, 0.5))
def test_more_releases_cost_more_and_more_delta_costs_less(k: Any, one: Any, delta: Any) -> None:
    def cost(count: int, at: float) -> float:
        return methods.optimal([one] * count, [0.0] * count, at)

    assert cost(k, delta) <= cost(k + 1, delta) + 1e-9 <= (k + 1) * one + 2e-9
    assert cost(k, delta / 2) >= cost(k, delta)


def test_nothing_costs_nothing() -> None:
    assert compose([]).epsilon == compose([], 1e-6).epsilon == 0


def test_at_delta_zero_only_the_sum_holds() -> None:
    assert compose([laplace(10)] * 5, 0.0) == Composition(0.5, 0.0, "basic", 5)


def test_methods_that_need_a_delta_say_so() -> None:
    with pytest.raises(PrivacyError, match="needs a delta"):
        compose([laplace(10)], method="tight")


def test_without_dp_accounting_the_closed_form_serves(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    assert compose([laplace(10)] * 100, 1e-6).method == "optimal"
    with pytest.raises(MissingExtraError, match=re.escape(install_command("accounting"))):
        compose([laplace(10)] * 100, 1e-6, method="tight")


def discrete_laplace(q: float, size: int, every: int = 1) -> np.ndarray:
    """P(x) for |x| <= size: (1-Q)/(1+Q) Q^{|x|/every} on multiples of `every`, Q = q^every."""
    x, Q = np.arange(-size, size + 1), q**every
    return np.where(x % every == 0, (1 - Q) / (1 + Q) * q ** np.abs(x).astype(float), 0.0)


@pytest.mark.parametrize(("q", "c"), [(0.9, 2), (0.95, 5), (0.8, 7)])
def test_a_fine_discrete_laplace_is_a_coarse_one_plus_noise(q: Any, c: Any) -> None:
    u = q ** np.arange(c)
    u /= u.sum()
    blur = np.convolve(u, u[::-1])  # the distribution of U - U', on -(c-1)..c-1
    size = 700
    fine = np.convolve(discrete_laplace(q, size, c), blur, mode="same")
    inner = slice(200, -200)
    assert np.allclose(fine[inner], discrete_laplace(q, size)[inner], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("steps", [1, 3, 1024, 1025, 5000, 2**40, 2**40 + 1])
def test_a_coarse_grid_is_an_upper_bound(steps: Any) -> None:
    event = PrivacyEvent(0.5, mechanism="discrete-laplace", parameter=steps)
    decay, coarse = events.coarse(event)
    assert coarse <= events.STEPS
    assert 0.5 * (1 - 1e-12) <= decay * coarse <= 0.5 * (1 + 1 / 512)


def test_discrete_laplace_lies_between_laplace_and_coins() -> None:
    cost = {
        m: compose(
            [PrivacyEvent(0.1, mechanism="discrete-laplace", parameter=m)] * 100, 1e-6
        ).epsilon
        for m in (1, 2, 8, 2**40)
    }
    assert cost[1] == pytest.approx(compose([PrivacyEvent(0.1)] * 100, 1e-6).epsilon, rel=1e-5)
    assert cost[1] > cost[2] > cost[8] > cost[2**40]
    assert cost[2**40] == pytest.approx(compose([laplace(10)] * 100, 1e-6).epsilon, rel=1e-5)


def test_discrete_laplace_against_dp_accounting() -> None:
    from dp_accounting.pld.privacy_loss_distribution import from_discrete_laplace_mechanism

    direct = from_discrete_laplace_mechanism(0.05, sensitivity=4).self_compose(60)
    found = compose([PrivacyEvent(0.2, mechanism="discrete-laplace", parameter=4)] * 60, 1e-6)
    assert found.epsilon == pytest.approx(direct.get_epsilon_for_delta(1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be a probability"),
        ({"epsilon": 1.0, "mechanism": "cauchy"}, "no kind of privacy event is called 'cauchy'"),
        ({"epsilon": 1.0, "delta": 0.1}, "pure has delta = 0"),
        ({"epsilon": 1.0, "mechanism": "approximate"}, "needs a delta above 0"),
        ({"epsilon": 1.0, "mechanism": "laplace", "parameter": 2.0}, "has epsilon 0.5"),
        ({"epsilon": 1.0, "mechanism": "pure", "parameter": 2.0}, "has no parameter"),
        ({"epsilon": 1.0, "mechanism": "discrete-laplace"}, "steps"),
        ({"epsilon": 1.0, "mechanism": "discrete-laplace", "parameter": 1.5}, "steps"),
        ({"epsilon": 1.0, "mechanism": "discrete-laplace", "parameter": math.inf}, "steps"),
    ],
)
def test_a_cost_that_makes_no_sense_is_refused(fields: Any, says: Any) -> None:
    with pytest.raises(PrivacyError, match=says):
        PrivacyEvent(**fields)
    with pytest.raises(PrivacyError, match=says):
        ReleaseEvent(0, 1, "signal", **fields)


def test_a_release_composes_as_its_cost() -> None:
    release = ReleaseEvent("a", 3, "signal", 0.1, mechanism="laplace")
    assert release.event == laplace(10)
    assert ReleaseEvent(**release.to_dict()) == release
    assert spent([release] * 3, delta=1e-6) == compose([laplace(10)] * 3, 1e-6)
