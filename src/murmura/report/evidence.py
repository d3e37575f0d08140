"""Claim against evidence: what is promised, and what an audit could prove against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from murmura.privacy import AuditReport
from murmura.report import style

BOUND, CLAIM, BROKEN = "#0072B2", "#000000", "#D55E00"


def evidence(reports: Sequence[AuditReport]) -> Figure:
    """A row per mechanism: a bar up to the proved lower bound, a mark at the claimed epsilon.

    A bar that passes its mark refutes the claim.
    """
    figure = style.figure(7.2, 0.9 + 0.32 * len(reports))
    ax = figure.subplots()
    rows = np.arange(len(reports))[::-1]
    for row, report in zip(rows, reports, strict=True):
        colour = BROKEN if report.refuted else BOUND
        ax.barh(row, max(report.lower_bound, 0.0), height=0.55, color=colour, alpha=0.85)
        ax.plot([report.epsilon] * 2, [row - 0.4, row + 0.4], color=CLAIM, linewidth=2)
    ax.set_yticks(rows, [_label(report) for report in reports], fontsize=8)
    ax.set(xlabel="epsilon", ylim=(-0.7, len(reports) - 0.3))
    ax.set_xlim(0, 1.12 * max(max(r.lower_bound, r.epsilon) for r in reports))
    style.tidy(ax)
    ax.grid(axis="y", visible=False)
    style.legend_above(figure, _key(reports))
    return figure


def save(reports: Sequence[AuditReport], directory: Path) -> list[Path]:
    """Write the figure as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return style.write(evidence(reports), directory / "evidence")


def _label(report: AuditReport) -> str:
    return f"{report.name} (δ = {report.delta:g})" if report.delta else report.name


def _key(reports: Sequence[AuditReport]) -> list[Line2D]:
    sure = max(report.confidence for report in reports)
    key = [
        Line2D([], [], color=CLAIM, linewidth=2, label="claimed"),
        Line2D([], [], color=BOUND, linewidth=6, label=f"at least (confidence 1 - {1 - sure:.0e})"),
    ]
    if any(report.refuted for report in reports):
        key.append(Line2D([], [], color=BROKEN, linewidth=6, label="claim refuted"))
    return key
