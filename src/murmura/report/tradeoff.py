"""What a budget and rounds buy: the error of a plan over both, with the plan's own point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from murmura.report import style

if TYPE_CHECKING:
    from murmura.theory import Plan

NAMES = {"agent": "root mean square error per agent", "l2": "l2 norm of the error over agents"}


def tradeoff(plan: Plan) -> Figure:
    """Error against epsilon and rounds; without protection, against rounds alone."""
    figure = style.figure(6.0, 4.2)
    ax = style.tidy(figure.subplots())
    best = plan.best
    ax.set_title(f"{best.law} on {best.weights} weights: promise {best.promise}", fontsize=9)
    if plan.surface.shape[1] < 2:
        ax.plot(plan.rounds, plan.surface[:, 0], color=style.TOTAL.colour)
        ax.plot([best.rounds], [best.error], "o", color=style.INK)
        ax.set(xlabel="rounds", ylabel=NAMES[plan.norm])
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
    bar.set_label(NAMES[plan.norm], fontsize=9)
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


def save(plan: Plan, directory: Path) -> list[Path]:
    """Write the figure as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return style.write(tradeoff(plan), directory / "plan")


def _levels(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, inside the range; half of it where there is none."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    found = [m * 10.0**k for k in powers for m in (1, 2, 5) if low < m * 10.0**k < high]
    return found or [float(np.sqrt(low * high)) if high > low else low]
