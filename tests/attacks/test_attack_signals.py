"""Every guarantee for signals that the API prints, against the worst pair of signals there is.

For every algorithm, family, request, sensitivity, radius, epsilon, network and share of the budget
for which `promise` says `proved` and `calibrate` succeeds: the worst move of the statistic by brute
force, over the noise that the simulator really adds, against whoever sees all messages of all
agents. No sampling, so no false alarm.
"""

from dataclasses import replace

import numpy as np
import pytest
from attack_count import TRIED
from real_scales import REPLICAS, Fixed, inside, real_scales
from worst_moves import attacks

from murmura import laws, network
from murmura.audits import Transcript, exact_loss, signal_moves
from murmura.engine import Problem
from murmura.errors import LawError, PrivacyError
from murmura.privacy import NetworkDP, SignalDP, budgets, promise

ROUNDS, EPSILONS, ROUNDING = 4, (0.1, 1.0, 4.0), 1 + 1e-9
ARCS = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]])


def networks():
    ring, star = network.load("ring:5"), network.load("star:5")
    yield "star", network.metropolis(star)
    yield "link failures", network.link_failures(ring, 0.4, seed=3)
    yield "sequence", network.sequence([ring, star])
    yield "directed rows", network.row_stochastic(network.as_graph(ARCS))
    yield "directed columns", network.column_stochastic(network.as_graph(ARCS))


NETWORKS = dict(networks())
IN_FULL = {"average", "learn-network", "push-sum-learn"}  # with every family and radius


def problem_of(law, net, family, want, rounds=ROUNDS, values=None):
    source = Fixed(inside(family, net.size) if values is None else values)
    return Problem(net, law, family, source, want, rounds, EPSILONS, REPLICAS)


def exact_losses(todo, move):
    """(epsilons, agents): of the reading that costs most, against whoever sees everything."""
    learn = np.array([abs(todo.law.at(t).learn) for t in range(todo.rounds + 1)])
    scale = real_scales(todo)
    assert np.ptp(scale, axis=-1).max() <= 1e-9 * scale.max()  # components alike
    with np.errstate(divide="ignore", invalid="ignore"):
        each = learn[None, :, None] * move / scale.min(axis=-1)
    each = np.nan_to_num(each, nan=0.0, posinf=np.inf)
    return each.max(axis=1) if todo.law.online else each.sum(axis=1)


def laws_for(net):
    """All whose estimates are what is sent; tests/laws has the exact loss of the other one."""
    for name in laws.names():
        if laws.LAWS[name].noises_messages:
            continue
        try:
            yield laws.get(name, net)
        except (LawError, AttributeError):  # chebyshev asks a directed network for its spectrum
            continue


def all_shares(net, family, radius):
    """One budget for all; budgets of one's own; those that agents find among themselves."""
    n = net.size
    yield None
    yield tuple(np.linspace(0.3, 2.0, n).tolist())
    if net.kind == "doubly-stochastic" and not net.dynamic:
        D = family.sensitivity(radius).value * np.linspace(0.5, 2.0, n)
        yield tuple(budgets.decentralised(D, 1.0, net).epsilons.tolist())
        yield tuple(budgets.optimal(D, 1.0, cap=1.5).epsilons.tolist())


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
@pytest.mark.parametrize("where", NETWORKS)
def test_no_pair_of_signals_costs_more_than_is_promised(where, request_of):
    net, tried = NETWORKS[where], 0
    for law in laws_for(net):
        for k, (family, radius, move) in enumerate(attacks()):
            if law.name not in IN_FULL and k % 4:
                continue
            every = list(all_shares(net, family, radius))
            for shares in every if k % 7 == 0 else every[k % len(every) :][:1]:
                want = request_of(1.0, radius=radius, shares=shares)
                made = promise(want, law, ROUNDS, family)
                alone = made.against_everyone() if made.unit.neighbours else made
                if alone.status != "proved":
                    continue
                losses = exact_losses(problem_of(law, net, family, want), move)
                share = np.array(shares or [1.0] * net.size)
                claim = np.outer(EPSILONS, alone.epsilon * share / share.max())
                assert (losses <= claim * ROUNDING).all(), (law.name, family, want)
                tried += losses.size
    assert tried > 100
    TRIED[f"signals, {request_of.__name__}, {where}"] += tried
    print(f"{tried:,} attacks on signals under {request_of.__name__} on {where}")


def test_noise_that_is_a_little_short_would_be_found():
    """The weakened twin: a thousandth of the noise missing, by the same measure."""
    net, law = NETWORKS["star"], laws.LearnNetwork()
    for family, radius, move in attacks():
        want = SignalDP(1.0, radius=radius)
        losses = exact_losses(problem_of(law, net, family, want), move)
        claim = np.outer(EPSILONS, np.ones(net.size))
        assert losses.max(axis=1) / EPSILONS == pytest.approx(1.0, rel=2e-3), (family, radius)
        assert (losses / 0.995 > claim * ROUNDING).all()


@pytest.mark.parametrize("name", ["average", "learn", "learn-network", "jacobi", "push-sum-learn"])
def test_the_audit_that_knows_the_noise_agrees(name):
    net, family = NETWORKS["star"], attacks()[0][0]
    law, want = laws.get(name, net), SignalDP(1.0, radius=1.0)
    todo = problem_of(law, net, family, want)
    alone = replace(todo, epsilons=())
    found = exact_loss(alone, signal_moves(alone, 2, 0.8), Transcript(tuple(range(5)), ROUNDS))
    assert found == pytest.approx(exact_losses(todo, 0.8)[1, 2], rel=1e-9)


def test_what_has_no_finite_sensitivity_is_refused():
    """Nothing slips through with no noise at all: infinite sensitivities raise."""
    from worst_moves import RADII, specimens

    net, refused = NETWORKS["star"], 0
    for family in specimens():
        for radius in RADII:
            if not family.sensitivity(max(radius, 1.0)).finite:
                refused += 1
                with pytest.raises(PrivacyError, match="infinite global sensitivity"):
                    real_scales(
                        problem_of(laws.Learn(), net, family, SignalDP(1.0, radius=max(radius, 1)))
                    )
    assert refused > 5
