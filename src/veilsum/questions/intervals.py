"""How far noise reaches: of weighted sums of a law's draws, and of shares of a noised number.

    reach(w)      x with P(|sum_k w_k X_k + normal| <= x) >= 95%
    ratio         {m in [0, 1]: |A - m N| <= reach of the noise of A - m N}

Reach. One component on its own has the quantile of its law. A lattice that shows (deviation below 100
steps) is enumerated: equal weights are one law by a convolution, two of them a plane of points; where
that would be too many points, or there is sampling, the sum is smoothed by a step and half a step is
added. Everything else is the integral of the characteristic function (`noise_quantile`).

Ratio (Fieller's interval). A = sum of some, N = A + B. At the true share m, A - m N is (1 - m) X_A - m X_B,
whose law is known exactly; so the m that the noise allows are an interval for it, wherever N may be. With
sampling, n m (1 - m) is added at each m, which makes it Wilson's interval where there is no noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from veilsum.privacy.noise_quantile import additive_quantile
from veilsum.questions.columns import Floats

if TYPE_CHECKING:
    from veilsum.privacy import Law
    from veilsum.questions.answers import NoisedVector

CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # its quantile
COARSE = 100.0  # steps; where noise deviates by less, its lattice shows in an interval
MOST_PAIRS = 40_000  # of a plane of points that is enumerated
REST = 1e-7  # of probability that an enumeration leaves out
NODES = np.linspace(0.0, 1.0, 17)  # shares between which the reach of their noise is interpolated
TRIED = np.linspace(0.0, 1.0, 1025)  # shares, the nodes among them


def bounded(value: float, half: float, low: float, high: float) -> tuple[float, float, float]:
    """A number and the ends of its interval between public bounds, which it may lie beyond.

    An interval that lies wholly beyond a bound says that something unlikely happened, not that the number
    is exactly the bound: it goes from the bound as far as noise reaches, and covers no less for that.
    """
    if value + half <= low:
        return low, low, min(low + half, high)
    if value - half >= high:
        return high, max(high - half, low), high
    return min(max(value, low), high), max(value - half, low), min(value + half, high)


@lru_cache(maxsize=8192)
def reach(law: Law, weights: tuple[float, ...], sampling: float = 0.0) -> float:
    """x with P(|sum_k w_k X_k + normal| <= x) >= 95%, in steps.

    Parameters
    ----------
    law
        Of each X.
    weights
        Above 0.
    sampling
        Variance of a normal number that is added.
    """
    weights = tuple(w for w in weights if w > 0)
    if not weights:
        return NORMAL * math.sqrt(sampling)
    if len(weights) == 1 and not sampling:
        return law.quantile(CONFIDENCE) * weights[0]
    sd = math.sqrt(law.variance)
    w, times = np.unique(np.array(weights), return_counts=True)
    if sd < COARSE and not sampling and len(w) <= 2:
        found = _enumerated(law, tuple(w.tolist()), tuple(times.tolist()))
        if found is not None:
            return found
    coarse = float(w.max()) if sd < COARSE and sampling < w.max() ** 2 else 0.0
    return coarse / 2 + additive_quantile(
        lambda u: np.exp(law.log_characteristic(np.asarray(u) / sd)), 1.0, _kurtosis(law), w * sd,
        times.astype(float), CONFIDENCE, sampling, coarse,
    )  # fmt: skip


def _enumerated(law: Law, weights: tuple[float, ...], times: tuple[int, ...]) -> float | None:
    """The same over all points of the lattice; None if they are too many."""
    laws = [summed(law, count) for count in times]
    if math.prod(len(p) for p in laws) > MOST_PAIRS:
        return None
    at, mass = np.zeros(1), np.ones(1)
    for w, p in zip(weights, laws, strict=True):
        k = w * (np.arange(len(p)) - len(p) // 2)
        at, mass = np.add.outer(at, k).ravel(), np.multiply.outer(mass, p).ravel()
    size = np.abs(at)
    order = np.argsort(size)
    most = np.searchsorted(np.cumsum(mass[order]), CONFIDENCE)
    return float(size[order][min(int(most), len(order) - 1)])


@lru_cache(maxsize=256)
def summed(law: Law, count: int) -> Floats:
    """P(X_1 + ... + X_count = k) for k = -m..m: the inverse transform of phi^count."""
    most = math.ceil(law.tail(REST) * math.sqrt(count)) + 2
    points = 1 << (2 * most + law.tail(REST)).bit_length()
    u = np.asarray(2 * math.pi * np.fft.rfftfreq(points), dtype=np.float64)
    mass = np.fft.irfft(np.exp(count * law.log_characteristic(u)), points)
    return np.asarray(np.maximum(np.concatenate([mass[-most:], mass[: most + 1]]), 0.0))


@lru_cache(maxsize=256)
def _kurtosis(law: Law) -> float:
    """The excess kurtosis of a law, from its characteristic function."""
    sd = math.sqrt(law.variance)
    u = 0.05
    log = float(law.log_characteristic(np.array([u / sd]))[0])
    return 24 * (log + u * u / 2) / u**4


def student_quantile(freedom: float) -> float:
    """x with P(|T| <= x) = 95%, by the first three terms of Fisher's expansion around the normal law."""
    z, f = NORMAL, freedom
    one = (z**3 + z) / 4
    two = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    three = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + one / f + two / f**2 + three / f**3


def fieller(
    released: NoisedVector,
    top: float,
    bottom: float,
    others: int | None = 1,
    sampled: float = 0.0,
) -> tuple[float, float]:
    """The interval of a share: of one component in the sum of it and others, or in a public number.

    Parameters
    ----------
    released
        Of which the noise is.
    top, bottom
        Sums of released components; `bottom` is that of `top`, one component, and of `others`.
    others
        How many further components the bottom has; None where it is public.
    sampled
        How many records were sampled from the population that the share is of; 0 for a share of the
        records themselves.
    """
    low, high = fiellers(released, np.array([top]), bottom, others, sampled)
    return float(low[0]), float(high[0])


def fiellers(
    released: NoisedVector, tops: Floats, bottom: float, others: int | None, sampled: float = 0.0
) -> tuple[Floats, Floats]:
    """The same for several shares of one bottom: the lower ends and the upper ones."""
    a, b = ((1.0,), (0.0,)) if others is None else ((1.0, *[0.0] * others), (1.0,) * (1 + others))
    far = _reach_of_shares(released, a, b, sampled, 0.0)
    ends = np.array([_hull(float(top), bottom, far) for top in tops])
    return ends[:, 0], ends[:, 1]


def ratio(
    released: NoisedVector,
    a: tuple[float, ...],
    b: tuple[float, ...],
    top: float,
    bottom: float,
    *,
    sampled: float = 0.0,
    spread: float = 0.0,
) -> tuple[float, float]:
    """{m in [0, 1]: |top - m bottom| <= reach of sum_k (a_k - m b_k) X_k}, its hull; all if bottom <= 0.

    Parameters
    ----------
    released
        Of which the noise is.
    a, b
        What each component counts in `top` and in `bottom`.
    top, bottom
        The released sums.
    sampled, spread
        m (1 - m) sampled + spread is the variance of sampling in `top - m bottom`.
    """
    return _hull(top, bottom, _reach_of_shares(released, a, b, sampled, spread))


def _reach_of_shares(
    released: NoisedVector,
    a: tuple[float, ...],
    b: tuple[float, ...],
    sampled: float,
    spread: float,
) -> Floats:
    """How far noise and sampling reach at each share that is tried."""
    step = float(released.noise.step)
    reaches = _reaches(
        released.noise.law, a, b, _about(sampled / step**2), _about(spread / step**2)
    )
    return np.asarray(np.interp(TRIED, NODES, reaches) * step)


def _hull(top: float, bottom: float, far: Floats) -> tuple[float, float]:
    """Where |top - m bottom| is first and last within reach."""
    if bottom <= 0:
        return 0.0, 1.0
    gap = top - TRIED * bottom
    return _falls_below_0(TRIED, gap - far), _falls_below_0(TRIED[::-1], (-gap - far)[::-1])


def _falls_below_0(at: Floats, values: Floats) -> float:
    """Where values, linear between these places, are first at most 0; the last place if nowhere."""
    first = int(np.argmax(values <= 0))
    if values[first] > 0:
        return float(at[-1])
    if first == 0:
        return float(at[0])
    part = values[first - 1] / (values[first - 1] - values[first])
    return float(at[first - 1] + (at[first] - at[first - 1]) * part)


def _about(value: float) -> float:
    """A value raised to the next of 32 places of an octave: 1.1% of a deviation at most."""
    return 2.0 ** (math.ceil(32 * math.log2(value)) / 32) if value > 0 else 0.0


@lru_cache(maxsize=512)
def _reaches(
    law: Law, a: tuple[float, ...], b: tuple[float, ...], sampled: float, spread: float
) -> Floats:
    """At the nodes, in steps."""
    top, bottom = np.array(a), np.array(b)
    return np.array([
        reach(law, tuple(np.abs(top - m * bottom).tolist()), sampled * m * (1 - m) + spread)
        for m in NODES.tolist()
    ])  # fmt: skip
