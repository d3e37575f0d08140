"""Problems for the tests, made alike by the test and by every rank of a job."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import algorithms, families, networks
from veilsum.networks import Mixing
from veilsum.privacy import Batches, MaskedDP, NetworkDP, NoPrivacy, SignalDP
from veilsum.signals import as_signals
from veilsum.simulation import Problem, RecordedSignals, SyntheticSignals

SIZE = 300
HERE = Path(__file__).parent


@cache
def graph(size: int = SIZE) -> Any:
    return networks.join(networks.random_geometric(size, mean_degree=6, seed=3))


def _made(
    net: Any,
    algorithm: Any,
    privacy: Any,
    rounds: Any = 12,
    source: Any = None,
    replicas: Any = 2,
    epsilons: Any = (0.5, 2.0),
    family: Any = None,
    **options: Any,
) -> Problem:
    family = family or families.get("normal", sigma=1.0)
    made = algorithms.get(algorithm, net, **options)
    given = source(net) if source else SyntheticSignals(family, {"mu": 3.0}, net.size, 5)
    return Problem(net, made, family, given, privacy, rounds, epsilons, replicas, seed=7)


def mixing() -> Mixing:
    return networks.metropolis(graph())


def readings(rounds: int = 12) -> Any:
    def source(net: Any) -> Any:
        values = np.random.default_rng(1).normal(3.0, 1.0, (net.size, rounds))
        return RecordedSignals(as_signals(values, labels=net.labels))

    return source


class Blocked(SyntheticSignals):
    """Signals drawn in blocks of agents, any stretch of them alone."""

    block = 64

    def signals(self, t: Any, replicas: Any) -> Any:
        return self.signals_of(t, replicas, 0, self.agents)

    def signals_of(self, t: Any, replicas: Any, first: Any, last: Any) -> Any:
        drawn = [
            np.random.default_rng([self.seed, t, b]).normal(3.0, 1.0, (replicas, self.block)).T
            for b in range(first // self.block, -(-last // self.block))
        ]
        start = first // self.block * self.block
        return np.concatenate(drawn)[first - start : last - start]


def blocked(net: Any) -> Any:
    return Blocked(families.get("normal", sigma=1.0), {"mu": 3.0}, net.size, 5)


def custom(held: Any) -> Any:
    """A custom family whose statistic holds something."""
    support = families.Support(-100.0, 100.0)
    return families.Custom(lambda s: s + 0.0 * (held is None), support, 1.0)


CASES: dict[str, Callable[[], Problem]] = {
    "average": lambda: _made(mixing(), "average", SignalDP(1.0, radius=1.0)),
    "average-network": lambda: _made(mixing(), "average", NetworkDP(1.0, radius=1.0), replicas=11),
    "learn": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0), replicas=3),
    "learn-network": lambda: _made(mixing(), "learn-network", NetworkDP(1.0, radius=1.0)),
    "measured": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0), source=readings()),
    "bare": lambda: _made(mixing(), "average", NoPrivacy(), epsilons=(), replicas=1),
    # its spectrum is given: Lanczos on another number of threads differs in the last digit
    "chebyshev": lambda: _made(
        mixing(), "chebyshev", SignalDP(1.0, radius=1.0), lambda_2=0.99, lambda_n=-0.4, replicas=1
    ),
    "dealt": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0), source=blocked),
    "together": lambda: _made(
        mixing(), "learn", NetworkDP(1.0, radius=1.0), epsilons=(0.5, 1.0, 2.0), replicas=3
    ),
    "together-momentum": lambda: _made(
        mixing(),
        "chebyshev",
        SignalDP(1.0, radius=1.0),
        lambda_2=0.99,
        lambda_n=-0.4,
        replicas=1,
        epsilons=(0.5, 1.0, 2.0),
    ),
    "long": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0), rounds=60),
    "carried": lambda: _made(mixing(), "graph-homomorphic", SignalDP(1.0, radius=1.0)),
    "edges": lambda: _made(mixing(), "first-order-edges", NetworkDP(1.0, radius=1.0)),
    "push-sum": lambda: _made(
        networks.column_stochastic(graph()), "push-sum", SignalDP(1.0, radius=1.0)
    ),
    "row": lambda: _made(networks.row_stochastic(graph()), "average", SignalDP(1.0, radius=1.0)),
    "failures": lambda: _made(
        networks.link_failures(graph(), 0.3), "average", SignalDP(1.0, radius=1.0)
    ),
    "sequence": lambda: _made(
        networks.sequence([graph(), networks.ring(SIZE)]),
        "learn-dynamic",
        NetworkDP(1.0, radius=1.0),
    ),
    "measured-failures": lambda: _made(
        networks.link_failures(graph(), 0.3),
        "learn-dynamic",
        SignalDP(1.0, radius=1.0),
        source=readings(),
    ),
    "measured-sequence": lambda: _made(
        networks.sequence([graph(), networks.ring(SIZE)]),
        "average",
        SignalDP(1.0, radius=1.0),
        source=readings(),
    ),
    "measured-custom": lambda: _made(
        mixing(), "average", SignalDP(1.0, radius=1.0), source=readings(), family=custom(2.0)
    ),
    "perturbed": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0, mechanism="staircase")),
    "batches": lambda: _made(mixing(), "learn", SignalDP(1.0, radius=1.0, batches=Batches(2.0, 3))),
    "measured-batches": lambda: _made(
        networks.column_stochastic(graph()),
        "push-sum-learn",
        SignalDP(1.0, radius=1.0, mechanism="staircase", batches=Batches(2.0, 5)),
        source=readings(),
    ),
    "masked": lambda: _made(
        mixing(), "masked-sum", MaskedDP(1.0, colluders=9, absent=4), rounds=140, missing=3
    ),
    "masked-stream": lambda: _made(
        mixing(),
        "masked-learn",
        MaskedDP(1.0, colluders=9, absent=4, batches=Batches(2.0, 3)),
        missing=3,
        delay=1,
    ),
    "budget-fractions": lambda: _made(
        mixing(),
        "average",
        SignalDP(1.0, radius=1.0, budget_fractions=tuple(1.0 + k % 3 for k in range(SIZE))),
    ),
}


SHORT = [name for name in CASES if name != "long"]


def case(name: str) -> Problem:
    return CASES[name]()


def unreadable(measured: bool) -> Problem:
    """Its family cannot be described: each rank alone would draw a key of its own."""
    source = readings() if measured else None
    family = custom(iter(range(3)))
    return _made(
        mixing(), "average", SignalDP(1.0, radius=1.0), source=source, family=family, epsilons=()
    )


def arranged() -> Problem:
    """Large enough for one machine to put the agents in an order of its own."""
    return _made(
        networks.metropolis(networks.torus(250, 201)), "average", SignalDP(1.0, radius=1.0), 4
    )
