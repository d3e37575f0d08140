"""murmura audit: test the guarantees of a scenario by attacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, guarded, print_json
from murmura.cli.options import File, NoFigures, Out, Seed

if TYPE_CHECKING:
    from murmura.auditing import AuditReport

Trials = Annotated[
    int | None,
    typer.Option(
        min=1000, help="Runs per side of the pair under attack; enough for --fault unless given."
    ),
]
Fault = Annotated[
    float,
    typer.Option(
        min=0.001, max=0.9, help="The missing fraction of the noise that must be detected."
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
    """Attack the guarantees of a scenario: claim beside what samples and likelihoods prove."""
    with guarded(debug):
        from murmura.scenario import Scenario

        loaded = Scenario.load(scenario).with_(seed=seed)
        reports, statuses = _audits(loaded, trials, rounds, fault)
        folder = out or Path("murmura-out") / f"{loaded.name}-audit"
        written = [] if no_figures or not reports else _figure(reports, folder)
        if as_json:
            print_json(
                {"reports": [r.to_dict() for r in reports], "outputs": list(map(str, written))}
            )
        else:
            _show(reports, statuses, written)
    if any(report.refuted for report in reports):
        raise typer.Exit(FAILED)


def _audits(
    scenario: Any, trials: int | None, rounds: int, fault: float
) -> tuple[list[AuditReport], list[str]]:
    """Audit every variant that guarantees something, with the status of each guarantee."""
    from murmura.auditing import audit_problem
    from murmura.cli.display import Bar
    from murmura.privacy import Status

    jobs = [job for job in scenario.jobs() if job.problem.run_epsilons]
    reports, statuses = [], []
    with Bar() as bar:
        for done, job in enumerate(jobs):
            problem = job.problem
            bar.step(job.name, done, len(jobs))
            guarantee = problem.guarantee
            alone = guarantee.signals or guarantee
            reports.append(audit_problem(problem, trials, rounds, problem.seed, job.name, fault))
            statuses.append(alone.status.value)
            if guarantee.unit.neighbours and guarantee.status is not Status.NONE:
                more = _neighbours(problem, trials, rounds, f"{job.name}: neighbour", fault)
                reports += more
                statuses += [guarantee.status.value] * len(more)
    return reports, statuses


def _neighbours(
    problem: Any, trials: int | None, rounds: int, name: str, fault: float
) -> list[AuditReport]:
    """All adversaries that are cheap to try, exactly; samples of the worst, and of what follows."""
    from murmura.auditing import (
        Transcript,
        audit_neighbour,
        best_connected,
        worst_neighbours,
    )

    reports = worst_neighbours(problem, name, trials, problem.seed, fault, sampled=True)
    last = min(1 + rounds, problem.rounds)
    if last > 2:
        view = Transcript((best_connected(problem),), last)
        label = f"{name}: rounds 2..{last}"
        reports.insert(1, audit_neighbour(problem, trials, 1, view, problem.seed, label, fault))
    return reports


def _figure(reports: list[AuditReport], folder: Path) -> list[Path]:
    from murmura.results.plots import save_evidence

    return save_evidence(reports, folder)


def _show(reports: list[AuditReport], statuses: list[str], written: list[Path]) -> None:
    from murmura.cli.display import console, table

    out = console()
    rows = [
        (r.name, status, "REFUTED" if r.refuted else "not refuted", f"{r.epsilon:.4g}",
         f"{max(r.lower_bound, 0):.4g}" if r.trials else "", "" if r.exact is None else f"{r.exact:.4g}",
         f"{r.delta:g}", f"{max(r.delta_lower_bound, 0):.3g}", _fault(r))
        for r, status in zip(reports, statuses, strict=True)
    ]  # fmt: skip
    heads = (
        "variant", "guarantee", "verdict", "epsilon", "at least", "exactly", "delta", "spent",
        "finds",
    )  # fmt: skip
    out.print(table(heads, rows, numbers=6), "")
    for report in reports:
        out.print(str(report), soft_wrap=True)
    if reports:
        out.print(
            "\n`at least`: proved by samples; `exactly`: from the likelihoods; `finds`: the "
            "smallest missing fraction of the noise that the samples would have found.",
            soft_wrap=True,
        )
    if not reports:
        out.print("No variant guarantees anything: there is nothing to audit.")
    if written:
        out.print(f"\nOutputs: {', '.join(map(str, written))}", soft_wrap=True)


def _fault(report: AuditReport) -> str:
    if not report.trials:
        return "any"
    return f"{report.smallest_fault:.1%}" if report.smallest_fault < 1 else "none"
