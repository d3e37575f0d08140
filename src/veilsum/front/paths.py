"""Figures of the paper's runs: sample paths above, errors below, a column for each run.

Errors are l2 norms over agents. All of it compares with the truth: signals are drawn, or are readings
that anyone can download. The caption says whether the noise was simulated or exact. Functions `draw_...`
draw the first epsilon and replica into axes and leave the legend to their callers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from veilsum._numbers import upward
from veilsum.front import style
from veilsum.privacy import Status
from veilsum.results import units

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from veilsum.results import Result

Floats = NDArray[np.float64]
FLOOR = 1e-6  # of the largest error: what is smaller leaves the panel
LETTERS = 17  # of a caption, in an inch


def compare(results: Mapping[str, Result]) -> Figure:
    """Runs side by side: sample paths above, errors below.

    Parameters
    ----------
    results
        Runs of one family by name; each recorded two rounds or more.

    Returns
    -------
    matplotlib.figure.Figure
        Titles say what ran; the line at the bottom gives the status of each guarantee.
    """
    width = float(np.clip(12.0 / len(results), 2.6, 4.6))
    figure = style.figure(max(width * len(results), 6.4), 6.0)
    grid = figure.subplots(2, len(results), squeeze=False, sharey="row")
    for column, (name, result) in zip(grid.T, results.items(), strict=True):
        column[0].set_title("\n".join([name, *_title_lines(result)]))
        draw_paths(result, column[0])
        draw_errors(result, column[1])
    for ax in grid[1]:
        _raise_floor(ax)
    for row in grid:
        for ax in map(style.tidy, row):
            if ax is not row[0] and ax.get_ylabel() == row[0].get_ylabel():
                ax.set_ylabel("")
    problems = [result.problem for result in results.values()]
    private = any(p.run_epsilons for p in problems)
    band = any(p.replicas > 1 and (p.run_epsilons or p.source.varies) for p in problems)
    style.legend_above(figure, style.key_of_paths(private) + style.key_of_errors(private, band))
    text = textwrap.fill(_caption(results), int(figure.get_figwidth() * LETTERS))
    figure.supxlabel(text, fontsize=7.5, color=style.MUTED)
    return figure


def _title_lines(result: Result) -> list[str]:
    """Algorithm and protection, then epsilon and delta: the lines of a title."""
    privacy, epsilons = result.problem.privacy, result.problem.run_epsilons
    if not epsilons:
        return [f"{result.problem.algorithm.name}, no privacy"]
    delta = getattr(privacy, "delta", 0.0)
    size = f"ε = {result.run_guarantee(epsilons[0]).epsilon:g}{f', δ = {delta:g}' if delta else ''}"
    return [f"{result.problem.algorithm.name}, {privacy.protects} DP", size]


def _caption(results: Mapping[str, Result]) -> str:
    """The status of every guarantee, and whether the noise is simulated or exact."""
    statuses = "; ".join(f"{name} ({_status(result)})" for name, result in results.items())
    text = dict.fromkeys(r.noise for r in results.values() if r.problem.run_epsilons)
    return f"guarantees: {statuses}. noise: {' and '.join(text) or 'none'}"


def _status(result: Result) -> str:
    """The status, and of measured signals the epsilon of all runs together."""
    guarantee = result.guarantee
    if not result.measured or guarantee.status is Status.NONE:
        return str(guarantee.status)
    return f"{guarantee.status}, ε = {upward(guarantee.epsilon)} for all runs"


def draw_paths(result: Result, ax: Axes, agents: int = 10) -> None:
    """Estimates of some agents over rounds: private, without noise (dashed), and their target."""
    kept, online = result.trace.recorded_rounds, result.problem.algorithm.online
    first = int(online and kept[0] == 0)  # a stream has no estimate in round 0
    rounds, (private, clean) = kept[first:], _sample(result, agents, first)
    ax.axhline(result.trace.target[0, 0], color=style.INK, linewidth=1.2, zorder=4)
    for k in range(clean.shape[1]):
        colour = style.PATHS[k % len(style.PATHS)]
        if private is not None:
            ax.plot(rounds, private[:, k], color=colour, linewidth=1.3, alpha=0.85)
        ax.plot(rounds, clean[:, k], color=colour, linewidth=0.8, linestyle="--")
    style.scale(ax, x="log" if online else "linear")
    family = result.problem.family
    unit = f", s in {units.in_figure(result.unit)}" if result.unit else ""
    ax.set(xlabel="round t", ylabel=f"estimate of E[ξ],  ξ = {family.formula}{unit}")


def _sample(result: Result, agents: int, first: int) -> tuple[Floats | None, Floats]:
    """Component 0 of evenly spaced agents, private and clean, as (recorded, agent)."""
    private, clean = result.trace.private, result.trace.noiseless
    assert clean is not None
    some = np.linspace(0, clean.shape[1] - 1, min(agents, clean.shape[1])).round().astype(int)
    noisy = private[first:, some, 0, 0, 0] if private is not None and private.size else None
    return noisy, clean[first:, some, 0, 0]


def draw_errors(result: Result, ax: Axes) -> None:
    """Total error and its two parts over rounds, which are logarithmic for a stream."""
    online = int(result.problem.algorithm.online)
    trace = result.trace
    rounds = np.arange(float(len(trace.total)))[online:]
    if result.problem.run_epsilons:
        _band(ax, rounds, trace.privacy[online:, 0], style.PRIVACY)
        _band(ax, rounds, trace.total[online:, 0], style.TOTAL)
    _band(ax, rounds, trace.decentralisation[online:], style.DECENTRALISATION)
    style.scale(ax, x="log" if online else "linear", y="log")
    label = units.in_brackets(style.NORM, units.of_statistic(result))
    ax.set(xlabel="round t", ylabel=label)


def _band(ax: Axes, x: Floats, runs: Floats, curve: style.Curve) -> None:
    """Mean over the runs (x, replica), in a band from their 10% to their 90% quantile."""
    shown = (runs > 0).all(axis=1)  # a logarithmic axis has no place for 0
    if not shown.any():
        return
    x, runs = x[shown], runs[shown]
    ax.plot(x, runs.mean(axis=1), color=curve.colour, linestyle=curve.dash, linewidth=curve.width,
            label=curve.label)  # fmt: skip
    if runs.shape[1] > 1:
        low, high = np.quantile(runs, [0.1, 0.9], axis=1)
        ax.fill_between(x, low, high, color=curve.colour, alpha=style.BAND, linewidth=0)


def _raise_floor(ax: Axes) -> None:
    """Keep errors that have shrunk to rounding from squeezing those that have not."""
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, FLOOR * high), high)


def key_line(label: str, colour: str, dash: Literal["-", "--"] = "-") -> Artist:
    """A legend entry for a line."""
    return Line2D([], [], color=colour, linestyle=dash, label=label)


def key_patches(labels: Iterable[str], colours: Sequence[str]) -> list[Artist]:
    """Legend entries for bars."""
    return [Patch(color=c, label=n) for c, n in zip(colours, labels, strict=False)]


def draw_links(ax: Axes, places: Any, links: Any) -> None:
    """A network: thousands of links and agents, as one picture inside a vector file."""
    ties = list(places[links])
    ax.add_collection(
        LineCollection(ties, colors=style.FAINT, linewidths=0.3, rasterized=True, zorder=1)
    )
    x, y = places.T
    ax.scatter(x, y, s=3, color=style.VARIANTS[0], linewidths=0, rasterized=True, zorder=2)
    ax.set_aspect("equal")
    ax.set_axis_off()
