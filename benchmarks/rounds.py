"""One round on large random geometric graphs of mean degree 6, against the memory and others.

A round of one vector must at least move 12 bytes per stored weight and 16 per agent: its fraction of
the triad's bandwidth says how near the limit it is. python-graphblas multiplies the same ordered
matrix, in its own best format, on all threads. scipy multiplies the network as it is, and, for the
detail, in our order of the agents.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.clock import race, row
from benchmarks.triad import BYTES, triad
from murmura import networks
from murmura.simulation import kernel, noise
from murmura.simulation.layout import aligned, arranged
from murmura.simulation.workers import Workers, threads

MEAN = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
LEARN = (0.0, 0.9, 0.0, 0.1, 0.0, 0.0)
NOISY = (0.0, 0.9, 0.0, 0.1, 0.1, 0.0)


def one_round(
    matrix: Any, algorithm: Any, lanes: int, stacks: int, groups: int, workers: Workers
) -> Any:
    """A closure that takes one round of lanes x stacks streams with so many groups."""
    n, streams = matrix.shape[0], lanes * stacks
    nu, out = aligned(n, streams * groups), aligned(n, streams * groups)
    nu[:] = np.random.default_rng(1).normal(size=nu.shape)
    blocks = -(-n // kernel.BLOCK)
    inputs = kernel.Inputs(
        np.array([algorithm]), aligned(1, n, streams), np.zeros((1, streams)), np.zeros((1, 0, 0)),
        np.zeros((1, 0)), np.arange(n, dtype=np.uint32), noise.key_of(1),
    )  # fmt: skip
    ones = np.ones((1, groups))
    scales = kernel.Scales(np.zeros(n), np.full(n, 1 / n), np.ones((1, n, 1)), ones, ones, ones[0])
    squares = np.empty((1, blocks, 3, streams * groups))
    view, state = kernel.matrix_of(matrix), kernel.KernelState(nu, out, nu)
    edges = [blocks * k // (4 * threads()) for k in range(4 * threads() + 1)]
    ranges = [
        kernel.RowRange(0, n, begin, end, 0, groups, 1, kernel.SHARED, kernel.BY_STREAM, False)
        for begin, end in pairwise(edges)
    ]
    like = (0.0,) * lanes
    return lambda: workers.each(
        lambda rows: kernel.advance(like, view, state, inputs, scales, rows, squares), ranges
    )


def graphblas(matrix: Any) -> Any:
    """A closure that multiplies one vector with python-graphblas."""
    import graphblas as gb  # type: ignore[import-untyped]

    held = gb.Matrix.from_csr(matrix.indptr, matrix.indices, matrix.data, ncols=matrix.shape[1])
    vector = gb.Vector.from_dense(np.random.default_rng(2).normal(size=matrix.shape[0]))
    return lambda: held.mxv(vector, gb.semiring.plus_times).new().wait()


def ordered(made: Any) -> Any:
    """The weights in the order that a run uses."""
    found = arranged(made)
    assert found is not None
    return found[1]


def single(name: str, made: Any, workers: Workers, times: int) -> Any:
    """The round of one vector against the triad and python-graphblas."""
    matrix = ordered(made)
    found = race(
        {
            "triad": triad(workers),
            "ours": one_round(matrix, MEAN, 1, 1, 1, workers),
            "graphblas": graphblas(matrix),
        },
        times,
    )
    moved, bandwidth = 12 * matrix.nnz + 16 * matrix.shape[0], BYTES / found["triad"]
    fraction, ratio = moved / found["ours"] / bandwidth, found["graphblas"] / found["ours"]
    detail = (
        f"ours {1e3 * found['ours']:.1f} ms with its error norm, graphblas "
        f"{1e3 * found['graphblas']:.1f} ms, triad {bandwidth / 1e9:.1f} GB/s"
    )
    yield row(
        f"one vector at {name} agents, fraction of the triad",
        fraction,
        ">= 0.45",
        fraction >= 0.45,
        detail,
    )
    yield row(
        f"one vector at {name} agents, times graphblas' speed", ratio, ">= 1", ratio >= 1, detail
    )


def several(made: Any, workers: Workers) -> Any:
    """64 right-hand sides against scipy, and what noise adds to a round of learn."""
    matrix, many = ordered(made), np.random.default_rng(3).normal(size=(made.size, 64))
    found = race(
        {
            "ours": one_round(matrix, MEAN, 8, 8, 1, workers),
            "scipy": lambda: made.weights @ many,
            "ordered": lambda: matrix @ many,
        },
        times=4,
    )
    ratio = found["scipy"] / found["ours"]
    yield row(
        "64 vectors at 10^6 agents, times scipy's speed", ratio, ">= 2.5", ratio >= 2.5,
        f"ours {1e3 * found['ours']:.0f} ms with 64 error norms, scipy {1e3 * found['scipy']:.0f} "
        f"ms, and {1e3 * found['ordered']:.0f} ms if it is given our order of the agents",
    )  # fmt: skip
    found = race(
        {
            "noisy": one_round(matrix, NOISY, 1, 1, 2, workers),
            "noiseless": one_round(matrix, LEARN, 1, 1, 2, workers),
            "single": one_round(matrix, LEARN, 1, 1, 1, workers),
        },
        times=15,
    )
    ratio = found["noisy"] / found["noiseless"]
    yield row(
        "learn at 10^6 agents, a noisy round over a noiseless one", ratio, "< 2", ratio < 2,
        f"noiseless and private run together: {1e3 * found['noisy']:.1f} ms with noise, "
        f"{1e3 * found['noiseless']:.1f} ms without; the noiseless run alone "
        f"{1e3 * found['single']:.1f} ms",
    )  # fmt: skip


def measure() -> Any:
    for name, size, times in (("10^6", 10**6, 25), ("10^7", 10**7, 6)):
        graph = networks.random_geometric(size, mean_degree=6, seed=1, connect=True)
        made = networks.lazy_metropolis(graph)
        with Workers(threads()) as workers:
            yield from single(name, made, workers, times)
            if size == 10**6:
                yield from several(made, workers)
