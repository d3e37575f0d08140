"""A law: noise on the integers, of which independent parts add up to the whole.

    draw          exactly, from the operating system's entropy: what is released
    sample        quickly, in floating point: for simulations
    part(beta)    the law of which draws add up to this one: X = sum of 1/beta of them
    epsilon       what a move of the statistic costs under this noise
    tail          x with P(|X| >= x) <= p
    quantile      the least m with P(|X| <= m) >= c

A trusted server adds `law`. Of h members of a secure sum each adds `law.part(1/h)`; the sum over F of
them has `law.part(|F|/h)`, and members that collude leave `law.part(beta)` unknown. Whether the noise is
pure or has a delta is the choice of a law.

Tail. For every s > 0 with a finite moment, Chernoff's bound on either side gives

    P(|X| >= x) <= 2 E e^(sX) e^(-sx),    so    x = (log E e^(sX) + log(2/p))/s

is far enough; `tail` takes the best s. That the search for it is not exact costs nothing but width.

Quantile. phi(u) = E e^(iuX). X is a whole number, so that N equidistant points of [0, 2 pi) give

    1/N sum_j phi(u_j) sin((m + 1/2) u_j)/sin(u_j/2)  =  P(|X| <= m) + (what lies around N, 2N, ...).

The tail makes what is added less than `ERROR`, and so does what is left out beyond u = `furthest`. The
number of points does not depend on how wide the law is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.exact.grid import Integers

Floats = NDArray[np.float64]

ERROR = 1e-10  # of a probability, at most, from each of the two sources
MOST_POINTS = 1 << 22
WIDEST_ODDS = 30.0  # of the search for the best exponent


class Law(ABC):
    """Noise on the integers, whose independent parts add up to it; the module has the formulas.

    Examples
    --------
    >>> from veilsum.privacy import DiscreteLaplace
    >>> whole = DiscreteLaplace(Fraction(4096))
    >>> share = whole.part(Fraction(1, 50))
    >>> round(50 * float(share.variance) / float(whole.variance), 9)
    1.0
    """

    name: ClassVar[str]  # in a sentence

    if TYPE_CHECKING:  # a field of some laws, computed by others

        @property
        @abstractmethod
        def variance(self) -> float | Fraction:
            """In grid steps squared."""

    @abstractmethod
    def part(self, beta: Fraction) -> Law:
        """The law with beta times the variance, of which 1/beta draws add up to this law."""

    def summed(self, draws: Fraction) -> Law:
        """The law of the sum of so many independent draws, for intervals of what was released."""
        return self.part(draws)

    @abstractmethod
    def shrunk(self, fraction: float) -> Self:
        """The same kind of law with that fraction of its deviation: what an audit must find."""

    @abstractmethod
    def draw(self, count: int, entropy: Entropy = SYSTEM) -> Integers:
        """Draw exactly: for releases."""

    @abstractmethod
    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw quickly, in floating point: for simulations, never for a release."""

    @abstractmethod
    def epsilon(self, l1: int, l2: float, dimension: int = 1, delta: float = 0.0) -> float:
        """What a vector costs that moves by so many steps in l1 and l2 norm, as an upper bound."""

    @abstractmethod
    def event(
        self, epsilon: float, l1: int, l2: float, dimension: int, delta: float
    ) -> PrivacyEvent:
        """The event of a release that is stated to cost (epsilon, delta)."""

    @abstractmethod
    def log_characteristic(self, u: Floats) -> Floats:
        """log E e^(iuX)."""

    @abstractmethod
    def moment(self, odds: float) -> tuple[float, float]:
        """s > 0 and log E e^(sX); s runs through all that are finite as the odds run through R."""

    @abstractmethod
    def furthest(self) -> float:
        """u beyond which |phi| adds up to less than `ERROR`."""

    def tail(self, probability: float) -> int:
        """x with P(|X| >= x) <= probability, in grid steps: Chernoff's bound at the best s."""
        log = math.log(2 / probability)

        def bound(odds: float) -> float:
            s, moment = self.moment(odds)
            return (moment + log) / s

        low, high = -WIDEST_ODDS, WIDEST_ODDS
        for _ in range(80):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, second) if bound(first) <= bound(second) else (first, high)
        return math.ceil(bound((low + high) / 2))

    def quantile(self, confidence: float) -> int:
        """The least m with P(|X| <= m) >= confidence, in grid steps; exact within 2e-10."""
        if not 0 < confidence < 1:
            raise PrivacyError(f"confidence must be above 0 and below 1; found {confidence:g}")
        return _quantile(self, confidence)


@lru_cache(maxsize=256)
def _quantile(law: Law, confidence: float) -> int:
    low, high = -1, law.tail(1 - confidence)
    points = _Points(law, high)
    while high - low > 1:
        middle = (low + high) // 2
        if points.within(middle) >= confidence:
            high = middle
        else:
            low = middle
    return high


class _Points:
    """P(|X| <= m) for m up to `most`, from the points at which phi is not negligible."""

    def __init__(self, law: Law, most: int) -> None:
        self._count = 2 * most + law.tail(ERROR) + 2
        last = min(self._count // 2, math.ceil(self._count * law.furthest() / (2 * math.pi)))
        if last > MOST_POINTS:
            raise PrivacyError(f"an interval of this noise would need {last:,} points")
        half = math.pi / self._count * np.arange(1, last + 1, dtype=np.float64)  # u/2
        sine = np.sin(half)
        phi = np.exp(law.log_characteristic(2 * half))
        if 2 * last == self._count:
            phi[-1] /= 2  # the point at pi counts once
        self._half: Floats = half
        self._factors: Floats = 2 * phi / sine / self._count

    def within(self, m: int) -> float:
        """P(|X| <= m)."""
        whole = (2 * m + 1) / self._count
        return whole + float((self._factors * np.sin((2 * m + 1) * self._half)).sum())
