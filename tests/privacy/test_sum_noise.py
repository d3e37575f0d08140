"""The quantile of the noise of masked sums: closed form, samples, and weakened variants."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import skellam

from veilsum.errors import PrivacyError
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.laws.shares import GeneralizedDiscreteLaplace as Laplace
from veilsum.privacy.laws.skellam import Skellam
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.mechanisms import MaskedMechanism


def discrete_laplace(scale: Fraction, m: int) -> float:
    """P(|X| <= m) = 1 - 2 r^(m+1)/(1+r)."""
    r = math.exp(-1 / scale)
    return 1 - 2 * math.exp(-(m + 1) / scale) / (1 + r)


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1), Fraction(9, 2), Fraction(4097)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_one_full_draw_has_the_quantile_of_discrete_laplace(scale: Any, confidence: Any) -> None:
    m = Laplace(Fraction(1), scale).quantile(confidence)
    assert discrete_laplace(scale, m) >= confidence - 1e-9
    assert m == 0 or discrete_laplace(scale, m - 1) < confidence + 1e-9
    assert DiscreteLaplace(scale).quantile(confidence) == m


def test_the_error_of_a_probability_is_below_one_in_a_billion() -> None:
    """At confidences just beside P(|X| <= m) the quantile is m or m + 1, and nothing else."""
    for scale in (Fraction(3), Fraction(1000), Fraction(2**24)):
        for m in (int(scale), int(3 * scale), int(7 * scale)):
            exact = discrete_laplace(scale, m)
            gap = exact - discrete_laplace(scale, m - 1)
            within = 1e-9 / max(gap, 1e-12)  # steps that 1e-9 is worth
            for nudge, expected in ((-1e-9, m), (1e-9, m + 1)):
                found = Laplace(Fraction(1), scale).quantile(exact + nudge)
                assert abs(found - expected) <= 1 + 2 * within


@pytest.mark.parametrize("order", [Fraction(10, 7), Fraction(2), Fraction(45)])
def test_samples_lie_within_at_the_stated_rate(order: Any) -> None:
    """200,000 samples: five standard deviations, false alarms below 1e-6; 3% off is noticed."""
    scale, confidence, count = Fraction(512), 0.95, 200_000
    drawn = np.abs(Laplace(order, scale).sample(count, np.random.default_rng(7)))
    m = Laplace(order, scale).quantile(confidence)
    off = 5 * math.sqrt(confidence * (1 - confidence) / count)
    assert abs((drawn <= m).mean() - confidence) < off
    for weakened in (0.97 * m, 1.03 * m):
        assert abs((drawn <= weakened).mean() - confidence) > off


def test_exact_draws_lie_within_too() -> None:
    """3 of 3 members draw GDL(1/3, t): 6,000 sums, false alarms below 1e-6."""
    member = Laplace(Fraction(1, 3), Fraction(64))
    sums = np.abs(np.array(member.draw(18_000), dtype=np.int64).reshape(-1, 3).sum(axis=1))
    m = Laplace(Fraction(1), Fraction(64)).quantile(0.95)
    assert abs((sums <= m).mean() - 0.95) < 5 * math.sqrt(0.95 * 0.05 / len(sums))


def test_many_sums_are_nearly_normal_at_any_grid() -> None:
    for scale in (Fraction(4096), Fraction(2**36)):
        order = Fraction(30_000, 7)
        sd = math.sqrt(Laplace(order, scale).variance)
        assert Laplace(order, scale).quantile(0.95) == pytest.approx(1.95996 * sd, rel=1e-3)


@pytest.mark.parametrize("variance", [2.5, 900.0, 1e12])
def test_skellam_noise_has_its_quantile_too(variance: float) -> None:
    """Against scipy's exact distribution where it has one, and the normal one beyond."""
    m = Skellam(Fraction(variance)).quantile(0.95)
    if variance > 1e6:
        assert m == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-5)
        return
    exact = skellam(variance / 2, variance / 2)
    assert exact.cdf(m) - exact.cdf(-m - 1) >= 0.95 - 1e-9
    assert exact.cdf(m - 1) - exact.cdf(-m) < 0.95 + 1e-9


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(PrivacyError, match="confidence must be above 0 and below 1"):
        Laplace(Fraction(1), Fraction(1)).quantile(1.0)
    with pytest.raises(PrivacyError, match="order must be at least 1/2"):
        Laplace(Fraction(1, 3), Fraction(1)).quantile(0.95)


def test_an_interval_has_half_a_step_for_rounding_unless_numbers_are_whole() -> None:
    terms = MaskedParameters(100, 20, 10, epsilon=1.0, sensitivity_steps=64)
    rounded, whole = (MaskedMechanism(1.0, 1.0, 2.0**-6, terms, w) for w in (False, True))
    together: Any = terms.noise_of(100)
    noise = together.quantile(0.95) * 2.0**-6 / 100
    assert whole.half_width(100, 100, 0.95) == noise
    assert rounded.half_width(100, 100, 0.95) == noise + 2.0**-7


@pytest.mark.parametrize("probability", [0.25, 1e-3, 2.0**-60])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(9, 2), Fraction(4097)])
def test_the_tail_of_discrete_laplace_holds_and_is_near(scale: Any, probability: float) -> None:
    """P(|X| >= x) = 2 r^x/(1+r) is at most what is asked, and x near the least such number."""
    x = Laplace(Fraction(1), scale).tail(probability)
    assert DiscreteLaplace(scale).tail(probability) == x
    logarithm = math.log(2) - x / scale - math.log1p(math.exp(-1 / scale))
    assert logarithm <= math.log(probability)
    need = scale * (math.log(2 / probability) - math.log1p(math.exp(-1 / scale)))
    assert x <= need + 5 * scale + 2


def test_the_sum_of_a_session_has_the_tail_of_its_noise() -> None:
    """One bound for the room of a sum, for what is plausible and for quantiles: 349,741 steps once."""
    terms = MaskedParameters(100, colluders=30, absent=0, epsilon=1.0, sensitivity_steps=4096)
    assert terms.noise_tail(100) == terms.noise_of(100).tail(2.0**-60)
    assert terms.noise_tail(100) < 203_228
