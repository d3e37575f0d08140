"""Every guarantee for neighbours' estimates that the API prints, by the exact loss."""

import math
from typing import Any

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.real_scales import Fixed, inside, real_scales
from tests.attacks.worst_moves import specimens
from veilsum import algorithms, networks
from veilsum.auditing import Messages, Transcript, estimate_moves, exact_loss
from veilsum.auditing.exact import scales
from veilsum.auditing.problem import adversaries, claim_for
from veilsum.errors import AlgorithmError
from veilsum.privacy import NetworkDP, Sees, Status, guarantee_of, network_cost
from veilsum.simulation import Problem

ROUNDS = 16
NETWORKS: dict[str, Any] = {
    "path": networks.metropolis(networks.load("path:5")),
    "star": networks.metropolis(networks.load("star:6")),
    "ring": networks.lazy_metropolis(networks.load("ring:7")),
    "link failures": networks.link_failures(networks.load("ring:6"), 0.4, seed=3),
    "asleep": networks.asleep(networks.load("star:5"), 0.3, seed=5),
    "sequence": networks.sequence([networks.load("ring:5"), networks.load("star:5")]),
    "constant": networks.best_constant(networks.load("florentine-families")),
}
FAMILIES = [family for family in specimens() if family.moves(1.0).finite]


def problems(net: Any) -> Any:
    for name in algorithms.names():
        try:
            algorithm = algorithms.get(name, net)
        except (AlgorithmError, AttributeError):
            continue
        for k, family in enumerate(FAMILIES[:: 3 if net.size < 8 else 9]):
            radius = (1e-6, 0.3, 1.0)[k % 3] if not family.support.integer else 1.0
            fractions = tuple(np.linspace(0.3, 2.0, net.size)) if k % 2 else None
            privacy = NetworkDP((0.1, 1.0, 3.0)[k % 3], radius=radius, budget_fractions=fractions)
            if guarantee_of(privacy, algorithm, ROUNDS, family).status is Status.PROVED:
                yield Problem(
                    net, algorithm, family, Fixed(inside(family, net.size)), privacy, ROUNDS
                )


@pytest.mark.parametrize("where", NETWORKS)
def test_an_estimate_that_moves_costs_what_is_claimed_for_it(where: Any) -> None:
    """The claim is `claim_for`: for the next message, a later one, all of them, two agents."""
    tried, closest = 0, 0.0
    for todo in problems(NETWORKS[where]):
        for k, (_, neighbour, moved, view) in enumerate(adversaries(todo)):
            if k % 5:
                continue
            loss = exact_loss(todo, estimate_moves(todo, neighbour, moved), view)
            claim = claim_for(todo, moved, view)
            assert loss <= claim * (1 + 1e-9), (todo.algorithm.name, todo.privacy, moved, view)
            tried, closest = tried + 1, max(closest, loss / claim)
    assert tried > 50
    assert closest > (0.3 if NETWORKS[where].dynamic else 0.99)
    TRIED[f"neighbours, {where}"] += tried
    print(f"{tried:,} attacks on neighbours' estimates on {where}")


@pytest.mark.parametrize("where", NETWORKS)
def test_the_simulator_adds_the_noise_that_the_exact_loss_reckons_with(where: Any) -> None:
    for todo in list(problems(NETWORKS[where]))[::7]:
        noises = np.array([abs(todo.algorithm.at(t).noise) for t in range(ROUNDS + 1)])[:, None]
        real = real_scales(_with_replicas(todo))[0].min(axis=-1)
        assert real == pytest.approx(noises * scales(todo), rel=1e-7, abs=1e-9)


def _with_replicas(todo: Any) -> Any:
    from dataclasses import replace

    return replace(todo, replicas=4)


@pytest.mark.parametrize("name", ["learn-network", "learn-dynamic", "learn-dynamic-as-published"])
def test_every_single_message_costs_at_most_what_is_stated_for_it(name: Any) -> None:
    """path:5, metropolis, epsilon = 1, moved in round 20, the message of round 50: 10.1.

    It used to be guaranteed at epsilon, whichever message it is; the weakened twin that says so falls.
    """
    net = NETWORKS["path"]
    algorithm, family = algorithms.get(name, net), FAMILIES[0]
    privacy = NetworkDP(1.0, radius=1e-6)
    made = guarantee_of(privacy, algorithm, 50, family)
    assert (made.adversary.sees, made.adversary.messages) == (Sees.NEXT, 1)
    todo = Problem(net, algorithm, family, Fixed(inside(family, 5)), privacy, 50)
    worst = 0.0
    for moved in (1, 5, 20):
        for t in (moved + 1, moved + 5, 50):
            loss = exact_loss(todo, estimate_moves(todo, 3, moved), Messages(((4, t),)))
            assert made.event is not None
            assert loss <= made.event.epsilon * network_cost(algorithm, moved, t) * (1 + 1e-9)
            assert loss <= made.for_transcript().epsilon * (1 + 1e-9)
            assert t > moved + 1 or loss <= made.epsilon * (1 + 1e-9)
            worst = max(worst, loss / made.epsilon)
            TRIED["neighbours' estimates"] += 3
    assert worst > 1.5  # "one message costs epsilon" is false


@pytest.mark.parametrize("k", [5, 20])
def test_several_messages_cost_at_most_what_is_stated_for_them(k: Any) -> None:
    """Messages far apart cost more than k times one: all that lies between moved as well."""
    net, algorithm, family = NETWORKS["path"], algorithms.LearnNetwork(), FAMILIES[0]
    privacy = NetworkDP(1.0, radius=1e-6)
    made = guarantee_of(privacy, algorithm, 400, family)
    todo = Problem(net, algorithm, family, Fixed(inside(family, 5)), privacy, 400)
    move = estimate_moves(todo, 3, 200)
    following = Messages(tuple((4, t) for t in range(201, 201 + k)))
    assert exact_loss(todo, move, following) <= made.for_messages(k).epsilon * (1 + 1e-9)
    apart = Messages(tuple((4, t) for t in np.linspace(300, 400, k).astype(int).tolist()))
    loss = exact_loss(todo, move, apart)
    assert made.for_messages(k).epsilon < loss <= network_cost(algorithm, 200, 400) * (1 + 1e-9)
    TRIED["neighbours' estimates"] += 2


def test_the_offline_average_is_not_called_proved() -> None:
    net, family = NETWORKS["path"], FAMILIES[0]
    privacy = NetworkDP(1.0, radius=1.0)
    assert guarantee_of(privacy, algorithms.Average(), ROUNDS, family).status is Status.REFUTED
    todo = Problem(net, algorithms.Average(), family, Fixed(inside(family, 5)), privacy, ROUNDS)
    loss = exact_loss(todo, estimate_moves(todo, 3, 1), Transcript((4,), 2))
    assert loss == math.inf
