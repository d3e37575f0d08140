"""veilsum reproduce: the paper's figures and tables, with a verdict on each statement."""

from __future__ import annotations

import os
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, needs_simulator, print_json

if TYPE_CHECKING:
    from veilsum.paper import Experiment, ReproductionReport

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Which figures and tables.", show_default="all"),
]
Listing = Annotated[bool, typer.Option("--list", help="List the experiments and exit.")]
Out = Annotated[Path, typer.Option(help="Where figures, numbers and verdicts go.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of signals and noise.")]
Quick = Annotated[bool, typer.Option("--quick", help="At most 20 rounds and 2 replicas.")]
Html = Annotated[bool, typer.Option("--html", help="Also write one HTML page with everything.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what is already there.")]


def reproduce(
    ids: Ids = None,
    listing: Listing = False,
    out: Out = Path("veilsum-out/paper"),
    seed: Seed = 0,
    quick: Quick = False,
    fresh: Fresh = False,
    html: Html = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Reproduce the paper: figures, the numbers behind them, and a verdict on each statement."""
    reports: list[ReproductionReport] = []
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin
    with guarded(debug):
        needs_simulator("veilsum reproduce", figures=True)
        from veilsum import paper

        experiments = paper.find(ids or ())
        if listing:
            _list(experiments, as_json)
            return
        reports = _perform(experiments, out, seed, quick, fresh)
        page = _page(reports, out) if html else None
        if as_json:
            found = [asdict(report) for report in reports]
            print_json(
                {"out": str(out), "page": page and str(page), "counts": _counts(reports),
                 "experiments": found}
            )  # fmt: skip
        else:
            _print_reports(reports, out, page)
    if any(report.verdict == "failed" for report in reports):
        raise typer.Exit(FAILED)


def _perform(
    experiments: list[Experiment], out: Path, seed: int, quick: bool, fresh: bool
) -> list[ReproductionReport]:
    from veilsum import paper
    from veilsum.cli.display import Bar

    total, done = sum(len(experiment.variants) for experiment in experiments), count(1)
    with Bar() as bar:
        return paper.reproduce(
            experiments, out, seed, quick, lambda name: bar.step(name, next(done), total), fresh
        )


def _page(reports: list[ReproductionReport], out: Path) -> Path:
    from veilsum import paper

    return paper.write_page(reports, out)


def _list(experiments: list[Experiment], as_json: bool) -> None:
    from veilsum.cli.display import console, table

    if as_json:
        print_json({"experiments": [_described(experiment) for experiment in experiments]})
        return
    rows = [(experiment.id, experiment.title, experiment.reference) for experiment in experiments]
    console().print(table(("id", "title", "in the paper"), rows))


def _described(experiment: Experiment) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "title": experiment.title,
        "reference": experiment.reference,
        "statements": [
            {"statement": claim.statement, "source": str(claim.source), "quote": claim.quote}
            for claim in experiment.claims
        ],
        "runs": len(experiment.variants),
        "needs_data": experiment.needs_data,
    }


def _counts(reports: list[ReproductionReport]) -> dict[str, dict[str, int]]:
    from veilsum.paper.experiment import counts

    found = counts(f for report in reports for f in report.findings)
    return {str(o): {str(v): n for v, n in each.items()} for o, each in found.items()}


def _tally(reports: list[ReproductionReport]) -> list[str]:
    """How many statements have which verdict, those of the paper and our own."""
    from veilsum.paper.experiment import tally

    return tally(f for report in reports for f in report.findings)


def _print_reports(reports: list[ReproductionReport], out: Path, page: Path | None) -> None:
    """Print a row for each statement, and one for each experiment without a verdict."""
    from veilsum.cli.display import console, table

    rows = []
    for report in reports:
        found = [
            (f["source"], f["verdict"], f"{f['statement']} {f['sentence']}")
            for f in report.findings
        ]
        for k, cells in enumerate(found or [("", report.verdict, report.reason)]):
            rows.append((report.id if k == 0 else "", *cells))
    screen = console()
    screen.print(table(("id", "source", "verdict", "statement and numbers"), rows), "")
    for line in _tally(reports):
        screen.print(line, soft_wrap=True)
    screen.print(
        f"Outputs in {out}: figures (PNG, SVG), numbers (CSV), verdicts.json", soft_wrap=True
    )
    if page is not None:
        screen.print(f"Everything on one page: {page}", soft_wrap=True)
