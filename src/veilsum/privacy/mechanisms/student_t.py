"""Student-t noise in proportion to a smooth sensitivity: pure epsilon (Bun and Steinke 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum import _extras, _validate
from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.mechanisms.base import Array, Mechanism
from veilsum.privacy.mechanisms.smooth import SmoothMechanism
from veilsum.privacy.sensitivity import smooth_log


@dataclass(frozen=True)
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

    Examples
    --------
    >>> from veilsum.privacy.sensitivity import smooth_log
    >>> bound = smooth_log(0.5, 20.0, smoothing=0.1)
    >>> round(StudentTMechanism(1.0, bound).multiple, 3)
    1.241
    """

    degrees: float = 3.0

    name: ClassVar[str] = "student-t"

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """Its scale rule must be smooth enough for epsilon."""
        why = super().misfit(statistic, epsilon, delta)
        if why or statistic.scale is None:
            return why
        smooth = 2 * statistic.scale.smoothing < epsilon
        return "" if smooth else "needs a smoothing below epsilon/2"

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Self:
        """With the degrees of freedom of least variance."""
        assert statistic.scale is not None  # `misfit`
        return cls(epsilon, statistic, best_degrees(epsilon, statistic.scale.smoothing))

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """For log s between 0.5 and 20."""
        return (cls(1.0, smooth_log(0.5, 20.0, smoothing=0.1)),)

    def __post_init__(self) -> None:
        """Refuse degrees without a variance, and a sensitivity that is not smooth enough."""
        super().__post_init__()
        student_t_multiple(self.epsilon, self.rule.smoothing, self.degrees)

    @property
    def multiple(self) -> float:
        """The least multiple that is pure eps-DP."""
        return student_t_multiple(self.epsilon, self.rule.smoothing, self.degrees)

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


def student_t_loss(move: float, scale: float, other: float, degrees: float) -> float:
    """sup_z |log p(z)/p'(z)| for p = scale T_d and p' = move + other T_d.

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
