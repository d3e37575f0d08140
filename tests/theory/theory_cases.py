"""Networks that the theory is tested on, and runs to compare it with."""

import numpy as np

import murmura as mm
from murmura import network
from murmura.families import Normal

GRAPHS = {
    "ring": network.metropolis(network.ring(9)),
    "path": network.metropolis(network.path(8)),
    "star": network.metropolis(network.star(10)),
    "complete": network.max_degree(network.complete(12)),
    "hypercube": network.lazy_metropolis(network.hypercube(3)),
    "torus": network.lazy_metropolis(network.torus(4, 4)),
    "erdos-renyi": network.metropolis(network.erdos_renyi(20, 0.25, seed=3)),
    "watts-strogatz": network.metropolis(network.watts_strogatz(18, 4, 0.2, seed=5)),
    "geometric": network.best_constant(network.random_geometric(25, 0.4, seed=2)),
}


def run(law, mixing, want, rounds=12, epsilons=(0.5, 2.0), replicas=1500, rng=1, mu=2.0):
    return mm.sweep(
        {"mu": mu}, mixing, Normal(sigma=1.0), want, law, rounds, epsilons=epsilons,
        replicas=replicas, rng=rng,
    )  # fmt: skip


def mean_square(errors):
    """Mean of squares over replicas, and its standard error."""
    squares = errors**2
    return squares.mean(axis=-1), squares.std(axis=-1, ddof=1) / np.sqrt(squares.shape[-1])
