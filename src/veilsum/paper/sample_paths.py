"""Sample paths with their errors: offline and online, Signal and Network DP, on both networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _extras, theory
from veilsum._types import Network
from veilsum.algorithms import LearnNetwork
from veilsum.front.paths import compare
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
from veilsum.paper.sweeps import TITLES, exact_noise
from veilsum.paper.tabulate import expected, expected_rows, frame, last, path_rows, round_rows
from veilsum.privacy import NoPrivacy
from veilsum.results import Result
from veilsum.simulation import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTLED, LONG = 5, 300  # rounds
AGENTS, MU, SIGMA = 969, 1.67, 1.04  # of the households, as in their scenarios


def measure_real(experiment: Experiment, context: Context) -> Measurement:
    """As `measure`, and how far the fixed points of the online algorithms are from the mean."""
    found = measure(experiment, context)
    problem = next(r.problem for r in found.results.values() if r.problem.algorithm.online)
    tables = {**found.tables, "fixed": frame([fixed_points(problem)])}
    return Measurement(tables, found.results)


def fixed_points(problem: Problem) -> dict[str, float]:
    """Distance of (2I - A)^-1 m from the mean, m the agents' own means over the rounds, and of m.

    `alike` is the expected error of Alg. 5 on agents with one distribution and the variance of all
    readings.
    """
    xi = np.stack([
        problem.family.columns(problem.source.signals(t, 1))[:, 0, 0]
        for t in range(1, problem.rounds + 1)
    ])  # fmt: skip
    means = xi.mean(axis=0) - xi.mean()
    limit = fixed_point(problem.network, means)
    same = replace(problem, algorithm=LearnNetwork(), privacy=NoPrivacy(), epsilons=())
    alike = theory.expected(same, deviation=float(xi.std())).decentralisation[-1]
    return {
        "limit": float(np.linalg.norm(limit)), "differ": float(np.linalg.norm(means)),
        "alike": float(alike),
    }  # fmt: skip


def fixed_point(network: Network, means: Any) -> Any:
    """(2I - A)^-1 m, to which Alg. 5 tends where the agents' means are m (erratum 20)."""
    A = network.at(1).toarray()
    return np.linalg.solve(2 * np.eye(len(A)) - A, means)


def measure(experiment: Experiment, context: Context) -> Measurement:
    """Run each variant and record the paths of ten agents; the tables have what the panels show."""
    results, paths, errors, exact = {}, [], [], []
    for job in experiment.jobs(context):
        result = results[job.name] = run(job, context)
        paths += path_rows(result, variant=job.name)
        errors += round_rows(result, variant=job.name)
        exact += expected_paths(result)
    tables = {"": frame(errors), "paths": frame(paths)}
    return Measurement(tables | ({"expected": frame(exact)} if exact else {}), results)


def expected_paths(result: Result) -> list[dict[str, Any]]:
    """Expected errors over rounds; none for recorded signals.

    Where only sampling is affordable (thousands of agents whose scales differ) the noise counts
    as it was measured: its norm over so many agents is within a few percent of its expectation.
    """
    problem, trace = result.problem, result.trace
    if problem.source.measured:
        return []
    found = expected(problem)
    if found is not None:
        return expected_rows(found, variant=result.name, noise="expected")
    noiseless = expected(replace(problem, privacy=NoPrivacy(), epsilons=()))
    assert noiseless is not None
    rows = expected_rows(noiseless, variant=result.name, noise="measured")
    cops = np.sqrt((trace.privacy[:, 0] ** 2).mean(axis=-1))
    return [
        row | {"cop": cop, "te": np.hypot(row["cod"], cop), "truth": np.hypot(row["truth"], cop)}
        for row, cop in zip(rows, cops.tolist(), strict=True)
    ]


def draw(measured: Measurement) -> Figure:
    """Paths above, errors below, a column per algorithm."""
    figure = compare(measured.results)
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


def early(column: Iterable[Axes], result: Result) -> None:
    """Offline, agents agree within the first of many rounds: use a logarithmic axis."""
    if result.problem.algorithm.online or result.problem.rounds < LONG:
        return
    for ax in column:
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(left=0)


def unaffected(measured: Measurement, claim: Claim) -> Finding:
    """Signal DP: expected total error against the same without noise."""
    words, holds = [], True
    for name in ("offline-signal", "online-signal"):
        te, cod = (last(measured.tables["expected"], kind, name) for kind in ("te", "cod"))
        holds = holds and te < claim.threshold * cod
        words.append(f"{name} TE {te:.4g} with noise, {cod:.4g} without")
    return judged(holds, f"Expected at the last round: {'; '.join(words)}.")


def costly(measured: Measurement, claim: Claim) -> Finding:
    """Offline, Signal DP: what noise adds to the error, and what small signals cause.

    Against the MVUE, the paper's offline target, the error without noise tends to 0 and any noise
    is many times that; against E xi the sampling error counts too. A cost on both is confirmed.
    """
    table = measured.tables["expected"]
    te, cod, truth, without = (
        last(table, kind, "offline-signal") for kind in ("te", "cod", "truth", "truth_noiseless")
    )
    below, fraction = small_signals()
    costs = [te > claim.threshold * cod, truth > claim.threshold * without]
    sentence = (
        f"Expected at the last round, epsilon = 10: against the MVUE, the paper's target, the error is "
        f"{te:.3g} with noise and {cod:.2g} without, which tends to 0. But {te:.3g} is "
        f"{100 * relative(te):.2g}% of the mean per agent, and against E xi the error is {truth:.4g} "
        f"with noise and {without:.4g} without: noise adds {100 * (truth / without - 1):.2g}%. "
        f"{100 * fraction:.0f}% of the noise's variance comes from the {100 * below:.1f}% of signals "
        "below 1."
    )
    return judged(all(costs), sentence, Verdict.CORRECTED if any(costs) else Verdict.REFUTED)


def small_signals() -> tuple[float, float]:
    """P(s < 1), and the fraction of E b^2, b proportional to 1/s, that is due to such signals.

    E[s^-2; s < 1]/E s^-2 = Phi((2 sigma^2 - mu)/sigma) for log s normal.
    """
    norm = _extras.load("scipy.stats").norm
    below, fraction = norm.cdf([-MU, 2 * SIGMA**2 - MU], scale=SIGMA)
    return float(below), float(fraction)


def relative(error: float) -> float:
    """Root mean square error of an agent over the mean, from the norm over all households."""
    return error / float(np.sqrt(AGENTS)) / MU


def moderate(measured: Measurement, claim: Claim) -> Finding:
    """Offline, Network DP: whether epsilon = 1 allows no more than a moderate accuracy."""
    te = last(measured.tables["expected"], "te", "offline-network")
    return judged(
        relative(te) > claim.threshold,
        f"Expected at the last round, epsilon = 1: TE {te:.3g}, {100 * relative(te):.2g}% of the "
        "mean per agent.",
    )


def convergent(measured: Measurement, claim: Claim) -> Finding:
    """Online, Signal DP: whether the error still falls at the end, as if there were no noise."""
    te, cod = (
        _over_rounds(measured.tables["expected"], kind, "online-signal") for kind in ("te", "cod")
    )
    T = len(te) - 1
    return judged(
        bool(te[-1] < claim.threshold[0] * te[T // 4] and te[-1] < claim.threshold[1] * cod[-1]),
        f"Expected, epsilon = 10: TE {te[T // 4]:.3g} at round {T // 4:,} and {te[-1]:.3g} at "
        f"round {T:,}, {cod[-1]:.3g} without noise (t^-1/2 would halve it).",
    )


def noticeable(measured: Measurement, claim: Claim) -> Finding:
    """Online on the US grid at epsilon = 1: the cost of Network DP and of Signal DP."""
    table = measured.tables["expected"]
    ratios = {
        kind: last(table, "te", f"online-{kind}") / last(table, "cod", f"online-{kind}")
        for kind in ("signal", "network")
    }
    words = ", ".join(f"{ratio:.3g} with {kind} DP" for kind, ratio in ratios.items())
    return judged(
        ratios["network"] > claim.threshold > ratios["signal"],
        f"Expected TE over that without noise at the last round, online, epsilon = 1: {words}.",
    )


def learn_is_faster(measured: Measurement, claim: Claim) -> Finding:
    """Alg. 4 against Alg. 5 without noise; in rounds 1 and 2 they do the same."""
    table = measured.tables["expected"]
    fast, slow = (_over_rounds(table, "cod", f"online-{kind}") for kind in ("signal", "network"))
    since = ahead_from(fast, slow)
    return faster(
        [since],
        claim.threshold * (len(fast) - 1),
        len(fast) - 1,
        f"Expected CoD at the last round is {fast[-1]:.3g} for Alg. 4 and {slow[-1]:.3g} for "
        f"Alg. 5, and smaller for Alg. 4 from round {since} on.",
    )


def online_is_faster(measured: Measurement, claim: Claim) -> Finding:
    """All three against E xi: true once the online algorithms have overcome their slower start."""
    table = measured.tables["expected"]
    words, since = [], []
    for kind, column in (("without noise", "truth_noiseless"), ("with noise", "truth")):
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
    return faster(since, claim.threshold * (len(offline) - 1), len(offline) - 1, sentence)


def ahead_from(fast: Any, slow: Any) -> int:
    """The first round after which `fast` has the smaller error; one more than the last if none.

    >>> ahead_from([9.0, 5.0, 2.0, 1.0], [9.0, 3.0, 3.0, 3.0])
    2
    """
    behind = np.flatnonzero(np.asarray(fast)[1:] >= np.asarray(slow)[1:])
    return int(behind[-1]) + 2 if len(behind) else 1


def faster(since: list[int], start: float, rounds: int, sentence: str) -> Finding:
    """One rule for "converges faster", on every network: ahead at the end, and since when.

    Confirmed if it is ahead from round `start` at the latest, corrected if only later, refuted
    if not at the last round.
    """
    if max(since) > rounds:
        return Finding(Verdict.REFUTED, sentence)
    return judged(max(since) <= max(1, start), sentence, Verdict.CORRECTED)


def _over_rounds(table: Any, column: str, name: str) -> Any:
    part = table[table.variant == name].sort_values("round")
    return part[column].to_numpy()


def households_differ(measured: Measurement, claim: Claim) -> Finding:
    """Alg. 5 on recorded readings, without noise, against Alg. 5 on households that are alike."""
    cods = measured.table.groupby("variant", sort=False).cod.last()
    fast, slow = (float(cods[name]) for name in cods.index if "online" in name)
    row = measured.tables["fixed"].iloc[0]
    sentence = (
        f"Without noise Alg. 5 ends {slow:.4g} from the mean of all readings, and Alg. 4 {fast:.3g}. "
        f"With one distribution for all, as the paper has it, {row.alike:.3g} would be expected of Alg. 5, "
        f"and less with every reading. But the households' own means are {row.differ:.3g} from the mean, "
        f"and the fixed point of Alg. 5, (2I - A)^-1 m, {row.limit:.3g}: with agents that differ no "
        "number of readings leads to the mean (erratum 20)."
    )
    return judged(slow < claim.threshold * row.alike, sentence, Verdict.CORRECTED)


def cheap(measured: Measurement, claim: Claim) -> Finding:
    """Total error on recorded readings against the error without noise."""
    words, ratios = [], {}
    for name, result in measured.results.items():
        task = name.split(".")[1]
        cod = float(measured.table[measured.table.variant == name].cod.iloc[-1])
        te = float(np.hypot(exact_noise(result)[0], cod))
        ratios[task] = te / cod
        words.append(f"{task} TE {te:.3g}, without noise {cod:.3g}")
    ratio = ratios["online-signal"]
    sentence = (
        f"Expected on the last day, at epsilon = 1: {'; '.join(words)}. Of Alg. 4 that is {ratio:.3f} "
        "times the error without noise."
    )
    return judged(ratio < claim.threshold, sentence)


EXPERIMENTS = (
    Experiment(
        id="fig-paths-us",
        title=f"Sample paths: {TITLES['us']}",
        reference="Figures sample_paths_* (the US power grid's half)",
        scenarios=shipped("fig-paths-us"),
        measure=measure,
        draw=draw,
    ),
    Experiment(
        id="fig-paths-households",
        title=f"Sample paths: {TITLES['households']}",
        reference="Figures sample_paths_* (the households' half)",
        scenarios=shipped("fig-paths-households"),
        measure=measure,
        draw=draw,
    ),
    Experiment(
        id="fig-paths-real",
        title="Sample paths: 537 Swiss households",
        reference="Figures sample_paths_*, on real readings",
        scenarios=shipped("fig-paths-real"),
        measure=measure_real,
        draw=draw,
    ),
)
