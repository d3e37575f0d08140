"""Timing that a busy machine disturbs little: the best of several."""

import time
from collections.abc import Callable


def best(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of the quickest of several calls, after one that is not counted."""
    work()
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - start)
    return found
