"""Run the variants of a scenario: in this process, in several processes, or over MPI.

    run("study.toml", out="study")      # what `veilsum run study.toml --out study` does

Everything is built and checked before the first variant runs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum import _validate
from veilsum.errors import CommandError
from veilsum.front import Answers
from veilsum.front.of_runs import of_runs
from veilsum.results import Result
from veilsum.scenario.build import Job
from veilsum.scenario.parse import Scenario
from veilsum.simulation.runner import Progress

ENGINES = ("local", "mpi")
TASKS, CHECKPOINTS = "tasks", "checkpoints"  # folders inside STEM.parts
VariantProgress = Callable[[str, int, int], None]  # name, steps done, steps in all


@dataclass(frozen=True)
class ExecutionOptions:
    """Where a scenario is computed, and what is stored to resume it.

    Parameters
    ----------
    engine
        "local", or "mpi": all ranks that mpiexec started make the same call.
    jobs
        Processes that share the variants and epsilons ("local" only).
    checkpoint_every
        Rounds between checkpoints ("mpi" only).
    resume
        Whether to continue from what an interrupted run has stored in STEM.parts.

    Raises
    ------
    CommandError
        If the options contradict one another.

    Examples
    --------
    >>> ExecutionOptions(jobs=2).engine
    'local'
    """

    engine: str = "local"
    jobs: int = 1
    checkpoint_every: int | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict one another."""
        _validate.one_of(CommandError, ENGINES, engine=self.engine)
        _validate.at_least(CommandError, 1, jobs=self.jobs)
        if self.mpi and self.jobs > 1:
            raise CommandError("jobs (--jobs) is for one machine; with engine mpi use mpiexec -n")
        if self.checkpoint_every is not None:
            _validate.at_least(CommandError, 1, checkpoint_every=self.checkpoint_every)
            if not self.mpi:
                raise CommandError("checkpoint_every (--checkpoint-every) needs engine mpi")

    @property
    def mpi(self) -> bool:
        """Whether the ranks of an MPI job compute."""
        return self.engine == "mpi"

    def silence_other_ranks(self) -> None:
        """Let rank 0 alone print, if there are several."""
        if self.mpi:
            from veilsum.simulation import mpi

            mpi.silence_other_ranks(mpi.world())

    @contextmanager
    def session(self, folder: Path | None) -> Iterator[bool]:
        """Run a job on all ranks; whether this process leads, that is prints and writes files."""
        if not self.mpi:
            yield True
            return

        from veilsum.simulation import mpi

        comm = mpi.world()
        with mpi.session(comm, self._checkpoints(folder)):
            yield comm.rank == 0

    @contextmanager
    def errors_on_all_ranks(self) -> Iterator[None]:
        """What one rank raises in this block, all of them raise."""
        if not self.mpi:
            yield
            return

        from veilsum.simulation import mpi

        with mpi.together(mpi.world()):
            yield

    def for_job(self, folder: Path | None, name: str) -> dict[str, Any]:
        """The options of `Job.run` for one variant."""
        if not self.mpi:
            return {}
        checkpoints = self._checkpoints(folder)
        return {
            "engine": "mpi",
            "checkpoint": None if checkpoints is None else checkpoints / name,
            "every": self.checkpoint_every,
            "resume": self.resume,
        }

    def _checkpoints(self, folder: Path | None) -> Path | None:
        if self.checkpoint_every is None and not self.resume:
            return None
        if folder is None:
            raise CommandError("checkpoints need a folder; give out (--out)")
        return folder / CHECKPOINTS


def run(
    scenario: Scenario | str | os.PathLike[str],
    epsilons: Sequence[float] | None = None,
    progress: VariantProgress | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    truth: bool = False,
    strict: bool = False,
    options: ExecutionOptions | None = None,
) -> Answers:
    """Run every variant of a scenario, and write the files that `veilsum run` writes.

    Parameters
    ----------
    scenario
        A scenario, or the path of a scenario file.
    epsilons
        In place of those of the scenario.
    progress
        Called with the variant, the round and the number of rounds; with several processes, with
        the task, the number of tasks done and the number of tasks.
    out
        Where the page and the table go, without .html and .csv; without it nothing is written.
    truth
        Whether to show errors of measured signals against the truth, also for variants that do not
        ask for it; the sheet is as secret as the signals then, and so are its files.
    strict
        Whether a guarantee that is not proved is an error; otherwise it is a warning.
    options
        Engine, processes, checkpoints; by default everything runs in this process.

    Returns
    -------
    Answers
        The answers of all variants; `results` has the runs by name. Empty on ranks other than 0.

    Raises
    ------
    ScenarioError
        If the scenario is wrong; the message names the line.
    PrivacyError
        With `strict`, if a guarantee is not proved.

    Examples
    --------
    >>> import veilsum
    >>> scenario = veilsum.Scenario.parse(veilsum.scenario.template()).with_(replicas=1)
    >>> answers = veilsum.run(scenario)
    >>> answers["average"].guarantee.status
    <Status.PROVED: 'proved'>
    """
    loaded = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    loaded = loaded if epsilons is None else loaded.with_(epsilons=epsilons)
    options, folder = options or ExecutionOptions(), None if out is None else parts_folder(out)
    with options.session(folder) as leads:
        results = execute(loaded, options, folder, strict=strict, progress=progress)
        answers = sheet(loaded, results, truth)
        if leads and out is not None:
            sheet(loaded, results).save(out)
            if answers.secret:
                answers.save(out)
    return answers


def sheet(scenario: Scenario, results: Mapping[str, Result], truth: bool = False) -> Answers:
    """The sheet of a scenario's runs; compared with the truth only where that is asked for.

    Parameters
    ----------
    scenario
        What was run.
    results
        Its runs by name.
    truth
        Whether errors of measured signals are shown, too.

    Returns
    -------
    Answers
        With the scenario's title, and its text unless that has the seed of measured signals.
    """
    text = scenario.public_text
    return of_runs(results, scenario.title, truth, text, hide_seed=not text)


def parts_folder(out: str | os.PathLike[str]) -> Path:
    """Where checkpoints and finished tasks of a run are, beside its files until it is complete."""
    stem = Path(out)
    return stem.with_name(f"{stem.name}.parts")


def execute(
    scenario: Scenario,
    options: ExecutionOptions | None = None,
    folder: Path | None = None,
    *,
    strict: bool = False,
    separate: bool = False,
    progress: VariantProgress | None = None,
) -> dict[str, Result]:
    """Run every variant and write no results.

    Parameters
    ----------
    scenario
        What to run.
    options
        Engine, processes, checkpoints.
    folder
        Where checkpoints and finished tasks are stored until the run is complete.
    strict
        Whether a guarantee that is not proved is an error.
    separate
        Whether variants and epsilons are tasks of their own, as in `veilsum sweep`; always so with
        several processes.
    progress
        As in `run`.

    Returns
    -------
    dict of str to Result
        The result of each variant by name; empty on ranks other than 0.

    Examples
    --------
    >>> from veilsum.scenario import Scenario, template
    >>> list(execute(Scenario.parse(template()).with_(replicas=1)))
    ['jacobi', 'average', 'no-privacy']
    """
    options = options or ExecutionOptions()
    separate = separate or options.jobs > 1
    if options.resume and not options.mpi and not separate:
        raise CommandError(
            "resume (--resume) continues what engine mpi or several jobs (--jobs) have stored; a "
            "run in one process stores nothing: leave it out"
        )
    with options.session(folder) as leads:
        with options.errors_on_all_ranks():
            jobs = scenario.jobs()
            for job in jobs:
                job.announce(strict)
        if separate:
            return _run_tasks(jobs, options, folder, progress)
        results = {}
        for job in jobs:
            where = options.for_job(folder, job.name)
            results[job.name] = job.solve(_for_variant(progress, job.name), **where)
        return results if leads else {}


def _for_variant(progress: VariantProgress | None, name: str) -> Progress | None:
    return None if progress is None else lambda t, rounds: progress(name, t, rounds)


def _run_tasks(
    jobs: list[Job],
    options: ExecutionOptions,
    folder: Path | None,
    progress: VariantProgress | None,
) -> dict[str, Result]:
    """Run each variant and epsilon as a task; the time is divided evenly among the variants."""
    from veilsum.simulation.mpi.sweeps import Task, run_jobs
    from veilsum.simulation.recording import join

    began = time.perf_counter()
    engine = "mpi" if options.mpi else "pool" if options.jobs > 1 else "serial"
    # Tasks over measured signals are never stored, and ranks would delete each other's.
    stored = engine != "mpi" and not any(job.problem.source.measured for job in jobs)
    with _task_folder(folder, options.resume, stored) as tasks_folder:
        per_epsilon = engine != "serial" or options.resume
        tasks = {
            job.name: _split(Task(job.name, job.problem, job.record), tasks_folder, per_epsilon)
            for job in jobs
        }
        every = [task for parts in tasks.values() for task in parts]
        traces = run_jobs(every, engine, options.jobs, tasks_folder, progress)
    seconds = (time.perf_counter() - began) / len(jobs)
    return {
        job.name: Result(
            job.problem,
            join([traces[task.name] for task in tasks[job.name]]),
            job.name,
            provenance=job.provenance,
            seconds=seconds,
            unit=job.unit,
        )
        for job in jobs
        if traces
    }


@contextmanager
def _task_folder(folder: Path | None, resume: bool, stored: bool) -> Iterator[Path | None]:
    """The folder of finished tasks: emptied first unless the run resumes, removed at the end.

    An interruption leaves it, for a run that resumes.
    """
    if folder is None and resume:
        raise CommandError("to resume, the folder of the interrupted run is needed; give out")
    if folder is None or (not stored and not resume):
        yield None
        return
    tasks = folder / TASKS
    if not resume:
        shutil.rmtree(tasks, ignore_errors=True)
    yield tasks
    if not resume:
        shutil.rmtree(tasks, ignore_errors=True)
        with suppress(OSError):  # checkpoints are in it, or it is not there
            folder.rmdir()


def _split(task: Any, folder: Path | None, per_epsilon: bool) -> list[Any]:
    """One task per epsilon, for processes to share, or one task for all epsilons.

    One task is faster in one process, because epsilons share their draws. A task that was finished
    for all epsilons is taken from the folder as it is.
    """
    from veilsum.simulation.mpi.sweeps import split_by_epsilon
    from veilsum.simulation.store import TaskCache

    finished = folder is not None and TaskCache(folder).get(task) is not None
    return split_by_epsilon(task) if per_epsilon and not finished else [task]
