"""The paper's experiments on real meters: 537 Swiss households, daily and hourly.

log s has no value at their zeros, so these runs use log(1 + s), whose noise is finite and proved.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from murmura.paper import sample_paths
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, judged
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
        rows += error_rows(perform(run, context), method=place, algorithm=algorithm)
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


def proved(measured: Measured) -> Finding:
    """Finite noise, a proved promise, and what it costs on real readings."""
    table, words = measured.table, []
    for place in (DAILY, HOURLY):
        part = table[(table.method == place) & np.isclose(table.epsilon, 1.0)]
        said = ", ".join(f"{r.algorithm} {r.te:.3g} (CoP {r.cop:.2g})" for r in part.itertuples())
        words.append(f"{PLACES[place].title}: {said}")
    signal = table[table.protects == "signal"]
    fine = bool(np.isfinite(table.cop).all() and (signal.promise == "proved").all())
    return judged(fine, f"TE at epsilon = 1 with log(1 + s), {'; '.join(words)}.")


FINITE = Claim("With a statistic of bounded derivative real meters can be protected.", proved)


def cheap(measured: Measured) -> Finding:
    """Total error of the signals' protection against the error without noise."""
    words, ratios = [], {}
    for name in measured.results:
        part = measured.table[measured.table.variant == name]
        te, cod = float(part.te.iloc[-1]), float(part.cod.iloc[-1])
        ratios[name] = te / cod
        words.append(f"{name.split(': ')[1]} TE {te:.3g}, without noise {cod:.3g}")
    fine = ratios[f"{DAILY}: online-signal"] < 1.25
    return judged(fine, f"On the last day, at epsilon = 1: {'; '.join(words)}.")


ENTRIES = (
    Entry(
        id="fig-mse-real",
        title="Error against epsilon: 537 Swiss households",
        reference="Figure mse_plot, on real readings",
        runs=SWEEPS,
        measure=measure,
        draw=draw,
        claims=(FINITE,),
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
