"""The choice of a mechanism: the least worst-case variance, and by how much, in a sentence."""

from typing import Any

import numpy as np
import pytest

from veilsum.errors import PrivacyError
from veilsum.privacy import mechanisms as mech
from veilsum.privacy.mechanisms import BoundedSignal, IntegerStatistic, RealStatistic, best


@pytest.mark.parametrize(
    ("epsilon", "domain", "name"),
    [
        (0.1, BoundedSignal(0, 1), "duchi"),
        (0.60, BoundedSignal(0, 1), "duchi"),
        (0.62, BoundedSignal(0, 1), "hybrid"),
        (3.0, BoundedSignal(-5, 1), "hybrid"),
        (8.0, BoundedSignal(0, 1), "staircase"),
        (1.0, BoundedSignal(0, 1, integer=True), "duchi"),
        (1.0, IntegerStatistic(1), "discrete-laplace"),
        (1.0, IntegerStatistic(5), "staircase"),
        (0.5, RealStatistic(2.0), "staircase"),
        (5.0, RealStatistic(0.1), "staircase"),
    ],
)
def test_the_best_mechanism(epsilon: Any, domain: Any, name: Any) -> None:
    choice = best(epsilon, domain)
    assert choice.mechanism.name == name
    assert choice.mechanism.epsilon == epsilon
    assert choice.mechanism.delta == 0
    others = [other.variance for other in choice.alternatives]
    assert others == sorted(others)
    assert all(o.ratio == o.variance / choice.variance >= 1 for o in choice.alternatives)


def test_it_says_by_how_much() -> None:
    choice = best(1.0, BoundedSignal(0, 1))
    assert choice.against("laplace").ratio == pytest.approx(1.866, rel=1e-3)
    assert str(choice) == (
        "hybrid noise at epsilon = 1 has the least worst-case variance, 1.072; it would be "
        "1.09 times that with duchi, 1.22 times that with piecewise, 1.79 times that with "
        "staircase, 1.87 times that with laplace."
    )
    assert "the same with hybrid" in str(best(0.1, BoundedSignal(0, 1)))
    with pytest.raises(PrivacyError, match="no alternative here; found duchi"):
        choice.against("gauss")


def test_the_choice_is_the_least_over_the_values_of_the_domain() -> None:
    """Bits never sit in the middle: randomised response has C^2 - 1, not C^2."""
    for epsilon in (0.3, 1.0, 2.5, 6.0):
        for domain in (
            BoundedSignal(0, 1, integer=True),
            BoundedSignal(0, 2, integer=True),
            BoundedSignal(-3, 4, integer=True),
            BoundedSignal(-3, 4),
        ):
            values = np.linspace(domain.low, domain.high, 8 if domain.high == 4 else 3)
            if not domain.integer:
                values = np.append(values, 0.5)
            elif domain.high == 1:
                values = np.array([0.0, 1.0])
            choice = best(epsilon, domain)
            assert choice.variance == pytest.approx(choice.mechanism.variance(values).max())
            for other in choice.alternatives:
                assert other.variance == pytest.approx(other.mechanism.variance(values).max())
                assert other.variance >= choice.variance
    bits = best(1.0, BoundedSignal(0, 1, integer=True))
    assert bits.variance == pytest.approx((mech.DuchiMechanism(1.0).reach ** 2 - 1) / 4)


def test_the_chosen_mechanism_has_the_variance_it_was_chosen_for() -> None:
    """100,000 draws; |z| <= 6, false alarm 2e-9."""
    choice = best(2.0, BoundedSignal(1.0, 9.0))
    z = choice.mechanism.sample(np.full(100_000, 7.0), np.random.default_rng(37)) - 7.0
    assert z.var() == pytest.approx(choice.variance, abs=6 * (z**2).std() / 100_000**0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best(0.0, RealStatistic(1.0)), "epsilon must be"),
        (lambda: RealStatistic(0.0), "sensitivity must be"),
        (lambda: IntegerStatistic(1.5), "whole number"),
        (lambda: BoundedSignal(1.0, 1.0), "low < high"),
        (lambda: BoundedSignal(0.0, 1.5, integer=True), "whole numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        call()


@pytest.mark.parametrize("epsilon", [1e-40, 1e-18, 1500.0])
def test_an_epsilon_beyond_what_is_computed_is_named(epsilon: float) -> None:
    """It ended in ZeroDivisionError, OverflowError or a numpy ValueError."""
    from veilsum.errors import PrivacyError
    from veilsum.privacy import mechanisms

    for name in ("duchi", "piecewise", "hybrid"):
        with pytest.raises(PrivacyError, match="takes epsilon from 1e-12 to 700"):
            mechanisms.make(name, epsilon, mechanisms.BoundedSignal(0.0, 1.0))
    for direct in (mechanisms.DuchiMechanism, mechanisms.HybridMechanism):
        with pytest.raises(PrivacyError, match="must be between 1e-12 and 700"):
            direct(epsilon, 0.0, 1.0)
    with pytest.raises(PrivacyError, match="must be between"):
        mechanisms.StaircaseMechanism(epsilon, 1.0)
    chosen = mechanisms.best(epsilon, mechanisms.BoundedSignal(0.0, 1.0)).mechanism
    assert chosen.name == "laplace"
