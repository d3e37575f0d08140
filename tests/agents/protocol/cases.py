"""Problems, releases and manifests for the tests of agents."""

from typing import Any

import networkx
import numpy as np

from veilsum import algorithms, networks
from veilsum.agents.events import Released
from veilsum.agents.manifest import Manifest
from veilsum.families import LogNormal1p, Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP, plan
from veilsum.simulation import Problem, SyntheticSignals, noise
from veilsum.simulation.seeds import noise_seed

FLORENTINE = networks.metropolis(networkx.florentine_families_graph())


def geometric(size: Any = 50) -> Any:
    return networks.metropolis(networks.random_geometric(size, 0.3, seed=1))


def problem(algorithm: Any, net: Any, privacy: Any = None, rounds: Any = 100) -> Any:
    family = LogNormal1p(sigma=1.0)
    return Problem(
        network=net,
        algorithm=algorithms.get(algorithm, net),
        family=family,
        source=SyntheticSignals(family, {"mu": 1.0}, net.size, seed=3),
        privacy=privacy or (NetworkDP(0.5) if algorithm == "learn-network" else SignalDP(1.0)),
        rounds=rounds,
        seed=11,
    )


def small(algorithm: Any = "average", net: Any = None, rounds: Any = 0, **options: Any) -> Any:
    """A manifest without noise, for tests that choose their own releases."""
    net = net or networks.lazy_metropolis(networks.ring(4))
    return Manifest.of(problem(algorithm, net, NoPrivacy(), 10), rounds=rounds, **options)


def bounded(
    algorithm: Any = "average",
    graph: Any = "complete:3",
    high: Any = 100.0,
    rounds: Any = 0,
    lazy: Any = False,
    **options: Any,
) -> Any:
    """A manifest without noise whose readings are in [0, high]: no release is larger."""
    net = (networks.lazy_metropolis if lazy else networks.metropolis)(graph)
    family = Normal(sigma=1.0, bounds=(0.0, high))
    todo = Problem(
        network=net,
        algorithm=algorithms.get(algorithm, net),
        family=family,
        source=SyntheticSignals(family, {"mu": high / 2}, net.size, seed=3),
        privacy=NoPrivacy(),
        rounds=10,
    )
    return Manifest.of(todo, rounds=rounds, **options)


def whole(manifest: Any, value: Any) -> Any:
    return round(value * 2**manifest.unit)


def released(manifest: Any, reading: Any, *values: Any) -> Any:
    return Released(reading, tuple(whole(manifest, v) for v in values), 1 << manifest.unit)


def drawn(todo: Any, t: Any) -> Any:
    """xi + d of round t, as the simulator draws them."""
    signals = todo.source.signals(max(t, 1), 1)
    values = todo.family.columns(signals)[:, 0, 0]
    made = plan(todo.privacy, todo.family, todo.algorithm, todo.network, todo.rounds)
    scale = made.scale(signals, todo.privacy.epsilon, t)[:, 0]
    agents = np.arange(todo.network.size)
    return values + scale * noise.laplace(noise_seed(todo.seed), t, agents, 0)


def releases(todo: Any, manifest: Any) -> Any:
    """Releases by label: one reading for each round, or one in all."""
    rounds = range(1, todo.rounds + 1) if todo.algorithm.online else (0,)
    columns = [drawn(todo, t) for t in rounds]
    return {
        label: [released(manifest, k + 1, column[i]) for k, column in enumerate(columns)]
        for i, (label, _) in enumerate(manifest.members)
    }
