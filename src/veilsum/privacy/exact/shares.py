"""Noise in parts: independent draws of several agents that add up to one discrete Laplace.

    X ~ GDL(a, t)  =  NB(a, r) - NB(a, r),    r = exp(-1/t),    E z^X = ((1-r)^2/((1-rz)(1-r/z)))^a

so that GDL(a, t) + GDL(b, t) = GDL(a + b, t), and GDL(1, t) is the discrete Laplace of scale t:
h agents that draw GDL(1/h, t) each make up one discrete Laplace together.

Exactly
    log E z^X = a sum_k (r^k/k) (z^k + z^-k - 2): X is the sum of the jumps of a Poisson process with
    intensity a r^k/k at +k and at -k. That intensity has an irrational total, but it thins one with a
    rational total. With J = max(0, ceil(log2 t)), propose a level j with weight

        w_j = 1 for j <= J,    2^-(j-J) beyond,    W = sum_j w_j = J + 2,

    then k uniform on [2^j, 2^(j+1)), with intensity a w_j/2^j; keep it with probability

        (2^j/k) exp(-k/t)/w_j    <=  1,    as 2^m exp(-k/t) <= 2^m exp(-2^m) < 1 for k >= 2^m t.

    The number of proposals of either sign is Poisson(2 W a). Integers, fractions and bits of the
    operating system, nothing else: no float, and no jump is out of reach.

A draw of 0 takes less time than another one: draw before anything waits for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.coins import ExpCoin, bernoulli, exp_bracket, uniform_below
from veilsum.privacy.exact.discrete import Integers, integers
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.poisson import PoissonSampler

SMALLEST_SCALE, LARGEST_SCALE = Fraction(1, 1000), Fraction(2**40)
FIRST = 16  # places that are compared before the others are computed
SMALLEST_ORDER, LARGEST_ORDER = Fraction(1, 10**9), Fraction(10**9)


@dataclass(frozen=True)
class TailCoin(ExpCoin):
    """A coin that shows 1 with probability p = 2^shift exp(-gamma), gamma >= 2^shift."""

    shift: int = 0

    def bracket(self, bits: int) -> tuple[int, int]:
        """Integers low <= 2^bits p <= high."""
        return exp_bracket(self.gamma, bits + self.shift)

    def toss(self, entropy: Entropy, start: int = 0) -> bool:
        """[U < p]: by 16 places, which settle all but one toss in 65,536, and then by more."""
        if start == 0:
            drawn, due = uniform_below(1 << FIRST, entropy), self.floor(FIRST)
            if drawn != due:
                return drawn < due
            start = FIRST
        return super().toss(entropy, start)


@dataclass(frozen=True)
class GeneralizedDiscreteLaplace:
    """X ~ GDL(order, scale): `order` of 1 is discrete Laplace, 1/h is what one of h agents draws.

    Parameters
    ----------
    order : Fraction
        a, from 1e-9 to 1e9.
    scale : Fraction
        t in grid steps, from 1/1000 to 2^40.

    Raises
    ------
    PrivacyError
        If one of them is not a fraction in its range.

    Examples
    --------
    >>> noise = GeneralizedDiscreteLaplace(Fraction(1, 50), Fraction(4096))
    >>> noise.draw(3).shape, round(50 * noise.variance / 4096**2, 4)
    ((3,), 2.0)
    """

    order: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        """Take both numbers as the exact fractions they are."""
        limits = {
            "order": (SMALLEST_ORDER, LARGEST_ORDER),
            "scale": (SMALLEST_SCALE, LARGEST_SCALE),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            exact = isinstance(value, int | Fraction) and not isinstance(value, bool)
            if not (exact and least <= value <= most):
                raise PrivacyError(
                    f"{name} must be a Fraction from {least} to {most}; "
                    f"found {value if exact else type(value).__name__}"
                )
            object.__setattr__(self, name, Fraction(value))

    @property
    def variance(self) -> float:
        """a 2 r/(1 - r)^2."""
        r = math.exp(-1 / self.scale)
        return float(self.order) * 2 * r / math.expm1(-1 / self.scale) ** 2

    def shrunk(self, part: float) -> GeneralizedDiscreteLaplace:
        """The same law at that part of its scale, or at the least scale that there is."""
        scale = max(self.scale * Fraction(part), SMALLEST_SCALE)
        return GeneralizedDiscreteLaplace(self.order, scale)

    def log_characteristic(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """log E e^(iuX) = a log((1-r)^2/(1 - 2 r cos u + r^2)), in which the denominator is

        (1 - r)^2 + 4 r sin(u/2)^2.
        """
        r, rest = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        return np.asarray(-float(self.order) * np.log1p(4 * r * (np.sin(u / 2) / rest) ** 2))

    def tail(self, probability: float) -> int:
        """x with P(|X| >= x) <= probability: Chernoff's bound, z = e^(s/t) with the best s in (0, 1).

        P(|X| >= x) <= 2 E z^X z^(-x), and log E z^X = a (2 log(1-r) - log(1-r z) - log(1-r/z)): any s
        gives a bound, x(s) = t/s (log E z^X + log(2/probability)), with one minimum in log(s/(1-s)).
        """
        order, scale, log = float(self.order), float(self.scale), math.log(2 / probability)

        def bound(odds: float) -> float:
            s, left = 1 / (1 + math.exp(-odds)), 1 / (1 + math.exp(odds))
            whole, less, more = (-math.expm1(-m / scale) for m in (1.0, left, 1 + s))
            log_mgf = order * (2 * math.log(whole) - math.log(less) - math.log(more))
            return scale / s * (log_mgf + log)

        low, high = -30.0, 30.0
        for _ in range(80):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, second) if bound(first) <= bound(second) else (first, high)
        return math.ceil(bound((low + high) / 2))

    def draw(self, count: int, entropy: Entropy = SYSTEM) -> Integers:
        """Draw `count` independent values exactly; none is cut off."""
        checked(entropy)
        return integers(
            [
                sum(self._jump(entropy) for _ in range(proposals))
                for proposals in self._proposals.draw(count, entropy)
            ]
        )

    @cached_property
    def _top(self) -> int:
        """J: the least whole number of at least 0 with 2^J >= t."""
        return (math.ceil(self.scale) - 1).bit_length()

    @cached_property
    def _proposals(self) -> PoissonSampler:
        return PoissonSampler(2 * (self._top + 2) * self.order)

    def _jump(self, entropy: Entropy) -> int:
        """One proposal: its jump, or 0 if it is not kept."""
        shift = 0
        level = uniform_below(self._top + 2, entropy)
        if level > self._top:
            shift = 1
            while uniform_below(2, entropy):
                shift += 1
            level = self._top + shift
        k = (1 << level) + uniform_below(1 << level, entropy)
        kept = bernoulli(Fraction(1 << level, k), entropy)
        if not (kept and TailCoin(k / self.scale, shift).toss(entropy)):
            return 0
        return -k if uniform_below(2, entropy) else k

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw quickly, in floating point: for simulations, never for a release.

        Parameters
        ----------
        size : int or tuple of int
            The shape.
        rng : Generator
            Where the bits come from.

        Returns
        -------
        ndarray of int64
            The difference of two negative binomials.
        """
        a, success = float(self.order), -math.expm1(-1 / self.scale)
        up, down = (rng.negative_binomial(a, success, size) for _ in range(2))
        return np.asarray(up - down, dtype=np.int64)
