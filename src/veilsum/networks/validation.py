"""Checks of a weight matrix. Each names the first offender, what was found and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Kind, Labels
from veilsum.errors import NetworkError
from veilsum.networks import kernels
from veilsum.networks.graph import agent_name
from veilsum.networks.rows import CompressedRows, coordinates, is_scipy

TOLERANCE = 1e-9  # of a row's sum: far above rounding, far below any loss that an estimate notices


def canonical(matrix: Any) -> CompressedRows:
    """Square rows of float64: columns sorted, every a_ii stored, no other zeros."""
    size, i, j, data = _entries(matrix)
    kept, own = (data != 0) & (i != j), np.arange(size, dtype=np.int32)
    diagonal = np.zeros(size)
    diagonal[i[i == j]] = data[i == j]
    rows = np.concatenate([i[kept].astype(np.int32), own])
    columns = np.concatenate([j[kept].astype(np.int32), own])
    return CompressedRows.lay(size, rows, columns, np.concatenate([data[kept], diagonal]))


def is_canonical(rows: CompressedRows) -> bool:
    """Whether `canonical` would change nothing, so that a large matrix need not be copied."""
    if rows.data.dtype != np.float64:
        return False
    numbers = kernels.row_numbers(rows)
    own = rows.indices == numbers
    if np.count_nonzero(own) != rows.shape[0] or not np.all(own | (rows.data != 0)):
        return False
    rising = (np.diff(rows.indices) > 0) | (np.diff(numbers) > 0)
    return bool(rising.all())


def _entries(matrix: Any) -> tuple[int, NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """The size, and (row, column, value) of every entry that may not be 0, each place once."""
    sparse = isinstance(matrix, CompressedRows) or is_scipy(matrix)
    shape = matrix.shape if sparse else np.shape(matrix)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise NetworkError(
            f"weights must be a square matrix, agents by agents; found shape {shape}"
        )
    if shape[0] < 2:
        raise NetworkError(f"weights must join at least 2 agents; found {shape[0]}")
    given = matrix if sparse else np.asarray(matrix)
    kind = given.data.dtype if isinstance(given, CompressedRows) else given.dtype
    if kind.kind not in "biufO":
        raise NetworkError(f"weights must be real numbers; found {kind}; try matrix.real")
    try:
        i, j, data = coordinates(given if sparse else given.astype(np.float64))
        data = data.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise NetworkError(f"weights must be real numbers: {error}") from error
    return shape[0], *_summed(i, j, data, shape[0])


def _summed(
    i: NDArray[Any], j: NDArray[Any], data: NDArray[np.float64], size: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """The entries in order of their places, those of one place added up."""
    places = i.astype(np.int64) * size + j
    order = np.argsort(places, kind="stable")
    found, first = np.unique(places[order], return_index=True)
    if len(found) < len(places):
        data = np.add.reduceat(data[order], first)
        return found // size, found % size, data
    return i[order], j[order], data[order]


def check_entries(weights: CompressedRows, labels: Labels) -> None:
    """Finite and nonnegative, or an error."""
    for wrong, expected in (
        (~np.isfinite(weights.data), "finite"),
        (weights.data < 0, "at least 0"),
    ):
        found = np.flatnonzero(wrong)
        if len(found):
            k = found[0]
            i, j = int(kernels.row_numbers(weights)[k]), int(weights.indices[k])
            raise NetworkError(
                f"weights must be {expected}: {agent_name(labels, i)} gives {weights.data[k]:.10g} "
                f"to {agent_name(labels, j)}; try networks.metropolis(graph)"
            )


def check_sums(weights: CompressedRows, labels: Labels, kind: Kind) -> None:
    """The rows, the columns or both sum to 1, as the kind says, or an error."""
    remedy = {
        "doubly-stochastic": "networks.metropolis(graph)",
        "row-stochastic": "networks.row_stochastic(graph)",
        "column-stochastic": "networks.column_stochastic(graph)",
    }[kind]
    axes = {"row-stochastic": [1], "column-stochastic": [0]}.get(kind, [1, 0])
    for axis in axes:
        lines = kernels.row_numbers(weights) if axis == 1 else weights.indices
        sums = np.bincount(lines, weights.data, weights.shape[0])
        wrong = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
        if len(wrong):
            i = int(wrong[0])
            line = f"{'row' if axis == 1 else 'column'} {i}"
            named = line if labels[i] == i else f"{line} (agent {labels[i]!r})"
            raise NetworkError(
                f"weights must be {kind.replace('-', ' ')}: {named} sums to {sums[i]:.10g}, "
                f"expected 1; try {remedy}"
            )


def check_symmetric(weights: CompressedRows, labels: Labels) -> None:
    """a_ij = a_ji for all, or an error that names the first pair."""
    size, i, j = weights.shape[0], kernels.row_numbers(weights), weights.indices
    places, mirrored = i.astype(np.int64) * size + j, j.astype(np.int64) * size + i
    back = _found(places, weights.data, mirrored)
    wrong = np.flatnonzero(np.abs(weights.data - back) > TOLERANCE)
    if len(wrong):
        low, high = np.minimum(i, j)[wrong], np.maximum(i, j)[wrong]
        k = np.lexsort((high, low))[0]
        a, b = int(low[k]), int(high[k])
        there, here = _found(places, weights.data, np.array([a * size + b, b * size + a]))
        raise NetworkError(
            f"weights must be symmetric: {agent_name(labels, a)} gives {there:.10g} to "
            f"{agent_name(labels, b)}, which gives {here:.10g} back; try "
            "networks.metropolis(graph), or networks.DirectedMixing.of(matrix) for a directed "
            "network"
        )


def _found(
    places: NDArray[np.int64], data: NDArray[np.float64], asked: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The entries at the places asked for, of sorted places; 0 where nothing is stored."""
    at = np.minimum(np.searchsorted(places, asked), len(places) - 1)
    return np.where(places[at] == asked, data[at], 0.0)


def check_connected(weights: CompressedRows, labels: Labels, directed: bool = False) -> None:
    """Every agent reaches every other, or an error that counts the components."""
    ids = kernels.components(weights, directed)
    if ids.max() == 0:
        return
    entries = np.diff(weights.indptr) + np.bincount(weights.indices, minlength=len(ids))
    isolated = np.flatnonzero(entries == 2)  # the diagonal entry, in its row and in its column
    raise _isolated(isolated, labels) if len(isolated) else disconnected(ids, labels, directed)


def _isolated(alone: NDArray[np.int64], labels: Labels) -> NetworkError:
    return NetworkError(
        f"{agent_name(labels, int(alone[0]))} is isolated: it has no neighbours "
        f"({len(alone)} such of {len(labels)} agents); link it, leave it out or try "
        "networks.join(graph)"
    )


def disconnected(ids: NDArray[Any], labels: Labels, directed: bool = False) -> NetworkError:
    """The error for a network in several components."""
    sizes = np.bincount(ids)
    example = int(np.flatnonzero(ids == sizes.argmin())[0])
    listed = ", ".join(map(str, np.sort(sizes)[::-1][:5])) + (", ..." if len(sizes) > 5 else "")
    word = "strongly connected" if directed else "connected"
    remedy = "add links" if directed else "add links (networks.join(graph) does)"
    return NetworkError(
        f"network must be {word}: it has {len(sizes)} components of sizes {listed}; "
        f"{agent_name(labels, example)} is in the smallest; {remedy} or keep the largest component"
    )


def check_aperiodic(weights: CompressedRows, remedy: str) -> None:
    """One self weight above 0, or cycles whose lengths have no common divisor; else an error."""
    period = 1 if kernels.has_self_weight(weights) else kernels.period(weights)
    if period > 1:
        raise NetworkError(
            f"weights are periodic: every self weight is 0 and all cycles "
            f"have lengths divisible by {period}, so beta* = 1 and the agents never agree; "
            f"try {remedy}"
        )


def links_of(weights: CompressedRows) -> CompressedRows:
    """The pattern of the nonzero weights off the diagonal."""
    rows = kernels.row_numbers(weights)
    off = (rows != weights.indices) & (weights.data != 0)
    return kernels.pattern(weights.shape[0], rows[off], weights.indices[off])
