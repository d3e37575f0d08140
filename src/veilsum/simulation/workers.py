"""Threads: how many, and how work is handed to them.

The kernels hold no lock while they run, so plain threads use all cores. A run makes its own small
pool and closes it: nothing is left behind that a forked process could trip over. No number depends
on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from veilsum import _validate
from veilsum.errors import VeilsumError

VARIABLE = "VEILSUM_THREADS"
_chosen: list[int] = []  # what `use_threads` asks for, innermost last


def threads() -> int:
    """How many threads a run uses: `use_threads`, VEILSUM_THREADS, or the cores of this process."""
    if _chosen:
        return _chosen[-1]
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores()
    if not asked.isdecimal() or int(asked) < 1:
        raise VeilsumError(f"{VARIABLE} must be a whole number of at least 1; found {asked!r}")
    return int(asked)


def _cores() -> int:
    return os.cpu_count() or 1


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use so many threads inside a `with` block."""
    _validate.at_least(VeilsumError, 1, threads=count)
    _chosen.append(count)
    try:
        yield
    finally:
        _chosen.pop()


class Workers:
    """A pool of threads for one run; with one thread everything happens in the caller's."""

    def __init__(self, count: int) -> None:
        """Start with no thread; they come with the work."""
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __enter__(self) -> Workers:
        """Nothing to do yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what was started, then end the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start one piece of work; without threads, do it now."""
        if self._pool is not None:
            return self._pool.submit(work, *arguments)
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Do the work for every item and wait; an error in one is raised."""
        for started in [self.submit(work, item) for item in items]:
            started.result()
