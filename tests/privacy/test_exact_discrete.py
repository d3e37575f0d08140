"""The exact samplers draw the stated distribution, on every path, and only from the given bits.

Statistical tests read a fixed stream, so they pass or fail for good; on a fresh stream each would
raise a false alarm with probability below FALSE_ALARM.
"""

import inspect
import os
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veilsum.errors import PrivacyError
from veilsum.privacy import MECHANISMS, Status
from veilsum.privacy.exact import SYSTEM, Entropy
from veilsum.privacy.exact.coins import WORD, DigitCoin, ExpCoin, bernoulli_exp, exp_bracket
from veilsum.privacy.laws import DiscreteLaplace, GeneralizedDiscreteLaplace, Skellam
from veilsum.privacy.laws.discrete_laplace import discrete_laplace
from veilsum.privacy.mechanisms import LaplaceMechanism
from veilsum.testing import PredictableEntropy

FALSE_ALARM = 1e-7
STEADY = settings(deadline=None, derandomize=True)
SURE = 1e-12  # what a wrong scale must stay below
SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(50)]
GAMMAS = st.fractions(min_value=Fraction(1, 10**6), max_value=200, max_denominator=10**9)


def stream(seed: Any) -> Any:
    return PredictableEntropy(seed, simulation_only=True)


class Script(Entropy):
    """Answers from a list of byte strings, one per request, each of the length asked for."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def read(self, count: Any) -> Any:
        if count == 0:
            return b""
        answer = self.answers.pop(0)
        assert len(answer) == count
        return answer


def word(value: Any) -> Any:
    return int(value).to_bytes(8, "little")


def exp_minus(gamma: Any) -> Any:
    """exp(-gamma) to 150 digits, by the decimal module."""
    return (-Decimal(gamma.numerator) / Decimal(gamma.denominator)).exp()


def chi_square(draws: Any, scale: Any) -> Any:
    """p-value of draws against P(X = k) in cells of at least 20 expected draws."""
    distribution, reach = DiscreteLaplace(scale), 0

    def expected(k: int) -> float:
        return float(draws.size * distribution.pmf(k)[0])

    while expected(reach + 1) >= 20:
        reach += 1
    inside = [expected(k) for k in range(-reach, reach + 1)]
    counts = [int(np.sum(draws == k)) for k in range(-reach, reach + 1)]
    rest = draws.size - sum(inside)
    cells = ([*inside, rest], [*counts, draws.size - sum(counts)])
    return stats.chisquare(cells[1], cells[0]).pvalue


@STEADY
@given(gamma=GAMMAS, bits=st.integers(1, 300))
def test_brackets_hold_exp_and_are_narrow(gamma: Any, bits: Any) -> None:
    low, high = exp_bracket(gamma, bits)
    with localcontext(prec=150):
        true = exp_minus(gamma) * 2**bits
        assert low <= true <= high
    assert high - low <= 2


def test_bracket_at_zero_holds_one() -> None:
    low, high = exp_bracket(Fraction(0), 64)
    assert low <= 2**64 == high


@STEADY
@given(gamma=GAMMAS, bits=st.integers(1, 200))
def test_places_of_both_coins_are_the_true_ones(gamma: Any, bits: Any) -> None:
    with localcontext(prec=150):
        q = exp_minus(gamma)
        assert ExpCoin(gamma).floor(bits) == int(q * 2**bits)
        assert DigitCoin(gamma).floor(bits) == int(q / (1 + q) * 2**bits)


def test_a_probability_next_to_a_dyadic_number_asks_for_more_places() -> None:
    with localcontext(prec=80):
        half = Fraction(Decimal(2).ln())  # exp(-half) = 1/2 up to 1e-80
    above, below = ExpCoin(half - Fraction(1, 10**70)), ExpCoin(half + Fraction(1, 10**70))
    assert above.floor(8) == 128
    assert below.floor(8) == 127


@pytest.mark.parametrize("off", [-1, 1])
@pytest.mark.parametrize("agreed", [0, 1, 4])
def test_a_toss_is_settled_by_the_first_word_that_differs(off: Any, agreed: Any) -> None:
    coin = DigitCoin(Fraction(2, 7))
    due = [coin.places(WORD * i, WORD) for i in range(agreed + 1)]
    entropy = Script(*map(word, due[:-1]), word(due[-1] + off))
    assert coin.toss(entropy) is (off < 0)
    assert entropy.answers == []


@pytest.mark.parametrize("scale", SCALES)
def test_digits_multiply_to_the_stated_distribution(scale: Any) -> None:
    """prod_j P(b_j) P(H) = (1 - r) r^k, also for k above the digits."""
    *digits, tail = DiscreteLaplace(scale)._coins
    with localcontext(prec=60):
        r = exp_minus(1 / scale)
        for k in (0, 1, 5, 37, 2 ** len(digits) + 3):
            q = [exp_minus(coin.gamma) for coin in digits]
            bits = [k >> j & 1 for j in range(len(digits))]
            product = exp_minus(tail.gamma) ** (k >> len(digits)) * (1 - exp_minus(tail.gamma))
            for bit, q_j in zip(bits, q, strict=True):
                product *= (q_j if bit else 1) / (1 + q_j)
            assert abs(product / ((1 - r) * r**k) - 1) < Decimal("1e-50")
        assert exp_minus(tail.gamma) < Decimal(-32).exp() * 2


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2**40 + 1)])
def test_every_byte_has_its_probability(scale: Any) -> None:
    """Of the 256 bytes, `first` settle for 1, one ties, the rest settle for 0: for each coin."""
    distribution = DiscreteLaplace(scale)
    first, after = distribution._places
    ties = np.zeros(8 * first.size, dtype=np.uint8).tobytes()  # words of 0 show 1, unless due is 0
    every = np.repeat(np.arange(256, dtype=np.uint8), first.size).tobytes()
    answers = [every, ties, *(b"\xff" * 8 for due in after if due == 0)]
    shown = distribution._toss(256, Script(*answers))
    assert np.array_equal(shown.sum(axis=0), first.astype(int) + (after > 0))
    with localcontext(prec=100):
        for coin, byte, due in zip(distribution._coins, first, after, strict=True):
            q = exp_minus(coin.gamma)
            p = q / (1 + q) if isinstance(coin, DigitCoin) else q
            assert int(byte) << 64 | int(due) == int(p * 2**72)


def tied_everywhere(distribution: Any, off: Any, *more: Any) -> Any:
    """Tie every coin in its byte and its word; the third stage differs by `off`; sign positive."""
    first, after = distribution._places
    third = [coin.places(72, WORD) + off for coin in distribution._coins]
    return Script(first.tobytes(), after.tobytes(), *map(word, third), *more, b"\x00")


def test_refinement_to_exact_integers_shows_all_ones_and_the_tail() -> None:
    distribution = DiscreteLaplace(Fraction(5, 2))
    digits = len(distribution._coins) - 1
    one, zero = [word(0)] * 2, [word(2**64 - 1)]  # the tail's first 64 places are 0
    entropy = tied_everywhere(distribution, -1, *one, *one, *zero)  # H = 1 + 2
    assert distribution.draw(1, entropy).tolist() == [2**digits - 1 + 3 * 2**digits]
    assert entropy.answers == []


def test_refinement_to_exact_integers_shows_all_zeros() -> None:
    distribution = DiscreteLaplace(Fraction(5, 2))
    assert distribution.draw(1, tied_everywhere(distribution, +1)).tolist() == [0]


def test_a_draw_beyond_62_bits_is_kept_exactly() -> None:
    distribution = DiscreteLaplace(Fraction(15 * 2**52))
    entropy = tied_everywhere(distribution, -1, word(0), word(0), word(2**64 - 1))
    drawn = distribution.draw(1, entropy)
    assert drawn.dtype == object
    assert drawn.tolist() == [2**61 - 1 + 3 * 2**61]


def test_minus_zero_is_refused_and_drawn_again() -> None:
    distribution = DiscreteLaplace(Fraction(1, 100))  # no digits, only the tail
    assert len(distribution._coins) == 2 - 1
    entropy = Script(b"\xff", b"\xff", b"\xff", b"\x00")  # H = 0 with sign -, then with sign +
    assert distribution.draw(1, entropy).tolist() == [0]
    assert entropy.answers == []


@pytest.mark.parametrize("scale", SCALES)
def test_vector_draws_have_the_exact_distribution(scale: Any) -> None:
    draws = DiscreteLaplace(scale).draw(200_000, stream(11))
    assert chi_square(draws, scale) > FALSE_ALARM
    assert chi_square(draws, scale * Fraction(9, 10)) < SURE
    assert chi_square(draws, scale * Fraction(11, 10)) < SURE


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2)])
def test_scalar_draws_have_the_exact_distribution(scale: Any) -> None:
    entropy = stream(12)
    draws = np.array([discrete_laplace(scale, entropy) for _ in range(15_000)])
    assert chi_square(draws, scale) > FALSE_ALARM
    assert chi_square(draws, scale * Fraction(9, 10)) < SURE
    assert chi_square(draws, scale * Fraction(11, 10)) < SURE


@pytest.mark.thorough
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 4), Fraction(1), Fraction(9, 4)])
def test_bernoulli_exp_has_its_mean(gamma: Any) -> None:
    entropy = stream(13)
    ones = sum(bernoulli_exp(gamma, entropy) for _ in range(10_000))
    assert stats.binomtest(ones, 10_000, float(np.exp(-float(gamma)))).pvalue > FALSE_ALARM


def test_fine_grids_look_like_the_continuous_distribution_down_to_the_last_bit() -> None:
    scale = Fraction(2**40 + 1)
    draws = DiscreteLaplace(scale).draw(200_000, stream(14))
    assert draws.dtype == np.int64
    for factor, passes in ((0.9, False), (1.0, True), (1.1, False)):
        p = stats.kstest(draws / float(scale), stats.laplace(scale=factor).cdf).pvalue
        assert p > FALSE_ALARM if passes else p < SURE
    for shift in (0, 8, 16, 24, 32):  # digits j with 2^j far below the scale are fair
        low = np.bincount(draws >> shift & 7, minlength=8)
        assert stats.chisquare(low).pvalue > FALSE_ALARM


def test_scales_beyond_the_vector_form_are_drawn_one_by_one() -> None:
    scale = Fraction(2**70)
    draws = DiscreteLaplace(scale).draw(2000, stream(15))
    assert draws.dtype == object
    assert stats.kstest(draws.astype(float) / 2.0**70, stats.laplace.cdf).pvalue > FALSE_ALARM


def opendp_laplace(kind: Any, scale: Any, count: Any) -> Any:
    dp.enable_features("contrib")
    atom = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=int)
    measure = dp.m.make_laplace(dp.vector_domain(atom), dp.l1_distance(T=kind), scale=scale)
    return np.array(measure([kind(0)] * count))


def test_opendp_draws_the_same_discrete_distribution() -> None:
    """OpenDP reads the system's entropy, so this one has a true false-alarm rate: 1e-7."""
    theirs = opendp_laplace(int, 3.5, 40_000)

    def against(ours: Any) -> Any:
        table = [[np.sum(np.clip(x, -12, 12) == k) for k in range(-12, 13)] for x in (ours, theirs)]
        return stats.chi2_contingency(table).pvalue

    assert against(DiscreteLaplace(Fraction(7, 2)).draw(200_000, stream(16))) > FALSE_ALARM
    assert against(DiscreteLaplace(Fraction(63, 20)).draw(200_000, stream(17))) < SURE


def test_opendp_draws_the_same_laplace_distribution() -> None:
    theirs = opendp_laplace(float, 1.0, 20_000)
    ours = LaplaceMechanism(1.0, 1.0).release(np.zeros(200_000), entropy=stream(18))
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM
    assert stats.ks_2samp(0.8 * ours, theirs).pvalue < SURE


@pytest.mark.parametrize("scale", SCALES)
def test_probabilities_are_enclosed_and_add_up_to_one(scale: Any) -> None:
    distribution = DiscreteLaplace(scale)
    cells = [distribution.pmf(k) for k in range(-40 * int(scale + 1), 40 * int(scale + 1) + 1)]
    assert all(low < high for low, high in cells)
    assert all(high - low < distribution.pmf(0)[1] / 2**96 for low, high in cells)
    assert float(sum(low for low, _ in cells)) == pytest.approx(1, abs=1e-15)
    second = sum(low * (k - len(cells) // 2) ** 2 for k, (low, _) in enumerate(cells))
    assert float(second) == pytest.approx(distribution.variance, rel=1e-9)


@STEADY
@given(scale=st.fractions(Fraction(1, 4), 40, max_denominator=50), k=st.integers(-9, 9))
def test_loss_is_the_log_ratio_of_the_probabilities(scale: Any, k: Any) -> None:
    distribution = DiscreteLaplace(scale)
    ratio = distribution.pmf(k - 2, 200)[0] / distribution.pmf(k + 3, 200)[0]
    assert float(distribution.loss(k, 2, -3)) == pytest.approx(
        float(np.log(float(ratio))), abs=1e-12
    )


def test_the_system_is_the_default_and_there_is_no_second_choice(monkeypatch: Any) -> None:
    def dry(_: Any) -> None:
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", dry)
    with pytest.raises(OSError, match="no entropy"):
        LaplaceMechanism(1.0, 1.0).release([0.0])
    releases: list[Any] = [kind.release for kind in MECHANISMS.values()]
    assert LaplaceMechanism.release in releases
    for method in (DiscreteLaplace.draw, GeneralizedDiscreteLaplace.draw, Skellam.draw, *releases):
        default = inspect.signature(method).parameters["entropy"].default
        assert default is SYSTEM


def test_system_draws_are_fresh() -> None:
    mechanism = LaplaceMechanism(1.0, 1.0)
    assert np.unique(mechanism.release(np.zeros(10_000))).size > 9_990


@pytest.mark.parametrize("entropy", [7, None, np.random.default_rng(1)])
def test_a_seed_is_no_entropy(entropy: Any) -> None:
    with pytest.raises(PrivacyError, match="leave it out"):
        DiscreteLaplace(Fraction(1)).draw(1, entropy)
    for kind in MECHANISMS.values():
        for made in kind.examples():
            if made.status is Status.PROVED:
                with pytest.raises(PrivacyError, match="leave it out"):
                    made.release([made.pairs[0][0]], entropy=entropy)


def test_predictable_entropy_must_be_asked_for() -> None:
    with pytest.raises(PrivacyError, match="simulation_only=True"):
        PredictableEntropy(1)


def test_a_short_answer_stops_the_release() -> None:
    class Short(Entropy):
        def read(self, count: Any) -> Any:
            return bytes(count - 1)

    with pytest.raises(PrivacyError, match="nothing is released"):
        DiscreteLaplace(Fraction(1)).draw(3, Short())


@pytest.mark.parametrize("scale", [0, Fraction(-1), 1.5])
def test_a_scale_is_an_exact_fraction_above_zero(scale: Any) -> None:
    with pytest.raises(PrivacyError, match="Fraction above 0"):
        DiscreteLaplace(scale)
