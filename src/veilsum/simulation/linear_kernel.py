"""The compiled round of a sweep by linearity: the noiseless run and one perturbation.

A row of `nu` holds, for every block of W streams, the noiseless run mu and the perturbation p, the
response to the noise of epsilon = 1 alone: column 2 k W + l of stream k W + l, and W further. The
estimate of epsilon is mu + ratio p, and with e = mu - m

    ||nu - m||^2 = ||e||^2 + 2 ratio <e, p> + ratio^2 ||p||^2,      ||nu - mu||^2 = ratio^2 ||p||^2,

from three sums for any number of epsilons. The first one loses digits where e and ratio p almost
cancel: the three sums over a block of B = 128 rows are each within B u of what they are of (u =
2^-53, and |<e, p>| counts by the norms), so ||nu - m||^2 is within 2 B u (||e||^2 + ratio^2 ||p||^2).
Where the result is below 1/CANCELLED of that, it is added up from the rows instead. What remains is
below CANCELLED B u = 9.1e-13 of ||nu - m|| in the worst case, where all roundings go one way, and
about 1e-14 in fact.

Where an epsilon is not proportional any more (`since`), its estimates have columns of their own,
`owned[epsilon]`, a column for each stream, which begin as mu + ratio p.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum.simulation.kernel import (
    BLOCK,
    BY_STREAM,
    SHARED,
    Inputs,
    KernelState,
    Matrix,
    RowRange,
    Scales,
    advance_group,
    update,
)
from veilsum.simulation.lanes import load, load_halves, maximum, splat, store
from veilsum.simulation.noise import HALF, PAIRED, fill_laplace

NEVER = np.iinfo(np.int64).max
CANCELLED = 64.0  # how many times smaller than its terms a sum may be

_U = np.uint64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TWO, _THREE = np.uint64(2), np.uint64(3)


class Owned(NamedTuple):
    """The epsilons with columns of their own, and from which round on."""

    nu: Floats  # (epsilons, rows, streams): the present
    out: Floats  # the buffer of the next
    before: Floats  # the past if there is momentum
    since: NDArray[np.int64]  # (epsilons, all streams): the first round of an own column, or NEVER
    ratios: Floats  # (epsilons,): of the noise to that of epsilon = 1, before


@numba.njit(error_model="numpy")
def _advance_pair(
    like, indptr, indices, weights, nu, out, before, xi, target, divisor,
    network, mass, signal, shared, draws, linked, algorithm, per_network, per_signal, per_edge,
    first, last, column, stream, scale_at, at, per_row, sums,
):  # fmt: skip
    """Take the noiseless run and the perturbation of W streams through the round, in one pass.

    `sums` receives ||e||^2, <e, p>, ||p||^2 and the sum of (mass b)^2 of rows first..last. Arrays
    come one by one: members of a tuple would be counted as references in every row.
    """
    own, mixing, momentum = algorithm[0], algorithm[1], algorithm[2]
    innovation, noise = algorithm[3], algorithm[4]
    ratio, noisy, linking = divisor.size > 0, noise != 0.0, linked.size > 0
    bare = own == 0.0 and momentum == 0.0 and innovation == 0.0 and noise == 0.0
    beside = column + _U(len(like))
    aim, zero = load(like, target, _ZERO, stream), splat(like, 0.0)
    off, cross, costs, spread = zero, zero, zero, zero
    for i in range(first, last):
        mixed, moved, d = zero, zero, zero
        if mixing != 0.0:
            for p in range(_U(indptr[i]), _U(indptr[i + _ONE])):
                j, weight = _U(indices[p]), weights[p]
                mixed = mixed + weight * load(like, nu, j, column)
                moved = moved + weight * load(like, nu, j, beside)
        if linking:
            moved = moved + per_edge * load(like, linked, i, stream)
        if noisy:
            b = splat(like, network[i] * per_network)
            if per_signal != 0.0:
                level = splat(like, signal[i, _ZERO]) if shared else load(like, signal, i, scale_at)
                b = maximum(b, level * per_signal)
            d = b * load_halves(like, draws, (i - first) * per_row + at)
            weighed = mass[i] * b
            spread = spread + weighed * weighed
        if bare:  # the same sum, without reading what is multiplied by 0
            new = update(0.0, mixing, 0.0, 0.0, 0.0, zero, mixed, zero, zero, zero)
            moved = update(0.0, mixing, 0.0, 0.0, 0.0, zero, moved, zero, zero, zero)
        else:
            new = update(
                own, mixing, momentum, innovation, noise,
                load(like, nu, i, column), mixed, load(like, before, i, column),
                load(like, xi, i, stream), zero,
            )  # fmt: skip
            moved = update(
                own, mixing, momentum, innovation, noise,
                load(like, nu, i, beside), moved, load(like, before, i, beside), zero, d,
            )  # fmt: skip
        store(out, i, column, new)
        store(out, i, beside, moved)
        factor = 1.0
        if ratio:  # before anything is released the estimate is 0
            factor = 1.0 / divisor[i] if divisor[i] > 0.0 else 0.0
        error, cost = new * factor - aim, moved * factor
        off = off + error * error
        cross = cross + error * cost
        costs = costs + cost * cost
    store(sums, _ZERO, _ZERO, off)
    store(sums, _ONE, _ZERO, cross)
    store(sums, _TWO, _ZERO, costs)
    store(sums, _THREE, _ZERO, spread)


@numba.njit(error_model="numpy")
def _row_by_row(out, divisor, target, first, last, column, beside, stream, ratio):
    """||e + ratio p||^2 of rows first..last of one stream, where the three sums lose digits."""
    square = 0.0
    for i in range(first, last):
        factor = 1.0
        if divisor.size > 0:
            factor = 1.0 / divisor[i] if divisor[i] > 0.0 else 0.0
        moved = out[i, beside] * factor
        error = (out[i, column] * factor - target[_ZERO, stream]) + ratio * moved
        square += error * error
    return square


@numba.njit(error_model="numpy")
def _fill_sums(like, found, ratios, out, divisor, target, first, last, stack, lane, squares):
    """The sums of squares of every epsilon of a block of streams, from those of the pair."""
    W, E = _U(len(like)), _U(ratios.size)
    column, place = stack * _TWO * W, stack * (E + _ONE) * W
    for c in range(W):
        squares[0, place + c] = found[0, c]
        squares[1, place + c] = 0.0
        squares[2, place + c] = 0.0
    for e in range(E):
        place += W
        ratio = ratios[e]
        for c in range(W):
            apart = ratio * ratio * found[2, c]
            total = found[0, c] + 2.0 * ratio * found[1, c] + apart
            if not CANCELLED * total >= found[0, c] + apart:
                total = _row_by_row(
                    out, divisor, target, first, last, column + c, column + W + c, lane + c, ratio
                )
            squares[0, place + c] = total
            squares[1, place + c] = apart
            squares[2, place + c] = ratio * ratio * found[3, c]


@numba.njit(error_model="numpy")
def _owned_lanes(since, lane, live, t):
    """How many of the columns of these epsilons are their own in round t, of `live` lanes each."""
    count = _ZERO
    for e in range(since.shape[0]):
        for c in range(live):
            count += _ONE if since[e, lane + c] <= t else _ZERO
    return count


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _begin_owned(lanes, nu, before, owned, owned_before, since, ratios, stream, t):
    """Columns that are an epsilon's own from round t on: begin with mu + ratio p."""
    for e in range(since.shape[0]):
        for s in range(min(owned.shape[2], since.shape[1] - stream)):
            if since[e, stream + s] != t:
                continue
            column = s // lanes * 2 * lanes + s % lanes
            for i in range(nu.shape[0]):
                owned[e, i, s] = nu[i, column] + ratios[e] * nu[i, column + lanes]
                owned_before[e, i, s] = before[i, column] + ratios[e] * before[i, column + lanes]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _advance(like, matrix, state, own, inputs, scales, each, bounds, squares):
    indptr, indices, weights = matrix
    nu, out, before = state
    owned, owned_out, owned_before, since, ratios = own
    algorithms, statistics, target, links, divisors, agents, key = inputs
    network, mass, signals, per_network, per_signal, per_edge = scales
    each_network, each_signal, each_edge = each
    row, rows, begin, end, stream, _, t, scales_by, _, momentum = bounds
    W, E, stream = _U(len(like)), _U(ratios.size), _U(stream)
    stacks = _U(nu.shape[1]) // (_TWO * W)
    half = min(W, HALF)
    per_row = stacks * half
    size = BLOCK * per_row
    draws, found, single = np.empty((2, size)), np.empty((4, W)), np.empty((3, nu.shape[1]))
    agent, block = np.empty(size, np.uint32), np.empty(size, np.uint32)
    for q in range(size):
        block[q] = stream // PAIRED * HALF + _U(q) % per_row
    shared = scales_by == SHARED
    for k in range(algorithms.shape[0]):
        algorithm, xi = algorithms[k], statistics[min(k, statistics.shape[0] - 1)]
        signal = signals[min(k, signals.shape[0] - 1)]
        divisor, linked = divisors[min(k, divisors.shape[0] - 1)], links[min(k, links.shape[0] - 1)]
        if k > 0:  # for the first round the caller does it: other threads may have other rows
            _begin_owned(len(like), nu, before, owned, owned_before, since, ratios, stream, t + k)
        for part in range(begin, end):
            first = _U(row + part * BLOCK)
            last = min(_U(rows), first + _U(BLOCK))
            if algorithm[4] != 0.0:
                q = _ZERO
                for i in range(first, last):
                    for _ in range(per_row):
                        agent[q] = agents[i]
                        q += _ONE
                fill_laplace(draws, agent, block, 0, t + k, key, q, W <= HALF)
            sums = squares[k, part]
            for stack in range(stacks):
                lane = stream + stack * W
                live = min(W, _U(since.shape[1]) - lane)  # lanes that are not discarded
                column, place = stack * _TWO * W, stack * (E + _ONE) * W
                alone = (
                    _owned_lanes(since, lane, live, t + k) == E * live
                )  # nobody reads p any more
                if not alone:
                    _advance_pair(
                        like, indptr, indices, weights, nu, out, before, xi, target, divisor,
                        network, mass, signal, shared, draws, linked, algorithm,
                        per_network[k, 1], per_signal[k, 1], per_edge[1], first, last,
                        column, lane, lane, stack * half, per_row, found,
                    )  # fmt: skip
                    _fill_sums(
                        like, found, ratios, out, divisor, target, first, last, stack, lane, sums
                    )
                for g in range(E + _ONE):  # the noiseless run if it is alone, and own columns
                    private, e = g > _ZERO, g - _ONE if g > _ZERO else _ZERO
                    if private:
                        if _owned_lanes(since[e : e + _ONE], lane, live, t + k) == _ZERO:
                            continue
                        now, new, past, at = owned[e], owned_out[e], owned_before[e], stack * W
                    else:
                        if not alone:
                            continue
                        now, new, past, at = nu, out, before, column
                    single[:, at : at + W] = 0.0
                    advance_group(
                        like, indptr, indices, weights, now, new, past, xi, target, divisor,
                        network, mass, signal, shared, draws, linked, algorithm,
                        each_network[k, g], each_signal[k, g], each_edge[g], first, last,
                        at, out, column, private, lane, lane, lane, stack * half, per_row, single,
                    )  # fmt: skip
                    for c in range(live):
                        if not private or since[e, lane + c] <= t + k:
                            for kind in range(3):
                                sums[kind, place + g * W + c] = single[kind, at + c]
        if momentum:
            nu, out, before = out, before, nu
            owned, owned_out, owned_before = owned_out, owned_before, owned
        else:  # the past is multiplied by 0: any finite one will do
            nu, out, before = out, nu, out
            owned, owned_out, owned_before = owned_out, owned, owned_out


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _expand(lanes, nu, owned, since, ratios, stream, rows, noiseless, out):
    streams = since.shape[1]
    for r in range(rows.size):
        i = rows[r]
        for s in range(min(nu.shape[1] // 2, streams - stream)):
            column, place = s // lanes * 2 * lanes + s % lanes, stream + s
            if place < noiseless:
                out[r, place] = nu[i, column]
            for e in range(ratios.size):
                value = nu[i, column] + ratios[e] * nu[i, column + lanes]
                if since[e, place] < NEVER:
                    value = owned[e, i, s]
                out[r, noiseless + e * streams + place] = value


def advance(
    like: tuple[float, ...], matrix: Matrix, state: KernelState, owned: Owned, inputs: Inputs,
    scales: Scales, each: tuple[Floats, Floats, Floats], rows: RowRange, squares: Floats,
) -> None:  # fmt: skip
    """The rounds of `kernel.advance` for all epsilons at once.

    `scales` are those of the perturbation, group 1; `each` has per_network, per_signal and per_edge
    of every epsilon. `squares` (k, blocks, 3, blocks of streams x (1 + epsilons) x W) receives what
    `kernel.advance` would have for these groups. Before the call, `begin_owned` must have been
    called for the first round.
    """
    assert rows.statistics_by == BY_STREAM
    cast(Any, _advance)(
        like, tuple(matrix[:3]), tuple(state), tuple(owned), tuple(inputs), tuple(scales), each,
        tuple(rows), squares,
    )  # fmt: skip


def begin_owned(lanes: int, state: KernelState, owned: Owned, stream: int, t: int) -> None:
    """Begin the columns that are an epsilon's own from round t on, of streams from `stream` on."""
    cast(Any, _begin_owned)(
        lanes, state.nu, state.before, owned.nu, owned.before, owned.since, owned.ratios, stream, t
    )


def expand(
    lanes: int, nu: Floats, owned: Owned, stream: int, rows: NDArray[np.uint32], noiseless: int,
    out: Floats,
) -> None:  # fmt: skip
    """Store the runs of streams from `stream` on in `out`: noiseless ones, then epsilon by stream."""
    cast(Any, _expand)(lanes, nu, owned.nu, owned.since, owned.ratios, stream, rows, noiseless, out)
