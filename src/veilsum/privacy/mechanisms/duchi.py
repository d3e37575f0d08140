"""The two-point mechanism of Duchi, Jordan and Wainwright (2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.privacy.exact.coins import PRECISION, bernoulli, exp_bracket
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.exact.grid import floor_log2
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.mechanisms.local import FEWEST_BITS, LocalMechanism

GRID = 40  # bits between half the width and the grid of a release


@dataclass(frozen=True)
class DuchiMechanism(LocalMechanism):
    """t -> +C with probability (1 + t/C)/2, else -C,  C = coth(eps/2),  Var = C^2 - t^2.

    E = C (1 + t/C)/2 - C (1 - t/C)/2 = t. The odds of +C go from (1 - 1/C)/2 to (1 + 1/C)/2, a
    ratio of (C + 1)/(C - 1) = e^eps. At t = -1 or 1 it is Warner's randomised response.

    The exact release is M + R or M - R, R the least multiple of the grid with R >= h coth(eps/2), h
    = max |x - M|. P(M + R) = (1 + (x - M)/R)/2, a rational number, so the mean is x (up to rounding
    to a float); the
    ratio between two values is at most (R + h)/(R - h) <= e^eps, for (R + h)/(R - h) falls in R and
    is e^eps at h coth(eps/2).

    Examples
    --------
    >>> mechanism = DuchiMechanism(epsilon=1.0, low=0.0, high=1.0)
    >>> round(mechanism.worst_variance, 4)
    1.1707
    >>> len(set(mechanism.release([0.3] * 64).tolist())) <= 2
    True
    """

    name: ClassVar[str] = "duchi"
    uniforms: ClassVar[int] = 1

    @property
    def reach(self) -> float:
        """C = (e^eps + 1)/(e^eps - 1)."""
        return 1 / math.tanh(self.epsilon / 2)

    @property
    def lattice(self) -> float:
        """2 C: there are two outputs."""
        return 2 * self.reach * self.half_width

    @property
    def exponent(self) -> int:
        """2^-40 of half the width."""
        width = Fraction(self.high) - Fraction(self.low)
        return max(floor_log2(width / 2) - GRID, FEWEST_BITS)

    @cached_property
    def output(self) -> Fraction:
        """R, the least multiple of the grid that is at least h coth(eps/2)."""
        g = Fraction(2) ** self.exponent
        high = Fraction(
            exp_bracket(Fraction(float(self.epsilon)), PRECISION)[1], 2**PRECISION
        )  # >= e^-eps
        return math.ceil(self.radius * (1 + high) / (1 - high) / g) * g

    def release_variance(self, x: ArrayLike) -> Array:
        """R^2 - (x - M)^2."""
        return np.asarray(float(self.output) ** 2 - (np.asarray(x) - float(self.middle)) ** 2)

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The probabilities of M + R and M - R."""
        up = self._up(Fraction(float(x)))
        return {self.middle + self.output: up, self.middle - self.output: 1 - up}

    def _up(self, x: Fraction) -> Fraction:
        return (1 + (x - self.middle) / self.output) / 2

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        up = bernoulli(self._up(x), entropy)
        return self.middle + self.output if up else self.middle - self.output

    def _variance(self, t: Array) -> Array:
        return self.reach**2 - t**2

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        return np.where(u[0] < (1 + t / self.reach) / 2, self.reach, -self.reach)

    def _loss(self, t: float, u: float) -> float:
        over = 2 / math.expm1(self.epsilon)  # C - 1, exact where C rounds to 1
        up, down = (over + (1 + t)) / (over + (1 + u)), (over + (1 - t)) / (over + (1 - u))
        return max(abs(math.log(up)), abs(math.log(down)))
