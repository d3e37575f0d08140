"""Run experiments, write their outputs, and continue where an earlier reproduction stopped.

Every experiment writes `ID.png`, `ID.svg`, `ID.csv` (and `ID-PART.csv` for further tables), in
`panels` the columns of its figure one by one, for the page, and a record in `verdicts.json` with the
digest of everything that decides its numbers: scenarios, seed, code, data. An experiment whose digest
and files are there is not computed again. `write_page` puts figures, numbers and verdicts on one HTML
page.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum import __version__
from veilsum.errors import MissingExtraError, ScenarioError
from veilsum.paper import (
    data,
    distributions,
    extensions,
    headline,
    heterogeneous,
    sample_paths,
    statements,
    sweeps,
    tables,
    theorems,
)
from veilsum.paper.experiment import (
    FACTS,
    Context,
    Experiment,
    Measurement,
    Verdict,
    tally,
    worst,
)
from veilsum.paper.glossary import GLOSSARY, INTRODUCTION, MEANINGS, quick_note, readable
from veilsum.results.page import PageSection, Statement, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKIPPED, FAILED = "skipped", "failed"
RECORD, PAGE, PANELS = "verdicts.json", "reproduction.html", "panels"
SOURCES = {"paper": "the paper", "veilsum": "our own"}
MOST_ROWS = 24  # of a table on the page; the CSV has them all

EXPERIMENTS: dict[str, Experiment] = {  # in the order of the paper
    experiment.id: experiment
    for module in (
        theorems, distributions, sample_paths, sweeps, tables, heterogeneous, statements, extensions,
        headline,
    )
    for experiment in module.EXPERIMENTS
}  # fmt: skip


def names() -> list[str]:
    """List the ids of the experiments.

    Returns
    -------
    list of str
        In the order of the paper.

    Examples
    --------
    >>> names()[:3]
    ['theorems', 'tightness', 'optimal-noise']
    """
    return list(EXPERIMENTS)


def find(ids: Iterable[str] = ()) -> list[Experiment]:
    """Find experiments by id.

    Parameters
    ----------
    ids
        Which; none means all.

    Returns
    -------
    list of Experiment
        In the order of `ids`, each once.

    Raises
    ------
    ScenarioError
        For an unknown id.

    Examples
    --------
    >>> [experiment.title for experiment in find(["fig-directed"])]
    ['One-way links']
    """
    asked = list(ids) or names()
    for id in asked:
        if id not in EXPERIMENTS:
            near = difflib.get_close_matches(id, EXPERIMENTS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ScenarioError(
                f"the reproduction has no experiment {id!r}; {hint}known: {', '.join(EXPERIMENTS)}"
            )
    return [EXPERIMENTS[id] for id in dict.fromkeys(asked)]


@dataclass(frozen=True)
class ReproductionReport:
    """The outcome of one experiment.

    Attributes
    ----------
    id, title, reference
        Those of the experiment.
    verdict
        Of `Verdict`, or "skipped" or "failed".
    findings
        For every claim its row of `claims.toml`, with verdict and sentence.
    command
        The command that computes it again.
    seed, quick, version, inputs
        What it was computed with; `inputs` is a digest.
    seconds, outputs
        How long it took, and the names of the files.
    reason
        Why it was skipped, or failed.

    Examples
    --------
    >>> report = ReproductionReport(
    ...     id="headline-real", title="The same on real Swiss households",
    ...     reference="beyond the paper", verdict="skipped", findings=[],
    ...     command="veilsum reproduce headline-real", seed=0, quick=False, version="1.0",
    ...     inputs="", reason="the readings were not found",
    ... )
    >>> report.sentence
    'the readings were not found'
    """

    id: str
    title: str
    reference: str
    verdict: str
    findings: list[dict[str, Any]]
    command: str
    seed: int
    quick: bool
    version: str
    inputs: str
    seconds: float = 0.0
    outputs: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The first sentence with the experiment's verdict, or why there is none."""
        found = [f["sentence"] for f in self.findings if f["verdict"] == self.verdict]
        return found[0] if found else self.reason


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    seed: int = 0,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
    fresh: bool = False,
) -> list[ReproductionReport]:
    """Reproduce experiments into a directory.

    Parameters
    ----------
    experiments
        What to reproduce, as `find` returns them.
    out
        Directory for figures, tables and `verdicts.json`; created if needed.
    seed
        Seed of signals and noise.
    quick
        Whether to run 20 rounds and 2 replicas at most.
    progress
        Called with the name of every variant, also of those that are already done.
    fresh
        Whether to compute again what is already done.

    Returns
    -------
    list of ReproductionReport
        One for each experiment; one that fails does not stop the others.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     (report,) = reproduce(find(["optimal-noise"]), Path(folder), quick=True)
    ...     sorted(path.suffix for path in Path(folder).iterdir() if path.is_file())
    ['.csv', '.csv', '.json', '.png', '.svg']
    >>> report.verdict, report.outputs[0]
    ('corrected', 'optimal-noise.png')
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    context = Context(seed, quick) if progress is None else Context(seed, quick, progress)
    known = {} if fresh else _known(out)
    reports = []
    for experiment in experiments:
        inputs = digest(experiment, seed, quick)
        report = known.get(experiment.id)
        if report is not None and _done(report, inputs, out):
            for name in experiment.variants:
                context.progress(name)
        else:
            report = _attempt(experiment, out, context, inputs)
        known[experiment.id] = report
        reports.append(report)
        _write(known, out)
    return reports


LASTING = (
    "id", "title", "reference", "verdict", "findings", "command", "seed", "version", "reason",
)  # fmt: skip


def lasting(reports: Sequence[ReproductionReport]) -> dict[str, Any]:
    """The record without what differs between machines and days: `docs/verdicts.json`."""
    experiments = [{name: getattr(report, name) for name in LASTING} for report in reports]
    return {"version": __version__, "experiments": experiments}


def digest(experiment: Experiment, seed: int, quick: bool) -> str:
    """SHA-256 of everything that decides the numbers of an experiment."""
    parts = [experiment.id, *experiment.scenarios, str(seed), str(quick), __version__, _code()]
    if experiment.needs_data:
        parts.append(data.state())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _code() -> str:
    """SHA-256 of veilsum's own source and of the graphs that the scenarios read."""
    found = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    data_files = [*root.glob("paper/scenarios/*.csv"), *root.glob("paper/claims.toml")]
    for path in sorted([*root.rglob("*.py"), *data_files]):
        found.update(path.read_bytes())
    return found.hexdigest()


def _attempt(
    experiment: Experiment, out: Path, context: Context, inputs: str
) -> ReproductionReport:
    """Measure, draw and judge."""
    started = time.perf_counter()

    def report(
        verdict: str, findings: Sequence[dict[str, Any]] = (), **more: Any
    ) -> ReproductionReport:
        quick = " --quick" if context.quick else ""
        return ReproductionReport(
            id=experiment.id, title=experiment.title, reference=experiment.reference,
            verdict=verdict, findings=list(findings), seed=context.seed, quick=context.quick,
            command=f"veilsum reproduce {experiment.id} --seed {context.seed}{quick}",
            inputs=inputs, version=__version__, **more,
        )  # fmt: skip

    try:
        measured = experiment.measure(experiment, context)
        outputs = _outputs(experiment, measured, out)
        findings = [claim.finding(measured) for claim in experiment.claims]
    except (data.MissingDataError, MissingExtraError) as problem:
        return report(verdict=SKIPPED, reason=str(problem))
    except Exception as problem:  # an error in one experiment must not stop the others
        return report(verdict=FAILED, reason=f"{type(problem).__name__}: {problem}")
    return report(
        verdict=str(worst(Verdict(finding["verdict"]) for finding in findings)),
        findings=findings,
        outputs=outputs,
        seconds=round(time.perf_counter() - started, 2),
    )


def _outputs(experiment: Experiment, measured: Measurement, out: Path) -> list[str]:
    """Write the figure twice and a CSV for every table; the names of the files."""
    from veilsum.front import style

    drawn = experiment.draw(measured)
    written = style.write(drawn, out / experiment.id)
    for name, table in measured.tables.items():
        path = out / (f"{experiment.id}-{name}.csv" if name else f"{experiment.id}.csv")
        table.to_csv(path, index=False)
        written.append(path)
    return [path.name for path in written] + _panels(drawn, out, experiment.id)


def _panels(drawn: Figure, out: Path, id: str) -> list[str]:
    """Write the legend and the columns of a figure that has several; their names below `out`."""
    from veilsum.front.panels import cut

    parts = cut(drawn)
    names = [f"{id}-{k}" for k in range(len(parts))]
    if drawn.legends and parts:
        names[: len(drawn.legends)] = [f"{id}-{k}-legend" for k in range(len(drawn.legends))]
    if parts:
        (out / PANELS).mkdir(exist_ok=True)
    for name, part in zip(names, parts, strict=True):
        (out / PANELS / f"{name}.png").write_bytes(part)
    return [f"{PANELS}/{name}.png" for name in names]


def _done(report: ReproductionReport, inputs: str, out: Path) -> bool:
    """Whether an experiment was judged with the same inputs and its files are all there."""
    if report.verdict not in list(Verdict) or report.inputs != inputs:
        return False
    return all((out / name).is_file() for name in report.outputs)


def _known(out: Path) -> dict[str, ReproductionReport]:
    """The record of an earlier reproduction; empty if there is none that can be read."""
    try:
        found = json.loads((out / RECORD).read_text(encoding="utf-8"))
        return {each["id"]: ReproductionReport(**each) for each in found["experiments"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(known: dict[str, ReproductionReport], out: Path) -> None:
    """Replace the record atomically, so that an interruption leaves the old or the new one."""
    record = {"version": __version__, "experiments": [asdict(report) for report in known.values()]}
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    partial = out / f".{RECORD}.partial"
    partial.write_text(f"{text}\n", encoding="utf-8")
    os.replace(partial, out / RECORD)


def write_page(reports: Sequence[ReproductionReport], out: Path) -> Path:
    """Write one HTML page with every figure, number and verdict.

    Parameters
    ----------
    reports
        What `reproduce` returned.
    out
        The directory it wrote to.

    Returns
    -------
    Path
        `reproduction.html` in that directory.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_page([], Path(folder)).name
    'reproduction.html'
    """
    path = Path(out) / PAGE
    title = "Differentially Private Distributed Estimation and Learning, reproduced"
    counted = ". ".join(tally(f for report in reports for f in report.findings))
    introduction: list[object] = [
        INTRODUCTION,
        f"Every figure and table of the paper by Papachristou and Rahimian, computed by veilsum "
        f"{__version__}. {counted}; one that is tested twice counts once, with its worse verdict. No "
        "verdict depends on the seed. Errors are l2 norms over all agents. All noise is simulated. "
        "Quotes are from the paper; words that may be new are in the glossary at the end.",
    ]
    if any(report.quick for report in reports):
        introduction.append(quick_note())
    sections = [_section(report, Path(out)) for report in reports]
    text = render(title, introduction, sections, MEANINGS, GLOSSARY)
    path.write_text(text, encoding="utf-8")
    return path


def _section(report: ReproductionReport, out: Path) -> PageSection:
    main = [name for name in report.outputs if name == f"{report.id}.csv"]
    heads, rows = _table(out / main[0]) if main else ([], [])
    files = [name for name in report.outputs if not name.startswith(f"{PANELS}/")]
    found = Counter(finding["verdict"] for finding in report.findings)
    counted = ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict if found[verdict])
    return PageSection(
        id=report.id,
        title=f"{report.title} ({report.reference})",
        verdict="" if report.findings else report.verdict,
        text=counted or report.reason,
        statements=[
            Statement(
                f["verdict"],
                SOURCES[f["source"]] + ("" if f["can_fail"] else FACTS),
                f["statement"],
                f["sentence"],
                readable(f["quote"]),
            )
            for f in report.findings
        ],
        images=[out / name for name in report.outputs if name == f"{report.id}.png"],
        panels=[out / name for name in report.outputs if name.startswith(f"{PANELS}/")],
        heads=heads,
        rows=rows,
        how=f"{report.command}; veilsum {report.version}; {', '.join(files)}",
    )


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The table behind a figure if it is short enough to read, numbers to four digits."""
    with path.open(newline="", encoding="utf-8") as lines:
        heads, *rows = list(csv.reader(lines))
    if len(rows) > MOST_ROWS:
        return [], []
    return heads, [[_rounded(cell) for cell in row] for row in rows]


def _rounded(cell: str) -> str:
    try:
        return f"{float(cell):.4g}"
    except ValueError:
        return cell
