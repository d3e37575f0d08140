"""One round on a million agents of degree 6 against scipy's sparse product alone."""

import numpy as np

from benchmarks.clock import best
from murmura import network
from murmura.engine import kernel, noise

AGENTS = 1_000_000


def one_round(weights, columns: int, noisy: bool):
    """A closure that takes one round of average (or of learn, with noise) for 1 or 2 columns."""
    n, rng = weights.shape[0], np.random.default_rng(1)
    clean, private = 1, columns - 1
    nu, out = rng.normal(size=(n, columns)), np.empty((n, columns))
    coefficients = (0.0, 0.9, 0.0, 0.1, 0.1, 0.0) if noisy else (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    per = np.ones(private)
    arguments = (
        weights.indptr.view(np.uint32), weights.indices.view(np.uint32), weights.data,
        coefficients, nu, nu, out, nu[:, :1].copy(), np.zeros(columns, np.uint64),
        np.zeros(private, np.uint64), 3, noise.key_of(1), np.zeros(n), per, np.ones((n, 1)), per,
        per, np.empty(0), np.full(n, 1 / n), np.zeros(clean), 1024,
        np.empty((-(-n // 1024), 3, columns)),
    )  # fmt: skip
    return lambda: kernel.advance_all(*arguments)


def measure():
    graph = network.load("random-regular", size=AGENTS, degree=6, seed=1)
    weights = network.lazy_metropolis(graph).weights
    x = np.random.default_rng(2).normal(size=AGENTS)
    scipy = best(lambda: weights @ x, times=15)
    ours = best(one_round(weights, 1, noisy=False), times=15)
    both = best(one_round(weights, 2, noisy=False), times=5)
    noisy = best(one_round(weights, 2, noisy=True), times=5)
    yield {
        "what": "one round at 10^6 agents, times faster than scipy's product",
        "measured": scipy / ours,
        "target": ">= 1.5",
        "met": scipy / ours >= 1.5,
        "detail": (
            f"ours {1e3 * ours:.1f} ms with its error norm, scipy {1e3 * scipy:.1f} ms; clean and "
            f"private together {1e3 * both:.1f} ms, with noise {1e3 * noisy:.1f} ms"
        ),
    }
