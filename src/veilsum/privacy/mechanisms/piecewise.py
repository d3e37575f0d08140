"""The piecewise mechanism of Wang et al. (2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.privacy.exact.coins import below_exp, bernoulli, uniform_below
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.exact.grid import floor_log2
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.mechanisms.local import FEWEST_BITS, LocalMechanism

PIECE = 20  # bits between the width of the centre piece and the grid of a release


@dataclass(frozen=True)
class PiecewiseMechanism(LocalMechanism):
    """t -> uniform on [l, l + C - 1] with probability e/(e + 1), else on the rest of [-C, C].

    e = e^{eps/2},  C = (e + 1)/(e - 1),  l = (C + 1) t/2 - (C - 1)/2. The densities near t and
    away from it, p = e (e - 1)/(2 (e + 1)) and p/e^2, do not depend on t: their ratio is e^eps.
    E = t, for the excess mass p (1 - 1/e^2) (C - 1) = (e - 1)/e has its centre at (C + 1) t/2 =
    t e/(e - 1).

    The exact release is one of N grid points around M, N = c + n. A centre piece of c consecutive
    points, at one of n + 1 positions, has weight E for each point, the other n points weight 1, with
    a rational E <= e^eps. The sum of the weights, Z = c E + n, is the same for every position, so
    every probability is E/Z or 1/Z. The position is rounded at random between the two nearest, so
    that the mean is x (up to rounding to a float): a mixture,
    whose probabilities lie between 1/Z and E/Z as well. Any
    two of them have a ratio of at most E <= e^eps. n is the least number for which positions reach
    both bounds: with the centre piece m away from M the mean is (E - 1) c m/Z, and |m| <= n/2.

    Examples
    --------
    >>> mechanism = PiecewiseMechanism(epsilon=4.0)
    >>> round(mechanism.worst_variance, 4)
    0.2414
    >>> mechanism.release([-1.0, 0.25]).shape
    (2,)
    """

    name: ClassVar[str] = "piecewise"
    uniforms: ClassVar[int] = 2

    @property
    def reach(self) -> float:
        """C = (e^{eps/2} + 1)/(e^{eps/2} - 1)."""
        return 1 / math.tanh(self.epsilon / 4)

    @cached_property
    def exponent(self) -> int:
        """2^-20 of the centre piece's width, (C - 1) (high - low)/2, and of the bounds."""
        width = Fraction(self.high) - Fraction(self.low)
        return max(floor_log2(min(self._piece, width)) - PIECE, FEWEST_BITS)

    @property
    def _piece(self) -> Fraction:
        """About (C - 1) (high - low)/2 = (high - low)/(e^{eps/2} - 1)."""
        over = Fraction(math.expm1(min(float(self.epsilon) / 2, 600.0)))
        return (Fraction(self.high) - Fraction(self.low)) / over

    @cached_property
    def ratio(self) -> Fraction:
        """E, a rational number a little below e^eps."""
        return below_exp(Fraction(float(self.epsilon)))

    @cached_property
    def points(self) -> tuple[int, int]:
        """c and n: how many grid points the centre piece has, and how many lie around it.

        h (c E + n) <= (E - 1) c g n/2 for the mean to reach x = M + h; c + n is odd, so that the
        points around M are multiples of g.
        """
        g, h, E = Fraction(2) ** self.exponent, self.radius, self.ratio
        c = max(1, round(self._piece / g), math.floor(2 * h / (g * (E - 1))) + 1)
        n = math.ceil(h * c * E / (g * (E - 1) * c / 2 - h))
        return c, n + (c + n + 1) % 2

    def _position(self, x: Fraction) -> tuple[int, Fraction]:
        """The lower of two positions 0..n of the centre piece, and the chance of the upper one.

        Position k has its centre (k - n/2) g from M.
        """
        (c, n), E = self.points, self.ratio
        m = (x - self.middle) * (c * E + n) / ((E - 1) * c) / Fraction(2) ** self.exponent
        place = min(max(m + Fraction(n, 2), Fraction(0)), Fraction(n))
        lower = min(math.floor(place), n - 1)
        return lower, place - lower

    def _value(self, k: int) -> Fraction:
        """The k-th of the N points, symmetric around M."""
        c, n = self.points
        return self.middle + (k - (c + n - 1) // 2) * Fraction(2) ** self.exponent

    def release_variance(self, x: ArrayLike) -> Array:
        """E (z - M)^2 - (x - M)^2: sums of squares over all points and over the centre piece."""
        (c, n), E, g = self.points, self.ratio, Fraction(2) ** self.exponent
        whole = _squares(c + n)
        found = []
        for value in np.ravel(x):
            y = Fraction(float(value)) - self.middle
            lower, upper = self._position(Fraction(float(value)))
            m = lower - Fraction(n, 2)
            centre = (1 - upper) * m**2 + upper * (m + 1) ** 2
            piece = c * centre + _squares(c)
            found.append(float(g**2 * (whole + (E - 1) * piece) / (c * E + n) - y**2))
        return np.array(found).reshape(np.shape(x))

    def pmf(self, x: float) -> dict[Fraction, Fraction]:
        """The probability of each of the N points."""
        (c, n), E = self.points, self.ratio
        lower, upper = self._position(Fraction(float(x)))
        found = {}
        for k in range(c + n):
            near = (1 - upper) * (lower <= k < lower + c) + upper * (lower < k <= lower + c)
            found[self._value(k)] = (1 + (E - 1) * near) / (c * E + n)
        return found

    def _draw(self, x: Fraction, entropy: Entropy) -> Fraction:
        (c, n), E = self.points, self.ratio
        lower, upper = self._position(x)
        start = lower + bernoulli(upper, entropy)
        if bernoulli(c * E / (c * E + n), entropy):
            return self._value(start + uniform_below(c, entropy))
        k = uniform_below(n, entropy)
        return self._value(k if k < start else k + c)

    def _variance(self, t: Array) -> Array:
        over = math.expm1(self.epsilon / 2)
        return t**2 / over + (over + 4) / (3 * over**2)

    def _from_uniforms(self, t: Array, u: Array) -> Array:
        C = self.reach
        left = (C + 1) * t / 2 - (C - 1) / 2
        near = u[0] < 1 / (1 + math.exp(-self.epsilon / 2))
        inside = left + (C - 1) * u[1]
        outside = -C + (C + 1) * u[1]
        outside = np.where(outside < left, outside, outside + (C - 1))
        return np.asarray(np.where(near, inside, outside))

    def _loss(self, t: float, u: float) -> float:
        return 0.0 if t == u else self.epsilon


def _squares(count: int) -> Fraction:
    """sum of (k - (count - 1)/2)^2 over k = 0..count - 1."""
    return Fraction(count * (count**2 - 1), 12)
