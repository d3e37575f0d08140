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

What a move costs
    At order 1 and above a move of D steps in l1 norm costs D/t. Below, with probabilities f, Cauchy's
    formula with the contour drawn around the cut [1/r, infinity) gives for k >= 0

        f(k) = C int_0^infinity e^(-k (1+s)/t) (e^(s/t) - 1)^(-a) (1 - e^(-(2+s)/t))^(-a) ds,

    a mixture of geometric sequences with positive weights for 0 < a < 1. So f falls with |k|, and is
    log-convex for k >= 0: f(x)/f(x + D) is largest at x = 0. The loss of a move by D steps is exactly

        log f(0)/f(D),

    attained at the output that is the input itself; far out it falls to D/t. For a > 1/2 it has a limit
    as the grid becomes finer. For a <= 1/2 it has none: it grows with (1 - 2a) log D, at a = 1/2 with
    log log D, because f(0) then stays above a power of the step.

    log f(0)/f(D) is concave in D. A vector whose l1 norm moves by D therefore loses most if all of its
    components move alike: at most d log f(0)/f(ceil(D/d)).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import DISCRETE_LAPLACE, PrivacyEvent
from veilsum.privacy.exact.coins import ExpCoin, bernoulli, exp_bracket, uniform_below
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import Integers, integers
from veilsum.privacy.exact.poisson import PoissonSampler
from veilsum.privacy.laws.base import ERROR, Floats, Law
from veilsum.privacy.laws.quadrature import integral

SMALLEST_SCALE, LARGEST_SCALE = Fraction(1, 1000), Fraction(2**40)
NOTHING_LEFT = 50.0  # e^-50 of a sum is below its last digit
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


class LaplaceLaw(Law):
    """GDL(order, scale): what all orders have in common."""

    name: ClassVar[str] = "discrete Laplace"
    scale: Fraction

    if TYPE_CHECKING:  # a field of one of them

        @property
        @abstractmethod
        def order(self) -> Fraction:
            """a: 1 for one discrete Laplace."""

    @property
    def ratio(self) -> float:
        """r = exp(-1/scale)."""
        return math.exp(-1 / self.scale)

    @property
    def variance(self) -> float:
        """a 2 r/(1 - r)^2."""
        return float(self.order) * 2 * self.ratio / math.expm1(-1 / self.scale) ** 2

    def epsilon(self, l1: int, l2: float, dimension: int = 1, delta: float = 0.0) -> float:
        """D/t, and `_loss` of the move at orders below 1: exact for one component."""
        if self.order >= 1:
            return float(l1 / self.scale)
        parts = min(dimension, l1)
        return parts * _loss(float(self.order), -(-l1 // parts), float(self.scale))

    def event(
        self, epsilon: float, l1: int, l2: float, dimension: int, delta: float
    ) -> PrivacyEvent:
        """Discrete Laplace over so many steps; of a vector, any pure mechanism."""
        if dimension > 1:
            return PrivacyEvent(epsilon)
        return PrivacyEvent(epsilon, 0.0, DISCRETE_LAPLACE, float(l1))

    def log_characteristic(self, u: Floats) -> Floats:
        """log E e^(iuX) = a log((1-r)^2/(1 - 2 r cos u + r^2)), in which the denominator is

        (1 - r)^2 + 4 r sin(u/2)^2.
        """
        rest = -math.expm1(-1 / self.scale)
        inside = np.log1p(4 * self.ratio * (np.sin(u / 2) / rest) ** 2)
        return np.asarray(-float(self.order) * inside)

    def moment(self, odds: float) -> tuple[float, float]:
        """z = e^(s/t) with s in (0, 1):  a (2 log(1-r) - log(1-r z) - log(1-r/z))."""
        order, scale = float(self.order), float(self.scale)
        s, left = 1 / (1 + math.exp(-odds)), 1 / (1 + math.exp(odds))
        whole, less, more = (-math.expm1(-m / scale) for m in (1.0, left, 1 + s))
        return s / scale, order * (2 * math.log(whole) - math.log(less) - math.log(more))

    def furthest(self) -> float:
        """From phi(u) <= (pi (1-r)/(2 sqrt(r) u))^(2a), whose integral is known."""
        order, r = float(self.order), self.ratio
        if order < 0.5:
            raise PrivacyError(
                f"order must be at least 1/2, below which the sum converges too slowly; found {order:g}"
            )
        if r <= 0.1:
            return math.pi  # there are few points in any case
        reach = math.pi * -math.expm1(-1 / self.scale) / (2 * math.sqrt(r))
        return float(reach * (2 * order * ERROR) ** (-0.5 / order))

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """The difference of two negative binomials."""
        a, success = float(self.order), -math.expm1(-1 / self.scale)
        up, down = (rng.negative_binomial(a, success, size) for _ in range(2))
        return np.asarray(up - down, dtype=np.int64)


@dataclass(frozen=True)
class GeneralizedDiscreteLaplace(LaplaceLaw):
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

    def part(self, beta: Fraction) -> GeneralizedDiscreteLaplace:
        """GDL(order beta, scale)."""
        return GeneralizedDiscreteLaplace(self.order * Fraction(beta), self.scale)

    def shrunk(self, fraction: float) -> GeneralizedDiscreteLaplace:
        """The same law at that fraction of its scale, or at the least scale that there is."""
        scale = max(self.scale * Fraction(fraction), SMALLEST_SCALE)
        return GeneralizedDiscreteLaplace(self.order, scale)

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


@lru_cache(maxsize=4096)
def _loss(beta: float, steps: int, t: float) -> float:
    """log f(0)/f(steps), rounded up."""
    (here, off), (there, off_there) = _weight(beta, 0, t), _weight(beta, steps, t)
    return steps / t + math.log((here + off) / (there - off_there))


def _weight(beta: float, k: int, t: float) -> tuple[float, float]:
    """int_0^infinity of the module's text without e^(-k/t), and its largest error.

    Up to `near` the value at 0 is integrated exactly and the rest over s = near e^(-z); beyond,
    s = e^y.
    """
    near = min(1.0, t, t / max(k, 1))
    far = min(800 * t / beta, 800 * t / max(k, 1e-300)) if k else 800 * t / beta

    def regular(s: Floats) -> Floats:
        x = s / t
        rising = -beta * np.log(np.expm1(x) / x)
        return np.exp(rising - beta * np.log(-np.expm1(-(2 + s) / t)) - k * x)

    def lower(z: Floats) -> Floats:
        """What s = near e^(-z) adds beyond the value at 0."""
        return np.exp(-(1 - beta) * z) * (regular(near * np.exp(-z)) - origin)

    def logarithmic(y: Floats) -> Floats:
        s = np.exp(y)
        rising = s / t + np.log(-np.expm1(-s / t))  # log(e^(s/t) - 1), without overflow
        falling = np.log(-np.expm1(-(2 + s) / t))
        return np.exp(y - beta * (rising + falling) - k * s / t)

    origin = math.exp(-beta * math.log(-math.expm1(-2 / t)))  # regular(0)
    whole = origin / (1 - beta)
    first, error = integral(lower, 0.0, NOTHING_LEFT, least=1e-13 * whole)
    weight = near ** (1 - beta) * t**beta  # of int ds/s^beta, and of (e^(s/t) - 1)/s at 0
    rest, beyond = integral(logarithmic, math.log(near), math.log(far), parts=8)
    total = weight * (whole + first) + rest
    return total, weight * error + beyond + 1e-12 * total
