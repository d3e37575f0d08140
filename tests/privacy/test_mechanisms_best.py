"""The choice of a mechanism: the least worst-case variance, and by how much, in a sentence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilsum.errors import PrivacyError
from veilsum.privacy import MECHANISMS, Statistic
from veilsum.privacy import mechanisms as mech
from veilsum.privacy.mechanisms import best, make


def between(low: float, high: float, step: float | None = None) -> Statistic:
    """Any two values between public bounds."""
    return Statistic(high - low, low=low, high=high, step=step)


@pytest.mark.parametrize(
    ("epsilon", "statistic", "name"),
    [
        (0.1, between(0, 1), "duchi"),
        (0.60, between(0, 1), "duchi"),
        (0.62, between(0, 1), "hybrid"),
        (3.0, between(-5, 1), "hybrid"),
        (8.0, between(0, 1), "staircase"),
        (1.0, between(0, 1, step=1.0), "duchi"),
        (1.0, Statistic(1, step=1.0), "discrete-laplace"),
        (1.0, Statistic(5, step=1.0), "staircase"),
        (0.5, Statistic(2.0), "staircase"),
        (5.0, Statistic(0.1), "staircase"),
    ],
)
def test_the_best_mechanism(epsilon: float, statistic: Statistic, name: str) -> None:
    choice = best(statistic, epsilon)
    assert choice.mechanism.name == name
    assert choice.mechanism.epsilon == epsilon
    assert choice.mechanism.delta == 0
    ratios = list(choice.others.values())
    assert ratios == sorted(ratios)
    for other, ratio in choice.others.items():
        variance = make(other, statistic, epsilon).variance_over(statistic)
        assert ratio == variance / choice.variance >= 1


@pytest.mark.parametrize("statistic", [between(0, 1), Statistic(1, step=1.0), Statistic(2.0)])
def test_every_mechanism_that_fits_is_compared(statistic: Statistic) -> None:
    choice = best(statistic, 1.0)
    fitting = {name for name, kind in MECHANISMS.items() if not kind.misfit(statistic, 1.0)}
    assert {choice.mechanism.name, *choice.others} == fitting
    assert fitting >= {"laplace", "staircase"}


def test_it_says_by_how_much() -> None:
    choice = best(between(0, 1), 1.0)
    assert choice.others["laplace"] == pytest.approx(1.866, rel=1e-3)
    assert str(choice) == (
        "hybrid noise at epsilon = 1 has the least worst-case variance, 1.072; it would be "
        "1.09 times that with duchi, 1.22 times that with piecewise, 1.79 times that with "
        "staircase, 1.87 times that with laplace."
    )
    assert "the same with hybrid" in str(best(between(0, 1), 0.1))


def test_the_choice_is_the_least_over_the_values_of_the_domain() -> None:
    """Bits never sit in the middle: randomised response has C^2 - 1, not C^2."""
    for epsilon in (0.3, 1.0, 2.5, 6.0):
        for domain in (
            between(0, 1, step=1.0),
            between(0, 2, step=1.0),
            between(-3, 4, step=1.0),
            between(-3, 4),
        ):
            low, high = domain.low[0], domain.high[0]
            values = np.linspace(low, high, 8 if high == 4 else 3)
            if not domain.whole:
                values = np.append(values, 0.5)
            elif high == 1:
                values = np.array([0.0, 1.0])
            choice = best(domain, epsilon)
            assert choice.variance == pytest.approx(choice.mechanism.variance(values).max())
            for name, ratio in choice.others.items():
                worst = make(name, domain, epsilon).variance(values).max()
                assert ratio * choice.variance == pytest.approx(worst)
                assert ratio >= 1
    bits = best(between(0, 1, step=1.0), 1.0)
    assert bits.variance == pytest.approx((mech.DuchiMechanism(1.0).reach ** 2 - 1) / 4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.5), (-0.7, 2.0), (0.4, 3.3)])
def test_whole_values_between_other_bounds_have_the_worst_of_their_variances(
    low: float, high: float
) -> None:
    """Of 0 and 1 between 0 and 1.5 the one near the middle has the larger variance."""
    counts = between(low, high, step=1.0)
    values = np.arange(np.ceil(low), np.floor(high) + 1)
    for name in ("duchi", "piecewise", "hybrid"):
        for epsilon in (0.3, 1.0, 4.0):
            made = make(name, counts, epsilon)
            assert made.variance_over(counts) >= made.variance(values).max() * (1 - 1e-12)


def test_the_chosen_mechanism_has_the_variance_it_was_chosen_for() -> None:
    """100,000 draws; |z| <= 6, false alarm 2e-9."""
    choice = best(between(1.0, 9.0), 2.0)
    z = choice.mechanism.sample(np.full(100_000, 7.0), np.random.default_rng(37)) - 7.0
    assert z.var() == pytest.approx(choice.variance, abs=6 * (z**2).std() / 100_000**0.5)


def test_a_delta_takes_the_mechanisms_that_use_it_and_keeps_the_others() -> None:
    """A pure mechanism keeps (epsilon, delta) as well: the choice is never worse for a delta."""
    for d in (1, 4, 64, 1024):
        vector = Statistic(float(d), d**0.5, dimension=d)
        pure, with_delta = best(vector, 1.0), best(vector, 1.0, 1e-6)
        assert with_delta.variance <= pure.variance * (1 + 1e-12)
        assert {pure.mechanism.name, *pure.others} <= {
            with_delta.mechanism.name, *with_delta.others
        }  # fmt: skip
    assert (
        best(Statistic(1.0), 1.0, 1e-6).mechanism.name == best(Statistic(1.0), 1.0).mechanism.name
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best(Statistic(1.0), 0.0), "epsilon must be"),
        (lambda: best(Statistic(0.0), 1.0), "moves by a finite amount above 0"),
        (lambda: make("duchi", Statistic(1.0, low=1.0, high=1.0), 1.0), "low < high"),
        (lambda: make("gauss", Statistic(1.0), 1.0), "mechanism must be one of"),
        (lambda: make("laplace", Statistic(1.0), 1.0, 0.1), "a delta buys nothing"),
        (lambda: make("duchi", Statistic(1.0), 1.0), "choose one of laplace, staircase"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        call()


def test_whole_numbers_that_move_by_a_fraction_are_said_to_move_by_the_next_whole_one() -> None:
    made = make("discrete-laplace", Statistic(1.5, step=1.0), 1.0)
    assert made == mech.DiscreteLaplaceMechanism(1.0, 2)
    for lost in (Statistic(1.0), Statistic(1.0, step=0.5)):
        with pytest.raises(PrivacyError, match="needs a statistic of whole numbers"):
            make("discrete-laplace", lost, 1.0)
    assert replace(Statistic(1.0), step=2.0).whole


@pytest.mark.parametrize("epsilon", [1e-40, 1e-18, 1500.0])
def test_an_epsilon_beyond_what_is_computed_is_named(epsilon: float) -> None:
    """It ended in ZeroDivisionError, OverflowError or a numpy ValueError."""
    for name in ("duchi", "piecewise", "hybrid"):
        with pytest.raises(PrivacyError, match="takes epsilon from 1e-12 to 700"):
            make(name, between(0.0, 1.0), epsilon)
    for direct in (mech.DuchiMechanism, mech.HybridMechanism):
        with pytest.raises(PrivacyError, match="must be between 1e-12 and 700"):
            direct(epsilon, 0.0, 1.0)
    with pytest.raises(PrivacyError, match="must be between"):
        mech.StaircaseMechanism(epsilon, 1.0)
    chosen = best(between(0.0, 1.0), epsilon).mechanism
    assert chosen.name == "laplace"
