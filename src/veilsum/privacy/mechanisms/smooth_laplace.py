"""Laplace noise in proportion to a smooth sensitivity: (epsilon, delta), with an exact sampler."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _validate
from veilsum._statistic import Statistic, Status
from veilsum.errors import PrivacyError
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import finite_floats, floor_log2, from_grid, to_grid
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.mechanisms.base import MOST_ERROR, Array, Mechanism
from veilsum.privacy.mechanisms.smooth import SmoothMechanism
from veilsum.privacy.sensitivity import smooth_log, smoothing

GRID = 40  # bits between the least scale and the grid of a release
SLACK = 2.0**-36  # of delta, for noise on a grid
LEAST_DELTA = 2.0**-30
ROUND_UP = 1 + Fraction(1, 2**46)  # a sensitivity computed in floats may have come out low


@dataclass(frozen=True)
class SmoothLaplaceMechanism(SmoothMechanism):
    """Z ~ Lap(1), (eps, delta); the exact delta is known for every multiple m/eps of the scale.

    It is

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

    The exact release is xi(s), rounded to a grid g = 2^exponent, plus discrete Laplace noise. The
    grid must not show the scale, so it follows from the least S on the domain, which whoever derives
    the bound derives with it (`ScaleRule.least`); a bound that goes below it is refused. Rounding
    moves xi by up to one step more, and floats by up to 2 `input_error`: the noise is that of the
    bound S + g + 2 input_error, which is as smooth as S, so both facts above hold for it. For any
    shift and dilation the delta of discrete Laplace noise of scale t >= 2^39 steps is within 4/t of
    that of Laplace noise: tanh(1/2t) <= 1/2t bounds the probabilities by the densities, the
    normalising constants shift the loss by less than 1/t^2, and a sum over a function of bounded
    variation is within its variation, at most 2/t, of the integral. The factor of a release is
    therefore the least for delta - 2^-36.

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smooth_log, smoothing
    >>> bound = smooth_log(0.5, 20.0, smoothing=smoothing(1.0, 0.01))
    >>> mechanism = SmoothLaplaceMechanism(1.0, bound, 0.01)
    >>> round(mechanism.factor, 3), mechanism.release([1.0, 3.0]).shape
    (1.058, (2,))
    """

    delta: float
    factor: float | None = None
    input_error: float = 0.0

    name: ClassVar[str] = "smooth-laplace"
    pure: ClassVar[bool] = False
    takes_delta: ClassVar[bool] = True

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """Its smoothing alone must not spend more than delta."""
        why = super().misfit(statistic, epsilon, delta)
        if not why and statistic.scale is not None:
            try:
                laplace_factor(epsilon, delta, statistic.scale.smoothing)
            except PrivacyError as problem:
                return f"needs a smoother scale rule: {problem}"
        return why

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Self:
        """With the least factor."""
        return cls(epsilon, statistic, delta, None, error)

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """For log s between 0.5 and 20, at delta = 0.01."""
        return (cls(1.0, smooth_log(0.5, 20.0, smoothing=smoothing(1.0, 0.01)), 0.01),)

    def __post_init__(self) -> None:
        """Work out the least factor, or refuse one that spends more than delta."""
        super().__post_init__()
        _validate.positive(PrivacyError, epsilon=self.epsilon, delta=self.delta)
        _validate.probability(PrivacyError, delta=self.delta)
        if not 0 <= self.input_error <= MOST_ERROR * self.rule.least:
            raise PrivacyError(
                "nothing limits how far a computed value of this statistic is from the true one, which an "
                "exact release must cover; give public bounds"
            )
        if self.statistic.status is Status.REFUTED and self.factor is not None:
            return  # no factor would help
        least = laplace_factor(self.epsilon, self.delta, self.rule.smoothing)
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

    @property
    def status(self) -> Status:
        """Of the bits that `release` returns: that of the bound."""
        return self.ideal_status

    @property
    def exponent(self) -> int | None:
        """A grid of 2^-40 of the least scale that any signal can have; None where none is derived."""
        if not self.rule.least:
            return None
        return floor_log2(Fraction(self.multiple * self.rule.least)) - GRID

    @property
    def release_factor(self) -> float:
        """The factor of a release: the least for delta - 2^-36, and no less than `factor`."""
        if self.statistic.status is Status.REFUTED:
            return float(self.factor or 0.0)
        if not self.delta >= LEAST_DELTA:
            raise PrivacyError(
                f"an exact release needs a delta of at least 2^-30; found {self.delta:g}"
            )
        least = laplace_factor(self.epsilon, self.delta - SLACK, self.rule.smoothing)
        return max(float(self.factor or 0.0), least)

    def release_steps(self, signal: float) -> Fraction:
        """The scale of a release in grid steps, rounding paid for: as private as the signal."""
        if self.exponent is None:
            raise PrivacyError(
                "an exact release needs a lower bound on the sensitivity over the whole domain, and none "
                "is derived for this one; use smooth_log with bounds=(low, high)"
            )
        per = Fraction(self.release_factor) / Fraction(float(self.epsilon))
        g = Fraction(2) ** self.exponent
        bound = Fraction(float(self.rule.at(signal))) * ROUND_UP
        paid = 1 + 2 * Fraction(float(self.input_error)) / g
        return Fraction(math.ceil(per * (bound / g + paid)))

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """from_grid(to_grid(xi(s)) + X), X discrete Laplace of the scale that belongs to s."""
        checked(entropy)
        signals = finite_floats(values)
        steps = [self.release_steps(float(s)) for s in signals.ravel()]
        assert self.exponent is not None
        points = to_grid(self.mean(signals).ravel(), self.exponent)
        drawn = np.array(
            [DiscreteLaplace(t).draw(1, entropy)[0] for t in steps], dtype=points.dtype
        )
        return from_grid(points + drawn, self.exponent).reshape(signals.shape)

    def _standard(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
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
    """The delta that Lap(factor S/eps) spends in the worst case (see `SmoothLaplaceMechanism`).

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smoothing
    >>> gamma = smoothing(1.0, 0.01)  # that of Nissim et al., who take m = 2
    >>> round(smooth_laplace_delta(1.0, gamma, factor=2.0), 6)
    0.000111
    """
    if smoothing + math.exp(-smoothing) * epsilon / factor > epsilon * (1 + 1e-12) or factor < 1:
        raise PrivacyError(f"factor {factor:g} is too small for smoothing {smoothing:g}")
    if smoothing == 0:
        return 0.0
    grow, shift = math.expm1(smoothing), epsilon / factor
    near = math.exp((shift - epsilon - smoothing) / grow)
    away = math.exp((-shift - epsilon - smoothing) / grow)
    return -math.expm1(-smoothing) * (near + away) / 2


def laplace_factor(epsilon: float, delta: float, smoothing: float) -> float:
    """The least m for which Lap(m S/eps) is (eps, delta)-DP: solve the exact delta for m.

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smoothing
    >>> round(laplace_factor(1.0, 0.01, smoothing(1.0, 0.01)), 4)
    1.0577
    """
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
    kinks 0 and |move|, so {loss > eps} is a few intervals, and on each both distributions have one
    slope.

    Examples
    --------
    >>> laplace_delta(move=1.0, scale=1.0, other=1.0, epsilon=1.0)
    0.0
    >>> round(laplace_delta(move=1.0, scale=1.0, other=1.0, epsilon=0.5), 4)  # 1 - e^(-1/4)
    0.2212
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
