"""Additive noise: release(x) = x + noise, for a fixed sensitivity.

The exact releases of real statistics lie on a grid g = 2^exponent:

    released = from_grid(to_grid(x) + X),    X on the integers, drawn exactly.

Proof. Let x and x' be adjacent, ||x - x'||_1 <= Delta. On the grid they lie at most `steps` apart
(`exact.grid`), and P(X = k - to_grid(x)) changes by at most e^eps between integers `steps` apart.
For Laplace noise, P(X = k) ~ exp(-|k|/t) with t = steps/eps, so each vector k of grid points has

    P(k | x)/P(k | x') = prod_c exp((|k_c - x'_c| - |k_c - x_c|)/t) <= exp(steps/t) = exp(eps)

by the triangle inequality; for the staircase, |k| and |k'| that differ by at most `steps` lie on
the same stair or on two consecutive ones. X has exactly that distribution (`privacy.laws`,
`exact.coins`), t is a fraction and no float, and what follows is a function of k, the same for
every input. No step of this is approximate.

Floats are taken as the fractions that they are. What rounding and floating-point work may have done to
a sensitivity is paid for by `Statistic.distance`.

Not covered: how long a release takes (numbers beyond 2^61 grid steps take a slower path).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import (
    Integers,
    finite_floats,
    floor_log2,
    from_grid,
    to_grid,
)
from veilsum.privacy.mechanisms.base import MOST_ERROR, Array, Mechanism, Pair
from veilsum.privacy.noise_quantile import additive_quantile

ROUNDING = 1e-9  # of a move that is the sensitivity but for its last digits
FINEST = -1074  # exponent of the smallest float
LARGEST_LOG2 = 960  # of a scale: the noise must remain a float


@dataclass(frozen=True)
class AdditiveMechanism(Mechanism):
    """release(x) = x + noise, symmetric, of a distribution that does not depend on x.

    Parameters
    ----------
    epsilon
        The privacy loss between adjacent statistics.
    sensitivity
        The largest l1 distance between the statistics of two adjacent signals.
    dimension
        How many coordinates of the statistic one signal moves.
    input_error
        How far, at most, a coordinate of the computed statistic is from the true one.
    """

    sensitivity: float
    dimension: int = 1
    input_error: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that no noise can serve."""
        _validate.positive(PrivacyError, epsilon=self.epsilon, sensitivity=self.sensitivity)
        _validate.at_least(PrivacyError, 1, dimension=self.dimension)
        if not 0 <= self.input_error < math.inf:
            raise PrivacyError(
                f"input_error must be a finite number of at least 0; found {self.input_error}"
            )

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """It needs a finite move."""
        why = super().misfit(statistic, epsilon, delta)
        finite = 0 < cls.norm(statistic) < math.inf
        return why or ("" if finite else "needs a statistic that moves by a finite amount above 0")

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Self:
        if not error <= MOST_ERROR * statistic.l1:
            raise PrivacyError(
                "nothing limits how far a computed value of this statistic is from the true one, which an "
                "exact release must cover; give public bounds"
            )
        more = {"delta": delta} if cls.takes_delta else {}
        return cls(epsilon, cls.norm(statistic), statistic.dimension, error, **more)

    @staticmethod
    def norm(statistic: Statistic) -> float:
        """The norm of the move that sets the scale: l1, for a density that falls with it."""
        return statistic.l1

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """For statistics that move by 1 and by 2."""
        return cls(1.0, 1.0), cls(1.0, 2.0)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The largest move, from 0 and elsewhere, and half of it."""
        move = float(self.sensitivity)
        return (0.0, move), (0.0, move / 2), (1e6, 1e6 + move)

    @property
    def statistic(self) -> Statistic:
        """What the noise covers."""
        return Statistic(self.sensitivity, dimension=self.dimension, error=self.input_error)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws of the noise, in floating point."""
        return self.sample(np.zeros(shape), rng)

    @abstractmethod
    def log_density(self, noise: ArrayLike) -> Array:
        """The log density (or log probability) of the noise."""

    @abstractmethod
    def cdf(self, noise: ArrayLike) -> Array:
        """P(noise <= z)."""

    def variance(self, x: ArrayLike) -> Array:
        """The same for every x."""
        return np.full(np.shape(x), self.worst_variance)

    def privacy_loss(self, x: float, other: float) -> float:
        """eps |x - x'|/sensitivity, for noise whose log density falls at a constant rate."""
        return self.epsilon * abs(x - other) / self.sensitivity

    def loss_between(self, x: Array, other: Array) -> float:
        """The move alone counts; one that is the sensitivity but for a last digit is the sensitivity."""
        moves, most = np.abs(np.asarray(x) - np.asarray(other)), float(self.sensitivity)
        moves[np.isclose(moves, most, rtol=ROUNDING, atol=0.0)] = most
        return sum(self.privacy_loss(0.0, float(move)) for move in moves)

    @property
    @abstractmethod
    def cumulants(self) -> tuple[float, float]:
        """The second and the fourth of the noise, in units of `unit`."""

    @abstractmethod
    def characteristic(self, u: Array) -> Array:
        """E cos(uX), X the noise in units of `unit`."""

    @property
    def unit(self) -> float:
        """What `cumulants` and `characteristic` are in units of."""
        return 1.0

    @property
    def lattice(self) -> float:
        """The step of noise on so coarse a lattice that an interval must know; 0 elsewhere."""
        return 0.0

    def sum_quantile(
        self, weights: Array, times: Array, confidence: float, normal_variance: float = 0.0
    ) -> float:
        """From the characteristic function of the sum: exact."""
        step = self.lattice * float(weights.max())
        return step / 2 + additive_quantile(
            self.characteristic, *self.cumulants, weights * self.unit, times, confidence,
            normal_variance, step,
        )  # fmt: skip


@dataclass(frozen=True)
class GridMechanism(AdditiveMechanism):
    """Additive noise for real statistics, released on a grid of a power of two.

    The granularity is about scale/2^40, and at most sensitivity/2^20, so rounding raises the scale
    by less than dimension parts in 2^19.
    """

    def __post_init__(self) -> None:
        """Check every number, and that floats can hold the noise."""
        super().__post_init__()
        if floor_log2(self.distance / Fraction(float(self.epsilon))) > LARGEST_LOG2:
            raise PrivacyError(
                f"sensitivity {self.sensitivity:g} at epsilon {self.epsilon:g} needs noise beyond "
                "what a float can hold; bound the signals, or raise epsilon"
            )

    @cached_property
    def distance(self) -> Fraction:
        """How far apart neighbours can be, in l1 norm."""
        return self.statistic.distance()

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

    @cached_property
    def steps(self) -> int:
        """How many grid steps apart two neighbours can be, rounding included."""
        return self.statistic.steps(Fraction(2) ** self.exponent)[0]

    @abstractmethod
    def _draw(self, count: int, entropy: Entropy) -> Integers:
        """X in grid steps, drawn exactly."""

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """from_grid(to_grid(x) + X) for each value: a new release each time it is called."""
        checked(entropy)
        array = finite_floats(values)
        points = to_grid(array.ravel(), self.exponent)
        released = from_grid(points + self._draw(points.size, entropy), self.exponent)
        return released.reshape(array.shape)

    def release_sum(self, rows: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """from_grid(sum_k to_grid(x_k) + X), of several statistics that are released as one.

        Each row goes to the grid by itself and the sum is one of integers, so a row that moves
        within the sensitivity moves the sum by at most `steps`: it is as protected as if it were
        released alone.
        """
        checked(entropy)
        array = finite_floats(rows)
        points = np.array([to_grid(row, self.exponent) for row in array], dtype=object).sum(axis=0)
        return from_grid(points + self._draw(points.size, entropy), self.exponent)


def rounded_up(exact: Fraction) -> float:
    """The least float that is not below a fraction, or the next one."""
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)
