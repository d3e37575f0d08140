"""Many runs that do not talk to each other: variants and epsilons over processes or over ranks.

A sweep is a list of tasks; `apart` cuts a problem into one task per epsilon, and `joined` puts
their traces together again. The noise of an epsilon does not depend on which others it is run
with, so the numbers are those of one run with all of them.
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

from murmura import _validate
from murmura.cluster.comm import together
from murmura.cluster.shelf import Shelf, contents
from murmura.cluster.watch import session
from murmura.engine import Problem, Record, Trace, simulate
from murmura.engine.cost import check_cost
from murmura.engine.trace import joined
from murmura.errors import CostWarning, MurmuraError

__all__ = ["Task", "apart", "joined", "run_jobs"]

ENGINES = ("serial", "pool", "mpi")
Finished = Callable[[str, int, int], None]  # name of the task, how many are done, of how many
Traces = Generator[tuple[str, Trace], None, None]
TAG = 9


@dataclass(frozen=True, eq=False)
class Task:
    """One run of a sweep, under a name that no other has."""

    name: str
    problem: Problem
    record: Record = field(default_factory=lambda: Record(estimates=False))


def apart(task: Task) -> list[Task]:
    """One task per epsilon."""
    budgets = task.problem.budgets
    if len(budgets) < 2:
        return [task]
    return [
        Task(f"{task.name}, epsilon {e:g}", replace(task.problem, epsilons=(e,)), task.record)
        for e in budgets
    ]


def run_jobs(
    tasks: Sequence[Task],
    engine: str = "pool",
    workers: int | None = None,
    resume_folder: str | os.PathLike[str] | None = None,
    progress: Finished | None = None,
    comm: Any = None,
) -> dict[str, Trace]:
    """The trace of every task by name: in this process, in `workers` processes, or over ranks.

    With `resume_folder`, finished tasks are kept as files, and a sweep that is started again takes
    them from there. Over ranks every rank makes the same tasks; the traces come together on rank 0
    and the others return an empty dict. `progress` is told of each task as it is finished.
    """
    _validate.one_of(MurmuraError, ENGINES, engine=engine)
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise MurmuraError(f"tasks must have names of their own; found {', '.join(names)}")
    shelf = None if resume_folder is None else Shelf(Path(resume_folder))
    for task in tasks if shelf is not None else ():
        _check_kept(task)
    if engine == "mpi":
        with session(comm) as ranks:
            return _over_ranks(tasks, shelf, progress, ranks)
    found = _kept(tasks, shelf)
    left = [task for task in tasks if task.name not in found]
    for k, name in enumerate(found):
        _tell(progress, name, k + 1, len(tasks))
    alone = engine == "serial" or workers == 1
    with closing(_alone(left, shelf) if alone else _pooled(left, shelf, workers)) as traces:
        for name, trace in traces:
            found[name] = trace
            _tell(progress, name, len(found), len(tasks))
    return {name: found[name] for name in names}


def _check_kept(task: Task) -> None:
    if task.problem.source.measured:
        raise MurmuraError(
            f"task {task.name!r} runs on measured signals: its estimates without noise reach no "
            "file; sweep it without a folder to resume from"
        )
    contents(task)  # raises here, before any task has run


def _tell(progress: Finished | None, name: str, done: int, of: int) -> None:
    if progress is not None:
        progress(name, done, of)


def _kept(tasks: Sequence[Task], shelf: Shelf | None) -> dict[str, Trace]:
    if shelf is None:
        return {}
    traces = {task.name: shelf.get(task) for task in tasks}
    return {name: trace for name, trace in traces.items() if trace is not None}


def _do(task: Task, shelf: Shelf | None) -> Trace:
    try:
        trace = simulate(task.problem, task.record)
    except MurmuraError as problem:
        raise type(problem)(f"task {task.name!r}: {problem}") from problem
    if shelf is not None:
        shelf.put(task, trace)
    return trace


def _alone(tasks: Sequence[Task], shelf: Shelf | None) -> Traces:
    for task in tasks:
        yield task.name, _do(task, shelf)


def _one_thread() -> None:
    """A worker of a pool is one of many; what it takes was said before it started."""
    os.environ["MURMURA_THREADS"] = "1"
    warnings.simplefilter("ignore", CostWarning)


def _pooled(tasks: Sequence[Task], shelf: Shelf | None, workers: int | None) -> Traces:
    if any(task.problem.source.measured for task in tasks):
        raise MurmuraError(
            "measured signals are not copied to other processes; run them in one (leave --jobs "
            "out, or say engine='serial'), or over mpi, where "
            "each rank reads them itself"
        )
    count = min(workers or os.cpu_count() or 1, max(len(tasks), 1))
    fresh = multiprocessing.get_context("spawn")  # a fork would share threads that it cannot run
    for task in tasks:
        check_cost(task.problem, task.record, share=1 / count)
    with ProcessPoolExecutor(count, mp_context=fresh, initializer=_one_thread) as pool:
        with _deaf():
            started = {pool.submit(_do, task, shelf): task.name for task in tasks}
        try:
            for done in as_completed(started):
                yield started[done], done.result()
        except BaseException:  # the consumer's too: it closes this generator
            _end(pool)
            raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started in here never hear Ctrl-C: their parent does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool, whatever they are at: waiting for a long run would look hung."""
    for worker in list((pool._processes or {}).values()):
        worker.terminate()
    pool.shutdown(cancel_futures=True)


def _over_ranks(
    tasks: Sequence[Task], shelf: Shelf | None, progress: Finished | None, comm: Any
) -> dict[str, Trace]:
    """Task k goes to rank k mod ranks; rank 0 hears of each when it is done, and gets all at last.

    A rank whose task fails waits for the others: what they finish is kept, if there is a shelf.
    """
    found: dict[str, Trace] = {}
    with together(comm):
        found = _kept(tasks, shelf)
    left = [task for task in tasks if task.name not in found]
    news = _News(comm, progress, len(tasks), list(found))
    done: dict[str, Trace] = {}
    with together(comm):
        for task in left[comm.rank :: comm.size]:
            done[task.name] = _do(task, shelf)
            news.tell(task.name)
    news.hear(until=len(tasks))
    parts = comm.gather(done)
    if comm.rank != 0:
        return {}
    for part in parts:
        found.update(part)
    return {task.name: found[task.name] for task in tasks}


class _News:
    """Which tasks are done, told to rank 0 in small messages."""

    def __init__(self, comm: Any, progress: Finished | None, of: int, known: list[str]) -> None:
        self.comm, self.progress, self.of, self.done = comm, progress, of, 0
        for name in known:
            self._count(name)

    def _count(self, name: str) -> None:
        self.done += 1
        if self.comm.rank == 0:
            _tell(self.progress, name, self.done, self.of)

    def tell(self, name: str) -> None:
        """Say that a task of this rank is done; rank 0 hears what others have said by now."""
        if self.comm.rank == 0:
            self._count(name)
            while self.comm.iprobe(tag=TAG):
                self._count(self.comm.recv(tag=TAG))
        else:
            self.comm.send(name, dest=0, tag=TAG)

    def hear(self, until: int) -> None:
        """Let rank 0 wait for the rest."""
        while self.comm.rank == 0 and self.done < until:
            self._count(self.comm.recv(tag=TAG))
