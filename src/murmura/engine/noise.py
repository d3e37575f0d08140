"""Counter-based random numbers for the compiled kernels.

The noise of an agent is a pure function of (seed, agent, round, stream): no state is carried, so
a result depends neither on the number of threads nor on the order of the agents, and any engine
can draw the same numbers. The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011),
checked against its published vectors.

Fast, and for simulation only: floating-point Laplace noise is not private (its holes identify the
signal), whatever generator feeds it.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

_LOW = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2), where the mantissa is cut
_SHIFT = np.uint64(0x3FF0000000000000) - _ROOT_HALF
_LN2 = 0.6931471805599453


@numba.njit(inline="always")
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Four 32-bit words (each in a uint64) for a counter of four words and a key of two."""
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _BITS) ^ c1 ^ k0, p1 & _LOW, (p0 >> _BITS) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@numba.njit(inline="always")
def _log_mantissa(m):  # type: ignore[no-untyped-def]
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
def fill_laplace(draws, agents, streams, slots, t, key, exponents, signs):  # type: ignore[no-untyped-def]
    """Fill `draws` with Laplace noise of scale 1, one per (agent, stream, slot): +-log(u).

    Four plain loops, each without a branch or a call, because the compiler turns such loops into
    vector instructions; the logarithm is written out for the same reason. `exponents` and `signs`
    are scratch of the same length.
    """
    count = draws.size
    bits = draws.view(np.uint64)
    time = np.uint64(t)
    for q in range(count):
        a, b, c, _ = philox(agents[q], time, streams[q], slots[q], key[0], key[1])
        draws[q] = float(np.int64(((a << _BITS) | b) >> np.uint64(11))) + 0.5
        signs[q] = c << np.uint64(63)
    for q in range(count):
        shifted = bits[q] + _SHIFT
        exponents[q] = float(np.int64(shifted >> np.uint64(52))) - (1023.0 + 53.0)
        bits[q] = (shifted & _MANTISSA) + _ROOT_HALF
    for q in range(count):
        draws[q] = exponents[q] * _LN2 + _log_mantissa(draws[q])
    for q in range(count):
        bits[q] ^= signs[q]


@numba.njit(cache=True)
def _laplace(agents, streams, slots, t, key):  # type: ignore[no-untyped-def]
    draws, exponents = np.empty(agents.size), np.empty(agents.size)
    signs = np.empty(agents.size, np.uint64)
    fill_laplace(draws, agents, streams, slots, t, key, exponents, signs)
    return draws


@numba.njit(cache=True)
def _words(counter, key):  # type: ignore[no-untyped-def]
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


def words(counter: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Philox4x32-10 of one counter (4 words) and key (2 words)."""
    return np.asarray(cast(Any, _words)(counter, key))
