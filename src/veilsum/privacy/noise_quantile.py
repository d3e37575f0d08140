"""How far a weighted sum of noise can be from 0, at a confidence: exact where the noise is known.

Additive noise (Laplace, discrete Laplace, staircase, Gaussian) has a known characteristic function phi, so

    P(|sum_k p_k d_k| <= x) = 2/pi int_0^inf sin(ux)/u prod_k phi(p_k u) du

is integrated; a few Laplace draws have heavier tails than the normal distribution of the same
variance (2.12 instead of 1.96 standard deviations for one of them), and an interval made from that
one would cover less than it says. For many draws the same follows from the fourth cumulant. Noise
on a lattice is smoothed by one step of it, and half a step is added. Bounded noise whose
distribution depends on the reading gets Bernstein's inequality, anything else Chebyshev's. Which of
these holds for a mechanism it says itself (`Mechanism.sum_quantile`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veilsum.families.base import quantile

if TYPE_CHECKING:
    from veilsum.privacy.mechanisms.base import Mechanism

Floats = NDArray[np.float64]

LAPLACE_CUMULANTS = 2.0, 12.0  # of Lap(1)
NEARLY_NORMAL = 0.01  # excess kurtosis below which the fourth cumulant is enough
MOST_TERMS = 300  # whose characteristic functions are multiplied; the rest counts as normal
REACH, STEPS = 400.0, 6400  # the integral, in units of one over the standard deviation
WIDEST = 60.0  # standard deviations


def noise_quantile(
    mechanism: Mechanism | Floats | None,
    weights: Floats,
    times: Floats,
    confidence: float,
    normal_variance: float = 0.0,
) -> float:
    """The x with P(|sum_k p_k d_k + normal| <= x) >= confidence.

    Examples
    --------
    >>> from veilsum.privacy import LaplaceMechanism
    >>> one = LaplaceMechanism(epsilon=1.0, sensitivity=1.0)
    >>> round(noise_quantile(one, np.ones(1), np.ones(1), 0.95), 3)  # log 20
    2.996
    """
    if mechanism is None or not len(weights):
        return quantile(confidence) * math.sqrt(normal_variance)
    if not isinstance(mechanism, np.ndarray):
        return mechanism.sum_quantile(weights, times, confidence, normal_variance)
    return additive_quantile(
        laplace_characteristic, *LAPLACE_CUMULANTS, weights * mechanism, times, confidence,
        normal_variance,
    )  # fmt: skip


def additive_quantile(
    factor: Callable[[Floats], Floats],
    second: float,
    fourth: float,
    weights: Floats,
    times: Floats,
    confidence: float,
    normal_variance: float,
    step: float = 0.0,
) -> float:
    """For independent symmetric terms with one characteristic function and two cumulants."""
    variance = second * float((times * weights**2).sum()) + normal_variance
    if variance == 0:
        return 0.0
    sd = math.sqrt(variance)
    kurtosis = fourth * float((times * weights**4).sum()) / variance**2
    if kurtosis < NEARLY_NORMAL:
        z = quantile(confidence)
        return sd * (z + kurtosis * (z**3 - 3 * z) / 24 + kurtosis**2)
    order = np.argsort(-weights * times**0.25)[:MOST_TERMS]
    rest = variance - second * float((times[order] * weights[order] ** 2).sum())
    u: Floats = (np.arange(STEPS, dtype=np.float64) + 0.5) * (REACH / STEPS)
    total = np.exp(-max(rest, 0.0) / variance * u**2 / 2)
    for weight, count in zip(weights[order] / sd, times[order], strict=True):
        total *= factor(weight * u) ** count
    total *= np.sinc(step / sd * u / (2 * math.pi))
    return sd * _solve(total * (2 / math.pi) * (REACH / STEPS) / u, u, confidence)


def _solve(integrand: Floats, u: Floats, confidence: float) -> float:
    """The least x with sum sin(ux) integrand >= confidence, by bisection."""
    low, high = 0.0, WIDEST
    for _ in range(45):
        middle = (low + high) / 2
        if float(np.sin(u * middle) @ integrand) >= confidence:
            high = middle
        else:
            low = middle
    return high


def laplace_characteristic(u: Floats) -> Floats:
    """1/(1 + u^2)."""
    return np.asarray(1 / (1 + u * u))


def bounded_quantile(
    largest: float,
    worst_variance: float,
    weights: Floats,
    times: Floats,
    confidence: float,
    lattice: float = 0.0,
) -> float:
    """Bernstein's inequality, or the normal distribution where corrections to it are small."""
    variance = worst_variance * float((times * weights**2).sum())
    z = quantile(confidence)
    log = math.log(2 / (1 - confidence))
    most = largest * float(weights.max())
    found = log * most / 3 + math.sqrt((log * most / 3) ** 2 + 2 * log * variance)
    found = min(found, largest * float((times * weights).sum()))
    ratio = largest**2 / worst_variance
    kurtosis = ratio * float((times * weights**4).sum() / (times * weights**2).sum() ** 2)
    if kurtosis < NEARLY_NORMAL:  # bounds the squared skewness, too
        half = lattice * float(weights.max()) / 2  # a sum on a lattice is next to a normal number
        found = min(found, math.sqrt(variance) * (z + kurtosis * z**3) + half)
    return found


def bounded_and_normal(
    largest: float,
    worst_variance: float,
    weights: Floats,
    times: Floats,
    confidence: float,
    normal_variance: float,
    lattice: float,
) -> float:
    """`bounded_quantile`, and a normal number that is added: either takes half of what may be missed."""
    if normal_variance:
        confidence = (1 + confidence) / 2
    found = bounded_quantile(largest, worst_variance, weights, times, confidence, lattice)
    return found + quantile(confidence) * math.sqrt(normal_variance)
