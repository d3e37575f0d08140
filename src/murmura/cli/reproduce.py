"""murmura reproduce: the paper's figures and tables, with a verdict on each statement."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, AsJson, Debug, guarded, print_json

if TYPE_CHECKING:
    from murmura.paper import Entry, Report

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Which figures and tables [all].")
]
Listing = Annotated[bool, typer.Option("--list", help="List what there is and do nothing.")]
Out = Annotated[Path, typer.Option(help="Where figures, numbers and verdicts go.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of signals and noise.")]
Quick = Annotated[bool, typer.Option("--quick", help="A sketch: few rounds, two replicas.")]
Html = Annotated[bool, typer.Option("--html", help="Write one page with everything, too.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what is already there.")]


def reproduce(
    ids: Ids = None,
    listing: Listing = False,
    out: Out = Path("murmura-out/paper"),
    seed: Seed = 0,
    quick: Quick = False,
    fresh: Fresh = False,
    html: Html = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Reproduce the paper: figures, the numbers behind them, and what became of each statement."""
    reports: list[Report] = []
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads that spin cost others time
    with guarded(debug):
        from murmura import paper

        entries = paper.find(ids or ())
        if listing:
            _list(entries, as_json)
            return
        reports = _perform(entries, out, seed, quick, fresh)
        page = _page(reports, out) if html else None
        if as_json:
            entries_said = [asdict(report) for report in reports]
            print_json(
                {"out": str(out), "page": page and str(page), "counts": _counts(reports),
                 "entries": entries_said}
            )  # fmt: skip
        else:
            _say(reports, out, page)
    if any(report.verdict == "failed" for report in reports):
        raise typer.Exit(FAILED)


def _perform(entries: list[Entry], out: Path, seed: int, quick: bool, fresh: bool) -> list[Report]:
    from murmura import paper
    from murmura.cli.progress import Bar

    with Bar(sum(len(entry.runs) for entry in entries)) as bar:
        return paper.reproduce(entries, out, seed, quick, bar.tell, fresh)


def _page(reports: list[Report], out: Path) -> Path:
    from murmura.paper import page

    return page.write(reports, out)


def _list(entries: list[Entry], as_json: bool) -> None:
    from murmura.cli.tables import console, table

    if as_json:
        print_json({"entries": [_described(entry) for entry in entries]})
        return
    rows = [(entry.id, entry.title, entry.reference) for entry in entries]
    console().print(table(("id", "title", "in the paper"), rows))


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "title": entry.title,
        "reference": entry.reference,
        "statements": [
            {"statement": claim.statement, "origin": str(claim.origin), "quote": claim.quote}
            for claim in entry.claims
        ],
        "runs": len(entry.runs),
        "needs_data": entry.needs_data,
    }


def _counts(reports: list[Report]) -> dict[str, dict[str, int]]:
    from murmura.paper.entry import counts

    found = counts(f for report in reports for f in report.findings)
    return {str(o): {str(v): n for v, n in each.items()} for o, each in found.items()}


def _tally(reports: list[Report]) -> list[str]:
    """How many statements fared how, the paper's apart from ours."""
    from murmura.paper.entry import tally

    return tally(f for report in reports for f in report.findings)


def _say(reports: list[Report], out: Path, page: Path | None) -> None:
    """A row for each statement, and one for each entry that has no verdict."""
    from murmura.cli.tables import console, table

    rows = []
    for report in reports:
        said = [
            (f["origin"], f["verdict"], f"{f['statement']} {f['sentence']}")
            for f in report.findings
        ]
        for k, words in enumerate(said or [("", report.verdict, report.reason)]):
            rows.append((report.id if k == 0 else "", *words))
    screen = console()
    screen.print(table(("id", "whose", "verdict", "statement and numbers"), rows), "")
    for line in _tally(reports):
        screen.print(line, soft_wrap=True)
    screen.print(
        f"Outputs in {out}: figures (PNG, SVG), numbers (CSV), verdicts.json", soft_wrap=True
    )
    if page is not None:
        screen.print(f"Everything on one page: {page}", soft_wrap=True)
