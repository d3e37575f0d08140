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
UNAFFECTED = 1.05  # times the error without noise: less is no effect, more is noticeable
MODERATE = 0.1  # error of an agent over the mean: less is accurate
START = 0.1  # share of the rounds in which a faster algorithm may still be behind


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
        holds = holds and te < UNAFFECTED * cod
        words.append(f"{name} TE {te:.4g} with noise, {cod:.4g} without")
    return judged(holds, f"Expected at the last round: {'; '.join(words)}.")


def costly(measured: Measured) -> Finding:
    """Offline, Signal DP: what noise adds to the error, and the part of the smallest signals."""
    te, cod = (last(measured.tables["expected"], kind, "offline-signal") for kind in ("te", "cod"))
    below, share = small_signals()
    sentence = (
        f"Expected at the last round, epsilon = 10: TE {te:.3g} with noise, {cod:.2g} without. "
        f"{100 * share:.0f}% of the noise's variance comes from the {100 * below:.1f}% of signals "
        f"below 1. The cost is huge beside the error without noise; beside the mean an agent errs "
        f"by {100 * relative(te):.2g}%."
    )
    return judged(te > 2 * cod and share > 0.5, sentence, Verdict.CORRECTED)


def small_signals() -> tuple[float, float]:
    """P(s < 1), and the share of E b^2, b in proportion to 1/s, that such signals have.

    E[s^-2; s < 1]/E s^-2 = Phi((2 sigma^2 - mu)/sigma) for log s normal.
    """
    from scipy.stats import norm

    place = PLACES[HOUSEHOLDS]
    assert place.mu is not None
    below, share = norm.cdf([-place.mu, 2 * place.sigma**2 - place.mu], scale=place.sigma)
    return float(below), float(share)


def relative(error: float) -> float:
    """Root mean square error of an agent over the mean, from the norm over all households."""
    place = PLACES[HOUSEHOLDS]
    assert place.mu is not None
    return error / float(np.sqrt(network(HOUSEHOLDS).size)) / place.mu


def moderate(measured: Measured) -> Finding:
    """Offline, Network DP: whether epsilon = 1 buys no more than a moderate accuracy."""
    te = last(measured.tables["expected"], "te", "offline-network")
    return judged(
        relative(te) > MODERATE,
        f"Expected at the last round, epsilon = 1: TE {te:.3g}, {100 * relative(te):.2g}% of the "
        f"mean per agent; accurate would be {100 * MODERATE:.0f}%.",
    )


def convergent(measured: Measured) -> Finding:
    """Online, Signal DP: whether the error still falls at the end, as if there were no noise."""
    te, cod = (
        _over_rounds(measured.tables["expected"], kind, "online-signal") for kind in ("te", "cod")
    )
    T = len(te) - 1
    return judged(
        bool(te[-1] < 0.6 * te[T // 4] and te[-1] < UNAFFECTED * cod[-1]),
        f"Expected, epsilon = 10: TE {te[T // 4]:.3g} at round {T // 4:,} and {te[-1]:.3g} at "
        f"round {T:,}, {cod[-1]:.3g} without noise (t^-1/2 would halve it).",
    )


def noticeable(measured: Measured) -> Finding:
    """Online on the US grid at epsilon = 1: Network DP is felt where Signal DP is not."""
    table = measured.tables["expected"]
    ratios = {
        kind: last(table, "te", f"online-{kind}") / last(table, "cod", f"online-{kind}")
        for kind in ("signal", "network")
    }
    words = ", ".join(f"{ratio:.3g} with {kind} DP" for kind, ratio in ratios.items())
    return judged(
        ratios["network"] > UNAFFECTED > ratios["signal"],
        f"Expected TE over that without noise at the last round, online, epsilon = 1: {words}.",
    )


def learn_is_faster(measured: Measured) -> Finding:
    """Alg. 4 against Alg. 5 without noise; in rounds 1 and 2 they do the same."""
    table = measured.tables["expected"]
    fast, slow = (_over_rounds(table, "cod", f"online-{kind}") for kind in ("signal", "network"))
    since = ahead_from(fast, slow)
    return faster(
        [since],
        len(fast) - 1,
        f"Expected CoD at the last round is {fast[-1]:.3g} for Alg. 4 and {slow[-1]:.3g} for "
        f"Alg. 5, and smaller for Alg. 4 from round {since} on.",
    )


def online_is_faster(measured: Measured) -> Finding:
    """All three against E xi: true once the streams have made up for their slower start."""
    table = measured.tables["expected"]
    words, since = [], []
    for kind, column in (("without noise", "truth_clean"), ("with noise", "truth")):
        offline = _over_rounds(table, column, "offline-signal")
        online = [_over_rounds(table, column, f"online-{k}") for k in ("signal", "network")]
        since.append(ahead_from(np.maximum(*online), offline))
        ends = ", ".join(f"{errors[-1]:.3g}" for errors in (offline, *online))
        words.append(f"{kind} {ends}, ahead from round {since[-1]} on")
    sentence = (
        f"Expected errors against E xi of Alg. 3, 4 and 5 at round {len(offline) - 1:,}: "
        f"{'; '.join(words)}. Before, Alg. 3 is ahead: one round of averaging helps more than one "
        "more signal."
    )
    return faster(since, len(offline) - 1, sentence)


def ahead_from(fast: Any, slow: Any) -> int:
    """The round from which on `fast` errs less to the end; one more than the last if it does not.

    >>> ahead_from([9.0, 5.0, 2.0, 1.0], [9.0, 3.0, 3.0, 3.0])
    2
    """
    behind = np.flatnonzero(np.asarray(fast)[1:] >= np.asarray(slow)[1:])
    return int(behind[-1]) + 2 if len(behind) else 1


def faster(since: list[int], rounds: int, sentence: str) -> Finding:
    """One rule for "converges faster", on every network: ahead at the end, and since when.

    Confirmed if it is ahead from some round in the first tenth on, corrected if only later, refuted
    if not at the last round.
    """
    if max(since) > rounds:
        return Finding(Verdict.REFUTED, sentence)
    soon = max(since) <= max(1, START * rounds)
    rule = f" Faster is what leads from the first {100 * START:.0f}% of the rounds on."
    return judged(soon, sentence + rule, Verdict.CORRECTED)


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
            Claim(
                "Online, Network DP has a noticeable cost at epsilon = 1 and Signal DP has none.",
                noticeable,
                quote=r"even moderate protection of network neighborhoods ($\eps = 1$) come at a "
                "noticeable cost to accuracy",
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
                "Offline, Signal DP of the smallest signals is costly even at epsilon = 10.",
                costly,
                quote=r"even at a relatively high privacy budget ($\eps = 10$) comes at a huge "
                "cost to accuracy",
            ),
            Claim(
                "Offline, Network DP at epsilon = 1 leaves a moderate accuracy.",
                moderate,
                quote="even requiring a moderate accuracy in the case of the German household "
                r"dataset comes at a high cost to privacy ($\eps = 1$)",
            ),
            Claim(
                "Online, Signal DP converges at epsilon = 10.",
                convergent,
                quote=r"Choosing $\eps$ large enough leads to a convergent behavior for the German "
                "household dataset",
            ),
            *FASTER,
        ),
    ),
)  # fmt: skip
