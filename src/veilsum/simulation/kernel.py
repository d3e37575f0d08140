"""The compiled round: product, coefficients, noise and error norms in one pass over the agents.

A row of `nu` holds an agent's estimates in all runs, `width` = stream blocks x groups x W of them:

    column (k G + g) W + l  =  group g of stream k W + l

A stream is one replica and component: it has one sequence of signals and one of noise. Group 0 is
the noiseless run (mu in the paper), groups 1..G-1 the private ones, one for each epsilon. The W
streams of a block lie side by side in the lanes of a register.

Rows are processed in blocks of `BLOCK`; the squared errors of a block are added up row by row, so
the sums depend neither on the number of threads nor on which thread computes which block.

`advance` processes rows first..last of the matrix, of which blocks begin..end. It reads `nu` at
every index that the matrix has, writes `out` in its own rows alone, and draws the noise of row i
for agent `agents[i]`, a global number. A process with a part of a network stores the halo, the
estimates of agents of other processes, after its own rows (`nu` and `agents` are longer than
`out`), and calls once for the rows that do not read the halo and once for those that do. Several
rounds in one call are possible only without a halo.

Indices are unsigned: a signed index makes numba test for negative ones at every access, which
costs more than the multiplication.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from veilsum.algorithms.base import update as _update
from veilsum.simulation.lanes import load, load_halves, maximum, splat, store
from veilsum.simulation.noise import HALF, PAIRED, fill_laplace

update = numba.njit(_update)

BLOCK = 128  # rows that are added up together: fixed, so that sums depend on nothing else
SHARED, BY_STREAM, BY_COLUMN = 0, 1, 2  # what `Scales.signal` or `Inputs.xi` has one column for

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
_U = np.uint64
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class Matrix(NamedTuple):
    """The weights in rows (csr); pointers of 32 or of 64 bits, unsigned as the indices."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    weights: Floats
    sliced: bool = False  # whether eight rows lie side by side, as `slices` has them
    lead: int = 0  # how many rows ahead of itself a row reads, where that is known


class KernelState(NamedTuple):
    """(rows, width) each: the present, the buffer of the next, and the past if there is momentum."""

    nu: Floats
    out: Floats
    before: Floats


class Inputs(NamedTuple):
    """What the rounds k = 0, 1, ... of a call read; a first axis of 1 serves all of them."""

    algorithm: Floats  # (k, 6): the coefficients
    xi: Floats  # (k or 1, rows, streams or width): the statistics
    target: Floats  # (1, streams): what the estimates are to reach
    linked: Floats  # (k, rows, streams): the noise of the links (`noise.link_noise`), or (1, 0, 0)
    divisor: Floats  # (k, rows): the weights of a ratio algorithm, or (1, 0)
    agents: NDArray[np.uint32]  # (rows of nu,): the agent of each row, which its noise follows from
    key: NDArray[np.uint64]  # (2,)


class Scales(NamedTuple):
    """The scale of the noise: b = max(network_i per_network_g, signal_i per_signal_g)."""

    network: Floats  # (rows,)
    mass: Floats  # (rows,): the weight of an agent in the limit
    signal: Floats  # (k or 1, rows, 1 or streams or width)
    per_network: Floats  # (k, groups)
    per_signal: Floats  # (k, groups)
    per_edge: Floats  # (groups,): of the noise on a link


class RowRange(NamedTuple):
    """The rows, columns and rounds of a call."""

    first: int  # rows first..last, cut into blocks, of which begin..end
    last: int
    begin: int
    end: int
    stream: int  # the first of the streams that are columns here
    groups: int
    t: int  # the first round
    scales_by: int  # SHARED, BY_STREAM or BY_COLUMN
    statistics_by: int  # BY_STREAM or BY_COLUMN
    momentum: bool  # whether three states rotate, or two


def matrix_of(weights: Any, sliced: bool = False, lead: int = 0) -> Matrix:
    """The kernel's view of a csr array, without a copy; `sliced` after `slices.slice_rows`."""
    pointers, wide = weights.indptr, weights.indptr.dtype.itemsize == np.dtype(np.int64).itemsize
    indices = np.asarray(weights.indices, dtype=np.int32).view(np.uint32)
    return Matrix(
        pointers.view(np.uint64 if wide else np.uint32), indices, weights.data, sliced, lead
    )


@numba.njit(error_model="numpy")
def _advance_one(indptr, indices, weights, mixing, nu, out, target, first, last):
    """out = mixing A nu and its squared error for a single run: the round without other terms."""
    square = 0.0
    for i in range(first, last):
        mixed = 0.0
        for p in range(_U(indptr[i]), _U(indptr[i + _ONE])):
            mixed += weights[p] * nu[_U(indices[p])]
        new = update(0.0, mixing, 0.0, 0.0, 0.0, 0.0, mixed, 0.0, 0.0, 0.0)
        out[i] = new
        square += (new - target) * (new - target)
    return square


@numba.njit(error_model="numpy")
def advance_group(
    like, indptr, indices, weights, nu, out, before, xi, target, divisor,
    network, mass, signal, shared, draws, linked, algorithm, per_network, per_signal, per_edge,
    first, last, column, clean, noiseless, private, stream, scale_at, statistic_at, at, per_row, sums,
):  # fmt: skip
    """Take one group of W runs through the round in rows first..last; add its squared errors to sums.

    `clean` has the noiseless run in column `noiseless`, which a private group is compared with.
    Arrays come one by one: members of a tuple would be counted as references in every row.
    """
    own, mixing, momentum = algorithm[0], algorithm[1], algorithm[2]
    innovation, noise = algorithm[3], algorithm[4]
    ratio = divisor.size > 0
    noisy, linking = private and noise != 0.0, private and linked.size > 0
    bare = own == 0.0 and momentum == 0.0 and innovation == 0.0 and noise == 0.0
    aim, zero = load(like, target, _ZERO, stream), splat(like, 0.0)
    off, costs = load(like, sums, _ZERO, column), load(like, sums, _ONE, column)
    spread = load(like, sums, _ONE + _ONE, column)
    for i in range(first, last):
        mixed, d, level = zero, zero, zero
        if mixing != 0.0:
            for p in range(_U(indptr[i]), _U(indptr[i + _ONE])):
                mixed = mixed + weights[p] * load(like, nu, _U(indices[p]), column)
        if linking:
            mixed = mixed + per_edge * load(like, linked, i, stream)
        if noisy:
            level = splat(like, signal[i, _ZERO]) if shared else load(like, signal, i, scale_at)
            b = maximum(splat(like, network[i] * per_network), level * per_signal)
            d = b * load_halves(like, draws, (i - first) * per_row + at)
            weighed = mass[i] * b
            spread = spread + weighed * weighed
        if bare:  # the same sum, without reading what is multiplied by 0
            new = update(0.0, mixing, 0.0, 0.0, 0.0, zero, mixed, zero, zero, zero)
        else:
            now = load(like, nu, i, column) if own != 0.0 else zero
            past = load(like, before, i, column) if momentum != 0.0 else zero
            new = update(
                own, mixing, momentum, innovation, noise, now, mixed, past,
                load(like, xi, i, statistic_at), d,
            )  # fmt: skip
        store(out, i, column, new)
        factor = 1.0
        if ratio:  # before anything is released the estimate is 0
            factor = 1.0 / divisor[i] if divisor[i] > 0.0 else 0.0
        error = new * factor - aim
        off = off + error * error
        if private:
            cost = (new - load(like, clean, i, noiseless)) * factor
            costs = costs + cost * cost
    store(sums, _ZERO, column, off)
    store(sums, _ONE, column, costs)
    store(sums, _ONE + _ONE, column, spread)


def advance(
    like: tuple[float, ...], matrix: Matrix, state: KernelState, inputs: Inputs, scales: Scales,
    rows: RowRange, squares: Floats, steps: Steps | None = None,
) -> None:  # fmt: skip
    """out = own nu + mixing A nu + momentum before + innovation xi + noise b d, and squared errors.

    `like` holds W zeros. `squares` (k, blocks, 3, width) receives the sums over a block of
    (out - target)^2, (out - noiseless run)^2 and (mass b)^2, from which the variance of the
    released total follows; blocks count from row `first`. After an odd number of rounds the present
    is in `out`; with `momentum` the three states have rotated by one place for every round.

    `steps` (steps, 3) lists (k, begin, end), blocks begin..end of round k, in an order in which every
    row finds what it reads (`tiles`); without it, all rounds take blocks begin..end of `rows` in turn.
    """
    # plain tuples: numba types them many times faster than named ones
    cast(Any, _advance)(
        like, tuple(matrix[:3]), tuple(state), tuple(inputs), tuple(scales), tuple(rows), squares,
        in_turn(inputs, rows) if steps is None else steps,
    )  # fmt: skip


def in_turn(inputs: Inputs, rows: RowRange) -> Steps:
    """The steps of rounds that are taken one after the other."""
    rounds = range(len(inputs.algorithm))
    return np.array([(k, rows.begin, rows.end) for k in rounds], dtype=np.int64)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _advance(like, matrix, state, inputs, scales, bounds, squares, steps):
    indptr, indices, weights = matrix
    algorithms, statistics, target, links, divisors, agents, key = inputs
    network, mass, signals, per_network, per_signal, per_edge = scales
    row, rows, _, _, stream, groups, t, scales_by, statistics_by, momentum = bounds
    W, G, stream = _U(len(like)), _U(groups), _U(stream)
    width, turns = _U(state[0].shape[1]), 3 if momentum else 2
    stacks = width // (G * W)
    half = min(W, HALF)
    per_row = stacks * half
    size = BLOCK * per_row
    draws = np.empty((2, size))
    agent, block = np.empty(size, np.uint32), np.empty(size, np.uint32)
    for q in range(size):
        block[q] = stream // PAIRED * HALF + _U(q) % per_row
    for step in range(steps.shape[0]):
        k, begin, end = steps[step]
        nu, out = state[k % turns], state[(k + 1) % turns]
        before = state[(k + 2) % 3] if momentum else nu  # else multiplied by 0: any finite one does
        noisy = algorithms[k, 4] != 0.0 and G > _ONE
        algorithm, xi = algorithms[k], statistics[min(k, statistics.shape[0] - 1)]
        signal = signals[min(k, signals.shape[0] - 1)]
        divisor, linked = divisors[min(k, divisors.shape[0] - 1)], links[min(k, links.shape[0] - 1)]
        alone = (
            width == _ONE
            and algorithm[1] != 0.0
            and algorithm[0] == algorithm[2] == algorithm[3] == 0.0
        )
        alone = alone and divisor.size == 0
        for part in range(begin, end):
            first = _U(row + part * BLOCK)
            last = min(_U(rows), first + _U(BLOCK))
            if alone:
                sums = squares[k, part]
                sums[1, 0], sums[2, 0] = 0.0, 0.0
                sums[0, 0] = _advance_one(
                    indptr, indices, weights, algorithm[1], nu.reshape(nu.size), out.reshape(out.size),
                    target[0, 0], first, last,
                )  # fmt: skip
                continue
            if noisy:
                q = _ZERO
                for i in range(first, last):
                    for _ in range(per_row):
                        agent[q] = agents[i]
                        q += _ONE
                fill_laplace(draws, agent, block, 0, t + k, key, q, W <= HALF)
            squares[k, part] = 0.0
            for stack in range(stacks):
                lane = stream + stack * W
                for g in range(G):
                    each = lane * G + g * W
                    scale_at = lane if scales_by == BY_STREAM else each
                    statistic_at = lane if statistics_by == BY_STREAM else each
                    advance_group(
                        like, indptr, indices, weights, nu, out, before, xi, target,
                        divisor, network, mass, signal, scales_by == SHARED,
                        draws, linked, algorithm, per_network[k, g], per_signal[k, g],
                        per_edge[g], first, last,
                        (stack * G + g) * W, out, stack * G * W, g != _ZERO, lane,
                        scale_at, statistic_at, stack * half, per_row, squares[k, part],
                    )  # fmt: skip
