"""Eight rows at a time: the round of runs with a single stream.

Replicas fill the lanes of a register with themselves (`kernel`). A single one has eight agents side
by side there instead, and the matrix in an order that suits it:

    slice of rows 8s .. 8s + 7, the longest first:
        first entries of the eight rows, second entries, ..., each of as many rows as have one

These are the compressed rows with the entries of each slice in another order: pointers and size are
the same, and a row adds up the same terms one after the other, so that every estimate and every norm
has the bits that `kernel.advance` gives it. Rows must be sorted by length within a slice, as
`networks.arrange` leaves them. The last rows of the network stay as they are: eight entries may be
read where fewer are used.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np

from veilsum.simulation.kernel import (
    BLOCK,
    BY_COLUMN,
    Floats,
    Inputs,
    KernelState,
    Matrix,
    RowRange,
    Scales,
    Steps,
    advance_group,
    in_turn,
    update,
)
from veilsum.simulation.lanes import (
    SLICE,
    add_first,
    add_in_turn,
    every,
    load,
    load_rows,
    maximum,
    prefetch,
    repeat,
    splat,
    store,
    store_rows,
    take,
)
from veilsum.simulation.noise import fill_laplace

_U = np.uint64
_ZERO, _ONE, _TWO, _SLICE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(SLICE)
_AHEAD = np.uint64(256)  # entries that are asked for before they are read
_SINGLE, _PAIR = (0.0,), (0.0, 0.0)
_EIGHT, _SIXTEEN = (0.0,) * SLICE, (0.0,) * (2 * SLICE)


def slice_rows(matrix: Any) -> None:
    """Move the entries of a csr array in place."""
    if not cast(Any, _slice_rows)(matrix.indptr, matrix.indices, matrix.data):
        raise ValueError("rows must be sorted by length, the longest of every eight first")


@numba.njit(error_model="numpy")
def _sliced_rows(indptr):
    """How many rows are in slices: all but those whose slice has no eight entries after it."""
    whole = (len(indptr) - 1) // SLICE * SLICE
    while whole > 0 and indptr[whole] + SLICE > indptr[len(indptr) - 1]:
        whole -= SLICE
    return whole


@numba.njit(cache=True, nogil=True)
def _slice_rows(indptr, indices, weights):
    room = 64
    numbers, values = np.empty(room, indices.dtype), np.empty(room)
    for first in range(0, _sliced_rows(indptr), SLICE):
        start, stop = indptr[first], indptr[first + SLICE]
        if stop - start > room:
            room = stop - start
            numbers, values = np.empty(room, indices.dtype), np.empty(room)
        for r in range(first + 1, first + SLICE):
            if indptr[r + 1] - indptr[r] > indptr[r] - indptr[r - 1]:
                return False
        to, rows = 0, SLICE
        for e in range(indptr[first + 1] - start):
            while indptr[first + rows] - indptr[first + rows - 1] <= e:
                rows -= 1
            for r in range(first, first + rows):
                numbers[to], values[to] = indices[indptr[r] + e], weights[indptr[r] + e]
                to += 1
        for e in range(stop - start):
            indices[start + e], weights[start + e] = numbers[e], values[e]
    return True


@numba.njit(error_model="numpy")
def _advance_columns(
    like, wide, all_rows, indptr, indices, weights, nu, out, before, xi, aim, network, mass, signal,
    draws, algorithm, per_network, per_signal, first, last, column, lead,
    room, sums,
):  # fmt: skip
    """`kernel.advance_group` for W runs, columns from `column` on, in slices of rows first..last.

    All of it in one function: arrays are counted as references where one calls another. Rows read
    others up to `lead` ahead, in no order that the processor would foresee: they are asked for early.
    """
    own, mixing, momentum = algorithm[0], algorithm[1], algorithm[2]
    innovation, noise = algorithm[3], algorithm[4]
    bare = own == 0.0 and momentum == 0.0 and innovation == 0.0 and noise == 0.0
    count, zero, alone = _U(len(like)), splat(_EIGHT, 0.0), out.shape[1] == 1
    for row in range(first, last, _SLICE):
        for c in range(column, column + count):
            prefetch(nu, (row + lead) * _U(nu.shape[1]) + c * _SLICE)
        products = splat(all_rows, 0.0)
        if mixing != 0.0:
            p, stop = _U(indptr[row]), _U(indptr[row + _SLICE])
            entry, longest = stop - _U(indptr[row + _SLICE - _ONE]), _U(indptr[row + _ONE]) - p
            for _ in range(entry):
                prefetch(weights, p + _AHEAD)
                prefetch(indices, p + _AHEAD)
                products = products + repeat(like, weights, p) * take(
                    like, wide, nu, indices, p, column
                )
                p += _SLICE
            if p != stop:  # some rows have more entries than the last one
                rows = _SLICE
                while entry < longest:
                    while _U(indptr[row + rows]) - _U(indptr[row + rows - _ONE]) <= entry:
                        rows -= _ONE
                    if rows == _ONE:
                        break
                    products = add_first(
                        products,
                        repeat(like, weights, p) * take(like, wide, nu, indices, p, column),
                        rows * count,
                    )
                    p += rows
                    entry += _ONE
                if p != stop:  # of the longest alone
                    store(room, _ZERO, _ZERO, products)
                    hub = load(like, room, _ZERO, _ZERO)
                    for q in range(p, stop):
                        hub = hub + weights[q] * load(like, nu, _U(indices[q]), column)
                    store(room, _ZERO, _ZERO, hub)
                    products = load(all_rows, room, _ZERO, _ZERO)
        mixed, later = every(like, (), products), every(like, _SINGLE, products)
        for c in range(count):
            g = column + c
            d = zero
            if g != _ZERO and noise != 0.0:
                level = (
                    load(_EIGHT, signal, row, _ZERO)
                    if signal.shape[1] == 1
                    else load_rows(signal, row, g)
                )
                b = maximum(
                    load(_EIGHT, network, row, _ZERO) * per_network[g], level * per_signal[g]
                )
                d = b * load(_EIGHT, draws, _ZERO, row - first)
                weighed = load(_EIGHT, mass, row, _ZERO) * b
                sums[_TWO, g] = add_in_turn(sums[_TWO, g], weighed * weighed)
            if bare:
                new = update(0.0, mixing, 0.0, 0.0, 0.0, zero, mixed, zero, zero, zero)
            else:
                statistic = (
                    load(_EIGHT, xi, row, _ZERO) if xi.shape[1] == 1 else load_rows(xi, row, g)
                )
                now = load_rows(nu, row, g) if own != 0.0 else zero
                past = load_rows(before, row, g) if momentum != 0.0 else zero
                new = update(
                    own, mixing, momentum, innovation, noise, now, mixed, past, statistic, d
                )
            if alone:
                store(out, row, _ZERO, new)
            else:
                store_rows(out, row, g, new)
            error = new - aim
            sums[_ZERO, g] = add_in_turn(sums[_ZERO, g], error * error)
            if g != _ZERO:
                cost = new - load_rows(out, row, _ZERO)
                sums[_ONE, g] = add_in_turn(sums[_ONE, g], cost * cost)
            mixed = later


def advance(
    matrix: Matrix, state: KernelState, inputs: Inputs, scales: Scales, rows: RowRange,
    squares: Floats, steps: Steps | None = None,
) -> None:  # fmt: skip
    """`kernel.advance` for sliced rows, one stream and all of the network, without noise of links."""
    cast(Any, _advance)(
        (*matrix[:3], matrix.lead), tuple(state), tuple(inputs), tuple(scales), tuple(rows), squares,
        in_turn(inputs, rows) if steps is None else steps,
    )  # fmt: skip


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _advance(matrix, state, inputs, scales, bounds, squares, steps):
    indptr, indices, weights, lead = matrix
    algorithms, statistics, target, links, divisors, agents, key = inputs
    network, mass, signals, per_network, per_signal, per_edge = scales
    _, rows, _, _, _, groups, t, scales_by, statistics_by, momentum = bounds
    G, turns, aim = _U(groups), 3 if momentum else 2, splat(_EIGHT, target[0, 0])
    networks, masses = network.reshape(network.size, 1), mass.reshape(mass.size, 1)
    sliced, lead = _U(_sliced_rows(indptr)), _U(lead)
    draws, room, block = np.empty((2, BLOCK)), np.empty((1, 2 * SLICE)), np.zeros(BLOCK, np.uint32)
    for step in range(steps.shape[0]):
        k, begin, end = steps[step]
        nu, out = state[k % turns], state[(k + 1) % turns]
        before = state[(k + 2) % 3] if momentum else nu
        algorithm, xi = algorithms[k], statistics[min(k, statistics.shape[0] - 1)]
        signal = signals[min(k, signals.shape[0] - 1)]
        noisy, by_network, by_signal = (
            algorithm[4] != 0.0 and G > _ONE,
            per_network[k],
            per_signal[k],
        )
        for part in range(begin, end):
            first = _U(part * BLOCK)
            last = min(_U(rows), first + _U(BLOCK))
            whole, sums = max(min(last, sliced), first), squares[k, part]
            sums[:] = 0.0
            if noisy:
                fill_laplace(draws, agents[first:last], block, 0, t + k, key, last - first, True)
            if G == _ONE:
                _advance_columns(
                    _SINGLE, _SINGLE, _EIGHT, indptr, indices, weights, nu, out, before, xi, aim,
                    networks, masses, signal, draws, algorithm, by_network, by_signal,
                    first, whole, _ZERO, lead, room, sums,
                )  # fmt: skip
            elif G == _TWO:
                _advance_columns(
                    _PAIR, _PAIR, _SIXTEEN, indptr, indices, weights, nu, out, before, xi, aim,
                    networks, masses, signal, draws, algorithm, by_network, by_signal,
                    first, whole, _ZERO, lead, room, sums,
                )  # fmt: skip
            else:
                for g in range(_ZERO, G - G % _TWO, _TWO):
                    _advance_columns(
                        _PAIR, (), _SIXTEEN, indptr, indices, weights, nu, out, before, xi, aim,
                        networks, masses, signal, draws, algorithm, by_network, by_signal,
                        first, whole, g, lead, room, sums,
                    )  # fmt: skip
                if G % _TWO == _ONE:
                    _advance_columns(
                        _SINGLE, (), _EIGHT, indptr, indices, weights, nu, out, before, xi, aim,
                        networks, masses, signal, draws, algorithm, by_network, by_signal,
                        first, whole, G - _ONE, lead, room, sums,
                    )  # fmt: skip
            for g in range(G if whole < last else _ZERO):  # the last rows of the network
                scale_at = g if scales_by == BY_COLUMN else _ZERO
                statistic_at = g if statistics_by == BY_COLUMN else _ZERO
                advance_group(
                    _SINGLE, indptr, indices, weights, nu, out, before, xi, target, divisors[0],
                    network, mass, signal, False, draws, links[0], algorithm, per_network[k, g],
                    per_signal[k, g], per_edge[g], whole, last, g, out, _ZERO, g != _ZERO, _ZERO,
                    scale_at, statistic_at, whole - first, _ONE, sums,
                )  # fmt: skip
