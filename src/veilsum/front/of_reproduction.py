"""The sheet of a reproduction: a row for each statement of the paper, with its verdict.

The page has in addition, for each figure and table, the words of the paper, what was found, the picture,
the numbers behind it if they are few, and the command that computes it again.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from veilsum import __version__
from veilsum.front.sheet import Answer, Answers
from veilsum.front.table import Row, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from veilsum.paper import ReproductionReport

MEANINGS = {  # in the order of the sheet
    "confirmed": "It holds: the numbers agree with it.",
    "true, uninformative": "It holds, and says nothing that agents without a network do not reach.",
    "corrected": "It holds once something in it is changed, or only in part; the row says what.",
    "refuted": "It does not hold; the row has the numbers that contradict it.",
    "skipped": "Not computed here, for lack of data; the row says which.",
    "failed": "An error stopped the computation; the row says which.",
}
COUNTED = {
    "paper": "Of the paper, measured",
    "paper, facts": "Of the paper, decided by proof",
    "veilsum": "Ours, measured",
    "veilsum, facts": "Ours, decided by proof",
}
WHOSE = {"paper": "the paper", "veilsum": "ours"}
TITLE = "Differentially Private Distributed Estimation and Learning, reproduced"
QUICK = (
    "A quick reproduction, of at most 20 rounds and 2 replicas: it shows that everything runs. Verdicts "
    "are those of a full one, without --quick."
)
MOST_ROWS = 24  # of a table on the page; the long table has them all
PICTURES = (".svg", ".png")
DOTS_PER_INCH = 160
ONE_COLUMN = 7.0  # inches
_WIDTH = re.compile(r'<svg[^>]* width="([\d.]+)pt"')


class PaperSection(NamedTuple):
    """A figure or table of the paper on the page."""

    report: ReproductionReport
    counted: str
    picture: Markup
    scrolls: bool  # on a phone, where a picture of several columns would be too small
    heads: list[str]
    rows: list[list[str]]


def of_reproduction(
    reports: Sequence[ReproductionReport],
    folder: Path,
    counts: Mapping[str, Mapping[Any, int]],
    name: str = "paper",
) -> Answers:
    """The sheet of a reproduction.

    Parameters
    ----------
    reports
        What `paper.reproduce` returned.
    folder
        The folder that it wrote to.
    counts
        How many statements have which verdict, by whose they are.
    name
        Of the files.

    Returns
    -------
    Answers
        One row for each statement, and for each experiment without a verdict.
    """
    rows = [row for report in reports for row in _answers(report)]
    order = list(MEANINGS)
    rows.sort(key=lambda row: (order.index(row.status), row.cells["whose"] == WHOSE["veilsum"]))
    quick = any(report.quick for report in reports)
    title = TITLE if len(reports) != 1 else f"{reports[0].title}; {reports[0].reference}"
    return Answers(
        name=name,
        title=title,
        about=_about(counts),
        rows=tuple(rows),
        warnings=(QUICK,) if quick else (),
        origin={"veilsum": __version__, "seed": ", ".join(sorted({str(r.seed) for r in reports}))},
        curves=lambda: [row for report in reports for row in _numbers(report, folder)],
        template="reproduction.html",
        more=lambda: {
            "meanings": MEANINGS,
            "sections": [_section(report, folder) for report in reports],
            "whose": _whose,
            "readable": readable,
        },
    )


def _about(counts: Mapping[str, Mapping[Any, int]]) -> str:
    """How many statements have which verdict, in words; what there is none of is left out."""
    parts = [f"{COUNTED[whose]}: {_listed(each)}." for whose, each in counts.items() if _sum(each)]
    return " ".join(parts) or "No statement was judged."


def _sum(counted: Mapping[Any, int]) -> int:
    return sum(counted.values())


def _listed(counted: Mapping[Any, int]) -> str:
    return ", ".join(f"{n} {str(v).replace(', ', ' but ')}" for v, n in counted.items() if n)


def _answers(report: ReproductionReport) -> Iterator[Answer]:
    if not report.findings:
        yield Answer(
            report.id, status=report.verdict, method=report.id, cells={"whose": "", "where": ""},
            sentences=(report.reason,),
        )  # fmt: skip
    for finding in report.findings:
        ours = finding["source"] == "veilsum"
        statement = finding["statement"]
        yield Answer(
            finding["id"] or report.id,
            quantity=statement,
            of=", ".join(filter(None, (_whose(finding), finding["where"]))),
            method=report.id,
            status=finding["verdict"],
            cells={
                "whose": WHOSE[finding["source"]],
                "where": finding["where"],
                "statement": statement,
                "found": finding["sentence"],
                "quote": finding["quote"],
                "experiment": report.id,
            },
            sentences=(f"Ours: {statement}" if ours else statement, finding["sentence"]),
        )


def _whose(finding: Mapping[str, Any]) -> str:
    """Whose a statement is, and whether a measurement could have come out otherwise."""
    return WHOSE[finding["source"]] + ("" if finding["can_fail"] else ", by proof")


def _numbers(report: ReproductionReport, folder: Path) -> Iterator[Row]:
    """The main table behind a figure, number by number; `of` names the line of its file."""
    heads, rows = _table(report, folder)
    (empty,) = rows_of(Answer(report.id, status=report.verdict))
    for k, row in enumerate(rows, start=2):
        found = dict(zip(heads, row, strict=True))
        words = [cell for cell in row if cell and not _is_number(cell)]
        line = empty._replace(
            method=", ".join(words), of=f"{folder.name}/{report.id}.csv:{k}",
            epsilon=_number(found.pop("epsilon", "")), round=_round(found.pop("round", "")),
        )  # fmt: skip
        for head, cell in found.items():
            number = _number(cell)
            if number is not None:
                yield line._replace(quantity=head, value=number)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str) -> float | None:
    """A finite number, or nothing."""
    return float(cell) if _is_number(cell) and math.isfinite(float(cell)) else None


def _round(cell: str) -> int | None:
    number = _number(cell)
    return None if number is None else int(number)


def _table(report: ReproductionReport, folder: Path) -> tuple[list[str], list[list[str]]]:
    name = f"{report.id}.csv"
    if name not in report.outputs:
        return [], []
    with (folder / name).open(newline="", encoding="utf-8") as lines:
        heads, *rows = list(csv.reader(lines))
    return heads, rows


def _section(report: ReproductionReport, folder: Path) -> PaperSection:
    heads, rows = _table(report, folder)
    if len(rows) > MOST_ROWS:
        heads, rows = [], []
    short = [[_short(cell) for cell in row] for row in rows]
    found = Counter(finding["verdict"] for finding in report.findings)
    counted = _listed({verdict: found[verdict] for verdict in MEANINGS})
    picture = next((name for name in report.outputs if name.endswith(PICTURES)), None)
    drawn, width = _embedded(folder / picture, report.title) if picture else (Markup(""), 0.0)
    return PaperSection(report, counted, drawn, width > ONE_COLUMN, heads, short)


def _short(cell: str) -> str:
    number = _number(cell)
    return cell if number is None else f"{number:.4g}"


def _embedded(path: Path, title: str) -> tuple[Markup, float]:
    """A picture as an element of the page, and its width in inches."""
    if path.suffix == ".svg":
        text = path.read_text(encoding="utf-8")
        points = _WIDTH.search(text)
        return Markup(text), float(points[1]) / 72 if points else 0.0
    data = path.read_bytes()
    inches = int.from_bytes(data[16:20]) / DOTS_PER_INCH  # the first number of its header
    shown = base64.b64encode(data).decode("ascii")
    element = Markup('<img alt="{}" width="{:.0f}" src="data:image/png;base64,{}">')
    return element.format(title, 96 * inches, shown), inches


def write_picture(figure: Figure, stem: Path, title: str) -> Path:
    """Keep a figure for the page: as SVG, which scales and can be dark, or as PNG if that is smaller.

    Parameters
    ----------
    figure
        Which loses its background: write other files of it before.
    stem
        The path of the file without .svg or .png; what is there of either is replaced.
    title
        What it shows, for those who do not see it.

    Returns
    -------
    Path
        The file.
    """
    from veilsum.front.plot import svg

    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DOTS_PER_INCH)
    name = re.sub(r"\W", "", stem.name)
    drawn = str(svg(figure, name, title)).encode()
    kinds = {".svg": drawn, ".png": out.getvalue()}
    kind = ".svg" if len(drawn) <= len(base64.b64encode(kinds[".png"])) else ".png"
    for each in PICTURES:
        stem.with_name(f"{stem.name}{each}").unlink(missing_ok=True)
    path = stem.with_name(f"{stem.name}{kind}")
    path.write_bytes(kinds[kind])
    return path


_SIGNS = {
    r"\eps": "ε", r"\delta": "δ", r"\Delta": "Δ", r"\beta": "β", r"\to": " → ",
    r"\infty": "∞", r"\in": "∈", r"\Nbb": "N", r"\approx": "≈", r"\times": "\N{MULTIPLICATION SIGN}",
}  # fmt: skip
_REFERENCE = re.compile(r"\\cref\{[^}]*\}")
_ACCENT = re.compile(r"\\(?:o?vec)\s*")
_COMMAND = re.compile(r"\\[A-Za-z]+")


def readable(quote: str) -> str:
    """A quote from the paper's LaTeX source as a reader sees it in print, references as [...].

    Parameters
    ----------
    quote
        As it is in the source.

    Returns
    -------
    str
        Without dollar signs and commands.

    Examples
    --------
    >>> readable(r"The following hold for \\cref{alg:x}, as $n\\to\\infty$ and $(\\eps, \\delta)$-DP")
    'The following hold for [...], as n → ∞ and (ε, δ)-DP'
    """
    text = _ACCENT.sub("", _REFERENCE.sub("[...]", quote.replace("$", "")))
    text = _COMMAND.sub(lambda found: _SIGNS.get(found[0], found[0][1:]), text)
    return " ".join(text.split())
