"""What samples prove: lower bounds on epsilon and delta, and the fault that so many runs find.

Bounds
    (epsilon, delta)-DP means P[M(s) in E] <= e^epsilon P[M(s') in E] + delta for every event E.
    With p the probability under s and q that under s',

        epsilon >= log((p - delta) / q).

    Clopper and Pearson's intervals put p above p_low and q below q_high, each with half of the
    error, so log((p_low - delta) / q_high) is a lower bound on epsilon with the stated confidence.
    Solved for delta, delta >= p_low - e^epsilon q_high: what is really spent at the claimed
    epsilon. The event must have been chosen without the samples that are counted.

Power
    A fault f is the fraction of the noise that is missing: Laplace noise of scale (1 - f) b where b
    is what the claim needs. With inputs 0 and 1 that is 1/b = epsilon - 2 log(1 - delta), which
    spends (epsilon, delta) exactly. Let e' = 1/((1 - f) b); the events {y > c} and {y < 1 - c} have

        p = 1 - e^{-(1-c) e'}/2  under the input that they favour (e^{-(c-1) e'}/2 for c > 1),
        q = e^{-c e'}/2          under the other,

    and c = 1, p = 1/2, log(p/q) = e' is the best for delta = 0 and many runs. N runs a side certify
    with M = 2N trials of either probability. The claim is refuted if Clopper and Pearson's ends
    satisfy p_low - e^epsilon q_high > delta, and with probability at least 1 - beta if they do with
    the beta/2 quantile of the hits and the 1 - beta/2 quantile of the others, in 0.85 M trials: an
    event that was learnt is not the best one, and tests check that the audit is no worse than that.
    For small epsilon,

        M >= (2 (z_alpha + z_beta) / (e' - epsilon))^2,    e' - epsilon = epsilon f/(1 - f):

    runs grow as 1/(epsilon f)^2, and for large epsilon as e^epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _extras

Floats = NDArray[np.float64]

FAULT = 0.1  # the fault that the number of runs is chosen for
POWER = 0.95
FEWEST, MOST = 100_000, 4_000_000  # runs a side, where none are given
LEARNING, MOST_LEARNING = 0.25, 100_000  # fraction of the runs used to learn the event, at most
WORTH = 0.85  # of the runs, if the event must be learnt: certified with the best event, as much


class LowerBound(Protocol):
    """A lower bound from the counts of an event in two samples."""

    def __call__(self, hits: ArrayLike, trials: int, other: ArrayLike, others: int) -> Floats:
        """Bound from `hits` of `trials` under s and `other` of `others` under s'."""


@dataclass(frozen=True)
class EpsilonBound:
    """epsilon >= log((p_low - delta) / q_high), -inf where p_low does not exceed delta."""

    delta: float
    confidence: float

    def __call__(self, hits: ArrayLike, trials: int, other: ArrayLike, others: int) -> Floats:
        """Bound epsilon from below."""
        error = (1 - self.confidence) / 2
        p, q = lower(hits, trials, error) - self.delta, upper(other, others, error)
        return np.where(p > 0, np.log(np.maximum(p, 1e-300) / q), -np.inf)


@dataclass(frozen=True)
class DeltaBound:
    """delta >= p_low - e^epsilon q_high."""

    epsilon: float
    confidence: float

    def __call__(self, hits: ArrayLike, trials: int, other: ArrayLike, others: int) -> Floats:
        """Bound delta from below."""
        error = (1 - self.confidence) / 2
        p, q = lower(hits, trials, error), upper(other, others, error)
        return np.asarray(p - np.exp(self.epsilon) * q)


def lower(hits: ArrayLike, trials: int, error: float) -> Floats:
    """Clopper and Pearson's lower end: P[at least so many hits | p_low] = error."""
    betaincinv = _extras.load("scipy.special").betaincinv
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, error), 0.0)


def upper(hits: ArrayLike, trials: int, error: float) -> Floats:
    """Clopper and Pearson's upper end: P[at most so many hits | q_high] = error."""
    betaincinv = _extras.load("scipy.special").betaincinv
    k = np.asarray(hits, dtype=np.float64)
    inside = np.maximum(trials - k, 1)
    return np.where(k < trials, betaincinv(k + 1, inside, 1 - error), 1.0)


def certifying(trials: int) -> int:
    """How many runs a side are left to certify once the event is learnt."""
    return trials - min(int(LEARNING * trials), MOST_LEARNING)


def finds(
    fault: float, trials: int, epsilon: float, delta: float, confidence: float, power: float = POWER
) -> bool:
    """Whether so many runs a side find the fault with probability `power`, as derived above."""
    binom = _extras.load("scipy.stats").binom
    near = (epsilon - 2 * math.log1p(-delta)) / (1 - fault)
    c = np.linspace(0.5, 1.5, 101)
    over, under = np.exp(-np.maximum(c - 1, 0) * near), np.exp(-np.maximum(1 - c, 0) * near)
    p, q = np.where(c > 1, over / 2, 1 - under / 2), np.exp(-c * near) / 2
    M, beta = int(WORTH * 2 * certifying(trials)), (1 - power) / 2
    error = (1 - confidence) / (2 if delta == 0 else 4)
    hits, other = binom.ppf(beta, M, p), binom.ppf(1 - beta, M, q)
    excess = lower(hits, M, error) - math.exp(min(epsilon, 700)) * upper(other, M, error)
    return bool((excess > delta).any())


def smallest_fault(trials: int, epsilon: float, delta: float, confidence: float) -> float:
    """Return the least fault that so many runs find with probability 0.95.

    Parameters
    ----------
    trials : int
        Runs a side.
    epsilon, delta : float
        The claim.
    confidence : float
        Of the refutation.

    Returns
    -------
    float
        The fraction of the noise missing; 1 if no fault is found.

    Examples
    --------
    >>> round(smallest_fault(200_000, 1.0, 0.0, 1 - 1e-6), 3)
    0.041
    """
    if not finds(0.999, trials, epsilon, delta, confidence):
        return 1.0
    low, high = 0.0, 0.999
    while high - low > 1e-4:
        middle = (low + high) / 2
        found = finds(middle, trials, epsilon, delta, confidence)
        low, high = (low, middle) if found else (middle, high)
    return high


def runs_for(fault: float, epsilon: float, delta: float, confidence: float) -> float:
    """Return the least number of runs a side that finds the fault with probability 0.95.

    Parameters
    ----------
    fault : float
        The fraction of the noise missing.
    epsilon, delta : float
        The claim.
    confidence : float
        Of the refutation.

    Returns
    -------
    float
        Within 1%; infinite if no number of runs suffices.

    Examples
    --------
    >>> runs_for(0.1, 1.0, 0.0, 1 - 1e-6)
    30200.0
    """
    few, many = 100, 200
    while not finds(fault, many, epsilon, delta, confidence):
        few, many = many, 2 * many
        if many > 2**40:
            return math.inf
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        found = finds(fault, middle, epsilon, delta, confidence)
        few, many = (few, middle) if found else (middle, many)
    return float(many)


def runs(fault: float, epsilon: float, delta: float, confidence: float) -> int:
    """How many runs a side an audit takes: what the fault needs, within FEWEST and MOST.

    Where MOST runs find no fault at all, FEWEST are taken.
    """
    needed = runs_for(fault, epsilon, delta, confidence)
    if needed > MOST and smallest_fault(MOST, epsilon, delta, confidence) == 1.0:
        return FEWEST
    return int(min(max(needed, FEWEST), MOST))
