"""Two places never decide one number differently, and nothing is promised that is not kept."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp  # type: ignore[import-untyped]
from scipy.stats import binom

from veilsum import algorithms, families, networks
from veilsum.errors import PrivacyError, VeilsumError
from veilsum.privacy import (
    MECHANISMS,
    Batches,
    LaplaceMechanism,
    MaskedDP,
    Mechanism,
    NetworkDP,
    SignalDP,
    Statistic,
    Status,
    best,
    guarantee_of,
    plan,
    spent,
)
from veilsum.privacy.mechanisms import DuchiMechanism
from veilsum.privacy.sensitivity import smooth_log

RING = networks.metropolis("ring:5")
LOADS = families.LogNormal(1.0, bounds=(3.0, 20.0))
SMOOTH = ("smooth", "smooth-as-published")


@pytest.mark.parametrize("width", [2.0**-52, 1e-13, 1e-11, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("minimum", [7.9, 1.0, 0.3])
def test_the_logarithm_of_a_quotient_is_within_its_stated_error(width: Any, minimum: Any) -> None:
    """log(s/m) loses all digits near m where s/m is rounded first; weakened: so it was."""
    high = max(minimum * (1 + width), math.nextafter(minimum, math.inf))
    family = families.Pareto(minimum, bounds=(minimum, high))
    stated = family.moves(math.inf).error
    mp.prec = 200
    worst = weakened = 0.0
    for s in np.linspace(minimum, high, 50):
        exact = mp.log(mp.mpf(float(s)) / mp.mpf(minimum))
        worst = max(worst, abs(float(exact - mp.mpf(float(family.statistic(s))))))
        weakened = max(weakened, abs(float(exact - mp.mpf(float(np.log(s / minimum))))))
    assert worst <= stated
    assert weakened > stated or minimum == 1.0 or width > 1e-6


@pytest.mark.parametrize("sensitivity", ["global", *SMOOTH])
@pytest.mark.parametrize("request_type", [SignalDP, NetworkDP])
@pytest.mark.parametrize("name", algorithms.names())
def test_the_mechanism_has_the_scale_that_the_simulator_draws(
    name: Any, request_type: Any, sensitivity: Any
) -> None:
    made = algorithms.get(name, RING) if not algorithms.ALGORITHMS[name].summed else None
    if made is None or "column" in " ".join(made.kinds):
        return
    asked = request_type(0.7, 0.01 * (sensitivity != "global"), 1.0, sensitivity)
    planned = plan(asked, LOADS, made, RING, 4)
    signals = np.full((5, 1), 5.0)
    for t in range(5):
        if not made.at(t).noise:
            continue
        drawn = float(planned.scale(signals, 0.7, t)[0, 0])
        mechanism: Any = planned.mechanism(0.7, t)
        has = mechanism.scale_at([5.0])[0] if planned.reads_signals else mechanism.scale
        assert has == pytest.approx(drawn, rel=1e-9)


@pytest.mark.parametrize("fraction", [0.25, 1.0, 4.0])
def test_published_noise_of_unequal_budgets_has_one_scale(fraction: Any) -> None:
    asked = SignalDP(1.0, 0.01, 1.0, "smooth-as-published", budget_fractions=(fraction,) * 5)
    planned = plan(asked, LOADS, algorithms.Average(), RING, 4)
    mechanism: Any = planned.mechanism(1.0, 0)
    drawn = float(planned.scale(np.full((5, 1), 5.0), 1.0, 0)[0, 0])
    assert mechanism.scale_at([5.0])[0] == pytest.approx(drawn)


def test_an_exact_release_is_of_the_statistic_itself() -> None:
    asked = SignalDP(1.0)
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    planned = plan(asked, family, algorithms.get("first-order-online", RING), RING, 10)
    with pytest.raises(PrivacyError, match="times the statistic"):
        planned.mechanism(1.0, 1, released=True)


def requests() -> list[Any]:
    found: list[Any] = [
        SignalDP(e, d, r, "smooth") for e in (0.5, 8.0, 20.0, 50.0) for d in (1e-6, 0.01, 0.3)
        for r in (None, 1.0)
    ]  # fmt: skip
    found += [SignalDP(e, mechanism=m) for e in (1e-13, 1.0, 800.0) for m in MECHANISMS
              if MECHANISMS[m].requested and not MECHANISMS[m].takes_delta]  # fmt: skip
    found += [SignalDP(1.0, radius=r) for r in (None, 0.3, 1.0, 50.0)]
    found += [SignalDP(e, mechanism="best") for e in (1.0, 700.0, 800.0)]
    found += [SignalDP(1.0, 1e-6, mechanism=m) for m in ("gaussian", "best")]
    return found


FAMILIES = [
    LOADS, families.Poisson(bounds=(0, 40)), families.Bernoulli(), families.Normal(1.0),
    families.NormalBoth(bounds=(-2.0, 3.0)), families.Categorical(5), None,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: getattr(f, "name", "any"))
def test_what_is_promised_can_be_planned_and_drawn(family: Any) -> None:
    """A guarantee is proved exactly where there is a plan, and the plan has its mechanism and scale."""
    promised = 0
    for asked in requests():
        stated = guarantee_of(asked, algorithms.Average(), 3, family)
        try:
            made = plan(asked, family, algorithms.Average(), RING, 3)
            made.event()
            if family is not None:
                made.mechanism()
                made.scale(np.full((5, 1), 5.0), asked.epsilon, 0)
        except VeilsumError:
            drawn = False
        else:
            drawn = True
        assert stated.status is (Status.PROVED if drawn else Status.NONE), (asked, stated)
        promised += drawn
    assert promised >= 3


@pytest.mark.parametrize("family", [None, LOADS], ids=["any", "loads"])
def test_gaussian_noise_without_a_delta_is_refused(family: Any) -> None:
    with pytest.raises(PrivacyError, match="needs a delta above 0"):
        guarantee_of(SignalDP(1.0, mechanism="gaussian"), algorithms.Learn(), family=family)


def test_masked_sums_of_moves_that_nobody_makes_are_guaranteed_nothing() -> None:
    asked = MaskedDP(1.0, radius=0.3, colluders=2)
    made = guarantee_of(asked, algorithms.MaskedSum(members=20, hops=2), family=families.Poisson())
    assert made.status is Status.NONE


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_a_window_of_batches_costs_no_less_than_its_releases(epsilon: Any, delta: Any) -> None:
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    for longest in (2, 3, 5):
        asked = SignalDP(epsilon, delta, mechanism="gaussian", batches=Batches(2.0, longest))
        made = guarantee_of(asked, algorithms.Learn(), family=family)
        for w in (2, 3, 4, 6):
            stated = made.for_window(w)
            for first in range(1, 30):
                cost = spent(made.runs[0].moved(first, w))
                assert cost.epsilon <= stated.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_intervals_of_two_points_cover_exactly(epsilon: Any, confidence: Any) -> None:
    """The sum of n draws +-R is binomial: its coverage is computed, not sampled."""
    made = DuchiMechanism(epsilon, -1.0, 1.0)
    for n in (100, 137, 138, 500):
        width = made.sum_quantile(np.array([1 / n]), np.array([float(n)]), confidence)
        ends = [n * (1 + side * width / made.reach) / 2 for side in (-1, 1)]
        inside = binom.cdf(math.floor(ends[1]), n, 0.5) - binom.cdf(math.ceil(ends[0]) - 1, n, 0.5)
        assert inside >= confidence - 2e-3


def test_what_hides_any_two_values_says_so_whatever_the_radius() -> None:
    bounded = families.Normal(1.0, bounds=(0.0, 1.0))
    for name in ("duchi", "piecewise", "hybrid"):
        made = guarantee_of(
            SignalDP(1.0, radius=0.01, mechanism=name), algorithms.Learn(), 9, bounded
        )
        assert made.for_whole_value().epsilon == 1.0
        assert made.useful
    near = guarantee_of(SignalDP(1.0, radius=0.01), algorithms.Learn(), 9, bounded)
    assert near.for_whole_value().epsilon == 100.0


def test_the_best_of_large_epsilons_is_chosen() -> None:
    assert best(Statistic(1.0, step=1.0), 800.0).variance == 0.0


def test_misfits_are_refused_by_fit_too() -> None:
    cases = [Statistic(math.inf), Statistic(0.0), Statistic(1.0), Statistic(1.0, dimension=3),
             smooth_log(0.5, 20.0, smoothing=0.1), Statistic(1.0, low=0, high=1, step=1.0)]  # fmt: skip
    for kind in MECHANISMS.values():
        for statistic in cases:
            for epsilon, delta in ((1.0, 0.0), (1.0, 1e-6), (1e-13, 0.0), (900.0, 0.0)):
                if kind.misfit(statistic, epsilon, delta):
                    with pytest.raises(PrivacyError):
                        kind.fit(statistic, epsilon, delta)
                else:
                    assert kind.fit(statistic, epsilon, delta).epsilon == epsilon


def test_bounds_that_no_float_can_serve_are_refused() -> None:
    with pytest.raises(PrivacyError, match="beyond what a float can hold"):
        DuchiMechanism(1e-9, -1e300, 1e300)


def test_a_multiple_of_a_statistic_errs_by_as_much_more() -> None:
    one = Statistic(1.0, error=0.1)
    assert one.at_least(0.0, 3.0).distance() >= Fraction(36, 10)


def test_norms_that_no_move_has_are_refused() -> None:
    assert Statistic(64.0, 8.0, dimension=64).l2 == 8.0
    with pytest.raises(PrivacyError, match="at least 8 in l2 norm"):
        Statistic(64.0, 1.0, dimension=64)


class Naked(LaplaceMechanism):
    """A mechanism from elsewhere, without noise."""

    name = "naked"

    def from_uniforms(self, x: Any, u: Any) -> Any:  # noqa: ARG002
        return x


def test_a_mechanism_from_elsewhere_is_its_authors_claim() -> None:
    MECHANISMS.add("naked", Naked)
    try:
        asked = SignalDP(1.0, mechanism="naked")
        made = guarantee_of(asked, algorithms.Average(), family=families.Bernoulli())
    finally:
        MECHANISMS.remove("naked")
    assert made.status is Status.CLAIMED
    assert "the author of mechanism naked states it" in made.reason
    assert Naked(1.0, 1.0).ideal_status is Status.CLAIMED


@pytest.mark.parametrize(
    ("name", "thing", "message"),
    [
        ("foo", 3, "derives from Mechanism"),
        ("foo", Naked, "calls itself 'naked'"),
        ("half", type("Half", (Mechanism,), {"name": "half"}), "must define"),
    ],
)
def test_what_best_could_not_make_is_not_registered(name: Any, thing: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        MECHANISMS.add(name, thing)
    assert name not in MECHANISMS


class Halves(algorithms.Algorithm):
    """Noise at the start only, which says nothing of its own about sensitivities."""

    name = "halves"
    start = algorithms.Coefficients(innovation=1.0, noise=1.0)

    def coefficients(self, t: int) -> algorithms.Coefficients:  # noqa: ARG002
        return algorithms.Coefficients(own=0.5, mixing=0.5)


def test_a_plan_has_no_noise_in_a_round_without_noise() -> None:
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    planned = plan(SignalDP(1.0), family, Halves(), RING, 5)
    assert planned.name == "laplace"
    assert planned.mechanism().scale == 1.0  # of the start
    with pytest.raises(PrivacyError, match="no noise in round 3"):
        planned.mechanism(1.0, 3)
