"""veilsum plan: the privacy budget and rounds that an error needs, before any release."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum import _validate
from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, needs_to_draw, print_json
from veilsum.cli.options import File, NoFigures, Out
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.scenario import Scenario
    from veilsum.simulation import Problem
    from veilsum.theory import Candidate, Plan

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
    no_figures: NoFigures = False,
    debug: Debug = False,
) -> None:
    """Find the smallest epsilon or number of rounds for an error, and the algorithm and weights."""
    with guarded(debug):
        needs_to_draw("veilsum plan", not no_figures)
        from veilsum import theory
        from veilsum.results.units import of_family
        from veilsum.scenario import Scenario

        _check(error, epsilon, rounds, norm, deviation)
        loaded = Scenario.load(scenario)
        job = loaded.build(variant)
        job.check_plain()
        problem = job.problem
        refusal = _refusal(loaded, variant) if agents else None
        found = theory.plan(
            problem, error, epsilon, rounds, norm, deviation,
            refusal=refusal, colluders=colluders, absent=absent,
        )  # fmt: skip
        found = replace(found, unit=of_family(job.unit, problem.family))
        folder = out or Path("veilsum-out") / f"{loaded.name}-plan"
        written = [] if no_figures else _figure(found, folder)
        if as_json:
            print_json(found.to_dict() | {"outputs": [str(path) for path in written]})
        else:
            _print_plan(found, written, _kept(loaded, variant))
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


def _figure(found: Plan, folder: Path) -> list[Path]:
    from veilsum.results.plots import save_tradeoff

    return save_tradeoff(found, folder)


def _kept(scenario: Scenario, variant: str | None) -> str:
    """That the planned variant changes keys, which the printed one needs too; empty if it does not."""
    tables = tomllib.loads(scenario.text).get("variant", [])
    chosen: dict[str, Any] = next((t for t in tables if variant in (None, t["name"])), {})
    return f", with what else {chosen['name']} changes" if chosen.keys() - {"name", "title"} else ""


def _print_plan(found: Plan, written: list[Path], kept: str) -> None:
    from veilsum.cli.display import console, table
    from veilsum.results.units import behind, in_brackets

    show = console()
    heads = (
        "algorithm",
        "weights",
        "guarantee",
        "eps",
        "rounds",
        in_brackets("error", found.unit),
        "sampling",
        "privacy",
        "disagreement",
        "bytes",
    )
    show.print(table(heads, map(_row, found.candidates), numbers=7), "")
    show.print(_sentence(found), soft_wrap=True)
    if found.offer is not None:
        show.print(found.offered(), soft_wrap=True)
    show.print(
        "\nerror: the TE that veilsum run measures"
        f"{', over sqrt(n)' if found.norm == 'agent' else ''}, root mean square over replicas.\n"
        "sampling: of the mean of all signals, against the truth (in TE for streams only);\n"
        "privacy: noise in the mean of all agents; disagreement: agents against their mean;\n"
        "bytes: what a typical agent sends in all, about.\n",
        soft_wrap=True,
    )
    flooding = max((c.flooding for c in found.candidates), default=0)
    if flooding:
        show.print(
            f"A round of masked-learn is a reading; a masked sum takes {flooding} rounds of flooding, "
            "before the next one.",
            soft_wrap=True,
        )
    for trust, names in _trusted(found).items():
        show.print(f"{names}: trust {trust}.", soft_wrap=True)
    if found.left_out:
        show.print(_left_out(found), soft_wrap=True)
    if found.precision is not None:
        known = found.precision
        width = behind(f"{known.half_width:.2g}", found.unit)
        show.print(
            f"The 95% interval of an estimate is about {width} on either side, within "
            f"[{known.low:g}, {known.high:g}].\n",
            soft_wrap=True, markup=False,
        )  # fmt: skip
    if found.warning:
        show.print(f"Warning: {found.warning}.\n", soft_wrap=True, markup=False)
    if found.best.reached:
        show.print(f"At the end of the scenario{kept}:\n", soft_wrap=True, markup=False)
        show.print(found.toml(), soft_wrap=True, markup=False)
    if written:
        show.print(f"Outputs: {', '.join(map(str, written))}", soft_wrap=True)


def _trusted(found: Plan) -> dict[str, str]:
    """What the guarantees rest on, each once with its algorithms, where they differ."""
    by: dict[str, list[str]] = {}
    for candidate in found.candidates:
        names = by.setdefault(candidate.trust, [])
        if candidate.algorithm not in names:
            names.append(candidate.algorithm)
    return {trust: ", ".join(names) for trust, names in by.items()} if len(by) > 1 else {}


def _left_out(found: Plan) -> str:
    """Each reason once, with the candidates that it concerns."""
    reasons: dict[str, list[str]] = {}
    for left in found.left_out:
        reasons.setdefault(left.reason, []).append(f"{left.algorithm} on {left.weights}")
    lines = [f"  {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "\n".join(["Left out, because agents cannot run it:", *lines, ""])


def _row(candidate: Candidate) -> tuple[str, ...]:
    epsilon = "-" if candidate.epsilon is None else f"{candidate.epsilon:g}"
    error = f"{candidate.error:.4g}{'' if candidate.reached else ' (short)'}"
    parts = (f"{value:.3g}" for value in candidate.split)
    return (
        candidate.algorithm,
        candidate.weights,
        candidate.guarantee,
        epsilon,
        str(candidate.rounds),
        error,
        *parts,
        f"{candidate.bytes:,}",
    )


def _sentence(found: Plan) -> str:
    from veilsum.results.units import behind

    best = found.best
    error = behind(f"{best.error:.4g}", found.unit)
    way = f"{best.algorithm} on {best.weights} weights"
    spent = f"{best.rounds} rounds"
    if best.epsilon is not None:
        spent = f"epsilon = {best.epsilon:g} and {spent}"
    if not best.reached:
        return f"Not reached: the least error, with {way}, is {error}. Reason: {best.reason}."
    about = "about " if best.estimated else ""
    return f"Use {way}: {spent} give an error of {about}{error}."
