"""Many independent runs: variants and epsilons over processes or over ranks.

A sweep is a list of tasks; `split_by_epsilon` cuts a problem into one task per epsilon, and
`recording.join` joins their traces again. The noise of an epsilon does not depend on which others
it is run with, so the numbers are those of one run with all of them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from veilsum import _validate
from veilsum.errors import CostWarning, VeilsumError
from veilsum.simulation import Problem, Record, Trace, simulate
from veilsum.simulation.cost import check_cost
from veilsum.simulation.mpi.communicator import session, together
from veilsum.simulation.store import TaskCache

ENGINES = ("serial", "pool", "mpi")
Finished = Callable[[str, int, int], None]  # name of the task, how many are done, of how many
Traces = Generator[tuple[str, Trace], None, None]
TAG = 9


@dataclass(frozen=True, eq=False)
class Task:
    """One run of a sweep.

    Parameters
    ----------
    name
        Its name, different from those of all other tasks.
    problem
        What to run.
    record
        Which estimates to record; by default error norms alone.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Normal(sigma=1.0)
    >>> problem = Problem(
    ...     vs.networks.metropolis("ring:9"), vs.algorithms.Average(), family,
    ...     vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1),
    ...     vs.privacy.SignalDP(epsilon=1.0), rounds=50, epsilons=(0.5, 1.0),
    ... )
    >>> [task.name for task in split_by_epsilon(Task("ring", problem))]
    ['ring, epsilon 0.5', 'ring, epsilon 1']
    """

    name: str
    problem: Problem
    record: Record = field(default_factory=lambda: Record(estimates=False))


def split_by_epsilon(task: Task) -> list[Task]:
    """One task per epsilon."""
    epsilons = task.problem.run_epsilons
    if len(epsilons) < 2:
        return [task]
    return [
        Task(f"{task.name}, epsilon {e:g}", replace(task.problem, epsilons=(e,)), task.record)
        for e in epsilons
    ]


def run_jobs(
    tasks: Sequence[Task],
    engine: str = "pool",
    workers: int | None = None,
    resume_folder: str | os.PathLike[str] | None = None,
    progress: Finished | None = None,
    comm: Any = None,
) -> dict[str, Trace]:
    """Run every task, in this process, in several, or over ranks.

    Parameters
    ----------
    tasks
        What to run; names must differ.
    engine
        "serial" for this process, "pool" for `workers` processes, or "mpi" for all ranks, each of
        which makes the same call.
    workers
        The number of processes; by default as many as there are cores.
    resume_folder
        Where finished tasks are stored; a sweep that is started again takes them from there.
    progress
        Called with (name, number of finished tasks, number of tasks) after each task.
    comm
        The communicator of "mpi"; by default all ranks that were started.

    Returns
    -------
    dict
        The trace of every task by name; over ranks, empty on all ranks but 0.

    Raises
    ------
    VeilsumError
        If names repeat, a task fails (the message has its name), or measured signals would have to
        be copied to another process or stored.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Normal(sigma=1.0)
    >>> problem = Problem(
    ...     vs.networks.metropolis("ring:9"), vs.algorithms.Average(), family,
    ...     vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1),
    ...     vs.privacy.SignalDP(epsilon=1.0), rounds=50,
    ... )
    >>> traces = run_jobs([Task("a", problem), Task("b", problem)], engine="serial")
    >>> [(name, trace.total.shape) for name, trace in traces.items()]
    [('a', (51, 1, 1)), ('b', (51, 1, 1))]
    """
    _validate.one_of(VeilsumError, ENGINES, engine=engine)
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise VeilsumError(f"tasks must have different names; found {', '.join(names)}")
    cache = None if resume_folder is None else TaskCache(Path(resume_folder))
    if cache is not None:
        for task in tasks:  # before any of them has run
            cache.check(task)
    if engine == "mpi":
        with session(comm) as ranks:
            return _over_ranks(tasks, cache, progress, ranks)
    found = _finished(tasks, cache)
    left = [task for task in tasks if task.name not in found]
    for k, name in enumerate(found):
        _report(progress, name, k + 1, len(tasks))
    alone = engine == "serial" or workers == 1
    with closing(
        _in_this_process(left, cache) if alone else _in_a_pool(left, cache, workers)
    ) as traces:
        for name, trace in traces:
            found[name] = trace
            _report(progress, name, len(found), len(tasks))
    return {name: found[name] for name in names}


def _report(progress: Finished | None, name: str, done: int, of: int) -> None:
    if progress is not None:
        progress(name, done, of)


def _finished(tasks: Sequence[Task], cache: TaskCache | None) -> dict[str, Trace]:
    if cache is None:
        return {}
    traces = {task.name: cache.get(task) for task in tasks}
    return {name: trace for name, trace in traces.items() if trace is not None}


def _run(task: Task, cache: TaskCache | None) -> Trace:
    try:
        trace = simulate(task.problem, task.record)
    except VeilsumError as problem:
        raise type(problem)(f"task {task.name!r}: {problem}") from problem
    if cache is not None:
        cache.put(task, trace)
    return trace


def _in_this_process(tasks: Sequence[Task], cache: TaskCache | None) -> Traces:
    for task in tasks:
        yield task.name, _run(task, cache)


def _one_thread() -> None:
    """A worker of a pool uses one thread; costs were announced before it started."""
    os.environ["VEILSUM_THREADS"] = "1"
    warnings.simplefilter("ignore", CostWarning)


def _in_a_pool(tasks: Sequence[Task], cache: TaskCache | None, workers: int | None) -> Traces:
    if any(task.problem.source.measured for task in tasks):
        raise VeilsumError(
            "measured signals are not copied to other processes; run them in one (leave --jobs "
            "out, or say engine='serial'), or over mpi, where each rank reads them itself"
        )
    count = min(workers or os.cpu_count() or 1, max(len(tasks), 1))
    fresh = multiprocessing.get_context("spawn")  # a fork would share threads that it cannot run
    for task in tasks:
        check_cost(task.problem, task.record, fraction=1 / count)
    with ProcessPoolExecutor(count, mp_context=fresh, initializer=_one_thread) as pool:
        with _ignoring_interrupts():
            started = {pool.submit(_run, task, cache): task.name for task in tasks}
        try:
            for done in as_completed(started):
                yield started[done], done.result()
        except BaseException:  # the consumer's too: it closes this generator
            _end(pool)
            raise


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C: their parent receives it, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool at once: waiting for a long run would look hung."""
    for worker in list((pool._processes or {}).values()):
        worker.terminate()
    pool.shutdown(cancel_futures=True)


def _over_ranks(
    tasks: Sequence[Task], cache: TaskCache | None, progress: Finished | None, comm: Any
) -> dict[str, Trace]:
    """Task k goes to rank k mod ranks; rank 0 is notified of each, and gathers all in the end.

    A rank whose task fails waits for the others: what they finish is stored, if there is a cache.
    """
    found: dict[str, Trace] = {}
    with together(comm):
        found = _finished(tasks, cache)
    left = [task for task in tasks if task.name not in found]
    reports = _FinishedTasks(comm, progress, len(tasks), list(found))
    done: dict[str, Trace] = {}
    with together(comm):
        for task in left[comm.rank :: comm.size]:
            done[task.name] = _run(task, cache)
            reports.send(task.name)
    reports.receive(until=len(tasks))
    parts = comm.gather(done)
    if comm.rank != 0:
        return {}
    for part in parts:
        found.update(part)
    return {task.name: found[task.name] for task in tasks}


class _FinishedTasks:
    """The count of finished tasks, sent to rank 0 in small messages."""

    def __init__(self, comm: Any, progress: Finished | None, of: int, known: list[str]) -> None:
        self.comm, self.progress, self.of, self.done = comm, progress, of, 0
        for name in known:
            self._count(name)

    def _count(self, name: str) -> None:
        self.done += 1
        if self.comm.rank == 0:
            _report(self.progress, name, self.done, self.of)

    def send(self, name: str) -> None:
        """Report a finished task of this rank; rank 0 also receives the reports that have arrived."""
        if self.comm.rank == 0:
            self._count(name)
            while self.comm.iprobe(tag=TAG):
                self._count(self.comm.recv(tag=TAG))
        else:
            self.comm.send(name, dest=0, tag=TAG)

    def receive(self, until: int) -> None:
        """Let rank 0 wait for the remaining reports."""
        while self.comm.rank == 0 and self.done < until:
            self._count(self.comm.recv(tag=TAG))
