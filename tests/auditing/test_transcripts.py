"""Audits of the algorithms as the simulator runs them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.auditing import (
    adjacent,
    audit,
    audit_neighbour,
    audit_problem,
    ball,
    message_mechanism,
    transcript_mechanism,
)
from veilsum.errors import PrivacyError
from veilsum.families import (
    Bernoulli,
    Categorical,
    LogNormal,
    LogNormal1p,
    MultivariateNormal,
    Normal,
    Poisson,
)
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP, guarantee_of
from veilsum.simulation import Problem, SyntheticSignals

MIXING = networks.metropolis(networks.load("florentine-families"))
GRID = networks.metropolis(networks.load("us-power-grid"))
FAMILY = LogNormal1p(sigma=1.0)


def problem(
    algorithm: Any = "average",
    privacy: Any = None,
    family: Any = FAMILY,
    net: Any = MIXING,
    rounds: Any = 20,
) -> Any:
    made = algorithms.get(algorithm, net) if isinstance(algorithm, str) else algorithm
    source = SyntheticSignals(family, {"mu": 1.0}, net.size, seed=1)
    return Problem(net, made, family, source, privacy or SignalDP(1.0), rounds)


PROVED = [
    name
    for name, kind in algorithms.ALGORITHMS.items()
    # nothing is guaranteed for a bare start; test_sum_audit.py attacks sums
    if (kind.start.noise or not kind.start.innovation) and not kind.summed
]


@pytest.mark.parametrize("name", PROVED)
def test_every_algorithm_with_a_proved_guarantee_survives_several_rounds(name: Any) -> None:
    todo = problem(name)
    assert guarantee_of(todo.privacy, todo.algorithm).status == "proved"
    report = audit_problem(todo, trials=60_000, rng=1)
    assert not report.refuted, str(report)
    if not todo.algorithm.splits_budget:
        assert report.lower_bound > 0.85  # the attack is a real one


@pytest.mark.parametrize("algorithm", ["learn-network", "naive-network"])
def test_signals_survive_under_network_protection(algorithm: Any) -> None:
    report = audit_problem(problem(algorithm, NetworkDP(1.0)), trials=60_000, rng=1)
    assert not report.refuted


@pytest.mark.parametrize("t", [2, 9])
@pytest.mark.parametrize(
    "algorithm", ["learn", "learn-network", "naive-network", "first-order-online"]
)
def test_one_message_hides_a_neighbours_estimate(algorithm: Any, t: Any) -> None:
    """The guarantee of Network DP: proved, tight, and broken by nine tenths of the noise."""
    pair, tiny = [(0.0, 1.0)], 1e-6  # so that the neighbours set the scale
    todo = problem(algorithm, NetworkDP(1.0, radius=tiny))
    assert guarantee_of(todo.privacy, todo.algorithm).status == "proved"
    claim = 1.0 / todo.rounds if todo.algorithm.splits_budget else 1.0
    report = audit(message_mechanism(todo, 8, t), pair, claim, trials=200_000, rng=1)
    assert not report.refuted, str(report)
    if not todo.algorithm.splits_budget:
        assert report.lower_bound > 0.9
        weak = problem(algorithm, NetworkDP(1 / 0.85, radius=tiny))
        assert audit(message_mechanism(weak, 8, t), pair, 1.0, trials=400_000, rng=1).refuted


def test_the_offline_average_shows_a_neighbours_estimate() -> None:
    """Erratum 5: from the second message on there is no noise that could hide it."""
    todo = problem("average", NetworkDP(1.0))
    assert guarantee_of(todo.privacy, todo.algorithm).status == "refuted"
    report = audit(message_mechanism(todo, 8, 1), [(0.0, 1.0)], 1.0, trials=10_000, rng=1)
    assert report.refuted
    assert report.delta_lower_bound > 0.98


def test_the_first_order_method_is_caught_sending_the_statistic() -> None:
    report = audit_problem(problem("first-order"), trials=20_000, rng=1)
    assert report.refuted
    assert report.delta_lower_bound > 0.9


def test_an_algorithm_that_uses_its_signal_twice_is_caught() -> None:
    """The weakened twin: a second release of the signal with fresh noise in round 1."""

    class Twice(algorithms.Average):
        def coefficients(self, t: Any) -> Any:
            if t == 1:
                return algorithms.Coefficients(innovation=1.0, noise=1.0)
            return super().coefficients(t)

    todo = problem(Twice())
    assert guarantee_of(todo.privacy, todo.algorithm).status == "none"
    assert audit_problem(todo, trials=200_000, rng=1).refuted


def test_the_published_noise_is_refuted_through_a_whole_scenario() -> None:
    privacy = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published")
    report = audit_problem(problem("learn", privacy, LogNormal(sigma=1.0), GRID), 20_000, rng=1)
    assert report.refuted


def test_everyones_messages_tell_no_more_than_the_first_release() -> None:
    mechanism = transcript_mechanism(
        problem("average"), agent=3, rounds=2, background=1.0, everyone=True
    )
    outputs = mechanism(0.0, 7, np.random.default_rng(1))
    assert outputs.shape == (7, 3 * 15)
    report = audit(mechanism, [(0.0, 1.0)], 1.0, trials=40_000, rng=1)
    assert not report.refuted
    assert report.lower_bound > 0.75


def test_a_ball_sends_what_the_whole_network_sends() -> None:
    agent, rounds = 100, 3
    whole = problem("learn-network", net=GRID)
    inside = ball(GRID, agent, rounds)
    assert isinstance(inside, networks.Network)
    assert (inside.kind, inside.scheme) == (GRID.kind, GRID.scheme)
    assert inside.size < 100
    full = Problem(
        GRID, whole.algorithm, FAMILY, _Flat(1.0, GRID.size), NoPrivacy(), rounds, seed=1
    )
    cut = Problem(
        inside, whole.algorithm, FAMILY, _Flat(1.0, inside.size), NoPrivacy(), rounds, seed=1
    )
    from veilsum.simulation import Record, simulate

    a = simulate(full, Record(every=1, agents=[agent])).noiseless
    b = simulate(cut, Record(every=1, agents=[inside.labels[inside.centre]])).noiseless
    assert a is not None
    assert b is not None
    assert np.abs(a - b).max() < 1e-15


class _Flat:
    """Everyone has the signal 1.0 in every round."""

    varies, measured = False, False

    def __init__(self, value: Any, agents: Any) -> None:
        self.value, self.agents = value, agents

    def signals(self, t: Any, replicas: Any) -> Any:  # noqa: ARG002 - the same always
        return np.full((self.agents, 1), self.value)

    def expected(self, family: Any, rounds: Any) -> Any:  # noqa: ARG002 - nobody asks
        return np.zeros(1)

    def check(self, family: Any, rounds: Any) -> None:
        pass


def test_pairs_reach_the_edges_of_the_domain() -> None:
    pairs = adjacent(LogNormal(sigma=1.0, bounds=(0.5, 8.0)), 2.0)
    assert (0.5, 2.5) in pairs
    assert (6.0, 8.0) in pairs
    assert all(b - a == pytest.approx(2.0) for a, b in pairs)
    assert (0.0, 1.0) in adjacent(FAMILY, 1.0)
    assert adjacent(LogNormal(sigma=1.0), 1.0)[0][0] == 0.001
    assert (0.0, 2.0) in adjacent(Poisson(), 2.7)
    assert all(a != b for a, b in adjacent(Categorical(categories=3), 1.0))


@pytest.mark.parametrize(
    ("family", "radius"),
    [
        (Bernoulli(), math.inf),
        (Bernoulli(), 2.0),
        (Poisson(bounds=(0, 9)), math.inf),
        (Normal(sigma=1.0, bounds=(0.1, 0.7)), math.inf),
        (Normal(sigma=1.0, bounds=(0.1, 0.7)), 5.0),
        (Categorical(categories=4), 5.0),
    ],
)
def test_every_domain_has_pairs_to_attack(family: Any, radius: Any) -> None:
    pairs = adjacent(family, radius)
    low, high = family.support.low, family.support.high
    assert (low, high) in pairs


def test_agents_with_budgets_of_their_own_are_held_to_them() -> None:
    net = networks.lazy_metropolis(networks.load("ring:12"))
    for fraction in (0.5, 2.0):
        fractions = tuple([fraction] * 12)
        report = audit_problem(
            problem("learn", SignalDP(1.0, budget_fractions=fractions), net=net), 60_000
        )
        assert report.epsilon == fraction
        assert not report.refuted
        assert report.lower_bound > 0.8 * fraction


def test_a_dynamic_ball_holds_all_that_was_heard() -> None:
    net = networks.link_failures(networks.load("ring:20"), 0.5, seed=3)
    assert 5 in ball(net, 3, 3).members


def test_a_neighbour_is_attacked_too() -> None:
    fine = audit_neighbour(problem("learn-network", NetworkDP(1.0)), trials=40_000)
    assert not fine.refuted
    assert audit_neighbour(problem("average", NetworkDP(1.0)), trials=10_000).refuted


def test_what_cannot_be_audited_is_said() -> None:
    with pytest.raises(PrivacyError, match="nothing to audit"):
        audit_problem(problem(privacy=NoPrivacy()))
    family = MultivariateNormal(np.eye(2))
    source = SyntheticSignals(family, {"mu": np.zeros(2)}, 15, seed=1)
    todo = Problem(MIXING, algorithms.Average(), family, source, SignalDP(1.0), 5)
    with pytest.raises(PrivacyError, match="single numbers"):
        transcript_mechanism(todo, 0, 1, background=0.0)


def test_an_audit_holds_a_reading_to_what_is_stated_for_it() -> None:
    """A reading of a stream with one budget is guaranteed at epsilon/T, and was audited at epsilon."""
    todo = replace(problem("first-order-online"), rounds=20)
    made = guarantee_of(todo.privacy, todo.algorithm, 20, todo.family)
    report = audit_problem(todo, trials=1000, rng=1)
    assert report.epsilon == pytest.approx(made.epsilon) == pytest.approx(1 / 20)
    assert report.exact is not None
    assert report.exact <= report.epsilon * (1 + 1e-9)
