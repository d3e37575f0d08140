"""Preferential attachment, compiled: one random look-up per link."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True)
def _mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's output for a state (Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True)
def attached(size: int, links: int, seed: np.uint64) -> NDArray[np.int32]:
    """(m, 2): agents `links`, ... each choose `links` earlier ones, in proportion to degree.

    A uniform entry of the list of all ends so far is an agent in proportion to its degree; one
    chosen already is drawn again. The first to choose takes all before it, a star.
    """
    out = np.empty(((size - links) * links, 2), np.int32)
    ends, state, at = out.reshape(-1), seed, 0
    for i in range(links, size):
        first = at
        while at < first + links:
            if i == links:
                j = np.int32(at)
            else:
                state += np.uint64(0x9E3779B97F4A7C15)
                # 53 bits scaled to the ends there are: a bias below 2^-20 of any agent's chance
                u = np.float64(_mixed(state) >> np.uint64(11)) * 2.0**-53
                j = ends[int(u * (2 * first))]
            fresh = True
            for e in range(first, at):
                fresh = fresh and out[e, 1] != j
            if fresh:
                out[at, 0], out[at, 1] = i, j
                at += 1
    return out
