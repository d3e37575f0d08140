"""veilsum run: run a scenario."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.cli.guard import AsJson, Debug, guarded, needs_simulator
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
from veilsum.cli.sheets import Written, check_places, tell, written
from veilsum.errors import PrivacyWarning

if TYPE_CHECKING:
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
    from veilsum.front.terminal import Bar
    from veilsum.scenario.execute import execute, parts_folder

    stem = check_places(name or scenario.name, out, plot, truth)
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
                sheets = save(scenario, results, stem, truth, plot)
        if leads:
            tell(sheets, as_json)


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
    from veilsum.scenario.execute import sheet

    answers = sheet(scenario, results)
    made = [(answers, written(answers, stem, plot))]
    secret = sheet(scenario, results, truth=True) if truth else answers
    return [*made, (secret, written(secret, stem))] if secret.secret else made
