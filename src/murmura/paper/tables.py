"""Table 1 and the heterogeneous table in numbers: the theorems' bounds beside measured errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura import laws
from murmura.engine import Record
from murmura.paper import heterogeneous
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, judged
from murmura.paper.expected import expected, largest, moments, scales
from murmura.paper.settings import HOUSEHOLDS, US, Run, network, perform
from murmura.paper.sweeps import ALGORITHMS, predicted
from murmura.paper.tabulate import error_rows, frame
from murmura.report import style


def table_1(entry: Entry, context: Context) -> Measured:
    """Every cell on either network: what is measured and expected, and what its theorem allows."""
    rows = []
    for run in entry.runs:
        row = error_rows(perform(run, context), place=run.place, algorithm=_algorithm(run))[0]
        rows.append(row | predicted(run, context, [row])[0] | theorem(run.sketch(context.quick)))
    return Measured({"": frame(rows)})


def _algorithm(run: Run) -> str:
    return run.name.split(": ")[1]


def theorem(run: Run) -> dict[str, Any]:
    """The bound of Theorem 1 (or Corollary 1), 2 or 3, from expected variances and E M_n."""
    from murmura.theory import bounds

    where, made = network(run.place), laws.LAWS[run.law]
    n, T, beta = where.size, run.rounds, float(where.beta_star)
    noise = float((2 * scales(run)[:, 0] ** 2).sum()) * (T if made.online else 1)
    if made.online:
        variance = moments(run)[1] ** 2
        bound = bounds.theorem_2 if run.law == "learn" else bounds.theorem_3
        found = bound(n, beta, T, noise, variance)
    else:
        found = bounds.theorem_1(n, beta, T, noise, largest(run))
    reference = "Corollary 1" if run.protects == "network" and not made.online else found.reference
    return _bounded(found, reference)


def _bounded(found: Any, reference: str) -> dict[str, Any]:
    return {
        "theorem": reference,
        "bound_privacy": found.privacy,
        "bound_decentralisation": found.decentralisation,
        "bound_total": found.total,
    }


def table_2(entry: Entry, context: Context) -> Measured:
    """The heterogeneous table: optimal budgets, measured errors and what the table allows.

    Budgets follow the signals, so the noise is measured. What decentralisation costs is expected.
    """
    from murmura.theory import bounds

    rows = []
    for run in entry.runs:
        result, overheads = heterogeneous.allocated(run, context, Record(estimates=False))
        clean = expected(replace(run, protects="nothing"), context.quick)
        assert clean is not None
        n, T = result.problem.network.size, result.problem.rounds
        total = float(np.mean([row["overhead"] for row in overheads]))
        if result.problem.law.online:
            made = bounds.heterogeneous_online(n, T, total, moments(run)[1] ** 2)
        else:
            beta = float(result.problem.network.beta_star)
            made = bounds.heterogeneous_offline(n, beta, T, total, largest(run))
        row = error_rows(result, place=run.place, algorithm=_algorithm(run))[0]
        known = {"expected_te": row["te"], "expected_cod": clean.decentralisation[-1]}
        rows.append(row | known | _bounded(made, made.reference))
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
    """Whether every expected error is below its bound, and how loose the bounds are.

    Where errors are measured they are means of replicas, many times below the bound.
    """
    table = measured.table
    looseness = table.bound_total / table.expected_te
    words = [
        f"{row.place} {row.algorithm} {row.expected_te:.3g} <= {row.bound_total:.3g}"
        for row in table.itertuples()
    ]
    holds = bool((table.expected_te <= table.bound_total).all())
    sentence = (
        f"TE and bound: {'; '.join(words)}. The bounds are {looseness.min():.2g} to "
        f"{looseness.max():.2g} times the error."
    )
    return judged(holds, sentence)


def decentralisation(measured: Measured) -> Finding:
    """The terms of the cost of decentralisation on their own."""
    table = measured.table
    exceeds = table[table.expected_cod > table.bound_decentralisation]
    words = [
        f"{row.algorithm}: CoD {row.expected_cod:.2g}, term {row.bound_decentralisation:.2g}"
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
        claims=(Claim("On both networks total errors are below the theorems' bounds.", below),),
    ),
    Entry(
        id="table-heterogeneous",
        title="The heterogeneous table in numbers",
        reference="Supplementary table detailed_bounds_heterogeneous",
        runs=UNEQUAL,
        measure=table_2,
        draw=draw,
        claims=(
            Claim("On the households total errors are below the table's bounds.", below),
            Claim("So are the costs of decentralisation, term by term.", decentralisation),
        ),
    ),
)
