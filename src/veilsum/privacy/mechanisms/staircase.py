"""Staircase noise: the least variance among all additive noise, for one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.exact.coins import WeightCoin, uniform_below
from veilsum.privacy.exact.entropy import Entropy, octets
from veilsum.privacy.exact.grid import Integers, integers
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.mechanisms.additive import GridMechanism
from veilsum.privacy.mechanisms.base import Array, check_epsilon, computable


@dataclass(frozen=True)
class StaircaseMechanism(GridMechanism):
    """The least variance among additive noise for one number (Geng and Viswanath 2014).

    With b = e^{-eps} and a step width g in (0, 1), in units of Delta,

        density(z) = a b^k        for k <= |z| < k + g,           k = 0, 1, 2, ...
        density(z) = a b^{k+1}    for k + g <= |z| < k + 1,       a = (1 - b)/(2 (g + b (1 - g)))

    A stair falls by e^{-eps} once in every Delta: any two points at most Delta apart lie on the same
    step or on two consecutive ones, so the density changes by at most e^eps. For large eps the
    variance is about Delta^2 (b/2)^{2/3}, exponentially below Laplace's 2 Delta^2/eps^2; for small
    eps the two agree.

    The exact release has the same stairs on the grid: with D = `steps` and G = the points of the
    upper stair, |X| = D q + r has weight b^{q + [r >= G]}. q is geometric of ratio b, independent of
    r; the upper stair has the probability G/(G + (D - G) b), an exact coin; r is uniform on its
    stair; the sign is fair, with -0 refused.

    Examples
    --------
    >>> mechanism = StaircaseMechanism(epsilon=4.0, sensitivity=1.0)
    >>> round(mechanism.worst_variance / (2 / 4.0**2), 2)  # over Laplace's
    0.52
    """

    name: ClassVar[str] = "staircase"
    uniforms: ClassVar[int] = 4
    scalar: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a vector: coordinates that move by fractions of Delta would each cost epsilon."""
        super().__post_init__()
        check_epsilon(self.epsilon)
        if self.dimension != 1:
            raise PrivacyError("staircase noise is for one number; use laplace for a vector")

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """For one number, at an epsilon whose coins are computed."""
        return super().misfit(statistic, epsilon, delta) or computable(epsilon)

    @property
    def width(self) -> float:
        """g = ((b (1 + b)/2)^{1/3} - b)/(1 - b), between 0 and 1/2.

        It is the published -b/(1-b) + (b - 2b^2 + 2b^4 - b^5)^{1/3}/(2^{1/3} (1-b)^2), for
        b - 2b^2 + 2b^4 - b^5 = b (1 - b)^3 (1 + b); written with expm1 so that small eps is safe.
        """
        p = -math.expm1(-self.epsilon)
        rise = (math.log1p(-p / 2) + 2 * self.epsilon) / 3  # b e^rise = (b (1 + b)/2)^{1/3}
        if self.epsilon > 1:
            return (math.exp(rise - self.epsilon) - math.exp(-self.epsilon)) / p
        return min(math.exp(-self.epsilon) * math.expm1(rise) / p, 0.5)

    @property
    def worst_variance(self) -> float:
        """Delta^2 variance(g, eps) at the best g: Delta^2 ((b (1+b)/2)^{2/3} + b)/(1 - b)^2."""
        return self.sensitivity**2 * staircase_variance(self.width, self.epsilon)

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """x + Delta sign (k + (upper stair: g U; lower stair: g + (1 - g) U)), k geometric."""
        g, b = self.width, math.exp(-self.epsilon)
        k = np.floor(-np.log1p(-u[0]) / self.epsilon)
        upper = u[1] < g / (g + b * (1 - g))
        size = k + np.where(upper, g * u[2], g + (1 - g) * u[2])
        return np.asarray(x + self.sensitivity * np.where(u[3] < 0.5, size, -size))

    def log_density(self, noise: ArrayLike) -> Array:
        """log a - eps (number of stairs below the top), per unit of z."""
        z = np.abs(np.asarray(noise, dtype=np.float64)) / self.sensitivity
        stairs = np.floor(z) + (z - np.floor(z) >= self.width)
        return np.asarray(math.log(self._top / self.sensitivity) - self.epsilon * stairs)

    def cdf(self, noise: ArrayLike) -> Array:
        """1/2 + sign(z) P(0 < noise <= |z|)."""
        signed = np.asarray(noise, dtype=np.float64) / self.sensitivity
        z, g, b = np.abs(signed), self.width, math.exp(-self.epsilon)
        k = np.floor(z)
        part = np.minimum(z - k, g) + b * np.maximum(z - k - g, 0)
        beyond = np.exp(-self.epsilon * k) * (0.5 - self._top * part)
        return np.asarray(np.where(signed < 0, beyond, 1 - beyond))

    def privacy_loss(self, x: float, other: float) -> float:
        """eps ceil(|x - x'|/Delta): even a small move can cross a stair."""
        return self.epsilon * math.ceil(abs(x - other) / self.sensitivity)

    @property
    def upper_steps(self) -> int:
        """G, how many of the D grid points of a stair pair lie on the upper stair."""
        return min(max(1, round(self.width * self.steps)), self.steps - 1)

    def release_variance(self, x: ArrayLike) -> Array:
        """g^2 sum k^2 P(X = k): sums of squares over the two stairs, by closed forms."""
        D, G, eps = self.steps, self.upper_steps, self.epsilon
        b, p = math.exp(-eps), -math.expm1(-eps)
        mass = Fraction(b) * (D - G) + G  # sum of the weights of r
        first = (Fraction(_sum(G, 1)) + Fraction(b) * (_sum(D, 1) - _sum(G, 1))) / mass
        second = (Fraction(_sum(G, 2)) + Fraction(b) * (_sum(D, 2) - _sum(G, 2))) / mass
        q1, q2 = b / p, b * (1 + b) / p**2  # E q, E q^2
        squares = float(D * D) * q2 + 2 * D * q1 * float(first) + float(second)
        zero = p / float(mass)  # P(|X| = 0) before -0 is refused
        found = squares / (1 - zero / 2) * self.granularity**2
        return np.full(np.shape(x), found)

    def _draw(self, count: int, entropy: Entropy) -> Integers:
        """+-(D q + r) with -0 refused."""
        D, G = self.steps, self.upper_steps
        gamma = Fraction(float(self.epsilon))
        stairs, coin = DiscreteLaplace(1 / gamma), WeightCoin(gamma, G, D - G)
        found: list[int] = []
        while len(found) < count:
            block = count - len(found)
            quotients = stairs.geometric(block, entropy).tolist()
            signs = (octets(entropy, block) >= 128).tolist()
            for q, negative in zip(quotients, signs, strict=True):
                upper = coin.toss(entropy)
                r = uniform_below(G, entropy) if upper else G + uniform_below(D - G, entropy)
                size = D * q + r
                if size or not negative:
                    found.append(-size if negative else size)
        return integers(found)

    @property
    def unit(self) -> float:
        """The distance that a release covers."""
        return float(self.distance)

    def characteristic(self, u: Array) -> Array:
        """E cos(uX) for |X| = k + (upper stair: g U; lower stair: g + (1 - g) U), k geometric."""
        g, b = self.width, math.exp(-self.epsilon)
        upper = g / (g + b * (1 - g))
        stairs = (1 - b) / (1 - b * np.exp(1j * u))
        first = np.exp(0.5j * g * u) * np.sinc(g * u / (2 * math.pi))
        second = np.exp(0.5j * (1 + g) * u) * np.sinc((1 - g) * u / (2 * math.pi))
        return np.asarray((stairs * (upper * first + (1 - upper) * second)).real)

    @property
    def cumulants(self) -> tuple[float, float]:
        """From the moments of the two stairs."""
        g, b = self.width, math.exp(-self.epsilon)
        upper = g / (g + b * (1 - g))
        powers = [_geometric_moment(b, n) for n in range(5)]

        def moment(n: int) -> float:
            within = [
                upper * g**m / (m + 1) + (1 - upper) * (1 - g ** (m + 1)) / ((m + 1) * (1 - g))
                for m in range(n + 1)
            ]
            return sum(math.comb(n, m) * powers[n - m] * within[m] for m in range(n + 1))

        second = moment(2)
        return second, moment(4) - 3 * second**2

    @property
    def _top(self) -> float:
        g, b = self.width, math.exp(-self.epsilon)
        return -math.expm1(-self.epsilon) / (2 * (g + b * (1 - g)))


def staircase_variance(width: float, epsilon: float) -> float:
    """Var/Delta^2 = b(1+b)/(1-b)^2 + (b/(1-b) (g^2 + b(1-g^2)) + (g^3 + b(1-g^3))/3)/(g + b(1-g)).

    Sum z^2 over stairs: the integral over [k, k+g] is k^2 g + k g^2 + g^3/3, over [k+g, k+1] it is
    k^2 (1-g) + k (1-g^2) + (1-g^3)/3; then sum b^k = 1/(1-b), sum k b^k = b/(1-b)^2 and
    sum k^2 b^k = b(1+b)/(1-b)^3.

    Examples
    --------
    >>> round(staircase_variance(0.3, 1.0), 3)
    1.933
    """
    g, b, p = width, math.exp(-epsilon), -math.expm1(-epsilon)
    first = b / p * (g**2 + b * (1 - g**2))
    second = (g**3 + b * (1 - g**3)) / 3
    return b * (1 + b) / p**2 + (first + second) / (g + b * (1 - g))


def _sum(n: int, power: int) -> int:
    """0 + 1 + ... + (n - 1), or the sum of their squares."""
    return n * (n - 1) // 2 if power == 1 else (n - 1) * n * (2 * n - 1) // 6


def _geometric_moment(b: float, n: int) -> float:
    """E k^n for P(k) = (1 - b) b^k."""
    p = 1 - b
    known = [
        1.0, b / p, b * (1 + b) / p**2, b * (1 + 4 * b + b**2) / p**3,
        b * (1 + 11 * b + 11 * b**2 + b**3) / p**4,
    ]  # fmt: skip
    return known[n]
