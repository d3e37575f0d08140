"""Run entries, write what they show, and remember which are done.

Every entry leaves `ID.png`, `ID.svg`, `ID.csv` (and `ID-PART.csv` for further tables), and a record
in `verdicts.json` with the digest of all that decides its numbers: settings, seed, code, data. An
entry whose digest and files are there is not computed again, so an interrupted reproduction
goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from murmura import __version__
from murmura.paper import data
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, worst

SKIPPED, FAILED = "skipped", "failed"
RECORD = "verdicts.json"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """What became of an entry."""

    id: str
    title: str
    reference: str
    verdict: str  # of `Verdict`, or skipped, or failed
    findings: list[dict[str, str]]  # statement, origin, verdict, sentence, quote
    command: str
    seed: int
    quick: bool
    version: str
    inputs: str  # digest
    seconds: float = 0.0
    outputs: list[str] = field(default_factory=list)
    reason: str = ""  # of skipping or failing

    @property
    def sentence(self) -> str:
        """The first sentence among those of the entry's own verdict, or why there is none."""
        said = [f["sentence"] for f in self.findings if f["verdict"] == self.verdict]
        return said[0] if said else self.reason


def reproduce(
    entries: Sequence[Entry],
    out: Path,
    seed: int = 0,
    quick: bool = False,
    tell: Tell = lambda name: None,  # noqa: ARG005 - nobody listens
    fresh: bool = False,
) -> list[Report]:
    """Reproduce entries into a directory; `tell` hears of every run, done before or now."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    known = {} if fresh else _known(out)
    reports = []
    for entry in entries:
        inputs = digest(entry, seed, quick)
        report = known.get(entry.id)
        if report is not None and _done(report, inputs, out):
            for run in entry.runs:
                tell(run.name)
        else:
            report = _attempt(entry, out, Context(seed, quick, tell), inputs)
        known[entry.id] = report
        reports.append(report)
        _write(known, out)
    return reports


LASTING = (
    "id", "title", "reference", "verdict", "findings", "command", "seed", "version", "reason",
)  # fmt: skip


def lasting(reports: Sequence[Report]) -> dict[str, Any]:
    """The record without what differs between machines and days: `docs/verdicts.json`."""
    entries = [{name: getattr(report, name) for name in LASTING} for report in reports]
    return {"version": __version__, "entries": entries}


def digest(entry: Entry, seed: int, quick: bool) -> str:
    """SHA-256 of everything that decides the numbers of an entry."""
    parts = [entry.id, repr(entry.runs), str(seed), str(quick), __version__, _code()]
    if entry.needs_data:
        parts.append(data.state())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _code() -> str:
    """SHA-256 of murmura's own source."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _attempt(entry: Entry, out: Path, context: Context, inputs: str) -> Report:
    """Measure, draw and judge; an entry that fails says why and stops no other."""
    began = time.perf_counter()
    report = _report(entry, context, inputs)
    try:
        measured = entry.measure(entry, context)
        outputs = _outputs(entry, measured, out)
        findings = [(claim, claim.check(measured)) for claim in entry.claims]
    except data.MissingDataError as problem:
        return report(verdict=SKIPPED, reason=str(problem))
    except Exception as problem:  # a fault in one entry must not cost the others
        return report(verdict=FAILED, reason=f"{type(problem).__name__}: {problem}")
    return report(
        verdict=str(worst([finding for _, finding in findings])),
        findings=[_plain(claim, finding) for claim, finding in findings],
        outputs=outputs,
        seconds=round(time.perf_counter() - began, 2),
    )


def _report(entry: Entry, context: Context, inputs: str) -> Callable[..., Report]:
    quick = " --quick" if context.quick else ""

    def made(verdict: str, findings: Sequence[dict[str, str]] = (), **more: Any) -> Report:
        return Report(
            id=entry.id, title=entry.title, reference=entry.reference, verdict=verdict,
            findings=list(findings), seed=context.seed, quick=context.quick, inputs=inputs,
            command=f"murmura reproduce {entry.id} --seed {context.seed}{quick}",
            version=__version__, **more,
        )  # fmt: skip

    return made


def _plain(claim: Claim, finding: Finding) -> dict[str, str]:
    return {
        "statement": claim.statement,
        "origin": str(claim.origin),
        "verdict": str(finding.verdict),
        "sentence": finding.sentence,
        "quote": claim.quote,
    }


def _outputs(entry: Entry, measured: Measured, out: Path) -> list[str]:
    """The names of the files: the figure twice, and a CSV for every table."""
    from murmura.report import style

    written = style.write(entry.draw(measured), out / entry.id)
    for name, table in measured.tables.items():
        path = out / (f"{entry.id}-{name}.csv" if name else f"{entry.id}.csv")
        table.to_csv(path, index=False)
        written.append(path)
    return [path.name for path in written]


def _done(report: Report, inputs: str, out: Path) -> bool:
    """Whether an entry was judged with the same inputs and its files are all there."""
    if report.verdict not in list(Verdict) or report.inputs != inputs:
        return False
    return all((out / name).is_file() for name in report.outputs)


def _known(out: Path) -> dict[str, Report]:
    """What an earlier reproduction recorded; a file of another kind counts as none."""
    try:
        found = json.loads((out / RECORD).read_text(encoding="utf-8"))
        return {each["id"]: Report(**each) for each in found["entries"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(known: dict[str, Report], out: Path) -> None:
    """Replace the record at once, so that an interruption leaves the old or the new one."""
    held = {"version": __version__, "entries": [asdict(report) for report in known.values()]}
    text = json.dumps(held, indent=2, allow_nan=False, ensure_ascii=False)
    partial = out / f".{RECORD}.partial"
    partial.write_text(f"{text}\n", encoding="utf-8")
    os.replace(partial, out / RECORD)
