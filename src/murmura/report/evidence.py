"""Claim against evidence: what is promised, and what an audit could prove against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from murmura.privacy import AuditReport
from murmura.report import style

BOUND, CLAIM, BROKEN, BLIND = "#0072B2", "#000000", "#D55E00", "#B0B0B0"
MARK: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white"}
MOST_SHOWN = 2.0  # claims
MOST_FAULT = 0.5  # drawn in full; a larger one runs into the frame


def evidence(reports: Sequence[AuditReport]) -> Figure:
    """A row per mechanism, in units of the claimed epsilon: a bar up to the proved lower bound.

    A bar that passes the line at 1 refutes the claim; one that leaves the frame says how far it
    goes. A diamond is the exact loss, where it is known; the grey strip beyond the line ends where
    samples would have found the noise too small.
    """
    figure = style.figure(7.2, 0.9 + 0.32 * len(reports))
    ax = figure.subplots()
    rows = np.arange(len(reports))[::-1]
    reach = min(1.12 * max(_shown(r) for r in reports), MOST_SHOWN)
    for row, report in zip(rows, reports, strict=True):
        colour = BROKEN if report.refuted else BOUND
        bound, exact = (x / report.epsilon for x in (report.lower_bound, report.exact or 0.0))
        if report.trials:
            ax.barh(row, max(bound, 0.0), height=0.55, color=colour, alpha=0.85)
            ax.barh(row, min(_found(report), reach) - 1, left=1, height=0.22, color=BLIND, zorder=1)
        if report.exact is not None and exact <= reach:
            ax.plot(exact, row, "D", color=colour, **MARK)
        if max(bound, exact) > reach:
            words = f"{max(bound, exact):.3g} →".replace("inf", "∞")
            ink = CLAIM if report.trials else colour
            ax.text(0.985 * reach, row, words, ha="right", va="center", fontsize=8, color=ink)
    ax.axvline(1.0, color=CLAIM, linewidth=2, zorder=1.5)
    ax.set_yticks(rows, [_label(report) for report in reports], fontsize=8)
    ax.set(xlabel="epsilon over the claimed epsilon", ylim=(-0.7, len(reports) - 0.3))
    ax.set_xlim(0, reach)
    style.tidy(ax)
    ax.grid(axis="y", visible=False)
    style.legend_above(figure, _key(reports))
    return figure


def _found(report: AuditReport) -> float:
    """The share of the claim that the smallest fault would have spent: 1/(1 - fault)."""
    return 1 / (1 - report.smallest_fault) if report.smallest_fault < 1 else math.inf


def _shown(report: AuditReport) -> float:
    """How far to the right a row reaches; what is infinite ends at the frame."""
    known = [1.0, report.lower_bound / report.epsilon, (report.exact or 0.0) / report.epsilon]
    if report.smallest_fault <= MOST_FAULT:
        known.append(_found(report))
    return max(value for value in known if math.isfinite(value))


def save(reports: Sequence[AuditReport], directory: Path) -> list[Path]:
    """Write the figure as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return style.write(evidence(reports), directory / "evidence")


def _label(report: AuditReport) -> str:
    delta = f", δ = {report.delta:g}" if report.delta else ""
    return f"{report.name} (ε = {report.epsilon:.3g}{delta})"


def _key(reports: Sequence[AuditReport]) -> list[Line2D]:
    sampled = [r for r in reports if r.trials]
    key = [Line2D([], [], color=CLAIM, linewidth=2, label="claimed")]
    if sampled:
        sure = max(report.confidence for report in sampled)
        words = f"at least (confidence 1 - {1 - sure:.0e})"
        key.append(Line2D([], [], color=BOUND, linewidth=6, label=words))
        key.append(Line2D([], [], color=BLIND, linewidth=3, label="too little to be found"))
    if any(report.exact is not None for report in reports):
        mark = {"marker": "D", "linestyle": "none", "label": "exactly", **MARK}
        key.append(Line2D([], [], color=BOUND, **mark))
    if any(report.refuted for report in reports):
        key.append(Line2D([], [], color=BROKEN, linewidth=6, label="claim refuted"))
    return key
