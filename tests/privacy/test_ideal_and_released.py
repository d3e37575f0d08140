"""Ideal noise and released bits are different claims, and a bound belongs to its statistic."""

import numpy as np
import pytest

from murmura import laws
from murmura.errors import PrivacyError
from murmura.privacy import (
    ExactDiscreteLaplace,
    ExactLaplace,
    Noise,
    SignalDP,
    Status,
    mechanisms,
    promise,
    sensitivity,
)
from murmura.privacy.exact import numpy_support, support_attack

BOUND = sensitivity.smooth_log(0.5, 20.0, smoothing=sensitivity.smoothing(1.0, 0.01))
FLOATING = [
    mechanisms.Laplace(1.0, 1.0),
    mechanisms.Staircase(1.0, 1.0),
    mechanisms.DiscreteLaplace(1.0, 1),
    mechanisms.Duchi(1.0),
    mechanisms.Piecewise(1.0),
    mechanisms.Hybrid(1.0),
    mechanisms.SmoothLaplace(1.0, np.log, BOUND, 0.01),
    mechanisms.StudentT(1.0, np.log, sensitivity.smooth_log(0.5, 20.0, smoothing=0.1)),
]


@pytest.mark.parametrize("mechanism", FLOATING, ids=lambda m: m.name)
def test_no_floating_point_release_is_called_proved(mechanism):
    """`Laplace.status` was proved, and the attack below shows epsilon > 6 on its `release`."""
    assert mechanism.ideal_status is Status.PROVED
    assert mechanism.status is Status.NONE
    assert isinstance(mechanism, mechanisms.Mechanism)


def test_the_attack_breaks_what_is_not_proved_and_not_what_is():
    rng, made = np.random.default_rng(7), mechanisms.Laplace(1.0, 1.0)
    broken = support_attack(
        lambda x: made.release(x, rng), 0.0, 1.0, 20_000, numpy_support(made.scale)
    )
    assert broken.epsilon_at_least() > 6
    exact = ExactLaplace(1.0, 1.0)
    kept = support_attack(exact.release, 0.0, 1.0, 20_000, numpy_support(1.0))
    assert not kept.refutes(1.0)
    assert exact.status is ExactDiscreteLaplace(1.0).status is Status.PROVED


def test_a_simulation_speaks_of_ideal_noise():
    made = promise(SignalDP(1.0), laws.Average())
    assert made.noise is Noise.IDEAL
    assert str(made).startswith("Proved for ideal noise: ")
    exact = made.released_exactly()
    assert exact.noise is Noise.EXACT
    assert str(exact).startswith("Proved: ")


@pytest.mark.parametrize("statistic", [np.exp, np.square, np.negative])
def test_a_bound_of_another_statistic_is_refused(statistic):
    """SmoothLaplace(np.exp, bound of log) was proved and spends delta = 1."""
    with pytest.raises(PrivacyError, match="does not belong to the statistic"):
        mechanisms.SmoothLaplace(1.0, statistic, BOUND, 0.01)


def test_a_bound_that_no_pair_breaks_is_the_callers_word():
    def logarithm(s):
        return np.log(s) + 3.0

    made = mechanisms.SmoothLaplace(1.0, logarithm, BOUND, 0.01)
    assert made.ideal_status is Status.CLAIMED
    assert "is given" in made.reason
    assert mechanisms.SmoothLaplace(1.0, np.log, BOUND, 0.01).ideal_status is Status.PROVED
