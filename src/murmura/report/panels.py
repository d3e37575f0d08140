"""One result, one panel: sample paths, errors, or the network.

Panels draw into axes and leave legends to `figures`. What is drawn belongs to the first epsilon
and the first replica wherever one must be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from numpy.typing import NDArray

from murmura import _validate
from murmura.errors import MurmuraError
from murmura.report import layout, style

if TYPE_CHECKING:
    from murmura.report.result import Result

Floats = NDArray[np.float64]

FLOOR = 1e-6  # of the largest error: what is smaller leaves the panel
WIDE = 30.0  # ratio of errors above which colours follow their logarithm


def has_paths(result: Result, truth: bool = False) -> bool:
    """Whether the run kept the estimates of two rounds that may be shown.

    Measured signals that nothing protects may not: a path begins with the signal itself.
    """
    shown = truth or result.releases
    return shown and len(result.trace.kept) > 1 + _first_round(result, truth)


def paths(result: Result, ax: Axes, agents: int = 10, truth: bool = False) -> None:
    """Estimates of some agents over rounds: private, without noise (dashed), and their target.

    The last two of measured signals are there if the `truth` is asked for.
    """
    _validate.at_least(MurmuraError, 1, agents=agents)
    need_paths(result, truth)
    first, truth = _first_round(result, truth), truth or not result.measured
    rounds, private, clean = result.trace.kept[first:], *_sample(result, agents, first)
    if truth:
        ax.axhline(result.trace.target[0, 0], color=style.INK, linewidth=1.2, zorder=4)
    for k in range(clean.shape[1]):
        colour = style.PATHS[k % len(style.PATHS)]
        if private is not None:
            ax.plot(rounds, private[:, k], color=colour, linewidth=1.3, alpha=0.85)
        if truth:
            ax.plot(rounds, clean[:, k], color=colour, linewidth=0.8, linestyle="--")
    style.scale(ax, x="log" if result.problem.law.online and rounds[0] > 0 else "linear")
    ax.set(xlabel="round t", ylabel=_estimate_label(result))


def need_paths(result: Result, truth: bool = False) -> None:
    """Raise, with the remedy, unless there are paths to draw."""
    if not has_paths(result, truth):
        raise MurmuraError(
            f"sample paths need two recorded rounds or more, and this run kept "
            f"{len(result.trace.kept)}; run it with Record(every=1, agents=[...]), and measured "
            "signals with protection"
        )


def _first_round(result: Result, truth: bool) -> int:
    """Index of the first recorded round to draw.

    An online law knows nothing in round 0, and some laws begin with the signal without noise.
    """
    kept, law = result.trace.kept, result.problem.law
    raw = law.starts_raw and result.measured and not truth
    return int(bool(kept) and kept[0] == 0 and ((law.online and len(kept) > 2) or raw))


def _sample(result: Result, agents: int, first: int) -> tuple[Floats | None, Floats]:
    """Component 0 of evenly spaced agents, private and clean, as (recorded, agent)."""
    private, clean = result.trace.private, result.trace.clean
    assert clean is not None
    have = clean.shape[1]
    some = np.linspace(0, have - 1, min(agents, have)).round().astype(int)
    noisy = private[first:, some, 0, 0, 0] if private is not None and private.size else None
    return noisy, clean[first:, some, 0, 0]


def _estimate_label(result: Result) -> str:
    family = result.problem.family
    if family.dimension > 1:
        return f"estimate of E[ξ], component 0 of {family.dimension}"
    return f"estimate of E[ξ],  ξ = {family.formula}"


def errors(result: Result, ax: Axes) -> None:
    """Total error and its two parts over rounds; over epsilon at the last round, for a sweep."""
    if len(result.problem.budgets) > 1:
        _over_epsilon(result, ax)
    else:
        _over_rounds(result, ax)
    ax.set_ylabel(style.NORM)


def _over_rounds(result: Result, ax: Axes) -> None:
    """Logarithmic rounds for online laws, whose errors are powers of t; linear for the others."""
    trace, first = result.trace, int(result.problem.law.online)
    rounds = np.arange(float(len(trace.total)))[first:]
    if result.problem.budgets:
        banded(ax, rounds, trace.privacy[first:, 0], style.PRIVACY)
        banded(ax, rounds, trace.total[first:, 0], style.TOTAL)
    banded(ax, rounds, trace.decentralisation[first:], style.DECENTRALISATION)
    style.scale(ax, x="log" if first else "linear", y="log")
    ax.set_xlabel("round t")


def _over_epsilon(result: Result, ax: Axes) -> None:
    """Final errors, as in Figure 8 of the paper: CoP solid, TE dashed, CoD a dotted level."""
    trace, budgets = result.trace, np.array(result.problem.budgets)
    apart = np.broadcast_to(trace.decentralisation[-1], (len(budgets), trace.target.shape[0]))
    banded(ax, budgets, trace.privacy[-1], style.PRIVACY, marker="o")
    banded(ax, budgets, trace.total[-1], style.TOTAL, marker="o")
    banded(ax, budgets, apart, style.DECENTRALISATION)
    style.scale(ax, x="log", y="log")
    ax.set_xlabel("privacy budget ε")


def banded(ax: Axes, x: Floats, runs: Floats, curve: style.Curve, marker: str = "") -> None:
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


def estimates(result: Result, ax: Axes, colour: str = style.INK, shift: float = 1.0) -> None:
    """The average agent's estimate of the first parameter over epsilon, with its 95% interval.

    It is what a reader of measured signals may see in place of the errors. `shift` moves the bars
    of one variant aside, so that they do not hide another's.
    """
    budgets = result.problem.budgets
    found = [result.found(epsilon) for epsilon in budgets or (None,)]
    name = next((n for n, v in found[0][0].items() if np.ndim(v) == 0), None)
    if name is None:
        ax.text(0.5, 0.5, "estimates are in the file", transform=ax.transAxes, ha="center")
        return
    x = shift * np.array(budgets or (1.0,))
    y = np.array([values[name] for values, _ in found], dtype=np.float64)
    low, high = np.array([bars.get(name, (v[name], v[name])) for v, bars in found]).T
    ends = np.maximum([y - low, high - y], 0.0)
    ax.errorbar(x, y, ends, color=colour, fmt="o", markersize=3.5, capsize=2)
    style.scale(ax, x="log")
    ax.set(xlabel="privacy budget ε", ylabel=f"estimate of {name}, 95% interval")


def raise_floor(ax: Axes) -> None:
    """Keep errors that have shrunk to rounding from squeezing those that have not."""
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, FLOOR * high), high)


def network(result: Result, ax: Axes, places: Floats, truth: bool = False) -> None:
    """The network, each agent coloured by how far its final estimate is from the target.

    Of measured signals, unless the `truth` is asked for, from the mean of all final estimates.
    Without estimates that are recorded and may be shown, only the graph is drawn.
    """
    mesh = result.problem.network
    many = mesh.size > layout.SPRING_LIMIT  # then the vector file holds a picture of the network
    width = 0.35 if many else 0.8
    ties = list(places[layout.links(mesh)])
    ax.add_collection(LineCollection(ties, colors=style.FAINT, linewidths=width, rasterized=many))
    area = float(np.clip(12000 / mesh.size, 3.0, 70.0))
    if result.trace.final is None or not (truth or result.releases):
        x, y = places.T
        ax.scatter(x, y, s=0.6 * area, color=style.FAINT, linewidths=0, rasterized=many)
    else:
        held, truth = result.trace.final[:, 0, 0], truth or not result.measured
        middle = result.trace.target[0] if truth else held.mean(axis=0)
        apart = np.linalg.norm(held - middle, axis=-1)
        _coloured(result, ax, places, apart, area, "target" if truth else "mean of all")
    ax.set_aspect("equal")
    ax.set_axis_off()


def _coloured(
    result: Result, ax: Axes, places: Floats, apart: Floats, area: float, middle: str
) -> None:
    order = np.argsort(apart)  # those farthest off are drawn last, on top
    norm, (x, y) = _colour_scale(apart), places[order].T
    dots = ax.scatter(
        x, y, c=apart[order], s=area, cmap="viridis_r", norm=norm, linewidths=0,
        zorder=3, rasterized=result.problem.network.size > layout.SPRING_LIMIT,
    )  # fmt: skip
    figure = ax.get_figure(root=True)
    assert figure is not None
    ends = "min" if isinstance(norm, LogNorm) else "neither"
    bar = figure.colorbar(dots, ax=ax, shrink=0.8, aspect=28, pad=0.02, extend=ends)
    bar.set_label(f"|estimate - {middle}| at round {result.trace.kept[-1]}", fontsize=9)
    bar.ax.tick_params(which="both", labelsize=8)
    style.plain_numbers(bar.ax.yaxis)
    bar.outline.set_visible(False)


def _colour_scale(apart: Floats) -> Normalize:
    """Logarithmic where errors spread widely; the few smallest share the first colour."""
    low, high = float(np.quantile(apart, 0.02)), float(apart.max())
    return LogNorm(low, high) if high > WIDE * low > 0 else Normalize(float(apart.min()), high)
