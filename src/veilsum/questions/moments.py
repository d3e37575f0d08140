"""The first two moments of a column in one vector, for what a mean alone costs and a little more.

s in [0, 1] is a share of the range, m the mean of s and v its variance. There are two codes, and which one
a question has is settled when it is made.

All records in, their number n public. u = 2 s - 1 in [-1, 1]:

    x = (u, a u^2),    l1 = 2 for a <= 1/2, else 1 + a + 1/(4 a);    2.25 at a = 1, l2 = 2

    With t = |u - u'|: |u^2 - u'^2| = t |u + u'| <= t (2 - t), and t + a t (2 - t) is largest at
    t = min(2, 1 + 1/(2 a)): the pair 1 and -1/(2 a).

    A mean alone moves by 2, and so its noise is 1.125 times what it would be alone.

Records may be out. The three terms of ((1 - s) + s)^2, which have mass one:

    x = ((1 - s)^2, 2 s (1 - s), s^2) = (A, B, C),    l1 = 2, l2 = sqrt 2, also between groups
    n = A + B + C,    n m = C + B/2,    n E s^2 = C

    The noise of n m - m n is -m X_A + (1/2 - m) X_B + (1 - m) X_C: that of a mean alone, (s, 1 - s), and
    (1/2 - m) X_B more, at most sqrt(5/4) = 1.118 times.

Intervals. Of the mean exact, by its noise. Of the variance, which is not linear, by further draws X' of the
noise: v(released + X') - v(released) is spread as v(released) - v(true) is, so that the quantiles of
2 v(released) - v(released + X') hold v(true); cut at 0 and at the largest m (1 - m) of the mean's interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from veilsum._statistic import Statistic, Status
from veilsum.questions.base import NoisedVector
from veilsum.questions.columns import Floats
from veilsum.questions.intervals import NORMAL, ratio, student_quantile


@dataclass(frozen=True)
class Moments:
    """The moments of s that were released.

    Parameters
    ----------
    records : float
        How many records there are.
    mean : float
        m.
    variance, low, high : float
        v with its interval.
    likely : float
        The mean of the variances that noise allows: above 0 also where `variance` is not.
    """

    records: float
    mean: float
    variance: float
    low: float
    high: float
    likely: float


class MomentCode(ABC):
    """An encoding of s for its mean and its variance; abstract."""

    whole: Statistic
    size: tuple[float, float]
    middle: tuple[float, ...]  # what each component's noise counts in n m - m n, at m = 1/2
    square: tuple[float, ...]  # and in n E s^2 - n/3

    @abstractmethod
    def parts(self, s: Floats) -> Floats:
        """(records, P)."""

    @abstractmethod
    def sums(self, vectors: Floats, records: int | None) -> tuple[Floats, Floats, Floats]:
        """n, n m and n E s^2 of vectors (..., P)."""

    @abstractmethod
    def mean_interval(self, released: NoisedVector, spread: float) -> tuple[float, float]:
        """The mean's, with the variance that sampling has in n m - m n."""

    def read(self, released: NoisedVector) -> Moments | None:
        """The moments; None where there may be no record."""
        n, first, second = (float(x) for x in self.sums(released.values, released.records))
        half = 0.0 if released.records is not None else released.half(np.ones(len(self.middle)))
        if n <= half:
            return None
        mean = min(max(first / n, 0.0), 1.0)
        ends = self.mean_interval(released, 0.0)
        nearest = min(max(0.5, ends[0]), ends[1])
        most = max(nearest * (1 - nearest), 0.0)
        value = float(variances(*map(np.asarray, (n, first, second))))
        again = released.values + released.simulated()
        allowed = np.clip(2 * value - variances(*self.sums(again, released.records)), 0.0, most)
        low, high = (float(x) for x in np.quantile(allowed, [0.025, 0.975]))
        return Moments(n, mean, min(max(value, 0.0), most), low, high, float(allowed.mean()))

    def population_mean(self, released: NoisedVector, found: Moments) -> tuple[float, float]:
        """The mean's interval with sampling, of n v n/(n - 1) by Student's law."""
        n = max(found.records, 2.0)
        student = student_quantile(n - 1) / NORMAL
        return self.mean_interval(released, n * found.likely * n / (n - 1) * student**2)


def variances(n: Floats, first: Floats, second: Floats) -> Floats:
    """E s^2 - (E s)^2; 0 where there is no record."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(n > 0, second / n - (first / n) ** 2, 0.0))


class Centred(MomentCode):
    """(u, a u^2) of all records.

    Parameters
    ----------
    a : float
        The weight of the square.
    """

    def __init__(self, a: float = 1.0) -> None:
        """Its norms."""
        self.a = a
        l1 = 2.0 if a <= 0.5 else 1 + a + 1 / (4 * a)
        turn = [
            t for t in np.roots([2 * a * a, -6 * a * a, 1 + 4 * a * a]).tolist() if np.isreal(t)
        ]
        moves = [2.0, *(float(np.real(t)) for t in turn if 0 < np.real(t) < 2)]
        l2 = max(math.hypot(t, a * t * (2 - t)) for t in moves)
        self.whole = Statistic(
            l1, l2, 2, low=[-1.0, 0.0], high=[1.0, a], status=Status.PROVED,
            reason="t + a t (2 - t) at most, t the move of u",
        )  # fmt: skip
        self.size = 1 + a, math.hypot(1, a)
        self.middle, self.square = (0.5, 0.0), (0.5, 0.25 / a)

    def parts(self, s: Floats) -> Floats:
        """(u, a u^2)."""
        u = 2 * s - 1
        return np.stack([u, self.a * u * u], axis=1)

    def sums(self, vectors: Floats, records: int | None) -> tuple[Floats, Floats, Floats]:
        """s = (1 + u)/2."""
        u, square = vectors[..., 0], vectors[..., 1] / self.a
        n = np.full(np.shape(u), float(records or 0))
        return n, (n + u) / 2, (n + 2 * u + square) / 4

    def mean_interval(self, released: NoisedVector, spread: float) -> tuple[float, float]:
        """(1 + U/n)/2."""
        n, first, _ = (float(x) for x in self.sums(released.values, released.records))
        half = released.half([0.5], spread)
        return (first - half) / n, (first + half) / n


class Bernstein(MomentCode):
    """((1 - s)^2, 2 s (1 - s), s^2), of mass one, for records that may be out."""

    def __init__(self) -> None:
        """Its norms."""
        self.whole = Statistic(
            2.0, math.sqrt(2), 3, low=0.0, high=1.0, status=Status.PROVED,
            reason="three parts of one record, of mass one",
        )  # fmt: skip
        self.size = 1.0, 1.0
        self.middle, self.square = (-0.5, 0.0, 0.5), (-1 / 3, -1 / 3, 2 / 3)

    def parts(self, s: Floats) -> Floats:
        """The three."""
        return np.stack([(1 - s) ** 2, 2 * s * (1 - s), s * s], axis=1)

    def sums(self, vectors: Floats, records: int | None) -> tuple[Floats, Floats, Floats]:
        """n = A + B + C."""
        a, b, c = vectors[..., 0], vectors[..., 1], vectors[..., 2]
        return a + b + c, c + b / 2, c

    def mean_interval(self, released: NoisedVector, spread: float) -> tuple[float, float]:
        """By the ratio of C + B/2 and A + B + C."""
        n, first, _ = (float(x) for x in self.sums(released.values, None))
        return ratio(released, (0.0, 0.5, 1.0), (1.0, 1.0, 1.0), first, n, spread=spread)


CENTRED, BERNSTEIN = Centred(), Bernstein()


def code_of(partial: bool) -> MomentCode:
    """The one for records that may be out, or for all."""
    return BERNSTEIN if partial else CENTRED
