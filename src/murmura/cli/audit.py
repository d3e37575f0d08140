"""murmura audit: attack what a scenario would do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, guarded, print_json
from murmura.cli.perform import File, NoFigures, Out, Seed

if TYPE_CHECKING:
    from murmura.privacy import AuditReport

Trials = Annotated[int, typer.Option(min=1000, help="Runs per side of the pair under attack.")]
Rounds = Annotated[int, typer.Option(min=0, help="Rounds of messages that the attacker sees.")]


def audit(
    scenario: File,
    trials: Trials = 200_000,
    rounds: Rounds = 3,
    out: Out = None,
    seed: Seed = None,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    debug: Debug = False,
) -> None:
    """Attack the promises of a scenario: claim beside the lower bound that samples prove."""
    with guarded(debug):
        from murmura.scenario import Scenario

        loaded = Scenario.load(scenario).with_(seed=seed)
        reports, standings = _audits(loaded, trials, rounds)
        directory = out or Path("murmura-out") / f"{loaded.name}-audit"
        written = [] if no_figures or not reports else _figure(reports, directory)
        if as_json:
            print_json(
                {"reports": [r.to_dict() for r in reports], "outputs": list(map(str, written))}
            )
        else:
            _say(reports, standings, written)
    if any(report.refuted for report in reports):
        raise typer.Exit(FAILED)


def _audits(scenario: Any, trials: int, rounds: int) -> tuple[list[AuditReport], list[str]]:
    """Audit every variant that promises something, and say how each promise stands."""
    from murmura.audits import audit_neighbour, audit_problem
    from murmura.cli.progress import Bar
    from murmura.privacy import promise

    jobs = [job for job in scenario.jobs() if job.problem.budgets]
    reports, standings = [], []
    with Bar(len(jobs)) as bar:
        for job in jobs:
            problem = job.problem
            bar.tell(job.name)
            made = promise(problem.want, problem.law, problem.rounds, problem.family)
            alone = made.signals or made
            reports.append(audit_problem(problem, trials, rounds, problem.seed, job.name))
            standings.append(alone.status.value)
            if made.unit.neighbours:
                name = f"{job.name}: neighbour"
                reports.append(audit_neighbour(problem, trials, rng=problem.seed, name=name))
                standings.append(made.status.value)
    return reports, standings


def _figure(reports: list[AuditReport], directory: Path) -> list[Path]:
    from murmura.report import evidence

    return evidence.save(reports, directory)


def _say(reports: list[AuditReport], standings: list[str], written: list[Path]) -> None:
    from murmura.cli.tables import console, table

    out = console()
    rows = [
        (r.name, standing, "REFUTED" if r.refuted else "not refuted", f"{r.epsilon:g}",
         f"{r.lower_bound:.4g}", f"{r.delta:g}", f"{max(r.spent_delta, 0):.3g}")
        for r, standing in zip(reports, standings, strict=True)
    ]  # fmt: skip
    heads = ("variant", "promise", "verdict", "epsilon", "at least", "delta", "spent at least")
    out.print(table(heads, rows, numbers=4), "")
    for report in reports:
        out.print(str(report), soft_wrap=True)
    if not reports:
        out.print("No variant promises anything: there is nothing to audit.")
    if written:
        out.print(f"\nOutputs: {', '.join(map(str, written))}", soft_wrap=True)
