"""Intervals, named by what they are intervals of.

    network   of the mean of all agents' estimates:  factor Cov(xi) + noise
    agent     of any one agent's estimate:           the same, and the variance between agents
    batches   of the network's mean over a stream whose readings are correlated

`factor` is the variance of the mean estimate per variance of one statistic, 1/(n T) for independent
readings; `noise` the variance of the mean that comes from the noise's scales; of a masked sum, whose
noise is not normal, the variance with which z is its exact quantile. For a statistic with one coordinate
per parameter the interval is the set of means that the estimate m does not reject,

    { mu : (m - mu)^2 <= z^2 (correlation factor V(mu) + extra) },   V(mu) = Var xi at mean mu,

which for a Bernoulli signal is Wilson's (V is a quadratic in mu for most families; elsewhere it is
taken at the estimate). It takes the variance at mu, not at the estimate, where it
may be 0 (no success among n trials), and so is never without width. An estimate that noise has
pushed out of the domain of E xi is first moved to its nearest edge: no value in the domain is
further from there than it was before, so the coverage cannot fall.

Correlated readings of a stream contain less information. `correlation` is the factor by which they
count less: tau = 1 + 2 sum of autocorrelations; 1 for independent readings. Where it is not known,
`batches` estimates the variance over time from what was released, which costs no privacy; it cannot
see constant differences between agents (a household that always uses little). correlation = inf
allows for these as well: all readings of an agent count as one, and the factor is 1/n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, _validate
from veilsum._types import Family
from veilsum.algorithms.table import response
from veilsum.errors import FamilyError, VeilsumError
from veilsum.families.base import Interval, quantile
from veilsum.simulation import Problem, Trace

Floats = NDArray[np.float64]
BATCHES = 20
SUMS = (  # t nu_t adds up what was released
    "learn", "learn-network", "learn-dynamic", "masked-learn",
)  # fmt: skip


def network_interval(
    problem: Problem,
    trace: Trace,
    e: int = 0,
    replica: int = 0,
    confidence: float = 0.95,
    correlation: float = 1.0,
) -> dict[str, Interval]:
    """Error bars of the mean of all agents' estimates."""
    place = check_run(trace, e, replica)
    return interval_of(
        problem.family, trace.mean[place], _variance_factor(problem, trace, correlation),
        _noise(problem, trace, place, confidence), confidence,
    )  # fmt: skip


def agent_interval(
    problem: Problem,
    trace: Trace,
    e: int = 0,
    replica: int = 0,
    confidence: float = 0.95,
    correlation: float = 1.0,
    estimates: Floats | None = None,
) -> dict[str, Interval]:
    """Error bars of one agent's estimate, disagreement included: around the mean, or its own."""
    place = check_run(trace, e, replica)
    extra = _noise(problem, trace, place, confidence) + trace.disagreement[place]
    centre = trace.mean[place] if estimates is None else estimates
    return interval_of(
        problem.family, centre, _variance_factor(problem, trace, correlation), extra, confidence
    )


def batch_interval(
    problem: Problem,
    trace: Trace,
    e: int = 0,
    replica: int = 0,
    confidence: float = 0.95,
    batches: int = BATCHES,
) -> dict[str, Interval]:
    """Error bars of the network's mean over a stream, correlated readings allowed for.

    The rounds are cut into batches. In sums, t mean_t adds up what was released, so that the mean
    of a batch is (t mean_t - s mean_s)/(t - s); their variance over the number of batches is that
    of the whole mean, noise included, once batches are longer than the readings' memory. Student's
    quantile with batches - 1 degrees of freedom stands for the normal one.
    """
    stats = _extras.load("scipy.stats")
    place = check_run(trace, e, replica)
    means = batch_means(problem, trace, e, replica, batches)
    variance = means.var(axis=0, ddof=1) / len(means)
    widen = stats.t.ppf((1 + confidence) / 2, len(means) - 1) / quantile(confidence)
    return interval_of(problem.family, trace.mean[place], 0.0, variance * widen**2, confidence)


def batch_means(
    problem: Problem, trace: Trace, e: int, replica: int, batches: int = BATCHES
) -> Floats:
    """(batches, d): what was released, on average over agents and over each batch of rounds."""
    _validate.at_least(VeilsumError, 2, batches=batches)
    if problem.privacy.batches is not None:
        raise VeilsumError(
            "batch means need releases in every round, and the readings here are released in "
            "growing batches; state correlation=... instead"
        )
    late = problem.algorithm.latest(1) != 1
    if late or problem.algorithm.name not in SUMS or problem.network.kind != "doubly-stochastic":
        raise VeilsumError(
            f"batch means need an algorithm that adds up a stream ({', '.join(SUMS)}) on doubly "
            f"stochastic weights; found {problem.algorithm.name} on {problem.network.kind} ones"
        )
    whole = isinstance(trace.rows, slice) or len(trace.rows) == problem.network.size
    if trace.private is None or not whole or len(trace.recorded_rounds) <= batches:
        raise VeilsumError(
            f"batch means need the estimates of all agents in more than {batches} rounds; run it "
            "with Record(every=1), or ask for fewer batches"
        )
    estimates = trace.private if problem.run_epsilons else trace.noiseless
    assert estimates is not None, "estimates were recorded"
    column = estimates[:, :, e, replica] if problem.run_epsilons else estimates[:, :, replica]
    totals = np.array(trace.recorded_rounds, dtype=np.float64)[:, None] * column.mean(axis=1)
    cuts = np.linspace(0, len(trace.recorded_rounds) - 1, batches + 1).astype(int)
    lengths = np.diff(np.array(trace.recorded_rounds)[cuts])[:, None]
    return np.asarray(np.diff(totals[cuts], axis=0) / lengths)


def interval_of(
    family: Family, mean: Any, factor: float, extra: Floats, confidence: float
) -> dict[str, Interval]:
    """An interval for E xi's parameters from an estimate, and the two parts of its variance."""
    quantile(confidence)
    if family.variance_in_mean is not None:
        return _by_score(family, np.asarray(mean, dtype=np.float64), factor, extra, confidence)
    parameters = {name: np.asarray(v) for name, v in family.parameter(_centre(mean)).items()}
    covariance = family.covariance(**parameters) * factor if factor else 0.0
    return dict(family.interval(mean, covariance + np.diag(np.atleast_1d(extra)), confidence))


def _by_score(
    family: Family, m: Floats, factor: float, extra: Floats, confidence: float
) -> dict[str, Interval]:
    """Every coordinate by itself: the ends of { mu : (m - mu)^2 <= z^2 (factor V(mu) + extra) }."""
    centre = np.clip(m, *family.mean_domain)
    low, high = _roots(centre, family.variance_in_mean, factor, extra, quantile(confidence))
    value = family.parameter(m)
    ends = [np.clip(end, *family.mean_domain) for end in (low, high)]
    several = family.dimension > 1  # the parameters are the means themselves
    one, two = (dict.fromkeys(value, end) if several else family.parameter(end) for end in ends)
    return {
        name: Interval(
            value[name],
            np.minimum(np.minimum(one[name], two[name]), value[name]),
            np.maximum(np.maximum(one[name], two[name]), value[name]),
        )
        for name in value
    }


def _roots(
    m: Floats, quadratic: Any, factor: float, extra: Floats, z: float
) -> tuple[Floats, Floats]:
    """Where (m - mu)^2 = z^2 (factor (a + b mu + c mu^2) + extra), a quadratic equation in mu.

    (1 - z^2 factor c) mu^2 - 2 (m + z^2 factor b/2) mu + m^2 - z^2 (factor a + extra) = 0
    """
    a, b, c = quadratic
    w = z**2 * factor
    lead, half = 1 - w * c, m + w * b / 2
    rest = m**2 - w * a - z**2 * extra
    root = np.sqrt(np.maximum(half**2 - lead * rest, 0.0))
    if lead <= 0:  # so few signals that no mean above is rejected
        return np.asarray(rest / (half + root)), np.full_like(half, np.inf)
    return np.asarray((half - root) / lead), np.asarray((half + root) / lead)


def _noise(problem: Problem, trace: Trace, place: tuple[int, int], confidence: float) -> Floats:
    """The variance of the noise in the mean, as the normal quantile takes it.

    Local noise is a sum of many draws, nearly normal. That of a masked sum is one discrete Laplace
    draw or a little more, of heavier tails: its quantile is computed from its exact distribution, and
    what is returned is never below its variance, for sampling is added to it.
    """
    variance = np.asarray(trace.noise_variance[place])
    if not problem.privacy.masked:
        return variance
    epsilon = problem.run_epsilons[place[0]]
    width = problem.calibration.masked_half_width(epsilon, problem.rounds, confidence)
    return np.asarray(np.maximum(variance, (width / quantile(confidence)) ** 2))


def check_run(trace: Trace, e: int, replica: int) -> tuple[int, int]:
    """The place of a run in the arrays, if there is such a run."""
    epsilons, replicas = trace.mean.shape[:2]
    for name, value, count in (("epsilon", e, epsilons), ("replica", replica, replicas)):
        _validate.at_least(VeilsumError, 0, **{name: value})
        if value >= count:
            raise VeilsumError(
                f"{name} {value} was not run; there are {count}, counted from 0: choose 0 to "
                f"{count - 1}"
            )
    return int(e), int(replica)


def _variance_factor(problem: Problem, trace: Trace, correlation: float) -> float:
    """Variance of the mean per variance of xi: never more than with one reading of each agent."""
    if not _validate.as_float(correlation) >= 1:
        raise VeilsumError(
            f"correlation must be a number of at least 1; found {_validate.found(correlation)}; "
            "1 is for independent readings, 4 for readings worth a fourth of as many, inf for "
            "readings of an agent that are worth one"
        )
    if correlation == 1:
        return float(trace.statistic_gain)
    whole = response(problem.algorithm, problem.rounds).statistic.sum() ** 2
    alike = float(whole * (problem.mass @ problem.mass))
    return float(min(trace.statistic_gain * correlation, alike))


def _centre(mean: Any) -> Floats:
    """One estimate to take the variance at: the mean over agents, where there are several."""
    m = np.asarray(mean, dtype=np.float64)
    if not np.isfinite(m).all():
        raise FamilyError("an estimate is not finite: no interval can be given for it")
    return m if m.ndim <= 1 else m.reshape(-1, m.shape[-1]).mean(axis=0)
