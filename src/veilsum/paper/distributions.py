"""The data: what is measured, and between whom (Figure distribution_power_networks, 4 panels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum.front import style
from veilsum.front.paths import draw_links
from veilsum.networks import layout
from veilsum.paper.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measurement,
    Verdict,
    judged,
    shipped,
)
from veilsum.paper.tabulate import frame, parameters
from veilsum.simulation import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 40
HOUSEHOLDS, US = "households", "us-grid"
TITLES = {HOUSEHOLDS: "households", US: "US power grid"}


def measure(experiment: Experiment, context: Context) -> Measurement:
    """Histograms with their fits, degrees with theirs, and both networks as points and links."""
    problems = {}
    for job in experiment.jobs(context):
        context.progress(job.name)
        problems[job.name] = job.problem
    tables = {"": statistics(problems[HOUSEHOLDS]), "degrees": degrees(problems[US])}
    for name, problem in problems.items():
        places = layout.positions(problem.network.graph)
        tables[f"{name}-positions"] = frame(
            [{"agent": i, "x": x, "y": y} for i, (x, y) in enumerate(places)]
        )
        tables[f"{name}-links"] = frame(
            [{"from": int(i), "to": int(j)} for i, j in layout.links(problem.network)]
        )
    return Measurement(tables)


def statistics(problem: Problem) -> Any:
    """Densities of the statistics of day 0 and of all days, and the density they are drawn from."""
    days = range(1, problem.rounds + 1)
    drawn = np.stack([np.log(problem.source.signals(t, 1)[:, 0]) for t in days])
    edges = np.linspace(drawn.min(), drawn.max(), BINS + 1)
    middle, (mu, sigma, _) = (edges[1:] + edges[:-1]) / 2, parameters(problem)
    return frame(
        [
            {"low": low, "high": high, "all_days": a, "day_0": d, "fitted": f}
            for low, high, a, d, f in zip(
                edges[:-1], edges[1:], np.histogram(drawn, edges, density=True)[0],
                np.histogram(drawn[0], edges, density=True)[0], normal(middle, mu, sigma),
                strict=True,
            )
        ]
    )  # fmt: skip


def degrees(problem: Problem) -> Any:
    """Fraction of agents of each degree, with the log-normal density fitted to them."""
    graph = problem.network.graph
    assert graph is not None
    found = np.asarray(graph.degrees)
    mu, sigma = np.log(found).mean(), np.log(found).std()
    values, counts = np.unique(found, return_counts=True)
    fitted = normal(np.log(values), mu, sigma) / values
    return frame(
        [
            {"degree": int(d), "fraction": c / len(found), "fitted": f, "mu": mu, "sigma": sigma}
            for d, c, f in zip(values, counts, fitted, strict=True)
        ]
    )


def normal(x: Any, mu: float, sigma: float) -> Any:
    """The normal density."""
    return np.exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))


def draw(measured: Measurement) -> Figure:
    """Two distributions, each beside its network."""
    figure = style.figure(9.6, 8.2)
    grid = figure.subplots(2, 2)
    _statistics(grid[0, 0], measured.table)
    _network(grid[0, 1], measured, HOUSEHOLDS)
    _degrees(grid[1, 0], measured.tables["degrees"])
    _network(grid[1, 1], measured, US)
    return figure


def _statistics(ax: Axes, table: Any) -> None:
    middle, width = (table.low + table.high) / 2, table.high - table.low
    ax.bar(middle, table.all_days, width, color=style.FAINT, label="drawn, all days")
    ax.step(middle, table.day_0, where="mid", color=style.VARIANTS[0], label="drawn, day 0")
    ax.plot(middle, table.fitted, color=style.VARIANTS[1], label="fitted: mean 1.67, sd 1.04")
    ax.set(title="households: statistics of daily kWh", xlabel="statistic ξ", ylabel="density")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)


def _degrees(ax: Axes, table: Any) -> None:
    fitted = f"log-normal fit: mu {table.mu[0]:.2f}, sigma {table.sigma[0]:.2f}"
    ax.bar(table.degree, table.fraction, color=style.FAINT, label="agents")
    ax.plot(table.degree, table.fitted, color=style.VARIANTS[1], marker="o", markersize=3,
            label=fitted)  # fmt: skip
    ax.set_xticks(range(1, int(table.degree.max()) + 1, 2))
    ax.set(title="US power grid: degrees", xlabel="degree", ylabel="fraction of agents")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)


def _network(ax: Axes, measured: Measurement, place: str) -> None:
    dots = measured.tables[f"{place}-positions"]
    links = measured.tables[f"{place}-links"]
    places = dots[["x", "y"]].to_numpy()
    draw_links(ax, places, links[["from", "to"]].to_numpy())
    size = f"{len(dots):,} agents, {len(links):,} links"
    ax.set_title(f"{TITLES[place]}: {size}", fontsize=9)


def sizes(measured: Measurement, claim: Claim) -> Finding:
    """Agents and links of both networks."""
    found = [
        (len(measured.tables[f"{p}-positions"]), len(measured.tables[f"{p}-links"]))
        for p in (HOUSEHOLDS, US)
    ]
    words = " and ".join(f"{n:,} agents with {m:,} links" for n, m in found)
    stated = list(zip(claim.threshold[::2], claim.threshold[1::2], strict=True))
    return judged(found == stated, f"The networks have {words}.")


def fits(measured: Measurement, claim: Claim) -> Finding:
    """How far the degrees are from the log-normal distribution that is drawn through them."""
    table = measured.tables["degrees"]
    gap = float(np.abs(table.fraction - table.fitted).max())
    return Finding(
        Verdict.CONFIRMED if gap < claim.threshold else Verdict.CORRECTED,
        f"The log-normal density differs from the fraction of a degree by up to {gap:.2f}: degrees are "
        "small whole numbers, and the fit describes their tail.",
    )


EXPERIMENTS = (
    Experiment(
        id="fig-data",
        title="Data and networks",
        reference="Figure distribution_power_networks (4 panels)",
        scenarios=shipped("fig-data"),
        measure=measure,
        draw=draw,
    ),
)
