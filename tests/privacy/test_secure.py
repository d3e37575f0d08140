"""The numbers of a secure sum: keepers, noise, room, and what more colluders cost."""

import math
from typing import Any

import pytest
from scipy import stats

from veilsum import families
from veilsum.algorithms import Keepers, SecureSum
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    Batches,
    DiscreteLaplace,
    PrivacyRequest,
    SecureParameters,
    SecureSumDP,
    SignalDP,
    guarantee_of,
)
from veilsum.privacy.planning import plan


def numbers(n: int = 50, colluders: int = 10, absent: int = 5, **changes: Any) -> SecureParameters:
    given = {"epsilon": 1.0, "sensitivity_steps": 4096} | changes
    return SecureParameters(n, colluders, absent, **given)


@pytest.mark.parametrize(
    ("n", "k", "c", "t", "silent", "post"),
    [
        (5, 5, 1, 4, 1, 0.23), (20, 20, 4, 13, 7, 0.33), (50, 50, 10, 31, 19, 0.52),
        (500, 500, 100, 301, 199, 3.4), (4941, 200, 83, 142, 58, 1.15),
    ],
)  # fmt: skip
def test_the_keepers_are_those_of_the_design(
    n: int, k: int, c: int, t: int, silent: int, post: float
) -> None:
    made = Keepers.usual(n)
    assert (made.count, made.colluding, made.needed, made.silent) == (k, c, t, silent)
    assert made.deal_bytes() / 1000 == pytest.approx(post, abs=0.005 if post < 2 else 0.05)


def test_a_draw_has_more_colluding_keepers_with_probability_2_to_the_minus_40_at_most() -> None:
    for n, colluders in ((4941, 989), (4941, 1483), (969, 194), (100_000, 20_000)):
        c = Keepers(n, colluders, 0).colluding
        drawn = stats.hypergeom(n, colluders, 200)
        assert drawn.sf(c) <= 2.0**-40 < drawn.sf(c - 1)
    assert Keepers(4941, 0, 0).colluding == 0


def test_more_answers_are_needed_where_many_may_be_absent() -> None:
    """K2: 2t > k + c, and 3t > 2k + c unless 4d <= n - c'."""
    for absent, needed in ((10, 31), (11, 37)):
        made = Keepers(50, 10, absent)
        assert made.needed == needed
        assert 2 * made.needed > made.count + made.colluding
        assert 4 * absent <= 40 or 3 * made.needed > 2 * made.count + made.colluding


def test_unstated_numbers_cover_a_fifth_and_a_tenth() -> None:
    assert (Keepers.usual(5).colluders, Keepers.usual(5).absent) == (1, 1)
    assert (Keepers.usual(969).colluders, Keepers.usual(969).absent) == (194, 97)
    stated = SecureSumDP(1.0, colluders=0).keepers(969)
    assert (stated.colluders, stated.absent, stated.honest) == (0, 97, 872)


def test_h_draws_make_up_one_draw_of_the_law() -> None:
    terms = numbers()
    assert terms.honest == 35
    assert terms.noise_of(35) == terms.law == DiscreteLaplace(terms.scale)
    for members in (45, 50):
        whole = float(terms.law.variance)
        found = terms.mean_variance(members) / (whole / members**2)
        assert math.sqrt(found) == pytest.approx(terms.error_factor(members), rel=1e-12)
        assert terms.error_factor(members) == math.sqrt(members / 35)


def test_epsilon_beyond_the_colluders_is_that_of_what_is_left() -> None:
    """beta = 0.8 and 0.6 of the noise unknown; beyond a half it depends on the grid."""
    terms = numbers(n=110, colluders=0, absent=10)
    assert terms.epsilon_against(0) == 1.0
    found = [terms.epsilon_against(100 - beta) for beta in (95, 90, 80)]
    assert found == pytest.approx([1.09, 1.19, 1.44], abs=0.006)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colluders": 45}, "n - absent - colluders must be at least 1; found 50 - 5 - 45 = 0"),
        ({"largest_steps": 2**54}, r"exceed 2\^60"),
        ({"longest_batch": 2**45}, r"exceed 2\^60"),
        ({"epsilon": 1e-30}, "must lie in"),
        ({"sensitivity_steps": 0}, "sensitivity_steps"),
        ({"range_steps": (5, 2)}, "range_steps"),
    ],
)
def test_what_breaks_a_promise_is_refused(changes: Any, said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        numbers(**changes)


def test_the_guarantee_says_against_whom_and_what_lies_beyond() -> None:
    made = SecureSum(members=50, hops=3)
    found = guarantee_of(SecureSumDP(1.0, radius=1.0), made, 9, families.Normal(1.0))
    assert (found.epsilon, found.delta, found.status) == (1.0, 0.0, "proved")
    assert (found.adversary.keepers, found.adversary.colluders) == (10, 10)
    text = str(found)
    for said in (
        "up to 10 keepers and 10 members together", "as long as nobody breaks X25519",
        "without further attempts and without a refund",
        "Beyond 10 of the 50 keepers is a cliff: 31 of them read every value",
    ):  # fmt: skip
        assert said in text
    assert type(found).from_dict(found.to_dict()) == found
    assert found.for_messages(7) == found.against_everyone() == found
    assert found.for_runs([found, found]).epsilon == 3.0  # k_i queries cost k_i epsilon


def test_what_is_not_covered_has_no_guarantee() -> None:
    made = SecureSum(members=50, hops=3)
    found = guarantee_of(SecureSumDP(1.0, radius=1.0, colluders=45), made, 9, families.Normal(1.0))
    assert found.status == "none"
    assert "n - absent - colluders must be at least 1" in found.reason


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mechanism": "laplace"}, "has the mechanism secure-sum"),
        ({"delta": 0.1, "sensitivity": "smooth"}, "public scale"),
        ({"budget_fractions": (1.0,)}, "draw the same noise"),
        ({"unit": "stream", "horizon": 9}, "leave the sum out"),
        ({"colluders": -1}, "colluders"),
        ({"delta": 1e-6, "batches": Batches(2.0, 4)}, "need pure noise"),
    ],
)
def test_a_request_refuses_what_does_not_go_with_a_sum(options: Any, said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        SecureSumDP(1.0, **options)
    with pytest.raises(PrivacyError, match="follows the signal"):
        SecureSumDP.like(SignalDP(1.0, 0.1, sensitivity="smooth"))


def test_a_delta_that_buys_nothing_is_refused() -> None:
    number = families.Normal(1.0, bounds=(0.0, 1.0))
    with pytest.raises(PrivacyError, match="delta = 1e-06 buys nothing here"):
        plan(SecureSumDP(1.0, 1e-6), number, members=50)
    terms = numbers(dimension=64, sensitivity_steps=4096, delta=1e-6, l2_steps=512.0)
    pure = numbers(dimension=64)
    assert terms.law.variance < pure.law.variance  # all 64 components move
    assert terms.event.delta == 1e-6


def test_local_noise_and_the_sum_ask_for_the_same() -> None:
    local = SignalDP(0.5, radius=2.0)
    made = SecureSumDP.like(local, colluders=3)
    assert isinstance(made, PrivacyRequest)
    assert (made.local(), made.colluders, made.absent) == (local, 3, None)
