"""Numbers that must come out on the US power grid (mu = 10, sigma = 1, T = 100)."""

from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, networks
from veilsum.families import LogNormal, Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

MIXING = networks.metropolis(networks.load("us-power-grid"))

COST_OF_PRIVACY = {  # at epsilon 1 and 0.125
    "online-signal": ("learn", SignalDP, 100, 0.0020, 0.127),
    "online-network": ("learn-network", NetworkDP, 100, 2.45, 19.6),
    "offline-signal": ("average", SignalDP, 99, 0.0079, 0.505),
    "offline-network": ("average", NetworkDP, 99, 2.98, 24.6),
}


def sweep(algorithm: Any, privacy: Any, rounds: Any, epsilons: Any = (1.0, 0.125)) -> Any:
    protection = privacy(epsilon=1.0, delta=0.01, sensitivity="smooth-as-published")
    return vs.sweep(
        {"mu": 10.0}, MIXING, LogNormal(sigma=1.0), protection, algorithm, rounds,
        epsilons=epsilons, replicas=10, rng=1,
    ).result  # fmt: skip


@pytest.mark.parametrize("name", COST_OF_PRIVACY)
def test_cost_of_privacy_within_15_percent(name: Any) -> None:
    algorithm, privacy, rounds, *expected = COST_OF_PRIVACY[name]
    assert sweep(algorithm, privacy, rounds).errors.privacy == pytest.approx(expected, rel=0.15)


def test_the_first_order_method_errs_a_thousand_times_more() -> None:
    result = sweep("first-order", NetworkDP, 99, epsilons=(1.0,))
    assert result.errors.total == pytest.approx(7000, rel=0.15)


def expected_disagreement(algorithm: Any, rounds: Any) -> Any:
    """sqrt(sum of P_t(lambda_i)^2, i > 1): exact for unit-variance statistics, no sampling."""
    spectrum = np.linalg.eigvalsh(MIXING.weights.toarray())[:-1]
    state = algorithms.init(algorithm, np.ones_like(spectrum), np.zeros_like(spectrum))
    for t in range(1, rounds + 1):
        state = algorithms.step(
            algorithm, t, state, spectrum * state.nu, 0 * spectrum, 0 * spectrum
        )
    return np.sqrt((state.nu**2).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "at_100", "at_300"),
    [(algorithms.Average(), 6.06, 3.37), (algorithms.Jacobi(dimension=2), 1.07, 0.18)],
    ids=["metropolis", "jacobi"],
)
def test_expected_cost_of_decentralisation(algorithm: Any, at_100: Any, at_300: Any) -> None:
    assert expected_disagreement(algorithm, 100) == pytest.approx(at_100, rel=0.01)
    assert expected_disagreement(algorithm, 300) == pytest.approx(at_300, rel=0.03)


@pytest.mark.parametrize(
    ("algorithm", "rounds", "expected"),
    [("average", 100, 6.06), ("average", 300, 3.37), ("jacobi", 100, 1.07), ("jacobi", 300, 0.18)],
)
def test_measured_cost_of_decentralisation(algorithm: Any, rounds: Any, expected: Any) -> None:
    result = vs.sweep(
        {"mu": 0.0}, MIXING, Normal(sigma=1.0), NoPrivacy(), algorithm, rounds, replicas=60, rng=2
    ).result
    root_mean_square = np.sqrt((result.trace.decentralisation[-1] ** 2).mean())
    assert root_mean_square == pytest.approx(expected, rel=0.15)
