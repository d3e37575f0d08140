"""One picture of all variants: the total error over rounds, a panel for each target.

    overview.draw({"offline": a, "masked": b})      a figure, for one to twelve results

What an error is measured against is the title of its panel: the mean of the signals, where every
agent has one, or E xi, where signals are a stream. A solid curve has a guarantee that is proved, a
dashed one has not. A masked sum has no estimate before its session is over: its curve begins there.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from veilsum.errors import VeilsumError
from veilsum.privacy import MaskedDP, Status
from veilsum.results import style, units
from veilsum.results.targets import EXPECTATION, different_statistics, duration_of, target_of

if TYPE_CHECKING:
    from veilsum.results.result import Result

MOST = 12
MARGIN = 0.085  # of the panel, for each line of the legend below the curves


def drawable(results: Mapping[str, Result], evaluation: bool = False) -> bool:
    """Whether there is something to compare: several runs whose errors may be shown, no sweeps."""
    shown = all(evaluation or not result.measured for result in results.values())
    single = all(len(result.problem.run_epsilons) < 2 for result in results.values())
    return 2 <= len(results) <= MOST and shown and single


def draw(results: Mapping[str, Result], evaluation: bool = False) -> Figure:
    """Total errors over rounds, side by side where there are two targets.

    Parameters
    ----------
    results
        Two to twelve results by name, at one epsilon each.
    evaluation
        Needed for measured signals: their errors compare with the truth.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    VeilsumError
        If there are too few or too many, a sweep is among them, or errors may not be shown.
    """
    if not drawable(results, evaluation):
        raise VeilsumError(
            f"an overview takes 2 to {MOST} results at one epsilon each, whose errors may be shown; "
            "draw others with compare"
        )
    panels: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        panels.setdefault(target_of(result), {})[name] = result
    figure = style.figure(max(_width(results) * len(panels), 6.0), 4.4)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, (target, some) in zip(grid, panels.items(), strict=True):
        _panel(ax, some)
        kind = "a stream" if target == EXPECTATION else "one signal each"
        ax.set(title=f"{kind}: error against {target}", xlabel="round")
        style.tidy(ax)
    grid[0].set_ylabel(units.of_all(f"total error, {style.NORM}", results))
    low, high = grid[0].get_ylim()
    lines = max(len(some) for some in panels.values())
    grid[0].set_ylim(low * (low / high) ** (MARGIN * lines), high)
    figure.supxlabel(_caption(results), fontsize=7.5, color=style.MUTED)
    return figure


def save(results: Mapping[str, Result], folder: Path, evaluation: bool = False) -> list[Path]:
    """Write the overview as PNG and SVG.

    Parameters
    ----------
    results, evaluation
        As of `draw`.
    folder
        Which exists.

    Returns
    -------
    list of Path
        The files that were written.
    """
    secret = evaluation and any(result.measured for result in results.values())
    return style.write(draw(results, evaluation), folder / "overview", secret)


def _panel(ax: Axes, results: Mapping[str, Result]) -> None:
    """The curves of one target; the largest error is first in the legend."""
    order = sorted(results, key=lambda name: -_last(results[name]))
    colours = {kind: cycle(kind) for kind in (style.NOT_PROVED, style.PROVED, style.MASKED)}
    handles = []
    for name in order:
        result = results[name]
        proved = result.guarantee.status is Status.PROVED
        with_proof = style.MASKED if result.problem.privacy.masked else style.PROVED
        kind = with_proof if proved else style.NOT_PROVED
        curve = style.Curve(_label(name, result), next(colours[kind]), "-" if proved else "--", 1.8)
        handles.append(_curve(ax, result, curve))
    style.scale(ax, x="log", y="log")
    ax.legend(handles=handles, loc="lower left", fontsize=8, frameon=True, framealpha=0.9,
              edgecolor="none", handlelength=3.0)  # fmt: skip


def _curve(ax: Axes, result: Result, curve: style.Curve) -> Line2D:
    """One variant from its first estimate on, with a mark at its last round."""
    session = result.problem.algorithm.session
    first = max(1, 0 if session is None else session.arrival)
    runs = _total(result)[first:]
    rounds = np.arange(first, first + len(runs))
    (line,) = ax.plot(
        rounds, runs, color=curve.colour, linestyle=curve.dash, linewidth=curve.width,
        label=curve.label, marker="o", markevery=[len(runs) - 1], markersize=4.5,
    )  # fmt: skip
    if first > 1:
        ax.axvline(first, color=curve.colour, linewidth=0.8, linestyle=":", zorder=0)
        ax.text(
            first * 0.93, runs[0], f"no estimate\nbefore round {first}", color=curve.colour,
            fontsize=8, ha="right", va="center",
        )  # fmt: skip
    return line


def _total(result: Result) -> style.Floats:
    trace = result.trace
    runs = trace.total[:, 0] if result.problem.run_epsilons else trace.decentralisation
    return np.asarray(runs.mean(axis=-1))


def _last(result: Result) -> float:
    return float(_total(result)[-1])


def _label(name: str, result: Result) -> str:
    algorithm = result.problem.algorithm.name
    status = result.guarantee.status if result.problem.run_epsilons else "no privacy"
    way = name if name == algorithm else f"{name} ({algorithm})"
    return f"{_last(result):.2g}  {way}, {duration_of(result)} rounds, {status}"


def _width(results: Mapping[str, Result]) -> float:
    """Inches of a panel in which every line of the legend has room."""
    longest = max(len(_label(name, result)) for name, result in results.items())
    return max(4.6, 1.3 + 0.061 * longest)


def _caption(results: Mapping[str, Result]) -> str:
    noises = dict.fromkeys(r.noise for r in results.values() if r.problem.run_epsilons)
    budgets = {r.run_guarantee().epsilon for r in results.values() if r.problem.run_epsilons}
    size = f"ε = {budgets.pop():g} each; " if len(budgets) == 1 else ""
    noise = " and ".join(noises) or "none"
    line = f"{size}solid: guarantee proved for ideal noise; dashed: not. Noise: {noise}."
    asked = (result.problem.privacy for result in results.values())
    masked = {one.colluders for one in asked if isinstance(one, MaskedDP)}
    if masked:
        most = " or ".join(f"{each:,}" for each in sorted(masked))
        whom = f"up to {most} colluding members" if max(masked) else "whoever is no member"
        line += f" Masked sums: proved against {whom}."
    return "\n".join([line, *different_statistics(results)])
