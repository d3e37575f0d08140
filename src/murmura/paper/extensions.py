"""What the paper says of other networks and does not plot: naive noise, failing and directed links.

Naive noise is a remark of Sec. 3, dynamic networks are App. C.1, directed ones App. C.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura.engine import Record
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.sample_paths import record
from murmura.paper.settings import GLOBAL, HOUSEHOLDS, PLACES, Run, network, perform
from murmura.paper.tabulate import frame, last, round_rows
from murmura.report import style

NAIVE: dict[str, Any] = {"rounds": 10_000, "sensitivity": GLOBAL, "family": "log-normal-1p"}
AS_PRINTED = "noise in every round, as printed"
GROWS = 0.3  # slope of CoP on logarithmic axes; a random walk has 1/2
FAILING = 0.3  # share of links down in a round
DIRECTED_AGENTS, DIRECTED_LINKS = 300, 3


def naive(entry: Entry, context: Context) -> Measured:
    """Errors over rounds with noise in every round and with noise once."""
    rows = []
    for run in entry.runs:
        rows += round_rows(perform(run, context), variant=run.name)
    return Measured({"": frame(rows)})


def draw_naive(measured: Measured) -> Figure:
    """Cost of privacy over rounds; a random walk has slope 1/2."""
    figure = style.figure(6.0, 4.2)
    ax = figure.add_subplot()
    curves(ax, measured.table, "cop")
    style.scale(ax, x="log", y="log")
    ax.set(xlabel="round t", ylabel=f"cost of privacy, {style.NORM}")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)
    return figure


def curves(ax: Any, table: Any, column: str) -> None:
    """A curve per variant, with the band of its replicas."""
    for colour, name in zip(style.VARIANTS, dict.fromkeys(table.variant), strict=False):
        part = table[(table.variant == name) & (table["round"] > 0)]
        ax.plot(part["round"], part[column], color=colour, linewidth=1.4, label=name)
        low, high = part[f"{column}_low"], part[f"{column}_high"]
        ax.fill_between(part["round"], low, high, color=colour, alpha=style.BAND, linewidth=0)


def diverges(measured: Measured) -> Finding:
    """CoP must grow under both noises; where one hides it, the statement holds only in part."""
    table = measured.table
    plain, printed = (_slope(table, name) for name in ("noise in every round", AS_PRINTED))
    grown, settled = (
        last(table, "cop", name) for name in ("noise in every round", "noise at the start")
    )
    sentence = (
        f"With log(1 + s), so that all agents' noise has one scale, after "
        f"{table['round'].max():,} rounds CoP is {grown:.3g} with noise in every round, growing "
        f"as t to the power of {plain:.2f}, and {settled:.3g} with noise at the start; with the "
        f"printed noise the power is {printed:.2f}."
    )
    if not (plain > GROWS and grown > settled):
        return Finding(Verdict.REFUTED, sentence)
    return judged(printed > GROWS, sentence, Verdict.CORRECTED)


def _slope(table: Any, name: str) -> float:
    """The slope of CoP over the last four fifths of the rounds, on logarithmic axes."""
    part = table[(table.variant == name) & (table["round"] > 0)]
    late = part[part["round"] >= part["round"].max() / 5]
    return float(np.polyfit(np.log(late["round"]), np.log(late.cop), 1)[0])


def dynamic(entry: Entry, context: Context) -> Measured:
    """Errors and the mean estimate over rounds, with 30% of the links down in every round."""
    from murmura.network import link_failures

    failing = link_failures(network(HOUSEHOLDS).graph, FAILING, seed=context.seed)
    rows, paths = [], []
    for run in entry.runs:
        result = perform(run, context, record(run), failing)
        rows += round_rows(result, variant=run.name)
        clean = result.trace.clean
        assert clean is not None
        paths += [
            {"variant": run.name, "round": t, "mean_estimate": clean[k, :, 0, 0].mean(),
             "target": result.trace.target[0, 0]}
            for k, t in enumerate(result.trace.kept)
        ]  # fmt: skip
    return Measured({"": frame(rows), "paths": frame(paths)})


def draw_dynamic(measured: Measured) -> Figure:
    """Mean estimates on the left, errors on the right."""
    figure = style.figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    paths = measured.tables["paths"]
    for colour, name in zip(style.VARIANTS, dict.fromkeys(paths.variant), strict=False):
        part = paths[(paths.variant == name) & (paths["round"] > 0)]
        left.plot(part["round"], part.mean_estimate, color=colour, linewidth=1.4, label=name)
    left.axhline(PLACES[HOUSEHOLDS].mu, color=style.INK, linewidth=1, label="E ξ")
    curves(right, measured.table, "cod")
    style.scale(left, x="log")
    style.scale(right, x="log", y="log")
    left.set(xlabel="round t", ylabel="mean estimate of ten agents")
    right.set(xlabel="round t", ylabel=f"error without noise, {style.NORM}")
    left.legend(fontsize=8, frameon=False)
    for ax in (left, right):
        style.tidy(ax)
    return figure


def converges(measured: Measured) -> Finding:
    """The online rule of App. C.1 as printed and with its weights put right."""
    paths = measured.tables["paths"]
    printed, corrected = (
        last(paths, "mean_estimate", f"online, {k}") for k in ("printed", "corrected")
    )
    T = int(paths["round"].max())
    harmonic = PLACES[HOUSEHOLDS].mu * float(np.sum(1 / np.arange(1, T + 1)))  # type: ignore[operator]
    sentence = (
        f"After {T:,} rounds the printed rule stands at {printed:.3g} (E xi times the harmonic "
        f"number: {harmonic:.3g}), the corrected one at {corrected:.4g}; E xi = "
        f"{PLACES[HOUSEHOLDS].mu}. Weights that add up to 1 + 1/t are one 1/t too many (erratum 1)."
    )
    right = abs(corrected - PLACES[HOUSEHOLDS].mu) < 0.1  # type: ignore[operator]
    return Finding(Verdict.CORRECTED if right else Verdict.REFUTED, sentence)


def average_converges(measured: Measured) -> Finding:
    """Offline averaging over failing links."""
    part = measured.table[measured.table.variant == "offline"].set_index("round").cod
    start, end = float(part.iloc[0]), float(part.iloc[-1])
    return judged(
        end < 0.5 * start,
        f"With 30% of the links down, CoD of the average falls from {start:.3g} to {end:.2g} in "
        f"{int(part.index.max()):,} rounds.",
    )


def directed_graph(seed: int) -> Any:
    """One-way links: a ring, and three more from each agent, mostly to a few much-heard ones."""
    import networkx

    rng = np.random.default_rng(seed)
    drawn = networkx.DiGraph()
    drawn.add_edges_from((i, (i + 1) % DIRECTED_AGENTS) for i in range(DIRECTED_AGENTS))
    for i in range(DIRECTED_AGENTS):
        for j in (DIRECTED_AGENTS * rng.random(DIRECTED_LINKS) ** 3).astype(int).tolist():
            if i != j:
                drawn.add_edge(j, i)
    return drawn


def directed(entry: Entry, context: Context) -> Measured:
    """Plain averaging on row-stochastic weights, push-sum on column-stochastic ones."""
    from murmura.network import column_stochastic, row_stochastic

    graph, rows, limits = directed_graph(context.seed), [], []
    for run, weigh in zip(entry.runs, (row_stochastic, column_stochastic), strict=True):
        made = weigh(graph)
        result = perform(run, context, Record(), made)
        rows += round_rows(result, variant=run.name)
        share = made.size * float((result.problem.mass**2).sum())
        limits.append({"variant": run.name, "variance_over_best": share, "agents": made.size})
    return Measured({"": frame(rows), "limits": frame(limits)})


def draw_directed(measured: Measured) -> Figure:
    """The error against the uniform mean over rounds."""
    figure = style.figure(6.0, 4.0)
    ax = figure.add_subplot()
    curves(ax, measured.table, "cod")
    style.scale(ax, y="log")
    ax.set_ylim(bottom=max(1e-10, ax.get_ylim()[0]))
    ax.set(xlabel="round t", ylabel=f"distance to the uniform mean, {style.NORM}")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)
    return figure


def weighted(measured: Measured) -> Finding:
    """Where plain averaging goes, what it loses, and what push-sum restores."""
    names = list(dict.fromkeys(measured.table.variant))
    plain, ratio = (last(measured.table, "cod", name) for name in names)
    share = float(measured.tables["limits"].variance_over_best.iloc[0])
    sentence = (
        f"Plain averaging stays {plain:.3g} away from the uniform mean; its limit, weighted by the "
        f"stationary distribution, has {share:.1f} times the least variance. Push-sum comes "
        f"within {ratio:.1g}."
    )
    return judged(plain > 10 * ratio and share > 1, sentence)


def _run(name: str, law: str, protects: str = "nothing", **more: Any) -> Run:
    return Run(name, HOUSEHOLDS, law, protects, **{"epsilons": (1.0,), "replicas": 5, **more})


ENTRIES = (
    Entry(
        id="fig-naive",
        title="Network noise in every round",
        reference="Sec. 3, remark on Network DP (not plotted there)",
        runs=(
            _run("noise in every round", "naive-network", "network", **NAIVE),
            _run("noise at the start", "average", "network", **NAIVE),
            _run(AS_PRINTED, "naive-network", "network", rounds=NAIVE["rounds"]),
        ),
        measure=naive,
        draw=draw_naive,
        claims=(Claim("Noise in every round accumulates, so it belongs at the start.", diverges),),
    ),
    Entry(
        id="fig-dynamic",
        title="30% of the links down in every round",
        reference="App. C.1 (not plotted there)",
        runs=(
            _run("online, printed", "learn-dynamic-printed", rounds=1000),
            _run("online, corrected", "learn-dynamic", rounds=1000),
            _run("offline", "average", rounds=300),
        ),
        measure=dynamic,
        draw=draw_dynamic,
        claims=(
            Claim("The online rule for dynamic networks converges.", converges),
            Claim("Offline averaging converges on dynamic networks.", average_converges),
        ),
    ),
    Entry(
        id="fig-directed",
        title="One-way links",
        reference="App. C.2 (not plotted there)",
        runs=(
            _run("average: stationary-weighted", "average", rounds=150),
            _run("push-sum: uniform", "push-sum", rounds=150),
        ),
        measure=directed,
        draw=draw_directed,
        claims=(
            Claim(
                "On directed networks the limit is weighted by the stationary distribution and the "
                "minimum-variance property is lost.",
                weighted,
            ),
        ),
    ),
)
