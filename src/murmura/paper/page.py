"""The reproduction as one HTML page: every figure, number and verdict, and how each was made."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from murmura import __version__
from murmura.paper.entry import Verdict, tally
from murmura.paper.runner import Report
from murmura.report.page import Section, Statement, render

PAGE = "reproduction.html"
WHOSE = {"paper": "the paper", "murmura": "our own"}
MOST_ROWS = 24  # of a table that the page shows; the CSV has them all


def write(reports: Sequence[Report], out: Path) -> Path:
    """Write the page beside the figures it holds."""
    path = Path(out) / PAGE
    sections = [_section(report, Path(out)) for report in reports]
    path.write_text(render(_title(), _introduction(reports), sections), encoding="utf-8")
    return path


def _title() -> str:
    return "Differentially Private Distributed Estimation and Learning, reproduced"


def _introduction(reports: Sequence[Report]) -> str:
    """How many statements fared how."""
    counted = ". ".join(tally(f for report in reports for f in report.findings))
    return (
        f"Every figure and table of the paper by Papachristou and Rahimian, computed by murmura "
        f"{__version__}. {counted}. Confirmed is what holds, corrected what holds once something "
        "in it is put right or only in part, refuted what does not hold. No verdict depends on the "
        "seed. Errors are l2 norms over all agents. All noise is simulated."
    )


def _section(report: Report, out: Path) -> Section:
    tables = [name for name in report.outputs if name == f"{report.id}.csv"]
    heads, rows = _table(out / tables[0]) if tables else ([], [])
    return Section(
        id=report.id,
        title=f"{report.title} ({report.reference})",
        verdict="" if report.findings else report.verdict,
        words=_counted(report) if report.findings else report.reason,
        statements=[
            Statement(f["verdict"], WHOSE[f["origin"]], f["statement"], f["sentence"], f["quote"])
            for f in report.findings
        ],
        images=[out / name for name in report.outputs if name.endswith(".png")],
        heads=heads,
        rows=rows,
        how=f"{report.command}; murmura {report.version}; {', '.join(report.outputs)}",
    )


def _counted(report: Report) -> str:
    """How the entry's statements fared; one that is refuted does not speak for the others."""
    found = Counter(finding["verdict"] for finding in report.findings)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict if found[verdict])


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The table behind a figure if it is short enough to read, numbers to four digits."""
    with path.open(newline="", encoding="utf-8") as lines:
        heads, *rows = list(csv.reader(lines))
    if len(rows) > MOST_ROWS:
        return [], []
    return heads, [[_short(cell) for cell in row] for row in rows]


def _short(cell: str) -> str:
    try:
        return f"{float(cell):.4g}"
    except ValueError:
        return cell
