"""How far the noise of masked sums can be from 0, at a confidence: from its exact distribution.

The noise of all sums in an estimate is X ~ GDL(a, t) grid steps, a = (sum of |F_k|)/h, with

    phi(u) = E e^(iuX) = ((1-r)^2/(1 - 2 r cos u + r^2))^a,    r = e^(-1/t),

or Skellam noise of variance v, phi(u) = exp(-v (1 - cos u)). X is a whole number, so that N equidistant
points of [0, 2 pi) give

    1/N sum_j phi(u_j) sin((m + 1/2) u_j)/sin(u_j/2)  =  P(|X| <= m) + (what lies around N, 2N, ...).

The noise's `tail` makes what is added less than `ERROR`. Points beyond u = U add less than that, too: the
first phi is at most (pi (1-r)/(2 sqrt(r) u))^(2a), the second exp(-2 v u^2/pi^2), and their sum at most
about its integral, which is known. The cost depends on a alone, not on t or v.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.shares import GeneralizedDiscreteLaplace
from veilsum.privacy.skellam import Skellam

ERROR = 1e-10  # of a probability, at most, from each of the two sources
MOST_POINTS = 1 << 22

Floats = NDArray[np.float64]


@lru_cache(maxsize=256)
def sum_quantile(noise: GeneralizedDiscreteLaplace | Skellam, confidence: float) -> int:
    """The least m with P(|X| <= m) >= confidence, in grid steps.

    Parameters
    ----------
    noise : GeneralizedDiscreteLaplace or Skellam
        The distribution of X (`MaskedParameters.noise_of`); of the former, an order of at least 1/2.
    confidence : float
        Above 0 and below 1.

    Returns
    -------
    int
        In grid steps; the probability is exact within 2e-10.

    Raises
    ------
    PrivacyError
        If a number is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one = GeneralizedDiscreteLaplace(Fraction(1), Fraction(4096))
    >>> sum_quantile(one, 0.95)  # discrete Laplace: about 4096 log 20
    12271
    """
    if not 0 < confidence < 1:
        raise PrivacyError(f"confidence must be above 0 and below 1; found {confidence:g}")
    made = _skellam if isinstance(noise, Skellam) else _laplace
    points = made(noise, 1 - confidence)  # type: ignore[arg-type]
    low, high = -1, points.most
    while high - low > 1:
        middle = (low + high) // 2
        if points.within(middle) >= confidence:
            high = middle
        else:
            low = middle
    return high


class _Points:
    """P(|X| <= m), from the points at which phi is not negligible.

    Parameters
    ----------
    noise : GeneralizedDiscreteLaplace or Skellam
        X.
    most : int
        Where the quantile is at most.
    tail : int
        Beyond which X lies with a probability of `ERROR` at most.
    furthest : float
        U.
    """

    def __init__(
        self, noise: GeneralizedDiscreteLaplace | Skellam, most: int, tail: int, furthest: float
    ) -> None:
        self.most, self._count = most, 2 * most + tail + 2
        last = min(self._count // 2, math.ceil(self._count * furthest / (2 * math.pi)))
        if last > MOST_POINTS:
            raise PrivacyError(f"an interval of this noise would need {last:,} points")
        half = math.pi / self._count * np.arange(1, last + 1, dtype=np.float64)  # u/2
        sine = np.sin(half)
        phi = np.exp(noise.log_characteristic(2 * half))
        if 2 * last == self._count:
            phi[-1] /= 2  # the point at pi counts once
        self._half: Floats = half
        self._factors: Floats = 2 * phi / sine / self._count

    def within(self, m: int) -> float:
        """P(|X| <= m)."""
        whole = (2 * m + 1) / self._count
        return whole + float((self._factors * np.sin((2 * m + 1) * self._half)).sum())


def _laplace(noise: GeneralizedDiscreteLaplace, outside: float) -> _Points:
    order, scale = float(noise.order), float(noise.scale)
    if order < 0.5:
        raise PrivacyError(
            f"order must be at least 1/2, below which the sum converges too slowly; found {order:g}"
        )
    r, rest = math.exp(-1 / scale), -math.expm1(-1 / scale)
    furthest = math.pi
    if r > 0.1:  # otherwise there are few points in any case
        reach = math.pi * rest / (2 * math.sqrt(r))
        furthest = reach * (2 * order * ERROR) ** (-0.5 / order)
    return _Points(noise, noise.tail(outside), noise.tail(ERROR), furthest)


def _skellam(noise: Skellam, outside: float) -> _Points:
    variance = float(noise.variance)
    furthest = math.pi * math.sqrt(math.log(1 / ERROR) / (2 * variance))
    return _Points(noise, noise.tail(outside), noise.tail(ERROR), furthest)
