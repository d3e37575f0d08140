"""Heterogeneous budgets (App. C.3): central and decentralised, caps of 10 eps, on the households.

Central budgets are the exact optimum, the printed rule beside it; decentralised ones come from
messages between neighbours. Both read the signals and are for simulations only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura.engine import Record
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.sample_paths import early, record, zoom
from murmura.paper.settings import HOUSEHOLDS, Run, network, perform
from murmura.paper.sweeps import ALGORITHMS, key, panel
from murmura.paper.tabulate import error_rows, frame, path_rows, round_rows, value
from murmura.paper.unequal import Allocate, simulate
from murmura.privacy import budgets
from murmura.report import panels, style

CAP = 10.0  # times the mean budget
ROUNDS = {"offline": 1096, "online": 300}  # budgets are allocated anew for each online reading
TOLERANCE = 0.1  # of the decentralised allocation: proved, in every round
CENTRAL, DECENTRALISED, PRINTED, EQUAL = "central", "decentralised", "printed rule", "homogeneous"


SPELT = {CENTRAL: "centralized", DECENTRALISED: "decentralized"}  # in the paper


def allocator(method: str) -> Allocate:
    """Sensitivities and a mean budget -> budgets, by one of the methods."""
    if method == DECENTRALISED:
        return lambda D, e: budgets.decentralised(
            D, e, network(HOUSEHOLDS), CAP * e, tolerance=TOLERANCE, simulation_only=True
        )
    rule = {CENTRAL: budgets.optimal, PRINTED: budgets.printed, EQUAL: budgets.homogeneous}[method]
    return lambda D, e: rule(D, e, CAP * e, simulation_only=True)


def allocated(run: Run, context: Context, kept: Record) -> tuple[Any, list[dict[str, float]]]:
    """A result like any other, but for the scales, and the overhead of every allocation."""
    method = run.name.split(": ")[0]
    base = perform(replace(run, rounds=1), Context(context.seed, context.quick, context.tell))
    rounds = run.sketch(context.quick).rounds
    trace, overheads = simulate(replace(base.problem, rounds=rounds), allocator(method), kept)
    return replace(base, problem=replace(base.problem, rounds=rounds), trace=trace), overheads


def sweep(entry: Entry, context: Context) -> Measured:
    """Final errors of the four algorithms under each allocation."""
    rows = []
    for run in entry.runs:
        method, algorithm = run.name.split(": ")
        result, _ = allocated(run, context, Record(estimates=False))
        made = error_rows(result, method=method, algorithm=algorithm)
        spread = np.sqrt(result.trace.noise_variance[:, :, 0].mean(axis=1))
        rows += [row | {"deviation": d} for row, d in zip(made, spread.tolist(), strict=True)]
    return Measured({"": frame(rows)})


def draw_sweep(measured: Measured) -> Figure:
    """Homogeneous, central, decentralised, on one scale."""
    figure = style.figure(9.6, 4.4)
    grid = figure.subplots(1, 3, sharey=True)
    for ax, method in zip(grid, (EQUAL, CENTRAL, DECENTRALISED), strict=True):
        panel(ax, measured.table[measured.table.method == method], method)
        ax.set_xlabel("mean privacy budget ε")
    grid[0].set_ylabel(style.NORM)
    style.legend_above(figure, key(ALGORITHMS))
    return figure


def noise_ratio(table: Any, method: str, name: str) -> float:
    """Deviation of the noise in the mean over that of equal budgets, geometric mean over epsilon.

    Both are worked out from the scales of the same signals, so no draw of noise plays a part.
    """
    every = sorted(set(table.epsilon))
    own, equal = (
        [value(table, "deviation", which, name, e) for e in every] for which in (method, EQUAL)
    )
    return float(np.exp(np.mean(np.log(own) - np.log(equal))))


def reduces(measured: Measured) -> Finding:
    """The noise that allocated budgets leave against that of equal ones."""
    words, less = [], True
    for method in (CENTRAL, DECENTRALISED):
        ratios = {name: noise_ratio(measured.table, method, name) for name in ALGORITHMS}
        less = less and max(ratios.values()) < 1
        words.append(f"{method}: " + ", ".join(f"{n} {r:.2f}" for n, r in ratios.items()))
    sentence = (
        "Deviation of the noise in the mean of all agents over that of equal budgets, for the same "
        f"signals, geometric mean over epsilon, {'; '.join(words)}."
    )
    return judged(less, sentence, Verdict.CORRECTED)


def paths(entry: Entry, context: Context) -> Measured:
    """Offline and online Network DP: paths, errors, and the overhead of every round."""
    results, drawn, errors, overheads = {}, [], [], []
    for run in entry.runs:
        result, spent = allocated(run, context, record(run))
        results[run.name] = result
        drawn += path_rows(result, variant=run.name)
        errors += round_rows(result, variant=run.name)
        overheads += [
            {"variant": run.name, "round": t, "lower": row["equal"] / CAP, **row}
            for t, row in enumerate((row for row in spent if row["replica"] == 0), start=1)
        ]
    tables = {"": frame(overheads), "errors": frame(errors), "paths": frame(drawn)}
    tables["rules"] = rules()
    return Measured(tables, results)


def draw_paths(measured: Measured) -> Figure:
    """Paths above, errors below; the overhead with its bounds on the right."""
    figure = style.figure(11.0, 5.4)
    grid, paths = figure.subplots(2, 3), measured.tables["paths"]
    for column, (name, result) in zip(grid.T, measured.results.items(), strict=False):
        panels.paths(result, column[0])
        panels.errors(result, column[1])
        column[0].set_title(f"{name.split(': ')[1]}, ε = {result.problem.budgets[0]:g}")
        zoom([column[0]], paths[paths.variant == name])
        early(column, result)
    online = measured.table[measured.table.variant.str.contains("online")]
    _overhead(grid[0, 2], online)
    ratio = online.overhead / online.equal
    grid[1, 2].plot(online["round"], ratio, color=style.VARIANTS[0], linewidth=0.8)
    grid[1, 2].set(xlabel="round t", ylabel="ratio to equal budgets")
    for ax in grid.ravel():
        style.tidy(ax)
    handles = style.key_of_paths(True) + style.key_of_errors(True, band=True)
    style.legend_above(figure, handles)
    return figure


def _overhead(ax: Any, table: Any) -> None:
    bounds = {"equal": "all at ε: upper bound", "lower": "all at the cap: lower bound"}
    ax.plot(table["round"], table.overhead, color=style.VARIANTS[0], linewidth=0.8,
            label="allocated")  # fmt: skip
    for colour, (name, label) in zip(style.VARIANTS[1:], bounds.items(), strict=False):
        ax.plot(table["round"], table[name], color=colour, linewidth=0.8, label=label)
    style.scale(ax, y="log")
    ax.set(title="overhead Σ Δ/ε, online", xlabel="round t")
    ax.legend(fontsize=7, frameon=False)


def bounded(measured: Measured) -> Finding:
    """Whether sum D/eps is below the overhead and sum D/eps_max above, or the other way round."""
    table = measured.table
    printed = bool((table.overhead >= table.equal).all() and (table.overhead <= table.lower).all())
    swapped = bool(
        (table.overhead <= 1.0001 * table.equal).all() and (table.overhead >= table.lower).all()
    )
    ratio = (table.overhead / table.equal).groupby(table.variant, sort=False).mean()
    said = ", ".join(f"{name.split(': ')[1]} {r:.3f}" for name, r in ratio.items())
    sentence = (
        f"The overhead is on average {said} of sum D/eps. It is never more than that and never "
        "less than sum D/eps_max, a tenth of it: the caption has the bounds the wrong way round."
        if swapped
        else f"The overhead is on average {said} of sum D/eps."
    )
    return judged(printed, sentence, Verdict.CORRECTED if swapped else Verdict.REFUTED)


def rules() -> Any:
    """The overhead of the printed rule and of the optimum, on a case where a cap binds and ours."""
    rng = np.random.default_rng(0)
    cases = {
        "households, cap 10": (np.exp(-rng.normal(1.67, 1.04, 969)), 10.0),
        "(1, 1, 1, 100), cap 1.5": (np.array([1.0, 1.0, 1.0, 100.0]), 1.5),
    }
    return frame(
        [
            {
                "case": name,
                "printed": budgets.printed(D, 1.0, cap).overhead,
                "optimal": budgets.optimal(D, 1.0, cap).overhead,
            }
            for name, (D, cap) in cases.items()
        ]
    )


def clipped(measured: Measured) -> Finding:
    """What the printed rule leaves unspent where a cap binds (erratum 3)."""
    table = measured.tables["rules"]
    lost = bool((table.printed > table.optimal * (1 + 1e-9)).any())
    words = [f"{r.case}: {r.printed:.5g} against {r.optimal:.5g}" for r in table.itertuples()]
    sentence = f"Overhead of the printed rule and of the optimum, {'; '.join(words)} (erratum 3)."
    return Finding(Verdict.CORRECTED if lost else Verdict.CONFIRMED, sentence)


def _sweep_runs() -> tuple[Run, ...]:
    few = {"offline": 10, "online": 2}
    return tuple(
        Run(
            f"{method}: {name}",
            HOUSEHOLDS,
            law,
            protects,
            replicas=few[name.split("-")[0]],
            rounds=ROUNDS[name.split("-")[0]],
        )
        for method in (EQUAL, CENTRAL, DECENTRALISED)
        for name, (law, protects, _) in ALGORITHMS.items()
    )


def _paths_entry(method: str) -> Entry:
    runs = (
        Run(f"{method}: offline-network", HOUSEHOLDS, "average", "network", epsilons=(1.0,)),
        Run(f"{method}: online-network", HOUSEHOLDS, "learn-network", "network", epsilons=(10.0,),
            replicas=3),
    )  # fmt: skip
    bounds = Claim(
        "sum D/eps is a lower bound of the optimal overhead, sum D/eps_max an upper one.",
        bounded,
        quote="which we compare with the lower bound",
    )
    best = Claim(
        "The closed-form allocation is optimal.",
        clipped,
        quote=r"then the optimal solution to \cref{supp:eq:heterogeneous_eps} is",
    )
    claims = [bounds, best] if method == CENTRAL else [bounds]
    return Entry(
        id=f"fig-budgets-{method}",
        title=f"Heterogeneous budgets, {method}: paths and overhead",
        reference=f"Supplementary Figure distribute_budget-{SPELT[method]}",
        runs=runs,
        measure=paths,
        draw=draw_paths,
        claims=tuple(claims),
    )


ENTRIES = (
    _paths_entry(CENTRAL),
    _paths_entry(DECENTRALISED),
    Entry(
        id="fig-mse-budgets",
        title="Heterogeneous budgets: error against epsilon",
        reference="Supplementary Figure mse_plot_heterogeneous (3 panels)",
        runs=_sweep_runs(),
        measure=sweep,
        draw=draw_sweep,
        claims=(
            Claim(
                "Heterogeneous budgets reduce the error.",
                reduces,
                quote="using heterogeneous budgets reduces the MSE",
            ),
        ),
    ),
)
