"""The data: what is measured, and between whom (Figure distribution_power_networks, 4 panels)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from murmura.engine import Drawn
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.settings import HOUSEHOLDS, PLACES, US, Run, family, network, signals
from murmura.paper.tabulate import frame
from murmura.report import layout, style

BINS = 40
RUN = Run("drawn statistics", HOUSEHOLDS, "learn", rounds=100)


def measure(entry: Entry, context: Context) -> Measured:
    """Histograms with their fits, degrees with theirs, and both networks as points and links."""
    for run in entry.runs:
        context.tell(run.name)
    tables = {"": statistics(entry.runs[0], context), "degrees": degrees()}
    for place in (HOUSEHOLDS, US):
        graph = network(place).graph
        tables[f"{place}-positions"] = frame(
            [{"agent": i, "x": x, "y": y} for i, (x, y) in enumerate(layout.positions(graph))]
        )
        tables[f"{place}-links"] = frame(
            [{"from": int(i), "to": int(j)} for i, j in layout.links(network(place))]
        )
    return Measured(tables)


def statistics(run: Run, context: Context) -> Any:
    """Densities of the statistics of day 0 and of all days, and the law they are drawn from."""
    run = run.sketch(context.quick)
    source = Drawn(family(run), signals(run), network(run.place).size, context.seed)
    drawn = np.stack([np.log(source.signals(t, 1)[:, 0]) for t in range(1, run.rounds + 1)])
    edges = np.linspace(drawn.min(), drawn.max(), BINS + 1)
    middle, place = (edges[1:] + edges[:-1]) / 2, PLACES[run.place]
    assert place.mu is not None
    return frame(
        [
            {"low": low, "high": high, "all_days": a, "day_0": d, "fitted": f}
            for low, high, a, d, f in zip(
                edges[:-1], edges[1:], np.histogram(drawn, edges, density=True)[0],
                np.histogram(drawn[0], edges, density=True)[0],
                normal(middle, place.mu, place.sigma), strict=True,
            )
        ]
    )  # fmt: skip


def degrees() -> Any:
    """Share of agents of each degree on the US grid, with the log-normal law fitted to them."""
    found = np.asarray(network(US).graph.degrees)
    mu, sigma = np.log(found).mean(), np.log(found).std()
    values, counts = np.unique(found, return_counts=True)
    fitted = normal(np.log(values), mu, sigma) / values
    return frame(
        [
            {"degree": int(d), "share": c / len(found), "fitted": f, "mu": mu, "sigma": sigma}
            for d, c, f in zip(values, counts, fitted, strict=True)
        ]
    )


def normal(x: Any, mu: float, sigma: float) -> Any:
    """The normal density."""
    return np.exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))


def draw(measured: Measured) -> Figure:
    """Two distributions, each before its network."""
    figure = style.figure(9.6, 8.2)
    grid = figure.subplots(2, 2)
    _statistics(grid[0, 0], measured.table)
    _network(grid[0, 1], measured, HOUSEHOLDS)
    _degrees(grid[1, 0], measured.tables["degrees"])
    _network(grid[1, 1], measured, US)
    return figure


def _statistics(ax: Any, table: Any) -> None:
    middle, width = (table.low + table.high) / 2, table.high - table.low
    ax.bar(middle, table.all_days, width, color=style.FAINT, label="drawn, all days")
    ax.step(middle, table.day_0, where="mid", color=style.VARIANTS[0], label="drawn, day 0")
    ax.plot(middle, table.fitted, color=style.VARIANTS[1], label="fitted: mean 1.67, sd 1.04")
    ax.set(title="households: statistics of daily kWh", xlabel="statistic ξ", ylabel="density")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)


def _degrees(ax: Any, table: Any) -> None:
    fitted = f"log-normal fit: mu {table.mu[0]:.2f}, sigma {table.sigma[0]:.2f}"
    ax.bar(table.degree, table.share, color=style.FAINT, label="agents")
    ax.plot(table.degree, table.fitted, color=style.VARIANTS[1], marker="o", markersize=3,
            label=fitted)  # fmt: skip
    ax.set_xticks(range(1, int(table.degree.max()) + 1, 2))
    ax.set(title="US power grid: degrees", xlabel="degree", ylabel="share of agents")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)


def _network(ax: Any, measured: Measured, place: str) -> None:
    dots = measured.tables[f"{place}-positions"]
    links = measured.tables[f"{place}-links"]
    places = dots[["x", "y"]].to_numpy()
    ties = list(places[links[["from", "to"]].to_numpy()])
    ax.add_collection(
        LineCollection(ties, colors=style.FAINT, linewidths=0.3, rasterized=True, zorder=1)
    )
    ax.scatter(*places.T, s=3, color=style.VARIANTS[0], linewidths=0, rasterized=True, zorder=2)
    size = f"{len(dots):,} agents, {len(links):,} links"
    ax.set_title(f"{PLACES[place].title.split(',')[0]}: {size}", fontsize=9)
    ax.set_aspect("equal")
    ax.set_axis_off()


def sizes(measured: Measured) -> Finding:
    """Agents and links of both networks."""
    found = [
        (len(measured.tables[f"{p}-positions"]), len(measured.tables[f"{p}-links"]))
        for p in (HOUSEHOLDS, US)
    ]
    words = " and ".join(f"{n:,} agents with {m:,} links" for n, m in found)
    return judged(found == [(969, 13236), (4941, 6594)], f"The networks have {words}.")


def fits(measured: Measured) -> Finding:
    """How far the degrees are from the log-normal law that is drawn through them."""
    table = measured.tables["degrees"]
    gap = float(np.abs(table.share - table.fitted).max())
    return Finding(
        Verdict.CONFIRMED if gap < 0.05 else Verdict.CORRECTED,
        f"The log-normal density misses the share of a degree by up to {gap:.2f}: degrees are "
        "small whole numbers, and the fit describes their tail.",
    )


ENTRIES = (
    Entry(
        id="fig-data",
        title="Data and networks",
        reference="Figure distribution_power_networks (4 panels)",
        runs=(RUN,),
        measure=measure,
        draw=draw,
        claims=(
            Claim(
                "969 households with 13,236 links; 4,941 stations with 6,594.",
                sizes,
                quote="the network contains $m = 13,236$ edges",
            ),
            Claim("A log-normal law fits the degrees of the US grid.", fits),
        ),
    ),
)
