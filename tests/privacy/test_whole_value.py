"""What is hidden of a signal: the whole value unless a radius is stated, and what the rest costs."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, families, networks
from veilsum.errors import PrivacyError
from veilsum.front.of_runs import of_runs
from veilsum.privacy import MaskedDP, NetworkDP, NoPrivacy, SignalDP, guarantee_of, plan
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.accounting.events import LARGEST_DELTA
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.proofs import unit_of
from veilsum.simulation import Problem, RecordedSignals, SyntheticSignals

RING = networks.metropolis("ring:5")
INCOMES = families.Normal(sigma=2e4, bounds=(0.0, 3e5))
READINGS = np.array([5e4, 6e4, 7e4, 8e4, 9e4])


def found(request: Any, family: Any = INCOMES, algorithm: Any = None) -> Guarantee:
    return guarantee_of(request, algorithm or algorithms.Average(), 10, family)


def test_measured_signals_are_hidden_whole() -> None:
    """With a radius of 1 by default the noise of an income had the scale of 1 CHF."""
    result = vs.estimate(READINGS, RING, INCOMES, SignalDP(1.0), rounds=10).result
    assert result.guarantee.unit.whole
    assert result.guarantee.for_whole_value().epsilon == 1.0
    assert result.problem.plan.sensitivity == 3e5
    assert "between any two values of its domain" in str(result.guarantee)
    assert result.guarantee.hides() == "hides the whole value"


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
def test_measured_signals_without_bounds_are_an_error_that_asks_for_them(request_of: Any) -> None:
    with pytest.raises(PrivacyError) as caught:
        vs.estimate(READINGS, RING, families.Normal(2e4), request_of(1.0), rounds=10)
    for said in ("bounds=(low, high)", "bounds = [low, high] under [family]", "radius = ..."):
        assert said in str(caught.value)
    assert "50000" not in str(caught.value)
    half = families.LogNormal1p(1.0, bounds=(0.0, None))
    with pytest.raises(PrivacyError, match="has no bounds that limit it"):
        vs.estimate(READINGS, RING, half, request_of(1.0), rounds=10)
    assert found(request_of(1.0), families.Normal(2e4)).status == "none"
    with pytest.raises(PrivacyError, match="public bounds"):
        plan(request_of(1.0), families.Normal(2e4), algorithms.Average(), RING, 10)


def test_drawn_signals_without_bounds_move_by_one_and_it_is_printed() -> None:
    result = vs.sweep({"mu": 1.0}, RING, families.Normal(1.0), SignalDP(1.0), rounds=10).result
    assert result.problem.privacy.radius == 1.0
    assert "moves by at most 1 in its own units" in str(result.guarantee)
    assert "the whole value is not hidden: a signal has no public bounds" in str(result.guarantee)
    assert "(the whole value: no limit)" in " ".join(str(of_runs({"run": result})).split())
    bounded = families.Normal(1.0, bounds=(0.0, 5.0))
    assert vs.sweep(
        {"mu": 2.0}, RING, bounded, SignalDP(1.0), rounds=10
    ).result.problem.privacy.reach == (math.inf)
    none = vs.sweep({"mu": 1.0}, RING, families.Normal(1.0), NoPrivacy(), rounds=10).result
    assert none.guarantee.hides() == "hides nothing"


def test_a_radius_is_shown_wherever_epsilon_is() -> None:
    answers = vs.estimate(READINGS, RING, INCOMES, SignalDP(1.0, radius=1.0), rounds=10)
    result = answers.result
    said = "the whole value: epsilon 300,000"
    assert result.guarantee.hides("CHF") == f"hides moves of 1 of 300,000 CHF; {said}"
    assert "by at most 1 of 300,000 in its own units" in str(result.guarantee)
    assert said in str(result.guarantee)
    assert said in " ".join(str(answers).split())
    assert said in answers._repr_html_()
    assert said in json.dumps(answers.to_dict())
    assert Guarantee.from_dict(result.guarantee.to_dict()) == result.guarantee


def test_a_whole_value_costs_the_moves_that_its_statistic_is_wide() -> None:
    """log(1 + s) of 0 .. 300,000 is 18.2 moves of log 2 wide, not 300,000: the loss is exact."""
    family = families.LogNormal1p(1.0, bounds=(0.0, 3e5))
    request = SignalDP(0.5, radius=1.0)
    stated = found(request, family).for_whole_value().epsilon
    made = plan(request, family, algorithms.Average(), RING, 10).mechanism(0.5, 0)
    spent = math.log1p(3e5) / made.scale
    assert stated - 0.5 < spent <= stated == 0.5 * 19  # weakened: one move less does not cover it


@pytest.mark.parametrize(
    ("family", "radius", "steps"),
    [
        (families.Poisson(bounds=(0, 20)), 1.5, 20),  # whole numbers: moves of 1
        (families.Normal(1.0, bounds=(0.0, 10.0)), 3.0, 4),
        (families.Normal(1.0, bounds=(0.0, 10.0)), 10.0, 1),
        (families.Categorical(4), 1.0, 1),
        (families.Bernoulli(), 1.0, 1),
        (families.MultivariateNormal(np.eye(2), bounds=(0.0, 5.0)), 1.0, 10),  # l1 norm
        (families.Normal(1.0), 3.0, math.inf),
    ],
)
def test_moves_from_one_end_to_the_other(family: Any, radius: float, steps: float) -> None:
    unit = found(SignalDP(1.0, radius=radius), family).unit
    assert unit.steps == steps
    assert unit.whole == (steps == 1)
    assert found(SignalDP(1.0, radius=radius), family).useful == (steps <= 5)


def test_smooth_noise_hides_the_width_by_default_and_counts_moves_of_the_radius() -> None:
    family = families.LogNormal(1.0, bounds=(1.0, 9.0))
    request = SignalDP(1.0, 0.01, sensitivity="smooth")
    assert request.over(family).radius == 8.0
    assert found(request, family).unit.whole
    near = found(SignalDP(0.1, 1e-6, radius=2.0, sensitivity="smooth"), family)
    assert near.unit.steps == 4
    whole = near.for_whole_value()
    assert whole.epsilon == pytest.approx(0.4)
    assert whole.delta == pytest.approx(sum(1e-6 * math.exp(0.1 * k) for k in range(4)))
    loose = found(SignalDP(3.0, 0.01, radius=0.5, sensitivity="smooth"), family)
    assert loose.for_whole_value().status == "none"
    assert "the whole value is not hidden" in loose.hides()


def test_the_delta_of_two_moves_is_attained() -> None:
    """P(S) = 0, then delta, then delta + e^eps delta: the smallest delta that group privacy can state."""
    eps, delta = 0.7, 0.01
    seen = [0.0, delta, delta + math.exp(eps) * delta]
    two = PrivacyEvent.of(eps, delta).times(2)
    assert two.epsilon == 2 * eps
    assert seen[2] - math.exp(two.epsilon) * seen[0] == pytest.approx(two.delta)
    assert two.delta > 2 * delta  # weakened: deltas that only add up
    assert PrivacyEvent.of(400.0, 0.01).times(2).delta == LARGEST_DELTA


def test_a_stream_of_whole_values_costs_as_many_times_more() -> None:
    one = found(SignalDP(0.1, radius=3e4), algorithm=algorithms.Learn())
    assert one.for_stream(10).for_whole_value().epsilon == pytest.approx(10.0)
    assert one.for_whole_value().for_stream(10).epsilon == pytest.approx(10.0)


def test_network_dp_states_the_whole_value_of_signals() -> None:
    both = found(NetworkDP(1.0, radius=1e5), algorithm=algorithms.LearnNetwork())
    assert both.for_whole_value().epsilon == 3.0
    assert "the whole value: epsilon 3" in both.hides()


def test_a_custom_family_is_no_wider_than_its_bounds() -> None:
    made = families.Custom(
        statistic=lambda s: 2 * s, sensitivity=2.0, support=families.Support(0.0, 5.0)
    )
    assert made.moves(math.inf).l1 == 10.0
    assert SignalDP(1.0).over(made).radius == math.inf


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 1 / 3, 1e-9, 5.3])
@pytest.mark.parametrize("attempts", [1, 2, 3, 7])
def test_attempts_never_cost_more_than_the_query(epsilon: float, attempts: int) -> None:
    asked = MaskedDP(epsilon, 1e-6, colluders=1, absent=9, attempts=attempts)
    for each, whole in zip(asked.session_cost, (epsilon, 1e-6), strict=True):
        assert attempts * Fraction(each) <= Fraction(whole) < attempts * Fraction(each) * 1.000001


def test_a_query_of_two_attempts_has_the_noise_of_half_its_epsilon() -> None:
    made = algorithms.get("masked-sum", networks.metropolis("ring:21"))
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    one, two = (
        guarantee_of(MaskedDP(1.0, colluders=2, absent=2, attempts=a), made, 60, family)
        for a in (1, 2)
    )
    assert one.epsilon == two.epsilon == 1.0
    assert guarantee_of(MaskedDP(1.0, colluders=2, absent=2), made, 60, family) == one


def test_recorded_and_drawn_signals_have_requests_of_their_own() -> None:
    drawn = SyntheticSignals(families.Normal(1.0), {"mu": 1.0}, 5, seed=1)
    made = Problem(RING, algorithms.Average(), families.Normal(1.0), drawn, SignalDP(1.0), 5)
    measured = RecordedSignals(vs.signals.as_signals(np.arange(5.0)))
    with pytest.raises(PrivacyError, match="bounds"):
        Problem(RING, algorithms.Average(), families.Normal(1.0), measured, SignalDP(1.0), 5)
    assert made.privacy.radius == 1.0


@pytest.mark.parametrize("radius", [0.5, 2.5])
def test_whole_values_of_a_window_are_those_of_all_its_readings(radius: float) -> None:
    """Under Network DP as under Signal DP: the signals alone are restated for the window first."""
    family = families.Normal(1.0, bounds=(0.0, 5.0))
    made = algorithms.LearnNetwork()
    hidden = guarantee_of(NetworkDP(0.5, radius=radius), made, family=family)
    signals = guarantee_of(SignalDP(0.5, radius=radius), made, family=family)
    for each in ("for_window", "for_stream"):
        asked, plain = (getattr(one, each)(7) for one in (hidden, signals))
        assert asked.for_whole_value().epsilon == plain.for_whole_value().epsilon == 17.5 / radius
        assert not asked.useful
        assert asked.hides() == plain.hides()


def test_noise_that_follows_the_l2_norm_counts_its_own_steps() -> None:
    """x -> (x, x^2): at radius 1.1 of 1.2 the l1 norm says that the whole value is hidden."""
    family = families.Custom(
        lambda s: np.stack([s, s**2], axis=-1), families.Support(-0.6, 0.6),
        lambda t: 1.21 if t >= 1.1 else t * (2.2 - t), dimension=2,
        l2_sensitivity=lambda t: min(t, 1.2) * math.hypot(1.0, 1.2 - min(t, 1.2)),
        statistic_range=([-0.6, 0.0], [0.6, 0.36]),
    )  # fmt: skip
    near, whole = (family.moves(radius).l2 for radius in (1.1, math.inf))
    assert near is not None
    assert whole is not None
    assert near < 0.95 * whole
    pure, skellam = (
        unit_of(MaskedDP(1.0, delta=delta, radius=1.1, colluders=2), family, False)
        for delta in (0.0, 1e-6)
    )
    assert (pure.steps, skellam.steps) == (1, 2)
