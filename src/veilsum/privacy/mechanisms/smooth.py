"""Noise in proportion to a smooth sensitivity: the scale is read off the signal.

    sample(s) = xi(s) + scale(s) Z,    scale(s) = multiple S(s)

For adjacent s, s' with h = |xi(s) - xi(s')|, r = scale(s), r' = scale(s'), two things hold:

    h <= min(S(s), S(s'))         S bounds the local sensitivity, at s and at s'
    |lambda| <= gamma             lambda = log(r'/r), S is gamma-smooth

so Z must hide a shift by h together with a dilation by e^lambda: Student's t or Laplace. Both worst
cases are exact. The scale is as private as the signal and never
leaves the agent.

Both facts are about one statistic: a bound of log s says nothing of exp s. The scale rule names the
function that it is of, and both facts are tried on pairs all over its domain; a pair that breaks one is
an error.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum._statistic import ScaleRule, Statistic, Status
from veilsum.errors import PrivacyError
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.mechanisms.base import Array, Mechanism, Pair

LAST_DIGITS = 2.0**-49  # of a statistic


@dataclass(frozen=True)
class SmoothMechanism(Mechanism):
    """sample(s) = xi(s) + multiple S(s) Z for signals s of the sensitivity's domain.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent signals.
    statistic
        With a scale rule.
    """

    statistic: Statistic

    requested: ClassVar[bool] = False
    scalar: ClassVar[bool] = True
    adds: ClassVar[bool] = False
    pure: ClassVar[bool] = True  # whether its guarantee has no delta

    def __post_init__(self) -> None:
        """Refuse a scale rule that does not bound its statistic."""
        rule = self.statistic.scale
        if rule is None:
            raise PrivacyError(
                f"mechanism {self.name} follows the signal; state a scale rule (sensitivity.smooth)"
            )
        if self.statistic.status is not Status.REFUTED:  # of which nothing holds
            _check_rule(rule)

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """For a statistic with a scale rule."""
        if statistic.scale is None:
            return "follows the signal, and this statistic has no scale rule; ask for sensitivity smooth"
        if delta and cls.pure:
            return "is pure: a delta buys nothing; leave it out"
        return "" if delta or cls.pure else "needs a delta above 0"

    @property
    def rule(self) -> ScaleRule:
        """S(s), and what it is of."""
        assert self.statistic.scale is not None  # `__post_init__`
        return self.statistic.scale

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Moves of the radius at both ends of the domain and between."""
        low, high, r = self.rule.domain.low, self.rule.domain.high, self.rule.radius
        top = high if math.isfinite(high) else low + 20 * r
        starts = (low, low + (top - low) / 20, low + (top - low) / 8, top - r)
        return tuple((s, s + r) for s in starts)

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
    def ideal_status(self) -> Status:
        """That of the statistic."""
        return self.statistic.status

    @property
    def reason(self) -> str:
        """That of the statistic."""
        return self.statistic.reason

    @property
    def worst_variance(self) -> float:
        """multiple^2 (largest S)^2 Var Z."""
        return float((self.multiple * self.statistic.l1) ** 2 * self.unit_variance)

    def scale_at(self, signals: ArrayLike) -> Array:
        """multiple S(s): private, as the signal is."""
        return self.multiple * self.rule.at(signals)

    def mean(self, x: ArrayLike) -> Array:
        """E sample(s) = xi(s)."""
        return np.asarray(self.rule.statistic(np.asarray(x, dtype=np.float64)), dtype=np.float64)

    def variance(self, x: ArrayLike) -> Array:
        """(multiple S(s))^2 Var Z: private, as the signal is."""
        return self.scale_at(x) ** 2 * self.unit_variance

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """xi(s) + multiple S(s) Z, for every signal s. Simulation only."""
        s = np.asarray(values, dtype=np.float64)
        return self.mean(s) + self.scale_at(s) * self._standard(s.shape, rng)

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """Refused: no exact sampler is known for this noise."""
        raise PrivacyError(
            f"mechanism {self.name} has no exact sampler, so nothing may be released with it; "
            "use smooth-laplace"
        )

    @property
    def status(self) -> Status:
        """None: there is no exact release."""
        return Status.NONE

    def weakened(self, missing: float) -> Mechanism:
        """The same statistic with that much less noise around it."""
        return _Weakened(self.epsilon, self, missing)

    def _pair(self, x: float, other: float) -> tuple[float, float, float]:
        """h, r, r'."""
        both = np.array([x, other])
        xi, scale = self.mean(both), self.scale_at(both)
        return float(abs(xi[0] - xi[1])), float(scale[0]), float(scale[1])


@dataclass(frozen=True, eq=False)
class _Weakened(Mechanism):
    """A mechanism with part of its noise missing, under the same claim: what an audit must find."""

    whole: SmoothMechanism
    missing: float

    requested: ClassVar[bool] = False

    @property
    def worst_variance(self) -> float:
        return self.whole.worst_variance * (1 - self.missing) ** 2

    def variance(self, x: ArrayLike) -> Array:
        return self.whole.variance(x) * (1 - self.missing) ** 2

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        xi = self.whole.mean(values)
        return xi + (1 - self.missing) * (self.whole.sample(values, rng) - xi)

    @property
    def status(self) -> Status:
        return Status.NONE

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        raise PrivacyError("a weakened mechanism is for audits, and releases nothing")

    def privacy_loss(self, x: float, other: float) -> float:
        return self.whole.privacy_loss(x, other) / (1 - self.missing)


def _check_rule(bound: ScaleRule) -> None:
    """Try |xi(s) - xi(s')| <= min(S(s), S(s')) and |log S(s)/S(s')| <= gamma on many pairs."""
    statistic, s = bound.statistic, _spread(bound)
    if bound.least and (bound.at(s) < bound.least * (1 - 1e-9)).any():
        raise PrivacyError(
            f"the sensitivity is stated to be at least {bound.least:g} and is less on its domain; leave "
            "`least` to whoever derives the bound (sensitivity.smooth_log)"
        )
    for step in (1.0, 0.5, 0.1, 0.01):
        near = s + step * bound.radius
        inside = ~bound.domain.violations(near)
        a, b = s[inside], near[inside]
        with np.errstate(all="ignore"):
            xi, other = np.asarray(statistic(a)), np.asarray(statistic(b))
            move = np.abs(xi - other)
            lost = LAST_DIGITS * np.maximum(np.abs(xi), np.abs(other))  # in the difference
        low, high = bound.at(a), bound.at(b)
        covered = move <= np.minimum(low, high) * (1 + 1e-9) + lost
        smooth = np.abs(np.log(low / high)) <= bound.smoothing * (1 + 1e-9) + 1e-12
        if not (covered & smooth).all():
            raise PrivacyError(
                "the sensitivity bound does not belong to the statistic: adjacent signals near "
                f"{a[~(covered & smooth)][0]:g} move it further than the bound allows; make the "
                "bound for this statistic (sensitivity.smooth)"
            )


def _spread(bound: ScaleRule) -> Array:
    """Signals all over the domain of a bound: evenly, and ever closer to its ends."""
    low, high = bound.domain.low, bound.domain.high
    near, r = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 121)]), bound.radius
    base = low if math.isfinite(low) else (high if math.isfinite(high) else 0.0)
    ends = [base + r * near, base - r * near]
    if math.isfinite(low) and math.isfinite(high):
        ends += [high - r * near, np.linspace(low, high, 1001)]
    points = np.unique(np.concatenate(ends))
    return points[~bound.domain.violations(points)]
