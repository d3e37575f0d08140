"""What Network DP claims holds for every linear algorithm, network, move and view that is tried."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.algorithms import Algorithm, Coefficients
from veilsum.auditing import Messages, Transcript, estimate_moves, exact_loss
from veilsum.auditing.problem import claim_for
from veilsum.families import Normal
from veilsum.privacy import NetworkDP, guarantee_of, network_cost
from veilsum.simulation import Problem, SyntheticSignals

FAMILY = Normal(sigma=1.0)
ROUNDING = 1 + 1e-6  # of the linear programme


@dataclass(frozen=True)
class RandomAlgorithm(Algorithm):
    """Random coefficients, noise in every round; the rules of the guarantee hold for it as well."""

    seed: int = 0
    name: ClassVar[str] = "any"
    reference: ClassVar[str] = "a test"
    formula: ClassVar[str] = "nu_t = ..."
    start: ClassVar[Coefficients] = Coefficients(innovation=1.0, noise=1.0)

    def coefficients(self, t: Any) -> Any:
        draw = np.random.default_rng([self.seed, t])
        own, mixing, momentum = draw.uniform(-1.2, 1.2, 3) * draw.integers(0, 2, 3)
        return Coefficients(own, mixing or 0.5, momentum, 0.0, draw.uniform(0.2, 2.0))


def proved() -> list[str]:
    net = networks.metropolis(networks.load("path:5"))
    made = {name: algorithms.get(name, net) for name in algorithms.names()}
    asked = NetworkDP(1.0)
    return [n for n, each in made.items() if guarantee_of(asked, each, 10).status == "proved"]


PROVED = [*proved(), "any"]


def test_algorithms_with_a_proved_guarantee_are_attacked() -> None:
    assert set(PROVED) >= {
        "learn", "learn-network", "learn-dynamic", "learn-dynamic-as-published", "naive-network",
    }  # fmt: skip


def network_of(rng: Any) -> Any:
    """A connected graph of a random kind, fixed or changing from round to round."""
    size, seed = int(rng.integers(4, 10)), int(rng.integers(1000))
    kinds = (
        lambda: networks.load(f"path:{size}"),
        lambda: networks.load(f"ring:{size}"),
        lambda: networks.load(f"star:{size}"),
        lambda: networks.watts_strogatz(size, 4, 0.3, seed=seed) if size > 5
        else networks.load(f"complete:{size}"),
    )  # fmt: skip
    graph = kinds[int(rng.integers(4))]()
    weights = int(rng.integers(4))
    if weights == 0:
        return networks.lazy_metropolis(graph)
    if weights == 1:
        return networks.link_failures(graph, 0.4, seed=seed)
    if weights == 2:
        return networks.asleep(graph, 0.3, seed=seed)
    return networks.max_degree(graph) if seed % 2 else networks.lazy_metropolis(graph)


def case(name: Any, seed: Any) -> Any:
    """A problem, a move and a view, at random."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    net, rounds = network_of(rng), int(rng.integers(4, 12))
    algorithm = RandomAlgorithm(seed) if name == "any" else algorithms.get(name, net)
    fractions = tuple(rng.uniform(0.3, 2.0, net.size).tolist()) if seed % 2 else None
    privacy = NetworkDP(float(rng.choice([0.1, 1.0, 3.0])), radius=10.0 ** rng.uniform(-6, 0),
                     budget_fractions=fractions)  # fmt: skip
    source = SyntheticSignals(FAMILY, {"mu": 0.0}, net.size, seed=1)
    todo = Problem(net, algorithm, FAMILY, source, privacy, rounds)
    moved = int(rng.integers(0 if any(algorithm.start) else 1, rounds))
    last = int(rng.integers(moved + 1, rounds + 1))
    agents = rng.permutation(net.size)
    seen, mover = tuple(agents[: int(rng.integers(1, 4))].tolist()), int(agents[-1])
    if seed % 3 == 0:
        count = int(rng.integers(1, 5))
        pairs = {(int(rng.choice(seen)), int(rng.integers(moved + 1, last + 1)))
                 for _ in range(count)}  # fmt: skip
        return todo, estimate_moves(todo, mover, moved), Messages(tuple(sorted(pairs)))
    return todo, estimate_moves(todo, mover, moved), Transcript(seen, last)


@pytest.mark.parametrize("name", PROVED)
def test_the_exact_loss_never_exceeds_the_claim(name: Any) -> None:
    worst = 0.0
    for seed in range(60):
        todo, move, view = case(name, seed)
        loss, claim = exact_loss(todo, move, view), claim_for(todo, move.first, view)
        assert loss <= claim * ROUNDING, (name, seed, view, loss, claim)
        worst = max(worst, loss / claim)
    assert worst > 0.3  # the claim is of the right size


@pytest.mark.parametrize("name", ["learn-network", "learn-dynamic-as-published", "any"])
def test_a_claim_of_one_epsilon_for_a_message_falls(name: Any) -> None:
    """The weakened twin: `one message costs epsilon`, whichever and whenever it is sent."""
    net = networks.metropolis(networks.load("florentine-families"))
    algorithm = RandomAlgorithm(5) if name == "any" else algorithms.get(name, net)
    source = SyntheticSignals(FAMILY, {"mu": 0.0}, net.size, seed=1)
    todo = Problem(net, algorithm, FAMILY, source, NetworkDP(1.0, radius=1e-6), 30)
    losses = [
        exact_loss(todo, estimate_moves(todo, j, 8), Messages(((i, t),)))
        for i, j in ((10, 9), (1, 0), (8, 13), (0, 8))
        for t in (9, 10, 12, 20, 30)
    ]
    assert max(losses) > 1.2
    assert all(loss <= network_cost(algorithm, 8, 30) * ROUNDING for loss in losses)


def test_the_cost_of_learn_network_is_a_harmonic_sum() -> None:
    algorithm = algorithms.LearnNetwork()
    for s, t in ((1, 2), (5, 6), (20, 50)):
        assert network_cost(algorithm, s, t) == pytest.approx(s * sum(1 / u for u in range(s, t)))
    assert network_cost(algorithm, 20, 50, agents=3) == pytest.approx(
        3 * network_cost(algorithm, 20, 50)
    )
