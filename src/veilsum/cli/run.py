"""veilsum run: run a scenario."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.cli.guard import AsJson, Debug, guarded, needs_simulator, print_json
from veilsum.cli.options import (
    CheckpointEvery,
    Engine,
    EngineOption,
    File,
    Jobs,
    Out,
    Plot,
    Replicas,
    Resume,
    Seed,
    Strict,
    Truth,
)
from veilsum.errors import PrivacyWarning

if TYPE_CHECKING:
    from veilsum.front import Answers
    from veilsum.results import Result
    from veilsum.scenario import ExecutionOptions, Scenario


def run(
    scenario: File,
    out: Out = None,
    seed: Seed = None,
    replicas: Replicas = None,
    strict: Strict = False,
    as_json: AsJson = False,
    truth: Truth = False,
    plot: Plot = None,
    engine: EngineOption = Engine.LOCAL,
    jobs: Jobs = 1,
    checkpoint_every: CheckpointEvery = None,
    resume: Resume = False,
    debug: Debug = False,
) -> None:
    """Run every variant of a scenario; print answers and promises, write a page and a table."""
    with guarded(debug):
        needs_simulator("veilsum run", plot)
        from veilsum.scenario import ExecutionOptions, Scenario

        options = ExecutionOptions(engine.value, jobs, checkpoint_every, resume)
        options.silence_other_ranks()
        loaded = Scenario.load(scenario).with_(seed=seed, replicas=replicas)
        execute_and_report(loaded, out, options, strict, as_json, truth, plot)


def execute_and_report(
    scenario: Scenario,
    out: Path | None,
    options: ExecutionOptions,
    strict: bool,
    as_json: bool,
    truth: bool,
    plot: Path | None,
    name: str | None = None,
) -> None:
    """Run every variant, write files, and print the screen or a JSON object."""
    from veilsum.front.files import check_figure, places
    from veilsum.front.terminal import Bar
    from veilsum.scenario.execute import execute, parts_folder

    own = name or scenario.name
    places(own, out, secret=truth)
    stem = places(own, out)[0].with_suffix("")
    if plot is not None:
        check_figure(plot)
    with options.session(parts_folder(stem)) as leads:
        with warnings.catch_warnings(), Bar() as bar:
            if not as_json:  # the promises are printed below the answers
                warnings.simplefilter("ignore", PrivacyWarning)
            results = execute(
                scenario, options, parts_folder(stem), strict=strict, separate=name is not None,
                progress=bar.step,
            )  # fmt: skip
            if leads:
                bar.step("page", 0, 1)
                written = save(scenario, results, stem, truth, plot)
        if leads:
            tell(written, as_json)


Written = list[tuple["Answers", list[Path]]]


def save(
    scenario: Scenario,
    results: Mapping[str, Result],
    stem: Path,
    truth: bool = False,
    plot: Path | None = None,
) -> Written:
    """Write the files of results; the sheets that they are of, the one that may be shown first.

    What compares measured signals with the truth is on a sheet of its own, in secret files.
    """
    from veilsum.front.files import save_figure
    from veilsum.scenario.execute import sheet

    answers = sheet(scenario, results)
    written = answers.save(stem)
    if plot is not None:
        save_figure(answers, plot)
        written.append(plot)
    secret = sheet(scenario, results, truth=True) if truth else answers
    return [(answers, written), *([(secret, secret.save(stem))] if secret.secret else [])]


def report(
    scenario: Scenario,
    results: Mapping[str, Result],
    stem: Path,
    as_json: bool,
    truth: bool,
    plot: Path | None = None,
) -> None:
    """Write the files of results, and print them."""
    tell(save(scenario, results, stem, truth, plot), as_json)


def tell(sheets: Written, as_json: bool) -> None:
    """Print the screen of each sheet, or a JSON object, which has nothing secret."""
    from veilsum.front.files import stale_secrets
    from veilsum.front.terminal import show

    files = [path for _, written in sheets for path in written]
    if as_json:
        print_json(sheets[0][0].to_dict() | {"files": [str(path) for path in files]})
    else:
        for answers, written in sheets:
            show(answers, written)
    for path in stale_secrets(files):
        print(f"note: {path} is of an earlier run, and secret", file=sys.stderr)
