"""Which mechanism is best: the least worst-case variance under the same promise.

    best(epsilon, domain) = argmin over mechanisms of max_x Var release(x)

All candidates are pure eps-DP for the adjacency that the domain describes, and unbiased, so the
variance is all that tells them apart. The choice looks at public numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.mechanisms.additive import DiscreteLaplace, Laplace
from murmura.privacy.mechanisms.base import Mechanism
from murmura.privacy.mechanisms.local import Duchi, Hybrid, Piecewise
from murmura.privacy.mechanisms.staircase import Staircase


@dataclass(frozen=True)
class RealStatistic:
    """A real statistic, x and x' adjacent when |x - x'| <= sensitivity."""

    sensitivity: float

    def __post_init__(self) -> None:
        """Refuse a sensitivity that no finite noise serves."""
        _validate.positive(PrivacyError, sensitivity=self.sensitivity)

    def candidates(self, epsilon: float) -> list[Mechanism]:
        """Laplace and staircase noise."""
        return [Laplace(epsilon, self.sensitivity), Staircase(epsilon, self.sensitivity)]

    def variance(self, mechanism: Mechanism) -> float:
        """The variance, the same for every x."""
        return mechanism.worst_variance


@dataclass(frozen=True)
class IntegerStatistic(RealStatistic):
    """A whole-number statistic that moves by at most a whole `sensitivity`."""

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not a whole number."""
        super().__post_init__()
        _validate.at_least(PrivacyError, 1, sensitivity=self.sensitivity)  # type: ignore[arg-type]

    def candidates(self, epsilon: float) -> list[Mechanism]:
        """Those for reals, and discrete Laplace."""
        return [*super().candidates(epsilon), DiscreteLaplace(epsilon, self.sensitivity)]


@dataclass(frozen=True)
class BoundedSignal:
    """A value of [low, high], any two values adjacent; only whole numbers if `integer`."""

    low: float
    high: float
    integer: bool = False

    def __post_init__(self) -> None:
        """Refuse bounds that are not finite, not in order or, for whole numbers, not whole."""
        if not (math.isfinite(self.high - self.low) and self.low < self.high):
            raise PrivacyError(
                f"bounds must be finite with low < high; found ({self.low}, {self.high})"
            )
        if self.integer and not (self.low == round(self.low) and self.high == round(self.high)):
            raise PrivacyError(f"bounds must be whole numbers; found ({self.low}, {self.high})")

    def candidates(self, epsilon: float) -> list[Mechanism]:
        """Noise for the whole width, and the local mechanisms."""
        width, bounds = self.high - self.low, (self.low, self.high)
        whole: list[Mechanism] = [DiscreteLaplace(epsilon, width)] if self.integer else []
        return [
            Laplace(epsilon, width),
            Staircase(epsilon, width),
            *whole,
            Duchi(epsilon, *bounds),
            Piecewise(epsilon, *bounds),
            Hybrid(epsilon, *bounds),
        ]

    def variance(self, mechanism: Mechanism) -> float:
        """The worst over the domain: at an end, or at the value nearest the middle."""
        middle = (self.low + self.high) / 2
        values = np.array([self.high, math.floor(middle) if self.integer else middle])
        return float(mechanism.variance(values).max())


Domain = RealStatistic | IntegerStatistic | BoundedSignal


@dataclass(frozen=True)
class Alternative:
    """A mechanism that was not chosen, and how much noisier it is."""

    mechanism: Mechanism
    variance: float
    ratio: float


@dataclass(frozen=True)
class Choice:
    """The mechanism of least worst-case variance, and what the others would cost."""

    mechanism: Mechanism
    variance: float
    alternatives: tuple[Alternative, ...]

    def against(self, name: str) -> Alternative:
        """The alternative of that name, such as "laplace"."""
        for other in self.alternatives:
            if other.mechanism.name == name:
                return other
        names = ", ".join(other.mechanism.name for other in self.alternatives)
        raise PrivacyError(f"{name!r} is no alternative here; found {names}")

    def __str__(self) -> str:
        """Say it in a sentence, with every alternative's ratio."""
        others = ", ".join(
            f"{_times(other.ratio)} with {other.mechanism.name}" for other in self.alternatives
        )
        return (
            f"{self.mechanism.name} noise at epsilon = {self.mechanism.epsilon:g} has the least "
            f"worst-case variance, {self.variance:.4g}; it would be {others}."
        )


def _times(ratio: float) -> str:
    return "the same" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times that"


def best(epsilon: float, domain: Domain) -> Choice:
    """The mechanism with the least worst-case variance for a domain, and by how much it wins.

    On equal variances the simpler one, which comes first in `domain.candidates`, is kept.
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    found = _sorted(domain.candidates(epsilon), domain.variance)
    (first, least), rest = found[0], found[1:]
    others = (Alternative(mechanism, value, value / least) for mechanism, value in rest)
    return Choice(first, least, tuple(others))


def _sorted(
    mechanisms: Iterable[Mechanism], variance: Callable[[Mechanism], float]
) -> list[tuple[Mechanism, float]]:
    return sorted(((m, variance(m)) for m in mechanisms), key=lambda pair: pair[1])
