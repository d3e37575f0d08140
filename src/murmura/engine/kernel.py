"""The compiled round: product, coefficients, noise and error norms in one pass.

The columns of `nu` are runs that advance together: first the clean ones (no noise, mu in the
paper), then the private ones, each of which knows its clean twin. Rows are cut into blocks of
fixed size; a thread takes whole blocks and norms are added block by block, so the numbers do not
depend on how many threads there are.

Indices are unsigned: a signed index makes numba test for negative ones at every access, which
costs more than the multiplication.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import numpy as np

from murmura.engine.noise import fill_laplace
from murmura.laws.base import combine as _combine

combine = numba.njit(inline="always")(_combine)

_ONE = np.uint64(1)
_FEW = np.uint64(6)  # columns that are mixed one at a time
_SMALL = 20_000  # numbers per round below which waking a second thread costs more than it gives


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """Use one thread for small rounds, all for large ones; the numbers do not depend on it."""
    before = numba.get_num_threads()
    numba.set_num_threads(1 if numbers < _SMALL else before)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@numba.njit(inline="always")
def _mix_row(mixed, i, indptr, indices, weights, nu):  # type: ignore[no-untyped-def]
    """mixed = sum_j a_ij nu_j over the stored entries of row i.

    Many columns: one entry at a time, a vector of columns each. Few columns: one column at a
    time in a register, where the set-up of a vector loop would cost more than the work.
    """
    columns = np.uint64(mixed.size)
    start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _ONE])
    if columns <= _FEW:
        for c in range(columns):
            total = 0.0
            for p in range(start, stop):
                total += weights[p] * nu[np.uint64(indices[p]), c]
            mixed[c] = total
        return
    for c in range(columns):
        mixed[c] = 0.0
    for p in range(start, stop):
        a, j = weights[p], np.uint64(indices[p])
        for c in range(columns):
            mixed[c] += a * nu[j, c]


@numba.njit
def _add_link_noise(mixed, i, indptr, indices, weights, scale, streams, t, key):  # type: ignore[no-untyped-def]
    """mixed += sum_j a_ij g_ij on the private columns, g fresh for every link and column."""
    count = streams.size
    clean = mixed.size - scale.size
    draws, exponents = np.empty(count), np.empty(count)
    signs, agents = np.empty(count, np.uint64), np.full(count, i)
    for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + _ONE])):
        slots = np.full(count, np.uint64(indices[p]) + _ONE)
        fill_laplace(draws, agents, streams, slots, t, key, exponents, signs)
        for q in range(scale.size):
            mixed[clean + q] += weights[p] * scale[q] * draws[q % count]


@numba.njit
def _draw_block(first, last, streams, t, key):  # type: ignore[no-untyped-def]
    """Laplace noise of scale 1 for rows first..last and every stream."""
    count = np.int64(last - first) * streams.size
    agents, wide = np.empty(count, np.uint64), np.empty(count, np.uint64)
    q = 0
    for i in range(first, last):
        for c in range(streams.size):
            agents[q], wide[q] = i, streams[c]
            q += 1
    draws, exponents = np.empty(count), np.empty(count)
    signs, slots = np.empty(count, np.uint64), np.zeros(count, np.uint64)
    fill_laplace(draws, agents, wide, slots, t, key, exponents, signs)
    return draws


@numba.njit(inline="always")
def _scale_row(d, i, draws, network, per_network, signal, per_signal, twin, mass, spread):  # type: ignore[no-untyped-def]
    """d = b * draws with b = max(network_i per_network_c, signal_i per_signal_c).

    `spread` gathers (mass_i b)^2, from which the variance of the released total follows.
    """
    count, streams = np.uint64(per_signal.size), np.uint64(draws.size)
    clean = np.uint64(d.size) - count
    shared = signal.shape[1] == 1  # one sensitivity for all replicas; else one for each of them,
    own = signal.shape[1] == per_signal.size  # or one for each column
    for start in range(np.uint64(0), count, streams):  # one epsilon after the other
        for k in range(streams):
            q = start + k
            level = signal[i, 0] if shared else signal[i, q if own else twin[clean + q]]
            b = max(network[i] * per_network[q], level * per_signal[q])
            d[clean + q] = b * draws[k]
            spread[clean + q] += (mass[i] * b) ** 2


@numba.njit(error_model="numpy")
def _mix_block(indptr, indices, weights, mix, nu, out, target, first, last):  # type: ignore[no-untyped-def]
    """out = mix A nu for one column, and its squared error: the round without anything else."""
    square = 0.0
    for i in range(first, last):
        mixed = 0.0
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + _ONE])):
            mixed += weights[p] * nu[np.uint64(indices[p]), 0]
        out[i, 0] = mix * mixed
        square += (out[i, 0] - target) ** 2
    return square


@numba.njit(error_model="numpy")
def _advance_block(  # type: ignore[no-untyped-def]
    indptr, indices, weights, coefficients, nu, before, out, xi, twin, streams, t, key,
    network, per_network, signal, per_signal, per_edge, divisor, mass, target,
    first, last, off, apart, spread,
):  # fmt: skip
    """Take one block of rows through the round, adding up its squared errors."""
    keep, mix, recall, learn, noise, edge = coefficients
    columns, count = np.uint64(nu.shape[1]), np.uint64(streams.size)
    mixed, d = np.zeros(nu.shape[1]), np.zeros(nu.shape[1])
    noisy = noise != 0.0 and streams.size > 0
    draws = _draw_block(first, last, streams, t, key) if noisy else np.empty(0)
    for i in range(first, last):
        if mix != 0.0:
            _mix_row(mixed, i, indptr, indices, weights, nu)
        if edge != 0.0 and streams.size > 0:
            _add_link_noise(mixed, i, indptr, indices, weights, per_edge, streams, t, key)
        if noisy:
            q = (i - first) * count
            row = draws[q : q + count]
            _scale_row(d, i, row, network, per_network, signal, per_signal, twin, mass, spread)
        for c in range(columns):
            out[i, c] = combine(
                keep, mix, recall, learn, noise,
                nu[i, c], mixed[c], before[i, c], xi[i, twin[c]], d[c],
            )  # fmt: skip
        share = 1.0
        if divisor.size:  # a ratio law; before anything is released the estimate is 0
            share = 1.0 / divisor[i] if divisor[i] > 0.0 else 0.0
        for c in range(columns):
            error = out[i, c] * share - target[twin[c]]
            cost = (out[i, c] - out[i, twin[c]]) * share
            off[c] += error * error
            apart[c] += cost * cost


@numba.njit(parallel=True, cache=True, error_model="numpy")
def advance_all(  # type: ignore[no-untyped-def]
    indptr, indices, weights, coefficients, nu, before, out, xi, twin, streams, t, key,
    network, per_network, signal, per_signal, per_edge, divisor, mass, target, rows, squares,
):  # fmt: skip
    """out = keep nu + mix A nu + recall before + learn xi + noise b d, and the squared errors.

    `twin[c]` is the clean column of column c, which also indexes `xi` and `target`. The scale of
    the noise is b = max(network_i per_network_c, signal_i per_signal_c). `divisor` holds the
    weights of a ratio law, or is empty. `squares` (blocks, 3, columns) receives the sums over a
    block of (out - target)^2, (out - twin)^2 and (mass b)^2.
    """
    keep, mix, recall, learn, _, _ = coefficients
    agents = nu.shape[0]
    bare = nu.shape[1] == 1 and keep == 0.0 and recall == 0.0 and learn == 0.0 and not divisor.size
    for block in numba.prange(squares.shape[0]):
        first, last = np.uint64(block * rows), np.uint64(min(agents, (block + 1) * rows))
        squares[block] = 0.0
        if bare:
            squares[block, 0, 0] = _mix_block(
                indptr, indices, weights, mix, nu, out, target[0], first, last
            )
        else:
            _advance_block(
                indptr, indices, weights, coefficients, nu, before, out, xi, twin, streams, t,
                key, network, per_network, signal, per_signal, per_edge, divisor, mass, target,
                first, last, squares[block, 0], squares[block, 1], squares[block, 2],
            )  # fmt: skip
