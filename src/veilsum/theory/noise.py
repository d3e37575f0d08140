"""How far the noise moves the mean of all agents' estimates, from the noise's own distribution.

The mean after T rounds is that of the readings and a weighted sum of independent draws,

    mean - mean of the readings = sum_i sum_t  mass_i h_t b_it d_it,

h the response of the algorithm to its noise (`algorithms.response`), b the scales, d draws of scale 1.
Its quantile comes from the exact distribution of that sum (`privacy.noise_quantile`, and for sums over a
roster `privacy.laws`): one Laplace draw reaches 2.12 standard deviations at 95%, not 1.96. Public
numbers decide it, except under smooth sensitivity, where the scales follow the signals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veilsum.algorithms.table import response
from veilsum.families.base import quantile
from veilsum.privacy.noise_quantile import noise_quantile
from veilsum.simulation import Problem

READINGS, POPULATION = "readings", "population"
NAMES = {READINGS: "of the mean of these readings", POPULATION: "of the population mean"}
PRESENT = "of the mean of the readings present"

Floats = NDArray[np.float64]
_known: WeakKeyDictionary[Problem, dict[Any, Any]] = WeakKeyDictionary()


def interval_name(of: str, missing: int) -> str:
    """What an interval is of, in words: noise alone reaches the mean of those that took part only."""
    return PRESENT if of == READINGS and missing else NAMES[of]


def remembered(problem: Problem, key: Any, compute: Callable[[], Any]) -> Any:
    """What follows from a problem, computed once for all replicas and outputs."""
    found = _known.setdefault(problem, {})
    if key not in found:
        found[key] = compute()
    return found[key]


def noise_half_width(
    problem: Problem, epsilon: float | None, confidence: float, other: float = 0.0, replica: int = 0
) -> float:
    """The x that noise moves a component of the mean estimate by at most, with that probability.

    Parameters
    ----------
    problem
        What is run.
    epsilon
        One of `problem.run_epsilons`; None without noise.
    confidence
        Above 0 and below 1.
    other
        The variance of an independent normal number that is added: noise of links, disagreement.
    replica
        Whose signals set the scales, where these follow the signals.
    """
    if epsilon is None:
        return float(quantile(confidence)) * math.sqrt(other)
    of = replica if problem.privacy.reads_signals else 0

    def compute() -> float:
        return _half_width(problem, epsilon, confidence, other, of)

    if other:  # of one replica
        return compute()
    return float(remembered(problem, ("noise", epsilon, confidence, of), compute))


def _half_width(
    problem: Problem, epsilon: float, confidence: float, other: float, replica: int
) -> float:
    width = problem.plan.half_width(epsilon, problem.rounds, confidence)
    if width is not None:
        return math.hypot(width, float(quantile(confidence)) * math.sqrt(other))
    draws = remembered(
        problem, ("draws", epsilon, replica), lambda: _draws(problem, epsilon, replica)
    )
    mechanism, weights, times = draws
    return noise_quantile(mechanism, weights, times, confidence, other)


def own_noise_variance(problem: Problem, epsilon: float, replica: int = 0) -> float:
    """The variance of the same sum: the agents' own draws, without those of links."""
    mechanism, weights, times = _draws(problem, epsilon, replica)
    each = 2.0 if isinstance(mechanism, np.ndarray) else mechanism.worst_variance
    return float(each * (times @ weights**2))


def _draws(problem: Problem, epsilon: float, replica: int) -> tuple[Any, Floats, Floats]:
    """What is drawn (scales of 1, or a mechanism), the weights of draws, and how many have each."""
    plan, mass = problem.plan, problem.mass
    gains = response(problem.algorithm, problem.rounds)
    if plan.perturbs_input:  # M(xi) is in the place of xi
        online = problem.algorithm.online  # else one draw is in all rounds
        entering = np.abs(gains.statistic if online else gains.statistic.sum(keepdims=True))
        entering = entering * [plan.relative(t) for t in range(len(entering))]
        rounds, often = np.unique(entering, return_counts=True)
        masses, agents = np.unique(mass, return_counts=True)
        weights, times = np.outer(rounds, masses).ravel(), np.outer(often, agents).ravel()
        kept = weights > 0
        made = plan.mechanism(epsilon, 1, released=True)
        return made, weights[kept], times[kept].astype(np.float64)
    known: dict[Any, tuple[Floats, Any]] = {}
    each: list[Floats] = []
    counts: list[Floats] = []
    for t in np.flatnonzero(gains.noise).tolist():
        key = t if plan.reads_signals else problem.algorithm.sensitivities(t)
        if key not in known:
            scales = _scales(problem, epsilon, t, replica)
            known[key] = np.unique(mass * scales, return_counts=True)
        products, count = known[key]
        each.append(abs(gains.noise[t]) * products)
        counts.append(count.astype(np.float64))
    if not each:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    values, where = np.unique(np.concatenate(each), return_inverse=True)
    return np.ones(len(values)), values, np.bincount(where, np.concatenate(counts)).astype(float)


def _scales(problem: Problem, epsilon: float, t: int, replica: int) -> Floats:
    """(agents,): the scales of Laplace noise in round t."""
    plan = problem.plan
    signals = np.ones((problem.network.size, 1))
    if plan.reads_signals:
        signals = problem.source.signals(max(problem.algorithm.latest(t), 1), problem.replicas)
    found = plan.scale(signals, epsilon, t)
    return np.asarray(found[:, min(replica, found.shape[1] - 1)])
