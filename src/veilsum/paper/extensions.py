"""Statements of the paper about other networks, without plots: naive noise, failing and directed links.

Naive noise is a remark of Sec. 3, dynamic networks are App. C.1, directed ones App. C.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum.front import style
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
from veilsum.paper.tabulate import expected, expected_rows, frame, last, round_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EVERY, ONCE = "noise in every round", "noise at the start"
AS_PUBLISHED = f"{EVERY}, as published"
CHANGING = 12  # agents of the changing networks whose rates are computed
RATE_ROUNDS, QUICK_RATE_ROUNDS = 2000, 200
FAILING = 0.3  # probability that a link fails in a round, as in the scenario
MU = 1.67  # E xi, as in the scenarios


def naive(experiment: Experiment, context: Context) -> Measurement:
    """Errors over rounds with noise in every round and with noise once, measured and expected."""
    rows, exact = [], []
    for job in experiment.jobs(context):
        rows += round_rows(run(job, context), variant=job.title)
        found = expected(job.problem)
        assert found is not None
        exact += expected_rows(found, variant=job.title)
    return Measurement({"": frame(rows), "expected": frame(exact)})


def draw_naive(measured: Measurement) -> Figure:
    """Cost of privacy over rounds; a random walk has slope 1/2."""
    figure = style.figure(6.0, 4.2)
    ax = figure.add_subplot()
    curves(ax, measured.table, "cop")
    style.scale(ax, x="log", y="log")
    ax.set(xlabel="round t", ylabel=f"cost of privacy, {style.NORM}")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)
    return figure


def curves(ax: Axes, table: Any, column: str) -> None:
    """A curve per variant, with the band of its replicas."""
    for colour, name in zip(style.VARIANTS, dict.fromkeys(table.variant), strict=False):
        part = table[(table.variant == name) & (table["round"] > 0)]
        ax.plot(part["round"], part[column], color=colour, linewidth=1.4, label=name)
        low, high = part[f"{column}_low"], part[f"{column}_high"]
        ax.fill_between(part["round"], low, high, color=colour, alpha=style.BAND, linewidth=0)


def diverges(measured: Measurement, claim: Claim) -> Finding:
    """E CoP^2 must grow in proportion to t under both noises, and settle if noise comes once."""
    table = measured.tables["expected"]
    growth = {name: _growth(table, name) for name in (EVERY, AS_PUBLISHED, ONCE)}
    grown, settled = (last(table, "cop", name) for name in (EVERY, ONCE))
    sentence = (
        f"Expected CoP after {table['round'].max():,} rounds is {grown:.3g} with noise in every "
        f"round and {settled:.3g} with noise at the start (log s with s >= 1). Its square grew in "
        f"the last half of the rounds {growth[EVERY]:.2f} times as fast as in the quarter before "
        f"({growth[AS_PUBLISHED]:.2f} times with the published noise): a straight line in t, to "
        "which "
        "the agents' disagreement adds a constant in proportion to n."
    )
    low, high = claim.threshold
    walks = all(low < growth[name] < high for name in (EVERY, AS_PUBLISHED))
    return judged(walks and grown > settled and abs(growth[ONCE]) < low, sentence)


def _growth(table: Any, name: str) -> float:
    """Growth of E CoP^2 a round in the last half of the rounds, over that in the quarter before."""
    part = table[table.variant == name].set_index("round").cop ** 2
    T = int(part.index.max())
    late, early = (part[T] - part[T // 2]) / (T - T // 2), part[T // 2] - part[T // 4]
    return float(late / (early / (T // 2 - T // 4))) if early > 1e-12 * part[T] else 0.0


def dynamic(experiment: Experiment, context: Context) -> Measurement:
    """Errors and the mean estimate over rounds, with 30% of the links down in every round."""
    rows, paths = [], []
    for job in experiment.jobs(context):
        result = run(job, context)
        rows += round_rows(result, variant=job.title)
        estimates = result.trace.noiseless
        assert estimates is not None
        paths += [
            {"variant": job.title, "round": t, "mean_estimate": estimates[k, :, 0, 0].mean(),
             "target": result.trace.target[0, 0]}
            for k, t in enumerate(result.trace.recorded_rounds)
        ]  # fmt: skip
    return Measurement({"": frame(rows), "paths": frame(paths), "rates": frame(rates(context))})


def rates(context: Context) -> list[dict[str, Any]]:
    """Exact errors of the corrected online rule on changing networks, signals of variance 1.

    S_t = ((t-2) I + A_t)/(t-1) S_{t-1} + x_t, so with nu_t = S_t/t the covariance C of S obeys
    C_t = W_t C_{t-1} W_t' + I, and E||nu_t - m||^2 = tr C_t/t^2. W_t is doubly stochastic and
    symmetric, so tr C_t <= n t: the error is at most sqrt(n/t), whatever the networks do.
    """
    rounds = QUICK_RATE_ROUNDS if context.quick else RATE_ROUNDS
    rows = []
    for name, weights in changing(context.seed).items():
        C = np.eye(CHANGING)
        for t in range(2, rounds + 1):
            W = ((t - 2) * np.eye(CHANGING) + weights(t)) / (t - 1)
            C = W @ C @ W.T + np.eye(CHANGING)
            if t in (10, rounds // 10, rounds):
                error = float(np.sqrt(np.trace(C))) / t
                rows.append({"network": name, "round": t, "error": error,
                             "bound": float(np.sqrt(CHANGING / t))})  # fmt: skip
    return rows


def changing(seed: int) -> dict[str, Callable[[int], Any]]:
    """Sequences of networks with the weights of App. C.1; the last has no links."""
    rng, n = np.random.default_rng(seed), CHANGING
    ring = [(i, (i + 1) % n) for i in range(n)]

    def failing(t: int) -> Any:  # noqa: ARG001 - drawn in every round
        return modified([link for link in ring if rng.random() > FAILING])

    return {
        "a ring, 30% of its links down": failing,
        "one link of the ring a round": lambda t: modified([ring[t % n]]),
        "the same pairs in every round": lambda t: modified(ring[::2]),  # noqa: ARG005 - the same
        "no links at all": lambda t: np.eye(n),  # noqa: ARG005 - the same
    }


def modified(links: list[tuple[int, int]]) -> Any:
    """a_ij = 1/(2 max(deg i, deg j)), the rest on the diagonal."""
    A = np.zeros((CHANGING, CHANGING))
    degrees = np.bincount(np.ravel(links).astype(int), minlength=CHANGING)
    for i, j in links:
        A[i, j] = A[j, i] = 1 / (2 * max(degrees[i], degrees[j]))
    return A + np.diag(1 - A.sum(axis=1))


def exponents(measured: Measurement) -> str:
    """The power of t at which exact errors fall over the last nine tenths of the rounds, in words.

    No verdict: as a bound t^(-1/n^3) holds for anything that falls as t^-1/2, which is proved above
    for every sequence of networks, so no numbers could decide otherwise.
    """
    words = []
    for name, part in measured.tables["rates"].groupby("network", sort=False):
        first, final = part.iloc[1], part.iloc[-1]
        power = np.log(final.error / first.error) / np.log(final["round"] / first["round"])
        words.append(f"{name} t^{power:.2f}")
    return (
        f"So corrected, its exact errors with {CHANGING} agents fall as: {'; '.join(words)}. The "
        "published t^(-1/n^3) is loose, as a bound, and not the rate (erratum 18)."
    )


def draw_dynamic(measured: Measurement) -> Figure:
    """Mean estimates on the left, errors on the right."""
    figure = style.figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    paths = measured.tables["paths"]
    for colour, name in zip(style.VARIANTS, dict.fromkeys(paths.variant), strict=False):
        part = paths[(paths.variant == name) & (paths["round"] > 0)]
        left.plot(part["round"], part.mean_estimate, color=colour, linewidth=1.4, label=name)
    left.axhline(MU, color=style.INK, linewidth=1, label="E ξ")
    curves(right, measured.table, "cod")
    style.scale(left, x="log")
    style.scale(right, x="log", y="log")
    left.set(xlabel="round t", ylabel="mean estimate of ten agents")
    right.set(xlabel="round t", ylabel=f"error without noise, {style.NORM}")
    left.legend(fontsize=8, frameon=False)
    for ax in (left, right):
        style.tidy(ax)
    return figure


def converges(measured: Measurement, claim: Claim) -> Finding:
    """The online rule of App. C.1 as published and with its weights put right."""
    paths = measured.tables["paths"]
    published, corrected = (
        last(paths, "mean_estimate", f"online, {k}") for k in ("published", "corrected")
    )
    slow, fast = (
        last(measured.table, "cod", f"online, {k}") for k in ("corrected", "Alg. 4 with A_t")
    )
    T = int(paths["round"].max())
    harmonic = MU * float(np.sum(1 / np.arange(1, T + 1)))
    sentence = (
        f"After {T:,} rounds the estimate of the published rule is {published:.3g} (E xi times the harmonic "
        f"number: {harmonic:.3g}), that of the corrected one {corrected:.4g}; E xi = "
        f"{MU}. Weights that add up to 1 + 1/t are one 1/t too many (erratum "
        f"1). Alg. 4 with A_t needs no other weights: without noise its error is {fast:.3g}, that of "
        f"the corrected rule {slow:.3g}. {exponents(measured)}"
    )
    # ten agents' mean errs by about 0.01 after 1,000 rounds: 0.1 is ten deviations
    right = abs(corrected - MU) < claim.threshold
    otherwise = Verdict.CORRECTED if right else Verdict.REFUTED
    return judged(abs(published - MU) < claim.threshold, sentence, otherwise)


def average_converges(measured: Measurement, claim: Claim) -> Finding:
    """Offline averaging over failing links."""
    part = measured.table[measured.table.variant == "offline"].set_index("round").cod
    start, end = float(part.iloc[0]), float(part.iloc[-1])
    return judged(
        end < claim.threshold * start,
        f"With 30% of the links down, CoD of the average falls from {start:.3g} to {end:.2g} in "
        f"{int(part.index.max()):,} rounds.",
    )


def directed(experiment: Experiment, context: Context) -> Measurement:
    """Plain averaging on row-stochastic weights, push-sum on column-stochastic ones."""
    rows, limits, weights = [], [], []
    for job in experiment.jobs(context):
        problem = job.problem
        rows += round_rows(run(job, context), variant=job.title)
        ratio = problem.network.size * float((problem.mass**2).sum())
        known = {"variance_over_best": ratio, "agents": problem.network.size}
        limits.append({"variant": job.title, **known})
        weights += [stationary(problem.network)] if job.name == "average" else []
    tables = {"": frame(rows), "limits": frame(limits), "stationary": frame(weights)}
    return Measurement(tables)


def stationary(network: Any) -> dict[str, float]:
    """The limit of A^t: exact, from the matrix."""
    A = network.at(1).toarray()
    n = len(A)
    limit, uniform = np.linalg.matrix_power(A, 4096)[0], np.full(n, 1 / n)
    return {
        "agents": n, "largest_weight": float(limit.max()),
        "off_right": float(np.abs(A @ uniform - uniform).max()),  # A q = q has the uniform q
        "limit_off_right": float(np.abs(A @ limit - limit).max()),
        "limit_off_left": float(np.abs(A.T @ limit - limit).max()),
    }  # fmt: skip


def draw_directed(measured: Measurement) -> Figure:
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


def weighted(measured: Measurement, _claim: Claim) -> Finding:
    """The limit of plain averaging, its variance, and the limit of push-sum.

    The graph is fixed, and with it the variance of the limit. How far that is from the uniform mean
    is one normal number of deviation near 2: below 1e-12 with a chance near 1e-12.
    """
    names = list(dict.fromkeys(measured.table.variant))
    plain, ratio = (last(measured.table, "cod", name) for name in names)
    variance = float(measured.tables["limits"].variance_over_best.iloc[0])
    sentence = (
        f"Plain averaging ends {plain:.3g} away from the uniform mean; its limit, weighted by the "
        f"stationary distribution, has {variance:.1f} times the least variance. Push-sum comes "
        f"within {ratio:.1g}."
    )
    return judged(plain > 10 * ratio and variance > 1, sentence)


def transposed(measured: Measurement, _claim: Claim) -> Finding:
    """Which of A q = q and A' q = q the limit's weights obey."""
    row = measured.tables["stationary"].iloc[0]
    left, right = row.limit_off_left < 1e-9, row.limit_off_right < 1e-9
    sentence = (
        f"The weights of the limit, up to {row.largest_weight:.2g} and 1/n = {1 / row.agents:.2g} "
        f"on average, are off A q = q by {row.limit_off_right:.2g} and off A' q = q by "
        f"{row.limit_off_left:.1g}. Rows that add up to 1 give A q = q the uniform q "
        f"({row.off_right:.1g} off): the transpose is missing (erratum 14)."
    )
    return judged(right, sentence, Verdict.CORRECTED if left else Verdict.REFUTED)


EXPERIMENTS = (
    Experiment(
        id="fig-naive",
        title="Network noise in every round",
        reference="Sec. 3, remark on Network DP (not plotted there)",
        scenarios=shipped("fig-naive"),
        measure=naive,
        draw=draw_naive,
    ),
    Experiment(
        id="fig-dynamic",
        title="30% of the links down in every round",
        reference="App. C.1 (not plotted there)",
        scenarios=shipped("fig-dynamic"),
        measure=dynamic,
        draw=draw_dynamic,
    ),
    Experiment(
        id="fig-directed",
        title="One-way links",
        reference="App. C.2 (not plotted there)",
        scenarios=shipped("fig-directed"),
        measure=directed,
        draw=draw_directed,
    ),
)
