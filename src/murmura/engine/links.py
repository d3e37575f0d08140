"""Noise that comes over the links, for laws in which messages carry it.

Link j -> i has a draw for every stream in every round: slot j + 1 of agent i's noise. What the
round needs of them is one sum for each agent and stream, worked out before the kernel runs. Where
an agent sends one noised estimate to all its neighbours, their sums share its own draw, slot 0.
Few laws ask for either, so both are compiled apart from the others.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from murmura.engine.kernel import Matrix
from murmura.engine.layout import aligned
from murmura.engine.noise import HALF, PAIRED, fill_laplace

Floats = NDArray[np.float64]
NONE = np.zeros((1, 0, 0))


def link_noise(
    matrix: Matrix, agents: NDArray[np.uint32], key: NDArray[np.uint64], rounds: range, width: int
) -> Floats:
    """(rounds, rows, width): sum_j a_ij g_ij for every row and stream, g of scale 1."""
    linked = aligned(len(rounds), len(matrix.indptr) - 1, width)
    blocks = np.arange(-(-width // int(PAIRED)) * int(HALF), dtype=np.uint32)
    for k, t in enumerate(rounds):
        cast(Any, _add)(linked[k], *matrix, agents, blocks, key, t)
    return linked


def carried_noise(
    matrix: Matrix,
    agents: NDArray[np.uint32],
    key: NDArray[np.uint64],
    rounds: range,
    width: int,
    scales: Floats,
) -> Floats:
    """(rounds, rows, width): sum_j a_ij b_j d_j, d the agents' own draws.

    `scales` has the b_j, (rounds, agents).
    """
    carried = aligned(len(rounds), len(matrix.indptr) - 1, width)
    blocks = np.arange(-(-width // int(PAIRED)) * int(HALF), dtype=np.uint32)
    for k, t in enumerate(rounds):
        if t:  # nothing travels before round 1
            own = np.zeros((scales.shape[1], width))
            cast(Any, _draw)(own, scales[k], agents, blocks, key, t)
            cast(Any, _mix)(carried[k], *matrix, own)
    return carried


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _draw(own, scales, agents, blocks, key, t):
    width = np.uint64(own.shape[1])
    draws, who = np.empty((2, blocks.size)), np.empty(blocks.size, np.uint32)
    for j in range(own.shape[0]):
        who[:] = agents[j]
        fill_laplace(draws, who, blocks, 0, t, key, blocks.size)
        for s in range(width):
            block = s // PAIRED * HALF + s % HALF
            own[j, s] = scales[j] * draws[s % PAIRED // HALF, block]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _mix(carried, indptr, indices, weights, own):
    for i in range(carried.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            for s in range(carried.shape[1]):
                carried[i, s] += weights[p] * own[indices[p], s]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _add(linked, indptr, indices, weights, agents, blocks, key, t):
    width = np.uint64(linked.shape[1])
    draws, who = np.empty((2, blocks.size)), np.empty(blocks.size, np.uint32)
    for i in range(linked.shape[0]):
        who[:] = agents[i]
        for p in range(indptr[i], indptr[i + 1]):
            slot = np.uint64(agents[indices[p]]) + np.uint64(1)
            fill_laplace(draws, who, blocks, slot, t, key, blocks.size)
            for s in range(width):
                block = s // PAIRED * HALF + s % HALF
                linked[i, s] += weights[p] * draws[s % PAIRED // HALF, block]
