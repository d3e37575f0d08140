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
    Evaluate,
    File,
    Force,
    Html,
    Jobs,
    NoFigures,
    Out,
    Replicas,
    Resume,
    Seed,
    Strict,
    output_folder,
    page_file,
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
    no_figures: NoFigures = False,
    evaluate: Evaluate = False,
    html: Html = None,
    engine: EngineOption = Engine.LOCAL,
    jobs: Jobs = 1,
    checkpoint_every: CheckpointEvery = None,
    resume: Resume = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Run every variant of a scenario; print errors and guarantees, write figures and data."""
    with guarded(debug):
        needs_simulator("veilsum run", figures=not no_figures)
        from veilsum.scenario import ExecutionOptions, Scenario

        options = ExecutionOptions(engine.value, jobs, checkpoint_every, resume)
        options.silence_other_ranks()
        loaded = Scenario.load(scenario).with_(seed=seed, replicas=replicas)
        folder = output_folder(out, Path("veilsum-out") / loaded.name, force, resume)
        page = None if html is None else page_file(html, force)
        execute_and_report(
            loaded, folder, options, strict, as_json, not no_figures, evaluate, html=page
        )


def execute_and_report(
    scenario: Scenario,
    folder: Path,
    options: ExecutionOptions,
    strict: bool,
    as_json: bool,
    figures: bool,
    evaluate: bool,
    separate: bool = False,
    html: Path | None = None,
) -> None:
    """Run every variant, write files, and print tables or a JSON object."""
    from veilsum.cli.display import Bar
    from veilsum.scenario.execute import execute

    with options.session(folder) as leads:
        with warnings.catch_warnings(), Bar() as bar:
            if not as_json:  # the guarantees are printed below the tables
                warnings.simplefilter("ignore", PrivacyWarning)
            results = execute(
                scenario, options, folder, strict=strict, separate=separate, progress=bar.step
            )
        if leads:
            report(scenario, results, folder, as_json, figures, evaluate, html)


def report(
    scenario: Scenario,
    results: Mapping[str, Result],
    folder: Path,
    as_json: bool,
    figures: bool,
    evaluate: bool,
    html: Path | None = None,
) -> None:
    """Write the files of results, and print tables or a JSON object.

    Evaluations of measured signals are written to separate files and printed as a table; the JSON
    object does not contain them.
    """
    from veilsum.cli.display import show_results
    from veilsum.results import write_all
    from veilsum.results.summary import summary
    from veilsum.results.writer import evaluated, stale_secrets
    from veilsum.scenario.execute import evaluated_variants

    chosen = evaluate or evaluated_variants(scenario)
    outputs = write_all(results, folder, evaluate=chosen, figures=figures)
    if html is not None:
        from veilsum.results.run_page import write_page

        outputs += write_page(results, html, scenario.title, evaluate=chosen, figures=figures)
    if as_json:
        print_json(summary(results) | {"outputs": [str(path) for path in outputs]})
    else:
        show_results(scenario.title, results, evaluated(results, chosen), folder, outputs)
    for path in stale_secrets(folder, outputs):
        print(f"note: {path} is of an earlier run, and secret", file=sys.stderr)
