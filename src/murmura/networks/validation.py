"""Checks of a weight matrix. Each names the first offender, what was found and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from murmura._types import Kind, Labels
from murmura.errors import NetworkError
from murmura.networks import kernels
from murmura.networks.graph import agent_name

TOLERANCE = 1e-9  # of a row's sum: far above rounding, far below any loss that an estimate notices


def canonical(matrix: Any) -> csr_array:
    """A square float64 csr array: indices int32 and sorted, every a_ii stored, no other zeros."""
    entries = _entries(matrix)
    size = entries.shape[0]
    kept = (entries.data != 0) & (entries.row != entries.col)
    own = np.arange(size, dtype=np.int32)
    rows = np.concatenate([entries.row[kept].astype(np.int32), own])
    columns = np.concatenate([entries.col[kept].astype(np.int32), own])
    data = np.concatenate([entries.data[kept], entries.diagonal()])
    laid = coo_array((data, (rows, columns)), shape=entries.shape).tocsr()
    laid.sort_indices()
    return laid


def is_canonical(matrix: Any) -> bool:
    """Whether `canonical` would change nothing, so that a large matrix need not be copied."""
    if not (isinstance(matrix, csr_array) and matrix.dtype == np.float64):
        return False
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.indices.dtype != np.int32:
        return False
    own = matrix.indices == kernels.row_numbers(matrix)
    whole = np.count_nonzero(own) == matrix.shape[0]
    return whole and bool(matrix.has_canonical_format) and bool(np.all(own | (matrix.data != 0)))


def _entries(matrix: Any) -> coo_array:
    shape = matrix.shape if issparse(matrix) else np.shape(matrix)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise NetworkError(
            f"weights must be a square matrix, agents by agents; found shape {shape}"
        )
    if shape[0] < 2:
        raise NetworkError(f"weights must join at least 2 agents; found {shape[0]}")
    given = matrix if issparse(matrix) else np.asarray(matrix)
    if given.dtype.kind not in "biufO":
        raise NetworkError(f"weights must be real numbers; found {given.dtype}; try matrix.real")
    try:
        entries = coo_array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NetworkError(f"weights must be real numbers: {error}") from error
    entries.sum_duplicates()
    return entries


def check_entries(weights: csr_array, labels: Labels) -> None:
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


def check_sums(weights: csr_array, labels: Labels, kind: Kind) -> None:
    """The rows, the columns or both sum to 1, as the kind says, or an error."""
    remedy = {
        "doubly-stochastic": "networks.metropolis(graph)",
        "row-stochastic": "networks.row_stochastic(graph)",
        "column-stochastic": "networks.column_stochastic(graph)",
    }[kind]
    axes = {"row-stochastic": [1], "column-stochastic": [0]}.get(kind, [1, 0])
    for axis in axes:
        sums = np.asarray(weights.sum(axis=axis)).ravel()
        wrong = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
        if len(wrong):
            i = int(wrong[0])
            line = f"{'row' if axis == 1 else 'column'} {i}"
            named = line if labels[i] == i else f"{line} (agent {labels[i]!r})"
            raise NetworkError(
                f"weights must be {kind.replace('-', ' ')}: {named} sums to {sums[i]:.10g}, "
                f"expected 1; try {remedy}"
            )


def check_symmetric(weights: csr_array, labels: Labels) -> None:
    """a_ij = a_ji for all, or an error that names the first pair."""
    gap = abs(weights - weights.T.tocsr()).tocoo()
    wrong = np.flatnonzero(gap.data > TOLERANCE)
    if len(wrong):
        k = wrong[np.lexsort((gap.col[wrong], gap.row[wrong]))[0]]
        i, j = int(gap.row[k]), int(gap.col[k])
        raise NetworkError(
            f"weights must be symmetric: {agent_name(labels, i)} gives {weights[i, j]:.10g} to "
            f"{agent_name(labels, j)}, which gives {weights[j, i]:.10g} back; try "
            "networks.metropolis(graph), or networks.DirectedMixing.of(matrix) for a directed "
            "network"
        )


def check_connected(weights: csr_array, labels: Labels, directed: bool = False) -> None:
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


def check_aperiodic(weights: csr_array, remedy: str) -> None:
    """One self weight above 0, or cycles whose lengths have no common divisor; else an error."""
    period = 1 if kernels.has_self_weight(weights) else kernels.period(weights)
    if period > 1:
        raise NetworkError(
            f"weights are periodic: every self weight is 0 and all cycles "
            f"have lengths divisible by {period}, so beta* = 1 and the agents never agree; "
            f"try {remedy}"
        )


def links_of(weights: csr_array) -> csr_array:
    """The pattern of the nonzero weights off the diagonal."""
    rows = kernels.row_numbers(weights)
    off = (rows != weights.indices) & (weights.data != 0)
    return kernels.pattern(weights.shape[0], rows[off], weights.indices[off])
