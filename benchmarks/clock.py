"""Timing that a busy machine disturbs little: the best of several, taken in turn."""

import time
from collections.abc import Callable, Mapping


def best(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of the quickest of several calls, after one that is not counted."""
    return race({"it": work}, times)["it"]


def race(works: Mapping[str, Callable[[], object]], times: int = 5) -> dict[str, float]:
    """Seconds of the quickest of several calls of each, all in turn so that none has a quiet hour.

    Each is called once before, uncounted.
    """
    for work in works.values():
        work()
    found = dict.fromkeys(works, float("inf"))
    for _ in range(times):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def row(
    what: str, measured: float, target: str, met: bool, detail: str, why: str = ""
) -> dict[str, object]:
    """One line of the table; `why` is what limits it, printed where the target is missed."""
    found = {"what": what, "measured": measured, "target": target, "met": met, "detail": detail}
    return {**found, "why": why} if why else found
