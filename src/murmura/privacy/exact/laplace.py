"""Laplace noise fit for release: pure epsilon-DP of the very bits that leave the agent.

    released = from_grid(to_grid(x) + X),    P(X = k) proportional to exp(-|k|/t),    t = steps/eps.

Proof. Let x and x' be adjacent, ||x - x'||_1 <= Delta. On the grid they lie at most `steps` apart
(`grid`), so each vector of grid points k has

    P(k | x)/P(k | x') = prod_c exp((|k_c - x'_c| - |k_c - x_c|)/t) <= exp(steps/t) = exp(eps),

by the triangle inequality. X has exactly that law (`discrete`), t is a fraction and no float, and
what follows is a function of k, the same for every input. No step of this is approximate.

Floats are taken at their word: epsilon and sensitivity are the fractions that the given floats
are. A sensitivity is itself the result of floating-point work and may have come out low, so it is
raised by a factor 1 + 2^-50 (four units in its last place). If the statistic was computed with an
absolute error, say log s within `input_error`, two neighbours may be 2 input_error further apart
in each coordinate, and this is paid for as well.

Not covered: how long a release takes (numbers beyond 2^61 grid steps take a slower path).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.exact.discrete import DiscreteLaplace
from murmura.privacy.exact.entropy import SYSTEM, Entropy, checked
from murmura.privacy.exact.grid import (
    Floats,
    finite_floats,
    floor_log2,
    from_grid,
    paid_steps,
    saturate,
    to_grid,
    whole_numbers,
)
from murmura.privacy.guarantee import Status

ROUND_UP = 1 + Fraction(1, 2**50)
FINEST = -1074  # exponent of the smallest float
LARGEST_LOG2 = 960  # of a scale: the noise must remain a float


@dataclass(frozen=True)
class ExactLaplace:
    """Laplace noise of scale at least Delta/eps on a grid of a power of two, drawn exactly.

    `sensitivity` is the largest l1 distance between the statistics of two neighbours, over the
    `dimension` coordinates that one signal moves. The granularity is about scale/2^40, and at most
    sensitivity/2^20, so rounding raises the scale by less than dimension parts in 2^19.
    """

    epsilon: float
    sensitivity: float
    dimension: int = 1
    input_error: float = 0.0

    status: ClassVar[Status] = Status.PROVED  # of the bits that `release` gives

    def __post_init__(self) -> None:
        """Check every number, and that floats can hold the noise."""
        _validate.positive(PrivacyError, epsilon=self.epsilon, sensitivity=self.sensitivity)
        _validate.at_least(PrivacyError, 1, dimension=self.dimension)
        if not 0 <= self.input_error < math.inf:
            raise PrivacyError(
                f"input_error must be a finite number of at least 0; found {self.input_error}"
            )
        if floor_log2(self.distance / Fraction(float(self.epsilon))) > LARGEST_LOG2:
            raise PrivacyError(
                f"sensitivity {self.sensitivity:g} at epsilon {self.epsilon:g} needs noise beyond "
                "what a float can hold; bound the signals, or raise epsilon"
            )

    @cached_property
    def distance(self) -> Fraction:
        """(1 + 2^-50) Delta + 2 dimension input_error: how far apart neighbours can be."""
        error = 2 * int(self.dimension) * Fraction(float(self.input_error))
        return ROUND_UP * Fraction(float(self.sensitivity)) + error

    @cached_property
    def exponent(self) -> int:
        """The granularity is 2^exponent."""
        scale = self.distance / Fraction(float(self.epsilon))
        wanted = min(floor_log2(scale) - 40, floor_log2(self.distance) - 20)
        return max(wanted, FINEST)

    @property
    def granularity(self) -> float:
        """g = 2^exponent: every release is a multiple of it."""
        return math.ldexp(1.0, self.exponent)

    @property
    def steps(self) -> int:
        """How many grid steps apart two neighbours can be, rounding included."""
        return paid_steps(self.distance / Fraction(2) ** self.exponent, int(self.dimension))

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise in grid steps, of scale steps/eps."""
        return DiscreteLaplace(self.steps / Fraction(float(self.epsilon)))

    @property
    def scale(self) -> float:
        """g steps/eps, the noise's scale, as a float that is never below it."""
        return _rounded_up(self.noise.scale * Fraction(2) ** self.exponent)

    @property
    def variance(self) -> float:
        """g^2 2r/(1 - r)^2, about 2 scale^2."""
        return (self.granularity * math.sqrt(self.noise.variance)) ** 2

    @property
    def reason(self) -> str:
        """Why the promise stands, as the end of a sentence."""
        return (
            f"the noise is discrete Laplace of scale {self.scale:.6g} on multiples of "
            f"2^{self.exponent}, drawn exactly from the operating system's entropy, and rounding "
            "to that grid is paid for in the scale"
        )

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Floats:
        """from_grid(to_grid(x) + X) for each value: a new release each time it is called."""
        checked(entropy)
        array = finite_floats(values)
        points = to_grid(array.ravel(), self.exponent)
        released = from_grid(points + self.noise.draw(points.size, entropy), self.exponent)
        return released.reshape(array.shape)


@dataclass(frozen=True)
class ExactDiscreteLaplace:
    """Noise for whole numbers: x + X with P(X = k) proportional to exp(-eps |k|/Delta).

    The grid is the integers, so nothing is rounded and eps is spent to the last bit. For counts
    its variance, 2r/(1-r)^2 with r = exp(-eps/Delta), is below the Laplace law's 2 (Delta/eps)^2.
    A release beyond 64 bits becomes the largest integer of its sign, which is post-processing.
    """

    epsilon: float
    sensitivity: int = 1

    status: ClassVar[Status] = Status.PROVED  # of the bits that `release` gives

    def __post_init__(self) -> None:
        """Check both numbers."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.at_least(PrivacyError, 1, sensitivity=self.sensitivity)

    @property
    def granularity(self) -> float:
        """The integers' own: 1."""
        return 1.0

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise, of scale Delta/eps."""
        return DiscreteLaplace(int(self.sensitivity) / Fraction(float(self.epsilon)))

    @property
    def scale(self) -> float:
        """Delta/eps, as a float that is never below it."""
        return _rounded_up(self.noise.scale)

    @property
    def variance(self) -> float:
        """2r/(1 - r)^2."""
        return self.noise.variance

    @property
    def reason(self) -> str:
        """Why the promise stands, as the end of a sentence."""
        return (
            f"the noise is discrete Laplace of scale {self.scale:.6g} on the integers, drawn "
            "exactly from the operating system's entropy"
        )

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """x + X for each whole number x: a new release each time it is called."""
        checked(entropy)
        points = whole_numbers(values)
        released: NDArray[Any] = saturate(points + self.noise.draw(points.size, entropy))
        return released.reshape(np.shape(values))


def _rounded_up(exact: Fraction) -> float:
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)
