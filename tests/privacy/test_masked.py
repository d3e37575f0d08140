"""What a masked sum guarantees, and what it costs if more members collude than it covers."""

import math
from fractions import Fraction
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.privacy.gdl import LIMIT, effective_epsilon, pmf
from veilsum._numbers import upward
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    Accountant,
    Adversary,
    Budget,
    DiscreteLaplace,
    MaskedParameters,
    ReleaseEvent,
    Sees,
)
from veilsum.privacy.accounting import Release, spent

BETAS = (0.95, 0.9, 0.8, 0.6, 0.5, 0.3)
TABLE = {  # of the design: the grid has 2^20 steps in Delta
    1.0: (1.09, 1.19, 1.44, 2.4, 3.6, 8.2),
    0.1: (0.126, 0.161, 0.27, 0.93, 2.0, 6.9),
}


@pytest.mark.parametrize("epsilon", TABLE)
def test_the_table_of_the_design_is_that_of_a_million_steps(epsilon: float) -> None:
    for beta, due in zip(BETAS, TABLE[epsilon], strict=True):
        found = effective_epsilon(epsilon, beta, 2**20)
        digits = len(str(due).partition(".")[2])
        assert abs(found - due) <= 0.5 * 10**-digits + 1e-3 + (0.05 if due > 2 else 0)


@pytest.mark.parametrize("beta", [0.999, *BETAS, 0.01])
@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 1), (1.0, 4096), (0.1, 2**20), (20.0, 7)])
def test_the_loss_is_the_one_of_the_hypergeometric_probabilities(
    epsilon: float, steps: int, beta: float
) -> None:
    with mp.workdps(40):
        b, k = mp.mpf(beta), steps
        r = mp.exp(-mp.mpf(epsilon) / steps)
        rising = mp.exp(mp.loggamma(b + k) - mp.loggamma(b) - mp.loggamma(k + 1))
        there = r**k * rising * mp.hyp2f1(b, b + k, k + 1, r * r)
        due = float(mp.log(mp.hyp2f1(b, b, 1, r * r) / there))
    found = effective_epsilon(epsilon, beta, steps)
    assert due <= found <= due * (1 + 1e-7) + 1e-9  # an upper bound, and a close one


@pytest.mark.parametrize("beta", [0.9, 0.5, 0.2])
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_no_output_loses_more_and_the_input_itself_loses_that(beta: float, steps: int) -> None:
    epsilon = 1.0
    f = pmf(beta, steps / epsilon, 60 * steps)
    centre, largest = len(f) // 2, 0.0
    for move in range(1, steps + 1):
        log = np.log(f)
        loss = np.abs(log[move:] - log[:-move])
        largest = max(largest, float(loss.max()))
    found = effective_epsilon(epsilon, beta, steps)
    assert found == pytest.approx(largest, rel=1e-8)
    assert found == pytest.approx(math.log(f[centre] / f[centre + steps]), rel=1e-8)


@pytest.mark.parametrize("beta", [1.0, 1.3, 4.0])
def test_all_of_the_noise_or_more_loses_epsilon_and_no_more(beta: float) -> None:
    """The theorem's last step: GDL(beta) is a discrete Laplace and an independent rest."""
    steps, epsilon = 8, 1.0
    log = np.log(pmf(beta, steps / epsilon, 100))
    losses = [np.abs(log[move:] - log[:-move]).max() for move in range(1, steps + 1)]
    assert max(losses) <= epsilon * (1 + 1e-9)
    assert max(losses) > 0.5 * epsilon
    assert effective_epsilon(epsilon, beta, steps) == epsilon


@pytest.mark.parametrize("beta", [0.9, 0.5])
def test_a_vector_loses_most_when_all_components_move(beta: float) -> None:
    steps, dimension, epsilon = 6, 3, 1.0
    f = pmf(beta, steps / epsilon, 60)
    loss = np.log(f[60] / f[60:])
    splits = [
        loss[a] + loss[b] + loss[steps - a - b]
        for a in range(steps + 1)
        for b in range(steps + 1 - a)
    ]
    found = effective_epsilon(epsilon, beta, steps, dimension)
    assert found == pytest.approx(max(splits), rel=1e-8)
    assert found > 1.05 * effective_epsilon(epsilon, beta, steps)


def test_half_the_draws_or_fewer_lose_more_on_a_finer_grid_without_limit() -> None:
    def growth(beta: float) -> float:
        return effective_epsilon(1, beta, 2**30) - effective_epsilon(1, beta, 2**20)

    assert growth(0.3) == pytest.approx(0.4 * 10 * math.log(2), rel=1e-3)
    assert growth(0.5) > 0.3
    assert growth(0.8) < 2e-3


@given(
    st.floats(0.01, 3), st.floats(0.02, 0.99), st.floats(0.001, 0.5), st.integers(1, 2**24)
)  # fmt: skip
def test_more_colluders_never_cost_less(eps: float, beta: float, less: float, steps: int) -> None:
    more = effective_epsilon(eps, max(beta - less, 0.01), steps)
    found = effective_epsilon(eps, beta, steps)
    assert more >= found * (1 - 1e-8)
    assert found >= eps


def terms(**changes: Any) -> MaskedParameters:
    given: dict[str, Any] = {
        "n": 20, "colluders": 5, "absent": 3, "epsilon": 0.5, "sensitivity_steps": 100,
        "attempts": 2,
    }  # fmt: skip
    return MaskedParameters(**given | changes)


def test_the_noise_of_any_honest_members_of_a_roster_holds_a_discrete_laplace() -> None:
    one = terms()
    assert (one.honest, one.smallest_roster, one.scale, one.attempts) == (12, 17, Fraction(200), 2)
    noise: Any = one.noise
    assert noise.order * (one.smallest_roster - one.colluders) == 1
    central = DiscreteLaplace(one.scale).variance
    for members in (17, 20):
        assert one.mean_variance(members) == pytest.approx(central / (12 * members))
        factor = math.sqrt(one.mean_variance(members) / (central / members**2))
        assert one.error_factor(members) == pytest.approx(factor)


def test_the_mean_of_a_roster_has_the_stated_variance() -> None:
    one, runs = terms(n=12, colluders=3, absent=2), 40_000
    noise = one.noise.sample((runs, 12), np.random.default_rng(1))
    mean = noise.mean(axis=1)
    spread = mean.var() / one.mean_variance(12) - 1
    assert abs(spread) < LIMIT * math.sqrt(5 / runs)  # the kurtosis is below that of a Laplace, 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"absent": 7}, "n - colluders - 2 absent"),
        ({"colluders": 13}, "n - colluders - 2 absent"),
        ({"attempts": 5}, "attempts must be at most"),
        ({"epsilon": 1e-13}, "coarser"),
        ({"epsilon": 1e6}, "finer"),
        ({"largest_steps": 2**59}, "exceed 2\\^63"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"sensitivity_steps": 0}, "sensitivity_steps"),
    ],
)
def test_numbers_that_privacy_or_the_sum_cannot_rest_on_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(PrivacyError, match=words):
        terms(**changes)


def test_the_sum_and_its_noise_fit_the_modulus() -> None:
    """The design's log2 n + log2 largest + 2 <= 63 suffices, as t is at most 2^40."""
    assert math.log2(20) + math.log2(2**56) + 2 <= 63
    roomy = terms(sensitivity_steps=2**30, largest_steps=2**56, epsilon=2**-10)
    assert 20 * 2**56 + 2**40 < roomy.largest_sum < 2**63


def test_a_sum_beyond_bounds_and_noise_is_implausible() -> None:
    one = terms()
    tail = one.noise_tail(20)
    draws = np.abs(one.sum_noise(20).sample(200_000, np.random.default_rng(3)))
    assert draws.max() < tail < 200 * draws.max()
    quarter = one.noise_tail(20, 0.25)
    assert np.mean(draws >= quarter) <= 0.25
    assert one.plausible(20 * 100 + tail, (1,) * 20)
    assert not one.plausible(20 * 100 + tail + 1, (1,) * 20)


@pytest.mark.parametrize(("low", "high"), [(0, 100), (40, 100), (-100, -60)])
def test_a_sum_below_or_above_all_statistics_is_implausible(low: int, high: int) -> None:
    """Where statistics have a sign: one member moves the mean within their range, and no further."""
    one = terms(range_steps=(low, high))
    tail = one.noise_tail(20)
    for end, beyond in ((20 * low - tail, -1), (20 * high + tail, 1)):
        assert one.plausible(end, (1,) * 20)
        assert not one.plausible(end + beyond, (1,) * 20)
    assert one.largest_sum == terms().largest_sum
    with pytest.raises(PrivacyError, match="range_steps"):
        terms(range_steps=(low, 101))


def test_longer_batches_need_room_and_bound_what_is_plausible() -> None:
    one, tail = terms(longest_batch=8), terms().noise_tail(20)
    readings = (8, 3) + (1,) * 18
    assert one.largest_sum - terms().largest_sum == 7 * 20 * 100
    assert one.plausible(29 * 100 + tail, readings)
    assert not one.plausible(29 * 100 + tail + 1, readings)
    assert not one.plausible(0, (9,) + (1,) * 19)
    assert terms(largest_steps=2**56, longest_batch=4).largest_sum < 2**63
    with pytest.raises(PrivacyError, match="shorter batches"):
        terms(largest_steps=2**56, longest_batch=8)


def test_the_cost_of_a_wrong_number_of_colluders_is_printed() -> None:
    one = terms()
    assert one.epsilon_against(5) == one.epsilon_against(0) == 0.5
    assert one.epsilon_against(10) == effective_epsilon(0.5, 7 / 12, 100)
    assert one.epsilon_against(19) == effective_epsilon(0.5, 1 / 12, 100)
    assert upward(one.epsilon_against(10), 3) in one.caveat
    assert one.assumes == "computational"


def test_no_more_collude_than_there_are_others() -> None:
    for colluders, said in ((5, "if 10 colluded"), (8, "if all 15 others colluded")):
        terms = MaskedParameters(16, colluders, 0, epsilon=1.0, sensitivity_steps=64)
        assert terms.caveat.startswith(said)


def test_without_colluders_no_member_is_covered_not_even_one_by_itself() -> None:
    """It knows its own noise: what is left is GDL((h - 1)/h), and the sentences say so."""
    for n in (2, 16):
        alone = MaskedParameters(n, 0, 0, epsilon=1.0, sensitivity_steps=64)
        assert alone.epsilon_against(1) > 1.05
        assert alone.caveat.startswith("against any one of the other members, epsilon would be ")
        assert upward(alone.epsilon_against(1), 3) in alone.caveat
    outsiders = str(Adversary(Sees.MEMBERS))
    assert "is no member (any one member may learn more)" in outsiders
    assert "up to 0" not in outsiders
    assert "up to 1 of the other members together" in str(Adversary(Sees.MEMBERS, colluders=1))


def test_an_accountant_charges_by_the_session() -> None:
    one = terms()
    accountant = Accountant(Budget(spent([Release(one.event)] * one.attempts).epsilon))
    for attempt in range(one.attempts):
        accountant.charge(
            ReleaseEvent("a", 1, f"masked sum {attempt}", one.epsilon, 0.0, one.event.mechanism,
                         one.event.parameter)
        )  # fmt: skip
    assert accountant.remaining("a") == pytest.approx(0)


def test_the_scale_is_the_exact_quotient() -> None:
    assert terms(epsilon=0.1).scale == 100 / Fraction(0.1)


def test_only_a_number_is_charged_as_discrete_laplace() -> None:
    """A vector that moves in several components has another loss: it is charged as pure epsilon."""
    one, two = (
        MaskedParameters(10, 2, 1, epsilon=0.5, sensitivity_steps=8, dimension=d).event
        for d in (1, 2)
    )
    assert (one.mechanism, one.parameter) == ("discrete-laplace", 8.0)
    assert two.mechanism == "pure"
    assert one.epsilon == two.epsilon == 0.5


@pytest.mark.parametrize(("steps", "dimension"), [(7, 3), (5, 4), (9, 2)])
def test_steps_that_do_not_divide_evenly_are_rounded_up(steps: int, dimension: int) -> None:
    """No split of a move over the components loses more than is stated."""
    beta, epsilon = 0.6, 1.0
    f = pmf(beta, steps / epsilon, 60)
    loss = np.log(f[60] / f[60:])
    best = np.full(steps + 1, -np.inf)
    best[0] = 0.0
    for _ in range(dimension):
        best = np.array(
            [max(best[k - a] + loss[a] for a in range(k + 1)) for k in range(steps + 1)]
        )
    found = effective_epsilon(epsilon, beta, steps, dimension)
    assert best[steps] <= found * (1 + 1e-9)
    down = dimension * (loss[steps // dimension])  # the weakened variant rounds down
    assert down < best[steps]
