"""What the paper's noise for log s really spends, and what `guarantee_of` says of it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from veilsum import algorithms, networks
from veilsum.agents import guarantee
from veilsum.families import LogNormal, Pareto
from veilsum.privacy import NetworkDP, SignalDP, Status, guarantee_of, plan
from veilsum.privacy.mechanisms import laplace_delta
from veilsum.privacy.published import worst_pair
from veilsum.privacy.sensitivity import factor_as_published
from veilsum.simulation import Problem, SyntheticSignals

AVERAGE = algorithms.Average()


def status(low: float | None, epsilon: float, request: Any = SignalDP, **more: Any) -> Status:
    more = {"radius": 1.0} | more
    privacy = request(epsilon, 0.01, sensitivity="smooth-as-published", **more)
    return guarantee_of(privacy, AVERAGE, 100, LogNormal(1.0, bounds=(low, None))).status


@pytest.mark.parametrize(
    ("low", "epsilon", "found"),
    [
        (None, 1.0, "refuted"),
        (1.0, 1.0, "refuted"),
        (2.5, 1.0, "refuted"),
        (3.0, 1.0, "proved"),
        (100.0, 1.0, "proved"),
        (100.0, 0.125, "proved"),
        (100.0, 10.0, "refuted"),
        (1e6, 10.0, "refuted"),
    ],
)
def test_the_status_follows_the_public_floor_and_epsilon(
    low: Any, epsilon: Any, found: Any
) -> None:
    assert status(low, epsilon) == found


def test_the_sentence_has_the_delta_that_is_spent() -> None:
    def said(epsilon: float, low: float | None) -> str:
        privacy = SignalDP(epsilon, 0.01, radius=1.0, sensitivity="smooth-as-published")
        return str(guarantee_of(privacy, AVERAGE, 100, LogNormal(1.0, bounds=(low, None))))

    assert "for s >= 100 the noise as published spends delta = 2.7e-41 (between 100" in said(1, 100)
    assert "delta = 0.763 (between 100 and 101), where 0.01 is claimed" in said(10, 100)
    assert "without a public floor" in said(1, None)


def test_the_unit_is_the_radius_and_every_log_statistic_is_read() -> None:
    """A floor of 10 at radius 10 is a floor of 1 at radius 1; a Pareto's floor is its minimum."""
    assert status(10.0, 1.0, radius=10.0) == "refuted"
    assert status(10.0, 1.0, radius=1.0) == "proved"
    privacy = SignalDP(1.0, 0.01, radius=1.0, sensitivity="smooth-as-published")
    statuses = [guarantee_of(privacy, AVERAGE, 9, Pareto(m)).status for m in (1.0, 3.0)]
    assert statuses == ["refuted", "proved"]


def test_a_larger_budget_of_one_agent_is_what_counts() -> None:
    """A quarter of epsilon 20 comes with a quarter of the noise that is published for epsilon 5."""
    assert status(100.0, 5.0) == "proved"
    assert status(100.0, 20.0, budget_fractions=(0.25, 0.25)) == "refuted"


def test_under_network_dp_only_what_covers_every_weight_is_proved() -> None:
    """And only what no weight can mend is refuted: at epsilon 10 weights may add most of the noise."""
    learn = algorithms.LearnNetwork()
    for low, epsilon, whole in (
        (None, 1.0, "refuted"),
        (1.0, 1.0, "refuted"),
        (3.0, 1.0, "proved"),
        (100.0, 10.0, "claimed"),
    ):
        privacy = NetworkDP(epsilon, 0.01, radius=1.0, sensitivity="smooth-as-published")
        made = guarantee_of(privacy, learn, 20, LogNormal(1.0, bounds=(low, None)))
        assert (made.status, made.signals and made.signals.status) == (whole, whole)
    assert status(100.0, 1.0, NetworkDP) == "refuted"  # of neighbours' estimates: erratum 5


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0, 8.0, 12.0])
@pytest.mark.parametrize(
    ("low", "high"), [(0.3, math.inf), (4.0, math.inf), (1.0, 1.7), (2.0, 9.0)]
)
def test_no_pair_of_a_dense_search_spends_more(low: float, high: float, epsilon: float) -> None:
    """All pairs at several distances, both orders; and the pair that is named spends what is said."""

    def spent(s: float, other: float) -> float:
        def scale(x: float) -> float:
            return 4 * math.log(200) / (math.e * epsilon**2 * x)

        h = math.log(s / other)
        return max(
            laplace_delta(h, scale(s), scale(other), epsilon),
            laplace_delta(h, scale(other), scale(s), epsilon),
        )

    found = worst_pair(low, epsilon, 0.01, high)
    pairs = [
        (s, s + d)
        for d in (0.02, 0.3, 0.7, 0.9, 1.0)
        for s in np.geomspace(low, min(high, 300.0), 150)
        if s + d <= high
    ]
    assert max(spent(*pair) for pair in pairs) <= found.at_most <= found.with_weights * (1 + 1e-4)
    assert low <= found.other < found.s <= high
    assert found.s - found.other <= 1 + 1e-9
    assert spent(found.s, found.other) == pytest.approx(found.delta, rel=1e-9)
    assert found.delta >= found.at_most * (1 - 2e-4)


@pytest.mark.parametrize("weight", [0.01, 0.1, 0.5])
def test_noise_for_the_weights_stays_within_the_bound(weight: float) -> None:
    epsilon, bound = 3.0, worst_pair(2.0, 3.0, 0.01).with_weights
    c = 4 * math.log(200) / (math.e * epsilon**2)
    for s in np.geomspace(2.0, 500.0, 200):
        one, other = (max(c / x, weight / epsilon) for x in (s, s + 1))
        h = math.log1p(1 / s)
        assert laplace_delta(h, one, other, epsilon) <= bound
        assert laplace_delta(h, other, one, epsilon) <= bound


def test_the_delta_is_that_of_the_integral() -> None:
    """The definition, by quadrature, at the pair that is named."""
    epsilon, found = 1.0, worst_pair(1.0, 1.0, 0.01)
    b = [4 * math.log(200) / (math.e * s) for s in (found.other, found.s)]
    x = [math.log(s) for s in (found.other, found.s)]

    def excess(y: float) -> float:
        f, g = (math.exp(-abs(y - m) / s) / (2 * s) for m, s in zip(x, b, strict=True))
        return max(f - math.exp(epsilon) * g, 0.0)

    cuts = [-300.0, -60.0, -20.0, 0.0, 20.0, 60.0, 300.0]
    whole = sum(quad(excess, u, v, limit=400)[0] for u, v in pairwise(cuts))
    assert found.delta == pytest.approx(whole, abs=1e-7)


@pytest.mark.parametrize(
    ("algorithm", "t", "parts", "fraction"),
    [
        (AVERAGE, 0, 1, 1.0),
        (AVERAGE, 0, 1, 0.25),
        (algorithms.FirstOrderOnline(eta=0.1), 3, 20, 1.0),
    ],
)
def test_it_is_what_the_calibrated_noise_spends(
    algorithm: Any, t: int, parts: int, fraction: float
) -> None:
    """The scale that a run has at the two signals, over what the statistic is multiplied by."""
    epsilon, ring, family = 4.0, networks.metropolis("ring:5"), LogNormal(1.0, bounds=(2.0, None))
    privacy = SignalDP(
        epsilon,
        0.01,
        radius=1.0,
        sensitivity="smooth-as-published",
        budget_fractions=(fraction,) * 5,
    )
    found = worst_pair(2.0, epsilon, 0.01, parts=parts, fraction=fraction)
    made = plan(privacy, family, algorithm, ring, 20)
    signals = np.array([found.s, found.other, 9.0, 9.0, 9.0])[:, None]
    step = algorithm.at(t)
    one, other = made.scale(signals, epsilon, t)[:2, 0] * abs(step.noise / step.innovation)
    own, h = epsilon * fraction / parts, math.log(found.s / found.other)
    spent = max(laplace_delta(h, one, other, own), laplace_delta(h, other, one, own))
    assert spent == pytest.approx(found.delta, rel=1e-9)
    assert one == pytest.approx(found.scale, rel=1e-12)
    stated = guarantee_of(privacy, algorithm, 20, family)
    assert stated.status == ("refuted" if spent > 0.01 / parts else "proved")


def test_agents_which_draw_on_a_grid_claim_no_proof() -> None:
    ring, family = networks.metropolis("ring:5"), LogNormal(1.0, bounds=(3.0, 50.0))
    source = SyntheticSignals(family, {"mu": 2.0}, 5, seed=1)
    privacy = SignalDP(1.0, 0.01, radius=1.0, sensitivity="smooth-as-published")
    todo = Problem(ring, AVERAGE, family, source, privacy, 10)
    assert todo.guarantee.status == "proved"
    assert guarantee(todo).status == "claimed"
    assert "rounding to a grid" in guarantee(todo).reason


def test_half_of_the_noise_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weakened twin: at a floor of 2.6 the published scale holds, and half of it does not."""
    assert status(2.6, 1.0) == "proved"
    worst_pair.cache_clear()
    half = "veilsum.privacy.published.factor_as_published"
    monkeypatch.setattr(half, lambda e, d: factor_as_published(e, d) / 2)
    assert status(2.6, 1.0) == "refuted"
    worst_pair.cache_clear()
