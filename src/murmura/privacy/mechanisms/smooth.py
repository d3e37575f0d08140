"""Noise in proportion to a smooth sensitivity: the scale is read off the signal.

    release(s) = xi(s) + scale(s) Z,    scale(s) = multiple S(s)

For adjacent s, s' with h = |xi(s) - xi(s')|, r = scale(s), r' = scale(s'), two things hold:

    h <= min(S(s), S(s'))         S bounds the local sensitivity, at s and at s'
    |lambda| <= gamma             lambda = log(r'/r), S is gamma-smooth

so Z must hide a shift by h together with a dilation by e^lambda: Student's t here, Laplace in
`smooth_laplace`. Both worst cases are exact. The scale is as private as the signal and never
leaves the agent.

Both facts are about one statistic: a bound of log s says nothing of exp s. A mechanism therefore
checks that its bound belongs to its statistic. Where the bound does not name that very function,
the two facts are tried on pairs all over the domain; a pair that breaks one is an error, and what
no pair breaks is claimed, for it is the caller's word.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.guarantee import Status
from murmura.privacy.mechanisms.base import Array
from murmura.privacy.sensitivity.base import SensitivityBound


@dataclass(frozen=True, eq=False)
class SmoothNoise(ABC):
    """release(s) = xi(s) + multiple S(s) Z for signals s of the sensitivity's domain."""

    epsilon: float
    statistic: Callable[[Array], ArrayLike]
    sensitivity: SensitivityBound

    name: ClassVar[str]
    status: ClassVar[Status] = Status.NONE  # mechanisms.base.FLOATING

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
    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array: ...

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

    def scale(self, signals: ArrayLike) -> Array:
        """multiple S(s): private, as the signal is."""
        return self.multiple * self.sensitivity.at(signals)

    def mean(self, x: ArrayLike) -> Array:
        """E release(s) = xi(s)."""
        return np.asarray(self.statistic(np.asarray(x, dtype=np.float64)), dtype=np.float64)

    def variance(self, x: ArrayLike) -> Array:
        """(multiple S(s))^2 Var Z: private, as the signal is."""
        return self.scale(x) ** 2 * self.unit_variance

    def release(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """xi(s) + multiple S(s) Z, for every signal s. Simulation only."""
        s = np.asarray(values, dtype=np.float64)
        return self.mean(s) + self.scale(s) * self._draw(s.shape, rng)

    def _pair(self, x: float, other: float) -> tuple[float, float, float]:
        """h, r, r'."""
        both = np.array([x, other])
        xi, scale = self.mean(both), self.scale(both)
        return float(abs(xi[0] - xi[1])), float(scale[0]), float(scale[1])


@dataclass(frozen=True, eq=False)
class StudentT(SmoothNoise):
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
    """

    degrees: float = 3.0

    name: ClassVar[str] = "student-t"
    delta: ClassVar[float] = 0.0

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

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
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
    """sup_z |log p(z)/p'(z)| for p = scale T_d and p' = move + other T_d."""
    d, spread = degrees, math.log(other / scale)
    above = 2 * math.sinh(spread / 2) ** 2 + move**2 / (2 * d * scale * other)
    return (d - 1) / 2 * abs(spread) + (d + 1) / 2 * _arcosh1p(above)


def student_t_multiple(epsilon: float, smoothing: float, degrees: float) -> float:
    """The least scale per unit of gamma-smooth sensitivity that is pure eps-DP (see `StudentT`)."""
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
    """The degrees of freedom with the least variance: minimise multiple^2 d/(d - 2) over d."""
    from scipy.optimize import minimize_scalar

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
