"""veilsum plan: the privacy budget and rounds that an error needs, before any release."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum import _validate
from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, needs_plot
from veilsum.cli.options import File, Out, Plot
from veilsum.cli.sheets import check_places, tell, written
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.scenario import Scenario
    from veilsum.simulation import Problem

Error = Annotated[float | None, typer.Option(help="The error to reach; solves for epsilon.")]
Epsilon = Annotated[
    float | None,
    typer.Option(help="The guaranteed epsilon; with --error, solves for the rounds."),
]
Rounds = Annotated[
    int | None, typer.Option(min=1, help="The rounds.", show_default="the scenario's")
]
Norm = Annotated[
    str, typer.Option(help="agent: root mean square error of an agent; l2: norm over all agents.")
]
Variant = Annotated[str | None, typer.Option(help="Of the scenario.", show_default="the first")]
Deviation = Annotated[
    float | None,
    typer.Option(help="Assumed standard deviation of the statistic, where signals are recorded."),
]
Agents = Annotated[
    bool, typer.Option("--agents", help="Only what real agents can run; says what was left out.")
]
Colluders = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Compare the masked sum too, if up to that many members collude.",
        show_default="the scenario's",
    ),
]
Absent = Annotated[
    int | None,
    typer.Option(min=0, help="Members that a masked sum may lack.", show_default="the scenario's"),
]


def plan(
    scenario: File,
    error: Error = None,
    epsilon: Epsilon = None,
    rounds: Rounds = None,
    norm: Norm = "agent",
    variant: Variant = None,
    deviation: Deviation = None,
    agents: Agents = False,
    colluders: Colluders = None,
    absent: Absent = None,
    out: Out = None,
    as_json: AsJson = False,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Find the smallest epsilon or number of rounds for an error, and the algorithm and weights."""
    with guarded(debug):
        needs_plot(plot)
        from veilsum import theory
        from veilsum.front.of_plan import of_plan
        from veilsum.front.terminal import Bar
        from veilsum.results.units import of_family
        from veilsum.scenario import Scenario

        _check(error, epsilon, rounds, norm, deviation)
        loaded = Scenario.load(scenario)
        name = f"{loaded.name}-plan"
        check_places(name, out, plot)
        job = loaded.build(variant)
        job.check_plain()
        problem = job.problem
        refusal = _refusal(loaded, variant) if agents else None
        with Bar() as bar:
            found = theory.plan(
                problem, error, epsilon, rounds, norm, deviation, refusal=refusal,
                colluders=colluders, absent=absent, progress=bar.step,
            )  # fmt: skip
            found = replace(found, unit=of_family(job.unit, problem.family))
        kept = _kept(loaded, variant)
        sheet = of_plan(found, name, f"Plan: {loaded.title}", loaded.public_text, kept)
        tell([(sheet, written(sheet, out, plot))], as_json, plan=found.to_dict())
    if not found.best.reached:
        raise typer.Exit(FAILED)


def _check(
    error: float | None, epsilon: float | None, rounds: int | None, norm: str, deviation: Any
) -> None:
    """Raise for values out of range: a usage error."""
    values = {"--error": error, "--epsilon": epsilon, "--deviation": deviation}
    numbers = {name: value for name, value in values.items() if value is not None}
    _validate.positive(CommandError, **numbers)
    _validate.one_of(CommandError, ("agent", "l2"), **{"--norm": norm})
    if None not in (error, epsilon, rounds):
        raise CommandError("--error, --epsilon and --rounds are all values; leave one to solve for")


def _refusal(scenario: Scenario, variant: str | None) -> Callable[[Problem], str]:
    """Why agents cannot run a problem under the terms of a variant."""
    from veilsum.agents.feasibility import refusal
    from veilsum.agents.scenario_terms import spec_of

    return partial(refusal, spec=spec_of(scenario, variant))


def _kept(scenario: Scenario, variant: str | None) -> str:
    """That the planned variant changes keys, which the printed one needs too; empty if it does not."""
    tables = tomllib.loads(scenario.text).get("variant", [])
    chosen: dict[str, Any] = next((t for t in tables if variant in (None, t["name"])), {})
    return f", with what else {chosen['name']} changes" if chosen.keys() - {"name", "title"} else ""
