"""An order of the agents in which neighbours lie close together in memory.

    order = arrange(weights, graph.positions)     order[k] = the agent at place k
    B = permuted(weights, order)                  b_kl = a_{order[k], order[l]}

Places first: along the Morton curve where coordinates are known, else reverse Cuthill-McKee. Then
agents are sorted by the length of their row inside windows, so that a kernel which takes several
rows at once seldom waits for a long one, while no agent moves further than its window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._validate import at_least
from veilsum.errors import NetworkError
from veilsum.networks.kernels import compiled_pays
from veilsum.networks.rows import CompressedRows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Order = NDArray[np.int64]
BITS = 16  # of each coordinate: 2^32 cells, hundreds for each of ten million agents


def arrange(matrix: csr_array, positions: NDArray[Any] | None = None, window: int = 512) -> Order:
    """(n,): the agents in an order that keeps neighbours together, longest rows of a window first.

    A pure function of its arguments.

    Parameters
    ----------
    matrix : csr_array
        Weights or adjacency.
    positions : array_like, shape (n, 2), optional
        Coordinates of the agents; used where all of them are finite.
    window : int
        Agents that are sorted by the length of their rows at once.

    Returns
    -------
    ndarray of int64
        order[k] is the agent at place k.

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.arrange(networks.path(5).adjacency)
    array([3, 2, 1, 4, 0])
    """
    at_least(NetworkError, 1, window=window)
    size = matrix.shape[0]
    if positions is not None and np.shape(positions) != (size, 2):
        raise NetworkError(f"positions must have shape ({size}, 2); found {np.shape(positions)}")
    placed = positions is not None and bool(np.isfinite(positions).all())
    near = morton(np.asarray(positions)) if placed else _cuthill_mckee(matrix)
    return _by_length(near, np.diff(matrix.indptr), window)


def strips(matrix: csr_array, positions: NDArray[Any], window: int = 512) -> Order:
    """(n,): the agents along the longer side of the area, longest rows of a window first.

    Where links are short, neighbours lie within a strip as wide as the longest: no two of them are
    further apart in memory than the strip has agents, as in the order of Cuthill and McKee, but at
    the cost of a sort.
    """
    longer = int(np.argmax(np.ptp(positions, axis=0)))
    near = np.argsort(np.asarray(positions)[:, longer], kind="stable")
    return _by_length(near.astype(np.int64, copy=False), np.diff(matrix.indptr), window)


def permuted(matrix: csr_array, order: Order) -> csr_array:
    """P A P' with sorted indices of 32 bits: entry (k, l) is a_{order[k], order[l]}.

    Parameters
    ----------
    matrix : csr_array
        A.
    order : ndarray of int64, shape (n,)
        A permutation, such as that of `arrange`.

    Returns
    -------
    csr_array

    Raises
    ------
    NetworkError
        If the order is not a permutation.

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum import networks
    >>> networks.permuted(networks.star(3).adjacency, np.array([1, 0, 2])).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    size = matrix.shape[0]
    if np.shape(order) != (size,):
        raise NetworkError(f"order must have shape ({size},); found {np.shape(order)}")
    place = np.full(size, -1, dtype=np.int32)
    if order.min() >= 0 and order.max() < size:
        place[order] = np.arange(size, dtype=np.int32)
    if place.min() < 0:
        raise NetworkError("order must hold every agent once; try networks.arrange(matrix)")
    if not compiled_pays(matrix.nnz):
        moved = matrix[order][:, order]
        moved.sort_indices()
        return CompressedRows(moved.indptr, moved.indices, moved.data).csr
    from veilsum.networks import compiled

    indptr = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.diff(matrix.indptr)[order], dtype=np.int64, out=indptr[1:])
    indices = np.empty(matrix.nnz, dtype=np.int32)
    data = np.empty(matrix.nnz, dtype=np.float64)
    compiled.move_rows(
        matrix.indptr,
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float64, copy=False),
        np.ascontiguousarray(order, dtype=np.int64), place, indptr, indices, data,
    )  # fmt: skip
    return CompressedRows(indptr, indices, data).csr


def morton(positions: NDArray[Any]) -> Order:
    """(n,): the points in the order of the Z-curve: by the bits of x and y taken in turn.

    Both coordinates are divided by the same length, so that cells are squares; points of one cell
    keep their order.
    """
    low = positions.min(axis=0)
    side = float((positions.max(axis=0) - low).max()) or 1.0
    scale = (2**BITS - 1) / side
    key = np.zeros(len(positions), dtype=np.uint32)
    for axis in (0, 1):
        cell = (positions[:, axis] - low[axis]) * scale
        key |= _spread(cell.astype(np.uint32)) << np.uint32(axis)
    return np.argsort(key, kind="stable").astype(np.int64, copy=False)


def _spread(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A zero between any two of the 16 bits."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        bits = (bits | (bits << np.uint32(shift))) & np.uint32(mask)
    return bits


def _cuthill_mckee(matrix: csr_array) -> Order:
    """Breadth first from an agent with the shortest row, shortest rows first; then reversed."""
    if compiled_pays(matrix.nnz):  # scipy's knows no row pointers of 64 bits
        from veilsum.networks import compiled

        starts = np.argsort(np.diff(matrix.indptr), kind="stable")
        order: Order = compiled.cuthill_mckee(matrix.indptr, matrix.indices, starts)[::-1]
        return order
    search = _extras.load("scipy.sparse.csgraph").reverse_cuthill_mckee
    return np.asarray(search(matrix, symmetric_mode=True), dtype=np.int64)


def _by_length(near: Order, lengths: NDArray[Any], window: int) -> Order:
    """The same places, longest rows first inside each window; equal ones keep their order."""
    whole = len(near) // window * window
    parts = [near[:whole].reshape(-1, window), near[whole:].reshape(1, -1)]
    keys = [-lengths[part] for part in parts]
    sorts = [np.argsort(key, axis=1, kind="stable") for key in keys]
    moved = [
        np.take_along_axis(part, by, axis=1).ravel() for part, by in zip(parts, sorts, strict=True)
    ]
    return np.concatenate(moved)
