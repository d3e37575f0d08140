"""The hybrid mechanism of Wang et al. (2019): a coin between the piecewise and the two-point one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.privacy.exact.coins import bernoulli
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.mechanisms.duchi import DuchiMechanism
from veilsum.privacy.mechanisms.local import LocalMechanism
from veilsum.privacy.mechanisms.piecewise import PiecewiseMechanism

HYBRID_FROM = math.log(
    (-5 + 2 * math.cbrt(6353 - 405 * math.sqrt(241)) + 2 * math.cbrt(6353 + 405 * math.sqrt(241)))
    / 27
)
"""eps*, about 0.61: up to here the two-point mechanism alone is best in the worst case."""


@dataclass(frozen=True)
class HybridMechanism(LocalMechanism):
    """Piecewise with probability a = 1 - e^{-eps/2} if eps > eps* = 0.61, else Duchi alone.

    The coin does not look at t, so the loss is the larger of the two. Both are unbiased, so
    Var = a Var_piecewise + (1 - a) Var_duchi, linear in t^2 with the slope
    a/(e^{eps/2} - 1) - (1 - a): zero at this a. For given t^2 it is linear in a, so the least
    worst case is at a = 0, at this kink or at 1; a = 0 wins up to eps*. The exact release tosses a
    coin of the rational probability that the float a is, and then releases exactly with either.

    Examples
    --------
    >>> hybrid = HybridMechanism(epsilon=1.0, low=0.0, high=1.0)
    >>> round(2 / 1.0**2 / hybrid.worst_variance, 2)  # Laplace's variance over it
    1.87
    """

    name: ClassVar[str] = "hybrid"
    uniforms: ClassVar[int] = 3

    @property
    def piecewise_probability(self) -> float:
        """a, the probability of the piecewise mechanism."""
        return -math.expm1(-self.epsilon / 2) if self.epsilon > HYBRID_FROM else 0.0

    @property
    def reach(self) -> float:
        """The larger reach of those in use."""
        piecewise, duchi = self.parts
        return max(piecewise.reach, duchi.reach) if self.piecewise_probability else duchi.reach

    @cached_property
    def parts(self) -> tuple[PiecewiseMechanism, DuchiMechanism]:
        """The two mechanisms."""
        bounds = (self.epsilon, self.low, self.high)
        return PiecewiseMechanism(*bounds), DuchiMechanism(*bounds)

    @property
    def lattice(self) -> float:
        """That of the two-point mechanism, alone."""
        return 0.0 if self.piecewise_probability else self.parts[1].lattice

    @property
    def exponent(self) -> int:
        """The finer grid of those in use."""
        piecewise, duchi = self.parts
        if not self.piecewise_probability:
            return duchi.exponent
        return min(piecewise.exponent, duchi.exponent)

    def release_variance(self, x: ArrayLike) -> Array:
        """a Var_piecewise + (1 - a) Var_duchi, of their releases."""
        (piecewise, duchi), a = self.parts, self.piecewise_probability
        return a * piecewise.release_variance(x) + (1 - a) * duchi.release_variance(x)

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The mixture."""
        a, found = Fraction(self.piecewise_probability), dict[Fraction, Fraction]()
        for part, weight in zip(self.parts, (a, 1 - a), strict=True):
            if weight:
                for value, p in part.pmf(x).items():
                    found[value] = found.get(value, Fraction(0)) + weight * p
        return found

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        piecewise, duchi = self.parts
        first = bernoulli(Fraction(self.piecewise_probability), entropy)
        return piecewise._draw(x, entropy) if first else duchi._draw(x, entropy)

    def _variance(self, t: Array) -> Array:
        (piecewise, duchi), a = self.parts, self.piecewise_probability
        return a * piecewise._variance(t) + (1 - a) * duchi._variance(t)

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        piecewise, duchi = self.parts
        first = u[0] < self.piecewise_probability
        return np.where(first, piecewise._from_uniforms(t, u[1:]), duchi._from_uniforms(t, u[1:2]))

    def _loss(self, t: float, u: float) -> float:
        piecewise, duchi = self.parts
        near = piecewise._loss(t, u) if self.piecewise_probability else 0.0
        return max(near, duchi._loss(t, u))
