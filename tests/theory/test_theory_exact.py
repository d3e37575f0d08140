"""Exact expected errors against Monte Carlo; |z| < 6 per comparison, false alarm below 1e-6."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from tests.theory.theory_cases import GRAPHS, mean_square, run
from veilsum import algorithms, networks, theory
from veilsum.errors import NetworkError, PrivacyError, SignalError, VeilsumError
from veilsum.families import LogNormal, Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.signals import as_signals
from veilsum.simulation import Problem, RecordedSignals, SyntheticSignals
from veilsum.theory import spectrum
from veilsum.theory.moments import noise_variance, statistic_moments

pytestmark = pytest.mark.filterwarnings(
    "ignore::veilsum.errors.PrivacyWarning", "ignore::veilsum.errors.DivergenceWarning"
)

SMALL = 0.15  # a radius below most weights: under Network DP the scales differ between agents


GOSSIP = [n for n, a in algorithms.ALGORITHMS.items() if not a.summed]


def check(measured: Any, exact: Any, z: Any = 6.5) -> None:
    """Squares of Laplace sums have tails; 6.5 standard errors leave less than 1e-6 in all."""
    mean, error = mean_square(measured)
    assert np.all(np.abs(mean - exact**2) <= z * error + 1e-12 * (1 + exact**2))


@pytest.mark.parametrize("privacy", [SignalDP, NetworkDP])
@pytest.mark.parametrize("algorithm", GOSSIP)
def test_every_algorithm_matches_monte_carlo(algorithm: Any, privacy: Any) -> None:
    result = run(algorithm, GRAPHS["erdos-renyi"], privacy(epsilon=1.0, radius=SMALL))
    found = theory.expected(result.problem)
    assert not found.estimated
    check(result.trace.total, found.total)
    check(result.trace.privacy, found.privacy)
    check(result.trace.decentralisation, found.decentralisation)


def test_a_weakened_twin_is_caught() -> None:
    result = run("learn", GRAPHS["torus"], SignalDP(epsilon=1.0))
    found = theory.expected(result.problem)
    with pytest.raises(AssertionError):
        check(result.trace.privacy, 1.1 * found.privacy)


def test_network_protection_gives_scales_that_differ() -> None:
    problem = run(
        "average", GRAPHS["erdos-renyi"], NetworkDP(1.0, radius=SMALL), replicas=1
    ).problem
    assert len(noise_variance(problem).at(0)) == GRAPHS["erdos-renyi"].size
    assert len(noise_variance(replace(problem, privacy=SignalDP(1.0))).at(0)) == 1


def test_scales_per_agent() -> None:
    mixing, rng = GRAPHS["geometric"], np.random.default_rng(4)
    scales = rng.uniform(0.1, 3.0, mixing.size)
    problem = run("average", mixing, SignalDP(1.0), rounds=5, epsilons=(), replicas=1).problem
    found = theory.expected(problem, scales=scales)
    power = np.linalg.matrix_power(mixing.weights.toarray(), 5)
    exact = np.sqrt((power**2 @ (2 * scales**2)).sum())
    assert found.privacy[-1, 0] == pytest.approx(exact, rel=1e-12)
    streamed = replace(problem, algorithm=algorithms.Learn())
    powers = [np.linalg.matrix_power(mixing.weights.toarray(), k) for k in range(5)]
    exact = np.sqrt(sum((p**2 @ (2 * scales**2)).sum() for p in powers)) / 5
    assert theory.expected(streamed, scales=scales).privacy[-1, 0] == pytest.approx(exact)


def test_parts_add_up() -> None:
    for algorithm in ("average", "learn"):
        found = theory.expected(run(algorithm, GRAPHS["path"], SignalDP(1.0), replicas=1).problem)
        np.testing.assert_allclose(
            found.total**2, found.privacy**2 + found.decentralisation[:, None] ** 2
        )
        truth = (found.shared_noise**2 + found.disagreement**2) + found.sampling[:, None] ** 2
        counted = 0 if algorithm == "learn" else found.sampling[:, None] ** 2
        np.testing.assert_allclose(truth, found.total**2 + counted, rtol=1e-9)


def test_no_privacy_has_one_column_of_nothing() -> None:
    found = theory.expected(run("average", GRAPHS["ring"], NoPrivacy(), epsilons=()).problem)
    assert found.privacy.shape == (13, 1)
    assert not found.privacy.any()
    np.testing.assert_array_equal(found.total[:, 0], found.decentralisation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "at_100", "at_300"), [("average", 6.06, 3.37), ("jacobi", 1.07, 0.18)]
)
def test_us_grid(algorithm: Any, at_100: Any, at_300: Any) -> None:
    found = theory.expected(_grid_problem(algorithm, 300))
    assert found.decentralisation[100] == pytest.approx(at_100, rel=0.01)
    assert found.decentralisation[300] == pytest.approx(at_300, rel=0.01)


GRID = networks.metropolis(networks.load("us-power-grid"))


def _grid_problem(algorithm: Any, rounds: Any) -> Any:
    return replace(
        run(algorithm, GRID, NoPrivacy(), rounds=1, epsilons=(), replicas=1).problem, rounds=rounds
    )


def test_bounds_that_clip_nothing_leave_the_moments_exact() -> None:
    """A floor 10 deviations below the mean moves no signal; one at the mean moves half of them."""

    def moments(low: float | None) -> Any:
        family = LogNormal(1.0, bounds=(low, None))
        source = SyntheticSignals(family, {"mu": 10.0}, 50, seed=1)
        mixing = networks.metropolis(networks.load("complete:50"))
        return statistic_moments(
            Problem(mixing, algorithms.Average(), family, source, NoPrivacy(), 5)
        )

    free, unseen, half = (moments(low) for low in (None, 1.0, float(np.exp(10.0))))
    assert unseen.exact
    assert (unseen.mean, unseen.variance) == (free.mean, free.variance) == (10.0, 1.0)
    assert not half.exact
    assert half.variance < 0.5


def test_probes_stand_for_a_large_spectrum() -> None:
    found = theory.expected(_grid_problem("average", 100), exact_up_to=1500)
    assert found.estimated
    assert 0 < found.standard_error[100, 0] < 0.015 * found.total[100, 0]
    assert abs(found.total[100, 0] - 6.0579) < 6.5 * found.standard_error[100, 0]


OFFLINE = ("average", "jacobi", "chebyshev", "first-order")


@pytest.mark.parametrize("algorithm", [*OFFLINE, "learn"])
def test_probes_agree_with_all_eigenvalues(algorithm: str) -> None:
    """In every round, by their own standard error, which is small enough for a plan."""
    mixing = networks.metropolis(networks.grid(20, 20))
    problem = run(algorithm, mixing, SignalDP(1.0), rounds=100, replicas=1).problem
    exact, found = theory.expected(problem), theory.expected(problem, exact_up_to=100)
    error = np.abs(found.total - exact.total)
    assert np.all(error <= 7 * found.standard_error + 1e-9 * exact.total)
    assert np.all(found.standard_error[1:] < 0.02 * exact.total[1:])
    assert found.privacy[-1] == pytest.approx(exact.privacy[-1], rel=0.03)


def test_what_a_few_eigenvalues_leave_is_captured(monkeypatch: Any) -> None:
    """After many rounds signs alone are 50 times as far off."""
    mixing = networks.metropolis(networks.grid(20, 20))
    problem = vs.sweep(
        {"mu": 2.0}, mixing, Normal(sigma=1.0), NoPrivacy(), rounds=100, rng=1
    ).result.problem
    captured = theory.expected(problem, exact_up_to=100).standard_error[-1, 0]
    spectrum._PROBED.clear()
    monkeypatch.setattr(spectrum, "CAPTURED", 0)
    assert theory.expected(problem, exact_up_to=100).standard_error[-1, 0] > 20 * captured


def test_lanczos_is_run_once_for_a_network(monkeypatch: Any) -> None:
    mixing = networks.metropolis(networks.grid(20, 20))
    first = run("average", mixing, SignalDP(1.0), rounds=20, replicas=1).problem
    other = replace(first, algorithm=algorithms.get("jacobi", mixing), epsilons=(0.1, 2.0))
    found = theory.expected(first, exact_up_to=100)
    monkeypatch.setattr(spectrum, "lanczos", None)
    again = theory.expected(first, exact_up_to=100)
    assert np.array_equal(found.total, again.total)
    assert theory.expected(other, exact_up_to=100).total.shape == (21, 2)


def test_what_is_kept_of_a_network_cannot_be_changed() -> None:
    mixing = networks.metropolis("ring:9")
    known, seen = spectrum.dense(mixing), spectrum.probed(mixing, np.ones(9), 4, 2)
    for kept in (known.values, known.squares, *seen):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0.0
    before = known.values.copy()
    known.profile(np.arange(9.0)[:, None])
    assert spectrum.dense(mixing) is known
    assert np.array_equal(known.values, before)


def test_probes_follow_scales_that_differ(monkeypatch: Any) -> None:
    mixing = networks.metropolis(networks.erdos_renyi(300, 0.03, seed=1))
    problem = run("learn-network", mixing, NetworkDP(1.0, radius=SMALL), replicas=1).problem
    exact = theory.expected(problem)
    found = theory.expected(problem, probes=40, exact_up_to=100)
    assert np.all(np.abs(found.total - exact.total)[1:] < 8 * found.standard_error[1:])
    both = run("learn", mixing, NetworkDP(1.0, radius=SMALL), replicas=1).problem
    with_all = theory.expected(both)
    assert theory.expected(both, exact_up_to=100).privacy == pytest.approx(with_all.privacy)
    monkeypatch.setattr(spectrum, "EXACT_UP_TO", 100)
    with pytest.raises(NetworkError, match="but not both"):
        theory.expected(both, exact_up_to=100)


def test_large_networks_have_error_bars() -> None:
    side = 200  # 40,000 agents here; a million takes the same path
    mixing = networks.lazy_metropolis(networks.torus(side, side))
    problem = run("average", mixing, SignalDP(1.0), rounds=20, replicas=1).problem
    found = theory.expected(problem, probes=4)
    wave = (1 + np.cos(2 * np.pi * np.arange(side) / side)) / 2
    values = (wave[:, None] + wave[None, :]).ravel() / 2
    exact = np.sqrt((np.sort(values)[:-1] ** 40).sum())
    assert found.decentralisation[20] == pytest.approx(exact, rel=0.05)
    assert found.standard_error[20].max() < 0.05 * found.total[20].max()


@pytest.mark.filterwarnings("ignore::veilsum.errors.LimitWarning")
def test_clipped_signals_and_private_scales_are_drawn() -> None:
    privacy = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published")
    bounded = LogNormal(sigma=1.0, bounds=(1.0, None))
    result = vs.sweep(
        {"mu": 1.0}, GRAPHS["torus"], bounded, privacy, "learn", 10, replicas=3000, rng=3
    ).result
    found = theory.expected(result.problem)
    assert found.estimated
    mean, error = mean_square(result.trace.total[-1])
    assert np.all(np.abs(np.sqrt(mean) / found.total[-1] - 1) < 6.5 * error / mean + 0.02)


def test_measured_signals_are_not_read() -> None:
    mixing = GRAPHS["ring"]
    problem = run("average", mixing, SignalDP(1.0, radius=1.0), replicas=1).problem
    values = np.random.default_rng(1).lognormal(size=(9, 12))
    measured = replace(problem, source=RecordedSignals(as_signals(values, labels=mixing.labels)))
    with pytest.raises(SignalError, match="deviation"):
        theory.expected(measured)
    stated = theory.expected(measured, deviation=1.0)
    np.testing.assert_allclose(stated.total, theory.expected(problem).total)
    private = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published", radius=1.0)
    with pytest.raises(PrivacyError, match="private"):
        theory.expected(
            replace(measured, privacy=private, family=LogNormal(sigma=1.0)), deviation=1.0
        )


def test_what_is_refused() -> None:
    problem = run("average", GRAPHS["ring"], SignalDP(1.0), replicas=1).problem
    with pytest.raises(VeilsumError, match="shape"):
        theory.expected(problem, scales=[1.0])
    with pytest.raises(VeilsumError, match="finite"):
        theory.expected(problem, scales=-np.ones(9))
    failing = networks.link_failures(networks.ring(9), 0.3, seed=1)
    with pytest.raises(NetworkError, match="change with the round"):
        theory.expected(replace(problem, network=failing))
