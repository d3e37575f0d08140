"""Figures of results: one panel of one result, or several results side by side.

    figures.paths(result), figures.errors(result), figures.network(result)    one panel
    figures.compare({"signal": a, "network": b})                              all of them
    figures.save_all(results, Path("figures"))                                PNG and SVG

Errors are l2 norms over agents. The caption says whether the noise was simulated or exact.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from murmura.errors import MurmuraError
from murmura.privacy import Status
from murmura.report import layout, panels, style
from murmura.report.dataset import SECRET

if TYPE_CHECKING:
    from murmura.report.result import Result

__all__ = ["compare", "errors", "network", "paths", "save_all"]

MOST_VARIANTS = 6
MOST_DRAWN = 50_000  # agents; a picture of more takes minutes and shows nothing


def paths(
    result: Result, ax: Axes | None = None, agents: int = 10, evaluation: bool = False
) -> Axes:
    """Estimates of recorded agents over rounds: private, without noise (dashed), and the target.

    Needs two recorded rounds or more: run with Record(every=1, agents=[...]). Of a statistic with
    several components the first is drawn. Online laws, who know nothing in round 0, start at 1.
    Of measured signals, what is without noise and the target are drawn for an `evaluation` only.
    """
    panels.need_paths(result, evaluation)
    drawn = style.axes(ax)
    panels.paths(result, drawn, agents, evaluation)
    style.legend(drawn, _key_of_paths([result], evaluation))
    return drawn


def errors(result: Result, ax: Axes | None = None, evaluation: bool = False) -> Axes:
    """Total error and its two parts over rounds; at the last round over epsilon, for a sweep.

    Curves are means over replicas in a band from their 10% to their 90% quantile. Of measured
    signals they are an evaluation, which must be asked for.
    """
    result.check_evaluation("errors", evaluation)
    drawn = style.axes(ax)
    panels.errors(result, drawn)
    if len(result.problem.budgets) < 2:
        panels.raise_floor(drawn)
    style.legend(drawn, _key_of_errors([result]))
    return drawn


def network(result: Result, ax: Axes | None = None, evaluation: bool = False) -> Axes:
    """The network, each agent coloured by how far its final estimate is from the target.

    Of measured signals, from the mean of all estimates unless it is an `evaluation`. Without
    recorded estimates, only the graph is drawn.
    """
    places = layout.of_network(result.problem.network)
    wide, high = np.ptp(places, axis=0)
    drawn = style.axes(ax, 5.8, float(np.clip(4.8 * high / max(wide, 1e-9), 2.0, 5.2)))
    panels.network(result, drawn, places, evaluation)
    return drawn


def compare(results: Mapping[str, Result], evaluation: bool = False) -> Figure:
    """Several variants side by side: sample paths above, errors below; for sweeps, over epsilon.

    Titles say what ran; the line at the bottom says how far each promise is proved. Of measured
    signals, estimates with their intervals stand in place of errors unless it is an `evaluation`.
    """
    if not 1 <= len(results) <= MOST_VARIANTS:
        raise MurmuraError(
            f"compare takes 1 to {MOST_VARIANTS} results; found {len(results)}; "
            "draw them in several figures"
        )
    if any(len(result.problem.budgets) > 1 for result in results.values()):
        if all(_tells(result, evaluation) for result in results.values()):
            return _compare_sweeps(results, evaluation)
        return _compare_estimates(results, evaluation)
    return _compare_runs(results, evaluation)


def _tells(result: Result, evaluation: bool) -> bool:
    """Whether the truth is shown: it is nobody's, or asked for."""
    return evaluation or not result.measured


def save_all(
    results: Mapping[str, Result], directory: Path, evaluation: bool = False
) -> list[Path]:
    """Write compare and, if a run kept estimates, network; each as PNG and as SVG.

    The network is drawn for the first run that kept estimates; one of more than 50,000 agents is
    left out. An `evaluation` of measured signals says secret in the names of its files.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    secret = evaluation and any(result.measured for result in results.values())
    written = style.write(compare(results, evaluation), directory / "compare", secret)
    kept = [name for name, result in results.items() if result.trace.final is not None]
    if kept and results[kept[0]].problem.network.size <= MOST_DRAWN:
        drawn = _network_figure(kept[0], results[kept[0]], evaluation)
        written += style.write(drawn, directory / "network", secret)
    return written


def _network_figure(name: str, result: Result, evaluation: bool) -> Figure:
    ax = network(result, None, evaluation)
    mark = "SECRET: " if evaluation and result.measured else ""
    ax.set_title(f"{mark}{name}: {', '.join(_what(result))}", fontsize=9)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _compare_runs(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """One column per variant; the row of paths is there if any run recorded them."""
    rows = 2 if any(panels.has_paths(result, evaluation) for result in results.values()) else 1
    width = float(np.clip(12.0 / len(results), 2.6, 4.6))
    figure = style.figure(max(width * len(results), 6.4), 2.5 * rows + 1.0)
    tells = [_tells(result, evaluation) for result in results.values()]
    alike = len({result.problem.family.name for result in results.values()}) == 1
    alike = alike and len(set(tells)) == 1
    grid = figure.subplots(rows, len(results), squeeze=False, sharey="row" if alike else False)
    for column, (name, result), told in zip(grid.T, results.items(), tells, strict=True):
        column[0].set_title("\n".join([name, *_what(result)]))
        if rows == 2:
            _paths_or_words(result, column[0], evaluation)
        (panels.errors if told else panels.estimates)(result, column[-1])
    for ax, told in zip(grid[-1], tells, strict=True):
        if told:
            panels.raise_floor(ax)
    key = _key_of_paths(results.values(), evaluation) if rows == 2 else []
    shown = [result for result, told in zip(results.values(), tells, strict=True) if told]
    _finish(figure, grid, results, key + (_key_of_errors(shown) if shown else []), evaluation)
    return figure


def _key_of_paths(results: Iterable[Result], evaluation: bool) -> list[Artist]:
    """Legend entries for the paths that at least one of the results shows."""
    results = list(results)
    key = style.key_of_paths(any(result.problem.budgets for result in results))
    return key if any(_tells(result, evaluation) for result in results) else key[:1]


def _compare_estimates(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """What may be shown of sweeps over measured signals: estimates over epsilon, by variant."""
    figure = style.figure(6.4, 4.2)
    grid = figure.subplots(1, 1, squeeze=False)
    handles: list[Artist] = []
    for k, (name, result) in enumerate(results.items()):
        colour = style.VARIANTS[k % len(style.VARIANTS)]
        panels.estimates(result, grid[0, 0], colour, shift=1.02**k)
        handles.append(Line2D([], [], color=colour, label=f"{name}: {_what(result)[0]}"))
    _finish(figure, grid, results, handles, evaluation)
    return figure


def _paths_or_words(result: Result, ax: Axes, evaluation: bool) -> None:
    if panels.has_paths(result, evaluation):
        panels.paths(result, ax, truth=evaluation)
    else:
        ax.text(0.5, 0.5, "paths not recorded", transform=ax.transAxes, ha="center", fontsize=8)
        ax.set_xlabel("round t")


def _key_of_errors(results: Iterable[Result]) -> list[Artist]:
    """Legend entries for the errors that at least one of the results has."""
    problems = [result.problem for result in results]
    band = any(p.replicas > 1 and (p.budgets or p.source.varies) for p in problems)
    return style.key_of_errors(any(p.budgets for p in problems), band)


def _compare_sweeps(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """Cost of privacy on the left, total error on the right; a colour per variant."""
    figure = style.figure(9.0, 4.2)
    grid = figure.subplots(1, 2, squeeze=False)
    handles: list[Artist] = []
    for colour, (name, result) in zip(style.VARIANTS, results.items(), strict=False):
        _sweep(result, grid[0, 0], grid[0, 1], colour)
        handles.append(Line2D([], [], color=colour, label=f"{name}: {_what(result)[0]}"))
    level = style.DECENTRALISATION
    handles.append(Line2D([], [], color=style.MUTED, linestyle=level.dash, label=level.label))
    handles += _key_of_errors(results.values())[3:]
    for ax, curve in zip(grid[0], (style.PRIVACY, style.TOTAL), strict=True):
        style.scale(ax, x="log", y="log")
        ax.set(xlabel="privacy budget ε", ylabel=style.NORM, title=curve.label)
    _finish(figure, grid, results, handles, evaluation)
    return figure


def _sweep(result: Result, privacy: Axes, total: Axes, colour: str) -> None:
    """One variant's final errors; its cost of decentralisation is a level that needs no epsilon."""
    trace, budgets = result.trace, np.array(result.problem.budgets)
    apart = float(trace.decentralisation[-1].mean())
    if apart > 0:
        total.axhline(apart, color=colour, linestyle=style.DECENTRALISATION.dash, linewidth=1.2)
    if result.problem.budgets:
        solid, dashed = style.PRIVACY._replace(colour=colour), style.TOTAL._replace(colour=colour)
        panels.banded(privacy, budgets, trace.privacy[-1], solid, marker="o")
        panels.banded(total, budgets, trace.total[-1], dashed, marker="o")


def _finish(
    figure: Figure,
    grid: Any,
    results: Mapping[str, Result],
    handles: list[Artist],
    evaluation: bool,
) -> None:
    """Tidy every panel; one legend above them all, the caption below."""
    for row in grid:
        for ax in map(style.tidy, row):
            if ax is not row[0] and ax.get_ylabel() == row[0].get_ylabel():
                ax.set_ylabel("")
    style.legend_above(figure, handles)
    words = textwrap.fill(_caption(results, evaluation), int(figure.get_figwidth() * 17))
    figure.supxlabel(words, fontsize=7.5, color=style.MUTED)


def _what(result: Result) -> list[str]:
    """Law and protection, then epsilon and delta: the lines of a title."""
    want, budgets = result.problem.want, result.problem.budgets
    if not budgets:
        return [f"{result.problem.law.name}, no privacy"]
    few, many = (result.guarantee_of(end(budgets)).epsilon for end in (min, max))
    size = f"ε = {few:g}" if few == many else f"ε = {few:g} to {many:g}"
    delta = getattr(want, "delta", 0.0)
    loss = f", δ = {delta:g}" if delta else ""
    return [f"{result.problem.law.name}, {want.protects} DP", size + loss]


def _caption(results: Mapping[str, Result], evaluation: bool) -> str:
    """The standing of every promise, in few words, and what the noise is.

    Nothing is said of the noise where the truth is told about measured signals.
    """
    standing = "; ".join(f"{name} ({_standing(result)})" for name, result in results.items())
    if evaluation and any(result.measured for result in results.values()):
        return f"SECRET: {SECRET}. guarantees: {standing}"
    words = dict.fromkeys(r.noise for r in results.values() if r.problem.budgets)
    return f"guarantees: {standing}. noise: {' and '.join(words) or 'none'}"


def _standing(result: Result) -> str:
    """The status, and of measured signals the epsilon of all runs together."""
    made = result.guarantee
    if not result.measured or made.status is Status.NONE:
        return str(made.status)
    return f"{made.status}, ε = {made.epsilon:.4g} for all runs"
