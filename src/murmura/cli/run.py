"""murmura run: run a scenario."""

from __future__ import annotations

from pathlib import Path

from murmura.cli.engines import Engine, EngineOption, Every, Jobs, Means, Resume
from murmura.cli.guard import AsJson, Debug, guarded
from murmura.cli.outputs import Force, fresh_directory
from murmura.cli.perform import Evaluate, File, NoFigures, Out, Replicas, Seed, Strict, perform


def run(
    scenario: File,
    out: Out = None,
    seed: Seed = None,
    replicas: Replicas = None,
    strict: Strict = False,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    evaluate: Evaluate = False,
    engine: EngineOption = Engine.LOCAL,
    jobs: Jobs = 1,
    checkpoint_every: Every = None,
    resume: Resume = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Run every variant of a scenario; print errors and promises, write figures and data."""
    with guarded(debug):
        from murmura.scenario import Scenario

        means = Means(engine, jobs, checkpoint_every, resume)
        means.check_resume()
        means.hush()
        loaded = Scenario.load(scenario).with_(seed=seed, replicas=replicas)
        directory = fresh_directory(out, Path("murmura-out") / loaded.name, force, resume)
        perform(loaded, directory, as_json, not no_figures, strict, means, evaluate=evaluate)
