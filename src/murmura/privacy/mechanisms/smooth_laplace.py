"""Laplace noise in proportion to a smooth sensitivity, with the delta that it really spends."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.mechanisms.base import Array
from murmura.privacy.mechanisms.smooth import SmoothNoise


@dataclass(frozen=True, eq=False)
class SmoothLaplace(SmoothNoise):
    """Z ~ Lap(1), (eps, delta):  the exact delta of a multiple m/eps is

        (1 - e^{-gamma}) exp(-(eps + gamma)/(e^gamma - 1)) cosh((eps/m)/(e^gamma - 1))

    Towards a smaller scale, r' = r e^{-lambda}, the loss is -lambda +- h/r' + (e^lambda - 1)|z|/r
    beyond either side, where |z|/r ~ Exp(1); integrating (1 - e^{eps - loss})_+ gives
    (1 - e^{-lambda})/2 (e^{-x} + e^{-y}), x and y = (eps + lambda -+ h/r')/(e^lambda - 1), which
    grows in h/r' <= eps/m and, for m >= 1, in lambda <= gamma. Towards a larger scale the loss is
    at most lambda + e^{-lambda} eps/m, convex in lambda: no delta if gamma + e^{-gamma} eps/m is at
    most eps.

    `factor` is m; left out it is the least that this argument allows, which for small delta is the
    least of all. Nissim et al. (Cor. 2.4) take m = 2 with gamma = eps/(2 ln(2/delta)). At eps = 1,
    delta = 0.01 that spends a hundredth of delta (m = 1.06 is enough); for large eps it spends
    more than delta (0.022 at eps = 15), and is refused.
    """

    delta: float
    factor: float | None = None

    name: ClassVar[str] = "smooth-laplace"

    def __post_init__(self) -> None:
        """Work out the least factor, or refuse one that spends more than delta."""
        super().__post_init__()
        _validate.positive(PrivacyError, epsilon=self.epsilon, delta=self.delta)
        _validate.probability(PrivacyError, delta=self.delta)
        least = laplace_factor(self.epsilon, self.delta, self.sensitivity.smoothing)
        if self.factor is None:
            object.__setattr__(self, "factor", least)
        elif not self.factor >= least * (1 - 1e-12):
            raise PrivacyError(
                f"noise of {self.factor:g} S/epsilon spends more than delta = {self.delta:g}; "
                f"the least factor is {least:.6g}"
            )

    @property
    def multiple(self) -> float:
        """m/eps."""
        return float(self.factor or 0.0) / self.epsilon

    @property
    def unit_variance(self) -> float:
        """Var Lap(1) = 2."""
        return 2.0

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(size=shape)

    def privacy_loss(self, x: float, other: float) -> float:
        """h/r where the scales are equal, infinite where they differ: hence delta."""
        h, r, r2 = self._pair(x, other)
        return h / r if r == r2 else math.inf

    def spent_delta(self, x: float, other: float) -> float:
        """The delta that the pair really costs at eps: the larger of both directions."""
        h, r, r2 = self._pair(x, other)
        return max(laplace_delta(h, r, r2, self.epsilon), laplace_delta(h, r2, r, self.epsilon))


def smooth_laplace_delta(epsilon: float, smoothing: float, factor: float) -> float:
    """The delta that Lap(factor S/eps) spends in the worst case (see `SmoothLaplace`)."""
    if smoothing + math.exp(-smoothing) * epsilon / factor > epsilon * (1 + 1e-12) or factor < 1:
        raise PrivacyError(f"factor {factor:g} is too small for smoothing {smoothing:g}")
    if smoothing == 0:
        return 0.0
    grow, shift = math.expm1(smoothing), epsilon / factor
    near = math.exp((shift - epsilon - smoothing) / grow)
    away = math.exp((-shift - epsilon - smoothing) / grow)
    return -math.expm1(-smoothing) * (near + away) / 2


def laplace_factor(epsilon: float, delta: float, smoothing: float) -> float:
    """The least m for which Lap(m S/eps) is (eps, delta)-DP: solve the exact delta for m."""
    gamma = smoothing
    if gamma == 0:
        return 1.0
    grow = math.expm1(gamma)
    log_cosh = math.log(delta) + (epsilon + gamma) / grow - math.log(-math.expm1(-gamma))
    if not (log_cosh > 0 and gamma < epsilon):
        raise PrivacyError(
            f"smoothing {gamma:g} alone spends more than delta = {delta:g} at epsilon = "
            f"{epsilon:g}; try sensitivity.smoothing(epsilon, delta) = "
            f"{epsilon / (2 * math.log(2 / delta)):g} or less"
        )
    arcosh = log_cosh + math.log1p(math.sqrt(-math.expm1(-2 * log_cosh)))
    return max(1.0, epsilon / (grow * arcosh), epsilon * math.exp(-gamma) / (epsilon - gamma))


def laplace_delta(move: float, scale: float, other: float, epsilon: float) -> float:
    """delta = integral (p - e^eps p')_+ for p = Lap(0, scale), p' = Lap(move, other).

    The loss log p/p' = log(other/scale) - |z|/scale + |z - move|/other is linear between the
    kinks 0 and |move|, so {loss > eps} is a few intervals, and on each both laws have one slope.
    """
    h = abs(move)

    def excess(z: float) -> float:
        return math.log(other / scale) - abs(z) / scale + abs(z - h) / other - epsilon

    reach = max(scale, other) * (epsilon + abs(math.log(other / scale)) + 1)
    far = (h + reach) / _gap(scale, other)  # beyond every root of excess in the tails
    total = 0.0
    for a, b in itertools.pairwise((-far, 0.0, h, h + far)):
        u, v = _where_positive(a, b, excess(a), excess(b))
        if v > u:
            u, v = (-math.inf if u == -far else u), (math.inf if v == h + far else v)
            total += _mass(u, v, 0.0, scale, 0.0) - _mass(u, v, h, other, epsilon)
    return max(total, 0.0)


def _gap(scale: float, other: float) -> float:
    """How fast the loss moves in the tails, relatively; 1 where it does not move at all."""
    gap = abs(scale - other) / max(scale, other)
    return gap if gap > 0 else 1.0


def _where_positive(a: float, b: float, at_a: float, at_b: float) -> tuple[float, float]:
    """Where the line through (a, at_a) and (b, at_b) is above 0, within [a, b]."""
    if at_a <= 0 and at_b <= 0:
        return a, a
    if at_a > 0 and at_b > 0:
        return a, b
    root = a + (b - a) * at_a / (at_a - at_b)
    return (a, root) if at_a > 0 else (root, b)


def _mass(u: float, v: float, centre: float, scale: float, log_weight: float) -> float:
    """e^{log_weight} P(u < Lap(centre, scale) < v), u and v on one side of the centre."""
    ends = (math.exp(log_weight - abs(end - centre) / scale) for end in (u, v))
    return abs(next(ends) - next(ends)) / 2
