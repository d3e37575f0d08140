"""Streams whose readings cost epsilon together: variances, price, attacks, and what is refused.

Statistical tests have fixed seeds and a false-alarm rate below 1e-6.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, families, networks
from veilsum.agents import Manifest
from veilsum.auditing import audit_problem
from veilsum.errors import AgentError, PrivacyError, VeilsumError
from veilsum.privacy import (
    Batches,
    MaskedDP,
    NetworkDP,
    PrivacyEvent,
    SignalDP,
    Status,
    compose,
    guarantee_of,
    plan,
)
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.mechanisms.gaussian import NORMAL, cost, multiplier
from veilsum.privacy.planning import StreamPlan
from veilsum.privacy.streams import Horizon
from veilsum.scenario import Scenario
from veilsum.simulation import Problem, RecordedSignals, simulate

YEAR, EPSILON, DELTA = 8760, 1.0, 1e-6
FAMILY = families.Normal(1.0, bounds=(0.0, 1.0))
RING = networks.metropolis("ring:5")


def asked(horizon: int, **more: Any) -> SignalDP:
    given = {"mechanism": "gaussian", "unit": "stream", "horizon": horizon, **more}
    return SignalDP(given.pop("epsilon", EPSILON), given.pop("delta", DELTA), **given)


def deviations(v: Any) -> Any:
    """Of the noise of the mean of the first t readings."""
    return np.sqrt(np.cumsum(v)) / np.arange(1, len(v) + 1)


@pytest.mark.parametrize("T", [1, 2, 9, 10, 11, 100, 365, YEAR])
def test_the_shares_add_up_to_one_and_the_mean_settles(T: int) -> None:
    stream = Horizon(T)
    shares = np.array([stream.share(t) for t in range(1, T + 1)])
    assert math.fsum(shares) <= 1
    assert math.fsum(shares) == pytest.approx(1, rel=1e-12)
    assert stream.share(1, T) == pytest.approx(1, rel=1e-12)
    assert stream.share(1, max(1, T // 3)) == pytest.approx(shares[: max(1, T // 3)].sum())
    found = deviations(1 / shares)
    assert found == pytest.approx([stream.deviation(t) for t in range(1, T + 1)], rel=1e-9)
    assert found[9:] == pytest.approx(np.full(max(0, T - 9), found[-1]), rel=1e-9)


def test_a_year_of_hours_has_at_most_2_25_times_one_release_from_the_tenth_on() -> None:
    """t H_T, which was known before, has 2.20 at the end and 2.30 at the tenth reading."""
    stream = Horizon(YEAR)
    assert max(stream.deviation(t) for t in range(10, YEAR + 1)) == pytest.approx(2.0946, abs=1e-4)
    t = np.arange(1, YEAR + 1)
    H = (1 / t).sum()
    known = deviations(t * H)
    assert (1 / (t * H)).sum() == pytest.approx(1)
    assert known == pytest.approx(np.sqrt(H * (t + 1) / (2 * t)))
    assert (known[9], known[-1]) == pytest.approx((2.304, 2.197), abs=1e-3)
    assert deviations(np.full(YEAR, float(YEAR)))[9] > 29  # noise of one size


def test_no_independent_noise_does_better_at_all_readings_from_the_tenth_on() -> None:
    """Random schedules, scaled so that their means are never worse: their shares add up to 1 or more."""
    rng, T = np.random.default_rng(5), 60
    stream = Horizon(T)
    ours = np.array([stream.variance(t) for t in range(1, T + 1)])
    limit = np.array([stream.deviation(t) for t in range(1, T + 1)])[9:]
    least = math.inf
    for spread in (0.01, 0.1, 0.5, 1.0):
        for _ in range(500):
            v = ours * np.exp(spread * rng.normal(size=T))
            v *= ((limit / deviations(v)[9:]) ** 2).min()
            least = min(least, (1 / v).sum())
    assert least >= 1 - 1e-9
    assert least < 1.05


def multipliers(request: SignalDP) -> Any:
    made = plan(request, FAMILY, algorithms.Learn(), rounds=1)
    T = request.horizon or 1
    mechanisms: list[Any] = [made.mechanism(t=t, released=True) for t in range(1, T + 1)]
    return np.array([one.multiplier for one in mechanisms])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_what_all_readings_cost_is_what_was_asked(epsilon: float, delta: float) -> None:
    """Composed one by one, and by the guarantee; of the first ones a part of it."""
    T = 200
    request = asked(T, epsilon=epsilon, delta=delta)
    made = plan(request, FAMILY, algorithms.Learn(), rounds=T)
    events = [made.mechanism(t=t).event() for t in range(1, T + 1)]
    stated = guarantee_of(request, algorithms.Learn(), T, FAMILY)
    assert (stated.status, stated.delta) == (Status.PROVED, delta)
    assert epsilon * (1 - 1e-8) <= stated.epsilon <= epsilon
    together = compose(events, delta)
    assert (together.count, together.method) == (T, "renyi")
    assert together.epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    for w in (1, 7, 50):
        window = stated.for_window(w)
        first, late = compose(events[:w], delta), compose(events[100 : 100 + w], delta)
        assert window.epsilon == pytest.approx(first.epsilon, rel=1e-6, abs=1e-9)
        assert late.epsilon <= window.epsilon < epsilon
    assert (
        str(stated.unit)
        == "each reading of a whole stream of 200 that moves between any two values of its domain"
    )
    z = multiplier(epsilon, delta)
    constant = compose([PrivacyEvent(epsilon, delta, "gaussian", z)] * T, delta)
    assert constant.epsilon > 3 * epsilon  # the weakened twin: noise that fits one reading
    assert constant.epsilon == pytest.approx(cost(z / math.sqrt(T), delta))
    again = Guarantee.from_dict(json.loads(json.dumps(stated.to_dict())))
    assert again == stated
    assert again.for_window(7).epsilon == stated.for_window(7).epsilon
    with pytest.raises(PrivacyError, match="readings 1 to 200; found reading 201"):
        stated.for_stream(201)


def delta_of(epsilon: float, shift: float) -> float:
    """The exact delta that N(0, 1) against N(shift, 1) spends at epsilon."""
    far = NORMAL.cdf(-shift / 2 - epsilon / shift)
    return NORMAL.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * far


@pytest.mark.parametrize("T", [1, 12, 300, YEAR])
def test_the_likelihood_of_all_releases_spends_no_more_than_delta(T: int) -> None:
    """All readings move from one end to the other; their log-likelihood ratio is normal."""
    z = multipliers(asked(T))
    shift = math.sqrt((1 / z**2).sum())
    assert 0.1 * DELTA < delta_of(EPSILON, shift) <= DELTA
    assert delta_of(EPSILON, 1.3 * shift) > DELTA  # of which three tenths of the noise are missing
    constant = math.sqrt(T) / multiplier(EPSILON, DELTA)
    if T > 1:
        assert delta_of(EPSILON, constant) > 100 * DELTA


def problem_of(T: int, replicas: int = 1, **more: Any) -> Problem:
    tiled = np.full((5, T), 0.5)
    source = RecordedSignals(vs.signals.as_signals(tiled, labels=RING.labels))
    request = asked(T, **more)
    return Problem(
        RING, algorithms.Learn(), FAMILY, source, request, rounds=T, replicas=replicas, seed=3
    )


def test_simulated_means_have_the_stated_noise() -> None:
    """40 readings of 5 agents, 4,000 replicas: within 6 standard errors at every t."""
    T, runs = 40, 4000
    problem = problem_of(T, runs)
    trace = simulate(problem)
    one = plan(SignalDP(EPSILON, DELTA, mechanism="gaussian"), FAMILY).mechanism()
    expected = vs.theory.expected(problem, deviation=1.0).shared_noise[:, 0]
    for t in (1, 5, 10, 20, 40):
        part = replace(problem, rounds=t)
        off = simulate(part).mean[0, :, 0] - 0.5
        stated = Horizon(T).deviation(t) ** 2 * one.worst_variance / 5
        assert abs((off**2).mean() - stated) <= 6 * stated * math.sqrt(2 / runs)
        assert abs(off.mean()) <= 6 * math.sqrt(stated / runs)
        assert expected[t] == pytest.approx(math.sqrt(5 * stated), rel=1e-6)
        assert float(simulate(part).noise_variance[0, 0, 0]) == pytest.approx(stated, rel=1e-6)
        width = vs.theory.noise.noise_half_width(part, EPSILON, 0.95)
        assert width == pytest.approx(NORMAL.inv_cdf(0.975) * math.sqrt(stated), rel=1e-4)
    several = replace(problem, epsilons=(0.5, EPSILON), replicas=3)
    assert np.array_equal(simulate(several).mean[1, :3], trace.mean[0, :3])


def test_audits_move_all_readings_and_find_noise_that_fits_one(monkeypatch: Any) -> None:
    problem = problem_of(12, delta=0.01)
    report = audit_problem(problem, 20_000)
    assert not report.refuted, str(report)
    assert report.lower_bound > 0.15  # the attack is a real one
    usual: Any = StreamPlan.mechanism

    def constant(self: Any, epsilon: Any = None, *arguments: Any, **options: Any) -> Any:
        return replace(usual(self, epsilon, *arguments, **options), share=1.0)

    monkeypatch.setattr(StreamPlan, "mechanism", constant)
    assert audit_problem(problem, 20_000).refuted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: asked(None), "needs its horizon, the number of readings"),  # type: ignore[arg-type]
        (lambda: asked(0), "horizon must be a whole number of at least 1"),
        (lambda: SignalDP(1.0, horizon=9), "is for a whole stream"),
        (lambda: SignalDP(1.0, unit="window"), "unit must be one of event, stream"),
        (lambda: asked(9, mechanism="laplace", delta=0.0), "epsilons of pure noise add up"),
        (lambda: asked(9, mechanism="best"), "gains nothing with mechanism best"),
        (lambda: asked(9, batches=Batches(2.0)), "leave batches out"),
        (lambda: MaskedDP(1.0, unit="stream", horizon=9, colluders=1), "leave the sum out"),
        (lambda: NetworkDP(1.0, unit="stream", horizon=9), "pure noise add up"),
        (lambda: Horizon(9).share(10), "found reading 10"),
        (lambda: Horizon(9).share(0), "found reading 0"),
    ],
)
def test_what_no_noise_keeps_is_refused(make: Any, message: str) -> None:
    with pytest.raises(PrivacyError, match=message):
        make()


def test_one_signal_is_no_stream_and_a_stream_ends() -> None:
    for algorithm, rounds, message in (
        (algorithms.Average(), 5, "uses one signal of each agent"),
        (algorithms.Learn(), 10, "readings 1 to 9; found reading 10"),
        (algorithms.get("first-order-online", RING), 9, "divides its budget over rounds"),
    ):
        with pytest.raises(PrivacyError, match=message):
            plan(asked(9), FAMILY, algorithm, RING, rounds)
        stated = guarantee_of(asked(9), algorithm, rounds, FAMILY)
        assert stated.status is Status.NONE
        assert message in stated.reason


@pytest.mark.parametrize("name", [n for n in vs.privacy.mechanisms.names() if n != "best"])
def test_a_mechanism_divides_what_it_may_cost_or_says_why_not(name: str) -> None:
    kind = vs.privacy.MECHANISMS.get(name)
    made: Any = kind.examples()[0]
    if not kind.takes_delta:
        with pytest.raises(PrivacyError, match="costs of its noise add up"):
            made.part(0.25)
        return
    part = made.part(0.25)
    assert part.worst_variance == pytest.approx(4 * made.worst_variance)
    assert float(part.release_variance(0.0)) == pytest.approx(part.worst_variance, rel=1e-6)
    assert compose([part.event()] * 4, made.delta).epsilon == pytest.approx(made.epsilon, rel=1e-6)
    with pytest.raises(PrivacyError, match="above 0 and at most 1"):
        made.event().part(1.5)


SCENARIO = """
network = {graph = "ring:5", weights = "metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
algorithm = {name = "learn", rounds = 24}

[privacy]
protect = "signal"
epsilon = 1.0
delta = 1e-6
mechanism = "gaussian"
unit = "stream"
horizon = 24
"""


def test_a_scenario_says_so_and_agents_refuse() -> None:
    problem = Scenario.parse(SCENARIO).build().problem
    assert problem.privacy == replace(asked(24), radius=math.inf)
    assert problem.guarantee.unit.readings == 24
    with pytest.raises(AgentError, match="is for simulations"):
        Manifest.of(problem)
    for wrong, message in (
        (SCENARIO.replace("horizon = 24", ""), "needs its horizon"),
        (SCENARIO.replace('unit = "stream"', ""), "is for a whole stream"),
        (SCENARIO.replace("rounds = 24", "rounds = 25"), "found reading 25"),
    ):
        with pytest.raises(VeilsumError, match=message):
            _ = Scenario.parse(wrong).build().problem.plan
