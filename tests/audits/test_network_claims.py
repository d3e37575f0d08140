"""What Network DP claims holds for every linear algorithm, network, move and view that is tried."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from murmura import laws, network
from murmura.audits import Messages, Transcript, estimate_moves, exact_loss
from murmura.audits.scenario import claim_for
from murmura.engine import Drawn, Problem
from murmura.families import Normal
from murmura.laws import Coefficients, Law
from murmura.privacy import NetworkDP, network_cost, promise

FAMILY = Normal(sigma=1.0)
ROUNDING = 1 + 1e-6  # of the linear programme


@dataclass(frozen=True)
class AnyLaw(Law):
    """Random coefficients, noise in every round; the rules of the promise hold for it as well."""

    seed: int = 0
    name: ClassVar[str] = "any"
    reference: ClassVar[str] = "a test"
    formula: ClassVar[str] = "nu_t = ..."
    start: ClassVar[Coefficients] = Coefficients(learn=1.0, noise=1.0)

    def coefficients(self, t):
        draw = np.random.default_rng([self.seed, t])
        keep, mix, recall = draw.uniform(-1.2, 1.2, 3) * draw.integers(0, 2, 3)
        return Coefficients(keep, mix or 0.5, recall, 0.0, draw.uniform(0.2, 2.0))


PROVED = [
    "learn", "learn-network", "learn-dynamic", "learn-dynamic-printed", "naive-network",
    "first-order-online", "any",
]  # fmt: skip


def test_these_are_all_algorithms_with_a_proved_promise():
    net = network.metropolis(network.load("path:5"))
    proved = {
        name
        for name in laws.names()
        if promise(NetworkDP(1.0), laws.get(name, net), 10).status == "proved"
    }
    assert proved <= set(PROVED)


def network_of(rng):
    """A connected graph of a random kind, fixed or changing from round to round."""
    size, seed = int(rng.integers(4, 10)), int(rng.integers(1000))
    kinds = (
        lambda: network.load(f"path:{size}"),
        lambda: network.load(f"ring:{size}"),
        lambda: network.load(f"star:{size}"),
        lambda: network.watts_strogatz(size, 4, 0.3, seed=seed) if size > 5
        else network.load(f"complete:{size}"),
    )  # fmt: skip
    graph = kinds[int(rng.integers(4))]()
    weights = int(rng.integers(4))
    if weights == 0:
        return network.lazy_metropolis(graph)
    if weights == 1:
        return network.link_failures(graph, 0.4, seed=seed)
    if weights == 2:
        return network.asleep(graph, 0.3, seed=seed)
    return network.max_degree(graph) if seed % 2 else network.lazy_metropolis(graph)


def case(name, seed):
    """A problem, a move and a view, at random."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    net, rounds = network_of(rng), int(rng.integers(4, 12))
    law = AnyLaw(seed) if name == "any" else laws.get(name, net)
    shares = tuple(rng.uniform(0.3, 2.0, net.size).tolist()) if seed % 2 else None
    want = NetworkDP(float(rng.choice([0.1, 1.0, 3.0])), radius=10.0 ** rng.uniform(-6, 0),
                     shares=shares)  # fmt: skip
    source = Drawn(FAMILY, {"mu": 0.0}, net.size, seed=1)
    todo = Problem(net, law, FAMILY, source, want, rounds)
    moved = int(rng.integers(0 if name in {"naive-network", "any"} else 1, rounds))
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
def test_the_exact_loss_never_exceeds_the_claim(name):
    worst = 0.0
    for seed in range(60):
        todo, move, view = case(name, seed)
        loss, claim = exact_loss(todo, move, view), claim_for(todo, move.first, view)
        assert loss <= claim * ROUNDING, (name, seed, view, loss, claim)
        worst = max(worst, loss / claim)
    assert worst > 0.3  # the claim is of the right size


@pytest.mark.parametrize("name", ["learn-network", "learn-dynamic-printed", "any"])
def test_a_claim_of_one_epsilon_for_a_message_falls(name):
    """The weakened twin: `one message costs epsilon`, whichever and whenever it is sent."""
    net = network.metropolis(network.load("florentine-families"))
    law = AnyLaw(5) if name == "any" else laws.get(name, net)
    source = Drawn(FAMILY, {"mu": 0.0}, net.size, seed=1)
    todo = Problem(net, law, FAMILY, source, NetworkDP(1.0, radius=1e-6), 30)
    losses = [
        exact_loss(todo, estimate_moves(todo, j, 8), Messages(((i, t),)))
        for i, j in ((10, 9), (1, 0), (8, 13), (0, 8))
        for t in (9, 10, 12, 20, 30)
    ]
    assert max(losses) > 1.2
    assert all(loss <= network_cost(law, 8, 30) * ROUNDING for loss in losses)


def test_the_cost_of_learn_network_is_a_harmonic_sum():
    law = laws.LearnNetwork()
    for s, t in ((1, 2), (5, 6), (20, 50)):
        assert network_cost(law, s, t) == pytest.approx(s * sum(1 / u for u in range(s, t)))
    assert network_cost(law, 20, 50, agents=3) == pytest.approx(3 * network_cost(law, 20, 50))
