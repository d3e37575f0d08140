"""Intervals, named by what they are intervals of: one place decides, and every output asks it.

    readings     of the mean of these readings: noise alone, no sigma and no assumption. Where members are
                 missing from a sum, of the mean of the readings present: theirs are not in it
    population   of the population mean: sampling too

Each is stated for the mean of all agents' estimates, and for any one agent's estimate, which adds the
disagreement that rounds have left (the variance of the estimates over agents, as if normal). Measured
signals are readings first, drawn ones a population.

The noise is taken from its exact distribution (`theory.noise`). Sampling is one of these, the first that
is possible:

drawn signals
    independent, of the family that they are drawn from: factor Cov(xi), factor = 1/(n T).
releases
    of measured signals under local noise. The mean is that of z_i = what agent i released, on average
    over its rounds (`simulation.releases`). Agents that are drawn from a population are exchangeable, so
    that S^2/n, S^2 the variance of the z_i over agents, estimates the variance of the mean without bias,
    noise included, whatever the readings of one agent have to do with one another. Student's quantile with
    n - 1 degrees of freedom stands for the normal one. It is computed from released values: it costs no
    privacy. Where the scale of the noise is public, it is never narrower than the noise, nor than what
    the family itself says of independent readings, if it says anything: 0 successes of n leave no width
    to S^2.
one reading an agent
    where no agent releases a value of its own (sums over a roster, Network DP, runs by real agents), with the
    family's variance: all readings of an agent count as one, Var(mean of T readings) <= Var(one). If
    the family has none (no sigma), the public bounds give Var xi <= (high - mu)(mu - low).

A `correlation` that is stated takes the place of the last two: 1 for independent readings, 4 for readings
worth a fourth of as many, inf for readings of an agent that are worth one.

With V(mu) = Var xi at mean mu, the interval is the set of means that the estimate m does not reject,

    { mu : (m - mu)^2 <= z^2 (factor V(mu) + extra) },

which for a Bernoulli signal is Wilson's (V is a quadratic in mu for most families; elsewhere it is
taken at the estimate). It takes the variance at mu, not at the estimate, where it
may be 0 (no success among n trials), and so is never without width. An estimate that noise has
pushed out of the domain of E xi is first moved to its nearest edge: no value in the domain is
further from there than it was before, so the coverage cannot fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, _validate
from veilsum._types import Family
from veilsum.algorithms.table import response
from veilsum.errors import FamilyError, VeilsumError
from veilsum.families.base import Interval, quantile
from veilsum.simulation import Problem, Trace
from veilsum.simulation.releases import released_parts, releases_once
from veilsum.theory.noise import (
    NAMES,
    POPULATION,
    READINGS,
    interval_name,
    noise_half_width,
    own_noise_variance,
    remembered,
)

Floats = NDArray[np.float64]
NETWORK, AGENT = "network", "agent"
SIMULATED = "simulated"  # noise that the problem draws again
INSIDE = 0.5  # a mean in the domain of every family
UNEVEN = 1e-3  # of the weights' sum: a bias below is a thousandth of the mean
CLOSE = 1e-6  # relative: releases that are drawn again give the mean to rounding, or are others


@dataclass(frozen=True, eq=False)
class NamedIntervals:
    """The intervals of one target: its name, and the ends by parameter."""

    of: str
    name: str
    network: dict[str, Interval]
    agent: dict[str, Interval]


@dataclass(frozen=True)
class Asked:
    """Which interval of a run is asked for."""

    e: int = 0
    replica: int = 0
    confidence: float = 0.95
    of: str = READINGS
    whose: str = NETWORK
    correlation: float | None = None
    noise: str = SIMULATED


def default_of(problem: Problem) -> str:
    """Measured signals are these readings; drawn ones a population."""
    return READINGS if problem.source.measured else POPULATION


def name_of(problem: Problem, of: str) -> str:
    """What an interval is of, in words."""
    even = problem.algorithm.ratio or problem.algorithm.session is not None
    weighted = not even and problem.network.kind == "row-stochastic"
    session = problem.algorithm.session
    name = interval_name(of, 0 if session is None else session.missing)
    return name + (", weighted by the network" if weighted else "")


def interval_asked(
    problem: Problem, trace: Trace, asked: Asked, estimates: Floats | None = None
) -> dict[str, Interval]:
    """The interval that is asked for, around the mean of all estimates or around `estimates`."""
    place = check_run(trace, asked.e, asked.replica)
    _check_weights(problem)
    centre = trace.mean[place] if estimates is None else estimates
    apart = _apart(problem, trace, place, asked.whose)
    if asked.of == READINGS:
        width = _noise(problem, trace, place, asked.confidence, apart)
        extra = (width / quantile(asked.confidence)) ** 2
        return interval_of(problem.family, centre, 0.0, extra, asked.confidence)
    return _population(problem, trace, place, asked, centre, apart)


def _check_weights(problem: Problem) -> None:
    """Raise unless the readings' weights in the mean estimate add up to 1."""
    algorithm, rounds = problem.algorithm, problem.rounds

    def total() -> float:
        counts = [algorithm.readings(t) if algorithm.online else 1 for t in range(rounds + 1)]
        return float(response(algorithm, rounds).statistic @ counts)

    whole = remembered(problem, "weights", total)
    if abs(whole - 1) > UNEVEN:
        raise VeilsumError(
            f"after {rounds} rounds of {algorithm.name} the weights of the readings add up to "
            f"{whole:.4g}, not to 1: the estimate is no mean of them, and has no interval; choose "
            "another algorithm, or more rounds"
        )


def _apart(problem: Problem, trace: Trace, place: tuple[int, int], whose: str) -> Floats:
    """The variance of disagreement to add: the mean of all has none where weights conserve it."""
    conserved = problem.network.kind == "doubly-stochastic" or problem.algorithm.summed
    found = np.asarray(trace.disagreement[place])
    return 0 * found if whose == NETWORK and conserved else found


def _noise(
    problem: Problem, trace: Trace, place: tuple[int, int], confidence: float, apart: Floats
) -> Floats:
    """By component: how far noise moves the mean, with what links add as if it were normal."""
    e, replica = place
    if not problem.run_epsilons:
        return np.asarray(quantile(confidence) * np.sqrt(apart))
    epsilon = problem.run_epsilons[e]
    links = np.zeros_like(apart)
    if problem.algorithm.perturbs_links:
        own = own_noise_variance(problem, epsilon, replica)
        links = np.maximum(trace.noise_variance[place] - own, 0.0)
    widths = {
        other: noise_half_width(problem, epsilon, confidence, other, replica)
        for other in set((links + apart).tolist())
    }
    return np.array([widths[other] for other in (links + apart).tolist()])


def _population(
    problem: Problem,
    trace: Trace,
    place: tuple[int, int],
    asked: Asked,
    centre: Floats,
    apart: Floats,
) -> dict[str, Interval]:
    family, confidence, correlation = problem.family, asked.confidence, asked.correlation
    z = quantile(confidence)
    width = _noise(problem, trace, place, confidence, 0 * apart)
    noise = np.maximum(trace.noise_variance[place], (width / z) ** 2)
    if correlation is None and problem.source.measured:
        correlation = math.inf
        if reads_releases(problem, asked.noise):
            special = _extras.load("scipy.special")
            student = special.stdtrit(problem.network.size - 1, (1 + confidence) / 2)
            spread = released_variance(problem, trace, place) * (student / z) ** 2
            found = interval_of(family, centre, 0.0, spread + apart, confidence)
            if problem.privacy.reads_signals:  # then the scale of the noise must not show
                return found
            gain = 0.0 if family.variance_in_mean is None else trace.statistic_gain
            return _hull(found, interval_of(family, centre, gain, noise + apart, confidence))
    factor = _variance_factor(problem, trace, 1.0 if correlation is None else correlation)
    return interval_of(family, centre, factor, noise + apart, confidence)


def released_variance(problem: Problem, trace: Trace, place: tuple[int, int]) -> Floats:
    """By component: the variance of the mean estimate, from what agents released.

    E S^2 is the mean of Var z_i for independent z_i with one mean, equal variances or not, and that
    over n is Var of their mean.
    """
    e, replica = place
    means, variances = remembered(problem, ("releases", e), lambda: _moments(problem, e))
    if (np.abs(means[replica] - trace.mean[place]) > CLOSE * np.sqrt(variances[replica])).any():
        raise VeilsumError(
            "the noise of this run is not the one that its problem draws (another plan?), so "
            "what agents released is not known; state correlation=... for an interval of the population"
        )
    return np.asarray(variances[replica] / problem.network.size)


def _moments(problem: Problem, e: int) -> tuple[Floats, Floats]:
    """(replicas, components): mean and variance over agents of what they released."""
    parts = released_parts(problem, e)
    return parts.mean(axis=0), parts.var(axis=0, ddof=1)


def _hull(one: dict[str, Interval], two: dict[str, Interval]) -> dict[str, Interval]:
    return {
        name: Interval(
            i.value, np.minimum(i.low, two[name].low), np.maximum(i.high, two[name].high)
        )
        for name, i in one.items()
    }


def reads_releases(problem: Problem, noise: str) -> bool:
    """Whether the interval of the population mean follows from the spread of what agents released.

    Not where real agents drew the noise: it is theirs, and cannot be drawn again.
    """
    return problem.source.measured and noise == SIMULATED and releases_once(problem)


def assumption(problem: Problem, noise: str) -> str:
    """What an interval of the population mean assumes, in a sentence."""
    given = _given(problem.family)
    law = f"{problem.family.name} signals{f' with {given} as given' if given else ''}"
    if not problem.source.measured:
        streams = " and from reading to reading" if problem.algorithm.online else ""
        return f"The interval {NAMES[POPULATION]} assumes {law}, independent from agent to agent{streams}."
    drawn = f"The interval {NAMES[POPULATION]} assumes that agents were drawn from it at random"
    if reads_releases(problem, noise):
        return f"{drawn}, and nothing else: it follows from how far what they released is apart."
    streams = ", and counts the readings of one agent as one" if problem.algorithm.online else ""
    known = law if _knows_variance(problem.family) else "that the public bounds hold"
    low, high = problem.family.moves(math.inf).range
    if not _knows_variance(problem.family) and not np.isfinite(high - low).all():
        return (
            f"There is no interval {NAMES[POPULATION]}: no agent releases a value of its own here, and "
            "the variance of a reading is not known; give sigma, or public bounds."
        )
    return f"{drawn}, and {known}{streams}."


def _given(family: Any) -> str:
    """What a family takes as known, such as sigma = 1."""
    known = {field.name: getattr(family, field.name) for field in fields(family)}
    return ", ".join(
        f"{name} = {f'{value:g}' if isinstance(value, int | float) else 'the matrix'}"
        for name, value in known.items()
        if name != "bounds" and value is not None
    )


def _knows_variance(family: Family) -> bool:
    """Whether Var xi follows from the mean: not where sigma is left out."""
    if family.variance_in_mean is not None:
        return True
    try:
        family.covariance(**family.parameter(np.full(family.dimension, INSIDE)))
    except FamilyError:
        return False
    return True


def interval_of(
    family: Family, mean: Any, factor: float, extra: Floats, confidence: float
) -> dict[str, Interval]:
    """An interval for E xi's parameters from an estimate, and the two parts of its variance."""
    quantile(confidence)
    m = np.asarray(mean, dtype=np.float64)
    if family.variance_in_mean is not None:
        known = family.variance_in_mean, family.mean_domain
        return _by_score(family, m, *known, factor, extra, confidence)
    parameters = {name: np.asarray(v) for name, v in family.parameter(_centre(mean)).items()}
    try:
        covariance = family.covariance(**parameters) * factor if factor else 0.0
    except FamilyError:
        low, high = (float(end[0]) for end in family.moves(math.inf).range)
        if family.dimension > 1 or not math.isfinite(high - low):
            raise
        between = (-low * high, low + high, -1.0)  # (high - mu)(mu - low) is at least Var xi
        return _by_score(family, m, between, (low, high), factor, extra, confidence)
    return dict(family.interval(mean, covariance + np.diag(np.atleast_1d(extra)), confidence))


def _by_score(
    family: Family,
    m: Floats,
    quadratic: tuple[float, float, float],
    domain: tuple[float, float],
    factor: float,
    extra: Floats,
    confidence: float,
) -> dict[str, Interval]:
    """Every coordinate by itself: the ends of { mu : (m - mu)^2 <= z^2 (factor V(mu) + extra) }."""
    centre = np.clip(m, *domain)
    low, high = _roots(centre, quadratic, factor, extra, quantile(confidence))
    value = family.parameter(m)
    ends = [np.clip(end, *domain) for end in (low, high)]
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
