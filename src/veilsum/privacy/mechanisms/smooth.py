"""Noise in proportion to a smooth sensitivity: the scale is read off the signal.

    sample(s) = xi(s) + scale(s) Z,    scale(s) = multiple S(s)

For adjacent s, s' with h = |xi(s) - xi(s')|, r = scale(s), r' = scale(s'), two things hold:

    h <= min(S(s), S(s'))         S bounds the local sensitivity, at s and at s'
    |lambda| <= gamma             lambda = log(r'/r), S is gamma-smooth

so Z must hide a shift by h together with a dilation by e^lambda: Student's t or Laplace. Both worst
cases are exact. The scale is as private as the signal and never
leaves the agent.

Both facts are about one statistic: a bound of log s says nothing of exp s. A mechanism therefore
checks that its bound belongs to its statistic. Where the bound does not name that very function,
the two facts are tried on pairs all over the domain; a pair that breaks one is an error, and what
no pair breaks is claimed, for it is the caller's word.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _extras, _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.exact.discrete import DiscreteLaplace
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import finite_floats, floor_log2, from_grid, to_grid
from veilsum.privacy.guarantee import Status
from veilsum.privacy.mechanisms.base import Array, Mechanism
from veilsum.privacy.sensitivity.base import SensitivityBound

GRID = 40  # bits between the least scale and the grid of a release
SLACK = 2.0**-36  # of delta, for noise on a grid
LEAST_DELTA = 2.0**-30
ROUND_UP = 1 + Fraction(1, 2**46)  # a sensitivity computed in floats may have come out low


@dataclass(frozen=True, eq=False)
class SmoothMechanism(Mechanism):
    """sample(s) = xi(s) + multiple S(s) Z for signals s of the sensitivity's domain.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent signals.
    statistic
        xi, vectorised.
    sensitivity
        A smooth bound of that statistic.
    """

    statistic: Callable[[Array], ArrayLike]
    sensitivity: SensitivityBound

    scalar: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a bound that does not bound this statistic."""
        if self.sensitivity.statistic is not self.statistic:
            _check_bound(self.statistic, self.sensitivity)

    @property
    @abstractmethod
    def multiple(self) -> float:
        """The scale of the noise per unit of sensitivity."""

    @property
    @abstractmethod
    def unit_variance(self) -> float:
        """Var Z."""

    @abstractmethod
    def _standard(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws of Z."""

    @property
    def domain(self) -> None:
        """The signal itself goes in: adjacency is that of the sensitivity."""
        return None

    @property
    def ideal_status(self) -> Status:
        """That of the sensitivity, and claimed at best where its statistic is another function."""
        found = self.sensitivity.status
        if self.sensitivity.statistic is self.statistic or found is not Status.PROVED:
            return found
        return Status.CLAIMED

    @property
    def reason(self) -> str:
        """That of the sensitivity."""
        if self.sensitivity.statistic is self.statistic:
            return self.sensitivity.reason
        return f"that the bound holds for this statistic is given; {self.sensitivity.reason}"

    @property
    def worst_variance(self) -> float:
        """multiple^2 (largest S)^2 Var Z."""
        return float((self.multiple * np.max(self.sensitivity.largest)) ** 2 * self.unit_variance)

    def scale_at(self, signals: ArrayLike) -> Array:
        """multiple S(s): private, as the signal is."""
        return self.multiple * self.sensitivity.at(signals)

    def mean(self, x: ArrayLike) -> Array:
        """E sample(s) = xi(s)."""
        return np.asarray(self.statistic(np.asarray(x, dtype=np.float64)), dtype=np.float64)

    def variance(self, x: ArrayLike) -> Array:
        """(multiple S(s))^2 Var Z: private, as the signal is."""
        return self.scale_at(x) ** 2 * self.unit_variance

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """xi(s) + multiple S(s) Z, for every signal s. Simulation only."""
        s = np.asarray(values, dtype=np.float64)
        return self.mean(s) + self.scale_at(s) * self._standard(s.shape, rng)

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:  # noqa: ARG002
        """Refused: no exact sampler is known for this noise."""
        raise PrivacyError(
            f"mechanism {self.name} has no exact sampler, so nothing may be released with it; "
            "use smooth-laplace"
        )

    @property
    def status(self) -> Status:
        """None: there is no exact release."""
        return Status.NONE

    def _pair(self, x: float, other: float) -> tuple[float, float, float]:
        """h, r, r'."""
        both = np.array([x, other])
        xi, scale = self.mean(both), self.scale_at(both)
        return float(abs(xi[0] - xi[1])), float(scale[0]), float(scale[1])


@dataclass(frozen=True, eq=False)
class StudentTMechanism(SmoothMechanism):
    """Z ~ Student's t with d degrees of freedom: pure eps (Bun and Steinke 2019), Var d/(d - 2).

    With density ~ (d + z^2)^{-(d+1)/2} the loss at s is
    lambda + (d+1)/2 log((d + (u + h/r)^2 e^{-2 lambda})/(d + u^2)), a ratio of quadratics in u, so
    its supremum is a 2 x 2 eigenvalue:

        loss = (d-1)/2 |lambda| + (d+1)/2 arcosh(cosh lambda + h^2/(2 d r r'))

    the larger of both directions. With h^2/(r r') <= e^{-|lambda|}/multiple^2 it is convex in
    |lambda| (arcosh(e^m cosh(x - m)) is convex in x), so the worst is at |lambda| = 0 or gamma:

        (d+1) arsinh(1/(2 sqrt(d) multiple)) <= eps
        (d-1)/2 gamma + (d+1)/2 arcosh(cosh gamma + e^{-gamma}/(2 d multiple^2)) <= eps

    `multiple` is the least that does both. It needs gamma < eps/d, and is below the
    (d+1)/(2 sqrt(d) (eps - (d+1) gamma)) that adding the costs of shift and dilation would give.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent signals.
    statistic
        xi, vectorised.
    sensitivity
        A smooth bound of that statistic.
    degrees
        d, the degrees of freedom, above 2.

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smooth_log
    >>> bound = smooth_log(0.5, 20.0, smoothing=0.1)
    >>> round(StudentTMechanism(1.0, np.log, bound).multiple, 3)
    1.241
    """

    degrees: float = 3.0

    name: ClassVar[str] = "student-t"

    def __post_init__(self) -> None:
        """Refuse degrees without a variance, and a sensitivity that is not smooth enough."""
        super().__post_init__()
        student_t_multiple(self.epsilon, self.sensitivity.smoothing, self.degrees)

    @property
    def multiple(self) -> float:
        """The least multiple that is pure eps-DP."""
        return student_t_multiple(self.epsilon, self.sensitivity.smoothing, self.degrees)

    @property
    def unit_variance(self) -> float:
        """d/(d - 2)."""
        return self.degrees / (self.degrees - 2)

    def _standard(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_t(self.degrees, shape)

    def privacy_loss(self, x: float, other: float) -> float:
        """(d-1)/2 |lambda| + (d+1)/2 arcosh(cosh lambda + h^2/(2 d r r'))."""
        h, r, r2 = self._pair(x, other)
        return student_t_loss(h, r, r2, self.degrees)


def _check_bound(statistic: Callable[[Array], ArrayLike], bound: SensitivityBound) -> None:
    """Try |xi(s) - xi(s')| <= min(S(s), S(s')) and |log S(s)/S(s')| <= gamma on many pairs."""
    s = _spread(bound)
    for step in (1.0, 0.5, 0.1, 0.01):
        near = s + step * bound.radius
        inside = ~bound.domain.violations(near) if bound.domain else np.isfinite(near)
        a, b = s[inside], near[inside]
        with np.errstate(all="ignore"):
            move = np.abs(np.asarray(statistic(a)) - np.asarray(statistic(b)))
        low, high = bound.at(a), bound.at(b)
        covered = move <= np.minimum(low, high) * (1 + 1e-9)
        smooth = np.abs(np.log(low / high)) <= bound.smoothing * (1 + 1e-9) + 1e-12
        if not (covered & smooth).all():
            raise PrivacyError(
                "the sensitivity bound does not belong to the statistic: adjacent signals near "
                f"{a[~(covered & smooth)][0]:g} move it further than the bound allows; make the "
                "bound for this statistic (sensitivity.smooth)"
            )


def _check_least(bound: SensitivityBound) -> None:
    """Refuse a least sensitivity that the bound goes below: the grid would be too coarse for it."""
    if not bound.least or bound.status is Status.REFUTED:  # of which nothing holds
        return
    below = bound.at(_spread(bound)) < bound.least * (1 - 1e-9)
    if not 0 <= bound.least < math.inf or below.any():
        raise PrivacyError(
            f"the sensitivity is stated to be at least {bound.least:g} and is less on its domain; leave "
            "`least` to whoever derives the bound (sensitivity.smooth_log)"
        )


def _spread(bound: SensitivityBound) -> Array:
    """Signals all over the domain of a bound: evenly, and ever closer to its ends."""
    low = bound.domain.low if bound.domain else -math.inf
    high = bound.domain.high if bound.domain else math.inf
    near, r = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 121)]), bound.radius
    base = low if math.isfinite(low) else (high if math.isfinite(high) else 0.0)
    ends = [base + r * near, base - r * near]
    if math.isfinite(low) and math.isfinite(high):
        ends += [high - r * near, np.linspace(low, high, 1001)]
    points = np.unique(np.concatenate(ends))
    return points[~bound.domain.violations(points)] if bound.domain else points


def student_t_loss(move: float, scale: float, other: float, degrees: float) -> float:
    """sup_z |log p(z)/p'(z)| for p = scale T_d and p' = move + other T_d.

    Parameters
    ----------
    move
        How far the statistic moves.
    scale, other
        The scales of the noise before and after.
    degrees
        d, the degrees of freedom.

    Returns
    -------
    float
        The largest privacy loss between the two.

    Examples
    --------
    >>> round(student_t_loss(move=1.0, scale=1.0, other=1.2, degrees=3.0), 4)
    1.2839
    """
    d, spread = degrees, math.log(other / scale)
    above = 2 * math.sinh(spread / 2) ** 2 + move**2 / (2 * d * scale * other)
    return (d - 1) / 2 * abs(spread) + (d + 1) / 2 * _arcosh1p(above)


def student_t_multiple(epsilon: float, smoothing: float, degrees: float) -> float:
    """The least scale per unit of smooth sensitivity that is pure eps-DP (see `StudentTMechanism`).

    Parameters
    ----------
    epsilon
        The privacy loss allowed.
    smoothing
        gamma, by how much the log of the sensitivity may change between adjacent signals.
    degrees
        d, the degrees of freedom, above 2.

    Returns
    -------
    float
        The multiple.

    Raises
    ------
    PrivacyError
        If the variance would be infinite, or the smoothing is too large for epsilon.

    Examples
    --------
    >>> round(student_t_multiple(1.0, smoothing=0.1, degrees=3.0), 4)
    1.2407
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    if not degrees > 2:
        raise PrivacyError(f"degrees must be above 2 for a finite variance; found {degrees}")
    d, gamma = degrees, smoothing
    if not d * gamma < epsilon:
        raise PrivacyError(
            f"Student-t noise with {d:g} degrees needs smoothing below epsilon/degrees = "
            f"{epsilon / d:g}; found {gamma:g}; take a smaller smoothing or fewer degrees"
        )
    still = 1 / (2 * math.sqrt(d) * math.sinh(epsilon / (d + 1)))
    a = (2 * epsilon - (d - 1) * gamma) / (d + 1)  # cosh a - cosh gamma, without cancellation:
    rise = 2 * math.sinh((a + gamma) / 2) * math.sinh((a - gamma) / 2)
    return max(still, math.sqrt(math.exp(-gamma) / (2 * d * rise)))


def best_degrees(epsilon: float, smoothing: float) -> float:
    """The degrees of freedom with the least variance: minimise multiple^2 d/(d - 2) over d.

    Parameters
    ----------
    epsilon
        The privacy loss allowed.
    smoothing
        gamma, by how much the log of the sensitivity may change between adjacent signals.

    Returns
    -------
    float
        d, above 2.

    Raises
    ------
    PrivacyError
        If the smoothing is not below epsilon/2.

    Examples
    --------
    >>> round(best_degrees(1.0, smoothing=0.1), 2)
    3.69
    """
    minimize_scalar = _extras.load("scipy.optimize").minimize_scalar
    _validate.positive(PrivacyError, epsilon=epsilon)
    most = min(epsilon / smoothing if smoothing else math.inf, 1e3 + 1e3 * epsilon)
    if not most > 2:
        raise PrivacyError(
            f"Student-t noise needs smoothing below epsilon/2 = {epsilon / 2:g}; found {smoothing}"
        )

    def log_variance(x: float) -> float:
        d = 2 + (most - 2) / (1 + math.exp(-x))  # strictly between 2 and most
        return 2 * math.log(student_t_multiple(epsilon, smoothing, d)) + math.log(d / (d - 2))

    found = minimize_scalar(log_variance, bounds=(-15.0, 15.0), method="bounded")
    return float(2 + (most - 2) / (1 + math.exp(-found.x)))


def _arcosh1p(above: float) -> float:
    """arcosh(1 + x) without cancellation."""
    return math.log1p(above + math.sqrt(above * (2 + above)))


@dataclass(frozen=True, eq=False)
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
    the bound derives with it (`SensitivityBound.least`); a bound that goes below it is refused. Rounding
    moves xi by up to one step more, and floats by up to 2 `input_error`: the noise is that of the
    bound S + g + 2 input_error, which is as smooth as S, so both facts above hold for it. For any
    shift and dilation the delta of discrete Laplace noise of scale t >= 2^39 steps is within 4/t of
    that of Laplace noise: tanh(1/2t) <= 1/2t bounds the probabilities by the densities, the
    normalising constants shift the loss by less than 1/t^2, and a sum over a function of bounded
    variation is within its variation, at most 2/t, of the integral. The factor of a release is
    therefore the least for delta - 2^-36.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent signals.
    statistic
        xi, vectorised.
    sensitivity
        A smooth bound of that statistic.
    delta
        The probability with which the loss may exceed epsilon.
    factor
        m, the scale in units of S/epsilon; the least one by default.
    input_error
        How far, at most, the computed statistic is from the true one.

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smooth_log, smoothing
    >>> bound = smooth_log(0.5, 20.0, smoothing=smoothing(1.0, 0.01))
    >>> mechanism = SmoothLaplaceMechanism(1.0, np.log, bound, 0.01)
    >>> round(mechanism.factor, 3), mechanism.release([1.0, 3.0]).shape
    (1.058, (2,))
    """

    delta: float
    factor: float | None = None
    input_error: float = 0.0

    name: ClassVar[str] = "smooth-laplace"

    def __post_init__(self) -> None:
        """Work out the least factor, or refuse one that spends more than delta."""
        super().__post_init__()
        _check_least(self.sensitivity)
        _validate.positive(PrivacyError, epsilon=self.epsilon, delta=self.delta)
        _validate.probability(PrivacyError, delta=self.delta)
        if self.sensitivity.status is Status.REFUTED and self.factor is not None:
            return  # no factor would help
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

    @property
    def status(self) -> Status:
        """Of the bits that `release` returns: that of the bound."""
        return self.ideal_status

    @property
    def exponent(self) -> int | None:
        """A grid of 2^-40 of the least scale that any signal can have; None where none is derived."""
        if not self.sensitivity.least:
            return None
        return floor_log2(Fraction(self.multiple * self.sensitivity.least)) - GRID

    @property
    def release_factor(self) -> float:
        """The factor of a release: the least for delta - 2^-36, and no less than `factor`."""
        if self.sensitivity.status is Status.REFUTED:
            return float(self.factor or 0.0)
        if not self.delta >= LEAST_DELTA:
            raise PrivacyError(
                f"an exact release needs a delta of at least 2^-30; found {self.delta:g}"
            )
        least = laplace_factor(self.epsilon, self.delta - SLACK, self.sensitivity.smoothing)
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
        bound = Fraction(float(self.sensitivity.at(signal))) * ROUND_UP
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

    def event(self, released: bool = False) -> PrivacyEvent:  # noqa: ARG002 - the same cost
        """(epsilon, delta), and nothing more is known."""
        return PrivacyEvent.of(self.epsilon, self.delta)

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

    Parameters
    ----------
    epsilon
        The privacy loss allowed.
    smoothing
        gamma, by how much the log of the sensitivity may change between adjacent signals.
    factor
        m, the scale of the noise in units of S/epsilon.

    Returns
    -------
    float
        The exact delta.

    Raises
    ------
    PrivacyError
        If the factor is too small for the smoothing.

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

    Parameters
    ----------
    epsilon, delta
        The privacy loss allowed, and the probability of exceeding it.
    smoothing
        gamma, by how much the log of the sensitivity may change between adjacent signals.

    Returns
    -------
    float
        m, the scale of the noise in units of S/epsilon.

    Raises
    ------
    PrivacyError
        If the smoothing alone spends more than delta.

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

    Parameters
    ----------
    move
        How far the statistic moves.
    scale, other
        The scales of the noise before and after.
    epsilon
        The privacy loss allowed.

    Returns
    -------
    float
        The probability of exceeding epsilon that the pair costs, in this direction.

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
