"""Sensitivities from gradients and from samples: how close they are, and that they claim no proof."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum import families
from veilsum.auditing import lipschitz
from veilsum.errors import PrivacyError


def test_a_scalar_statistic_of_a_vector_takes_the_largest_partial_derivative() -> None:
    """xi = x^2 + 3 y + sin(z): over the box the partial derivatives reach 4, 3 and 1."""

    def gradient(s: Any) -> Any:
        return np.stack([2 * s[:, 0], np.full(len(s), 3.0), np.cos(s[:, 2])], axis=-1)

    bound = lipschitz.gradient(gradient, [0, 0, 0], [2, 1, 1], radius=0.5)
    assert bound.l1 == pytest.approx(2.0)
    assert bound.status == "estimated"


def test_a_vector_statistic_takes_the_largest_column_sum() -> None:
    """xi = (s - c, (s - c)^2/w) on [-2, 3]: 1 + 2 |s - c|/w = 2, where either partial derivative is 1."""

    def jacobian(s: Any) -> Any:
        return np.stack([np.ones_like(s), 2 * (s - 0.5) / 5], axis=-2)

    bound = lipschitz.gradient(jacobian, -2.0, 3.0, radius=1e-6)
    exact = families.NormalBoth(bounds=(-2.0, 3.0)).moves(1e-6)
    assert bound.l1 == pytest.approx(2e-6)
    assert bound.l1 == pytest.approx(exact.l1, rel=1e-5)
    assert lipschitz.column_sums([[1.0, -2.0], [3.0, 1.0]]) == 4.0


def test_the_search_polishes_between_the_points_of_the_lattice() -> None:
    bound = lipschitz.gradient(
        lambda s: np.exp(-((s - [0.3, 0.7]) ** 2)), [-1, -1], [1, 1], points=100
    )
    assert bound.l1 == pytest.approx(1.0, abs=1e-12)
    upper = lipschitz.gradient(
        lambda s: np.exp(-((s - [0.3, 0.7]) ** 2)), [-1, -1], [1, 1], change=0.9, points=10_000
    )
    assert upper.status == "claimed"
    assert 1.0 <= upper.l1 <= 1.02


def test_l1_noise_needs_the_column_sum() -> None:
    """Two coordinates, Lap(b) each: the log density moves by (|1| + |2s|) radius/b, not the max."""
    radius, epsilon = 0.01, 1.0
    xi = np.array([3.0, 9.0]), np.array([3.0 - radius, (3.0 - radius) ** 2])
    far = stats.laplace.logpdf(np.array([20.0, 20.0])[:, None], np.stack(xi, axis=1))
    move = np.abs(np.diff(far.sum(axis=0)))[0]
    right, wrong = 7 * radius / epsilon, 6 * radius / epsilon
    assert move / right <= epsilon
    assert move / wrong > 1.1 * epsilon


@pytest.mark.parametrize(
    ("xi", "low", "high", "wanted"),
    [
        (np.log, 0.5, 5.0, 2.0),
        (np.sin, 0.0, 6.0, 1.0),
        (np.log1p, 0.0, 9.0, 1.0),
        (np.abs, -1.0, 3.0, 1.0),
        (lambda s: s**2, -1.0, 4.0, 8.0),
        (lambda s: np.sin(3 * s) + 0.2 * s**2, 0.0, 4.0, 3 * math.cos(12) + 1.6),
        (lambda s: np.stack([s, s**2], axis=-1), 0.0, 3.0, 7.0),
        (lambda s: np.sqrt(1 + s), 0.0, 5.0, 0.5),
    ],
)
def test_estimates_are_close_and_flagged(xi: Any, low: Any, high: Any, wanted: Any) -> None:
    """Within 3%: steepest places inside, at an edge, or everywhere; scalar and vector."""
    bound, seen = lipschitz.estimate(xi, low, high, np.random.default_rng(24), radius=2.0)
    assert bound.l1 == pytest.approx(2 * wanted, rel=0.03)
    assert bound.status == "estimated"
    assert 0.9 * bound.l1 <= seen <= bound.l1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("xi", "low", "high", "truth"),
    [
        (np.log1p, 0.0, 20.0, 1.0),
        (np.sin, 0.0, 6.0, 1.0),
        (np.square, 0.0, 1.0, 2.0),
        (lambda s: np.exp(s.sum(axis=-1)), [0.0, 0.0], [1.0, 1.0], math.exp(2)),
    ],
)
def test_the_interval_covers_the_truth_as_often_as_it_says(
    xi: Any, low: Any, high: Any, truth: Any
) -> None:
    """The fit of Wood and Zhang was below the truth in 120 of 120 runs, its interval in most.

    Fewer than 171 of 200 have a chance below 1e-7 at 95%. Half the width, the weakened twin, is caught.
    """
    covered = halved = 0
    ends = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
    for seed in range(200):
        rng = np.random.default_rng(seed)
        slopes = lipschitz._slopes(xi, *ends, rng, 20_000, 1e-6, np.ndim(low) == 0)
        seen, end = slopes.max(), lipschitz.upper_end(slopes, ends[0].size)
        assert seen <= truth * (1 + 1e-7)
        covered += truth <= end
        halved += truth <= seen + (end - seen) / 20
    assert covered >= 171
    assert halved < 171 or np.sin is xi  # a maximum inside has slopes to spare


def test_the_noise_is_calibrated_to_the_end_that_covers_and_the_fit_is_said_to_be_too_small() -> (
    None
):
    bound, seen = lipschitz.estimate(np.square, 0.0, 1.0, np.random.default_rng(1), pairs=100)
    assert bound.l1 >= 2.0 > seen
    assert "usually too small" in bound.reason
    with pytest.raises(PrivacyError, match="2 finite slopes"):
        lipschitz.upper_end([1.0])


def test_estimates_for_vector_signals_move_one_coordinate_at_a_time() -> None:
    def xi(s: Any) -> Any:
        return s[:, 0] ** 2 + 3 * s[:, 1] + np.sin(s[:, 2])

    bound, _ = lipschitz.estimate(xi, [0, 0, 0], [2, 1, 1], np.random.default_rng(25))
    assert bound.l1 == pytest.approx(4.0, rel=0.03)


@pytest.mark.thorough
def test_the_estimate_improves_on_the_largest_slope_seen() -> None:
    """Few samples: the fitted end point is nearer to the truth than the sample maximum, mostly."""
    closer = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        maxima = 1 - rng.weibull(2.0, (60, 10)).min(axis=1)
        closer += abs(lipschitz.fit_reverse_weibull(maxima).location - 1) < 1 - maxima.max()
    assert closer >= 24


@pytest.mark.thorough
def test_the_fit_finds_the_parameters() -> None:
    """5,000 draws: location to 5%, and a likelihood no worse than that of the true parameters."""
    x = stats.weibull_max.rvs(3.0, loc=5.0, scale=2.0, size=5_000, random_state=26)
    fit = lipschitz.fit_reverse_weibull(x)
    assert fit.location == pytest.approx(5.0, rel=0.05)
    assert fit.shape == pytest.approx(3.0, rel=0.2)
    assert fit.scale == pytest.approx(2.0, rel=0.2)
    assert fit.spread[0] < 5.0 < fit.spread[1]
    ours = stats.weibull_max.logpdf(x, fit.shape, fit.location, fit.scale).sum()
    truth = stats.weibull_max.logpdf(x, 3.0, 5.0, 2.0).sum()
    assert ours >= truth - 0.01


def test_maxima_without_an_end_point_have_an_open_spread() -> None:
    x = stats.gumbel_r.rvs(size=300, random_state=27)
    assert lipschitz.fit_reverse_weibull(x).spread[1] == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: lipschitz.estimate(np.sin, 1.0, 0.0, rng), "low < high"),
        (lambda rng: lipschitz.estimate(np.sin, 0.0, math.inf, rng), "finite ends"),
        (lambda rng: lipschitz.estimate(np.sum, 0.0, 1.0, rng), "as many finite statistics"),
        (lambda rng: lipschitz.estimate(np.sin, 0.0, 1.0, rng, batches=3), "batches must be"),
        (lambda rng: lipschitz.fit_reverse_weibull(rng.random(5)), "10 finite maxima"),
        (lambda rng: lipschitz.gradient(lambda s: s[0], 0, 1), "the jacobian must map"),  # noqa: ARG005
        (lambda rng: lipschitz.gradient(lambda s: s * math.inf, 1, 2), "not finite"),  # noqa: ARG005
        (lambda rng: lipschitz.gradient(np.sin, np.zeros(25), np.ones(25)), "25 dim"),  # noqa: ARG005
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        call(np.random.default_rng(0))
