"""Networks that the theory is tested on, and runs to compare it with."""

from typing import Any

import numpy as np

import veilsum as vs
from veilsum import networks
from veilsum.families import Normal

GRAPHS = {
    "ring": networks.metropolis(networks.ring(9)),
    "path": networks.metropolis(networks.path(8)),
    "star": networks.metropolis(networks.star(10)),
    "complete": networks.max_degree(networks.complete(12)),
    "hypercube": networks.lazy_metropolis(networks.hypercube(3)),
    "torus": networks.lazy_metropolis(networks.torus(4, 4)),
    "erdos-renyi": networks.metropolis(networks.erdos_renyi(20, 0.25, seed=3)),
    "watts-strogatz": networks.metropolis(networks.watts_strogatz(18, 4, 0.2, seed=5)),
    "geometric": networks.best_constant(networks.random_geometric(25, 0.4, seed=2)),
}


def run(
    algorithm: Any,
    mixing: Any,
    privacy: Any,
    rounds: Any = 12,
    epsilons: Any = (0.5, 2.0),
    replicas: Any = 1500,
    rng: Any = 1,
    mu: Any = 2.0,
) -> Any:
    return vs.sweep(
        {"mu": mu}, mixing, Normal(sigma=1.0), privacy, algorithm, rounds, epsilons=epsilons,
        replicas=replicas, rng=rng,
    ).result  # fmt: skip


def mean_square(errors: Any) -> Any:
    """Mean of squares over replicas, and its standard error."""
    squares = errors**2
    return squares.mean(axis=-1), squares.std(axis=-1, ddof=1) / np.sqrt(squares.shape[-1])
