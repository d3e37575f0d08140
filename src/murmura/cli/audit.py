"""murmura audit: attack what a scenario would do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, guarded, print_json
from murmura.cli.perform import File, NoFigures, Out, Seed

if TYPE_CHECKING:
    from murmura.privacy import AuditReport

Trials = Annotated[
    int | None,
    typer.Option(
        min=1000, help="Runs per side of the pair under attack; enough for --fault unless given."
    ),
]
Fault = Annotated[
    float,
    typer.Option(
        min=0.001, max=0.9, help="Share of the noise that, if it were missing, must be found."
    ),
]
Rounds = Annotated[int, typer.Option(min=0, help="Rounds of messages that the attacker sees.")]


def audit(
    scenario: File,
    trials: Trials = None,
    fault: Fault = 0.1,
    rounds: Rounds = 3,
    out: Out = None,
    seed: Seed = None,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    debug: Debug = False,
) -> None:
    """Attack the promises of a scenario: claim beside what samples and likelihoods prove."""
    with guarded(debug):
        from murmura.scenario import Scenario

        loaded = Scenario.load(scenario).with_(seed=seed)
        reports, standings = _audits(loaded, trials, rounds, fault)
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


def _audits(
    scenario: Any, trials: int | None, rounds: int, fault: float
) -> tuple[list[AuditReport], list[str]]:
    """Audit every variant that promises something, and say how each promise stands."""
    from murmura.audits import audit_problem
    from murmura.cli.progress import Bar
    from murmura.privacy import Status, promise

    jobs = [job for job in scenario.jobs() if job.problem.budgets]
    reports, standings = [], []
    with Bar(len(jobs)) as bar:
        for job in jobs:
            problem = job.problem
            bar.tell(job.name)
            made = promise(problem.want, problem.law, problem.rounds, problem.family)
            alone = made.signals or made
            reports.append(audit_problem(problem, trials, rounds, problem.seed, job.name, fault))
            standings.append(alone.status.value)
            if made.unit.neighbours and made.status is not Status.NONE:
                more = _neighbours(problem, trials, rounds, f"{job.name}: neighbour", fault)
                reports += more
                standings += [made.status.value] * len(more)
    return reports, standings


def _neighbours(
    problem: Any, trials: int | None, rounds: int, name: str, fault: float
) -> list[AuditReport]:
    """All adversaries that are cheap to try, exactly; samples of the worst, and of what follows."""
    from murmura.audits import Transcript, audit_neighbour, worst_neighbours
    from murmura.audits.scenario import best_connected

    reports = worst_neighbours(problem, name, trials, problem.seed, fault, sampled=True)
    last = min(1 + rounds, problem.rounds)
    if last > 2:
        view = Transcript((best_connected(problem),), last)
        words = f"{name}: rounds 2..{last}"
        reports.insert(1, audit_neighbour(problem, trials, 1, view, problem.seed, words, fault))
    return reports


def _figure(reports: list[AuditReport], directory: Path) -> list[Path]:
    from murmura.report import evidence

    return evidence.save(reports, directory)


def _say(reports: list[AuditReport], standings: list[str], written: list[Path]) -> None:
    from murmura.cli.tables import console, table

    out = console()
    rows = [
        (r.name, standing, "REFUTED" if r.refuted else "not refuted", f"{r.epsilon:.4g}",
         f"{r.lower_bound:.4g}" if r.trials else "", "" if r.exact is None else f"{r.exact:.4g}",
         f"{r.delta:g}", f"{max(r.spent_delta, 0):.3g}", _fault(r))
        for r, standing in zip(reports, standings, strict=True)
    ]  # fmt: skip
    heads = (
        "variant", "promise", "verdict", "epsilon", "at least", "exactly", "delta", "spent",
        "finds",
    )  # fmt: skip
    out.print(table(heads, rows, numbers=6), "")
    for report in reports:
        out.print(str(report), soft_wrap=True)
    if reports:
        out.print(
            "\n`at least`: proved by samples; `exactly`: from the likelihoods; `finds`: the "
            "smallest share of the noise that the samples would have missed.",
            soft_wrap=True,
        )
    if not reports:
        out.print("No variant promises anything: there is nothing to audit.")
    if written:
        out.print(f"\nOutputs: {', '.join(map(str, written))}", soft_wrap=True)


def _fault(report: AuditReport) -> str:
    if not report.trials:
        return "any"
    return f"{report.smallest_fault:.1%}" if report.smallest_fault < 1 else "none"
