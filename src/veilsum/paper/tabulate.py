"""Tables of errors, measured and expected: rows of plain numbers, which become the CSV files.

Most verdicts are judged by expected errors, which need no sampling. Statistics of the drawn signals
are normal, log s ~ N(mu, sigma^2), or max(log s, log floor) where the family has a lower bound.
Noise enters through its variance alone, so a scale that depends on the signal counts by its second
moment, here in closed form: with the published sensitivity b = max(a, c/s),

    E b^2 = a^2 P(X < log a) + E[e^{2X}; log a < X < cap] + e^{2 cap} P(X > cap),

X = log c - log s ~ N(log c - mu, sigma^2), a the scale for Network DP, cap = log(c/floor).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, theory
from veilsum.algorithms import Algorithm
from veilsum.families import LogNormal, Normal
from veilsum.privacy import PrivacyRequest, SignalDP, plan
from veilsum.results import Result
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.theory import Expected

Floats = NDArray[np.float64]
LOW, HIGH = 0.1, 0.9  # quantiles of the replicas that a band shows
MOST_AGENTS = 2000  # with scales that differ between agents all eigenvectors are needed


def frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame."""
    pd = _extras.load("pandas")
    return pd.DataFrame(rows)


def error_rows(result: Result, **labels: Any) -> list[dict[str, Any]]:
    """Final errors of a result: a row per epsilon, mean over replicas, with the band of CoP."""
    trace = result.trace
    cod = float(trace.decentralisation[-1].mean())
    rows = []
    for k, epsilon in enumerate(result.problem.run_epsilons):
        total, privacy = trace.total[-1, k], trace.privacy[-1, k]
        low, high = np.quantile(privacy, [LOW, HIGH])
        rows.append(
            {
                **labels, "algorithm": result.problem.algorithm.name,
                "protects": result.problem.privacy.protects,
                "rounds": result.problem.rounds, "replicas": result.problem.replicas,
                "epsilon": epsilon, "te": total.mean(), "cop": privacy.mean(), "cod": cod,
                "cop_low": low, "cop_high": high,
                "guarantee": str(result.run_guarantee(epsilon).status),
            }
        )  # fmt: skip
    return rows


def round_rows(result: Result, **labels: Any) -> list[dict[str, Any]]:
    """Errors of a result over rounds at its first epsilon: mean and band of the replicas."""
    trace = result.trace
    kinds = {"cod": trace.decentralisation}
    if result.problem.run_epsilons:
        kinds |= {"te": trace.total[:, 0], "cop": trace.privacy[:, 0]}
    rows = []
    for t in range(len(trace.total)):
        row = {**labels, "round": t}
        for name, values in kinds.items():
            low, high = np.quantile(values[t], [LOW, HIGH])
            row |= {name: values[t].mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return rows


def path_rows(result: Result, **labels: Any) -> list[dict[str, Any]]:
    """Estimates of the recorded agents: first epsilon, first replica.

    Of recorded signals, estimates without noise are left out.
    """
    trace, names = result.trace, result.problem.network.labels
    rows = range(len(names)) if isinstance(trace.rows, slice) else trace.rows
    private, noiseless = trace.private, trace.noiseless
    made = []
    for k, t in enumerate(trace.recorded_rounds):
        for j, agent in enumerate(rows):
            row = {**labels, "round": t, "agent": names[agent], "target": trace.target[0, 0]}
            if private is not None and result.problem.run_epsilons:
                row["private"] = private[k, j, 0, 0, 0]
            if noiseless is not None and not result.problem.source.measured:
                row["noiseless"] = noiseless[k, j, 0, 0]
            made.append(row)
    return made


def value(table: Any, column: str, method: str, task: str, epsilon: float) -> float:
    """One number of a sweep's table."""
    at = (table.method == method) & (table.task == task)
    found = table[at & np.isclose(table.epsilon, epsilon)]
    return float(found[column].iloc[0])


def parameters(problem: Problem) -> tuple[float, float, float]:
    """mu, sigma and the floor (0 if there is none) of the log-normal signals of a problem."""
    family, source = problem.family, problem.source
    assert isinstance(family, LogNormal)
    assert isinstance(source, SyntheticSignals)
    floor = family.bounds[0] if family.bounds is not None else None
    return float(source.parameters["mu"]), family.spread, float(floor or 0.0)


def moments(problem: Problem) -> tuple[float, float]:
    """Mean and standard deviation of the statistic."""
    mu, sigma, floor = parameters(problem)
    return clipped_moments(mu, sigma, math.log(floor)) if floor else (mu, sigma)


def clipped_moments(mu: float, sigma: float, low: float) -> tuple[float, float]:
    """Mean and standard deviation of max(X, low), X ~ N(mu, sigma^2)."""
    norm = _extras.load("scipy.stats").norm
    z = (mu - low) / sigma
    above, at = float(norm.cdf(z)), float(norm.pdf(z))
    first = (mu - low) * above + sigma * at  # E (X - low)+
    second = ((mu - low) ** 2 + sigma**2) * above + (mu - low) * sigma * at
    return low + first, math.sqrt(second - first**2)


def squared_scale(a: Any, c: Any, mu: float, sigma: float, floor: float = 0.0) -> Floats:
    """E max(a, c/max(s, floor))^2 for log s ~ N(mu, sigma^2); a and c may be arrays."""
    norm = _extras.load("scipy.stats").norm
    a, c = np.broadcast_arrays(np.asarray(a, float), np.asarray(c, float))
    m = np.log(c) - mu
    with np.errstate(divide="ignore"):
        low = np.log(a)
    cap = np.log(c / floor) if floor else np.full_like(m, math.inf)
    cap = np.maximum(cap, low)
    shifted = m + 2 * sigma**2
    between = norm.cdf((cap - shifted) / sigma) - norm.cdf((low - shifted) / sigma)
    found = a**2 * norm.cdf((low - m) / sigma) + np.exp(2 * m + 2 * sigma**2) * between
    top = np.exp(2 * np.where(np.isfinite(cap), cap, 0.0))
    return np.asarray(found + np.where(np.isfinite(cap), top * norm.sf((cap - m) / sigma), 0.0))


def scales(problem: Problem) -> Floats:
    """(agents, epsilons): the root mean square of every agent's scale in a round with noise."""
    planned = plan(
        problem.privacy, problem.family, problem.algorithm, problem.network, problem.rounds
    )
    if not planned.reads_signals:
        ones = np.ones((problem.network.size, 1))
        return np.concatenate([planned.scale(ones, e, 1) for e in problem.run_epsilons], axis=1)
    epsilons, (mu, sigma, floor) = np.array(problem.run_epsilons), parameters(problem)
    a = planned.network[:, None] * planned.per_network(epsilons, 1)
    c = planned.privacy.reach * planned.per_signal(epsilons, 1)[None]
    return np.sqrt(squared_scale(a, c, mu, sigma, floor))


def expected(problem: Problem) -> Expected | None:
    """Expected errors of a problem in every round, or None where only sampling is affordable."""
    made = parameters(problem)
    network, family = cast(Hashable, problem.network), cast(Hashable, problem.family)
    return _expected(
        network, problem.algorithm, family, made, problem.privacy, problem.rounds,
        problem.run_epsilons,
    )  # fmt: skip


@lru_cache(maxsize=64)  # neither the seed nor the replicas have an effect
def _expected(
    network: Any,
    algorithm: Algorithm,
    family: LogNormal,
    made: tuple[float, float, float],
    privacy: PrivacyRequest,
    rounds: int,
    epsilons: tuple[float, ...],
) -> Expected | None:
    source = SyntheticSignals(family, {"mu": made[0]}, network.size, 0)
    problem = Problem(network, algorithm, family, source, privacy, rounds, epsilons)
    mean, deviation = moments(problem)
    normal = Normal(sigma=deviation)
    statistics = SyntheticSignals(normal, {"mu": mean}, network.size, 0)
    if not privacy.adds_noise:
        return theory.expected(Problem(network, algorithm, normal, statistics, privacy, rounds))
    each = scales(problem)
    if network.size > MOST_AGENTS and not (each == each[0]).all():
        return None
    request = SignalDP(epsilons[0])  # its noise is replaced by `scales`
    replaced = Problem(network, algorithm, normal, statistics, request, rounds, epsilons)
    return theory.expected(replaced, scales=each)


def truth(found: Expected) -> tuple[Floats, Floats]:
    """Errors against E xi, without noise and with it: (rounds + 1,), (rounds + 1, epsilons).

    Offline, a run measures against the mean of its signals. E xi is the target of offline and
    online algorithms alike, so that the sampling error of the signals counts.
    """
    with_noise = found.sampling[:, None] ** 2 + found.shared_noise**2 + found.disagreement**2
    noiseless = with_noise[:, 0] - found.privacy[:, 0] ** 2
    return np.sqrt(np.maximum(noiseless, 0.0)), np.sqrt(with_noise)


def largest(problem: Problem) -> float:
    """E M_n = E max_i |xi_i|: the integral of 1 - P(|xi| <= x)^n."""
    quad = _extras.load("scipy.integrate").quad
    norm = _extras.load("scipy.stats").norm
    n, (mean, deviation) = problem.network.size, moments(problem)

    def tail(x: float) -> float:
        inside = norm.cdf((x - mean) / deviation) - norm.cdf((-x - mean) / deviation)
        return float(1 - inside**n)

    high = abs(mean) + 12 * deviation
    return float(quad(tail, 0.0, high, points=[abs(mean) + k * deviation for k in (2, 4, 6)])[0])


def expected_rows(found: Expected, **labels: Any) -> list[dict[str, Any]]:
    """Expected errors over rounds at the first epsilon, as a run measures them and against E xi."""
    noiseless, private = truth(found)
    return [
        {**labels, "round": t, "te": found.total[t, 0], "cop": found.privacy[t, 0],
         "cod": found.decentralisation[t], "truth": private[t, 0],
         "truth_noiseless": noiseless[t]}
        for t in range(len(found.total))
    ]  # fmt: skip


def last(table: Any, column: str, variant: str) -> float:
    """A variant's number in the last round of a table over rounds."""
    part = table[table.variant == variant]
    return float(part.loc[part["round"].idxmax(), column])
