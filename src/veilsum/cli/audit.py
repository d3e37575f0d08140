"""veilsum audit: test the guarantees of a scenario by attacks."""

from __future__ import annotations

from typing import Annotated

import typer

from veilsum.cli.guard import BEYOND, FAILED, AsJson, Debug, guarded, needs_simulator
from veilsum.cli.options import File, Out, Plot, Seed
from veilsum.cli.sheets import check_places, tell, written

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
        min=0,
        help="Rounds of messages that the attacker sees.",
        show_default="3; none of a sum over a roster",
    ),
]
Colluders = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Members that collude against a sum over a roster; as many as it covers unless given.",
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
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Attack the guarantees of a scenario: claim beside what samples and likelihoods prove."""
    with guarded(debug):
        needs_simulator("veilsum audit", plot)
        from veilsum.front.of_audit import of_audit
        from veilsum.front.terminal import Bar
        from veilsum.reports.audits import audit_jobs
        from veilsum.scenario import Scenario

        loaded = Scenario.load(scenario).with_(seed=seed)
        name = f"{loaded.name}-audit"
        check_places(name, out, plot)
        jobs = loaded.jobs()
        with Bar() as bar:
            found = audit_jobs(jobs, trials, rounds, fault, colluders, bar.step)
        reports = [attack.report for attack in found]
        problems = {job.name: job.problem for job in jobs}
        title, unit = f"Audit: {loaded.title}", jobs[0].unit
        sheet = of_audit(found, problems, name, title, loaded.public_text, unit)
        tell(
            [(sheet, written(sheet, out, plot))],
            as_json,
            reports=[report.to_dict() for report in reports],
        )
    if any(report.refuted for report in reports):
        raise typer.Exit(FAILED)
    if any(report.beyond for report in reports):
        raise typer.Exit(BEYOND)
