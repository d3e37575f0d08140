"""Figures of results: one panel of one result, or several results side by side.

    figures.paths(result), figures.errors(result), figures.network(result)    one panel
    figures.compare({"signal": a, "network": b})                              all of them
    figures.save_all(results, Path("figures"))                                PNG and SVG

Errors are l2 norms over agents. The caption says whether the noise was simulated or exact. The
functions `draw_...` draw into axes and leave the legend to their callers; where one epsilon and one
replica must be chosen, they draw the first.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.errors import VeilsumError
from veilsum.front import style
from veilsum.networks import layout, units
from veilsum.privacy import Status
from veilsum.privacy.odds import upward
from veilsum.results.dataset import SECRET

if TYPE_CHECKING:
    from veilsum.results.result import Result

__all__ = ["compare", "errors", "network", "paths", "save_all"]

Floats = NDArray[np.float64]
MOST_VARIANTS = 6
MOST_DRAWN = 50_000  # agents; a picture of more takes minutes and shows nothing
FLOOR = 1e-6  # of the largest error: what is smaller leaves the panel
NARROW = 0.1  # of the largest: errors that differ by less have nearly one colour
WIDE = 30.0  # ratio of errors above which colours follow their logarithm


def paths(
    result: Result, ax: Axes | None = None, agents: int = 10, evaluation: bool = False
) -> Axes:
    """Estimates of recorded agents over rounds: private, without noise (dashed), and the target.

    Of a statistic with several components the first is drawn. Online algorithms, which have no
    estimate in round 0, start at 1.

    Parameters
    ----------
    result
        A run that recorded two rounds or more, such as with Record(every=1, agents=[...]).
    ax
        Axes to draw into; new ones without them.
    agents
        How many agents to draw, evenly spaced.
    evaluation
        Whether to draw the target and the noiseless estimates of measured signals, too.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    VeilsumError
        If fewer than two rounds were recorded.
    """
    check_paths(result, evaluation)
    drawn = style.axes(ax)
    draw_paths(result, drawn, agents, evaluation)
    style.legend(drawn, _key_of_paths([result], evaluation))
    return drawn


def errors(result: Result, ax: Axes | None = None, evaluation: bool = False) -> Axes:
    """Total error and its two parts over rounds; at the last round over epsilon, for a sweep.

    Curves are means over replicas in a band from their 10% to their 90% quantile.

    Parameters
    ----------
    result
        A run.
    ax
        Axes to draw into; new ones without them.
    evaluation
        Needed for measured signals: their errors compare with the truth.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    VeilsumError
        If the signals are measured and `evaluation` is not set.
    """
    result.check_evaluation("errors", evaluation)
    drawn = style.axes(ax)
    draw_errors(result, drawn)
    if len(result.problem.run_epsilons) < 2:
        raise_floor(drawn)
    style.legend(drawn, _key_of_errors([result]))
    return drawn


def network(result: Result, ax: Axes | None = None, evaluation: bool = False) -> Axes:
    """The network, each agent coloured by the distance of its final estimate from the target.

    Without recorded estimates, only the graph is drawn.

    Parameters
    ----------
    result
        A run.
    ax
        Axes to draw into; new ones without them.
    evaluation
        Of measured signals the distance is from the mean of all estimates, unless this is set.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    places = layout.of_network(result.problem.network)
    wide, high = np.ptp(places, axis=0)
    drawn = style.axes(ax, 5.8, float(np.clip(4.8 * high / max(wide, 1e-9), 2.0, 5.2)))
    draw_network(result, drawn, places, evaluation)
    return drawn


def compare(results: Mapping[str, Result], evaluation: bool = False) -> Figure:
    """Several variants side by side: sample paths above, errors below; for sweeps, over epsilon.

    Titles say what ran; the line at the bottom gives the status of each guarantee.

    Parameters
    ----------
    results
        One to six results by name.
    evaluation
        Of measured signals, estimates with their intervals are drawn in place of errors, unless
        this is set.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    VeilsumError
        If there are no results, or more than six.
    """
    if not 1 <= len(results) <= MOST_VARIANTS:
        raise VeilsumError(
            f"compare takes 1 to {MOST_VARIANTS} results; found {len(results)}; "
            "draw them in several figures"
        )
    if any(len(result.problem.run_epsilons) > 1 for result in results.values()):
        if all(_shows_truth(result, evaluation) for result in results.values()):
            return _compare_sweeps(results, evaluation)
        return _compare_estimates(results, evaluation)
    return _compare_runs(results, evaluation)


def _shows_truth(result: Result, evaluation: bool) -> bool:
    """Whether the truth is drawn: signals are synthetic, or an evaluation is asked for."""
    return evaluation or not result.measured


def save_all(
    results: Mapping[str, Result], directory: Path, evaluation: bool = False
) -> list[Path]:
    """Write compare and, if a run recorded estimates, network; each as PNG and as SVG.

    The network is drawn for the first run that recorded estimates; one of more than 50,000 agents
    is not drawn.

    Parameters
    ----------
    results
        One to six results by name.
    directory
        Created if it does not exist.
    evaluation
        Whether to draw what compares with the truth; the files of measured signals are named secret
        and readable by their owner only.

    Returns
    -------
    list of Path
        The files that were written.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    secret = evaluation and any(result.measured for result in results.values())
    written = style.write(compare(results, evaluation), directory / "compare", secret)
    kept = [name for name, result in results.items() if result.trace.final is not None]
    if kept and results[kept[0]].problem.network.size <= MOST_DRAWN:
        drawn = network_figure(kept[0], results[kept[0]], evaluation)
        written += style.write(drawn, directory / "network", secret)
    return written


def network_figure(name: str, result: Result, evaluation: bool) -> Figure:
    """The network in a figure of its own, with a title that says what ran."""
    ax = network(result, None, evaluation)
    mark = "SECRET: " if evaluation and result.measured else ""
    ax.set_title(f"{mark}{name}: {', '.join(_title_lines(result))}", fontsize=9)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _compare_runs(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """One column per variant; the row of paths is there if any run recorded them."""
    rows = 2 if any(has_paths(result, evaluation) for result in results.values()) else 1
    width = float(np.clip(12.0 / len(results), 2.6, 4.6))
    figure = style.figure(max(width * len(results), 6.4), 2.5 * rows + 1.0)
    with_truth = [_shows_truth(result, evaluation) for result in results.values()]
    alike = len({result.problem.family.name for result in results.values()}) == 1
    alike = alike and len(set(with_truth)) == 1
    grid = figure.subplots(rows, len(results), squeeze=False, sharey="row" if alike else False)
    for column, (name, result), truth in zip(grid.T, results.items(), with_truth, strict=True):
        column[0].set_title("\n".join([name, *_title_lines(result)]))
        if rows == 2:
            _paths_or_note(result, column[0], evaluation)
        (draw_errors if truth else draw_estimates)(result, column[-1])
    for ax, truth in zip(grid[-1], with_truth, strict=True):
        if truth:
            raise_floor(ax)
    key = _key_of_paths(results.values(), evaluation) if rows == 2 else []
    shown = [result for result, truth in zip(results.values(), with_truth, strict=True) if truth]
    _finish(figure, grid, results, key + (_key_of_errors(shown) if shown else []), evaluation)
    return figure


def _key_of_paths(results: Iterable[Result], evaluation: bool) -> list[Artist]:
    """Legend entries for the paths that at least one of the results shows."""
    results = list(results)
    key = style.key_of_paths(any(result.problem.run_epsilons for result in results))
    return key if any(_shows_truth(result, evaluation) for result in results) else key[:1]


def _compare_estimates(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """What may be shown of sweeps over measured signals: estimates over epsilon, by variant."""
    figure = style.figure(6.4, 4.2)
    grid = figure.subplots(1, 1, squeeze=False)
    handles: list[Artist] = []
    for k, (name, result) in enumerate(results.items()):
        colour = style.VARIANTS[k % len(style.VARIANTS)]
        draw_estimates(result, grid[0, 0], colour, shift=1.02**k)
        handles.append(Line2D([], [], color=colour, label=f"{name}: {_title_lines(result)[0]}"))
    _finish(figure, grid, results, handles, evaluation)
    return figure


def _paths_or_note(result: Result, ax: Axes, evaluation: bool) -> None:
    if has_paths(result, evaluation):
        draw_paths(result, ax, truth=evaluation)
    else:
        ax.text(0.5, 0.5, "paths not recorded", transform=ax.transAxes, ha="center", fontsize=8)
        ax.set_xlabel("round t")


def _key_of_errors(results: Iterable[Result]) -> list[Artist]:
    """Legend entries for the errors that at least one of the results has."""
    problems = [result.problem for result in results]
    band = any(p.replicas > 1 and (p.run_epsilons or p.source.varies) for p in problems)
    return style.key_of_errors(any(p.run_epsilons for p in problems), band)


def _compare_sweeps(results: Mapping[str, Result], evaluation: bool) -> Figure:
    """Cost of privacy on the left, total error on the right; a colour per variant."""
    figure = style.figure(9.0, 4.2)
    grid = figure.subplots(1, 2, squeeze=False)
    handles: list[Artist] = []
    for colour, (name, result) in zip(style.VARIANTS, results.items(), strict=False):
        _sweep(result, grid[0, 0], grid[0, 1], colour)
        handles.append(Line2D([], [], color=colour, label=f"{name}: {_title_lines(result)[0]}"))
    level = style.DECENTRALISATION
    handles.append(Line2D([], [], color=style.MUTED, linestyle=level.dash, label=level.label))
    handles += _key_of_errors(results.values())[3:]
    for ax, curve in zip(grid[0], (style.PRIVACY, style.TOTAL), strict=True):
        style.scale(ax, x="log", y="log")
        ax.set(
            xlabel="privacy budget ε", ylabel=units.of_all(style.NORM, results), title=curve.label
        )
    _finish(figure, grid, results, handles, evaluation)
    return figure


def _sweep(result: Result, privacy: Axes, total: Axes, colour: str) -> None:
    """One variant's final errors; its cost of decentralisation is a level that needs no epsilon."""
    trace, epsilons = result.trace, np.array(result.problem.run_epsilons)
    level = float(trace.decentralisation[-1].mean())
    if level > 0:
        total.axhline(level, color=colour, linestyle=style.DECENTRALISATION.dash, linewidth=1.2)
    if result.problem.run_epsilons:
        solid, dashed = style.PRIVACY._replace(colour=colour), style.TOTAL._replace(colour=colour)
        plot_band(privacy, epsilons, trace.privacy[-1], solid, marker="o")
        plot_band(total, epsilons, trace.total[-1], dashed, marker="o")


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
    text = textwrap.fill(_caption(results, evaluation), int(figure.get_figwidth() * 17))
    figure.supxlabel(text, fontsize=7.5, color=style.MUTED)


def _title_lines(result: Result) -> list[str]:
    """Algorithm and protection, then epsilon and delta: the lines of a title."""
    privacy, epsilons = result.problem.privacy, result.problem.run_epsilons
    if not epsilons:
        return [f"{result.problem.algorithm.name}, no privacy"]
    few, many = (result.run_guarantee(end(epsilons)).epsilon for end in (min, max))
    size = f"ε = {few:g}" if few == many else f"ε = {few:g} to {many:g}"
    delta = getattr(privacy, "delta", 0.0)
    loss = f", δ = {delta:g}" if delta else ""
    return [f"{result.problem.algorithm.name}, {privacy.protects} DP", size + loss]


def _caption(results: Mapping[str, Result], evaluation: bool) -> str:
    """The status of every guarantee, and whether the noise is simulated or exact.

    An evaluation of measured signals does not describe the noise.
    """
    statuses = "; ".join(f"{name} ({_status(result)})" for name, result in results.items())
    if evaluation and any(result.measured for result in results.values()):
        return f"SECRET: {SECRET}. guarantees: {statuses}"
    text = dict.fromkeys(r.noise for r in results.values() if r.problem.run_epsilons)
    return f"guarantees: {statuses}. noise: {' and '.join(text) or 'none'}"


def _status(result: Result) -> str:
    """The status, and of measured signals the epsilon of all runs together."""
    guarantee = result.guarantee
    if not result.measured or guarantee.status is Status.NONE:
        return str(guarantee.status)
    return f"{guarantee.status}, ε = {upward(guarantee.epsilon)} for all runs"


def has_paths(result: Result, truth: bool = False) -> bool:
    """Whether the run kept the estimates of two rounds that may be shown.

    Measured signals that nothing protects may not: a path begins with the signal itself.
    """
    shown = truth or result.releasable
    least = 1 if _arrival(result) else 2  # a masked sum may have one estimate
    return shown and len(result.trace.recorded_rounds) >= least + _first_round(result, truth)


def _arrival(result: Result) -> int:
    """The first round with an estimate: later than the start for a masked sum."""
    session = result.problem.algorithm.session
    return session.arrival if session is not None and session.arrival > 1 else 0


def draw_paths(result: Result, ax: Axes, agents: int = 10, truth: bool = False) -> None:
    """Estimates of some agents over rounds: private, without noise (dashed), and their target.

    The last two of measured signals are there if the `truth` is asked for.
    """
    _validate.at_least(VeilsumError, 1, agents=agents)
    check_paths(result, truth)
    first, truth = _first_round(result, truth), truth or not result.measured
    rounds, private, clean = result.trace.recorded_rounds[first:], *_sample(result, agents, first)
    marker = "o" if len(rounds) == 1 else ""
    if truth:
        ax.axhline(result.trace.target[0, 0], color=style.INK, linewidth=1.2, zorder=4)
    for k in range(clean.shape[1]):
        colour = style.PATHS[k % len(style.PATHS)]
        if private is not None:
            ax.plot(
                rounds, private[:, k], color=colour, linewidth=1.3, alpha=0.85, marker=marker
            )  # fmt: skip
        if truth:
            ax.plot(rounds, clean[:, k], color=colour, linewidth=0.8, linestyle="--")
    style.scale(ax, x="log" if result.problem.algorithm.online and rounds[0] > 0 else "linear")
    ax.set(xlabel="round t", ylabel=_estimate_label(result))
    if _arrival(result) and ax.get_xscale() == "linear":
        ax.set_xlim(left=0)


def check_paths(result: Result, truth: bool = False) -> None:
    """Raise, with the remedy, unless there are paths to draw."""
    if not has_paths(result, truth):
        raise VeilsumError(
            f"sample paths need two recorded rounds or more, and this run kept "
            f"{len(result.trace.recorded_rounds)}; run it with Record(every=1, agents=[...]), and measured "
            "signals with protection"
        )


def _first_round(result: Result, truth: bool) -> int:
    """Index of the first recorded round to draw.

    An online algorithm knows nothing in round 0, a masked sum nothing before its session is over,
    and some algorithms begin with the signal without noise.
    """
    kept, algorithm = result.trace.recorded_rounds, result.problem.algorithm
    if _arrival(result):
        return sum(1 for t in kept if t < _arrival(result))
    raw = algorithm.starts_without_noise and result.measured and not truth
    return int(bool(kept) and kept[0] == 0 and ((algorithm.online and len(kept) > 2) or raw))


def _sample(result: Result, agents: int, first: int) -> tuple[Floats | None, Floats]:
    """Component 0 of evenly spaced agents, private and clean, as (recorded, agent)."""
    private, clean = result.trace.private, result.trace.noiseless
    assert clean is not None
    have = clean.shape[1]
    some = np.linspace(0, have - 1, min(agents, have)).round().astype(int)
    noisy = private[first:, some, 0, 0, 0] if private is not None and private.size else None
    return noisy, clean[first:, some, 0, 0]


def _estimate_label(result: Result) -> str:
    family = result.problem.family
    if family.dimension > 1:
        return f"estimate of E[ξ], component 0 of {family.dimension}"
    unit = f", s in {units.in_figure(result.unit)}" if result.unit else ""
    return f"estimate of E[ξ],  ξ = {family.formula}{unit}"


def draw_errors(result: Result, ax: Axes) -> None:
    """Total error and its two parts over rounds; over epsilon at the last round, for a sweep."""
    if len(result.problem.run_epsilons) > 1:
        _over_epsilon(result, ax)
    else:
        _over_rounds(result, ax)
    ax.set_ylabel(units.in_brackets(style.NORM, units.of_statistic(result)))


def _over_rounds(result: Result, ax: Axes) -> None:
    """Logarithmic rounds for online algorithms, whose errors are powers of t; linear for the others."""
    online = int(result.problem.algorithm.online)
    trace, first = result.trace, max(online, _arrival(result))
    rounds = np.arange(float(len(trace.total)))[first:]
    marker = "o" if len(rounds) == 1 else ""
    if result.problem.run_epsilons:
        plot_band(ax, rounds, trace.privacy[first:, 0], style.PRIVACY, marker)
        plot_band(ax, rounds, trace.total[first:, 0], style.TOTAL, marker)
    plot_band(ax, rounds, trace.decentralisation[first:], style.DECENTRALISATION, marker)
    style.scale(ax, x="log" if online else "linear", y="log")
    ax.set_xlabel("round t")
    if _arrival(result) and ax.get_xscale() == "linear":
        ax.set_xlim(left=0)


def _over_epsilon(result: Result, ax: Axes) -> None:
    """Final errors, as in Figure 8 of the paper: CoP solid, TE dashed, CoD a dotted level."""
    trace, epsilons = result.trace, np.array(result.problem.run_epsilons)
    level = np.broadcast_to(trace.decentralisation[-1], (len(epsilons), trace.target.shape[0]))
    plot_band(ax, epsilons, trace.privacy[-1], style.PRIVACY, marker="o")
    plot_band(ax, epsilons, trace.total[-1], style.TOTAL, marker="o")
    plot_band(ax, epsilons, level, style.DECENTRALISATION)
    style.scale(ax, x="log", y="log")
    ax.set_xlabel("privacy budget ε")


def plot_band(ax: Axes, x: Floats, runs: Floats, curve: style.Curve, marker: str = "") -> None:
    """Mean over the runs (x, replica), in a band from their 10% to their 90% quantile."""
    order = np.argsort(x)
    order = order[(runs[order] > 0).all(axis=1)]  # a logarithmic axis has no place for 0
    if not len(order):
        return
    ax.plot(
        x[order], runs[order].mean(axis=1), color=curve.colour, linestyle=curve.dash,
        linewidth=curve.width, marker=marker, markersize=3.5, label=curve.label,
    )  # fmt: skip
    if runs.shape[1] > 1:
        low, high = np.quantile(runs[order], [0.1, 0.9], axis=1)
        ax.fill_between(x[order], low, high, color=curve.colour, alpha=style.BAND, linewidth=0)


def draw_estimates(result: Result, ax: Axes, colour: str = style.INK, shift: float = 1.0) -> None:
    """The average agent's estimate of the first parameter over epsilon, with its 95% interval.

    It is what a reader of measured signals may see in place of the errors. `shift` moves the bars
    of one variant aside, so that they do not hide another's.
    """
    epsilons = result.problem.run_epsilons
    released = [result.released(epsilon) for epsilon in epsilons or (None,)]
    name = next((n for n, v in released[0][0].items() if np.ndim(v) == 0), None)
    if name is None:
        ax.text(0.5, 0.5, "estimates are in the file", transform=ax.transAxes, ha="center")
        return
    x = shift * np.array(epsilons or (1.0,))
    y = np.array([values[name] for values, _ in released], dtype=np.float64)
    low, high = np.array([bars.get(name, (v[name], v[name])) for v, bars in released]).T
    with np.errstate(invalid="ignore"):  # an estimate at the end of its domain may be infinite
        ends = np.maximum([y - low, high - y], 0.0)
    ends[~np.isfinite(ends)] = np.nan
    ax.errorbar(x, y, ends, color=colour, fmt="o", markersize=3.5, capsize=2)
    style.scale(ax, x="log")
    what = f"estimate of {name}, 95% interval\n{result.interval_of}"
    label = units.in_brackets(what, units.of_parameter(result, name))
    ax.set(xlabel="privacy budget ε", ylabel=label)


def raise_floor(ax: Axes) -> None:
    """Keep errors that have shrunk to rounding from squeezing those that have not."""
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, FLOOR * high), high)


def draw_network(result: Result, ax: Axes, places: Floats, truth: bool = False) -> None:
    """The network, each agent coloured by how far its final estimate is from the target.

    Of measured signals, unless the `truth` is asked for, from the mean of all final estimates.
    Without estimates that are recorded and may be shown, only the graph is drawn.
    """
    net = result.problem.network
    many = net.size > layout.SPRING_LIMIT  # then the vector file holds a picture of the network
    width = 0.35 if many else 0.8
    ties = list(places[layout.links(net)])
    ax.add_collection(LineCollection(ties, colors=style.FAINT, linewidths=width, rasterized=many))
    area = float(np.clip(12000 / net.size, 3.0, 70.0))
    if result.trace.final is None or not (truth or result.releasable):
        x, y = places.T
        ax.scatter(x, y, s=0.6 * area, color=style.FAINT, linewidths=0, rasterized=many)
    else:
        final, truth = result.trace.final[:, 0, 0], truth or not result.measured
        middle = result.trace.target[0] if truth else final.mean(axis=0)
        distance = np.linalg.norm(final - middle, axis=-1)
        _coloured(result, ax, places, distance, area, "target" if truth else "mean of all")
    ax.set_aspect("equal")
    ax.set_axis_off()


def _coloured(
    result: Result, ax: Axes, places: Floats, distance: Floats, area: float, middle: str
) -> None:
    order = np.argsort(distance)  # those farthest off are drawn last, on top
    norm, (x, y) = _colour_scale(distance), places[order].T
    dots = ax.scatter(
        x, y, c=distance[order], s=area, cmap="viridis_r", norm=norm, linewidths=0,
        zorder=3, rasterized=result.problem.network.size > layout.SPRING_LIMIT,
    )  # fmt: skip
    figure = ax.get_figure(root=True)
    assert figure is not None
    ends = "min" if isinstance(norm, LogNorm) else "neither"
    bar = figure.colorbar(dots, ax=ax, shrink=0.8, aspect=28, pad=0.02, extend=ends)
    label = f"|estimate - {middle}| at round {result.trace.recorded_rounds[-1]}"
    label = units.in_brackets(label, units.of_statistic(result))
    bar.set_label(f"{label}{_spread_note(distance)}", fontsize=9)
    bar.ax.tick_params(which="both", labelsize=8)
    style.plain_numbers(bar.ax.yaxis)
    bar.outline.set_visible(False)


def _colour_scale(distance: Floats) -> Normalize:
    """Logarithmic where errors spread widely; the few smallest share the first colour.

    Where they hardly differ, the scale begins at 0, so that they have nearly one colour.
    """
    low, high = float(np.quantile(distance, 0.02)), float(distance.max())
    if high > WIDE * low > 0:
        return LogNorm(low, high)
    least = float(distance.min())
    return Normalize(0.0 if _hardly_differ(distance) else least, high)


def _hardly_differ(distance: Floats) -> bool:
    return float(np.ptp(distance)) < NARROW * float(distance.max())


def _spread_note(distance: Floats) -> str:
    """A line for the colour bar where all agents have nearly the same distance: that they do."""
    least, most = float(distance.min()), float(distance.max())
    if not _hardly_differ(distance):
        return ""
    if least == most:
        return f"\nall agents: {most:.4g}"
    digits = 1 + math.ceil(math.log10(most / (most - least)))
    low, high = (f"{value:.{min(digits + 1, 15)}g}" for value in (least, most))
    return f"\nall agents: {low} to {high}, a difference of {100 * (most - least) / most:.2g}%"
