"""Laplace noise: density ~ e^{-|z| eps/Delta}, for any statistic, scalar or vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.privacy.accounting.events import DISCRETE_LAPLACE, LAPLACE, PrivacyEvent
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.exact.grid import Integers
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.mechanisms.additive import GridMechanism, rounded_up
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.noise_quantile import LAPLACE_CUMULANTS, laplace_characteristic


@dataclass(frozen=True)
class LaplaceMechanism(GridMechanism):
    """density(z) = e^{-|z|/b}/(2b),  b = sensitivity/eps,  Var = 2 b^2.

    |z - x| changes by at most |x - x'| <= sensitivity, so the log density changes by at most
    sensitivity/b = eps (Th. 1 and 2 of the paper). All losses are attained, in the tails. The exact
    release draws discrete Laplace noise of scale steps/eps in grid steps (see the module).

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

    Examples
    --------
    >>> mechanism = LaplaceMechanism(epsilon=0.5, sensitivity=1.0)
    >>> mechanism.scale, mechanism.worst_variance
    (2.0, 8.0)
    >>> mechanism.release([1.0, 2.0]).shape
    (2,)
    """

    name: ClassVar[str] = "laplace"
    uniforms: ClassVar[int] = 1

    @property
    def scale(self) -> float:
        """b = sensitivity/eps."""
        return self.sensitivity / self.epsilon

    @property
    def worst_variance(self) -> float:
        """2 b^2."""
        return 2 * self.scale**2

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """x + Lap(b). Simulation only."""
        x = np.asarray(values, dtype=np.float64)
        return x + rng.laplace(0.0, self.scale, x.shape)

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + b sign(u - 1/2) (-log(1 - |2u - 1|))."""
        centred = 2 * u[0] - 1
        return np.asarray(x - self.scale * np.sign(centred) * np.log1p(-np.abs(centred)))

    def log_density(self, noise: ArrayLike) -> Array:
        """-|z|/b - log 2b."""
        return np.asarray(-np.abs(noise) / self.scale - math.log(2 * self.scale))

    def cdf(self, noise: ArrayLike) -> Array:
        """e^{z/b}/2 below 0, 1 - e^{-z/b}/2 above."""
        z = np.asarray(noise, dtype=np.float64) / self.scale
        half = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, half, 1 - half)

    @cached_property
    def law(self) -> DiscreteLaplace:
        """The noise of a release in grid steps, of scale steps/eps."""
        return DiscreteLaplace(self.steps / Fraction(float(self.epsilon)))

    @property
    def release_scale(self) -> float:
        """g steps/eps, the scale of a release's noise, as a float that is never below it."""
        return rounded_up(self.law.scale * Fraction(2) ** self.exponent)

    def release_variance(self, x: ArrayLike) -> Array:
        """g^2 2r/(1 - r)^2, about 2 b^2."""
        found = (self.granularity * math.sqrt(self.law.variance)) ** 2
        return np.full(np.shape(x), found)

    @property
    def unit(self) -> float:
        """The scale of a release."""
        return self.release_scale

    @property
    def cumulants(self) -> tuple[float, float]:
        """Of Lap(1): 2 and 12."""
        return LAPLACE_CUMULANTS

    def characteristic(self, u: Array) -> Array:
        """1/(1 + u^2), of Lap(1)."""
        return laplace_characteristic(u)

    def _draw(self, count: int, entropy: Entropy) -> Integers:
        return self.law.draw(count, entropy)

    def event(self, released: bool = False) -> PrivacyEvent:
        """Laplace noise on a fixed sensitivity; of a release, discrete Laplace over `steps`."""
        if released:
            return PrivacyEvent(self.epsilon, mechanism=DISCRETE_LAPLACE, parameter=self.steps)
        return PrivacyEvent(self.epsilon, mechanism=LAPLACE)
