"""veilsum audit: test the guarantees of a scenario by attacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.guard import BEYOND, FAILED, AsJson, Debug, guarded, needs_simulator, print_json
from veilsum.cli.options import File, NoFigures, Out, Seed

if TYPE_CHECKING:
    from veilsum.auditing import AuditReport
    from veilsum.scenario import Job

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
Rounds = Annotated[
    int | None,
    typer.Option(
        min=0, help="Rounds of messages that the attacker sees.", show_default="3; none if masked"
    ),
]
Colluders = Annotated[
    int | None,
    typer.Option(
        min=0, help="Members that collude against a masked sum; as many as it covers unless given."
    ),
]


def audit(
    scenario: File,
    trials: Trials = None,
    fault: Fault = 0.1,
    rounds: Rounds = None,
    colluders: Colluders = None,
    out: Out = None,
    seed: Seed = None,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    debug: Debug = False,
) -> None:
    """Attack the guarantees of a scenario: claim beside what samples and likelihoods prove."""
    with guarded(debug):
        needs_simulator("veilsum audit", figures=not no_figures)
        from veilsum.cli.display import Bar
        from veilsum.reports.audits import audit_jobs
        from veilsum.scenario import Scenario

        loaded = Scenario.load(scenario).with_(seed=seed)
        jobs = loaded.jobs()
        with Bar() as bar:
            found = audit_jobs(jobs, trials, rounds, fault, colluders, bar.step)
        reports, statuses = [f.report for f in found], [f.status.value for f in found]
        folder = out or Path("veilsum-out") / f"{loaded.name}-audit"
        written = [] if no_figures or not reports else _figure(reports, folder)
        if as_json:
            print_json(
                {"reports": [r.to_dict() for r in reports], "outputs": list(map(str, written))}
            )
        else:
            _show(reports, statuses, _guarantees(jobs), written)
    if any(report.refuted for report in reports):
        raise typer.Exit(FAILED)
    if any(report.beyond for report in reports):
        raise typer.Exit(BEYOND)


def _guarantees(jobs: list[Job]) -> list[str]:
    """What each variant guarantees at the epsilon under attack, in the words of a run."""
    from veilsum.auditing.problem import at_smallest_epsilon
    from veilsum.privacy import MaskedDP
    from veilsum.privacy.odds import upward
    from veilsum.results.units import in_sentence

    lines = []
    for job in jobs:
        if not job.problem.run_epsilons:
            lines.append(f"{job.name}: left out, because it adds no noise and guarantees nothing.")
            continue
        problem = at_smallest_epsilon(job.problem)
        lines.append(f"{job.name}: {in_sentence(str(problem.guarantee), job.unit)}")
        asked = problem.privacy
        if isinstance(asked, MaskedDP) and asked.attempts > 1:
            lines.append(
                f"{job.name}: one session is attacked, epsilon = {upward(asked.session_cost[0])}; the "
                f"guarantee is for the {asked.attempts} that a query may take."
            )
    return lines


def _figure(reports: list[AuditReport], folder: Path) -> list[Path]:
    from veilsum.results.plots import save_evidence

    return save_evidence(reports, folder)


def _show(
    reports: list[AuditReport], statuses: list[str], guarantees: list[str], written: list[Path]
) -> None:
    from veilsum.cli.display import console, table
    from veilsum.privacy.odds import epsilon_cell, upward

    out = console()
    rows = [
        (r.name, status, r.verdict, epsilon_cell(r.epsilon),
         f"{max(r.lower_bound, 0):.4g}" if r.trials else "", "" if r.exact is None else upward(r.exact),
         upward(r.delta, 3), f"{max(r.delta_lower_bound, 0):.3g}", _fault(r))
        for r, status in zip(reports, statuses, strict=True)
    ]  # fmt: skip
    heads = (
        "variant", "guarantee", "verdict", "epsilon", "at least", "exactly", "delta", "spent",
        "finds",
    )  # fmt: skip
    out.print(table(heads, rows, numbers=6), "")
    for sentence in (*guarantees, "", *map(str, reports)):
        out.print(sentence, soft_wrap=True, markup=False)
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
    if report.beyond:
        return ""
    if not report.trials:
        return "any"
    if report.smallest_fault is None:
        return "unknown"
    return f"{report.smallest_fault:.1%}" if report.smallest_fault < 1 else "none"
