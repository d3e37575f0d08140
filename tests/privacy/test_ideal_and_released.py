"""Ideal noise and released bits are different claims, and a bound belongs to its statistic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms
from veilsum.auditing import numpy_support, support_attack
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    MECHANISMS,
    LaplaceMechanism,
    Noise,
    SignalDP,
    Statistic,
    Status,
    guarantee_of,
    mechanisms,
    sensitivity,
)
from veilsum.privacy.mechanisms import DiscreteLaplaceMechanism

BOUND = sensitivity.smooth_log(0.5, 20.0, smoothing=sensitivity.smoothing(1.0, 0.01))
EXAMPLES = [made for kind in MECHANISMS.values() for made in kind.examples()]


def test_every_mechanism_that_can_be_asked_for_has_an_example() -> None:
    """And the smooth ones, which sensitivities ask for; noise of a sum never leaves by itself."""
    shown = {made.name for made in EXAMPLES}
    assert shown >= {name for name, kind in MECHANISMS.items() if kind.requested}
    assert shown >= {"smooth-laplace", "student-t", "laplace", "duchi", "piecewise", "hybrid"}
    assert set(MECHANISMS.names()) - shown == {"masked", "none", "secure-sum"}


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda m: m.name)
def test_the_status_is_that_of_exact_releases(mechanism: Any) -> None:
    """`status` is about `release`; `sample`, in floating point, makes no claim (see below)."""
    exact = mechanism.name != "student-t"
    assert mechanism.ideal_status is Status.PROVED
    assert mechanism.status is (Status.PROVED if exact else Status.NONE)
    if not exact:
        with pytest.raises(PrivacyError, match="no exact sampler"):
            mechanism.release([1.0])
    assert isinstance(mechanism, mechanisms.Mechanism)


@pytest.mark.thorough
def test_the_attack_breaks_what_is_not_proved_and_not_what_is() -> None:
    rng, made = np.random.default_rng(7), mechanisms.LaplaceMechanism(1.0, 1.0)
    broken = support_attack(
        lambda x: made.sample(x, rng), 0.0, 1.0, 20_000, numpy_support(made.scale)
    )
    assert broken.epsilon_at_least() > 6
    exact = LaplaceMechanism(1.0, 1.0)
    kept = support_attack(exact.release, 0.0, 1.0, 20_000, numpy_support(1.0))
    assert not kept.refutes(1.0)
    assert exact.status is DiscreteLaplaceMechanism(1.0).status is Status.PROVED


def test_a_simulation_speaks_of_ideal_noise() -> None:
    made = guarantee_of(SignalDP(1.0), algorithms.Average())
    assert made.noise is Noise.IDEAL
    assert str(made).startswith("Proved for ideal noise: ")
    exact = made.released_exactly()
    assert exact.noise is Noise.EXACT
    assert str(exact).startswith("Proved: ")


KINDS: Any = [
    lambda statistic: mechanisms.SmoothLaplaceMechanism(1.0, statistic, 0.01),
    lambda statistic: mechanisms.StudentTMechanism(1.0, statistic),
]


def changed(**rule: Any) -> Statistic:
    """The bound of log s with other numbers or functions in its rule."""
    assert BOUND.scale is not None
    return replace(BOUND, scale=replace(BOUND.scale, **rule))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statistic", [np.exp, np.square, np.negative])
def test_a_bound_of_another_statistic_is_refused(kind: Any, statistic: Any) -> None:
    """SmoothLaplace(np.exp, bound of log) was proved and spends delta = 1."""
    with pytest.raises(PrivacyError, match="does not belong to the statistic"):
        kind(changed(statistic=statistic))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_breaks_one_of_the_two_facts_is_refused(kind: Any) -> None:
    """S covers every move, and S is smooth: each alone is not enough, whatever the status says."""
    rule = BOUND.scale
    assert rule is not None
    assert kind(BOUND).ideal_status is Status.PROVED
    low = changed(rule=lambda s: 0.9 * rule.rule(s), least=0.0)  # as smooth, and too small
    rough = changed(smoothing=0.9 * rule.smoothing)  # covers, and is less smooth than stated
    steep = changed(rule=lambda s: 2.0 / s, least=0.0)  # covers, and falls by more than e^gamma
    for broken in (low, rough, steep):
        with pytest.raises(PrivacyError, match="does not belong to the statistic"):
            kind(broken)
    constant = changed(rule=lambda s: np.full(np.shape(s), BOUND.l1))  # more than is needed
    assert kind(constant).ideal_status is Status.PROVED


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_no_pair_breaks_is_its_authors_word(kind: Any) -> None:
    made = kind(Statistic(BOUND.l1, scale=BOUND.scale, reason="so it is said"))
    assert made.ideal_status is Status.CLAIMED
    assert made.reason == "so it is said"


def test_a_mechanism_that_follows_the_signal_needs_a_rule() -> None:
    for kind in KINDS:
        with pytest.raises(PrivacyError, match="state a scale rule"):
            kind(Statistic(1.0))
