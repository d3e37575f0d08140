"""Square matrices in compressed rows, in numpy alone: how weights and links are stored.

Row i has the entries indptr[i] .. indptr[i+1] - 1 of `indices` (columns) and `data`. `CompressedRows.csr` is
the same memory as an array of scipy, which only the simulator, the theory and the audits ask for:
agents run without scipy.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._types import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NARROW_BELOW = 2**31  # stored entries that a row pointer of 32 bits can count


class CompressedRows:
    """An (n, n) matrix in compressed rows, with column indices of 32 bits.

    Parameters
    ----------
    indptr, indices, data : ndarray
        As of a scipy csr array; none of them is copied where it has the right type.
    """

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> None:
        """Narrow what may be narrow."""
        wide = len(data) >= NARROW_BELOW
        self.indptr: NDArray[Any] = indptr.astype(np.int64 if wide else np.int32, copy=False)
        self.indices: NDArray[np.int32] = indices.astype(np.int32, copy=False)
        self.data = data

    @classmethod
    def lay(
        cls, size: int, rows: NDArray[Any], columns: NDArray[Any], data: NDArray[Any]
    ) -> CompressedRows:
        """The matrix of these entries, which must differ in their places; columns are sorted."""
        order = np.argsort(rows.astype(np.int64) * size + columns, kind="stable")
        indptr = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=size), out=indptr[1:])
        return cls(indptr, columns[order], data[order])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return len(self.indptr) - 1, len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return len(self.data)

    @cached_property
    def csr(self) -> csr_array:
        """The same matrix for scipy, which shares its memory.

        scipy widens the indices together with the row pointers; agents are fewer than 2^31, so here
        only the pointers grow, which saves a fourth of the memory that a large network needs.
        """
        csr_array = _extras.load("scipy.sparse").csr_array
        if self.nnz < NARROW_BELOW:
            return csr_array((self.data, self.indices, self.indptr), shape=self.shape)
        wide = csr_array(self.shape, dtype=self.data.dtype)
        wide.data, wide.indices, wide.indptr = self.data, self.indices, self.indptr
        return wide

    def __matmul__(self, x: Floats) -> Floats:
        """A x for a vector, or for each column: a row is added up from its first entry to its last."""
        if x.ndim > 1:
            return np.stack([self @ column for column in x.T], axis=1)
        products: Floats = self.data * x[self.indices]
        return np.asarray(np.bincount(self.row_numbers, products, self.shape[0]), dtype=np.float64)

    @property
    def row_numbers(self) -> NDArray[np.int32]:
        """The row of each stored entry."""
        own = np.arange(self.shape[0], dtype=np.int32)
        return np.repeat(own, np.diff(self.indptr))

    def toarray(self) -> NDArray[Any]:
        """The dense matrix."""
        dense = np.zeros(self.shape, dtype=self.data.dtype)
        dense[self.row_numbers, self.indices] = self.data
        return dense

    def __getstate__(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The three arrays: the view for scipy is made again."""
        return self.indptr, self.indices, self.data

    def __setstate__(self, state: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]) -> None:
        """The three arrays."""
        self.indptr, self.indices, self.data = state


def is_scipy(matrix: Any) -> bool:
    """Whether this is a sparse matrix of scipy, which need not be loaded to say no."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(matrix))


def compressed(matrix: Any) -> CompressedRows | None:
    """The rows of a csr array, which share its memory; None for any other kind, shape or type of index."""
    if isinstance(matrix, CompressedRows):
        return matrix
    if not (is_scipy(matrix) and isinstance(matrix, sys.modules["scipy.sparse"].csr_array)):
        return None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.indices.dtype != np.int32:
        return None
    rows = CompressedRows(matrix.indptr, matrix.indices, matrix.data)
    rows.__dict__["csr"] = matrix
    return rows


def first_rows(network: Any) -> CompressedRows:
    """A_1 of a network, without scipy if the network is one of veilsum's."""
    rows = getattr(network, "rows", None)
    if isinstance(rows, CompressedRows):
        return rows
    if callable(rows):
        found: CompressedRows = rows(1)
        return found
    return CompressedRows.lay(network.size, *coordinates(network.at(1)))


def coordinates(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(rows, columns, data) of the stored entries; of a dense matrix those that are not 0."""
    if isinstance(matrix, CompressedRows):
        return matrix.row_numbers, matrix.indices, matrix.data
    if is_scipy(matrix):
        entries = matrix.tocoo()
        return entries.row, entries.col, entries.data
    rows, columns = np.nonzero(matrix)
    return rows, columns, np.asarray(matrix)[rows, columns]
