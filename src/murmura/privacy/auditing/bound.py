"""What an event proves: a lower bound on epsilon at a stated confidence.

(epsilon, delta)-DP says P[M(s) in E] <= e^epsilon P[M(s') in E] + delta for every event E. With p
the probability under s and q that under s',

    epsilon >= log((p - delta) / q).

Clopper and Pearson's intervals put p above p_low and q below q_high, each with half of the error,
so log((p_low - delta) / q_high) is a lower bound on epsilon with the stated confidence. Read the
other way, delta >= p_low - e^epsilon q_high: what is really spent at the epsilon that is claimed.
The event must have been chosen without looking at the samples that are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Measure(Protocol):
    """What counts of an event in two samples certify; more is worse for the mechanism."""

    def __call__(self, hits: ArrayLike, trials: int, other: ArrayLike, others: int) -> Floats:
        """Bound from `hits` of `trials` under s and `other` of `others` under s'."""


@dataclass(frozen=True)
class Loss:
    """epsilon >= log((p_low - delta) / q_high), -inf where p_low does not exceed delta."""

    delta: float
    confidence: float

    def __call__(self, hits: ArrayLike, trials: int, other: ArrayLike, others: int) -> Floats:
        """Bound epsilon from below."""
        error = (1 - self.confidence) / 2
        p, q = lower(hits, trials, error) - self.delta, upper(other, others, error)
        return np.where(p > 0, np.log(np.maximum(p, 1e-300) / q), -np.inf)


@dataclass(frozen=True)
class Spent:
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
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, error), 0.0)


def upper(hits: ArrayLike, trials: int, error: float) -> Floats:
    """Clopper and Pearson's upper end: P[at most so many hits | q_high] = error."""
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    inside = np.maximum(trials - k, 1)
    return np.where(k < trials, betaincinv(k + 1, inside, 1 - error), 1.0)
