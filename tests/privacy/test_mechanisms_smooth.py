"""Noise scaled by a smooth sensitivity: its exact loss or delta, kept, tight, broken by a weakened twin."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from veilsum.errors import PrivacyError
from veilsum.families import Support
from veilsum.privacy import ScaleRule, Statistic, Status
from veilsum.privacy import mechanisms as mech
from veilsum.privacy import sensitivity as sens

EPSILONS = [0.2, 1.0, 4.0]


@pytest.mark.thorough
def test_the_loss_of_student_t_is_its_supremum() -> None:
    """The closed form against a search over outputs, 300 random shifts and dilations."""
    rng = np.random.default_rng(35)
    z = np.concatenate([-np.geomspace(1e-4, 1e7, 40_000), np.geomspace(1e-4, 1e7, 40_000)])
    for _ in range(300):
        degrees, r = rng.uniform(2.1, 12), 10 ** rng.uniform(-1, 1)
        other, move = r * math.exp(rng.normal()), rng.exponential() * r
        p, q = stats.t.logpdf(z, degrees, 0, r), stats.t.logpdf(z, degrees, move, other)
        found = float(np.abs(p - q).max())
        stated = mech.student_t_loss(move, r, other, degrees)
        assert stated * (1 - 1e-3) - 1e-6 <= found <= stated * (1 + 1e-9)


@pytest.mark.parametrize("degrees", [2.5, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.95])
def test_student_t_is_pure_and_tight_over_all_admissible_shifts_and_dilations(
    degrees: Any, epsilon: Any, fraction: Any
) -> None:
    """h <= min(S, S') and |log(S'/S)| <= gamma: worst loss eps; 0.9 of the noise exceeds it."""
    gamma = fraction * epsilon / degrees
    multiple = mech.student_t_multiple(epsilon, gamma, degrees)

    def worst(scale: Any) -> Any:
        return max(
            mech.student_t_loss(part * min(1, math.exp(x)), scale, scale * math.exp(x), degrees)
            for x in np.linspace(-gamma, gamma, 101)
            for part in (0.0, 0.5, 1.0)
        )

    assert 0.99 * epsilon <= worst(multiple) <= epsilon + 1e-9
    weaker = worst(0.9 * multiple)
    assert weaker > epsilon * (1.001 if fraction > 0.9 else 1.01)


def test_student_t_needs_less_than_the_sum_of_shift_and_dilation() -> None:
    """Bun and Steinke add the costs: (d+1)/(2 sqrt d)/multiple + (d+1) gamma <= eps."""
    epsilon, d = 1.0, 3.0
    for gamma in (0.01, 0.1, 0.2):
        added = (d + 1) / (2 * math.sqrt(d) * (epsilon - (d + 1) * gamma))
        assert mech.student_t_multiple(epsilon, gamma, d) < added
    best = mech.best_degrees(1.0, 0.1)

    def variance(d: Any) -> Any:
        return mech.student_t_multiple(1.0, 0.1, d) ** 2 * d / (d - 2)

    assert variance(best) <= min(variance(d) for d in np.linspace(2.05, 9.95, 400)) * (1 + 1e-6)


SENSITIVITY = sens.smooth_log(0.05, 30.0, smoothing=0.15, radius=2.0)


def adjacent_pairs() -> Any:
    for s in np.geomspace(0.05, 30, 40):
        for move in (-2.0, -1.0, -0.1, 0.5, 2.0):
            yield s, min(max(s + move, 0.05), 30.0)


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_student_t_hides_adjacent_signals(epsilon: Any) -> None:
    made = mech.StudentTMechanism(epsilon, SENSITIVITY)
    losses = [made.privacy_loss(s, other) for s, other in adjacent_pairs()]
    assert 0.5 * epsilon <= max(losses) <= epsilon + 1e-9
    assert made.worst_variance == pytest.approx(float(made.variance(0.05)))


def test_smooth_laplace_spends_at_most_delta_on_adjacent_signals() -> None:
    epsilon, delta = 1.0, 0.01
    made = mech.SmoothLaplaceMechanism(epsilon, SENSITIVITY, delta=delta)
    spent = [made.spent_delta(s, other) for s, other in adjacent_pairs()]
    assert max(spent) <= delta * (1 + 1e-9)
    assert made.privacy_loss(20.0, 21.0) == math.inf


def brute_delta(move: Any, scale: Any, other: Any, epsilon: Any) -> Any:
    z = np.linspace(-80, 80, 2_000_001) * max(scale, other)
    p, q = stats.laplace.logpdf(z, 0, scale), stats.laplace.logpdf(z, move, other)
    gap = np.exp(p) - np.exp(np.minimum(epsilon + q, 700))
    return float(np.maximum(gap, 0).sum() * (z[1] - z[0]))


@pytest.mark.thorough
def test_the_delta_of_two_laplace_distributions_is_their_hockey_stick() -> None:
    rng = np.random.default_rng(36)
    for _ in range(12):
        scale, other = np.exp(rng.normal(0, 0.4, 2))
        move, epsilon = rng.exponential(), rng.uniform(0, 2)
        found = mech.laplace_delta(move, scale, other, epsilon)
        assert found == pytest.approx(brute_delta(move, scale, other, epsilon), abs=2e-4)
        assert found == pytest.approx(mech.laplace_delta(-move, scale, other, epsilon))
    same = pld.from_laplace_mechanism(2.0, sensitivity=1.0, use_connect_dots=True)
    assert mech.laplace_delta(1.0, 2.0, 2.0, 0.2) == pytest.approx(
        same.get_delta_for_epsilon(0.2), rel=1e-4
    )
    assert mech.laplace_delta(1.0, 2.0, 2.0, 0.51) == 0
    far = mech.laplace_delta(500.0, 1.0, 1.05, 0.1)
    assert far == pytest.approx(1, abs=1e-9)
    assert mech.laplace_delta(500.0, 1.05, 1.0, 500.0) == pytest.approx(
        brute_delta(500.0, 1.05, 1.0, 500.0), abs=1e-4
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_the_least_factor_is_exact(epsilon: Any, delta: Any) -> None:
    """The worst of all admissible shifts and dilations spends delta; 0.9 of it spends more.

    For a large delta the argument stops short of it: no loss towards larger scales binds first.
    """
    gamma = 0.3 * sens.smoothing(epsilon, delta)
    factor = mech.laplace_factor(epsilon, delta, gamma)

    def worst(m: Any) -> Any:
        cases = itertools.product(np.linspace(-gamma, gamma, 41), (0.0, 0.5, 1.0))
        return max(
            mech.laplace_delta(
                part * min(1, math.exp(x)), m / epsilon, m * math.exp(x) / epsilon, epsilon
            )
            for x, part in cases
        )

    assert worst(factor) <= delta * (1 + 1e-6)
    assert worst(factor) == pytest.approx(
        mech.smooth_laplace_delta(epsilon, gamma, factor), rel=1e-6
    )
    assert worst(0.9 * factor) > 1.05 * worst(factor)
    if delta == 1e-9 or (delta == 1e-3 and epsilon >= 1):
        assert worst(factor) == pytest.approx(delta, rel=1e-6)
        assert worst(0.9 * factor) > 1.05 * delta


def test_the_factor_2_of_nissim_et_al_is_loose_at_first_and_breaks_at_last() -> None:
    gamma = sens.smoothing(1.0, 0.01)
    assert mech.smooth_laplace_delta(1.0, gamma, 2.0) == pytest.approx(1.11e-4, rel=1e-2)
    assert mech.laplace_factor(1.0, 0.01, gamma) == pytest.approx(1.058, rel=1e-3)
    late = sens.smoothing(15.0, 0.01)
    assert mech.smooth_laplace_delta(15.0, late, 2.0) == pytest.approx(0.0219, rel=1e-2)
    pair = mech.laplace_delta(math.exp(-late), 2 / 15, 2 * math.exp(-late) / 15, 15.0)
    assert pair > 2 * 0.01
    bound = sens.smooth_log(0.1, 5.0, smoothing=late)
    with pytest.raises(PrivacyError, match="the least factor is"):
        mech.SmoothLaplaceMechanism(15.0, bound, delta=0.01, factor=2.0)
    for epsilon in (0.01, 0.1, 1.0, 3.0, 7.0):
        for delta in (1e-12, 1e-6, 0.01, 0.3, 0.7):
            gamma = sens.smoothing(epsilon, delta)
            assert mech.smooth_laplace_delta(epsilon, gamma, 2.0) <= delta


def test_the_published_smooth_sensitivity_spends_far_more_than_delta() -> None:
    """Erratum 2, eps = 1, delta = 0.01: the delta really spent, the larger of both directions."""
    made = mech.SmoothLaplaceMechanism(1.0, sens.as_published(1.0, 0.01), delta=0.01, factor=2.0)
    assert made.ideal_status == "refuted"
    spent = [made.spent_delta(s, other) for s, other in ((2, 1), (1.1, 0.1), (1.001, 0.001))]
    assert spent == pytest.approx([0.0934, 0.6476, 0.9911], abs=1e-4)
    assert made.worst_variance == math.inf


def test_smooth_noise_on_an_integer_domain_and_with_a_constant_sensitivity() -> None:
    squares = sens.smooth(np.square, Support(0, 40, integer=True), smoothing=0.2)
    made = mech.StudentTMechanism(1.0, squares)
    losses = [made.privacy_loss(k, k + 1) for k in range(40)]
    assert 0.9 <= max(losses) <= 1 + 1e-9
    rule = ScaleRule(np.ones_like, np.sin, smoothing=0.0, radius=1.0, domain=Support())
    flat = Statistic(1.0, status=Status.PROVED, reason="stated", scale=rule)
    laplace = mech.SmoothLaplaceMechanism(1.0, flat, delta=1e-6)
    assert laplace.factor == 1.0
    assert laplace.variance(3.0) == mech.LaplaceMechanism(1.0, 1.0).worst_variance


def test_mechanisms_for_two_statistics_are_two() -> None:
    """They have no equality by fields, for rules are functions; that of epsilon alone is a wrong one."""
    other = sens.smooth_log(0.5, 20.0, smoothing=0.09)
    assert mech.StudentTMechanism(1.0, SENSITIVITY) != mech.StudentTMechanism(1.0, other)
    one, two = (mech.SmoothLaplaceMechanism(1.0, other, delta) for delta in (0.01, 0.3))
    assert one != two
    assert len({one, two}) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mech.StudentTMechanism(0.4, SENSITIVITY),
            "smoothing below epsilon/degrees",
        ),
        (lambda: mech.StudentTMechanism(1.0, SENSITIVITY, degrees=2.0), "above 2"),
        (lambda: mech.best_degrees(0.2, 0.15), "smoothing below epsilon/2"),
        (
            lambda: mech.SmoothLaplaceMechanism(0.1, SENSITIVITY, delta=1e-6),
            "alone spends more",
        ),
        (lambda: mech.SmoothLaplaceMechanism(1.0, SENSITIVITY, delta=0.0), "delta must be"),
        (lambda: mech.smooth_laplace_delta(1.0, 0.5, 1.0), "too small"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(call: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        call()
