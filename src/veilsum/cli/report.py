"""veilsum report: one printable page for the one who signs, from a scenario's public terms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilsum.cli.guard import FAILED, Debug, existing, guarded
from veilsum.cli.options import File

Page = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="The page to write.", show_default="NAME-report.html"
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(help="Of the scenario.", show_default="that of --agent, or the first"),
]
AgentFile = Annotated[
    Path | None, typer.Option("--agent", help="An agent's file, for the budget of its site.")
]
PerDay = Annotated[
    float | None,
    typer.Option(
        "--per-day", help="Readings or runs a day, in place of the schedule of the scenario."
    ),
]
Audit = Annotated[
    bool, typer.Option("--audit", help="Attack by samples, too, and state what that proves.")
]
Trials = Annotated[
    int | None, typer.Option(min=1000, help="Runs per side of the audit; enough unless given.")
]

Reason = Annotated[
    str,
    typer.Option(
        help="Why an epsilon beyond 5 for the whole value is enough.",
        show_default="whole_value under [report]",
    ),
]


def report(
    scenario: File,
    out: Page = None,
    variant: Variant = None,
    agent: AgentFile = None,
    per_day: PerDay = None,
    audit: Audit = False,
    trials: Trials = None,
    reason: Reason = "",
    debug: Debug = False,
) -> None:
    """Write a page to print and to sign: what leaves, who could learn what, and what is assumed.

    Of a scenario, or of a site's folder: all questions on its boards. No reading is opened for it. The exit
    code is 1 if the page says not to sign.
    """
    if Path(scenario).is_dir():
        with guarded(debug):
            _of_site(Path(scenario), out)
        return
    with guarded(debug):
        import textwrap

        from veilsum import _validate
        from veilsum.errors import CommandError
        from veilsum.front import terminal
        from veilsum.front.files import check_ours, save_page
        from veilsum.reports.objections import objections
        from veilsum.reports.sign_off import attacks, page
        from veilsum.reports.terms import SignOffTerms
        from veilsum.scenario import Scenario

        if per_day is not None:
            _validate.positive(CommandError, **{"--per-day": per_day})
        if trials is not None and not audit:
            raise CommandError("--trials belongs to the audit; add --audit, or leave it out")
        loaded = Scenario.load(scenario)
        path = (out or Path(f"{loaded.name}-report.html")).with_suffix(".html")
        check_ours(path)
        site = None if agent is None else existing(agent, "agent's file")
        terms = SignOffTerms.of(loaded, variant, site, reason)
        with terminal.Bar() as bar:
            audited = attacks(terms, audit, trials, bar.step)
        save_page(path, page(terms, per_day, audited))
        terminal.say(f"{path}: a page to print and to sign; a browser makes a PDF of it")
        why = objections(terms, audited)
        for each in why:
            terminal.say(textwrap.fill(f"do not sign: {each}", terminal.width()))
    if why:
        raise typer.Exit(FAILED)


def _of_site(folder: Path, out: Path | None) -> None:
    from veilsum.front import terminal
    from veilsum.front.files import check_ours, save_page
    from veilsum.reports.fleet_page import fleet_page

    path = (out or Path(f"{folder.resolve().name}-report.html")).with_suffix(".html")
    check_ours(path)
    save_page(path, fleet_page(folder))
    terminal.say(f"{path}: a page to print and to sign; a browser makes a PDF of it")
