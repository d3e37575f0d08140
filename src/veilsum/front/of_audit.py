"""The sheet of an audit: a row for each attack, what it proves beside what is claimed.

Signals are planted, those of a study are not read. Refuted claims come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from veilsum._numbers import upward
from veilsum.auditing.problem import at_smallest_epsilon
from veilsum.front.sheet import Answer, Answers, ordered
from veilsum.front.table import Row, rows_of
from veilsum.front.words import budget, listed, promises
from veilsum.privacy import MaskedDP
from veilsum.results.describe import versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from veilsum.auditing import AuditReport
    from veilsum.front.plot import Picture
    from veilsum.privacy import Status
    from veilsum.simulation import Problem

NOTHING = "No variant guarantees anything: there is nothing to audit."
LEGEND = (
    "epsilon: from what samples prove to what is exact, or else claimed; finds: the smallest missing "
    "fraction of the noise that the samples would have found; exactly: by likelihoods, at delta 0."
)
CAPTION = "What attacks prove beside what is claimed: a bar beyond the line refutes the claim."


def of_audit(
    attacked: Sequence[tuple[AuditReport, Status]],
    problems: Mapping[str, Problem],
    name: str = "audit",
    title: str = "Audit",
    text: str = "",
    unit: str = "",
) -> Answers:
    """The sheet of an audit.

    Parameters
    ----------
    attacked
        What each attack found, and the status of the guarantee that it attacked.
    problems
        All variants by name; those that add no noise are named as left out.
    name, title
        Of the sheet.
    text
        The study.
    unit
        Of the signals.

    Returns
    -------
    Answers
        The epsilon that each attack proves, with the claim.

    Examples
    --------
    >>> from veilsum.auditing import AuditReport
    >>> from veilsum.privacy import Status
    >>> report = AuditReport("laplace", 1.0, 0.0, 1.2, 0.0, 0.95, 1000, "0 and 1", "output 0")
    >>> sheet = of_audit([(report, Status.CLAIMED)], {})
    >>> sheet.best.status, sheet.value, sheet.best.epsilon
    ('refuted', 1.2, 1.0)
    """
    reports = [report for report, _ in attacked]
    rows = [_row(report, status) for report, status in attacked]
    noisy = {name: problem for name, problem in problems.items() if problem.run_epsilons}
    return Answers(
        name=name,
        title=title,
        about=_about(reports),
        rows=ordered(rows, lambda _: 0),
        promises=tuple(_promised(noisy, unit)),
        warnings=tuple(_warnings(reports, [each for each in problems if each not in noisy])),
        legend=(LEGEND,) if rows else (),
        notes=tuple(f"{report}." for report in reports),
        text=text,
        origin=versions(),
        curves=lambda: list(_curves(attacked)),
        pictures=lambda: _pictures(reports),
        drawing=lambda ax: _drawn(reports, ax),
    )


def _about(reports: Sequence[AuditReport]) -> str:
    if not reports:
        return NOTHING
    runs = sum(2 * report.trials for report in reports)
    sure = min(report.confidence for report in reports)
    by = f"{runs:,} runs, confidence 1 - {1 - sure:.0e}" if runs else "by likelihoods alone"
    return f"{len(reports)} attack{'s' * (len(reports) > 1)}, {by}"


def _row(report: AuditReport, status: Status) -> Answer:
    pure = None if report.delta else report.exact  # a loss at delta = 0 says nothing of a delta
    least, most = max(report.lower_bound, 0.0) if report.trials else pure, pure
    if most is None and not report.refuted and not report.beyond:
        most = report.epsilon
    bounded = least is not None and most is not None and math.isfinite(most) and not report.delta
    return Answer(
        name=report.name,
        quantity="epsilon",
        value=least,
        low=least if bounded else None,
        high=most if bounded else None,
        status=report.verdict.lower(),
        kind=f"guarantee {status}",
        epsilon=report.epsilon,
        delta=report.delta,
        cells={
            "claimed": budget(report.epsilon, report.delta),
            "finds": _finds(report),
            "exactly": "" if report.exact is None else upward(report.exact),
            "spent delta": f"{max(report.delta_lower_bound, 0):.3g}",
        },
    )


def _finds(report: AuditReport) -> str:
    if report.beyond:
        return ""
    if not report.trials:
        return "any"
    if report.smallest_fault is None:
        return "unknown"
    return f"{report.smallest_fault:.1%}" if report.smallest_fault < 1 else "none"


def _promised(problems: Mapping[str, Problem], unit: str) -> Iterator[str]:
    """What each variant guarantees at the epsilon under attack."""
    attacked = {name: at_smallest_epsilon(problem) for name, problem in problems.items()}
    if any(len(p.run_epsilons) > 1 or p.replicas > 1 for p in problems.values()):
        yield "Of one run, at the smallest epsilon:"
    yield from promises({name: problem.guarantee for name, problem in attacked.items()}, unit)
    for name, problem in attacked.items():
        asked = problem.privacy
        if isinstance(asked, MaskedDP) and asked.attempts > 1:
            yield (
                f"{name}: one session is attacked, epsilon = {upward(asked.session_cost[0])}; the "
                f"guarantee is for the {asked.attempts} that a query may take."
            )


def _warnings(reports: Sequence[AuditReport], quiet: Sequence[str]) -> Iterator[str]:
    """What the guarantee does not cover, and what was not attacked."""
    beyond: dict[str, list[str]] = {}
    for report in reports:
        if report.beyond:
            beyond.setdefault(report.beyond, []).append(report.name)
    for reason, names in beyond.items():
        yield f"{listed(names)}: {reason}, so that nothing is claimed."
    if quiet and reports:
        yield f"Not attacked: {listed(quiet)}: without noise there is no guarantee."


def _curves(attacked: Sequence[tuple[AuditReport, Status]]) -> Iterator[Row]:
    """Of every attack what the columns of the screen have: exact loss, delta, and what it finds."""
    for report, status in attacked:
        (row,) = rows_of(_row(report, status))
        numbers = {
            "exact epsilon": report.exact,
            "delta": max(report.delta_lower_bound, 0.0),
            "smallest fault": report.smallest_fault,
            "runs": 2.0 * report.trials,
        }
        for quantity, value in numbers.items():
            known = value is not None and math.isfinite(value)
            yield row._replace(
                quantity=quantity, value=value if known else None, low=None, high=None
            )


def _pictures(reports: Sequence[AuditReport]) -> list[Picture]:
    from veilsum.front.plot import picture

    return [picture(_drawn(reports, None), "evidence", CAPTION)] if reports else []


def _drawn(reports: Sequence[AuditReport], ax: Axes | None) -> Axes:
    from veilsum.front.pictures import evidence

    return evidence(reports, ax)
