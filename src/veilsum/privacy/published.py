"""The delta that the paper's noise for log s really spends, on the public domain of the signals.

The release is log s + Lap(b(s)) with b(s) = c r/s, r the radius and, as published, c =
4 ln(2/delta)/(e eps^2). Take s' < s, lambda = log(s/s'), and divide by b(s), the smaller of the two
scales. The pair is then Lap(0, e^lambda) and Lap(kappa, 1), with kappa = lambda s/(c r), and it
spends the larger of

    H_eps(Lap(0, e^lambda) || Lap(kappa, 1)),    H_eps(Lap(kappa, 1) || Lap(0, e^lambda)),

H_eps(p || q) = integral of (p - e^eps q)+, which `laplace_delta` has in closed form.

1. H grows with kappa. It is 1 - integral of min(p, e^eps q), an integral over heights of the overlap
   of two intervals around 0 and kappa, and the overlap shrinks as kappa grows. So for each lambda
   the pair as high up as possible is the worst: s = min(high, r/(1 - e^-lambda)), and kappa(lambda) =
   (lambda/c) min(high/r, 1/(1 - e^-lambda)), which grows with lambda. A floor low > 0 leaves
   0 < lambda <= log(min(high, low + r)/low), one number to search over.
2. f_b <= (b'/b) f_b' for Laplace densities of scales b <= b'. So for all lambda of a cell [u, v],
   with w = v - u and kappa = kappa(v), H_eps of the first direction is at most
   e^w H_{eps-w}(Lap(0, e^v) || Lap(kappa, 1)) and of the second
   H_{eps-w}(Lap(kappa, 1) || Lap(0, e^u)). Cells are halved until the largest bound is within
   `TOLERANCE` of what a pair spends: the delta is found, and nothing exceeds the bound.
3. Without a floor lambda has no limit, and delta tends to 1 as s' nears 0.

Under Network DP the scale is max(b(s), weight/eps): lambda and kappa of a pair are then at most what
they were, one by one. `WorstPair.with_weights` is the bound over all lambda and kappa up to their
largest values, which covers every weight.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.mechanisms.smooth_laplace import laplace_delta
from veilsum.privacy.sensitivity import factor_as_published

TOLERANCE = 1e-4  # of the bound on delta, relative
ROUNDING = 1 + 1e-9  # what floats may have done to it
LEAST = 1e-300  # of a delta: less is nothing
MOST_CELLS = 20_000


class WorstPair(NamedTuple):
    """Two adjacent signals, the delta spent between them, and what no pair exceeds."""

    delta: float
    s: float
    other: float
    scale: float  # of the noise at s, the smaller of the two
    at_most: float
    with_weights: float


@lru_cache(maxsize=256)
def worst_pair(
    low: float,
    epsilon: float,
    delta: float,
    high: float = math.inf,
    radius: float = 1.0,
    *,
    parts: int = 1,
    fraction: float = 1.0,
) -> WorstPair:
    """The adjacent signals in [low, high] between which the published noise spends most.

    Examples
    --------
    >>> floor_of_1, floor_of_3 = worst_pair(1.0, 1.0, 0.01), worst_pair(3.0, 1.0, 0.01)
    >>> round(floor_of_1.delta, 4), round(floor_of_3.delta, 4)
    (0.0934, 0.0058)
    """
    _validate.positive(PrivacyError, epsilon=epsilon, delta=delta, radius=radius)
    if not low > 0:
        return WorstPair(1.0, min(high, radius), 0.0, math.inf, 1.0, 1.0)
    noise = float(factor_as_published(np.array(epsilon), delta)) * parts / (epsilon * fraction)
    search = _Search(epsilon * fraction / parts, noise, high / radius)
    widest = math.log1p(min(radius, high - low) / low)
    found, at, bound = search.largest(widest, search.shift)
    weighted = search.largest(widest, lambda _: search.shift(widest))[2]
    s = radius * search.top(at)
    pair = (min(high, low + radius), low) if at == widest else (s, s * math.exp(-at))
    return WorstPair(found, *pair, noise * radius / pair[0], bound, weighted)


class _Search(NamedTuple):
    """The largest delta over lambda, by halving cells."""

    epsilon: float
    noise: float  # c
    high: float  # in units of the radius

    def top(self, dilation: float) -> float:
        """The larger signal of the worst pair, in units of the radius."""
        return min(self.high, -1 / math.expm1(-dilation))

    def shift(self, dilation: float) -> float:
        """kappa: 1/c in the limit of an equal scale."""
        if dilation == 0:
            return 1 / self.noise if self.high == math.inf else 0.0
        return dilation * self.top(dilation) / self.noise

    def bound(self, u: float, v: float, shift: float) -> float:
        """What no pair of a cell exceeds; of a cell of one point, what its pair spends."""
        epsilon = self.epsilon - (v - u)
        down = math.exp(v - u) * laplace_delta(shift, math.exp(v), 1.0, epsilon)
        return min(1.0, max(down, laplace_delta(shift, 1.0, math.exp(u), epsilon)))

    def largest(self, widest: float, shift: Callable[[float], float]) -> tuple[float, float, float]:
        """The largest delta that a pair was seen to spend, its lambda, and what none exceeds."""
        best, at = self.bound(widest, widest, shift(widest)), widest
        cells = [(-self.bound(0.0, widest, shift(widest)), 0.0, widest)]
        for _ in range(MOST_CELLS):
            bound, u, v = cells[0]
            if -bound <= best * (1 + TOLERANCE) or -bound < LEAST:
                break
            middle = (u + v) / 2
            found = self.bound(middle, middle, shift(middle))
            if found > best:
                best, at = found, middle
            heapq.heapreplace(cells, (-self.bound(u, middle, shift(middle)), u, middle))
            heapq.heappush(cells, (-self.bound(middle, v, shift(v)), middle, v))
        return best, at, max(best, -cells[0][0]) * ROUNDING
