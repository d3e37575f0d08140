"""What an audit can find: how many runs a fault needs, and the smallest fault that runs find.

A fault f is a share of the noise that is missing: Laplace noise of scale (1 - f) b where b is what
the claim needs. With inputs 0 and 1 that is 1/b = epsilon - 2 log(1 - delta), which spends
(epsilon, delta) exactly. Let e' = 1/((1 - f) b); the events {y > c} and {y < 1 - c} have

    p = 1 - e^{-(1-c) e'}/2  under the input that they favour (e^{-(c-1) e'}/2 for c > 1),
    q = e^{-c e'}/2          under the other,

and c = 1, p = 1/2, log(p/q) = e' is the best for delta = 0 and many runs. N runs a side certify
with M = 2N trials of either probability. The claim falls if Clopper and Pearson's ends satisfy
p_low - e^epsilon q_high > delta, and is found with probability at least 1 - beta if it does with
the beta/2 quantile of the hits and the 1 - beta/2 quantile of the others, in 0.85 M trials: an
event that was learnt is not the best one, and tests hold the audit to that. For small epsilon,

    M >= (2 (z_alpha + z_beta) / (e' - epsilon))^2,    e' - epsilon = epsilon f/(1 - f):

runs grow as 1/(epsilon f)^2, and for large epsilon as e^epsilon.
"""

from __future__ import annotations

import math

import numpy as np

from murmura.privacy.auditing.bound import lower, upper

FAULT = 0.1
POWER = 0.95
FEWEST, MOST = 100_000, 4_000_000  # runs a side, where nobody says how many
LEARNING, MOST_LEARNING = 0.25, 100_000  # share of the runs that the event is learnt from, at most

WORTH = 0.85  # of the runs, if the event must be learnt: certified with the best event, as much


def certifying(trials: int) -> int:
    """How many runs a side are left to certify once the event is learnt."""
    return trials - min(int(LEARNING * trials), MOST_LEARNING)


def finds(
    fault: float, trials: int, epsilon: float, delta: float, confidence: float, power: float = POWER
) -> bool:
    """Whether so many runs a side find the fault with probability `power`."""
    from scipy.stats import binom

    near = (epsilon - 2 * math.log1p(-delta)) / (1 - fault)
    c = np.linspace(0.5, 1.5, 101)
    over, under = np.exp(-np.maximum(c - 1, 0) * near), np.exp(-np.maximum(1 - c, 0) * near)
    p, q = np.where(c > 1, over / 2, 1 - under / 2), np.exp(-c * near) / 2
    M, beta = int(WORTH * 2 * certifying(trials)), (1 - power) / 2
    error = (1 - confidence) / (2 if delta == 0 else 4)
    hits, other = binom.ppf(beta, M, p), binom.ppf(1 - beta, M, q)
    spent = lower(hits, M, error) - math.exp(min(epsilon, 700)) * upper(other, M, error)
    return bool((spent > delta).any())


def smallest_fault(trials: int, epsilon: float, delta: float, confidence: float) -> float:
    """The least fault that so many runs find with probability 0.95; 1 if they find none."""
    if not finds(0.999, trials, epsilon, delta, confidence):
        return 1.0
    low, high = 0.0, 0.999
    while high - low > 1e-4:
        middle = (low + high) / 2
        found = finds(middle, trials, epsilon, delta, confidence)
        low, high = (low, middle) if found else (middle, high)
    return high


def runs_for(fault: float, epsilon: float, delta: float, confidence: float) -> float:
    """The least number of runs a side that finds the fault with probability 0.95; may be inf."""
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
    """How many runs a side an audit takes: what the fault needs, within reason.

    Where no number within reason finds any fault at all, the fewest will do.
    """
    needed = runs_for(fault, epsilon, delta, confidence)
    if needed > MOST and smallest_fault(MOST, epsilon, delta, confidence) == 1.0:
        return FEWEST
    return int(min(max(needed, FEWEST), MOST))
