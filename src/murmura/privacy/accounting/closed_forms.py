"""Composition in closed form, with no dependency: valid for any (epsilon, delta)-DP releases.

Whatever the mechanism, an (eps, delta)-DP release is a post-processing of randomised response
that, with probability delta, gives the secret away (Kairouz, Oh and Viswanath 2017). So k of them
are at worst k coins, and their loss is (k - 2l) eps with probability

    P_l = C(k, l) e^{(k-l) eps} / (1 + e^eps)^k        under one input,
    Q_l = C(k, l) e^{l eps}     / (1 + e^eps)^k        under the other.

The best test at level eps' is a half-line of losses, l < i, so that

    delta(eps') = max_i U_i - e^{eps'} L_i,     U_i = sum_{l<i} P_l,   L_i = sum_{l<i} Q_l,

and turning it round, for a wanted delta,

    eps'(delta) = max_i log((U_i - delta) / L_i),   at least 0.

This is the optimal homogeneous composition theorem at every delta, not only at its corners
(eps' = (k - 2i) eps). The deltas of the releases compose apart: 1 - prod(1 - delta_l).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Rounding errors must never promise too much. They stay below these: relative to delta, and in the
# logarithms of sums over k coins, per coin.
ROUNDING, LOG_ROUNDING = 1e-7, 1e-14


def optimal(epsilons: Sequence[float], deltas: Sequence[float], delta: float) -> float:
    """eps'(delta) = max_i log((U_i - delta) / L_i): exact for equal epsilons, else at the largest.

    Infinite where the deltas of the releases alone exceed `delta`.
    """
    left = _left_over(deltas, delta)
    if left <= 0:
        return math.inf
    k, epsilon = len(epsilons), max(epsilons)
    log_upper, log_lower = _half_lines(k, epsilon)
    inside = log_upper > math.log(left)
    with np.errstate(divide="ignore"):  # U_i = delta to the last bit: never the largest
        above = log_upper[inside] + np.log1p(-left * np.exp(-log_upper[inside]))
    found = float(np.max(above - log_lower[inside])) + LOG_ROUNDING * (1 + k * (1 + epsilon))
    return max(0.0, found)


def advanced(epsilons: Sequence[float], deltas: Sequence[float], delta: float) -> float:
    """sum eps tanh(eps/2) + sqrt(2 ln(1/delta) sum eps^2) (Kairouz, Oh and Viswanath, Th. 3.5)."""
    left = _left_over(deltas, delta)
    if left <= 0:
        return math.inf
    eps = np.asarray(epsilons, dtype=np.float64)
    mean = float(np.sum(eps * np.tanh(eps / 2)))
    return mean + math.sqrt(2 * math.log(1 / left) * float(np.sum(eps**2)))


def _left_over(deltas: Sequence[float], delta: float) -> float:
    """The delta that is left for the coins: 1 - (1 - delta) / prod(1 - delta_l)."""
    log_kept = math.fsum(math.log1p(-d) for d in deltas)
    return -math.expm1(math.log1p(-delta) - log_kept) * (1 - ROUNDING)


def _half_lines(k: int, epsilon: float) -> tuple[Floats, Floats]:
    """log U_i and log L_i for i = 1..k+1, by cumulative sums in logarithms."""
    level = np.arange(1, k + 1, dtype=np.float64)
    choose = np.concatenate([[0.0], np.cumsum(np.log((k + 1 - level) / level))])
    lost = np.arange(k + 1) * epsilon
    log_total = k * np.logaddexp(0, epsilon)
    log_p = choose + k * epsilon - lost - log_total
    log_q = choose + lost - log_total
    upper = np.logaddexp.accumulate(log_p)
    return np.asarray(upper), np.asarray(np.logaddexp.accumulate(log_q))
