"""Table 1 and the heterogeneous table in numbers: the theorems' bounds beside measured errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum._types import symmetric
from veilsum.front import style
from veilsum.paper import heterogeneous
from veilsum.paper.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measurement,
    Verdict,
    judged,
    run,
    shipped,
)
from veilsum.paper.sweeps import predicted
from veilsum.paper.tabulate import error_rows, expected, frame, largest, moments, scales
from veilsum.privacy import NoPrivacy
from veilsum.simulation import Problem
from veilsum.theory import bounds
from veilsum.theory.moments import laplace_variance

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table_1(experiment: Experiment, context: Context) -> Measurement:
    """Every cell on either network: measured and expected errors, and the bound of its theorem."""
    rows = []
    for job in experiment.jobs(context):
        place, task = job.name.split(".")
        row = error_rows(run(job, context), place=place, task=task)[0]
        # offline errors are about the mean of the signals, which is `sampling` away from E xi
        known = {"sampling": 0.0 if job.problem.algorithm.online else moments(job.problem)[1]}
        rows.append(row | predicted(job.problem, [row])[0] | theorem(job.problem) | known)
    return Measurement({"": frame(rows)})


def theorem(problem: Problem) -> dict[str, Any]:
    """The bound of Theorem 1, Corollary 1, Theorem 2 or 3, from expected variances and E M_n."""
    algorithm, network = problem.algorithm, problem.network
    n, T, beta = network.size, problem.rounds, symmetric(network).beta_star
    squares = scales(problem)[:, 0] ** 2
    if algorithm.online:
        bound = bounds.theorem_2 if algorithm.name == "learn" else bounds.theorem_3
        noise = float(laplace_variance(np.sqrt(squares)).sum()) * T
        return _columns(bound(n, beta, T, noise, moments(problem)[1] ** 2))
    if problem.privacy.protects == "network":
        scale = float(np.sqrt(squares.mean()))
        return _columns(bounds.corollary_1(n, beta, T, scale, 1.0, largest(problem)))
    noise = float(laplace_variance(np.sqrt(squares)).sum())
    return _columns(bounds.theorem_1(n, beta, T, noise, largest(problem)))


def _columns(found: bounds.Bound) -> dict[str, Any]:
    return {
        "theorem": found.reference,
        "bound_privacy": found.privacy,
        "bound_decentralisation": found.decentralisation,
        "bound_total": found.total,
    }


def table_2(experiment: Experiment, context: Context) -> Measurement:
    """The heterogeneous table: optimal budgets, measured errors and the table's bounds.

    Budgets depend on the signals, so the noise is measured. The cost of decentralisation is
    expected.
    """
    rows = []
    for job in experiment.jobs(context):
        place, task = job.name.split(".")
        result, overheads = heterogeneous.allocated(job, context)
        problem = result.problem
        noiseless = expected(replace(problem, privacy=NoPrivacy(), epsilons=()))
        assert noiseless is not None
        n, T = problem.network.size, problem.rounds
        total = float(np.mean([row["overhead"] for row in overheads]))
        if problem.algorithm.online:
            bound = bounds.heterogeneous_online(n, T, total, moments(problem)[1] ** 2)
        else:
            beta = float(symmetric(problem.network).beta_star)
            bound = bounds.heterogeneous_offline(n, beta, T, total, largest(problem))
        row = error_rows(result, place=place, task=task)[0]
        known = {"expected_te": row["te"], "expected_cod": noiseless.decentralisation[-1]}
        rows.append(row | known | _columns(bound))
    return Measurement({"": frame(rows)})


def draw(measured: Measurement) -> Figure:
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
        visible = table[table[column] > 1e-12 * table.te]
        ax.scatter(visible[column], visible.index, marker=marker, s=26, color=style.VARIANTS[k],
                   label=label, zorder=3)  # fmt: skip
    words = [f"{row.place}, {row.task} ({row.theorem})" for row in table.itertuples()]
    style.scale(ax, x="log")
    ax.set_yticks(table.index, words)
    ax.set_xlabel(f"{style.NORM}, ε = {table.epsilon[0]:g}")
    style.tidy(ax)
    style.legend_above(figure, ax.get_legend_handles_labels()[0])
    return figure


def below(measured: Measurement, _claim: Claim) -> Finding:
    """Whether every expected error is below its bound, and how loose the bounds are.

    Where errors are measured they are means of replicas, many times below the bound.
    """
    table = measured.table
    looseness = table.bound_total / table.expected_te
    words = [
        f"{row.place} {row.task} {row.expected_te:.3g} <= {row.bound_total:.3g}"
        for row in table.itertuples()
    ]
    holds = bool((table.expected_te <= table.bound_total).all())
    sentence = (
        f"TE and bound: {'; '.join(words)}. The bounds are {looseness.min():.2g} to "
        f"{looseness.max():.2g} times the error."
    )
    return judged(holds, sentence)


def sacrificed(measured: Measurement, claim: Claim) -> Finding:
    """What privacy adds to the error against E xi, cell by cell.

    Where the cost of privacy is measured, on the US grid, it is within a few percent.
    """
    table = measured.table
    ratios = np.hypot(table.expected_te, table.sampling) / np.hypot(
        table.expected_cod, table.sampling
    )
    words = [f"{r.place} {r.task} {x:.3g}" for r, x in zip(table.itertuples(), ratios, strict=True)]
    sentence = (
        f"Expected error against E xi over that without noise, epsilon = {table.epsilon[0]:g}: "
        f"{'; '.join(words)}."
    )
    some = bool((ratios <= claim.threshold).any())
    held = bool((ratios <= claim.threshold).all())
    return judged(held, sentence, Verdict.CORRECTED if some else Verdict.REFUTED)


def decentralisation(measured: Measurement, _claim: Claim) -> Finding:
    """The terms of the cost of decentralisation on their own."""
    table = measured.table
    exceeds = table[table.expected_cod > table.bound_decentralisation]
    words = [
        f"{row.task}: CoD {row.expected_cod:.2g}, term {row.bound_decentralisation:.2g}"
        for row in table.itertuples()
    ]
    return judged(exceeds.empty, f"{'; '.join(words)}.")


EXPERIMENTS = (
    Experiment(
        id="table-1",
        title="Table 1 in numbers",
        reference="Table detailed_bounds; Theorems 1 to 3, Corollary 1",
        scenarios=shipped("table-1-us", "table-1-households"),
        measure=table_1,
        draw=draw,
    ),
    Experiment(
        id="table-heterogeneous",
        title="The heterogeneous table in numbers",
        reference="Supplementary table detailed_bounds_heterogeneous",
        scenarios=shipped("table-heterogeneous"),
        measure=table_2,
        draw=draw,
    ),
)
