"""The scale of the noise is the paper's, and a weakened twin is caught."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.errors import PrivacyError
from veilsum.families import LogNormal, LogNormal1p, Normal, NormalBoth
from veilsum.privacy import (
    NetworkDP,
    NoPrivacy,
    SignalDP,
    guarantee_of,
    mechanisms,
    plan,
    sensitivity,
)
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate

MIXING = networks.metropolis(networks.load("florentine-families"))
SIGNALS = np.random.default_rng(3).lognormal(size=(MIXING.size, 2))


def scale(
    privacy: Any, algorithm: Any = "average", family: Any = None, t: Any = 0, rounds: Any = 10
) -> Any:
    made = algorithms.get(algorithm, MIXING)
    family = family or LogNormal1p(sigma=1.0)
    found = plan(privacy, family, made, MIXING, rounds)
    signals = SIGNALS if family.bounds is None else family.support.clip(SIGNALS)
    return found.scale(signals, privacy.epsilon, t)


def test_global_signal_noise_is_delta_over_epsilon() -> None:
    assert scale(SignalDP(0.5, radius=1.0)) == pytest.approx(np.full((15, 1), math.log(2) / 0.5))
    assert scale(SignalDP(0.5, radius=3.0)) == pytest.approx(np.full((15, 1), math.log(4) / 0.5))


def test_published_smooth_noise_is_2_s_over_epsilon() -> None:
    """S = 1/(e gamma s) with gamma = eps/(2 ln(2/delta)), noise Lap(2 S/eps)."""
    privacy = SignalDP(0.5, delta=0.01, sensitivity="smooth-as-published", radius=1.0)
    gamma = 0.5 / (2 * math.log(200))
    expected = 2 / (math.e * gamma * SIGNALS) / 0.5
    assert scale(privacy, family=LogNormal(sigma=1.0)) == pytest.approx(expected)


def test_smooth_noise_is_that_of_the_mechanism() -> None:
    """Lap(m S*/eps) with the least m: what `SmoothLaplaceMechanism` adds, signal by signal."""
    bounds, privacy = (0.3, 40.0), SignalDP(0.5, delta=0.01, sensitivity="smooth", radius=1.0)
    found = scale(privacy, family=LogNormal(sigma=1.0, bounds=bounds))
    bound = sensitivity.smooth_log(*bounds, smoothing=sensitivity.smoothing(0.5, 0.01))
    mechanism = mechanisms.SmoothLaplaceMechanism(0.5, bound, 0.01)
    inside = np.clip(SIGNALS, *bounds)
    assert found == pytest.approx(np.sqrt(mechanism.variance(inside) / 2))
    assert found.max() <= math.log(1 + 1 / 0.3) / 0.5 * 1.1
    with pytest.raises(PrivacyError, match="infinite without a floor"):
        scale(privacy, family=LogNormal(sigma=1.0))


def test_every_epsilon_of_a_sweep_has_its_own_smooth_noise() -> None:
    family = LogNormal(sigma=1.0, bounds=(0.5, None))
    source = SyntheticSignals(family, {"mu": 1.0}, MIXING.size, seed=1)
    privacy = SignalDP(1.0, delta=0.01, sensitivity="smooth")
    algorithm = algorithms.get("learn", MIXING)
    swept = simulate(
        Problem(MIXING, algorithm, family, source, privacy, 5, (0.5, 1.0, 2.0), 3, seed=2)
    )
    for k, epsilon in enumerate((0.5, 1.0, 2.0)):
        alone = simulate(
            Problem(MIXING, algorithm, family, source, privacy.at(epsilon), 5, (), 3, seed=2)
        )
        assert np.array_equal(swept.total[:, k], alone.total[:, 0])


def test_an_infinite_radius_means_any_two_values_of_a_bounded_domain() -> None:
    privacy = SignalDP(2.0, radius=math.inf)
    assert scale(privacy, family=Normal(sigma=1.0, bounds=(-1.0, 4.0)))[0, 0] == 2.5
    assert "between any two values of its domain" in str(
        guarantee_of(privacy, algorithms.Average())
    )
    with pytest.raises(PrivacyError, match="infinite global sensitivity"):
        scale(privacy, family=Normal(sigma=1.0))
    with pytest.raises(PrivacyError, match="goes with sensitivity global"):
        SignalDP(1.0, 0.01, math.inf, "smooth")


def test_agents_may_have_budgets_of_their_own() -> None:
    fractions = tuple(np.linspace(0.5, 2.0, 15))
    made = scale(SignalDP(0.5, budget_fractions=fractions, radius=1.0))
    assert made[:, 0] == pytest.approx(math.log(2) / (0.5 * np.array(fractions)))
    hidden = scale(NetworkDP(0.5, radius=1e-9, budget_fractions=fractions))[:, 0]
    assert hidden == pytest.approx(MIXING.largest_neighbour_weight / (0.5 * np.array(fractions)))
    assert (
        guarantee_of(
            SignalDP(0.5, budget_fractions=fractions, radius=1.0), algorithms.Average()
        ).epsilon
        == 1.0
    )
    with pytest.raises(
        PrivacyError, match="budget_fractions has 3 entries and the network 15 agents"
    ):
        scale(SignalDP(1.0, budget_fractions=(1.0, 2.0, 3.0), radius=1.0))
    with pytest.raises(PrivacyError, match="do not go together"):
        SignalDP(1.0, 0.01, sensitivity="smooth", budget_fractions=(1.0,), radius=1.0)
    with pytest.raises(PrivacyError, match="budget_fractions must be"):
        SignalDP(1.0, budget_fractions=(1.0, -2.0), radius=1.0)


def test_network_noise_covers_the_largest_neighbour_weight() -> None:
    a = np.array([MIXING.weights[[i]].toarray() for i in range(15)]).reshape(15, 15)
    np.fill_diagonal(a, 0)
    privacy = NetworkDP(2.0, radius=0.1)
    expected = np.maximum(a.max(axis=1), math.log(1.1)) / 2
    assert scale(privacy)[:, 0] == pytest.approx(expected)
    assert scale(privacy, "learn-network", t=7)[:, 0] == pytest.approx(expected)
    grown = np.maximum(6 * a.max(axis=1), math.log(1.1)) / 2
    assert scale(privacy, "learn", t=7)[:, 0] == pytest.approx(grown)


def test_the_first_order_method_splits_its_budget_over_the_rounds() -> None:
    """Lap(eta T Delta / eps) and Lap(T max(max_j a_ij, eta Delta) / eps) (App. B)."""
    signal = scale(SignalDP(1.0, radius=1.0), "first-order", t=3, rounds=40)
    assert signal == pytest.approx(np.full((15, 1), 0.001 * 40 * math.log(2)))
    network_wide = scale(NetworkDP(1.0, radius=1.0), "first-order", t=3, rounds=40)[:, 0]
    assert network_wide == pytest.approx(40 * MIXING.largest_neighbour_weight)


def released(fraction: Any, privacy: Any, family: Any, t: Any = 0) -> Any:
    """What the simulator adds to the statistics, if it drew `fraction` of the noise it should."""
    algorithm = algorithms.get("average", MIXING)
    source = SyntheticSignals(family, {"mu": 1.0}, MIXING.size, seed=1)
    shrunk = privacy.at(privacy.epsilon / fraction)
    trace: Any = simulate(
        Problem(MIXING, algorithm, family, source, shrunk, rounds=1, replicas=4000),
        Record(every=1),
    )
    return (trace.private[t][:, 0, :, 0] - trace.noiseless[t][..., 0]).ravel()


def test_the_simulator_adds_the_calibrated_noise_and_a_weakened_twin_with_less_is_caught() -> None:
    """Two-sided: E|d| = b. 60,000 draws, z = 6 (false alarm 2e-9); 0.9 of the noise is far out."""
    family, privacy = Normal(sigma=1.0), SignalDP(0.5, radius=2.0)
    b, error = 2.0 / 0.5, 6 / math.sqrt(60_000)
    assert np.abs(released(1.0, privacy, family)).mean() == pytest.approx(b, rel=error)
    for wrong in (0.9, 1.1):
        assert abs(np.abs(released(wrong, privacy, family)).mean() / b - 1) > 2 * error


def test_what_cannot_be_guaranteed_is_refused() -> None:
    with pytest.raises(PrivacyError, match="infinite global sensitivity"):
        scale(SignalDP(1.0, radius=1.0), family=NormalBoth())
    with pytest.raises(PrivacyError, match="is known where the statistic is log s"):
        scale(
            SignalDP(1.0, delta=0.1, sensitivity="smooth-as-published", radius=1.0),
            family=Normal(sigma=1.0),
        )
    none = plan(NoPrivacy(), None, algorithms.Average(), MIXING, 1)
    assert not none.scale(SIGNALS, 1.0, 0).any()
    assert none.mechanism(1.0, 0).release([0.5]).tolist() == [0.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0; found 0.0"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1.0, "radius": -1.0}, "radius must be"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta must be a probability in \[0, 1\)"),
        (
            {"epsilon": 1.0, "sensitivity": "local"},
            "one of global, smooth, smooth-as-published; found 'local'",
        ),
        ({"epsilon": 1.0, "sensitivity": "smooth-as-published"}, "needs a delta above 0"),
        ({"epsilon": 1.0, "delta": 0.1}, "buys nothing"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(options: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        SignalDP(**options)


def test_a_user_defined_network_needs_only_the_protocol() -> None:
    plain = SimpleNamespace(largest_neighbour_weight=np.ones(3), size=3)
    found = plan(NetworkDP(1.0, radius=1.0), Normal(sigma=1.0), algorithms.Average(), plain, 5)
    assert found.scale(np.ones((3, 1)), 1.0, 0) == pytest.approx(np.ones((3, 1)))
