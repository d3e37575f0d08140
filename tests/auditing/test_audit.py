"""The audit certifies what is true, catches what is weak, and is right as often as it says."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum.auditing import audit
from veilsum.auditing.events import learn
from veilsum.auditing.lower_bound import DeltaBound, EpsilonBound, lower, upper
from veilsum.errors import PrivacyError


def laplace(fraction: Any) -> Any:
    """Laplace noise of `fraction` of the scale that epsilon = 1 needs at sensitivity 1."""
    return lambda s, trials, rng: s + rng.laplace(scale=fraction, size=trials)


def test_the_right_noise_is_not_refuted_and_the_bound_comes_close() -> None:
    report = audit(laplace(1.0), [(0.0, 1.0), (0.0, 0.5)], 1.0, trials=1_000_000, rng=1)
    assert not report.refuted
    assert 0.95 < report.lower_bound < 1
    assert report.delta_lower_bound <= 0
    assert "not refuted" in str(report)
    assert "epsilon is at least 0 (" in str(replace(report, lower_bound=-0.004836))


def test_nine_tenths_of_the_noise_are_caught_with_a_million_samples() -> None:
    report = audit(laplace(0.9), [(0.0, 1.0)], 1.0, trials=1_000_000, rng=1)
    assert report.refuted
    assert 1.05 < report.lower_bound < 1 / 0.9
    assert "REFUTED" in str(report)
    assert report.to_dict()["refuted"]


def published(s: Any, trials: Any, rng: Any, epsilon: Any = 1.0, delta: Any = 0.01) -> Any:
    scale = 4 * math.log(2 / delta) / (math.e * epsilon**2 * s)
    return math.log(s) + rng.laplace(scale=scale, size=trials)


def test_the_published_smooth_sensitivity_is_refuted() -> None:
    """Erratum 2: between 1.1 and 0.1 the delta really spent is 0.648, not 0.01."""
    report = audit(published, [(1.1, 0.1)], 1.0, 0.01, trials=200_000, rng=1)
    assert report.refuted
    assert 0.6 < report.delta_lower_bound < 0.648


def test_the_worst_pair_is_found() -> None:
    def only_at_the_edge(s: Any, trials: Any, rng: Any) -> Any:
        return s + rng.laplace(scale=0.2 if s == 0 else 1.0, size=trials)

    report = audit(only_at_the_edge, [(5.0, 6.0), (0.0, 1.0), (2.0, 3.0)], 1.0, rng=2)
    assert report.refuted
    assert "0.0" in report.pair


def test_a_leak_in_one_of_many_outputs_is_found() -> None:
    def noisy_but_one(s: Any, trials: Any, rng: Any) -> Any:
        outputs = rng.normal(size=(trials, 6))
        outputs[:, 4] = s + rng.laplace(scale=0.8, size=trials)
        return outputs

    report = audit(noisy_but_one, [(0.0, 1.0)], 1.0, rng=3)
    assert report.refuted
    assert "output 4" in report.event or "combination" in report.event


def test_a_leak_in_a_sum_of_outputs_is_found() -> None:
    """Each output alone has far too much noise; their difference has too little."""

    def correlated(s: Any, trials: Any, rng: Any) -> Any:
        common = 50 * rng.normal(size=trials)
        return np.stack([common + s, common + rng.laplace(scale=0.7, size=trials)], axis=1)

    assert audit(correlated, [(0.0, 1.0)], 1.0, rng=4).refuted


def test_clopper_and_pearson_against_scipy() -> None:
    for hits, trials in [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50), (137, 100_000)]:
        low, high = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
        assert lower(hits, trials, 0.025) == pytest.approx(low, abs=1e-12)
        assert upper(hits, trials, 0.025) == pytest.approx(high, abs=1e-12)


def test_bounds_hold_as_often_as_they_say() -> None:
    """600 audits of the exact mechanism at 95%: at most 60 may exceed (false alarm below 1e-6)."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(600):
        first, second = (s + rng.laplace(size=(800, 1)) for s in (0.0, 1.0))
        measure = EpsilonBound(0.0, 0.95)
        event = learn(first[:400], second[:400], measure)
        wrong += event.certify(first[400:], second[400:], measure) > 1
    assert wrong <= 60


def test_measures_read_the_definition_both_ways() -> None:
    p, q = 600_000, 100_000
    loss = float(EpsilonBound(0.0, 0.999)(p, 1_000_000, q, 1_000_000))
    assert loss == pytest.approx(math.log(6), abs=0.02)
    assert float(EpsilonBound(0.6, 0.999)(p, 1_000_000, q, 1_000_000)) == -math.inf
    spent = float(DeltaBound(1.0, 0.999)(p, 1_000_000, q, 1_000_000))
    assert spent == pytest.approx(0.6 - math.e * 0.1, abs=0.01)


def test_what_cannot_be_audited_is_refused() -> None:
    with pytest.raises(PrivacyError, match="at least one pair"):
        audit(laplace(1.0), [], 1.0)
    with pytest.raises(PrivacyError, match="epsilon must be"):
        audit(laplace(1.0), [(0.0, 1.0)], -1.0)
    with pytest.raises(PrivacyError, match="must return 25000 finite outputs; found 3"):
        audit(lambda _s, _trials, _rng: [1.0, 2.0, 3.0], [(0.0, 1.0)], 1.0)
