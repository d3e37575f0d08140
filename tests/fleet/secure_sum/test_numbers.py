"""The numbers of a secure sum: what is suggested, and what is refused and why."""

import math
from fractions import Fraction

import pytest

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.numbers import SumNumbers, most_drawn, suggested
from veilsum.privacy.laws import DiscreteLaplace, Law, Skellam
from veilsum.testing import PredictableEntropy

TABLE = [  # n, k, c, t, absent, error, pack of 1,024
    (5, 5, 1, 4, 1, 1.29, 1),
    (20, 20, 4, 13, 7, 1.195, 3),
    (50, 50, 10, 31, 19, 1.195, 9),
    (500, 500, 100, 301, 199, 1.195, 99),
    (4941, 200, 83, 142, 58, 1.195, 29),
]


@pytest.mark.parametrize("row", TABLE)
def test_suggested_numbers_are_those_of_the_page(
    row: tuple[int, int, int, int, int, float, int],
) -> None:
    n, k, c, t, absent, error, pack = row
    numbers = suggested(n)
    found = (numbers.keepers, numbers.colluding, numbers.threshold, numbers.absent_keepers)
    assert found == (k, c, t, absent)
    assert numbers.error_factor(n) == pytest.approx(error, abs=0.002)
    assert suggested(n, 1024).pack == pack


@pytest.mark.parametrize("n", [*range(3, 60), 499, 500, 501, 1000, 5000])
def test_suggested_numbers_keep_the_rule_for_every_fleet(n: int) -> None:
    for numbers in (suggested(n), suggested(n, 1024)):
        k, c, t = numbers.keepers, numbers.colluding, numbers.threshold
        assert 2 * t > k + c
        assert 4 * numbers.absent <= n - numbers.corrupt or 3 * t > 2 * k + c
        assert numbers.honest >= 1
        assert numbers.needed + numbers.wrong <= k
        assert 2 * (t - 1) <= k + c or 3 * (t - 1) <= 2 * k + c  # the least one


def test_three_and_four_sites_need_everyone() -> None:
    three, four = suggested(3), suggested(4)
    assert (three.absent, three.threshold, three.absent_keepers, three.honest) == (0, 3, 0, 2)
    assert (four.absent, four.threshold, four.absent_keepers, four.honest) == (0, 3, 1, 3)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_two_sites_are_refused(n: int) -> None:
    with pytest.raises(FleetError, match=r"at least 3 sites.*the pool"):
        suggested(n)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((5, 5, 2, 1, 0), "corrupt sites at least"),
        ((5, 5, 1, 3, 2), "nobody is left"),
        ((5, 5, 1, 1, 1, 2), "6 answers"),
        ((5, 5, 1, 1, 1, 0, 3), "6 answers"),
        ((5, 0, 0, 1, 0), "keepers"),
        ((5, 5, -1, 1, 0), "colluding"),
        ((5, 5, 5, 5, -1), "absent"),
        ((5, 3, 3, 3, 0), "list more keepers"),
    ],
)
def test_impossible_numbers_are_refused_with_the_reason(numbers: tuple[int, ...], why: str) -> None:
    with pytest.raises(FleetError, match=why):
        SumNumbers(*numbers)


def test_many_absent_sites_raise_the_threshold() -> None:
    assert SumNumbers(10, 10, 1, 1, 2).threshold == 6
    assert SumNumbers(10, 10, 1, 1, 3).threshold == 8


def test_fewer_keepers_do_not_lower_what_may_collude() -> None:
    signed = suggested(20)
    listed = signed.listed(9)
    assert (listed.colluding, listed.threshold) == (4, 7)
    with pytest.raises(FleetError, match="list more keepers"):
        signed.listed(4)


def test_corrupt_keepers_drawn_exceed_the_bound_less_often_than_said() -> None:
    def beyond(c: int) -> Fraction:
        ways = sum(math.comb(20, x) * math.comb(80, 30 - x) for x in range(c + 1, 21))
        return Fraction(ways, math.comb(100, 30))

    c = most_drawn(100, 20, 30, bits=10)
    assert beyond(c) <= Fraction(1, 1024) < beyond(c - 1)
    assert most_drawn(4941, 988, 200, bits=80) == 103
    assert most_drawn(4941, 1482, 200) == 107


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(400)), Skellam(Fraction(900))])
def test_shares_of_the_honest_sites_are_the_whole_noise(law: Law) -> None:
    numbers = suggested(50)
    entropy = PredictableEntropy(5, simulation_only=True)
    share = law.part(Fraction(1, numbers.honest))
    assert len(share.draw(100, entropy)) == 100
    assert float(share.variance) * numbers.honest == pytest.approx(float(law.variance))


def test_sums_that_could_wrap_are_refused() -> None:
    numbers, law = suggested(50), DiscreteLaplace(Fraction(1000))
    reach = numbers.plausible(10**6, law)
    assert 50 * 10**6 < reach < 50 * 10**6 + 10**6
    with pytest.raises(FleetError, match=r"58 bits.*coarser grid"):
        numbers.plausible(1 << 52, law)
