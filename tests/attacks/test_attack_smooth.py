"""Smooth sensitivity: the delta that is really spent at the guaranteed epsilon, pair by pair."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate

from tests.attacks.attack_count import TRIED
from tests.attacks.exact_delta import laplace_delta
from tests.attacks.real_scales import REPLICAS, Fixed, real_scales
from veilsum import algorithms, networks
from veilsum.families import LogNormal
from veilsum.privacy import NetworkDP, SignalDP, guarantee_of
from veilsum.simulation import Problem

ROUNDS, EPSILONS = 3, (0.2, 1.0, 3.0)
ALGORITHMS = ("average", "learn", "learn-network", "naive-network", "jacobi", "first-order-online")


def test_the_closed_form_is_the_integral() -> None:
    for x, b, x2, b2, epsilon in (
        (0.0, 1.0, 0.7, 1.0, 0.3), (0.0, 1.0, 0.7, 1.3, 0.5), (0.2, 2.0, -1.0, 0.4, 1.0),
        (0.0, 0.5, 0.1, 1.5, 0.2),
    ):  # fmt: skip

        def over(
            y: Any, x: Any = x, b: Any = b, x2: Any = x2, b2: Any = b2, epsilon: Any = epsilon
        ) -> Any:
            p, q = np.exp(-abs(y - x) / b) / (2 * b), np.exp(-abs(y - x2) / b2) / (2 * b2)
            return max(0.0, p - np.exp(epsilon) * q)

        grid = np.linspace(-80, 80, 161)
        parts = [integrate.quad(over, lo, hi, limit=400)[0] for lo, hi in pairwise(grid)]
        assert laplace_delta(x, b, x2, b2, epsilon) == pytest.approx(sum(parts), abs=1e-7)


def pairs_of(low: Any, high: Any, radius: Any) -> Any:
    """Pairs a radius apart, or less, all over the domain and ever nearer to its edges."""
    top = high if high is not None else low + 40 * radius
    near = np.concatenate([[0.0], 10.0 ** np.linspace(-6, 0, 9) * (top - low)])
    starts = np.concatenate([low + near, np.linspace(low, top, 15)])
    pairs = [(s, s + part * radius) for s in starts for part in (1.0, 0.6, 0.1)]
    pairs += [(max(top - radius, low), top)]
    return np.array([p for p in pairs if low <= p[0] < p[1] <= top])


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
@pytest.mark.parametrize("bounds", [(0.5, 8.0), (0.1, None), (2.0, 3.0)])
def test_no_pair_spends_more_delta_than_is_guaranteed(bounds: Any, request_of: Any) -> None:
    family, tried, largest = LogNormal(0.8, bounds=bounds), 0, 0.0
    for radius, delta in ((1.0, 0.01), (0.2, 1e-5), (3.0, 0.2)):
        pairs = pairs_of(bounds[0], bounds[1], radius)
        net = networks.lazy_metropolis(networks.load(f"ring:{pairs.size}"))
        privacy = request_of(1.0, delta=delta, radius=radius, sensitivity="smooth")
        for name in ALGORITHMS:
            algorithm = algorithms.get(name, net)
            made = guarantee_of(privacy, algorithm, ROUNDS, family)
            alone = made.signals or made
            if alone.status != "proved":
                continue
            todo = Problem(
                net, algorithm, family, Fixed(pairs.ravel()), privacy, ROUNDS, EPSILONS, REPLICAS
            )
            for t in [t for t in range(ROUNDS + 1) if algorithm.at(t).innovation]:
                scale = real_scales(todo)[:, t, :, 0] / abs(algorithm.at(t).innovation)
                for epsilon, b in zip(EPSILONS, scale, strict=True):
                    spent = worst_delta(pairs, b.reshape(-1, 2), epsilon * alone.epsilon)
                    assert spent <= alone.delta * (1 + 1e-9), (name, radius, epsilon)
                    tried, largest = tried + 2 * len(pairs), max(largest, spent / alone.delta)
    assert tried > 100
    assert largest > 0.1  # the attack is a real one
    TRIED[f"smooth, {request_of.__name__}, bounds {bounds}"] += tried
    print(f"{tried:,} attacks; the worst spends {largest:.3f} of delta")


def worst_delta(pairs: Any, scales: Any, epsilon: Any) -> Any:
    """The largest over pairs and both orders."""
    return max(
        laplace_delta(xi[i], b[i], xi[1 - i], b[1 - i], epsilon)
        for xi, b in zip(np.log(pairs), scales, strict=True)
        for i in (0, 1)
    )


def test_the_published_smooth_sensitivity_spends_far_more() -> None:
    """The weakened twin: erratum 2, which `guarantee_of` does not call proved."""
    pairs = np.array([[1.1, 0.1], [2.0, 1.0], [1.001, 0.001]])
    family = LogNormal(0.8)
    net = networks.lazy_metropolis(networks.load("ring:6"))
    privacy = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published", radius=1.0)
    assert guarantee_of(privacy, algorithms.Average(), ROUNDS, family).status == "refuted"
    source = Fixed(pairs.ravel())
    todo = Problem(net, algorithms.Average(), family, source, privacy, ROUNDS, (), REPLICAS)
    scale = real_scales(todo)[0, 0, :, 0].reshape(-1, 2)
    assert worst_delta(pairs[:1], scale[:1], 1.0) == pytest.approx(0.648, abs=0.002)
    assert worst_delta(pairs[2:], scale[2:], 1.0) > 0.97
