"""Probabilities of GDL(a, t) and of Poisson and Skellam sums, independent of the samplers."""

import math
from fractions import Fraction
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
from scipy import special, stats

from veilsum.privacy.laws import DiscreteLaplace
from veilsum.testing import PredictableEntropy

FALSE_ALARM = 1e-7  # of every statistical test here, on a fresh stream
LIMIT = stats.norm.isf(FALSE_ALARM / 2)


class BlockEntropy(PredictableEntropy):
    """A seeded stream that is read in blocks: many small requests take half the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, simulation_only=True)
        self._block, self._at = b"", 0

    def read(self, count: int) -> bytes:
        if self._at + count > len(self._block):
            self._block, self._at = super().read(max(count, 1 << 16)), 0
        self._at += count
        return self._block[self._at - count : self._at]


def stream(seed: int) -> BlockEntropy:
    return BlockEntropy(seed)


def negative_binomial(a: float, t: float, most: int) -> Any:
    """C(k + a - 1, k) (1 - r)^a r^k for k = 0, ..., most, from logarithms of gamma functions."""
    k = np.arange(most + 1, dtype=np.float64)
    choose = special.gammaln(k + a) - special.gammaln(a) - special.gammaln(k + 1)
    return np.exp(choose + a * math.log(-math.expm1(-1 / t)) - k / t)


def pmf(a: Any, t: Any, reach: int) -> Any:
    """P(X = k) for |k| <= reach, as the difference of two negative binomials."""
    a, t = float(a), float(t)
    far = reach + int(60 * max(t, 0.05) * max(1.0, a)) + 60
    one = negative_binomial(a, t, far)
    half = np.array([one[: far + 1 - k] @ one[k:] for k in range(reach + 1)])
    return np.concatenate([half[:0:-1], half])


def precise(a: Any, t: Any, k: int) -> Any:
    """P(X = k) to 30 digits, by Gauss's hypergeometric function."""
    with mp.workdps(60):
        a, k = mp.mpf(a.numerator) / a.denominator, abs(k)
        r = mp.exp(-mp.mpf(t.denominator) / t.numerator)
        start = (1 - r) ** (2 * a) * r**k * mp.rf(a, k) / mp.factorial(k)
        return start * mp.hyp2f1(a, a + k, k + 1, r * r)


def effective_epsilon(epsilon: float, beta: float, steps: int, dimension: int = 1) -> float:
    """What a move by `steps` costs if only the fraction beta of noise of that epsilon is unknown."""
    whole = DiscreteLaplace(Fraction(steps) / Fraction(epsilon))
    return whole.part(Fraction(beta)).epsilon(steps, float(steps), dimension)


def deviation(draws: Any, right: Any, wrong: Any) -> float:
    """Standard deviations between the mean of log(wrong/right) and what `right` lets expect.

    The most powerful test of one against the other (Neyman and Pearson); `right` and `wrong` are
    probabilities of |k| <= reach, and draws beyond count as one cell more.
    """
    reach = len(right) // 2
    p, q = (np.append(one, max(1 - one.sum(), 1e-300)) for one in (right, wrong))
    score = np.log(q / p)
    mean = float(p @ score)
    sd = math.sqrt(float(p @ (score - mean) ** 2))
    cells = np.where(np.abs(draws) <= reach, draws + reach, 2 * reach + 1).astype(np.int64)
    return float((score[cells].mean() - mean) / sd * math.sqrt(len(draws)))


def chi_square(draws: Any, right: Any) -> float:
    """p-value of draws in cells of at least 25 expected draws, the rest in one."""
    reach = len(right) // 2
    expected = right * len(draws)
    inside = expected >= 25
    counts = np.array([np.sum(draws == k) for k in range(-reach, reach + 1)])
    observed = np.append(counts[inside], len(draws) - counts[inside].sum())
    return float(
        stats.chisquare(
            observed, np.append(expected[inside], len(draws) - expected[inside].sum())
        ).pvalue
    )
