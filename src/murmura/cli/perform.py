"""What `run` and `sweep` share: run a scenario, write its outputs, say what came out."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.engines import Engine, Means
from murmura.cli.guard import print_json
from murmura.cli.outputs import kept_tasks, parts_of
from murmura.cli.progress import Bar
from murmura.errors import PrivacyWarning

if TYPE_CHECKING:
    from murmura.report import Result
    from murmura.scenario import Scenario
    from murmura.scenario.build import Job

File = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario, in TOML.")]
Out = Annotated[Path | None, typer.Option(help="Where outputs go [default: murmura-out/NAME].")]
Seed = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="In place of the scenario's.")]
Replicas = Annotated[
    int | None, typer.Option(min=1, max=2**16 - 1, help="In place of the scenario's.")
]
SECRET = "as secret as the signals"
_LEGEND = """\
Errors at the last round, mean over replicas. Total, privacy, decentralisation: root mean square
error per agent. TE total error, CoP cost of privacy, CoD cost of decentralisation: the same as l2
norms over all agents, sqrt(agents) times as large.
"""
Strict = Annotated[bool, typer.Option("--strict", help="Refuse promises that are not proved.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Write no figures.")]
Evaluate = Annotated[
    bool,
    typer.Option(
        "--evaluate", help="Of measured signals: compare with the truth, in secret files."
    ),
]


def perform(
    scenario: Scenario,
    directory: Path,
    as_json: bool,
    figures: bool,
    strict: bool = False,
    means: Means | None = None,
    apart: bool = False,
    evaluate: bool = False,
) -> None:
    """Run every variant, write files, and print a table or a JSON object.

    `apart` says that variants and epsilons are runs of their own, one to a process or rank.
    """
    means = means or Means()
    with means.at_work(directory) as leads:
        with warnings.catch_warnings():
            if not as_json:  # the sentences stand under the table
                warnings.simplefilter("ignore", PrivacyWarning)
            if apart or means.jobs > 1:
                results, seconds = _shared(scenario, strict, means, directory)
            else:
                results, seconds = simulate(scenario, strict, means, directory)
        if leads:
            present(scenario, results, seconds, directory, as_json, figures, evaluate)


def present(
    scenario: Scenario,
    results: Mapping[str, Result],
    seconds: Mapping[str, float],
    directory: Path,
    as_json: bool,
    figures: bool,
    evaluate: bool = False,
) -> None:
    """Write the files of results, and print a table or a JSON object.

    With `evaluate`, or where a variant of the scenario asks for it, the truth about measured
    signals is written as well, apart; a table of it is printed, and no JSON.
    """
    from murmura.report import write
    from murmura.report.files import evaluated, left_over
    from murmura.report.summary import summary

    about = about_of(scenario)
    asked = True if evaluate else [v.name for v in scenario.variants if v.record.evaluate]
    outputs = write(results, directory, about, seconds, asked, figures)
    if as_json:
        said = summary(results, about, seconds)
        print_json(said | {"outputs": [str(path) for path in outputs]})
    else:
        _say(scenario, results, directory, outputs, evaluated(results, asked))
    for path in left_over(directory, outputs):
        print(f"note: {path} is of an earlier run, and secret", file=sys.stderr)


def about_of(scenario: Scenario) -> dict[str, Any]:
    """Where results come from; of a seed that nobody chose nothing is said."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "scenario": scenario.places.where,
        "scenario_sha256": scenario.digest,
        "seed": scenario.variants[0].seed or 0,
    }


def _shared(
    scenario: Scenario, strict: bool, means: Means, directory: Path
) -> tuple[dict[str, Result], dict[str, float]]:
    """The same over processes or ranks; time is shared out evenly. Nothing on ranks but 0."""
    from murmura.cluster.sweeps import Task, joined, run_jobs
    from murmura.report import Result

    jobs, began = _jobs(scenario, strict, means, apart=True), time.perf_counter()
    engine = "mpi" if means.engine is Engine.MPI else "pool" if means.jobs > 1 else "serial"
    measured = any(job.problem.source.measured for job in jobs)
    unkept = measured or engine == "mpi"  # ranks would empty the folder under one another
    with kept_tasks(directory, means.resume, unkept) as folder, ExitStack() as shown:
        fine = engine != "serial" or means.resume
        tasks = {
            job.name: parts_of(Task(job.name, job.problem, job.record), folder, fine)
            for job in jobs
        }
        every = [task for parts in tasks.values() for task in parts]
        bar = shown.enter_context(Bar(len(every)))
        traces = run_jobs(
            every, engine, means.jobs, folder, lambda name, _done, _of: bar.tell(name)
        )
    share = (time.perf_counter() - began) / len(jobs)
    results = {
        job.name: Result(job.problem, joined([traces[t.name] for t in tasks[job.name]]), job.name)
        for job in jobs
        if traces
    }
    return results, dict.fromkeys(results, share)


def simulate(
    scenario: Scenario,
    strict: bool = False,
    means: Means | None = None,
    directory: Path = Path(),
) -> tuple[dict[str, Result], dict[str, float]]:
    """The result of every variant, and how long each took."""
    means = means or Means()
    jobs = _jobs(scenario, strict, means)
    results, seconds = {}, {}
    with Bar(sum(job.problem.rounds + 1 for job in jobs)) as bar:
        for job in jobs:
            began = time.perf_counter()
            how = means.of_run(directory, job.name)
            results[job.name] = job.run(_teller(bar, job.name), strict, **how)
            seconds[job.name] = time.perf_counter() - began
    return results, seconds


def _jobs(scenario: Scenario, strict: bool, means: Means, apart: bool = False) -> list[Job]:
    """Everything is built, and promises are checked, before anything runs."""
    with means.together():
        jobs = scenario.jobs()
        for job in jobs if strict or apart else ():
            job.announce(strict)
        return jobs


def _teller(bar: Bar, name: str) -> Callable[[int, int], None]:
    return lambda _t, _last: bar.tell(name)


def _say(
    scenario: Scenario,
    results: Mapping[str, Result],
    directory: Path,
    outputs: list[Path],
    evaluations: Mapping[str, Result],
) -> None:
    from murmura.cli.tables import console, errors_table, promises, results_table
    from murmura.report.dataset import describe_network
    from murmura.report.text import evaluated_limits

    out = console()
    networks = dict.fromkeys(describe_network(r.problem.network) for r in results.values())
    out.print(f"{scenario.title}: {'; '.join(networks)}\n", soft_wrap=True)
    drawn = {name: result for name, result in results.items() if not result.measured}
    out.print(results_table(results), "")
    if any(result.problem.replicas > 1 for result in results.values()):
        out.print("Estimates and intervals are those of the first replica.\n", soft_wrap=True)
    if drawn:
        out.print(errors_table(drawn), "")
        out.print(_LEGEND, soft_wrap=True)
    for sentence in promises(results):
        out.print(sentence, soft_wrap=True)
    if evaluations:
        out.print(f"\nSECRET, {SECRET}:\n", soft_wrap=True)
        out.print(errors_table(evaluations), "")
        out.print(_LEGEND, soft_wrap=True)
        for sentence in evaluated_limits(evaluations):
            out.print(sentence, soft_wrap=True)
    names = ", ".join(str(path.relative_to(directory)) for path in outputs)
    out.print(f"\nOutputs in {directory}: {names}", soft_wrap=True)
