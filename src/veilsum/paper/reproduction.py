"""Run experiments, write their outputs, and continue where an earlier reproduction stopped.

Every experiment writes `ID.csv` (and `ID-PART.csv` for further tables), its picture for the page, and a
record in `verdicts.json` with the digest of everything that decides its numbers: scenarios, seed, code,
data. An experiment whose digest and files are there is not computed again. `sheet` makes the sheet of
answers, from which the screen, the page and the long table come.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import time
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
    Context,
    Experiment,
    Measurement,
    Verdict,
    counts,
    worst,
)

if TYPE_CHECKING:
    from veilsum.front import Answers

SKIPPED, FAILED = "skipped", "failed"
RECORD = "verdicts.json"

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
    seconds, outputs, figures
        How long it took, the names of the files, and the paths of figures that were asked for.
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
    figures: list[str] = field(default_factory=list)
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
    figures: Path | None = None,
) -> list[ReproductionReport]:
    """Reproduce experiments into a directory.

    Parameters
    ----------
    experiments
        What to reproduce, as `find` returns them.
    out
        Directory for tables, pictures and `verdicts.json`; created if needed.
    seed
        Seed of signals and noise.
    quick
        Whether to run 20 rounds and 2 replicas at most.
    progress
        Called with the name of every variant, also of those that are already done.
    fresh
        Whether to compute again what is already done.
    figures
        Directory for every figure as PNG and SVG; none are written without one.

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
    ['.csv', '.csv', '.json', '.svg']
    >>> report.verdict, report.outputs[0]
    ('corrected', 'optimal-noise.svg')
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    context = Context(seed, quick) if progress is None else Context(seed, quick, progress)
    known = {} if fresh else _known(out)
    reports = []
    for experiment in experiments:
        inputs = digest(experiment, seed, quick)
        report = known.get(experiment.id)
        asked = _figure_files(experiment, figures)
        if report is not None and _done(report, inputs, out, asked):
            for name in experiment.variants:
                context.progress(name)
        else:
            report = _attempt(experiment, out, context, inputs, figures)
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
    experiment: Experiment, out: Path, context: Context, inputs: str, figures: Path | None
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
        outputs = _outputs(experiment, measured, out, figures)
        findings = [claim.finding(measured) for claim in experiment.claims]
    except (data.MissingDataError, MissingExtraError) as problem:
        return report(verdict=SKIPPED, reason=str(problem))
    except Exception as problem:  # an error in one experiment must not stop the others
        return report(verdict=FAILED, reason=f"{type(problem).__name__}: {problem}")
    return report(
        verdict=str(worst(Verdict(finding["verdict"]) for finding in findings)),
        findings=findings,
        outputs=outputs,
        figures=list(map(str, _figure_files(experiment, figures))),
        seconds=round(time.perf_counter() - started, 2),
    )


def _figure_files(experiment: Experiment, folder: Path | None) -> list[Path]:
    """Where the figures of an experiment go, if they were asked for."""
    if folder is None:
        return []
    return [Path(folder).absolute() / f"{experiment.id}.{kind}" for kind in ("png", "svg")]


def _outputs(
    experiment: Experiment, measured: Measurement, out: Path, figures: Path | None
) -> list[str]:
    """Write the picture for the page and a CSV for every table; the names of the files."""
    from veilsum.front import style
    from veilsum.front.of_reproduction import write_picture

    drawn = experiment.draw(measured)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        style.write(drawn, figures / experiment.id)
    written = [write_picture(drawn, out / experiment.id, experiment.title)]
    for name, table in measured.tables.items():
        path = out / (f"{experiment.id}-{name}.csv" if name else f"{experiment.id}.csv")
        table.to_csv(path, index=False)
        written.append(path)
    return [path.name for path in written]


def _done(report: ReproductionReport, inputs: str, out: Path, figures: Sequence[Path]) -> bool:
    """Whether an experiment was judged with the same inputs and its files are all there."""
    if report.verdict not in list(Verdict) or report.inputs != inputs:
        return False
    if not {str(path) for path in figures} <= set(report.figures):
        return False
    return all(path.is_file() for path in [*(out / name for name in report.outputs), *figures])


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


def sheet(reports: Sequence[ReproductionReport], out: Path, name: str = "paper") -> Answers:
    """The sheet of answers of a reproduction: its screen, page and long table.

    Parameters
    ----------
    reports
        What `reproduce` returned.
    out
        The directory it wrote to.
    name
        Of the files that the sheet is saved as.

    Returns
    -------
    Answers
        A row for each statement, with its verdict.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     reports = reproduce(find(["optimal-noise"]), Path(folder), quick=True)
    ...     print(sheet(reports, Path(folder)).best.status)
    corrected
    """
    from veilsum.front.of_reproduction import of_reproduction

    counted = counts(finding for report in reports for finding in report.findings)
    return of_reproduction(reports, Path(out), counted, name)
