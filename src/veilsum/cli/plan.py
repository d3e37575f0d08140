"""veilsum plan: what an answer would be worth, or what an error of a study needs, before any release."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum import _validate
from veilsum.cli.ask import (
    By,
    Cap,
    Codebook,
    Delta,
    Id,
    Population,
    Where,
    by_of,
    check_epsilon,
    flags_of,
    places_of,
    report,
    where_of,
)
from veilsum.cli.asked import parsed, questions_of
from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, needs_plot, usage_errors
from veilsum.cli.options import Out, Plot
from veilsum.cli.sheets import check_places, tell, written
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.asking import codebook_contents
    from veilsum.scenario import Scenario
    from veilsum.simulation import Problem

Error = Annotated[float | None, typer.Option(help="The error to reach; solves for epsilon.")]
Words = Annotated[
    list[str],
    typer.Argument(metavar="SCENARIO | QUESTION COLUMN ...",
                   help="A scenario file, or a question: veilsum questions."),
]  # fmt: skip
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "--eps", help="Of a question, or of a study; with --error, solves for "
                 "the rounds."),
]  # fmt: skip
Rows = Annotated[int | None, typer.Option(min=1, help="Of a question: how many there will be.")]
Target = Annotated[
    float | None,
    typer.Option(
        help="Of a question: the error bar to reach.", show_default="half of what there is"
    ),
]
Sites = Annotated[
    list[int] | None,
    typer.Option(min=2, help="Of a question: sites that hold the rows; repeats.",
                 show_default="5, 300"),
]  # fmt: skip
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
    ctx: typer.Context,
    words: Words,
    rows: Rows = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    target: Target = None,
    sites: Sites = None,
    where: Where = None,
    by: By = None,
    id: Id = None,
    cap: Cap = None,
    population: Population = False,
    codebook: Codebook = None,
    error: Error = None,
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
    """Say what a question's answer would be worth, or find the least epsilon or rounds for a study's error.

    Nothing is read or spent: veilsum plan mean kwh --between 0 40 --rows 300 --eps 1.
    """
    with guarded(debug):
        needs_plot(plot)
        of_question = {"--rows": rows, "--target": target, "--sites": sites, "--where": where, "--by": by,
                       "--id": id, "--cap": cap, "--codebook": codebook, "--delta": delta or None,
                       "--population": population or None}  # fmt: skip
        of_study = {"--error": error, "--rounds": rounds, "--variant": variant, "--deviation": deviation,
                    "--colluders": colluders, "--absent": absent, "--agents": agents or None,
                    "--norm": None if norm == "agent" else norm}  # fmt: skip
        if _is_study(words):
            _refuse(of_question, f"{words[0]} is a scenario")
            if words[1:]:  # options that nobody knows are words, too
                raise typer.BadParameter(
                    f"a scenario is one word; found also {' '.join(words[1:])}"
                )
            reached = _study(
                words[0], error, epsilon, rounds, norm, variant, deviation, agents, colluders, absent,
                out, as_json, plot,
            )  # fmt: skip
            if not reached:
                raise typer.Exit(FAILED)
            return
        _refuse(of_study, "this is a question")
        with usage_errors():
            parts, _ = parsed(words, table=False, others=flags_of(ctx))
            book = _codebook(codebook)
            asked = questions_of(parts, None if book is None else book.filled)
            check_epsilon(epsilon)
            if rows is None:
                raise CommandError(
                    "--rows is missing: how many rows will there be? A plan reads no table"
                )
        from veilsum.asking.forecasting import SITES, forecasts
        from veilsum.asking.settling import grouped
        from veilsum.front.of_question_plan import of_question_plan

        found = forecasts(
            asked, rows, epsilon=epsilon or 0.0, delta=delta, sites=sites or SITES, target=target,
            where=where_of(where), by=grouped(by_of(by), book),
            id=id or (None if book is None else book.id), cap=cap, population=population,
        )  # fmt: skip
        sheet = of_question_plan(found)
        report(sheet, places_of(sheet.name, out, plot), plot, as_json, rows=rows)


def _is_study(words: Sequence[str]) -> bool:
    """Whether the words are a scenario file: one that is there, or has its ending."""
    return words[0].endswith(".toml") or Path(words[0]).is_file()


def _refuse(options: Mapping[str, Any], why: str) -> None:
    given = [flag for flag, value in options.items() if value not in (None, [])]
    if given:
        raise CommandError(
            f"{why}, and {', '.join(given)} is not for that; see veilsum plan --help"
        )


def _codebook(path: Path | None) -> codebook_contents.Codebook | None:
    if path is None:
        return None
    from veilsum.asking.codebook import read_codebook

    return read_codebook(path)


def _study(
    scenario: str,
    error: float | None,
    epsilon: float | None,
    rounds: int | None,
    norm: str,
    variant: str | None,
    deviation: float | None,
    agents: bool,
    colluders: int | None,
    absent: int | None,
    out: Path | None,
    as_json: bool,
    plot: Path | None,
) -> bool:
    """Plan for a study; whether the error is reached."""
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
    return bool(found.best.reached)


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
