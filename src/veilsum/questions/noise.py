"""The noise of an answer: for the vectors of some questions, one exact law each and one price together.

    released = total + X,    X on the integers, in steps of a grid

A question q with the Statistic (l1, l2) has the share w_q of the epsilon, sum w_q <= 1.

    pure     X discrete Laplace of scale l1_q/(w_q eps). A record moves the vector of q by l1_q steps at
             most, and so the log likelihood of all by sum_q w_q eps <= eps.
    delta    X discrete Gaussian of deviation z l2_q/sqrt(w_q): the vectors divided by l2_q/sqrt(w_q) are
             one vector that moves by sqrt(sum w_q) <= 1, and z is the multiplier of (eps, delta).

    skellam  X Skellam of variance v r_q, r_q in proportion to l2_q^2/w_q and at least 1. The divergences of
             the vectors add up to no more than that of one vector with noise of variance v that moves by

                 l1 = sum l1_q/r_q,    l2 = sqrt(sum l2_q^2/r_q),

             term by term (l1 is raised to l2 where it is less); v is the least for (eps, delta).

Of those that may be used, a delta takes the one whose variances have the smallest product. Real numbers are
rounded to a grid of l1/2^30 first, each record by itself, which `Statistic.steps` pays.

Parts of a law (`Law.part`) are what the sites of a secure sum draw; Gaussian noise has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veilsum import _validate
from veilsum._statistic import ROUND_UP, Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.laws import DiscreteLaplace, Law

FINE = 30  # bits of a grid below the move of a record
LAPLACE, GAUSSIAN, SKELLAM = "laplace", "gaussian", "skellam"
FINEST = 1 << 20  # variances of Skellam noise are whole multiples of 1/FINEST
USUAL = (LAPLACE, GAUSSIAN)  # laws among which a delta chooses where one holder draws


@dataclass(frozen=True)
class GridNoise:
    """The noise of each component of one question's vector.

    Parameters
    ----------
    law : Law
        In steps.
    step : Fraction
        Of the grid, in the statistic's units.
    rounded : bool
        Whether records are rounded to the grid.

    Examples
    --------
    >>> count = Statistic(1.0, 1.0, 1, low=0.0, high=1.0, step=1.0)
    >>> noise = priced([count], [1.0], epsilon=1.0).parts[0]
    >>> noise.law.scale, noise.step, round(noise.sd, 2)
    (Fraction(1, 1), Fraction(1, 1), 1.36)
    """

    law: Law
    step: Fraction
    rounded: bool

    @property
    def sd(self) -> float:
        """In the statistic's units."""
        return math.sqrt(self.law.variance) * float(self.step)


@dataclass(frozen=True)
class Priced:
    """The noise of several questions, and the event of releasing them together once.

    Examples
    --------
    >>> histogram = Statistic(2.0, 2**0.5, 20, low=0.0, high=1.0, step=1.0)
    >>> round(priced([histogram], [1.0], epsilon=1.0).parts[0].sd / 969, 5)
    0.00289
    """

    parts: tuple[GridNoise, ...]
    event: PrivacyEvent


def grid(statistic: Statistic) -> Fraction:
    """The statistic's own step, or a power of two below 2^-30 of its move."""
    if statistic.step is not None:
        return Fraction(statistic.step)
    return Fraction(2) ** (math.floor(math.log2(statistic.l1)) - FINE)


def priced(
    statistics: Sequence[Statistic],
    shares: Sequence[float | Fraction],
    epsilon: float,
    delta: float = 0.0,
    laws: Sequence[str] = USUAL,
) -> Priced:
    """The noise that lets these statistics be released together, once, for (epsilon, delta).

    Parameters
    ----------
    statistics : sequence of Statistic
        Of one record, for each question.
    shares : sequence of float
        Of epsilon, above 0, at most 1 together.
    epsilon, delta : float
        What the release may cost; a delta of 0 is pure.
    laws : sequence of str
        Which noise may be used: "laplace", "gaussian", "skellam".

    Returns
    -------
    Priced
        A `GridNoise` for each statistic, and the event of releasing all of them once.

    Examples
    --------
    >>> count = Statistic(1.0, 1.0, 1, low=0.0, high=1.0, step=1.0)
    >>> both = priced([count, count], [0.5, 0.5], epsilon=1.0)
    >>> [round(noise.sd, 2) for noise in both.parts], both.event.epsilon
    ([2.8, 2.8], 1.0)
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    _validate.probability(PrivacyError, delta=delta)
    exact = [Fraction(share) for share in shares]
    if len(exact) != len(statistics) or min(exact) <= 0 or sum(exact) > 1:
        raise PrivacyError(
            f"shares are numbers above 0 that add up to at most 1; found {list(shares)}"
        )
    able = [law for law in laws if delta or law == LAPLACE]
    if not able:
        raise PrivacyError(
            f"{' or '.join(laws)} noise needs a delta above 0; state one, or use laplace noise"
        )
    found = [_PRICES[law](statistics, exact, epsilon, delta) for law in able]
    if len(found) == 1:
        return found[0]

    def product(price: Priced) -> float:
        each = zip(statistics, price.parts, strict=True)
        return sum(len(s.low) * math.log(n.law.variance) for s, n in each)

    return min(found, key=product)


def _pure(
    statistics: Sequence[Statistic], shares: Sequence[Fraction], epsilon: float, delta: float
) -> Priced:
    del delta
    parts = []
    for statistic, share in zip(statistics, shares, strict=True):
        step = grid(statistic)
        law = DiscreteLaplace(statistic.steps(step)[0] / (Fraction(epsilon) * share))
        parts.append(GridNoise(law, step, statistic.step is None))
    return Priced(tuple(parts), PrivacyEvent.of(float(epsilon)))


def _gaussian(
    statistics: Sequence[Statistic], shares: Sequence[Fraction], epsilon: float, delta: float
) -> Priced:
    from veilsum.privacy.mechanisms.gaussian import DiscreteGaussian, multiplier

    z = multiplier(float(epsilon), float(delta))
    parts = []
    for statistic, share in zip(statistics, shares, strict=True):
        step = grid(statistic)
        moved = Fraction(statistic.steps(step)[1])
        law = DiscreteGaussian(Fraction(math.ceil((Fraction(z) * moved) ** 2 / share)))
        parts.append(GridNoise(law, step, statistic.step is None))
    return Priced(tuple(parts), PrivacyEvent(float(epsilon), float(delta), "gaussian", z))


def _skellam(
    statistics: Sequence[Statistic], shares: Sequence[Fraction], epsilon: float, delta: float
) -> Priced:
    from veilsum.privacy.laws.skellam import Skellam, SkellamCost, skellam_variance

    grids = [grid(statistic) for statistic in statistics]
    moves = [s.steps(step) for s, step in zip(statistics, grids, strict=True)]
    squares = [Fraction(l2) ** 2 for _, l2 in moves]
    least = min(square / share for square, share in zip(squares, shares, strict=True))
    ratios = [square / share / least for square, share in zip(squares, shares, strict=True)]
    l2 = math.sqrt(sum(square / ratio for square, ratio in zip(squares, ratios, strict=True)))
    l2 *= float(ROUND_UP)
    l1 = float(ROUND_UP) * float(
        sum(l1 / ratio for (l1, _), ratio in zip(moves, ratios, strict=True))
    )
    v = skellam_variance(float(epsilon), float(delta), max(l1, l2), l2)
    parts = [
        GridNoise(Skellam(Fraction(math.ceil(v * ratio * FINEST), FINEST)), step, s.step is None)
        for s, step, ratio in zip(statistics, grids, ratios, strict=True)
    ]
    cost = SkellamCost(float(v), max(l1, l2), l2)
    return Priced(tuple(parts), cost.event(float(delta), float(epsilon)))


_PRICES: dict[str, Callable[[Sequence[Statistic], Sequence[Fraction], float, float], Priced]] = {
    LAPLACE: _pure,
    GAUSSIAN: _gaussian,
    SKELLAM: _skellam,
}
