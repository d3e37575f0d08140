"""Pictures of plans and of audits: error over epsilon and rounds, and claims beside the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from veilsum.front import style
from veilsum.front.of_plan import rounds_drawn
from veilsum.results import units

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from veilsum.auditing import AuditReport
    from veilsum.theory import Proposal

WIDE, HIGH = 6.4, 3.8  # inches
ERROR_LABELS = {
    "agent": "root mean square error of an agent",
    "l2": "l2 norm of the error over agents",
}
BOUND, CLAIM, BROKEN, BLIND = style.BLUE, style.INK, style.VERMILION, style.PALE
MARK: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white"}
LARGEST_RATIO = 2.0  # claims
LARGEST_FAULT = 0.5  # drawn in full; a larger one is cut off at the frame


def tradeoff(plan: Proposal, ax: Axes | None = None) -> Axes:
    """Error over epsilon, a curve for each of a few numbers of rounds; over rounds without noise."""
    drawn, best = style.axes(ax, WIDE, HIGH), plan.best
    style.scale(drawn, "log", "log")
    drawn.set_ylabel(units.in_brackets(ERROR_LABELS[plan.norm], plan.unit))
    if len(plan.epsilons) < 2:
        drawn.plot(plan.rounds, plan.surface[:, 0], color=style.BLUE)
        drawn.set_xlabel("rounds")
        place: float | None = best.rounds
    else:
        rows = rounds_drawn(plan)
        own = min(rows, key=lambda k: abs(int(plan.rounds[k]) - best.rounds))
        for k, colour in zip(
            rows, (style.SKY, style.TEAL, style.GREEN, style.PURPLE), strict=False
        ):
            drawn.plot(
                plan.epsilons, plan.surface[k], color=style.BLUE if k == own else colour,
                linewidth=2.2 if k == own else 1.2, linestyle="-" if k == own else "--",
                label=f"{plan.rounds[k]:,} rounds",
            )  # fmt: skip
        drawn.set_xlabel("epsilon")
        place = best.epsilon
    if plan.target is not None:
        drawn.axhline(plan.target, color=style.INK, linewidth=1, linestyle=":", label="to reach")
    if place is not None:
        label = "planned" if best.reached else "nearest"
        drawn.plot([place], [best.error], "o", color=style.VERMILION, markersize=7, label=label)
    drawn.legend(fontsize=8, frameon=False)
    return drawn


def evidence(reports: Sequence[AuditReport], ax: Axes | None = None) -> Axes:
    """A row for each attack, in units of the claimed epsilon: a bar up to the proved lower bound.

    A bar that passes the line at 1 refutes the claim; one that leaves the frame says how far it
    goes. A diamond is the exact loss, where it is known; the grey strip beyond the line ends where
    samples would have found the noise too small.
    """
    drawn = style.axes(ax, 7.2, 0.9 + 0.32 * len(reports))
    rows = np.arange(len(reports))[::-1]
    reach = min(1.12 * max((_reach(r) for r in reports), default=1.0), LARGEST_RATIO)
    for row, report in zip(rows, reports, strict=True):
        colour = BROKEN if report.refuted else BOUND
        bound, exact = (x / report.epsilon for x in (report.lower_bound, report.exact or 0.0))
        if report.trials:
            drawn.barh(row, max(bound, 0.0), height=0.55, color=colour, alpha=0.85)
            strip = min(_detectable(report), reach) - 1
            drawn.barh(row, strip, left=1, height=0.22, color=BLIND, zorder=1)
        if report.exact is not None and exact <= reach:
            drawn.plot(exact, row, "D", color=colour, **MARK)
        if max(bound, exact) > reach:
            label = f"{max(bound, exact):.3g} →".replace("inf", "∞")
            ink = CLAIM if report.trials else colour
            drawn.text(0.985 * reach, row, label, ha="right", va="center", fontsize=8, color=ink)
    drawn.axvline(1.0, color=CLAIM, linewidth=2, zorder=1.5)
    drawn.set_yticks(rows, [_label(report) for report in reports], fontsize=8)
    drawn.set(xlabel="epsilon over the claimed epsilon", ylim=(-0.7, len(reports) - 0.3))
    drawn.set_xlim(0, reach)
    drawn.grid(axis="y", visible=False)
    figure = drawn.get_figure(root=True)
    if figure is not None:
        style.legend_above(figure, _key(reports))
    return drawn


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


def _label(report: AuditReport) -> str:
    delta = f", δ = {report.delta:g}" if report.delta else ""
    return units.in_figure(f"{report.name} (ε = {report.epsilon:.3g}{delta})")


def _key(reports: Sequence[AuditReport]) -> list[Line2D]:
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
