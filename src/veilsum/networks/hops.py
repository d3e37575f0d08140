"""How many hops apart the agents of a network are."""

from __future__ import annotations

import numpy as np

from veilsum.networks.kernels import depths
from veilsum.networks.rows import CompressedRows

MOST_SEARCHES = 3000


def diameter(adjacency: CompressedRows) -> tuple[int, int]:
    """Lower and upper bound of the largest distance; equal unless 3,000 searches are too few.

    Each search from an agent of eccentricity e bounds that of an agent at distance d by
    max(d, e - d) and e + d (Takes and Kosters 2011).
    """
    n = adjacency.shape[0]
    low, high = np.zeros(n, dtype=np.int64), np.full(n, n, dtype=np.int64)
    root, wide = int(np.argmax(np.diff(adjacency.indptr))), True
    for _ in range(min(n, MOST_SEARCHES)):
        away = depths(adjacency, root)
        far = int(away.max())
        np.maximum(low, np.maximum(away, far - away), out=low)
        np.minimum(high, far + away, out=high)
        low[root] = high[root] = far
        if low.max() >= high.max():
            break
        open_ = np.flatnonzero(high > low.max())
        root = int(open_[high[open_].argmax() if wide else low[open_].argmin()])
        wide = not wide
    return int(low.max()), int(high.max())
