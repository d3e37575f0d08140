"""The discrete Laplace distribution, drawn exactly and many at a time.

    P(X = k) = (1 - r)/(1 + r) r^|k|,    r = exp(-1/scale),    scale > 0 rational, in grid steps.

X is a geometric G, P(G = k) = (1 - r) r^k, with a fair sign and -0 refused. Write G in binary,
G = sum_j b_j 2^j. Then r^G = prod_j (r^(2^j))^(b_j): the probability is a product, one factor for
each digit, so the digits are independent coins with

    P(b_j = 1) = q_j/(1 + q_j),    q_j = r^(2^j) = exp(-2^j/scale),

and the constants agree because prod_j (1 + r^(2^j)) = 1/(1 - r). What lies above digit J is
2^J H with H geometric of ratio q_J and independent of the digits below: H is the number of
successes, before the first failure, of coins exp(-2^J/scale). J is such that the first of them
succeeds with probability below e^-32, and if it does the rest is drawn like it.

Each coin is tossed exactly (`coins`): one random byte against the first 8 places of its
probability, one time in 256 a further word against the next 64, and beyond that exact integers.
Nothing is truncated, so X has the stated distribution itself, and no draw is out of reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.coins import (
    ONE,
    WORD,
    DigitCoin,
    ExpCoin,
    bernoulli,
    bernoulli_exp,
    exp_bracket,
    uniform_below,
)
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked, octets, words
from veilsum.privacy.exact.grid import Integers, integers
from veilsum.privacy.laws.shares import GeneralizedDiscreteLaplace, LaplaceLaw

BYTE = 8
SCALES = 256  # whose coins are remembered: agents of one process have few scales
BLOCK = 4096  # draws at a time: a block's bytes stay in the processor's cache
LARGEST_VECTOR_SCALE = 2**56  # above it the digits of a draw would not fit in 62 bits


@dataclass(frozen=True)
class DiscreteLaplace(LaplaceLaw):
    """X on the integers with P(X = k) proportional to exp(-|k|/scale).

    Parameters
    ----------
    scale
        The scale in grid steps, above 0 and exact.

    Raises
    ------
    PrivacyError
        If the scale is not a fraction above 0.

    Examples
    --------
    >>> noise = DiscreteLaplace(Fraction(3, 2))
    >>> round(noise.variance, 4), noise.loss(k=3, here=0, there=1)
    (4.337, Fraction(-2, 3))
    >>> noise.draw(5).shape
    (5,)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        """Take the scale as the exact fraction it is."""
        if not (isinstance(self.scale, int | Fraction) and self.scale > 0):
            raise PrivacyError("scale must be a Fraction above 0, in grid steps")
        object.__setattr__(self, "scale", Fraction(self.scale))

    @property
    def order(self) -> Fraction:
        """1."""
        return Fraction(1)

    def part(self, beta: Fraction) -> LaplaceLaw:
        """GDL(beta, scale), or the law itself for all of it."""
        return self if beta == 1 else GeneralizedDiscreteLaplace(Fraction(beta), self.scale)

    def shrunk(self, fraction: float) -> DiscreteLaplace:
        """The same law at that fraction of its scale."""
        return DiscreteLaplace(self.scale * Fraction(fraction))

    def pmf(self, k: int, bits: int = 96) -> tuple[Fraction, Fraction]:
        """P(X = k) between two fractions that differ by less than 2^-bits of the largest one.

        (1 - r)/(1 + r) falls with r and is about 1/(2 scale), which is why the precision grows
        with the scale.
        """
        work = bits + 8 + 2 * math.ceil(self.scale).bit_length()
        low, high = (Fraction(end, 2**work) for end in exp_bracket(1 / self.scale, work))
        least, most = (Fraction(e, 2**work) for e in exp_bracket(abs(k) / self.scale, work))
        return (1 - high) / (1 + high) * least, (1 - low) / (1 + low) * most

    def loss(self, k: int, here: int, there: int) -> Fraction:
        """log P(here + X = k) - log P(there + X = k) = (|k - there| - |k - here|)/scale."""
        return (abs(k - there) - abs(k - here)) / self.scale

    def quantile(self, confidence: float) -> int:
        """In closed form: P(|X| > m) = 2 r^(m+1)/(1 + r)."""
        if not 0 < confidence < 1:
            raise PrivacyError(f"confidence must be above 0 and below 1; found {confidence:g}")
        scale = float(self.scale)
        log = math.log(2 / (1 + math.exp(-1 / scale))) - math.log1p(-confidence)
        return max(math.ceil(scale * log) - 1, 0)

    def draw(self, count: int, entropy: Entropy = SYSTEM) -> Integers:
        """Draw `count` independent values: int64, unless one of them does not fit in 62 bits.

        At a scale of 2^40 that has a probability of e^(-2^22); it is honoured, not cut off.
        """
        checked(entropy)
        if self.scale > LARGEST_VECTOR_SCALE:
            slow = [discrete_laplace(self.scale, entropy) for _ in range(count)]
            return integers(slow)
        found = [np.empty(0, dtype=np.int64)]
        while count > 0:
            drawn = self._block(min(count, BLOCK), entropy)
            found.append(drawn)
            count -= drawn.size
        return np.concatenate(found)

    def _block(self, count: int, entropy: Entropy) -> Integers:
        """At most `count` draws: a geometric, a fair sign, -0 refused."""
        magnitude = self.geometric(count, entropy)
        negative = octets(entropy, count) >= 128
        kept = ~negative | (magnitude != 0)
        drawn: Integers = np.where(negative, -magnitude, magnitude)[kept]
        return drawn

    def geometric(self, count: int, entropy: Entropy) -> Integers:
        """G = sum_j b_j 2^j + 2^J H: P(G = k) = (1 - r) r^k, for a scale of at most 2^56."""
        coins = self._toss(count, entropy)
        packed = np.zeros((count, BYTE), dtype=np.uint8)
        digits = np.packbits(coins[:, :-1], axis=1, bitorder="little")
        packed[:, : digits.shape[1]] = digits
        low = packed.view("<u8")[:, 0].astype(np.int64)
        above = np.flatnonzero(coins[:, -1])
        return low if above.size == 0 else self._with_tail(low, above, entropy)

    def _toss(self, count: int, entropy: Entropy) -> NDArray[np.bool_]:
        """One row per draw, one column per coin: [byte < first 8 places], ties refined."""
        first, _ = self._places
        drawn = octets(entropy, count * first.size).reshape(count, first.size)
        shown = drawn < first
        rows, columns = np.divmod(np.flatnonzero(drawn == first), first.size)
        shown[rows, columns] = self._refine(columns, entropy)
        return shown

    def _refine(self, columns: NDArray[np.intp], entropy: Entropy) -> NDArray[np.bool_]:
        """Settle the coins whose byte tied: by 64 more places, and then by as many as it takes."""
        due = self._places[1][columns]
        drawn = words(entropy, columns.size)
        shown = drawn < due
        for tie in np.flatnonzero(drawn == due):
            shown[tie] = self._coins[columns[tie]].toss(entropy, start=BYTE + WORD)
        return shown

    def _with_tail(self, low: Integers, above: NDArray[np.intp], entropy: Entropy) -> Integers:
        """Add 2^J H where the first coin of the tail showed 1, so that H >= 1."""
        coin, shift = self._coins[-1], len(self._coins) - 1
        values = [int(value) for value in low]
        for row in above:
            successes = 1
            while coin.toss(entropy):
                successes += 1
            values[row] += successes << shift
        return integers(values)

    @cached_property
    def _coins(self) -> tuple[ExpCoin, ...]:
        """The digits 0 to J - 1, and the tail; J is the least with 2^J >= 32 scale."""
        return _coins_of(self.scale)

    @cached_property
    def _places(self) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """The first 8 places of each coin's probability, and the 64 that follow."""
        return _places_of(self.scale)


@lru_cache(maxsize=SCALES)
def _coins_of(scale: Fraction) -> tuple[ExpCoin, ...]:
    digits = max(0, (math.ceil(32 * scale) - 1).bit_length())
    tail = ExpCoin(2**digits / scale)
    return (*(DigitCoin(2**j / scale) for j in range(digits)), tail)


@lru_cache(maxsize=SCALES)
def _places_of(scale: Fraction) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    coins = _coins_of(scale)
    first = np.array([coin.places(0, BYTE) for coin in coins], dtype=np.uint8)
    after = np.array([coin.places(BYTE, WORD) for coin in coins], dtype=np.uint64)
    first.flags.writeable = after.flags.writeable = False  # all mechanisms of the scale have them
    return first, after


def discrete_laplace(scale: Fraction, entropy: Entropy) -> int:
    """One X with P(X = k) proportional to exp(-|k|/scale), scale = a/s, however large.

    Canonne, Kamath and Steinke (2020), algorithm 2. U + a V, U < a accepted with probability
    exp(-U/a) and V geometric of ratio exp(-1), is geometric of ratio exp(-1/a); the s values with
    one quotient by s carry exp(-s/a) = r of the weight of the s before, so the quotient is
    geometric of ratio r. A fair sign, with -0 refused, makes it two-sided. Only fair bits and
    comparisons of integers: nothing is rounded. It is the oracle of `DiscreteLaplace` in the tests.
    """
    a, s = scale.numerator, scale.denominator
    while True:
        u = uniform_below(a, entropy)
        if not bernoulli_exp(Fraction(u, a), entropy):
            continue
        v = 0
        while bernoulli_exp(ONE, entropy):
            v += 1
        magnitude = (u + a * v) // s
        negative = bernoulli(ONE / 2, entropy)
        if magnitude or not negative:
            return -magnitude if negative else magnitude
