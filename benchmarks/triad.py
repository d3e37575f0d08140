"""The machine's limit: a = b + 3 c over arrays beyond the cache, on all threads (as STREAM does).

24 bytes are counted per number, as STREAM counts them.
"""

from itertools import pairwise
from typing import Any

import numba
import numpy as np

from murmura.simulation.workers import Workers, threads

COUNT = 20_000_000
BYTES = 24 * COUNT


@numba.njit(nogil=True)
def _part(a: Any, b: Any, c: Any, first: Any, last: Any) -> None:
    for i in range(first, last):
        a[i] = b[i] + 3.0 * c[i]


def triad(workers: Workers) -> Any:
    """A closure that runs one triad."""
    a, b, c = (np.ones(COUNT) for _ in range(3))
    edges = [COUNT * k // threads() for k in range(threads() + 1)]
    pieces = list(pairwise(edges))
    return lambda: workers.each(lambda piece: _part(a, b, c, *piece), pieces)
