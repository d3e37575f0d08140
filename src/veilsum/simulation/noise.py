"""Counter-based random numbers for the compiled kernels.

The noise of an agent is a pure function of (seed, agent, round, stream): no state is carried, so
a result depends neither on the number of threads nor on the order of the agents, and any engine
can draw the same numbers. The generator is Philox4x32-7 (Salmon, Moraes, Dror and Shaw, 2011), the
fewest rounds that pass BigCrush, checked against its published vectors.

A block of four words makes two draws. Streams 8k + l and 8k + l + 4, l < 4, share the block of
counter 4k + l: runs that are computed in lanes of eight pay for four blocks.

Algorithms whose links add noise need, for each agent and stream, one sum over its links, computed
before the kernel runs: link j -> i has slot j + 1 of agent i's noise (`link_noise`). Where an agent
sends one noised estimate to all its neighbours, their sums share its own draw, slot 0
(`carried_noise`).

Fast, and for simulation only: floating-point Laplace noise is not private (its holes identify the
signal), whatever generator feeds it.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from veilsum._types import Floats
from veilsum.simulation.layout import aligned

if TYPE_CHECKING:
    from veilsum.simulation.kernel import Matrix

ROUNDS = 7
PAIRED = np.uint64(8)  # streams that share four blocks
HALF = np.uint64(4)

_LOW = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2), where the mantissa is cut
_SHIFT = np.uint64(0x3FF0000000000000) - _ROOT_HALF
_UNIFORM = np.uint64(0xFFFFF000)  # the first slot of uniform numbers, beyond those of links
_LN2 = 0.6931471805599453

NO_LINKS = np.zeros((1, 0, 0))  # the link noise of algorithms that have none


@intrinsic
def _bits(typing, number):  # noqa: ARG001
    """The 64 bits of a double; `view` would need an array and keep the loop from vectorising."""
    return types.uint64(types.float64), lambda _c, b, _s, a: b.bitcast(a[0], ir.IntType(64))


@intrinsic
def _double(typing, bits):  # noqa: ARG001
    """The double that has these bits."""
    return types.float64(types.uint64), lambda _c, b, _s, a: b.bitcast(a[0], ir.DoubleType())


@numba.njit
def philox(c0, c1, c2, c3, k0, k1):
    """Four 32-bit words (each in a uint64) for a counter of four words and a key of two."""
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _BITS) ^ c1 ^ k0, p1 & _LOW, (p0 >> _BITS) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@numba.njit
def _log_mantissa(m):
    """log m = 2 (s + s^3/3 + ... + s^21/21), s = (m-1)/(m+1), for m in [sqrt(1/2), sqrt(2)).

    |s| <= 0.1716, so the first term left out is below 2e-18.
    """
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1 / 21
    series = series * z + 1 / 19
    series = series * z + 1 / 17
    series = series * z + 1 / 15
    series = series * z + 1 / 13
    series = series * z + 1 / 11
    series = series * z + 1 / 9
    series = series * z + 1 / 7
    series = series * z + 1 / 5
    series = series * z + 1 / 3
    return 2.0 * (s + s * z * series)


@numba.njit(error_model="numpy")
def _to_laplace(high, low):
    """+-log(u) of two words: u = (the upper 53 bits + 1/2) / 2^53, the sign from the lowest bit.

    No branch and no call, so that a loop around it becomes vector instructions; the logarithm is
    written out for the same reason.
    """
    word = (high << _BITS) | low
    shifted = _bits(float(np.int64(word >> np.uint64(11))) + 0.5) + _SHIFT
    exponent = float(np.int64(shifted >> np.uint64(52))) - (1023.0 + 53.0)
    mantissa = _double((shifted & _MANTISSA) + _ROOT_HALF)
    log = exponent * _LN2 + _log_mantissa(mantissa)
    return _double(_bits(log) ^ (word << np.uint64(63)))


@numba.njit(error_model="numpy")
def fill_laplace(draws, agents, blocks, slot, t, key, count, first=False):
    """Fill `count` columns with Laplace noise of scale 1, by agent and block of streams.

    Row 0 of `draws` takes the streams whose number modulo 8 is below 4, row 1 the others; `first`
    leaves row 1 as it is.
    """
    k0, k1, time, place = key[0], key[1], np.uint64(t), np.uint64(slot)
    if first:
        for q in range(count):
            agent, block = np.uint64(agents[q]), np.uint64(blocks[q])
            a, b, _, _ = philox(agent, time, block, place, k0, k1)
            draws[0, q] = _to_laplace(a, b)
        return
    for q in range(count):
        agent, block = np.uint64(agents[q]), np.uint64(blocks[q])
        a, b, c, d = philox(agent, time, block, place, k0, k1)
        draws[0, q], draws[1, q] = _to_laplace(a, b), _to_laplace(c, d)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _laplace(agents, streams, slots, t, key):
    draws = np.empty(agents.size)
    time, k0, k1 = np.uint64(t), key[0], key[1]
    for q in range(agents.size):
        block = streams[q] // PAIRED * HALF + streams[q] % HALF
        a, b, c, d = philox(agents[q], time, block, slots[q], k0, k1)
        upper = streams[q] % PAIRED >= HALF
        draws[q] = _to_laplace(c if upper else a, d if upper else b)
    return draws


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _uniforms(agents, streams, t, key, out):
    time, k0, k1 = np.uint64(t), key[0], key[1]
    for pair in range(0, out.shape[0], 2):
        place = _UNIFORM + np.uint64(pair // 2)
        for i in range(agents.size):
            who = np.uint64(agents[i])
            for j in range(streams):
                a, b, c, d = philox(who, time, np.uint64(j), place, k0, k1)
                out[pair, i, j] = _unit_interval(a, b)
                if pair + 1 < out.shape[0]:
                    out[pair + 1, i, j] = _unit_interval(c, d)


@numba.njit
def _unit_interval(high, low):
    """(the upper 53 bits + 1/2) / 2^53, rounded to a number below 1."""
    word = ((high << _BITS) | low) >> np.uint64(11)
    return min((float(np.int64(word)) + 0.5) * 2.0**-53, 1.0 - 2.0**-53)


@numba.njit(cache=True)
def _words(counter, key):
    return np.array(
        philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1]), dtype=np.uint64
    )


def key_of(seed: int) -> NDArray[np.uint64]:
    """Split a 64-bit seed into the two words of a key."""
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], dtype=np.uint64)


def laplace(
    seed: int, t: int, agents: ArrayLike, streams: ArrayLike, slots: ArrayLike = 0
) -> NDArray[np.float64]:
    """Draw the noise of scale 1 that the kernels draw for these agents and streams in round t.

    Slot 0 is an agent's own noise; slot j + 1 the noise of its link from agent j.
    """
    wide = np.broadcast_arrays(*(np.asarray(w, np.uint64) for w in (agents, streams, slots)))
    flat: Any = cast(Any, _laplace)(
        *(np.ascontiguousarray(w).ravel() for w in wide), t, key_of(seed)
    )
    return np.asarray(flat).reshape(wide[0].shape)


def uniforms(
    count: int, t: int, agents: NDArray[np.uint32], streams: int, key: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Draw (count, agents, streams) uniform numbers of (0, 1) for round t: by counter, too.

    They have slots of their own, apart from Laplace draws.
    """
    out = np.empty((count, len(agents), streams))
    cast(Any, _uniforms)(np.ascontiguousarray(agents), streams, t, key, out)
    return out


def words(counter: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Philox4x32-7 of one counter (4 words) and key (2 words)."""
    return np.asarray(cast(Any, _words)(counter, key))


def link_noise(
    matrix: Matrix, agents: NDArray[np.uint32], key: NDArray[np.uint64], rounds: range, width: int
) -> Floats:
    """(rounds, rows, width): sum_j a_ij g_ij for every row and stream, g of scale 1."""
    linked = aligned(len(rounds), len(matrix.indptr) - 1, width)
    blocks = np.arange(-(-width // int(PAIRED)) * int(HALF), dtype=np.uint32)
    for k, t in enumerate(rounds):
        cast(Any, _add)(linked[k], *matrix[:3], agents, blocks, key, t)
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
            cast(Any, _mix)(carried[k], *matrix[:3], own)
    return carried


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _draw(own, scales, agents, blocks, key, t):
    width = np.uint64(own.shape[1])
    draws, agent = np.empty((2, blocks.size)), np.empty(blocks.size, np.uint32)
    for j in range(own.shape[0]):
        agent[:] = agents[j]
        fill_laplace(draws, agent, blocks, 0, t, key, blocks.size)
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
    draws, agent = np.empty((2, blocks.size)), np.empty(blocks.size, np.uint32)
    for i in range(linked.shape[0]):
        agent[:] = agents[i]
        for p in range(indptr[i], indptr[i + 1]):
            slot = np.uint64(agents[indices[p]]) + np.uint64(1)
            fill_laplace(draws, agent, blocks, slot, t, key, blocks.size)
            for s in range(width):
                block = s // PAIRED * HALF + s % HALF
                linked[i, s] += weights[p] * draws[s % PAIRED // HALF, block]
