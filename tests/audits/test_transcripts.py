"""Audits of the laws as the simulator runs them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from murmura import laws, network
from murmura.audits import (
    adjacent,
    audit_neighbour,
    audit_problem,
    ball,
    message,
    transcript,
)
from murmura.engine import Drawn, Problem
from murmura.errors import PrivacyError
from murmura.families import (
    Bernoulli,
    Categorical,
    LogNormal,
    LogNormal1p,
    MultivariateNormal,
    Normal,
    Poisson,
)
from murmura.privacy import NetworkDP, NoPrivacy, SignalDP, audit, promise

MIXING = network.metropolis(network.load("florentine-families"))
GRID = network.metropolis(network.load("us-power-grid"))
FAMILY = LogNormal1p(sigma=1.0)


def problem(law="average", want=None, family=FAMILY, net=MIXING, rounds=20):
    made = laws.get(law, net) if isinstance(law, str) else law
    source = Drawn(family, {"mu": 1.0}, net.size, seed=1)
    return Problem(net, made, family, source, want or SignalDP(1.0), rounds)


PROVED = [
    name
    for name in laws.names()
    if name not in {"first-order", "first-order-edges"}  # nothing is promised for them
]


@pytest.mark.parametrize("name", PROVED)
def test_every_law_with_a_proved_promise_survives_several_rounds(name):
    todo = problem(name)
    assert promise(todo.want, todo.law).status == "proved"
    report = audit_problem(todo, trials=60_000, rng=1)
    assert not report.refuted, str(report)
    if not todo.law.splits_budget:
        assert report.lower_bound > 0.85  # the attack is a real one


@pytest.mark.parametrize("law", ["learn-network", "naive-network"])
def test_signals_survive_under_network_protection(law):
    report = audit_problem(problem(law, NetworkDP(1.0)), trials=60_000, rng=1)
    assert not report.refuted


@pytest.mark.parametrize("t", [2, 9])
@pytest.mark.parametrize("law", ["learn", "learn-network", "naive-network", "first-order-online"])
def test_one_message_hides_a_neighbours_estimate(law, t):
    """The promise of Network DP: proved, tight, and broken by nine tenths of the noise."""
    pair, tiny = [(0.0, 1.0)], {"radius": 1e-6}  # so that the neighbours set the scale
    todo = problem(law, NetworkDP(1.0, **tiny))
    assert promise(todo.want, todo.law).status == "proved"
    claim = 1.0 / todo.rounds if todo.law.splits_budget else 1.0
    report = audit(message(todo, 8, t), pair, claim, trials=200_000, rng=1)
    assert not report.refuted, str(report)
    if not todo.law.splits_budget:
        assert report.lower_bound > 0.9
        weak = problem(law, NetworkDP(1 / 0.85, **tiny))
        assert audit(message(weak, 8, t), pair, 1.0, trials=400_000, rng=1).refuted


def test_the_offline_average_shows_a_neighbours_estimate():
    """Erratum 5: from the second message on there is no noise that could hide it."""
    todo = problem("average", NetworkDP(1.0))
    assert promise(todo.want, todo.law).status == "refuted"
    report = audit(message(todo, 8, 1), [(0.0, 1.0)], 1.0, trials=10_000, rng=1)
    assert report.refuted
    assert report.spent_delta > 0.98


def test_the_first_order_method_is_caught_sending_the_statistic():
    report = audit_problem(problem("first-order"), trials=20_000, rng=1)
    assert report.refuted
    assert report.spent_delta > 0.9


def test_a_law_that_uses_its_signal_twice_is_caught():
    """The weakened twin: a second release of the signal with fresh noise in round 1."""

    class Twice(laws.Average):
        def coefficients(self, t):
            if t == 1:
                return laws.Coefficients(learn=1.0, noise=1.0)
            return super().coefficients(t)

    todo = problem(Twice())
    assert promise(todo.want, todo.law).status == "none"
    assert audit_problem(todo, trials=200_000, rng=1).refuted


def test_the_printed_noise_is_refuted_through_a_whole_scenario():
    want = SignalDP(1.0, delta=0.01, sensitivity="smooth-printed")
    report = audit_problem(problem("learn", want, LogNormal(sigma=1.0), GRID), 20_000, rng=1)
    assert report.refuted


def test_everyones_messages_tell_no_more_than_the_first_release():
    mechanism = transcript(problem("average"), agent=3, rounds=2, background=1.0, everyone=True)
    outputs = mechanism(0.0, 7, np.random.default_rng(1))
    assert outputs.shape == (7, 3 * 15)
    report = audit(mechanism, [(0.0, 1.0)], 1.0, trials=40_000, rng=1)
    assert not report.refuted
    assert report.lower_bound > 0.75


def test_a_ball_sends_what_the_whole_network_sends():
    agent, rounds = 100, 3
    whole = problem("learn-network", net=GRID)
    inside = ball(GRID, agent, rounds)
    assert inside.size < 100
    full = Problem(GRID, whole.law, FAMILY, _Flat(1.0, GRID.size), NoPrivacy(), rounds, seed=1)
    cut = Problem(inside, whole.law, FAMILY, _Flat(1.0, inside.size), NoPrivacy(), rounds, seed=1)
    from murmura.engine import Record, simulate

    a = simulate(full, Record(every=1, agents=[agent])).clean
    b = simulate(cut, Record(every=1, agents=[inside.labels[inside.centre]])).clean
    assert np.abs(a - b).max() < 1e-15


class _Flat:
    """Everyone has the signal 1.0 in every round."""

    varies, measured = False, False

    def __init__(self, value, agents):
        self.value, self.agents = value, agents

    def signals(self, t, replicas):  # noqa: ARG002 - the same always
        return np.full((self.agents, 1), self.value)

    def expected(self, family, rounds):  # noqa: ARG002 - nobody asks
        return np.zeros(1)

    def check(self, family, rounds):
        pass


def test_pairs_reach_the_edges_of_the_domain():
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
def test_every_domain_has_pairs_to_attack(family, radius):
    pairs = adjacent(family, radius)
    low, high = family.support.low, family.support.high
    assert (low, high) in pairs


def test_agents_with_budgets_of_their_own_are_held_to_them():
    net = network.lazy_metropolis(network.load("ring:12"))
    for share in (0.5, 2.0):
        shares = tuple([share] * 12)
        report = audit_problem(problem("learn", SignalDP(1.0, shares=shares), net=net), 60_000)
        assert report.epsilon == share
        assert not report.refuted
        assert report.lower_bound > 0.8 * share


def test_a_dynamic_ball_holds_all_that_was_heard():
    net = network.link_failures(network.load("ring:20"), 0.5, seed=3)
    assert 5 in ball(net, 3, 3).members


def test_a_neighbour_is_attacked_too():
    fine = audit_neighbour(problem("learn-network", NetworkDP(1.0)), trials=40_000)
    assert not fine.refuted
    assert audit_neighbour(problem("average", NetworkDP(1.0)), trials=10_000).refuted


def test_what_cannot_be_audited_is_said():
    with pytest.raises(PrivacyError, match="nothing to audit"):
        audit_problem(problem(want=NoPrivacy()))
    family = MultivariateNormal(np.eye(2))
    source = Drawn(family, {"mu": np.zeros(2)}, 15, seed=1)
    todo = Problem(MIXING, laws.Average(), family, source, SignalDP(1.0), 5)
    with pytest.raises(PrivacyError, match="single numbers"):
        transcript(todo, 0, 1, background=0.0)


def test_an_audit_holds_a_reading_to_what_is_printed_for_it():
    """A reading of a shared stream is promised at epsilon/T, and was audited at epsilon."""
    todo = replace(problem("first-order-online"), rounds=20)
    made = promise(todo.want, todo.law, 20, todo.family)
    report = audit_problem(todo, trials=1000, rng=1)
    assert report.epsilon == pytest.approx(made.epsilon) == pytest.approx(1 / 20)
    assert report.exact <= report.epsilon * (1 + 1e-9)
