"""Figures of audits and plans: claim against evidence, and error against epsilon and rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from veilsum.results import style, units

if TYPE_CHECKING:
    from veilsum.auditing import AuditReport
    from veilsum.theory import Plan

BOUND, CLAIM, BROKEN, BLIND = style.BLUE, style.INK, style.VERMILION, style.PALE
MARK: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white"}
LARGEST_RATIO = 2.0  # claims
LARGEST_FAULT = 0.5  # drawn in full; a larger one is cut off at the frame


def evidence(reports: Sequence[AuditReport]) -> Figure:
    """A row per mechanism, in units of the claimed epsilon: a bar up to the proved lower bound.

    A bar that passes the line at 1 refutes the claim; one that leaves the frame says how far it
    goes. A diamond is the exact loss, where it is known; the grey strip beyond the line ends where
    samples would have found the noise too small.
    """
    figure = style.figure(7.2, 0.9 + 0.32 * len(reports))
    ax = figure.subplots()
    rows = np.arange(len(reports))[::-1]
    reach = min(1.12 * max(_reach(r) for r in reports), LARGEST_RATIO)
    for row, report in zip(rows, reports, strict=True):
        colour = BROKEN if report.refuted else BOUND
        bound, exact = (x / report.epsilon for x in (report.lower_bound, report.exact or 0.0))
        if report.trials:
            ax.barh(row, max(bound, 0.0), height=0.55, color=colour, alpha=0.85)
            ax.barh(
                row, min(_detectable(report), reach) - 1, left=1, height=0.22, color=BLIND, zorder=1
            )
        if report.exact is not None and exact <= reach:
            ax.plot(exact, row, "D", color=colour, **MARK)
        if max(bound, exact) > reach:
            label = f"{max(bound, exact):.3g} →".replace("inf", "∞")
            ink = CLAIM if report.trials else colour
            ax.text(0.985 * reach, row, label, ha="right", va="center", fontsize=8, color=ink)
    ax.axvline(1.0, color=CLAIM, linewidth=2, zorder=1.5)
    ax.set_yticks(rows, [_audit_label(report) for report in reports], fontsize=8)
    ax.set(xlabel="epsilon over the claimed epsilon", ylim=(-0.7, len(reports) - 0.3))
    ax.set_xlim(0, reach)
    style.tidy(ax)
    ax.grid(axis="y", visible=False)
    style.legend_above(figure, _audit_legend(reports))
    return figure


def _detectable(report: AuditReport) -> float:
    """The epsilon over the claim that the smallest detectable fault would cost: 1/(1 - fault)."""
    fault = report.smallest_fault
    return math.inf if fault is None or fault >= 1 else 1 / (1 - fault)


def _reach(report: AuditReport) -> float:
    """How far to the right a row reaches; what is infinite ends at the frame."""
    known = [1.0, report.lower_bound / report.epsilon, (report.exact or 0.0) / report.epsilon]
    if report.smallest_fault is not None and report.smallest_fault <= LARGEST_FAULT:
        known.append(_detectable(report))
    return max(value for value in known if math.isfinite(value))


def save_evidence(reports: Sequence[AuditReport], directory: Path) -> list[Path]:
    """Write the figure as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return style.write(evidence(reports), directory / "evidence")


def _audit_label(report: AuditReport) -> str:
    delta = f", δ = {report.delta:g}" if report.delta else ""
    return f"{report.name} (ε = {report.epsilon:.3g}{delta})"


def _audit_legend(reports: Sequence[AuditReport]) -> list[Line2D]:
    sampled = [r for r in reports if r.trials]
    key = [Line2D([], [], color=CLAIM, linewidth=2, label="claimed")]
    if sampled:
        sure = max(report.confidence for report in sampled)
        label = f"at least (confidence 1 - {1 - sure:.0e})"
        key.append(Line2D([], [], color=BOUND, linewidth=6, label=label))
        key.append(Line2D([], [], color=BLIND, linewidth=3, label="too little to be found"))
    if any(report.exact is not None for report in reports):
        mark = {"marker": "D", "linestyle": "none", "label": "exactly", **MARK}
        key.append(Line2D([], [], color=BOUND, **mark))
    if any(report.refuted for report in reports):
        key.append(Line2D([], [], color=BROKEN, linewidth=6, label="claim refuted"))
    return key


ERROR_LABELS = {
    "agent": "root mean square error per agent",
    "l2": "l2 norm of the error over agents",
}


def tradeoff(plan: Plan) -> Figure:
    """Error against epsilon and rounds; without protection, against rounds alone."""
    figure = style.figure(6.0, 4.2)
    ax = style.tidy(figure.subplots())
    best = plan.best
    ax.set_title(
        f"{best.algorithm} on {best.weights} weights: guarantee {best.guarantee}", fontsize=9
    )
    if plan.surface.shape[1] < 2:
        ax.plot(plan.rounds, plan.surface[:, 0], color=style.TOTAL.colour)
        ax.plot([best.rounds], [best.error], "o", color=style.INK)
        ax.set(xlabel="rounds", ylabel=units.in_brackets(ERROR_LABELS[plan.norm], plan.unit))
        style.scale(ax, "log", "log")
        return figure
    style.scale(ax, "log", "log")  # before the labels of contours are placed
    low, high = float(plan.surface.min()), float(plan.surface.max())
    bounds = LogNorm(low, max(high, low * 1.001))
    mesh = ax.pcolormesh(
        plan.epsilons, plan.rounds, plan.surface, norm=bounds, cmap="viridis_r", shading="gouraud",
        rasterized=True,
    )  # fmt: skip
    bar = figure.colorbar(mesh, ax=ax)
    bar.set_label(units.in_brackets(ERROR_LABELS[plan.norm], plan.unit), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    style.plain_numbers(bar.ax.yaxis)
    lines = ax.contour(
        plan.epsilons, plan.rounds, plan.surface, levels=_levels(low, high), colors="white",
        linewidths=0.7,
    )  # fmt: skip
    ax.clabel(lines, fontsize=7, fmt="%g")
    if plan.target is not None and low < plan.target < high:
        ax.contour(
            plan.epsilons, plan.rounds, plan.surface, levels=[plan.target], colors=style.INK,
            linewidths=1.4,
        )  # fmt: skip
    if best.epsilon is not None:
        ax.plot([best.epsilon], [best.rounds], "o", color=style.VARIANTS[1], markersize=7)
    ax.set(xlabel="epsilon", ylabel="rounds")
    return figure


def save_tradeoff(plan: Plan, directory: Path) -> list[Path]:
    """Write the figure as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return style.write(tradeoff(plan), directory / "plan")


def _levels(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, inside the range; half of it where there is none."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    levels = [m * 10.0**k for k in powers for m in (1, 2, 5) if low < m * 10.0**k < high]
    return levels or [float(np.sqrt(low * high)) if high > low else low]
