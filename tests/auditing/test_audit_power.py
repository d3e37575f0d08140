"""What an audit says it can find, it finds; what is sound, it leaves alone."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum.auditing import audit, runs_for, smallest_fault
from veilsum.auditing.events import Counts, learn
from veilsum.auditing.lower_bound import FEWEST, MOST, EpsilonBound, finds, lower, runs, upper
from veilsum.errors import PrivacyError

SURE = 1 - 1e-6
SEEDS = range(6)


def laplace(epsilon: Any, fault: Any = 0.0) -> Any:
    """Laplace noise for sensitivity 1, with a fraction of it missing."""
    scale = (1 - fault) / epsilon
    return lambda s, trials, rng: s + rng.laplace(scale=scale, size=trials)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_a_tenth_of_the_noise_missing_is_found_with_default_settings(epsilon: Any) -> None:
    """200,000 runs whatever the epsilon used to find it 0 of 6 times at 0.1, and 2 of 6 at 0.3."""
    reports = [audit(laplace(epsilon, 0.1), [(0.0, 1.0)], epsilon, rng=seed) for seed in SEEDS]
    assert all(report.refuted for report in reports)
    assert all((report.smallest_fault or 1.0) <= 0.101 for report in reports)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_sound_noise_is_never_refuted(epsilon: Any) -> None:
    """Confidence 1 - 1e-6 each: a false alarm among the 24 audits has probability 2.4e-5 at most,

    and the seeds are fixed; that the bounds keep their confidence is tested in test_audit.
    """
    for seed in SEEDS:
        report = audit(laplace(epsilon), [(0.0, 1.0)], epsilon, rng=seed)
        assert not report.refuted
        assert report.lower_bound > (0.88 if epsilon < 0.2 else 0.9) * epsilon


@pytest.mark.parametrize(
    ("epsilon", "trials"), [(0.1, 40_000), (0.3, 40_000), (1.0, 10_000), (3.0, 10_000)]
)
def test_the_smallest_fault_is_honest(epsilon: Any, trials: Any) -> None:
    """A fault of the published size is found in 60 seeds at least as often as 0.95 says.

    45 of 60 or fewer at a true rate of 0.95 has a probability of 2e-7.
    """
    fault = smallest_fault(trials, epsilon, 0.0, SURE)
    found = 0
    for seed in range(60):
        report = audit(laplace(epsilon, fault), [(0.0, 1.0)], epsilon, 0.0, trials, seed)
        assert report.smallest_fault == pytest.approx(fault)
        found += report.refuted
    assert stats.binom.cdf(45, 60, 0.95) < 1e-6
    assert found > 45


COMPONENTS = 20
EVENLY = [(np.zeros(COMPONENTS), np.full(COMPONENTS, 1 / COMPONENTS))]


def vector(fault: float) -> Any:
    """Laplace noise of scale 1 on each component of a move of 1 in l1 norm: epsilon = 1."""
    return lambda s, n, rng: s + rng.laplace(scale=1 - fault, size=(n, COMPONENTS))


def vector_ratio(first: Any, second: Any) -> Any:
    return lambda y: (np.abs(y - second) - np.abs(y - first)).sum(axis=1)


def smooth(fault: float) -> Any:
    """Laplace noise of less than what (1, 0.01) needs, around log s, of a scale that follows s."""
    scale = (1 - fault) / (1 - 2 * math.log1p(-0.01))
    return lambda s, n, rng: s + (1 + 0.01 * s) * rng.laplace(scale=scale, size=n)


def test_a_vector_without_70_percent_of_its_noise_is_found() -> None:
    """No linear score finds it, and 5.7% was stated: the exact likelihood ratio finds it always."""
    for seed in range(2):
        report = audit(vector(0.7), EVENLY, 1.0, trials=100_000, rng=seed, ratio=vector_ratio)
        assert report.refuted
        assert report.event == "events on the likelihood ratio"
    blind = audit(vector(0.7), EVENLY, 1.0, trials=100_000)
    assert not blind.refuted
    assert blind.smallest_fault is None  # and nothing is stated that was not computed
    assert "is not known" in str(blind)


@pytest.mark.parametrize(
    ("weakened", "pairs", "delta", "trials", "ratio"),
    [(vector, EVENLY, 0.0, 4_000, vector_ratio), (smooth, [(0.0, 1.0)], 0.01, 8_000, None)],
    ids=["20 components", "delta"],
)
def test_the_stated_power_is_that_of_the_attack(
    weakened: Any, pairs: Any, delta: Any, trials: Any, ratio: Any
) -> None:
    """A fault of the stated size is found, and half of it escapes.

    19 of 30 or fewer at a true rate of 0.95 has a probability below 1e-6, as has 28 of 30 or more at
    a rate of 1/2 or less.
    """
    assert stats.binom.cdf(19, 30, 0.95) < 1e-6
    assert stats.binom.sf(27, 30, 0.5) < 1e-6
    sound = audit(weakened(0.0), pairs, 1.0, delta, trials, ratio=ratio, weakened=weakened)
    fault = sound.smallest_fault
    assert not sound.refuted
    assert fault is not None
    assert f"if the noise were {fault:.1%} too small, this test would have found it 95" in str(
        sound
    )

    def found(missing: float) -> int:
        return sum(
            audit(weakened(missing), pairs, 1.0, delta, trials, seed, ratio=ratio).refuted
            for seed in range(30)
        )

    assert found(fault) > 19
    assert found(fault / 2) <= 27


@pytest.mark.slow
def test_the_smallest_fault_is_honest_at_default_settings() -> None:
    """The same with the runs that are chosen for a tenth at epsilon = 0.1, over 60 seeds."""
    fault = audit(laplace(0.1), [(0.0, 1.0)], 0.1).smallest_fault
    found = sum(audit(laplace(0.1, fault), [(0.0, 1.0)], 0.1, rng=s).refuted for s in range(60))
    assert found > 45


def test_a_much_smaller_fault_is_not_found() -> None:
    """The published fault is not idle caution: half of it escapes most of the time.

    More than 50 of 60 at a true rate of 1/2 or less has a probability below 1e-7.
    """
    fault = smallest_fault(10_000, 1.0, 0.0, SURE) / 2
    reports = [audit(laplace(1.0, fault), [(0.0, 1.0)], 1.0, 0.0, 10_000, s) for s in range(60)]
    assert sum(report.refuted for report in reports) <= 50


def test_runs_grow_as_the_square_of_what_is_to_be_seen() -> None:
    assert runs_for(0.1, 0.1, 0.0, SURE) < 1_200_000
    assert runs_for(0.1, 0.05, 0.0, SURE) == pytest.approx(
        4 * runs_for(0.1, 0.1, 0.0, SURE), rel=0.15
    )
    assert runs_for(0.05, 0.1, 0.0, SURE) > 3.5 * runs_for(0.1, 0.1, 0.0, SURE)
    assert runs_for(0.1, 12.0, 0.0, SURE) > 10 * runs_for(0.1, 8.0, 0.0, SURE)
    assert runs_for(0.1, 60.0, 0.0, SURE) == math.inf
    for trials in (10_000, 300_000):
        fault = smallest_fault(trials, 0.3, 0.0, SURE)
        assert finds(fault, trials, 0.3, 0.0, SURE)
        assert not finds(0.98 * fault, trials, 0.3, 0.0, SURE)


def test_the_cap_is_said() -> None:
    assert runs(0.1, 0.01, 0.0, SURE) == MOST
    assert runs(0.1, 40.0, 0.0, SURE) == FEWEST
    assert runs(0.1, 1.0, 0.0, SURE) == FEWEST
    report = audit(lambda s, n, rng: s + rng.laplace(scale=30.0, size=n), [(0.0, 1.0)], 1 / 30)
    assert report.trials == MOST
    assert report.smallest_fault is not None
    assert report.smallest_fault > 0.1
    assert "(10% was asked for, which takes more runs)" in str(report)
    hopeless = audit(laplace(1.0), [(0.0, 1.0)], 25.0)
    assert hopeless.trials == FEWEST
    assert "no fault of the noise could have been found by sampling" in str(hopeless)


def test_every_report_says_the_smallest_fault_that_it_would_have_found() -> None:
    report = audit(laplace(1.0), [(0.0, 1.0)], 1.0, trials=40_000)
    words = "if the noise were 8.8% too small, this test would have found it 95 times in 100"
    assert words in str(report)
    assert "asked for" not in str(report)
    assert report.to_dict()["smallest_fault"] == pytest.approx(0.088, abs=0.001)
    asked = audit(laplace(1.0), [(0.0, 1.0)], 1.0, fault=0.03)
    assert asked.trials > 200_000
    assert asked.smallest_fault is not None
    assert asked.smallest_fault <= 0.0305
    with pytest.raises(PrivacyError, match="fault must be"):
        audit(laplace(1.0), [(0.0, 1.0)], 1.0, fault=0.0)
    with pytest.raises(PrivacyError, match="fault must be"):
        audit(laplace(1.0), [(0.0, 1.0)], 1.0, fault=1.0)


def test_an_exact_loss_decides_where_it_is_known() -> None:
    fine = audit(laplace(1.0), [(0.0, 1.0)], 1.0, trials=1000, exact=1.0)
    assert not fine.refuted
    assert "epsilon is 1 exactly; by sampling" in str(fine)
    weak = audit(laplace(1.0, 0.001), [(0.0, 1.0)], 1.0, trials=1000, exact=1 / 0.999)
    assert weak.refuted
    assert weak.lower_bound < 1


def test_two_events_count_every_run_twice() -> None:
    """On symmetric noise the learnt test is a pair, and worth about twice the runs."""
    rng = np.random.default_rng(1)
    first, second = (s + rng.laplace(size=(40_000, 1)) for s in (1.0, 0.0))
    test = learn(first[:20_000], second[:20_000], EpsilonBound(0.0, SURE))
    assert test.pooled
    counts = test.counts(first[20_000:], second[20_000:])
    assert counts.trials == counts.others == 40_000
    assert test.favour_first is not None
    alone = test.favour_first.counts(first[20_000:], second[20_000:])
    bound = EpsilonBound(0.0, SURE)
    assert counts.certify(bound, True) > alone.certify(bound, False)


def test_pooled_bounds_hold_for_unequal_probabilities() -> None:
    """Exact coverage of Clopper and Pearson's ends for a sum of two binomials (Hoeffding 1956)."""
    error = 1e-3
    for p1, p2 in ((0.5, 0.1), (0.9, 0.02), (0.001, 0.0), (1.0, 0.3), (0.02, 0.0)):
        n = 60
        both = np.convolve(
            stats.binom.pmf(range(n + 1), n, p1), stats.binom.pmf(range(n + 1), n, p2)
        )
        mean, wrong = (p1 + p2) / 2, np.zeros(2)
        for k, chance in enumerate(both):
            low = lower(0 if k == 1 else k, 2 * n, error)
            high = upper(2 * n if k == 2 * n - 1 else k, 2 * n, error)
            wrong += chance * np.array([low > mean, high < mean])
        assert (wrong <= error).all()
    assert Counts(1, 10, 9, 10).certify(EpsilonBound(0.0, 0.95), True) == -math.inf


def test_a_given_score_is_tried_too() -> None:
    """A leak that no linear score sees: the sign of the product of four outputs."""

    def hidden(s: Any, trials: Any, rng: Any) -> Any:
        outputs = rng.normal(size=(trials, 4))
        sign = np.where(rng.random(trials) < (0.9 if s else 0.1), 1.0, -1.0)
        outputs[:, 3] = np.abs(outputs[:, 3]) * sign * np.sign(outputs[:, :3].prod(axis=1))
        return outputs

    pairs = [(0.0, 1.0)]
    assert not audit(hidden, pairs, 1.0, trials=20_000).refuted
    report = audit(hidden, pairs, 1.0, trials=20_000, scores=[lambda y: np.sign(y.prod(axis=1))])
    assert report.refuted
    assert "likelihood ratio" in report.event
