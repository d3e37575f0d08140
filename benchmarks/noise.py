"""Laplace noise inside the kernel against numpy's, per draw and core, and on all cores."""

from typing import Any

import numba
import numpy as np

from benchmarks.clock import race, row
from veilsum.simulation import noise
from veilsum.simulation.workers import Workers, threads

COUNT = 1_000_000
BLOCK = 512  # draws at a time, as the kernel makes them


@numba.njit(nogil=True)
def _draw(draws: Any, agents: Any, blocks: Any, key: Any, repeats: Any) -> None:
    for t in range(repeats):
        noise.fill_laplace(draws, agents, blocks, 0, t, key, agents.size)


def measure() -> Any:
    rng, key, agents = np.random.default_rng(1), noise.key_of(1), np.arange(BLOCK, dtype=np.uint32)
    room = [np.empty((2, BLOCK)) for _ in range(threads())]
    repeats = COUNT // (2 * BLOCK)
    with Workers(threads()) as workers:
        found = race(
            {
                "numpy": lambda: rng.laplace(size=COUNT),
                "one": lambda: _draw(room[0], agents, agents, key, repeats),
                "all": lambda: workers.each(lambda d: _draw(d, agents, agents, key, repeats), room),
            },
            times=15,
        )
    ratio, both = found["numpy"] / found["one"], threads() * found["numpy"] / found["all"]
    yield row(
        "Laplace draws per second on one core, times numpy's", ratio, ">= 3", ratio >= 3,
        f"{1e9 * found['one'] / COUNT:.1f} ns a draw, numpy {1e9 * found['numpy'] / COUNT:.1f} ns; "
        f"on {threads()} threads {both:.1f} times numpy's speed",
    )  # fmt: skip
