"""The picture of docs/privacy.md: what attacks prove of each mechanism, beside what it claims.

A bar reaches the epsilon that samples prove, a diamond the exact one, in units of the claim; what passes
the line at 1 refutes the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from veilsum.auditing import AuditReport
from veilsum.front import style

REACH = 3.0  # times the claim; what goes further says how far


def drawing(reports: Sequence[AuditReport]) -> Figure:
    """A row for each mechanism."""
    figure = style.figure(7.2, 0.7 + 0.3 * len(reports))
    ax = style.tidy(figure.subplots())
    rows = np.arange(len(reports))[::-1]
    for row, report in zip(rows, reports, strict=True):
        colour = style.VERMILION if report.refuted else style.BLUE
        exact = math.nan if report.exact is None else report.exact / report.epsilon
        bound = max(report.lower_bound / report.epsilon, 0.0) if report.trials else 0.0
        ax.barh(row, min(bound, REACH), height=0.55, color=colour, alpha=0.85)
        if exact <= REACH:
            ax.plot(exact, row, "D", color=colour, markersize=5, markeredgecolor="white")
        most = max(bound, exact if exact > 0 else 0.0)
        if most > REACH:
            label = f"{most:.3g} →".replace("inf", "∞")
            ink = style.INK if not bound else "white"
            ax.text(0.985 * REACH, row, label, ha="right", va="center", fontsize=8, color=ink)
    ax.axvline(1.0, color=style.INK, linewidth=2, zorder=1.5)
    names = [
        f"{r.name} (ε = {r.epsilon:.3g}{f', δ = {r.delta:g}' if r.delta else ''})" for r in reports
    ]
    ax.set_yticks(rows, names, fontsize=8)
    ax.set(xlabel="epsilon found over the claimed epsilon: bar by samples, diamond exactly")
    ax.set(xlim=(0, REACH), ylim=(-0.7, len(reports) - 0.3))
    ax.grid(axis="y", visible=False)
    return figure


def write(reports: Sequence[AuditReport], folder: Path) -> None:
    """Save `evidence.png`."""
    drawing(reports).savefig(folder / "evidence.png", dpi=style.DOTS_PER_INCH)
