"""The style of figures: colours for the colour-blind, a light grid, no display needed.

Figures are made without pyplot, so that no global state keeps them alive and no
backend is chosen for the caller's process. Axes that the caller brings keep the caller's fonts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator, ScalarFormatter

# Every colour of a figure has its name here. Those of Okabe and Ito (2008), without the yellow, which
# white paper swallows, and of Paul Tol's muted scheme: for the colour-blind.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
INDIGO, ROSE, FOREST, CYAN, PLUM = "#332288", "#CC6677", "#117733", "#88CCEE", "#AA4499"
TEAL, WINE, OLIVE, SAND = "#44AA99", "#882255", "#999933", "#DDCC77"
IRIS, GREY = "#6A5ACD", "#8A8A8A"  # on white and on black
INK, MUTED, FAINT, PALE, LINES = "#000000", "#666666", "#bdbdbd", "#b0b0b0", "#e6e6e6"
NORM = r"$\ell_2$ norm over agents"
DOTS_PER_INCH = 160

VARIANTS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
PATHS = (IRIS, ROSE, FOREST, CYAN, PLUM, TEAL, WINE, OLIVE, GREY, SAND)  # as many as are drawn
NOT_PROVED = (VERMILION, ORANGE, PURPLE, MUTED)  # curves whose guarantee is not proved


class Curve(NamedTuple):
    """How one kind of error is drawn wherever it appears."""

    label: str
    colour: str
    dash: Literal["-", "--", ":"]
    width: float = 1.6


PRIVACY = Curve("cost of privacy (CoP)", BLUE, "-")
TOTAL = Curve("total error (TE)", VERMILION, "--")
DECENTRALISATION = Curve("cost of decentralisation (CoD)", GREEN, ":", 2.0)
BAND = 0.18  # opacity


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that draws into memory."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn


def axes(ax: Axes | None, width: float = 4.8, height: float = 3.4) -> Axes:
    """The caller's axes as they are, or fresh ones in a figure of their own."""
    return tidy(figure(width, height).add_subplot()) if ax is None else ax


def tidy(ax: Axes) -> Axes:
    """Two spines, small ticks and a light grid behind the curves."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(which="both", labelsize=8, color=MUTED)
    ax.xaxis.label.set_fontsize(9)
    ax.yaxis.label.set_fontsize(9)
    ax.title.set_fontsize(9)
    ax.grid(True, color=LINES, linewidth=0.6)
    ax.set_axisbelow(True)
    for axis in (ax.xaxis, ax.yaxis):
        numbers = axis.get_major_formatter()
        if isinstance(numbers, ScalarFormatter):
            numbers.set_useOffset(False)  # 9.9958 and not 8 below "1e-4 + 9.995"
    return ax


def scale(ax: Axes, x: str = "linear", y: str = "linear") -> None:
    """Set the scales of both axes; logarithmic ones with numbers that can be read."""
    ax.set(xscale=x, yscale=y)
    for axis, kind in ((ax.xaxis, x), (ax.yaxis, y)):
        if kind == "log":
            plain_numbers(axis)


def plain_numbers(axis: Axis) -> None:
    """Write 0.01, 0.1, 1, 10 along a logarithmic axis, and powers only beyond."""
    if axis.get_scale() == "log":
        axis.set_major_formatter(_Numbers())
        axis.set_minor_formatter(_Numbers())


def whole_numbers(axis: Axis) -> None:
    """Ticks at whole numbers alone."""
    axis.set_major_locator(MaxNLocator(integer=True))


class _Numbers(LogFormatterSciNotation):
    """Matplotlib's choice of what to label, in plain numbers while these are short."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label = super().__call__(x, pos)
        return f"{x:g}" if label and 1e-3 <= x < 1e4 else label


def legend_above(drawn: Figure, handles: Sequence[Artist]) -> None:
    """One legend for all panels, in as few rows as the labels allow; none without entries."""
    if not handles:
        return
    widths = [0.6 + 0.062 * len(str(handle.get_label())) for handle in handles]  # inches, at 8 pt
    for rows in range(1, len(handles) + 1):
        columns = -(-len(handles) // rows)
        if sum(max(part) for part in np.array_split(widths, columns)) <= drawn.get_figwidth():
            break
    drawn.legend(
        handles=list(handles), loc="outside upper center", ncols=columns, fontsize=8, frameon=False
    )


def key_of_paths(private: bool) -> list[Artist]:
    """Legend entries of sample paths; without protection all paths are free of noise."""
    target: Artist = Line2D([], [], color=INK, linewidth=1.2, label="target")
    clean = Line2D([], [], color=GREY, linewidth=0.8, linestyle="--", label="without noise")
    noisy = Line2D([], [], color=GREY, linewidth=1.3, label="private estimate")
    return [noisy, clean, target] if private else [clean, target]


def key_of_errors(private: bool, band: bool) -> list[Artist]:
    """Legend entries of the errors; without protection there is only one."""
    curves = (PRIVACY, TOTAL, DECENTRALISATION) if private else (DECENTRALISATION,)
    entries: list[Artist] = [
        Line2D([], [], color=c.colour, linestyle=c.dash, linewidth=c.width, label=c.label)
        for c in curves
    ]
    if band:
        entries.append(Patch(color=MUTED, alpha=BAND, label="10 to 90% of replicas"))
    return entries


def write(drawn: Figure, stem: Path) -> list[Path]:
    """Save as PNG and SVG; the same figure gives the same bytes, whenever it is saved."""
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    drawn.savefig(png, dpi=DOTS_PER_INCH)
    with matplotlib.rc_context({"svg.hashsalt": "veilsum"}):
        drawn.savefig(svg, dpi=DOTS_PER_INCH, metadata={"Date": None})
    return [png, svg]
