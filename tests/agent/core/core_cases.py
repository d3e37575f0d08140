"""Problems, releases and manifests for the tests of cores."""

import networkx
import numpy as np

from murmura import laws, network
from murmura.agent.events import Released
from murmura.agent.manifest import Manifest
from murmura.engine import Drawn, Problem, noise
from murmura.engine.seeds import noise_seed
from murmura.families import LogNormal1p
from murmura.privacy import NetworkDP, NoPrivacy, SignalDP, calibrate

FLORENTINE = network.metropolis(networkx.florentine_families_graph())


def geometric(size=50):
    return network.metropolis(network.random_geometric(size, 0.3, seed=1))


def problem(law, net, want=None, rounds=100):
    family = LogNormal1p(sigma=1.0)
    return Problem(
        network=net,
        law=laws.get(law, net),
        family=family,
        source=Drawn(family, {"mu": 1.0}, net.size, seed=3),
        want=want or (NetworkDP(0.5) if law == "learn-network" else SignalDP(1.0)),
        rounds=rounds,
        seed=11,
    )


def small(law="average", net=None, rounds=0, **options):
    """A manifest without noise, for tests that choose their own releases."""
    net = net or network.lazy_metropolis(network.ring(4))
    return Manifest.of(problem(law, net, NoPrivacy(), 10), rounds=rounds, **options)


def whole(manifest, value):
    return round(value * 2**manifest.unit)


def released(manifest, reading, *values):
    return Released(reading, tuple(whole(manifest, v) for v in values), 1 << manifest.unit)


def drawn(todo, t):
    """xi + d of round t, as the simulator draws them."""
    signals = todo.source.signals(max(t, 1), 1)
    values = todo.family.columns(signals)[:, 0, 0]
    calibration = calibrate(todo.want, todo.law, todo.family, todo.network, todo.rounds)
    scale = calibration.scale(signals, todo.want.epsilon, t)[:, 0]
    agents = np.arange(todo.network.size)
    return values + scale * noise.laplace(noise_seed(todo.seed), t, agents, 0)


def releases(todo, manifest):
    """Releases by label: one reading for each round, or one in all."""
    rounds = range(1, todo.rounds + 1) if todo.law.online else (0,)
    columns = [drawn(todo, t) for t in rounds]
    return {
        label: [released(manifest, k + 1, column[i]) for k, column in enumerate(columns)]
        for i, (label, _) in enumerate(manifest.members)
    }
