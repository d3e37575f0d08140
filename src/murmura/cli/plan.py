"""murmura plan: what an error costs, before anyone releases anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura import _validate
from murmura.cli.guard import FAILED, AsJson, Debug, guarded, print_json
from murmura.cli.perform import File, NoFigures, Out
from murmura.errors import CommandError

if TYPE_CHECKING:
    from murmura.theory import Candidate, Plan

Error = Annotated[float | None, typer.Option(help="The error to reach; solves for the budget.")]
Epsilon = Annotated[
    float | None, typer.Option(help="The budget; with --error, solves for the rounds.")
]
Rounds = Annotated[int | None, typer.Option(min=1, help="The rounds [default: the scenario's].")]
Norm = Annotated[
    str, typer.Option(help="agent: root mean square error of an agent; l2: norm over all agents.")
]
Variant = Annotated[str | None, typer.Option(help="Of the scenario [default: the first].")]
Deviation = Annotated[
    float | None,
    typer.Option(help="Supposed standard deviation of the statistic, where signals are measured."),
]


def plan(
    scenario: File,
    error: Error = None,
    epsilon: Epsilon = None,
    rounds: Rounds = None,
    norm: Norm = "agent",
    variant: Variant = None,
    deviation: Deviation = None,
    out: Out = None,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    debug: Debug = False,
) -> None:
    """Find the smallest budget or number of rounds for an error, and the law and weights to use."""
    with guarded(debug):
        from murmura import theory
        from murmura.scenario import Scenario

        _check(error, epsilon, rounds, norm, deviation)
        loaded = Scenario.load(scenario)
        problem = loaded.build(variant).problem
        made = theory.plan(problem, error, epsilon, rounds, norm, deviation)
        directory = out or Path("murmura-out") / f"{loaded.name}-plan"
        written = [] if no_figures else _figure(made, directory)
        if as_json:
            print_json(made.to_dict() | {"outputs": [str(path) for path in written]})
        else:
            _say(made, written)
    if not made.best.reached:
        raise typer.Exit(FAILED)


def _check(
    error: float | None, epsilon: float | None, rounds: int | None, norm: str, deviation: Any
) -> None:
    """Refuse values that make no sense, as a wrong command."""
    given = {"--error": error, "--epsilon": epsilon, "--deviation": deviation}
    numbers = {name: value for name, value in given.items() if value is not None}
    _validate.positive(CommandError, **numbers)
    _validate.one_of(CommandError, ("agent", "l2"), **{"--norm": norm})
    if None not in (error, epsilon, rounds):
        raise CommandError("--error, --epsilon and --rounds are all given; leave one to solve for")


def _figure(made: Plan, directory: Path) -> list[Path]:
    from murmura.report import tradeoff

    return tradeoff.save(made, directory)


def _say(made: Plan, written: list[Path]) -> None:
    from murmura.cli.tables import console, table

    show = console()
    heads = ("law", "weights", "promise", "eps", "rounds", "error", "sampling", "privacy", "apart")
    show.print(table(heads, map(_row, made.candidates), numbers=6), "")
    show.print(_sentence(made), soft_wrap=True)
    show.print(
        "\nerror: what murmura run will measure as TE"
        f"{', over sqrt(n)' if made.norm == 'agent' else ''}, root mean square over replicas.\n"
        "sampling: of all signals together, against the truth (in TE for streams only);\n"
        "privacy: noise in the mean of all agents; apart: agents against one another.\n",
        soft_wrap=True,
    )
    if made.best.reached:
        show.print(made.toml())
    if written:
        show.print(f"Outputs: {', '.join(map(str, written))}", soft_wrap=True)


def _row(found: Candidate) -> tuple[str, ...]:
    budget = "-" if found.epsilon is None else f"{found.epsilon:g}"
    error = f"{found.error:.4g}{'' if found.reached else ' (short)'}"
    parts = (f"{value:.3g}" for value in found.split)
    return (found.law, found.weights, found.promise, budget, str(found.rounds), error, *parts)


def _sentence(made: Plan) -> str:
    best = made.best
    way = f"{best.law} on {best.weights} weights"
    spent = f"{best.rounds} rounds"
    spent = spent if best.epsilon is None else f"epsilon = {best.epsilon:g} and {spent}"
    if not best.reached:
        return f"Not reached: {way} comes down to {best.error:.4g}. Why: {best.reason}."
    about = "about " if best.estimated else ""
    return f"Use {way}: {spent} give an error of {about}{best.error:.4g}."
