"""veilsum sweep: run a scenario for several epsilons at once."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, needs_simulator
from veilsum.cli.options import (
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
from veilsum.cli.run import execute_and_report

MOST_EPSILONS = 1000

Epsilon = Annotated[
    str,
    typer.Option(
        help="start:stop:count for a geometric grid, such as 0.125:4:6, or a list, 0.5,1,2.",
        metavar="SPEC",
    ),
]


def sweep(
    scenario: File,
    epsilon: Epsilon = "0.125:4:6",
    out: Out = None,
    seed: Seed = None,
    replicas: Replicas = None,
    strict: Strict = False,
    as_json: AsJson = False,
    truth: Truth = False,
    plot: Plot = None,
    engine: EngineOption = Engine.LOCAL,
    jobs: Jobs = 1,
    resume: Resume = False,
    debug: Debug = False,
) -> None:
    """Run a scenario at several epsilons: errors against epsilon."""
    epsilons = parse(epsilon)
    with guarded(debug):
        needs_simulator("veilsum sweep", plot)
        from veilsum.scenario import ExecutionOptions, Scenario

        options = ExecutionOptions(engine.value, jobs, None, resume)
        options.silence_other_ranks()
        loaded = Scenario.load(scenario).with_(seed, replicas, epsilons)
        execute_and_report(
            loaded, out, options, strict, as_json, truth, plot, name=f"{loaded.name}-sweep"
        )


def parse(spec: str) -> list[float]:
    """start (stop/start)^(k/(count-1)) for k = 0 .. count-1, or the numbers of a list."""
    values = _grid(*spec.split(":")) if ":" in spec else [_number(w) for w in spec.split(",")]
    if len(set(values)) < len(values):
        raise _bad_epsilon(f"the epsilons of {spec!r} are not all different")
    return values


def _grid(start: str, stop: str = "", count: str = "", *more: str) -> list[float]:
    if more or not count.strip().isdecimal() or not 2 <= int(count) <= MOST_EPSILONS:
        raise _bad_epsilon(
            f"a grid is start:stop:count with a count of 2 to {MOST_EPSILONS}, such as 0.125:4:6"
        )
    low, high, last = _number(start), _number(stop), int(count) - 1
    inner = [low * (high / low) ** (k / last) for k in range(1, last)]
    return [low, *(float(f"{value:.12g}") for value in inner), high]


def _number(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise _bad_epsilon(f"found {word!r} where an epsilon should be, a number above 0") from None
    if not (math.isfinite(value) and value > 0):
        raise _bad_epsilon(f"an epsilon is a finite number above 0; found {word!r}")
    return value


def _bad_epsilon(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--epsilon")
