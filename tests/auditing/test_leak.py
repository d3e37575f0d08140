"""The attack reads inputs off floating-point noise, and nothing off exact noise.

Verdicts hold at confidence 1 - 1e-7: on fresh noise, an exact mechanism would be refuted with a
probability below that.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum.auditing import (
    SupportReport,
    float_sum_support,
    grid_support,
    inversion_support,
    numpy_support,
    support_attack,
)
from veilsum.errors import PrivacyError
from veilsum.privacy.mechanisms import LaplaceMechanism
from veilsum.simulation import noise as engine_noise
from veilsum.testing import PredictableEntropy

CONFIDENCE = 1 - 1e-7
TRIALS = 5000
SCALES = [1 / 3, 1.0, 2.0, 10.0]


def of_numpy(scale: Any) -> Any:
    rng = np.random.default_rng(21)
    return lambda x: rng.laplace(x, scale)


def of_engine(scale: Any) -> Any:
    agents = np.arange(TRIALS)
    rounds = iter(range(10))
    return lambda x: x + scale * engine_noise.laplace(7, next(rounds), agents, 0)


def engine_magnitude(k: Any, _: Any) -> Any:
    """-log((k + 1/2)/2^53) by the engine's own logarithm."""
    bits = (k.astype(np.float64) + 0.5).view(np.uint64) + engine_noise._SHIFT
    exponent = (bits >> np.uint64(52)).astype(np.float64) - (1023.0 + 53.0)
    mantissa = ((bits & engine_noise._MANTISSA) + engine_noise._ROOT_HALF).view(np.float64)
    return -(exponent * engine_noise._LN2 + engine_noise._log_mantissa.py_func(mantissa))


def of_exact(scale: Any) -> Any:
    entropy = PredictableEntropy(22, simulation_only=True)
    mechanism = LaplaceMechanism(1 / scale, 1.0)
    return lambda x: mechanism.release(x, entropy=entropy)


@pytest.mark.parametrize("scale", SCALES)
def test_numpy_noise_names_its_input_most_of_the_time(scale: Any) -> None:
    report = support_attack(of_numpy(scale), 0.0, 1.0, TRIALS, numpy_support(scale))
    assert (
        report.mistaken == 0
    )  # the support is complete: no output of x is held impossible under x
    assert report.identified > 0.75
    assert report.refutes(max(1 / scale, 4.0), CONFIDENCE)


@pytest.mark.parametrize("scale", SCALES)
def test_the_simulated_noise_is_no_better(scale: Any) -> None:
    support = inversion_support(engine_magnitude, 53, scale)
    report = support_attack(of_engine(scale), 0.0, 1.0, TRIALS, support)
    assert report.mistaken == 0
    assert report.identified > 0.6
    assert report.refutes(max(1 / scale, 4.0), CONFIDENCE)


@pytest.mark.parametrize("make", [of_numpy, of_engine])
def test_floating_point_noise_leaks_to_one_who_does_not_know_the_sampler(make: Any) -> None:
    report = support_attack(make(1.0), 0.0, 1.0, TRIALS, float_sum_support)
    assert report.mistaken == 0
    assert report.identified > 0.15
    assert report.refutes(4.0, CONFIDENCE)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("pair", [(0.0, 1.0), (0.1, -0.9), (1e3, 1e3 + 1)])
def test_exact_noise_survives_every_attack(scale: Any, pair: Any) -> None:
    epsilon = 1 / scale
    granularity = LaplaceMechanism(epsilon, 1.0).granularity
    engine = inversion_support(engine_magnitude, 53, scale)
    known = grid_support(granularity)
    for possible in (numpy_support(scale), engine, float_sum_support, known):
        report = support_attack(of_exact(scale), pair[0], pair[1], TRIALS, possible)
        assert not report.refutes(epsilon, CONFIDENCE)
        # Hoeffding: the mean of 2 trials' worth of outputs errs by more than this with 1e-8.
        assert report.advantage < math.tanh(epsilon / 2) + math.sqrt(math.log(1e8) / TRIALS)
    assert (report.identified, report.mistaken) == (0, 0)  # the last one knows the true support


def test_a_weakened_twin_that_forgets_to_round_its_input_is_caught() -> None:
    mechanism = LaplaceMechanism(1.0, 1.0)
    exact = of_exact(1.0)

    def on_the_shifted_grid(outputs: Any, x: Any) -> Any:
        return (outputs - x) % mechanism.granularity == 0

    weakened = support_attack(
        lambda x: x + exact(np.zeros_like(x)), 0.0, 2.0**-42, TRIALS, on_the_shifted_grid
    )
    assert weakened.identified > 0.99
    assert weakened.refutes(1.0, CONFIDENCE)
    ours = support_attack(exact, 0.0, 2.0**-42, TRIALS, on_the_shifted_grid)
    assert not ours.refutes(1.0, CONFIDENCE)


def test_the_model_of_numpy_has_each_of_its_logarithms() -> None:
    """w = 2 - U - U leaves the remainders 0, 1, 4, 7 modulo 8 in units of 2^-53, and all occur."""
    j = np.random.default_rng(23).integers(2**52, 2**53, 4000)
    U = np.ldexp(j.astype(float), -53)
    k = np.ldexp(2.0 - U - U, 53).astype(np.int64)
    assert set(np.unique(k % 8)) == {0, 1, 4, 7}


def test_too_many_candidates_count_as_possible() -> None:
    """Next to |x| = 10^6 scales each output has thousands of logarithms: no claim is made."""
    report = support_attack(of_numpy(1.0), 1e6, 1e6 + 1, 200, numpy_support(1.0))
    assert report.mistaken == 0
    assert report.identified < 0.05


def test_reports_bound_epsilon_from_below() -> None:
    fair = SupportReport(1000, (300, 300), (300, 300))
    assert fair.advantage == 0
    assert fair.epsilon_at_least() == 0
    assert SupportReport(1000, (0, 0), (0, 0)).epsilon_at_least() == 0
    assert SupportReport(10, (10, 0), (10, 0)).epsilon_at_least() == 0
    least = SupportReport(100, (60, 0), (10, 0)).epsilon_at_least(0.96)  # four bounds of 0.01
    low, high = (stats.binomtest(n, 100).proportion_ci(0.98) for n in (60, 10))
    assert least == pytest.approx(math.log(low.low / high.high))
    leaky = SupportReport(10**6, (500_000, 0), (100_000, 0))
    assert 1.58 < leaky.epsilon_at_least() < math.log(5)
    assert leaky.refutes(1.5)
    assert not leaky.refutes(math.log(5))


def test_attacks_need_two_inputs_and_a_trial() -> None:
    with pytest.raises(PrivacyError, match="must differ"):
        support_attack(of_numpy(1.0), 1.0, 1.0, 10, float_sum_support)
    with pytest.raises(PrivacyError, match="trials"):
        support_attack(of_numpy(1.0), 0.0, 1.0, 0, float_sum_support)
