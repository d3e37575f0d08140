"""The paper's experiments on real meters: 537 Swiss households, daily and hourly.

log s has no value at their zeros, so these runs use log(1 + s), whose noise is finite and proved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura import theory
from murmura.paper import sample_paths
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.settings import DAILY, GLOBAL, HOURLY, PLACES, Run, perform
from murmura.paper.sweeps import ALGORITHMS, key, panel
from murmura.paper.tabulate import error_rows, frame
from murmura.report import style


def _run(name: str, place: str, epsilons: tuple[float, ...] | None = None) -> Run:
    law, protects, _ = ALGORITHMS[name.split(": ")[1]]
    made = Run(name, place, law, protects, sensitivity=GLOBAL, family="log-normal-1p")
    return made if epsilons is None else Run(**{**vars(made), "epsilons": epsilons})


ONLINE = tuple(name for name in ALGORITHMS if name.startswith("online"))
SWEEPS = (
    *(_run(f"{DAILY}: {name}", DAILY) for name in ALGORITHMS),
    *(_run(f"{HOURLY}: {name}", HOURLY) for name in ONLINE),
)


def measure(entry: Entry, context: Context) -> Measured:
    """Final errors of the algorithms on the daily and the hourly readings."""
    rows = []
    for run in entry.runs:
        place, algorithm = run.name.split(": ")
        result = perform(run, context)
        known = {"agents": result.problem.network.size, "target": result.trace.target[0, 0]}
        made = error_rows(result, method=place, algorithm=algorithm, **known)
        each = exact_noise(result).tolist()
        rows += [row | {"expected_cop": cop} for row, cop in zip(made, each, strict=True)]
    return Measured({"": frame(rows)})


def draw(measured: Measured) -> Figure:
    """Days on the left, hours on the right."""
    figure = style.figure(9.0, 4.2)
    grid = figure.subplots(1, 2, sharey=True)
    for ax, place in zip(grid, (DAILY, HOURLY), strict=True):
        panel(ax, measured.table[measured.table.method == place], PLACES[place].title)
    grid[0].set_ylabel(style.NORM)
    style.legend_above(figure, key(ALGORITHMS))
    return figure


def exact_noise(result: Any) -> Any:
    """Expected CoP at the last round, by epsilon: its scale is public and reads no signal."""
    return theory.expected(result.problem, deviation=1.0).privacy[-1]


def efficient(measured: Measured) -> Finding:
    """Total error per agent over the mean itself, with Signal DP at epsilon = 1."""
    table, words, shares = measured.table, [], []
    part = table[(table.protects == "signal") & np.isclose(table.epsilon, 1.0)]
    for row in part.itertuples():
        error = np.hypot(row.expected_cop, row.cod) / np.sqrt(row.agents)
        shares.append(error / row.target)
        words.append(f"{row.method} {row.algorithm} {100 * shares[-1]:.2g}%")
    return judged(
        max(shares) < sample_paths.MODERATE,
        f"Expected error of an agent over the mean, log(1 + s) at epsilon = 1: {'; '.join(words)}.",
        Verdict.CORRECTED,
    )


def cheap(measured: Measured) -> Finding:
    """Total error of the signals' protection against the error without noise."""
    words, ratios = [], {}
    for name, result in measured.results.items():
        cod = float(measured.table[measured.table.variant == name].cod.iloc[-1])
        te = float(np.hypot(exact_noise(result)[0], cod))
        ratios[name] = te / cod
        words.append(f"{name.split(': ')[1]} TE {te:.3g}, without noise {cod:.3g}")
    fine = ratios[f"{DAILY}: online-signal"] < 1.25
    return judged(fine, f"Expected on the last day, at epsilon = 1: {'; '.join(words)}.")


ENTRIES = (
    Entry(
        id="fig-mse-real",
        title="Error against epsilon: 537 Swiss households",
        reference="Figure mse_plot, on real readings",
        runs=SWEEPS,
        measure=measure,
        draw=draw,
        claims=(
            Claim(
                "With sensitivities that are bounded Signal DP comes at little cost to accuracy.",
                efficient,
                quote="When sensitivities are locally bounded, signal DP can be achieved "
                "efficiently with a graceful accuracy loss",
            ),
        ),
        needs_data=True,
    ),
    Entry(
        id="fig-paths-real",
        title="Sample paths: 537 Swiss households",
        reference="Figures sample_paths_*, on real readings",
        runs=tuple(_run(f"{DAILY}: {name}", DAILY, (1.0,)) for name in ALGORITHMS),
        measure=sample_paths.measure,
        draw=sample_paths.draw,
        claims=(Claim("Online, hiding a day's reading costs little beside disagreement.", cheap),),
        needs_data=True,
    ),
)
