"""Rounds on large random geometric graphs of mean degree 6, against the memory and others.

A round of one vector that is taken on its own must at least move 12 bytes per stored weight and 16
per agent: that, over the time it took, is divided by the bandwidth of the triad. Several rounds a
pass move less, which is why they may exceed it. python-graphblas and MKL multiply the same ordered
matrix, in their own best formats, on all threads, and scipy on one; they add up no error norm.
"""

from itertools import pairwise
from typing import Any

import numba
import numpy as np

from benchmarks.clock import best, race, row
from benchmarks.peers import missing, products
from benchmarks.triad import limit, triads
from veilsum import networks
from veilsum.simulation import kernel, noise, slices, tiles
from veilsum.simulation.layout import aligned, arranged
from veilsum.simulation.workers import Workers, threads

MEAN = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
LEARN = (0.0, 0.9, 0.0, 0.1, 0.0, 0.0)
NOISY = (0.0, 0.9, 0.0, 0.1, 0.1, 0.0)
ROUNDS = tiles.MOST  # a pass


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


def ordered(made: Any, sliced: bool = False) -> Any:
    """The weights in the order that a run uses, and how far apart neighbours lie there."""
    found = arranged(made, sliced)
    assert found is not None
    return found


def a_pass(made: Any, algorithm: Any, groups: int, rounds: int, workers: Workers) -> Any:
    """A closure that takes `rounds` rounds of one stream as a run does: tiles, eight rows at a time.

    With several rounds, statistics differ from round to round, as those of an online algorithm do.
    """
    found = ordered(made, sliced=True)
    n, own = made.size, algorithm[3] != 0.0
    nu, out = aligned(n, groups), aligned(n, groups)
    nu[:] = np.random.default_rng(1).normal(size=nu.shape)
    inputs = kernel.Inputs(
        np.array([algorithm] * rounds), aligned(rounds if own else 1, n, 1), np.zeros((1, 1)),
        np.zeros((1, 0, 0)), np.zeros((1, 0)), np.arange(n, dtype=np.uint32), noise.key_of(1),
    )  # fmt: skip
    ones = np.ones((rounds, groups))
    scales = kernel.Scales(np.zeros(n), np.full(n, 1 / n), np.ones((1, n, 1)), ones, ones, ones[0])
    blocks = -(-n // kernel.BLOCK)
    squares = np.empty((rounds, blocks, 3, groups))
    view, state = (
        kernel.matrix_of(found.weights, True, found.reach.lead),
        kernel.KernelState(nu, out, nu),
    )
    rows = kernel.RowRange(0, n, 0, blocks, 0, groups, 1, kernel.SHARED, kernel.BY_STREAM, False)
    if rounds > 1:
        plan = tiles.plan(found.reach, rounds, 2 * threads() if threads() > 1 else 1)
    else:
        edges = [blocks * k // (4 * threads()) for k in range(4 * threads() + 1)]
        steps = [np.array([[0, begin, end]]) for begin, end in pairwise(edges)]
        plan = tiles.Tiling(steps, [])

    def work(steps: Any) -> None:
        slices.advance(view, state, inputs, scales, rows, squares, steps)

    def go() -> None:
        for job in tiles.start(plan, work, workers.submit):
            job.result()

    return go


@numba.njit(nogil=True)
def _draw(agents: Any, key: Any) -> None:
    draws, block = np.empty((2, kernel.BLOCK)), np.zeros(kernel.BLOCK, np.uint32)
    for first in range(0, len(agents) - kernel.BLOCK + 1, kernel.BLOCK):
        part = agents[first : first + kernel.BLOCK]
        noise.fill_laplace(draws, part, block, 0, 1, key, kernel.BLOCK, True)


def draws_alone(size: int, workers: Workers) -> float:
    """Seconds of one draw for every agent, on all threads."""
    parts = np.array_split(np.arange(size, dtype=np.uint32), threads())
    return best(lambda: workers.each(lambda part: _draw(part, noise.key_of(1)), parts))


def moved(matrix: Any, groups: int, algorithm: Any) -> int:
    """Bytes that a round must move at least, if it is taken on its own.

    12 for every weight and its index, 16 for every estimate that is read and written; where the
    algorithm has them, 8 for the statistic, and 28 for the scales of the noise, the mass and the
    number of the agent.
    """
    own, noisy = algorithm[3] != 0.0, algorithm[4] != 0.0
    return int(12 * matrix.nnz + matrix.shape[0] * (16 * groups + 8 * own + 28 * noisy))


def single(name: str, made: Any, workers: Workers, times: int) -> Any:
    """Rounds of one stream against the triad, and the product alone against others."""
    matrix = ordered(made).weights
    peers = products(matrix)
    cases = {
        "plain averaging": (MEAN, 1, 1.3),
        "averaging, private and noiseless run": (MEAN, 2, 1.0),
        "learning with noise, private and noiseless run": (NOISY, 2, 1.0),
    }
    works: dict[str, Any] = {**triads(workers), **peers}
    for case, (algorithm, groups, _) in cases.items():
        works[case] = a_pass(made, algorithm, groups, ROUNDS, workers)
        works[f"{case}, one by one"] = a_pass(made, algorithm, groups, 1, workers)
    found = race(works, times)
    bandwidth, said = limit(found)
    others = ", ".join(f"{name} {1e3 * found[name]:.1f} ms" for name in peers)
    absent = missing(peers)
    for case, (algorithm, groups, target) in cases.items():
        took, alone, least = found[case] / ROUNDS, found[f"{case}, one by one"], 0
        least = moved(matrix, groups, algorithm)
        fraction = least / took / bandwidth
        yield row(
            f"{case} at {name} agents, fraction of the triad",
            fraction,
            f">= {target}",
            fraction >= target,
            f"{1e3 * took:.2f} ms a round with its error norms, {ROUNDS} rounds a pass "
            f"({1e3 * alone:.2f} ms one by one, {least / alone / bandwidth:.2f} of the triad); "
            f"{least / 1e6:.0f} MB a round; {said}; the bare product takes {others}",
            why=f"a core needs {1e9 * took * threads() / made.size:.1f} "
            f"ns an agent{_drawing(algorithm, made.size, workers)}",
        )
    took = found["plain averaging"] / ROUNDS
    peer = min(peers, key=lambda name: found[name])
    ratio = found[peer] / took
    alone = found[peer] / found["plain averaging, one by one"]
    yield row(
        f"plain averaging at {name} agents, times the speed of the fastest product",
        ratio,
        ">= 1",
        ratio >= 1,
        f"{peer} is the fastest of {others}; ours {1e3 * took:.2f} ms with its error norm, and "
        f"{alone:.2f} times as fast if rounds are taken one by one"
        + (f"; {absent}" if absent else ""),
        why=f"{peer}'s product is faster than the product with its error norm",
    )


def _drawing(algorithm: Any, size: int, workers: Workers) -> str:
    """How much of it is noise."""
    if algorithm[4] == 0.0:
        return ""
    took = draws_alone(size, workers) * threads()
    return f", {1e9 * took / size:.1f} of them to draw the noise"


def without_reach(workers: Workers) -> Any:
    """Graphs on which neither tiles nor slices help, for links lead anywhere: rows one by one."""
    graphs = {
        "power law": networks.power_law(10**6, 3, seed=1),
        "Watts-Strogatz": networks.watts_strogatz(10**6, 6, 0.1, seed=1),
    }
    for name, graph in graphs.items():
        made = networks.lazy_metropolis(graph)
        reach, matrix = ordered(made).reach, ordered(made).weights
        assert not ordered(made, sliced=True).sliced
        peers = products(matrix)
        ours = one_round(matrix, MEAN, 1, 1, 1, workers)
        found = race({**triads(workers), **peers, "ours": ours}, times=8)
        bandwidth, said = limit(found)
        peer = min(peers, key=lambda name: found[name])
        ratio = found[peer] / found["ours"]
        fraction = moved(matrix, 1, MEAN) / found["ours"] / bandwidth
        yield row(
            f"{name}, 10^6 agents: times the speed of the fastest product",
            ratio,
            ">= 1",
            ratio >= 1,
            f"no tiles: a row reaches {reach.typical * kernel.BLOCK:,.0f} rows far; "
            f"{1e3 * found['ours']:.1f} ms with its error norm, {fraction:.2f} of the triad ({said}); "
            f"{peer} {1e3 * found[peer]:.1f} ms",
            why="neighbours are read from all over memory, and ours has an error norm",
        )


def several(made: Any, workers: Workers) -> Any:
    """64 right-hand sides against scipy, and what noise adds to a round of learn."""
    matrix, many = ordered(made).weights, np.random.default_rng(3).normal(size=(made.size, 64))
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
                yield from without_reach(workers)
