"""veilsum reproduce: the paper's figures and tables, with a verdict on each statement."""

from __future__ import annotations

import os
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, needs_simulator, print_json
from veilsum.cli.sheets import check_places, tell, written

if TYPE_CHECKING:
    from veilsum.paper import Experiment, ReproductionReport

NAME = "paper"
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Which figures and tables.", show_default="all"),
]
Listing = Annotated[bool, typer.Option("--list", help="List the experiments and exit.")]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", metavar="STEM",
        help="Write STEM.html and STEM.csv; STEM.parts has what is done already.",
    ),
]  # fmt: skip
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of signals and noise.")]
Quick = Annotated[bool, typer.Option("--quick", help="At most 20 rounds and 2 replicas.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what is already there.")]
Figures = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FOLDER", help="Every figure as PNG and SVG, in a folder."),
]


def reproduce(
    ids: Ids = None,
    listing: Listing = False,
    out: Out = Path(NAME),
    seed: Seed = 0,
    quick: Quick = False,
    fresh: Fresh = False,
    plot: Figures = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Reproduce the paper: a verdict on each statement, with figures and numbers on one page."""
    reports: list[ReproductionReport] = []
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin
    with guarded(debug):
        needs_simulator("veilsum reproduce", None, "plot")
        from veilsum import paper

        experiments = paper.find(ids or ())
        if listing:
            _list(experiments, as_json)
            return
        reports = _perform(experiments, out, seed, quick, fresh, plot, as_json)
    if any(report.verdict == "failed" for report in reports):
        raise typer.Exit(FAILED)


def _perform(
    experiments: list[Experiment],
    out: Path,
    seed: int,
    quick: bool,
    fresh: bool,
    plot: Path | None,
    as_json: bool,
) -> list[ReproductionReport]:
    """Compute, write the files, and print the screen or a JSON object."""
    from veilsum import paper
    from veilsum.front.terminal import Bar
    from veilsum.scenario.execute import parts_folder

    stem = check_places(NAME, out, None)
    parts = parts_folder(stem)
    total, done = sum(len(experiment.variants) for experiment in experiments), count(1)
    with Bar() as bar:
        reports = paper.reproduce(
            experiments, parts, seed, quick, lambda name: bar.step(name, next(done), total), fresh,
            plot,
        )  # fmt: skip
        answers = paper.sheet(reports, parts, stem.name)
        files = written(answers, stem)
    experiments_done = [asdict(report) for report in reports]
    tell([(answers, files)], as_json, counts=_counts(reports), experiments=experiments_done)
    return reports


def _list(experiments: list[Experiment], as_json: bool) -> None:
    from veilsum.front.screen import table
    from veilsum.front.terminal import say, width

    if as_json:
        print_json({"experiments": [_described(experiment) for experiment in experiments]})
        return
    rows = [(experiment.id, experiment.title, experiment.reference) for experiment in experiments]
    say(table(("id", "title", "in the paper"), rows, width()))


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
