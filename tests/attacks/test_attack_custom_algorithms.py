"""Custom algorithms: whatever `guarantee_of` calls proved, holds; generated at random.

Coefficients come and go, noise is negative or missing, the signal is used late, twice or never,
rounds share a budget or not, and the stated sensitivities are right, too large or too small.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.real_scales import REPLICAS, Fixed, inside, real_scales
from veilsum import networks
from veilsum.algorithms import Algorithm, Coefficients, Sensitivities
from veilsum.auditing import Messages, Transcript, estimate_moves, exact_loss
from veilsum.auditing.problem import claim_for
from veilsum.families import LogNormal1p
from veilsum.privacy import NetworkDP, SignalDP, guarantee_of
from veilsum.simulation import Problem

FAMILY, MOVE, ROUNDS = LogNormal1p(1.0), np.log(2.0), 5
NETWORKS = (
    networks.metropolis(networks.load("star:4")),
    networks.link_failures(networks.load("ring:5"), 0.4, seed=3),
    networks.lazy_metropolis(networks.load("path:4")),
)
ALGORITHMS = 400


@dataclass(frozen=True)
class RandomAlgorithm(Algorithm):
    """Coefficients drawn at random, round by round."""

    seed: int = 0
    name: ClassVar[str] = "any"
    reference: ClassVar[str] = "a test"
    formula: ClassVar[str] = "nu_t = ..."
    start: ClassVar[Coefficients] = Coefficients()

    def at(self, t: Any) -> Any:
        rng = np.random.default_rng([self.seed, 1 + t])
        own, mixing, momentum = rng.uniform(-1.2, 1.2, 3) * (rng.random(3) < 0.7) * (t > 0)
        uses = np.random.default_rng([self.seed, 0]).random(2)
        innovation = rng.uniform(-2, 2) * (rng.random() < uses[0])
        noise = rng.uniform(-2, 2) * (rng.random() < max(uses[1], 0.6))
        return Coefficients(own, mixing, momentum, innovation, noise)

    def coefficients(self, t: Any) -> Any:
        return self.at(t)

    def sensitivities(self, t: Any) -> Any:
        rng = np.random.default_rng([self.seed, 1000])
        factors = rng.choice([1.0, 1.0, 1.0, 1.5, 0.7], 2)
        return Sensitivities(*(np.array(super().sensitivities(t)) * factors).tolist())


def algorithm_of(seed: Any) -> Any:
    """One of four kinds of algorithm: online or not, one budget shared or not."""
    rng = np.random.default_rng([seed, 7])
    kind = {"online": bool(rng.integers(2)), "splits_budget": bool(rng.integers(2))}
    made = type(
        "RandomAlgorithm", (RandomAlgorithm,), {**kind, "start": RandomAlgorithm(seed).at(0)}
    )
    return made(seed)


def losses(todo: Any) -> Any:
    """The loss of the signal that costs most, against whoever sees everything."""
    innovation = np.array([abs(todo.algorithm.at(t).innovation) for t in range(todo.rounds + 1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        each = innovation[None, :, None] * MOVE / real_scales(todo).min(axis=-1)
    each = np.nan_to_num(each, nan=0.0, posinf=np.inf)
    if todo.algorithm.online:  # a reading is used in its round; the first also at the start
        each[:, 1] += each[:, 0]
        return float(each[:, 1:].max())
    return float(each.sum(axis=1).max())


@pytest.mark.parametrize("request_of", [SignalDP, NetworkDP])
def test_what_is_called_proved_holds_for_the_signals(request_of: Any) -> None:
    proved = refused = 0
    for seed in range(ALGORITHMS):
        algorithm, net = algorithm_of(seed), NETWORKS[seed % 3]
        made = guarantee_of(request_of(1.0, radius=1.0), algorithm, ROUNDS, FAMILY)
        alone = made.signals or made
        source = Fixed(inside(FAMILY, net.size))
        todo = Problem(
            net, algorithm, FAMILY, source, request_of(1.0, radius=1.0), ROUNDS, (), REPLICAS
        )
        if alone.status == "proved":
            proved += 1
            assert losses(todo) <= alone.epsilon * (1 + 1e-9), seed
        else:
            refused += 1
    assert proved > 10
    assert refused > 10
    TRIED[f"own algorithms, signals, {request_of.__name__}"] += proved
    print(f"{proved} of {ALGORITHMS} random algorithms are called proved")


def test_what_is_called_proved_holds_for_the_neighbours() -> None:
    tried = 0
    for seed in range(ALGORITHMS):
        algorithm, net = algorithm_of(seed), NETWORKS[seed % 3]
        if guarantee_of(NetworkDP(1.0, radius=1e-6), algorithm, ROUNDS, FAMILY).status != "proved":
            continue
        todo = Problem(net, algorithm, FAMILY, Fixed(inside(FAMILY, net.size)),
                       NetworkDP(1.0, radius=1e-6), ROUNDS)  # fmt: skip
        for moved in range(ROUNDS):
            for view in (
                Transcript((0,), moved + 1), Transcript((0,), ROUNDS), Messages(((0, ROUNDS),)),
                Transcript((0, 2), ROUNDS), Messages(((0, ROUNDS), (2, moved + 1))),
            ):  # fmt: skip
                loss = exact_loss(todo, estimate_moves(todo, 1, moved), view)
                assert loss <= claim_for(todo, moved, view) * (1 + 1e-6), (seed, moved, view)
                tried += 1
    assert tried > 50
    TRIED["own algorithms, neighbours"] += tried


def test_a_guarantee_that_looked_at_nothing_would_fall() -> None:
    """The weakened twin: if every algorithm were called proved, most would be caught."""
    caught = 0
    for seed in range(60):
        algorithm, net = algorithm_of(seed), NETWORKS[seed % 3]
        source = Fixed(inside(FAMILY, net.size))
        todo = Problem(net, algorithm, FAMILY, source, SignalDP(1.0), ROUNDS, (), REPLICAS)
        caught += losses(todo) > 1 + 1e-9
    assert caught > 20
