"""Windows, streams, messages and everyone: what several readings together really spend."""

from typing import Any

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.real_scales import REPLICAS, Fixed, inside, real_scales
from tests.attacks.worst_moves import worst_move
from veilsum import algorithms, networks
from veilsum import families as f
from veilsum.privacy import NetworkDP, SignalDP, guarantee_of
from veilsum.simulation import Problem

ROUNDS, EPSILONS = 12, (0.1, 1.0)
FAMILIES = (
    f.LogNormal1p(1.0),
    f.Poisson(bounds=(0, 7)),
    f.NormalBoth(bounds=(-1.0, 2.0)),
    f.Categorical(3),
    f.MultivariateNormal(((1.0, 0.0), (0.0, 1.0))),
)
NETWORKS = (
    networks.lazy_metropolis(networks.load("star:5")),
    networks.link_failures(networks.load("ring:5"), 0.4, seed=3),
)
ONLINE = [  # a masked sum has noise for all members together: tests/auditing, test_masked_section9
    name for name, kind in algorithms.ALGORITHMS.items() if kind.online and not kind.summed
]


def losses_by_round(algorithm: Any, net: Any, family: Any, privacy: Any) -> Any:
    """(epsilons, rounds): exact loss of the reading of each round, of the agent that pays most."""
    source = Fixed(inside(family, net.size))
    todo = Problem(net, algorithm, family, source, privacy, ROUNDS, EPSILONS, REPLICAS)
    learn = np.array([abs(algorithm.at(t).innovation) for t in range(1, ROUNDS + 1)])
    scale = real_scales(todo)[:, 1:].min(axis=-1)
    return (learn[None, :, None] * worst_move(family, privacy.radius) / scale).max(axis=2)


def spent_delta(losses: Any, epsilon: Any) -> Any:
    """A lower bound of the delta that Laplace releases with these losses spend together.

    The privacy loss of one is l with probability 1/2, -l with e^-l/2, and has the density
    e^{(x-l)/2}/4 between. Losses are rounded down to a grid, which can only lower delta, and
    convolved.
    """
    h = 1e-3
    total, shift = np.ones(1), 0
    for loss in losses:
        k = int(loss / h)
        x = np.arange(-k, k) * h
        cells = (np.exp((x + h - k * h) / 2) - np.exp((x - k * h) / 2)) / 2
        mass = np.zeros(2 * k + 1)
        mass[:-1] += cells
        mass[0] += np.exp(-k * h) / 2
        mass[-1] += 0.5
        assert mass.sum() == pytest.approx(1.0)
        total, shift = np.convolve(total, mass), shift + k
    x = (np.arange(len(total)) - shift) * h
    return float((total * np.maximum(0.0, 1 - np.exp(epsilon - x))).sum())


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
@pytest.mark.parametrize("name", ONLINE)
def test_windows_and_streams_cost_what_is_guaranteed(name: Any, request_of: Any) -> None:
    tried = 0
    for net in NETWORKS:
        algorithm = algorithms.get(name, net)
        for family in FAMILIES:
            for row, epsilon in enumerate(EPSILONS):
                privacy = request_of(epsilon, radius=1.0)
                wide = guarantee_of(privacy, algorithm, ROUNDS, family)
                made = wide.against_everyone()
                if made.status != "proved":
                    continue
                losses = losses_by_round(algorithm, net, family, privacy)[row]
                for w in (1, 3, 7, ROUNDS):
                    worst = np.sort(losses)[-w:]
                    claims = [made.for_window(w), made.for_stream(w)]
                    if wide.status == "proved":  # asked for in the other order
                        claims += [wide.for_window(w), wide.for_window(w).against_everyone()]
                    for claim in claims:
                        assert worst.sum() <= claim.epsilon * (1 + 1e-9)
                        assert claim.delta == 0
                        tried += 1
                    tight = made.for_window(w, delta=1e-3)
                    assert spent_delta(worst, tight.epsilon) <= tight.delta * (1 + 1e-9)
                    tried += 1
    if not algorithm.ratio or request_of is SignalDP:
        assert tried > 0
    TRIED[f"windows and streams, {request_of.__name__}, {name}"] += tried


def test_an_epsilon_that_is_a_little_smaller_would_fall() -> None:
    """The weakened twin: with 0.97 of the tight epsilon, the delta is exceeded."""
    net, algorithm, family = NETWORKS[0], algorithms.Learn(), FAMILIES[0]
    privacy = SignalDP(1.0, radius=1.0)
    losses = losses_by_round(algorithm, net, family, privacy)[1]
    tight = guarantee_of(privacy, algorithm, ROUNDS, family).for_window(7, delta=1e-3)
    assert tight.epsilon < 7
    assert spent_delta(losses[:7], 0.97 * tight.epsilon) > 1e-3


def test_more_messages_cost_the_signals_nothing() -> None:
    for name in algorithms.names():
        net = NETWORKS[0]
        made = guarantee_of(SignalDP(1.0), algorithms.get(name, net), ROUNDS, FAMILIES[0])
        if made.status == "proved":
            assert made.for_messages(50).epsilon == made.epsilon
            assert made.against_everyone().epsilon == made.epsilon
            TRIED["more messages"] += 2


def test_per_agent_budgets_compose_at_the_largest() -> None:
    """An agent with twice the budget pays twice: the guarantee is made at the largest fraction."""
    net, algorithm, family = NETWORKS[0], algorithms.Learn(), FAMILIES[0]
    privacy = SignalDP(1.0, budget_fractions=(0.5, 2.0, 1.0, 1.0, 0.1), radius=1.0)
    losses = losses_by_round(algorithm, net, family, privacy)[1]
    made = guarantee_of(privacy, algorithm, ROUNDS, family)
    for w in (1, 4, ROUNDS):
        assert losses[:w].sum() == pytest.approx(made.for_window(w).epsilon)
        TRIED["windows with per-agent budgets"] += 1
