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
    from veilsum.front.files import places
    from veilsum.front.terminal import Bar
    from veilsum.scenario.execute import execute, parts_folder

    stem = out or Path(name or scenario.name)
    for secret in (False, True)[: 1 + truth]:
        places(scenario.name, stem, secret)
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
        if leads:
            report(scenario, results, stem, as_json, truth, plot)


def report(
    scenario: Scenario,
    results: Mapping[str, Result],
    stem: Path,
    as_json: bool,
    truth: bool,
    plot: Path | None = None,
) -> None:
    """Write the files of results, and print the screen or a JSON object.

    What compares measured signals with the truth is in secret files of its own, and is printed; the
    JSON object does not contain it.
    """
    from veilsum.front.files import stale_secrets
    from veilsum.front.terminal import show
    from veilsum.scenario.execute import sheet

    answers = sheet(scenario, results)
    written = answers.save(stem)
    secret = sheet(scenario, results, truth=True) if truth else None
    hidden = secret.save(stem) if secret is not None and secret.secret else []
    if plot is not None:
        answers.plot().get_figure(root=True).savefig(plot)  # type: ignore[union-attr]
        written.append(plot)
    if as_json:
        print_json(answers.to_dict() | {"files": [str(path) for path in written + hidden]})
    else:
        show(answers, written)
        if hidden and secret is not None:
            print()
            show(secret, hidden)
    for path in stale_secrets(written + hidden):
        print(f"note: {path} is of an earlier run, and secret", file=sys.stderr)
