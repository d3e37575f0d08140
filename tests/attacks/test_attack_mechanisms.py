"""The mechanisms themselves: ratios of densities on fine grids, and samples of the real thing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.worst_moves import attacks, pairs_of_statistics
from veilsum import algorithms, networks
from veilsum.auditing import audit
from veilsum.auditing.suite import released
from veilsum.privacy import SignalDP, guarantee_of, mechanisms, plan, sensitivity

EPSILONS = (0.01, 0.1, 1.0, 3.0, 10.0)


def additive(epsilon: Any) -> Any:
    yield from (mechanisms.LaplaceMechanism(epsilon, s) for s in (0.001, 1.0, 50.0))
    yield from (mechanisms.StaircaseMechanism(epsilon, s) for s in (0.001, 1.0, 50.0))
    yield from (mechanisms.DiscreteLaplaceMechanism(epsilon, s) for s in (1, 3, 20))


def noises_of(made: Any) -> Any:
    """A fine grid over many steps, and points on either side of every kink."""
    if made.name == "discrete-laplace":
        return np.arange(-400.0, 401.0)
    width = made.sensitivity
    kinks = np.arange(-30, 31) * width
    within = [kinks]
    if made.name == "staircase":
        within += [kinks + made.width * width, kinks - made.width * width, kinks + made.width]
    near = np.concatenate([k + e * width for k in within for e in (-1e-9, 1e-9)])
    return np.concatenate([near, np.linspace(-20.1 * width, 20 * width, 20_011)])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_densities_of_additive_noise_differ_by_epsilon_at_most(epsilon: Any) -> None:
    """Over moves of the whole sensitivity and of parts of it, in both directions."""
    for made in additive(epsilon):
        noise, worst = noises_of(made), 0.0
        whole = made.name == "discrete-laplace"
        moves = (
            range(1, int(made.sensitivity) + 1)
            if whole
            else made.sensitivity * np.array([1.0, 0.999, 0.5, 0.1])
        )
        for move in moves:
            for side in (move, -move):
                gap = np.abs(made.log_density(noise) - made.log_density(noise + side))
                worst = max(worst, float(gap.max()))
                TRIED["mechanisms, densities"] += 1
        assert worst <= epsilon * (1 + 1e-9) + 1e-9, (made, worst)
        assert worst > 0.99 * epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_local_mechanisms_keep_epsilon_for_all_pairs(epsilon: Any) -> None:
    grid = np.linspace(-1, 1, 21)
    for made in (
        mechanisms.DuchiMechanism(epsilon), mechanisms.PiecewiseMechanism(epsilon),
        mechanisms.HybridMechanism(epsilon),
    ):  # fmt: skip
        losses = [made.privacy_loss(float(a), float(b)) for a in grid for b in grid]
        assert max(losses) <= epsilon * (1 + 1e-9)
        TRIED["mechanisms, densities"] += len(losses)


def sampled(epsilon: Any) -> Any:
    pairs = ((0.0, 2.0), (0.0, 1.0), (5.0, 7.0))
    for made in (
        mechanisms.LaplaceMechanism(epsilon, 2.0), mechanisms.StaircaseMechanism(epsilon, 2.0),
        mechanisms.DiscreteLaplaceMechanism(epsilon, 2),
    ):  # fmt: skip
        yield made, pairs, 0.0
    for local in (
        mechanisms.DuchiMechanism(epsilon), mechanisms.PiecewiseMechanism(epsilon),
        mechanisms.HybridMechanism(epsilon),
    ):  # fmt: skip
        yield local, ((-1.0, 1.0), (-1.0, 0.0), (0.0, 1.0)), 0.0
    gamma = sensitivity.smoothing(epsilon, 0.01)
    bound = sensitivity.smooth_log(0.5, 20.0, smoothing=gamma)
    edges = ((0.5, 1.5), (1.0, 2.0), (19.0, 20.0))
    yield mechanisms.SmoothLaplaceMechanism(epsilon, bound, 0.01), edges, 0.01
    gentle = sensitivity.smooth_log(0.5, 20.0, smoothing=epsilon / 10)
    yield mechanisms.StudentTMechanism(epsilon, gentle), edges, 0.0


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_samples_of_the_real_mechanisms_do_not_refute_them(epsilon: Any) -> None:
    """A false alarm has a probability of 1e-6 in each of 16 audits, and the seeds are fixed."""
    for made, pairs, delta in sampled(epsilon):
        report = audit(released(made), pairs, epsilon, delta, rng=5, name=made.name)
        assert not report.refuted, str(report)
        assert report.smallest_fault is None if delta else (report.smallest_fault or 1.0) <= 0.101
        TRIED["mechanisms, samples"] += len(pairs)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_samples_refute_mechanisms_for_less_than_they_spend(epsilon: Any) -> None:
    """The weakened twins: nine tenths of the epsilon claimed for the same noise."""
    for made, pairs, delta in sampled(epsilon):
        if delta == 0 and made.name != "student-t":  # whose noise is not tight at these pairs
            assert audit(released(made), pairs, 0.9 * epsilon, rng=5).refuted, made.name


def farthest(pairs: Any, count: int = 20) -> Any:
    """Those that the mechanisms hide least."""
    return pairs[np.argsort(-np.abs(pairs[:, 0] - pairs[:, 1]).sum(axis=-1), kind="stable")[:count]]


def takes_delta(name: str) -> bool:
    return name != "best" and mechanisms.MECHANISMS.get(name).takes_delta


@pytest.mark.parametrize("name", [name for name in mechanisms.names() if takes_delta(name)])
def test_no_pair_of_signals_spends_more_than_its_delta(name: str) -> None:
    """The same for noise with a delta, which pays for the l2 norm of all components together.

    The weakened twin, of which three tenths of the noise are missing, is found.
    """
    tried, tight = 0, 0
    for family, radius, _ in attacks():
        for epsilon in (0.3, 2.0):
            privacy = SignalDP(epsilon, 0.01, radius=radius, mechanism=name)
            made = guarantee_of(privacy, algorithms.Average(), 4, family)
            if made.status != "proved" or family.signal_shape:
                continue
            assert (made.epsilon, made.delta) == (epsilon, 0.01)
            mechanism = plan(privacy, family, algorithms.Average(), rounds=4).mechanism()
            pairs = pairs_of_statistics(family, radius)
            apart = np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=-1)
            move = float(apart.max())
            assert mechanism.spent_delta(0.0, move) <= 0.01, (family, radius, epsilon)
            tight += mechanism.weakened(0.3).spent_delta(0.0, move) > 0.01
            tried += len(pairs)
    assert tried > 50
    assert tight > 2
    TRIED[f"signals, mechanism {name}"] += tried


@pytest.mark.parametrize(
    "name", [name for name in mechanisms.names() if name != "laplace" and not takes_delta(name)]
)
def test_no_pair_of_signals_costs_more_than_a_request_guarantees(name: str) -> None:
    """Every family, bounds and radius that the mechanism takes, over the pairs farthest apart.

    The weakened twin, of which half a percent of epsilon is missing, is found.
    """
    ring, tried, tight = networks.metropolis("ring:5"), 0, 0
    for family, radius, _ in attacks():
        for epsilon in (0.3, 2.0):
            privacy = SignalDP(epsilon, radius=radius, mechanism=name)
            made = guarantee_of(privacy, algorithms.Average(), 4, family)
            if made.status != "proved" or family.signal_shape:
                continue
            noise = plan(privacy, family, algorithms.Average(), ring, 4)
            mechanism = noise.mechanism(epsilon, 0)
            pairs = farthest(pairs_of_statistics(family, radius))
            losses = [mechanism.loss_between(*pair) for pair in pairs]
            assert max(losses) <= made.epsilon * (1 + 1e-9), (family, radius, epsilon)
            weaker: Any = replace(mechanism, epsilon=epsilon / 0.995)
            short = max(weaker.loss_between(*pair) for pair in pairs)
            tight += short > made.epsilon * (1 + 1e-9)
            tried += len(losses)
    assert tried > 50
    assert tight > 2
    TRIED[f"signals, mechanism {name}"] += tried
