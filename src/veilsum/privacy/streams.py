"""User-level streams: all T readings of a person together for what one release costs.

Reading t has Gaussian noise of its own variance v_t. The Renyi divergences of such noise add up in
proportion to 1/v_t, so all readings that move at once cost what one release with noise sigma costs where

    sum over t of 1/v_t = 1/sigma^2,

and reading t has the share sigma^2/v_t of it. The mean of the first t readings has the noise variance
(v_1 + ... + v_t)/t^2. It is c^2 sigma^2, the same at every t from m on, for

    v_t = c^2 sigma^2 m          for t <= m,
    v_t = c^2 sigma^2 (2 t - 1)  for t > m,      c^2 = 1 + sum over t = m + 1 .. T of 1/(2 t - 1):

the first m variances add up to c^2 sigma^2 m^2, each later one adds t^2 - (t - 1)^2, and the shares add up
to 1. No independent noise does better at all t >= m: S_t = v_1 + ... + v_t <= c^2 sigma^2 t^2 bounds
sum 1/v_t from below by its value here (1/v is convex and falls: Abel summation of its tangents).

With m = 10 the mean has c = 1.67 times the deviation of one release for a year of days, 2.09 for a year of
hours (T = 8,760), and sqrt(10/t) times as much before; noise of one size would have sqrt(T/t). The known
v_t = t H_T sigma^2 has sqrt(H_T (t + 1)/(2 t)), which is 2.30 at t = 10 and 2.20 at T = 8,760. T must be
known: without an end 1/v_t needs a finite sum, so that v_t grows faster than t log t.

Pure epsilon does not gain: losses add up with 1/b_t, and sum 1/b_t <= 1/b over the first t leaves their
mean with at least sqrt(t) times the noise of scale b, whatever the b_t (power means).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from veilsum import _validate
from veilsum.errors import PrivacyError

SETTLED = 10  # m: from this reading on the noise of the mean stays the same
LONGEST = 10**7  # readings
ROUNDING = 2.0**-44  # of a share: all of them together are never more than one


@dataclass(frozen=True)
class Horizon:
    """The readings of a stream that ends, and what each of them may cost.

    Parameters
    ----------
    readings : int
        T.

    Examples
    --------
    >>> year = Horizon(8760)
    >>> [round(year.deviation(t), 2) for t in (1, 10, 8760)]
    [6.62, 2.09, 2.09]
    >>> round(sum(year.share(t) for t in range(1, 8761)), 9)
    1.0
    """

    readings: int

    def __post_init__(self) -> None:
        """Refuse what is no number of readings."""
        _validate.at_least(PrivacyError, 1, horizon=self.readings)
        _validate.at_most(PrivacyError, LONGEST, horizon=self.readings)

    @property
    def settled(self) -> int:
        """m, or T if that is less."""
        return min(SETTLED, self.readings)

    def share(self, first: int, last: int | None = None) -> float:
        """sigma^2/v_t, rounded down, of one reading or added up over several.

        Parameters
        ----------
        first, last : int
            The readings, 1 to T; `first` alone without a last one.
        """
        last = first if last is None else last
        if not 1 <= first <= last <= self.readings:
            raise PrivacyError(
                f"the noise of this stream is for its readings 1 to {self.readings:,}; found reading "
                f"{last:,}; state a horizon that is long enough, or begin a new stream with a new budget"
            )
        m = self.settled
        early = max(0, min(last, m) - first + 1) / m
        later = _odd(max(first, m + 1), last)
        return (1 - ROUNDING) * (early + later) / self._squared

    def variance(self, t: int) -> float:
        """v_t/sigma^2."""
        return 1 / self.share(t)

    def deviation(self, t: int) -> float:
        """c, and before reading m sqrt(m/t) c: of the noise of the mean of t readings, over sigma."""
        return math.sqrt(self._squared * max(self.settled / t, 1.0))

    @property
    def _squared(self) -> float:
        """c^2."""
        return 1 + _odd(self.settled + 1, self.readings)


@lru_cache(maxsize=256)
def _odd(first: int, last: int) -> float:
    """1/(2 t - 1), added up over t from first to last; 0 where there is none."""
    return float((1 / (2 * np.arange(first, last + 1, dtype=np.float64) - 1)).sum())
