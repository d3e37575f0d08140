"""Skellam noise in parts, for vectors: (epsilon, delta) and zCDP instead of pure epsilon.

    X ~ Sk(v)  =  Poisson(v/2) - Poisson(v/2),    variance v,    Sk(v) + Sk(w) = Sk(v + w):

h agents that draw Sk(v/h) each make up Sk(v) together. The l2 norm of a vector's move decides about
the noise, which is why it serves vectors. Unlike GDL it has no cliff: if only the fraction beta of
the draws is unknown to the adversary, the noise is Sk(beta v).

Privacy (Agarwal, Kairouz and Liu 2021, "The Skellam mechanism for
differentially private federated learning")
    A vector of integers that moves by D1 in l1 and by D2 in l2 norm has at whole orders alpha > 1 the
    Renyi divergence

        eps(alpha) <= alpha D2^2/(2v) + min(((2 alpha - 1) D2^2 + 6 D1)/(4 v^2), 3 D1/(2v)).

    Divergences add over components, so the statement for one component is the one for vectors; the
    tests compare it with the exact divergence. A divergence grows with its order, so that at
    any real order 1 < a <= alpha it is at most eps(alpha). With alpha = ceil(a) < a + 1 the second form
    of the bound is (xi + rho a), zCDP with rho = D2^2/(2v), xi = 3 D1/(2v) + rho.

    m readings that move together move the vector by m D1 and m D2 under the same noise. Sessions are
    composed by their divergences (`accounting.composition.renyi`), as events of the kind "skellam".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import EventKind, PrivacyEvent
from veilsum.privacy.accounting.composition import epsilon_of
from veilsum.privacy.accounting.events import Parameter
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import Integers, integers
from veilsum.privacy.exact.poisson import LARGEST_MEAN, PoissonSampler
from veilsum.privacy.laws.base import ERROR, Floats, Law

SKELLAM = "skellam"
LARGEST_SAMPLED = 2.0**62  # mean of numpy's Poisson draws


@dataclass(frozen=True)
class Skellam(Law):
    """X on the integers: the difference of two Poisson draws of mean variance/2.

    Parameters
    ----------
    variance : Fraction
        v in grid steps squared, exact, above 0 and at most 2^121.

    Raises
    ------
    PrivacyError
        If the variance is not a fraction in that range.

    Examples
    --------
    >>> Skellam(Fraction(2**40, 300)).draw(4).shape
    (4,)
    """

    variance: Fraction

    name: ClassVar[str] = "Skellam"

    def __post_init__(self) -> None:
        """Take the variance as the exact fraction it is."""
        exact = isinstance(self.variance, int | Fraction) and not isinstance(self.variance, bool)
        if not (exact and 0 < self.variance <= 2 * LARGEST_MEAN):
            raise PrivacyError("variance must be a Fraction above 0 and at most 2^121")
        object.__setattr__(self, "variance", Fraction(self.variance))

    @cached_property
    def _half(self) -> PoissonSampler:
        return PoissonSampler(self.variance / 2)

    def part(self, beta: Fraction) -> Skellam:
        """Sk(beta v)."""
        return Skellam(self.variance * Fraction(beta))

    def shrunk(self, fraction: float) -> Skellam:
        """The same law with that fraction of its deviation."""
        return Skellam(self.variance * Fraction(fraction) ** 2)

    def epsilon(self, l1: int, l2: float, dimension: int = 1, delta: float = 0.0) -> float:
        """The least epsilon at `delta`."""
        return SkellamCost(float(self.variance), float(l1), l2).epsilon(delta)

    def event(
        self, epsilon: float, l1: int, l2: float, dimension: int, delta: float
    ) -> PrivacyEvent:
        """(epsilon, delta), and the noise by which several compose."""
        return SkellamCost(float(self.variance), float(l1), l2).event(delta, epsilon)

    def log_characteristic(self, u: Floats) -> Floats:
        """log E e^(iuX) = -v (1 - cos u)."""
        return np.asarray(-2 * float(self.variance) * np.sin(u / 2) ** 2)

    def moment(self, odds: float) -> tuple[float, float]:
        """v (cosh s - 1) at s = e^odds/sqrt(v)."""
        v = float(self.variance)
        s = math.exp(odds) / math.sqrt(v)
        return s, 2 * v * math.sinh(s / 2) ** 2 if s < 700 else math.inf

    def furthest(self) -> float:
        """From phi(u) <= exp(-2 v u^2/pi^2)."""
        return math.pi * math.sqrt(math.log(1 / ERROR) / (2 * float(self.variance)))

    def draw(self, count: int, entropy: Entropy = SYSTEM) -> Integers:
        """Draw `count` independent values exactly."""
        checked(entropy)
        drawn = self._half.draw(2 * count, entropy)
        return integers([up - down for up, down in zip(drawn[::2], drawn[1::2], strict=True)])

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """The difference of two Poisson draws, or a rounded normal one beyond what numpy can draw."""
        mean = float(self.variance) / 2
        if mean > LARGEST_SAMPLED:
            return np.rint(rng.normal(0.0, math.sqrt(2 * mean), size)).astype(np.int64)
        return np.asarray(rng.poisson(mean, size) - rng.poisson(mean, size), dtype=np.int64)


@dataclass(frozen=True)
class SkellamCost:
    """What a vector of integers with Skellam noise costs.

    Parameters
    ----------
    variance : float
        v of the noise that the adversary does not know, in grid steps squared.
    l1, l2 : float
        By how many grid steps the vector may move, in either norm, rounding included.

    Raises
    ------
    PrivacyError
        If a number is not above 0, or l2 > l1.

    Examples
    --------
    >>> cost = SkellamCost(variance=1e6, l1=1000.0, l2=100.0)
    >>> round(cost.rho, 4), round(cost.epsilon(1e-6), 3)
    (0.005, 0.43)
    """

    variance: float
    l1: float
    l2: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.positive(PrivacyError, variance=self.variance, l1=self.l1, l2=self.l2)
        if self.l2 > self.l1:
            raise PrivacyError(f"l2 must be at most l1 = {self.l1:g}; found {self.l2:g}")

    @property
    def rho(self) -> float:
        """D2^2/(2v): of zCDP, up to the constant `offset`."""
        return float(self.l2**2 / (2 * self.variance))

    @property
    def offset(self) -> float:
        """xi = 3 D1/(2v) + rho: the divergence of order a is at most xi + rho a, for every a > 1."""
        return 3 * self.l1 / (2 * self.variance) + self.rho

    def divergence(self, order: int) -> float:
        """eps(alpha): the Renyi divergence of a whole order is at most this."""
        _validate.at_least(PrivacyError, 2, order=order)
        v, second = self.variance, self.l2**2
        more = ((2 * order - 1) * second + 6 * self.l1) / (4 * v * v)
        return order * self.rho + min(more, 3 * self.l1 / (2 * v))

    def epsilon(self, delta: float, sessions: int = 1) -> float:
        """The least epsilon at `delta` of that many sessions together."""
        _validate.probability(PrivacyError, delta=delta)
        _validate.positive(PrivacyError, delta=delta)
        _validate.at_least(PrivacyError, 1, sessions=sessions)
        return epsilon_of(lambda order: sessions * self.divergence(order), delta)

    def event(self, delta: float, epsilon: float | None = None) -> PrivacyEvent:
        """The cost of one session: (epsilon, delta), and the noise by which several compose."""
        stated = self.epsilon(delta) if epsilon is None else epsilon
        return PrivacyEvent(stated, delta, SKELLAM, (self.variance, self.l1, self.l2))


@lru_cache(maxsize=256)
def skellam_variance(
    epsilon: float, delta: float, l1: float, l2: float, sessions: int = 1
) -> Fraction:
    """The variance with which sessions cost at most (epsilon, delta) together.

    Examples
    --------
    >>> v = skellam_variance(1.0, 1e-6, l1=1000.0, l2=100.0)
    >>> SkellamCost(float(v), 1000.0, 100.0).epsilon(1e-6) <= 1.0
    True
    """
    _validate.positive(PrivacyError, epsilon=epsilon)

    def fits(variance: float) -> bool:
        return SkellamCost(variance, l1, l2).epsilon(delta, sessions) <= epsilon

    high = max(1.0, l2**2)
    while not fits(high):
        high *= 2
        if high > LARGEST_MEAN:
            raise PrivacyError(
                f"no variance up to 2^120 gives epsilon = {epsilon:g} at delta = {delta:g}; "
                "use a coarser grid or spend more"
            )
    low = 0.0 if fits(2.0**-20) else high / 2 if not fits(high / 2) else 2.0**-20
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return Fraction(math.ceil(high * 2**20), 2**20)


class _SkellamKind(EventKind):
    """Skellam noise: `parameter` is (variance, l1, l2) of a `SkellamCost`."""

    name = SKELLAM

    def checked(self, event: PrivacyEvent) -> Parameter:
        numbers = event.parameter
        if not (isinstance(numbers, tuple) and len(numbers) == 3 and event.delta > 0):
            raise PrivacyError(
                "mechanism skellam needs a delta above 0 and as parameter (variance, l1, l2) in grid "
                f"steps; found delta = {event.delta:g} and {numbers}"
            )
        least = SkellamCost(*numbers).epsilon(event.delta)
        if event.epsilon < least * (1 - 1e-9):
            raise PrivacyError(
                f"Skellam noise of variance {numbers[0]:g} costs epsilon = {least:g} at delta = "
                f"{event.delta:g}; found {event.epsilon:g}; leave epsilon to SkellamCost.event"
            )
        return tuple(float(number) for number in numbers)

    def times(self, event: PrivacyEvent, readings: int) -> PrivacyEvent:
        cost = _cost(event)
        moved = SkellamCost(cost.variance, readings * cost.l1, readings * cost.l2)
        return moved.event(event.delta)

    def renyi(self, event: PrivacyEvent, order: int) -> float:
        return _cost(event).divergence(order)

    def apart(self, event: PrivacyEvent) -> float:
        return 0.0


def _cost(event: PrivacyEvent) -> SkellamCost:
    assert isinstance(event.parameter, tuple)
    return SkellamCost(*event.parameter)
