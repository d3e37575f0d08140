"""How large networks are laid out: csr with indices of 32 bits, row pointers of 64 past 2^31."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

NARROW_BELOW = 2**31  # stored entries that a row pointer of 32 bits can count
LARGE = 500_000  # links or entries from which compiled loops repay being loaded


def is_large(count: int) -> bool:
    """Whether so many links or entries are worth a compiled loop."""
    return count >= LARGE


def csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], size: int) -> csr_array:
    """The (size, size) csr array of these parts, without a copy of data or of int32 indices.

    scipy widens the indices together with the row pointers; agents are fewer than 2^31, so here
    only the pointers grow, which saves a fourth of the memory that a large network needs.
    """
    narrow = indices.astype(np.int32, copy=False)
    if len(data) < NARROW_BELOW:
        return csr_array((data, narrow, indptr.astype(np.int32, copy=False)), shape=(size, size))
    made = csr_array((size, size), dtype=data.dtype)
    made.data, made.indices, made.indptr = data, narrow, indptr.astype(np.int64, copy=False)
    return made
