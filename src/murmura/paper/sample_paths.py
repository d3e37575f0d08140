"""Sample paths with their errors: offline and online, Signal and Network DP, on both networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from murmura.engine import Record
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.settings import HOUSEHOLDS, PLACES, US, Run, network, perform
from murmura.paper.tabulate import frame, last, path_rows, round_rows
from murmura.report import figures

AGENTS = 10
SETTLED, LONG = 5, 300  # rounds


def runs(place: str, epsilons: dict[str, float]) -> tuple[Run, ...]:
    """The four algorithms, each at the epsilon of the paper's plot."""
    laws = {
        "offline-signal": ("average", "signal"),
        "offline-network": ("average", "network"),
        "online-signal": ("learn", "signal"),
        "online-network": ("learn-network", "network"),
    }
    return tuple(
        Run(name, place, law, protects, epsilons=(epsilons[name],))
        for name, (law, protects) in laws.items()
    )


def measure(entry: Entry, context: Context) -> Measured:
    """Run each, keeping ten agents' paths; the tables hold what the panels show."""
    results, paths, errors = {}, [], []
    for run in entry.runs:
        results[run.name] = perform(run, context, record(run))
        paths += path_rows(results[run.name], variant=run.name)
        errors += round_rows(results[run.name], variant=run.name)
    return Measured({"": frame(errors), "paths": frame(paths)}, results)


def record(run: Run) -> Record:
    """Ten agents spread over the network, in every round."""
    labels = network(run.place).labels
    some = [labels[k * (len(labels) - 1) // (AGENTS - 1)] for k in range(AGENTS)]
    return Record(every=1, agents=some)


def draw(measured: Measured) -> Figure:
    """Paths above, errors below, a column per algorithm."""
    figure = figures.compare(measured.results, evaluation=True)
    grid = np.array(figure.axes[: 2 * len(measured.results)]).reshape(2, -1)
    zoom(grid[0], measured.tables["paths"])
    for column, result in zip(grid.T, measured.results.values(), strict=True):
        early(column, result)
    return figure


def zoom(axes: Iterable[Axes], paths: Any) -> None:
    """Show where estimates settle; the first noisy ones may leave the panel."""
    late = paths[paths["round"] >= min(SETTLED, paths["round"].max() / 2)]
    low, high = np.quantile(np.append(late.private, late.target), [0.002, 0.998])
    for ax in axes:
        ax.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))


def early(column: Iterable[Axes], result: Any) -> None:
    """Offline, agreement comes in the first of many rounds: spread them out."""
    if result.problem.law.online or result.problem.rounds < LONG:
        return
    for ax in column:
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(left=0)


def unaffected(measured: Measured) -> Finding:
    """Signal DP: total error against the same without noise."""
    words, holds = [], True
    for name in ("offline-signal", "online-signal"):
        te, cod = last(measured.table, "te", name), last(measured.table, "cod", name)
        holds = holds and te < 1.05 * cod
        words.append(f"{name} TE {te:.4g} with noise, {cod:.4g} without")
    return judged(holds, f"At the last round {'; '.join(words)}.")


def dominated(measured: Measured) -> Finding:
    """Signal and Network DP: total error against the same without noise."""
    words, holds = [], True
    for name, result in measured.results.items():
        te, cod = last(measured.table, "te", name), last(measured.table, "cod", name)
        holds = holds and te > 2 * cod
        per_agent = te / np.sqrt(result.problem.network.size) / abs(result.trace.target[0, 0])
        words.append(f"{name} TE {te:.3g} (CoD {cod:.2g}), {100 * per_agent:.2g}% per agent")
    sentence = (
        f"At the last round {'; '.join(words)}. With signals drawn i.i.d., as the authors' code "
        "has them, the errors are small beside the mean, and online the noise averages out."
    )
    return judged(holds, sentence, Verdict.CORRECTED)


def learn_is_faster(measured: Measured) -> Finding:
    """Alg. 4 against Alg. 5 without noise."""
    fast, slow = (last(measured.table, "cod", f"online-{kind}") for kind in ("signal", "network"))
    return judged(
        fast < slow, f"CoD at the last round is {fast:.3g} for Alg. 4 and {slow:.3g} for Alg. 5."
    )


def online_is_faster(measured: Measured) -> Finding:
    """Alg. 4 and 5 against Alg. 3: true while mixing is slow, false once it is done."""
    offline = last(measured.table, "cod", "offline-signal")
    online = [last(measured.table, "cod", f"online-{kind}") for kind in ("signal", "network")]
    numbers = f"CoD at the last round: Alg. 3 {offline:.2g}, Alg. 4 {online[0]:.2g}, Alg. 5 "
    if max(online) < offline:
        return Finding(Verdict.CONFIRMED, f"{numbers}{online[1]:.2g}.")
    why = "offline averaging errs by beta*^t, which passes below the 1/sqrt(t) of online learning"
    return Finding(Verdict.REFUTED, f"{numbers}{online[1]:.2g}; {why}.")


FASTER = (
    Claim("Alg. 4 converges faster than Alg. 5, even without noise.", learn_is_faster),
    Claim("Both online algorithms converge faster than Alg. 3.", online_is_faster),
)

ENTRIES = (
    Entry(
        id="fig-paths-us",
        title=f"Sample paths: {PLACES[US].title}",
        reference="Figures sample_paths_* (the US power grid's half)",
        runs=runs(US, dict.fromkeys(("offline-signal", "offline-network", "online-signal",
                                     "online-network"), 1.0)),
        measure=measure,
        draw=draw,
        claims=(
            Claim("With Signal DP the noise does not affect convergence in practice.", unaffected),
            *FASTER,
        ),
    ),
    Entry(
        id="fig-paths-households",
        title=f"Sample paths: {PLACES[HOUSEHOLDS].title}",
        reference="Figures sample_paths_* (the households' half)",
        runs=runs(HOUSEHOLDS, {"offline-signal": 10.0, "offline-network": 1.0,
                               "online-signal": 10.0, "online-network": 10.0}),
        measure=measure,
        draw=draw,
        claims=(
            Claim(
                "Even at epsilon = 10 (1 for offline network DP) privacy comes at a large cost to "
                "accuracy.",
                dominated,
            ),
            *FASTER,
        ),
    ),
)  # fmt: skip
