"""What an answer of a fleet promises: for whom, against whom, and what a person at several sites costs."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.fleet.question.asks import ASKS, question
from veilsum._statistic import Status
from veilsum.errors import FleetError
from veilsum.fleet.promise import epsilon_at, guarantee_of
from veilsum.fleet.secure_sum.numbers import suggested
from veilsum.privacy.guarantee import Noise

FIFTY = suggested(50)


def test_a_pool_is_proved_against_everyone_who_sees_the_board() -> None:
    found = guarantee_of(question(epsilon=0.5))
    assert (found.epsilon, found.delta, found.status, found.noise) == (
        0.5,
        0.0,
        Status.PROVED,
        Noise.EXACT,
    )
    assert "one row of one site, replaced by any other" in str(found)
    assert "everyone who sees the board" in str(found)
    assert "secret seed" in str(found)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "skellam"])
def test_a_person_at_several_sites_costs_a_release_at_each(noise: str) -> None:
    delta = 0.0 if noise == "laplace" else 1e-6
    one = question(epsilon=0.5, delta=delta, noise=noise, sites_per_person=4)
    found = guarantee_of(one)
    assert found.epsilon == 2.0
    assert found.delta == pytest.approx(4 * delta)
    assert "the records of one person at up to 4 sites, one row at each" in str(found)
    assert one.event.epsilon == 0.5  # what a site is charged


def test_a_secure_sum_says_of_whom_and_what_lies_beyond() -> None:
    one = question(protocol="secure-sum", epsilon=0.5, sites_per_person=2)
    found = guarantee_of(one, FIFTY)
    said = str(found)
    assert found.epsilon == 1.0
    assert found.assumes == "computational"
    assert "up to 10 keepers and 10 " in said
    assert "as long as nobody breaks X25519" in said
    assert "at least 35 honest sites" in said
    assert "Beyond 10 of the 50 keepers is a cliff" in said
    assert "31 keepers together read the vector of every site" in said
    assert "if 20 sites pooled their values in place of 10, epsilon would be" in said


def test_with_a_delta_a_sum_that_several_records_move_is_group_privacy() -> None:
    one = question(
        ASKS["regression"], protocol="secure-sum", delta=1e-6, noise="skellam", sites_per_person=2
    )
    found = guarantee_of(one, FIFTY)
    assert found.epsilon > 2 * one.event.epsilon  # at the same delta
    assert found.delta == one.event.delta


def test_less_unknown_noise_costs_more_and_all_of_it_what_is_charged() -> None:
    one = question(protocol="secure-sum", epsilon=1.0)
    assert epsilon_at(one, Fraction(1)) == pytest.approx(1.0, rel=1e-6)
    costs = [epsilon_at(one, Fraction(b, 100)) for b in (95, 90, 80)]
    assert costs == pytest.approx([1.09, 1.19, 1.44], rel=0.02)  # SECURE_SUM.md, section 3
    both = question(ASKS["mean"], ASKS["histogram"], protocol="secure-sum")
    assert epsilon_at(both, Fraction(1)) == pytest.approx(1.0, rel=1e-6)
    skellam = question(ASKS["regression"], protocol="secure-sum", delta=1e-6, noise="skellam")
    assert 1.0 < epsilon_at(skellam, Fraction(4, 5)) < 1.3  # no cliff
    two = question(protocol="secure-sum", sites_per_person=2)
    assert epsilon_at(two, Fraction(9, 10)) > epsilon_at(one, Fraction(9, 10))


def test_a_secure_sum_has_no_promise_without_its_numbers() -> None:
    with pytest.raises(FleetError, match="needs its numbers"):
        guarantee_of(question(protocol="secure-sum"))
