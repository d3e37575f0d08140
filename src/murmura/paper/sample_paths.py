"""Sample paths with their errors: offline and online, Signal and Network DP, on both networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from murmura.engine import Record
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.expected import expected
from murmura.paper.settings import HOUSEHOLDS, PLACES, US, Run, network, perform
from murmura.paper.tabulate import expected_rounds, frame, last, path_rows, round_rows
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
    results, paths, errors, exact = {}, [], [], []
    for run in entry.runs:
        results[run.name] = perform(run, context, record(run))
        paths += path_rows(results[run.name], variant=run.name)
        errors += round_rows(results[run.name], variant=run.name)
        exact += expected_paths(run, context, results[run.name])
    tables = {"": frame(errors), "paths": frame(paths)}
    return Measured(tables | ({"expected": frame(exact)} if exact else {}), results)


def expected_paths(run: Run, context: Context, result: Any) -> list[dict[str, Any]]:
    """Expected errors over rounds.

    Where only sampling is affordable (thousands of agents whose scales differ) the noise counts
    as it was measured: its norm over so many agents is within a few percent of its expectation.
    """
    if PLACES[run.place].mu is None:
        return []
    found = expected(run, context.quick)
    if found is not None:
        return expected_rounds(found, variant=run.name, noise="expected")
    clean = expected(replace(run, protects="nothing"), context.quick)
    assert clean is not None
    rows = expected_rounds(clean, variant=run.name, noise="measured")
    cops = np.sqrt((result.trace.privacy[:, 0] ** 2).mean(axis=-1))
    return [
        row | {"cop": cop, "te": np.hypot(row["cod"], cop), "truth": np.hypot(row["truth"], cop)}
        for row, cop in zip(rows, cops.tolist(), strict=True)
    ]


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
    """Signal DP: expected total error against the same without noise."""
    words, holds = [], True
    for name in ("offline-signal", "online-signal"):
        te, cod = (last(measured.tables["expected"], kind, name) for kind in ("te", "cod"))
        holds = holds and te < 1.05 * cod
        words.append(f"{name} TE {te:.4g} with noise, {cod:.4g} without")
    return judged(holds, f"Expected at the last round: {'; '.join(words)}.")


def dominated(measured: Measured) -> Finding:
    """Expected total error against the same without noise, and against the mean itself."""
    table, words, holds = measured.tables["expected"], [], True
    for name, result in measured.results.items():
        te, cod = (last(table, kind, name) for kind in ("te", "cod"))
        holds = holds and te > 2 * cod
        per_agent = te / np.sqrt(result.problem.network.size) / PLACES[HOUSEHOLDS].mu
        words.append(f"{name} TE {te:.3g} (CoD {cod:.2g}), {100 * per_agent:.2g}% per agent")
    sentence = (
        f"Expected at the last round: {'; '.join(words)}. With signals drawn i.i.d., as the "
        "authors' code has them, noise outweighs decentralisation offline, where that vanishes, "
        "and averages out online; everywhere the errors are small beside the mean."
    )
    return judged(holds, sentence, Verdict.CORRECTED)


def learn_is_faster(measured: Measured) -> Finding:
    """Alg. 4 against Alg. 5 without noise; in rounds 1 and 2 they do the same."""
    table = measured.tables["expected"]
    fast, slow = (_over_rounds(table, "cod", f"online-{kind}") for kind in ("signal", "network"))
    return judged(
        bool((fast[3:] < slow[3:]).all()),
        f"Expected CoD at the last round is {fast[-1]:.3g} for Alg. 4 and {slow[-1]:.3g} for "
        "Alg. 5, and smaller for Alg. 4 in every round after the second.",
    )


def online_is_faster(measured: Measured) -> Finding:
    """All three against E xi: true once the streams have made up for their slower start."""
    table = measured.tables["expected"]
    words, since, holds = [], [], True
    for kind, column in (("without noise", "truth_clean"), ("with noise", "truth")):
        offline = _over_rounds(table, column, "offline-signal")
        online = [_over_rounds(table, column, f"online-{k}") for k in ("signal", "network")]
        slower = np.flatnonzero(np.maximum(*online)[1:] >= offline[1:])
        since.append(int(slower[-1]) + 2 if len(slower) else 1)
        holds = holds and since[-1] < len(offline)
        ends = ", ".join(f"{errors[-1]:.3g}" for errors in (offline, *online))
        words.append(f"{kind} {ends}, from round {since[-1]} on")
    sentence = (
        f"Expected errors against E xi of Alg. 3, 4 and 5 at round {len(offline) - 1:,}: "
        f"{'; '.join(words)}. Before, Alg. 3 is ahead: one round of averaging helps more than one "
        "more signal."
    )
    if not holds:
        return Finding(Verdict.REFUTED, sentence)
    return judged(max(since) == 1, sentence, Verdict.CORRECTED)


def _over_rounds(table: Any, column: str, name: str) -> Any:
    part = table[table.variant == name].sort_values("round")
    return part[column].to_numpy()


FASTER = (
    Claim(
        "Alg. 4 converges faster than Alg. 5, even without noise.",
        learn_is_faster,
        quote="(even in the absence of DP noise) because of the underlying mixing matrices",
    ),
    Claim(
        "Both online algorithms converge faster than Alg. 3, with and without noise.",
        online_is_faster,
        quote="both of these algorithms converge faster (with and without DP noise) than",
    ),
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
            Claim(
                "With Signal DP the noise does not affect convergence in practice.",
                unaffected,
                quote="In all cases of signal DP with the US power grid network, the DP noise did "
                "not affect the convergence rate in practice",
            ),
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
                quote=r"even at a relatively high privacy budget ($\eps = 10$) comes at a huge "
                "cost to accuracy",
            ),
            *FASTER,
        ),
    ),
)  # fmt: skip
