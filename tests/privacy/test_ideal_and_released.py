"""Ideal noise and released bits are different claims, and a bound belongs to its statistic."""

from typing import Any

import numpy as np
import pytest

from veilsum import algorithms
from veilsum.auditing import numpy_support, support_attack
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    DiscreteLaplaceMechanism,
    LaplaceMechanism,
    Noise,
    SignalDP,
    Status,
    guarantee_of,
    mechanisms,
    sensitivity,
)

BOUND = sensitivity.smooth_log(0.5, 20.0, smoothing=sensitivity.smoothing(1.0, 0.01))
MECHANISMS = [
    mechanisms.LaplaceMechanism(1.0, 1.0),
    mechanisms.StaircaseMechanism(1.0, 1.0),
    mechanisms.DiscreteLaplaceMechanism(1.0, 1),
    mechanisms.DuchiMechanism(1.0),
    mechanisms.PiecewiseMechanism(1.0),
    mechanisms.HybridMechanism(1.0),
    mechanisms.SmoothLaplaceMechanism(1.0, BOUND, 0.01),
    mechanisms.StudentTMechanism(1.0, sensitivity.smooth_log(0.5, 20.0, smoothing=0.1)),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
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


@pytest.mark.parametrize("statistic", [np.exp, np.square, np.negative])
def test_a_bound_of_another_statistic_is_refused(statistic: Any) -> None:
    """SmoothLaplace(np.exp, bound of log) was proved and spends delta = 1."""
    with pytest.raises(PrivacyError, match="does not belong to the statistic"):
        mechanisms.SmoothLaplaceMechanism(1.0, statistic, BOUND, 0.01)


def test_a_bound_that_no_pair_breaks_is_the_callers_word() -> None:
    def logarithm(s: Any) -> Any:
        return np.log(s) + 3.0

    made = mechanisms.SmoothLaplaceMechanism(1.0, logarithm, BOUND, 0.01)
    assert made.ideal_status is Status.CLAIMED
    assert "is given" in made.reason
    assert mechanisms.SmoothLaplaceMechanism(1.0, BOUND, 0.01).ideal_status is Status.PROVED
