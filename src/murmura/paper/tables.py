"""Table 1 and the heterogeneous table in numbers: the theorems' bounds beside measured errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura.engine import Record
from murmura.paper import heterogeneous
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, judged
from murmura.paper.settings import HOUSEHOLDS, US, Run, perform
from murmura.paper.sweeps import ALGORITHMS
from murmura.paper.tabulate import error_rows, frame
from murmura.report import style


def table_1(entry: Entry, context: Context) -> Measured:
    """Every cell on either network: what was measured, and what its theorem allows."""
    rows = []
    for run in entry.runs:
        result = perform(run, context)
        row = error_rows(result, place=run.place, algorithm=run.name.split(": ")[1])[0]
        rows.append(row | theorem(result))
    return Measured({"": frame(rows)})


def theorem(result: Any) -> dict[str, Any]:
    """The bound on this run: Theorem 1 (or Corollary 1), 2 or 3; means over replicas."""
    from murmura.theory import bounds

    problem = result.problem
    n, T, law = problem.network.size, problem.rounds, problem.law
    beta, noise = float(problem.network.beta_star), spent(result)
    if law.online:
        variance = problem.family.sigma**2
        bound = bounds.theorem_2 if law.name == "learn" else bounds.theorem_3
        made = [bound(n, beta, T, float(v), variance) for v in noise]
    else:
        tops = np.abs(statistics(problem)).max(axis=0)
        made = [
            bounds.theorem_1(n, beta, T, float(v), float(M))
            for v, M in zip(noise, tops, strict=True)
        ]
    return {
        "theorem": made[0].reference,
        "bound_privacy": float(np.mean([b.privacy for b in made])),
        "bound_decentralisation": float(np.mean([b.decentralisation for b in made])),
        "bound_total": float(np.mean([b.total for b in made])),
    }


def spent(result: Any) -> Any:
    """Variance of all noise that was added, by replica.

    The mean estimate is the mean of all that entered, so its variance times (n T)^2 is their sum.
    """
    problem = result.problem
    draws = problem.network.size * (problem.rounds if problem.law.online else 1)
    return result.trace.noise_variance[0, :, 0] * draws**2


def statistics(problem: Any) -> Any:
    """The statistics of the first round, (agents, replicas)."""
    signals = problem.source.signals(1, problem.replicas)
    return problem.family.columns(signals).reshape(problem.network.size, -1)


def table_2(entry: Entry, context: Context) -> Measured:
    """The heterogeneous table: optimal budgets, measured errors and what the table allows."""
    from murmura.theory import bounds

    rows = []
    for run in entry.runs:
        result, overheads = heterogeneous.allocated(run, context, Record(estimates=False))
        problem = result.problem
        total = float(np.mean([row["overhead"] for row in overheads]))
        if problem.law.online:
            variance = problem.family.sigma**2
            made = bounds.heterogeneous_online(
                problem.network.size, problem.rounds, total, variance
            )
        else:
            largest = float(np.abs(statistics(problem)).max(axis=0).mean())
            beta = float(problem.network.beta_star)
            made = bounds.heterogeneous_offline(
                problem.network.size, beta, problem.rounds, total, largest
            )
        row = error_rows(result, place=run.place, algorithm=run.name.split(": ")[1])[0]
        rows.append(row | {
            "theorem": made.reference, "bound_privacy": made.privacy,
            "bound_decentralisation": made.decentralisation, "bound_total": made.total,
        })  # fmt: skip
    return Measured({"": frame(rows)})


def draw(measured: Measured) -> Figure:
    """Measured errors and bounds, a row per cell."""
    table = measured.table.iloc[::-1].reset_index(drop=True)
    figure = style.figure(8.4, 0.45 * len(table) + 1.6)
    ax = figure.add_subplot()
    ax.hlines(table.index, table.te, table.bound_total, color=style.FAINT, linewidth=1.2)
    marks = {
        "te": ("TE measured", "o", 1), "cop": ("CoP measured", "D", 0),
        "cod": ("CoD measured", "s", 2),
        "bound_total": ("bound on TE", ">", 3),
    }  # fmt: skip
    for column, (label, marker, k) in marks.items():
        shown = table[table[column] > 1e-12 * table.te]
        ax.scatter(shown[column], shown.index, marker=marker, s=26, color=style.VARIANTS[k],
                   label=label, zorder=3)  # fmt: skip
    words = [f"{row.place}, {row.algorithm} ({row.theorem})" for row in table.itertuples()]
    style.scale(ax, x="log")
    ax.set_yticks(table.index, words)
    ax.set_xlabel(f"{style.NORM}, ε = {table.epsilon[0]:g}")
    style.tidy(ax)
    style.legend_above(figure, ax.get_legend_handles_labels()[0])
    return figure


def below(measured: Measured) -> Finding:
    """Whether every measured error is below its bound, and how loose the bounds are."""
    table = measured.table
    looseness = table.bound_total / table.te
    words = [
        f"{row.place} {row.algorithm} {row.te:.3g} <= {row.bound_total:.3g}"
        for row in table.itertuples()
    ]
    holds = bool((table.te <= table.bound_total).all())
    sentence = (
        f"TE and bound: {'; '.join(words)}. The bounds are {looseness.min():.2g} to "
        f"{looseness.max():.2g} times what was measured."
    )
    return judged(holds, sentence)


def decentralisation(measured: Measured) -> Finding:
    """The terms of the cost of decentralisation on their own."""
    table = measured.table
    exceeds = table[table.cod > table.bound_decentralisation]
    words = [
        f"{row.algorithm}: CoD {row.cod:.2g}, term {row.bound_decentralisation:.2g}"
        for row in table.itertuples()
    ]
    return judged(exceeds.empty, f"{'; '.join(words)}.")


RUNS = tuple(
    Run(f"{place}: {name}", place, law, protects, epsilons=(1.0,))
    for place in (US, HOUSEHOLDS)
    for name, (law, protects, _) in ALGORITHMS.items()
)
UNEQUAL = tuple(
    Run(f"{heterogeneous.CENTRAL}: {name}", HOUSEHOLDS, law, protects, epsilons=(1.0,), replicas=3)
    for name, (law, protects, _) in ALGORITHMS.items()
)

ENTRIES = (
    Entry(
        id="table-1",
        title="Table 1 in numbers",
        reference="Table detailed_bounds; Theorems 1 to 3, Corollary 1",
        runs=RUNS,
        measure=table_1,
        draw=draw,
        claims=(Claim("Measured total errors are below the theorems' bounds.", below),),
    ),
    Entry(
        id="table-heterogeneous",
        title="The heterogeneous table in numbers",
        reference="Supplementary table detailed_bounds_heterogeneous",
        runs=UNEQUAL,
        measure=table_2,
        draw=draw,
        claims=(
            Claim("Measured total errors are below the table's bounds.", below),
            Claim("So are the costs of decentralisation, term by term.", decentralisation),
        ),
    ),
)
