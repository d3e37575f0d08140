"""Every guarantee for signals that the API prints, against the worst pair of signals there is.

For every algorithm, family, request, sensitivity, radius, epsilon, network and fraction of the budget
for which `guarantee_of` says `proved` and `plan` succeeds: the worst move of the statistic by
brute force, over the noise that the simulator really adds, against whoever sees all messages of all
agents. No sampling, so no false alarm.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.real_scales import REPLICAS, Fixed, inside, real_scales
from tests.attacks.worst_moves import attacks
from veilsum import algorithms, networks
from veilsum.auditing import Transcript, exact_loss, signal_moves
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.paper import allocation
from veilsum.privacy import NetworkDP, SignalDP, guarantee_of
from veilsum.simulation import Problem

ROUNDS, EPSILONS, ROUNDING = 4, (0.1, 1.0, 4.0), 1 + 1e-9
ARCS = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]])


def tried_networks() -> Any:
    ring, star = networks.load("ring:5"), networks.load("star:5")
    yield "star", networks.metropolis(star)
    yield "link failures", networks.link_failures(ring, 0.4, seed=3)
    yield "sequence", networks.sequence([ring, star])
    yield "directed rows", networks.row_stochastic(networks.as_graph(ARCS))
    yield "directed columns", networks.column_stochastic(networks.as_graph(ARCS))


NETWORKS = dict(tried_networks())
IN_FULL = {"average", "learn-network", "push-sum-learn"}  # with every family and radius


def problem_of(
    algorithm: Any, net: Any, family: Any, privacy: Any, rounds: Any = ROUNDS, values: Any = None
) -> Any:
    source = Fixed(inside(family, net.size) if values is None else values)
    return Problem(net, algorithm, family, source, privacy, rounds, EPSILONS, REPLICAS)


def exact_losses(todo: Any, move: Any) -> Any:
    """(epsilons, agents): of the reading that costs most, against whoever sees everything."""
    learn = np.array([abs(todo.algorithm.at(t).innovation) for t in range(todo.rounds + 1)])
    scale = real_scales(todo)
    assert np.ptp(scale, axis=-1).max() <= 1e-9 * scale.max()  # components alike
    with np.errstate(divide="ignore", invalid="ignore"):
        each = learn[None, :, None] * move / scale.min(axis=-1)
    each = np.nan_to_num(each, nan=0.0, posinf=np.inf)
    return each.max(axis=1) if todo.algorithm.online else each.sum(axis=1)


def algorithms_for(net: Any) -> Any:
    """All whose estimates are what is sent; tests/algorithms has the exact loss of the other one."""
    for name in algorithms.names():
        if algorithms.ALGORITHMS[name].perturbs_messages or algorithms.ALGORITHMS[name].summed:
            continue
        try:
            yield algorithms.get(name, net)
        except (
            AlgorithmError,
            AttributeError,
        ):  # chebyshev asks a directed network for its spectrum
            continue


def all_fractions(net: Any, family: Any, radius: Any) -> Any:
    """One budget for all; per-agent budgets; those that agents find among themselves."""
    n = net.size
    yield None
    yield tuple(np.linspace(0.3, 2.0, n).tolist())
    if net.kind == "doubly-stochastic" and not net.dynamic:
        D = family.moves(radius).l1 * np.linspace(0.5, 2.0, n)
        yield tuple(allocation.decentralised(D, 1.0, net).epsilons.tolist())
        yield tuple(allocation.optimal(D, 1.0, cap=1.5).epsilons.tolist())


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
@pytest.mark.parametrize("where", NETWORKS)
def test_no_pair_of_signals_costs_more_than_is_guaranteed(where: Any, request_of: Any) -> None:
    net, tried = NETWORKS[where], 0
    for algorithm in algorithms_for(net):
        for k, (family, radius, move) in enumerate(attacks()):
            if algorithm.name not in IN_FULL and k % 4:
                continue
            every = list(all_fractions(net, family, radius))
            for fractions in every if k % 7 == 0 else every[k % len(every) :][:1]:
                privacy = request_of(1.0, radius=radius, budget_fractions=fractions)
                made = guarantee_of(privacy, algorithm, ROUNDS, family)
                alone = made.against_everyone() if made.unit.neighbours else made
                if alone.status != "proved":
                    continue
                losses = exact_losses(problem_of(algorithm, net, family, privacy), move)
                fraction = np.array(fractions or [1.0] * net.size)
                claim = np.outer(EPSILONS, alone.epsilon * fraction / fraction.max())
                assert (losses <= claim * ROUNDING).all(), (algorithm.name, family, privacy)
                tried += losses.size
    assert tried > 100
    TRIED[f"signals, {request_of.__name__}, {where}"] += tried
    print(f"{tried:,} attacks on signals under {request_of.__name__} on {where}")


def test_noise_that_is_a_little_short_would_be_found() -> None:
    """The weakened twin: a thousandth of the noise missing, by the same measure."""
    net, algorithm = NETWORKS["star"], algorithms.LearnNetwork()
    for family, radius, move in attacks():
        privacy = SignalDP(1.0, radius=radius)
        losses = exact_losses(problem_of(algorithm, net, family, privacy), move)
        claim = np.outer(EPSILONS, np.ones(net.size))
        assert losses.max(axis=1) / EPSILONS == pytest.approx(1.0, rel=2e-3), (family, radius)
        assert (losses / 0.995 > claim * ROUNDING).all()


@pytest.mark.parametrize("name", ["average", "learn", "learn-network", "jacobi", "push-sum-learn"])
def test_the_audit_that_knows_the_noise_agrees(name: Any) -> None:
    net, family = NETWORKS["star"], attacks()[0][0]
    algorithm, privacy = algorithms.get(name, net), SignalDP(1.0, radius=1.0)
    todo = problem_of(algorithm, net, family, privacy)
    alone = replace(todo, epsilons=())
    found = exact_loss(alone, signal_moves(alone, 2, 0.8), Transcript(tuple(range(5)), ROUNDS))
    assert found == pytest.approx(exact_losses(todo, 0.8)[1, 2], rel=1e-9)


def test_what_has_no_finite_sensitivity_is_refused() -> None:
    """Nothing slips through with no noise at all: infinite sensitivities raise."""
    from tests.attacks.worst_moves import RADII, specimens

    net, refused = NETWORKS["star"], 0
    for family in specimens():
        for radius in RADII:
            if not family.moves(max(radius, 1.0)).finite:
                refused += 1
                with pytest.raises(PrivacyError, match="infinite global sensitivity"):
                    real_scales(
                        problem_of(
                            algorithms.Learn(), net, family, SignalDP(1.0, radius=max(radius, 1))
                        )
                    )
    assert refused > 5
