"""Poisson draws with a rational mean, exactly: inversion for small means, rejection for large ones.

Inversion (mean at most `LARGEST_TABLE`)
    N = min {k : U < F_k},    F_k = e^(-mean) sum_{i<=k} mean^i/i!,    U uniform on [0, 1).

    U is drawn 64 places at a time and compared with floor(2^64 F_k); a tie draws more places of U
    and computes more of F_k. It ends, because F_k is e^(-mean) times a rational and hence no dyadic
    number (Lindemann). No k is out of reach.

Rejection (above)
    With m = floor(mean) and s = ceil(sqrt(mean)) propose k = m + x, x discrete Laplace of scale s,
    and keep it with probability

        p(x) = f(x) exp(|x|/s - c),    f(x) = mean^x m!/(m + x)!,    c = 1 + 1/(2 s),

    where f is the Poisson probability at m + x over the one at m. p <= 1 for mean >= 64: for
    x = -y < 0, log(1 - u) <= -u gives log f <= -y (y - 1)/(2 mean), so that log f + y/s is at most
    (mean/s + 1/2)^2/(2 mean) <= 1/2 + 1/(2 s) + 1/(8 mean) < 0.57. For x > 0, log(1 + u) >=
    2 u/(2 + u) gives the same with mean/(1 - 1/(2 s)) up to the largest value, hence at most 0.61.
    About 46% of the proposals are kept. |x|/s = c has no solution, so p is e to a rational power
    other than 0, times a rational: no dyadic number, and a toss by its places ends.
    log f is bracketed by Stirling's series, whose error is below the first term left out; beyond
    what 15 terms of it can give (some 130 places at mean 64), by the product itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.coins import WORD, exp_bracket
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked, read

if TYPE_CHECKING:
    from veilsum.privacy.laws.discrete_laplace import DiscreteLaplace

LARGEST_TABLE = 128  # mean up to which inversion is used
LARGEST_MEAN = 2**120
BERNOULLI = (  # B_2, B_4, ...: Stirling's series up to its 15th term
    Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66),
    Fraction(-691, 2730), Fraction(7, 6), Fraction(-3617, 510), Fraction(43867, 798),
    Fraction(-174611, 330), Fraction(854513, 138), Fraction(-236364091, 2730),
    Fraction(8553103, 6), Fraction(-23749461029, 870), Fraction(8615841276005, 14322),
)  # fmt: skip


@dataclass(frozen=True)
class PoissonSampler:
    """N with P(N = k) = e^(-mean) mean^k/k!, drawn exactly.

    Parameters
    ----------
    mean : Fraction
        Exact, above 0 and at most 2^120.

    Raises
    ------
    PrivacyError
        If the mean is not a fraction in that range.

    Examples
    --------
    >>> len(PoissonSampler(Fraction(3, 2)).draw(5))
    5
    """

    mean: Fraction

    def __post_init__(self) -> None:
        """Take the mean as the exact fraction it is."""
        exact = isinstance(self.mean, int | Fraction) and not isinstance(self.mean, bool)
        if not (exact and 0 < self.mean <= LARGEST_MEAN):
            raise PrivacyError("mean must be a Fraction above 0 and at most 2^120")
        object.__setattr__(self, "mean", Fraction(self.mean))

    def draw(self, count: int, entropy: Entropy = SYSTEM) -> list[int]:
        """Draw `count` independent values, however large."""
        checked(entropy)
        if self.mean <= LARGEST_TABLE:
            return [self._invert(entropy) for _ in range(count)]
        found: list[int] = []
        while len(found) < count:
            found += self._kept(count - len(found), entropy)
        return found

    def _invert(self, entropy: Entropy) -> int:
        drawn, bits = _word(entropy), WORD
        k = bisect_left(self._table, drawn)  # U >= F_i for every i < k
        if k < len(self._table) and drawn < self._table[k]:
            return k
        while True:
            due = self._floor(k, bits)
            if drawn < due:
                return k
            if drawn > due:
                k += 1
            else:
                drawn, bits = drawn << WORD | _word(entropy), bits + WORD

    @cached_property
    def _table(self) -> list[int]:
        """floor(2^64 F_k) for k = 0, 1, ... up to where all 64 places are ones."""
        term = total = Fraction(1)
        found = [self._places(total, WORD)]
        while found[-1] < 2**WORD - 1:
            term *= self.mean / len(found)
            total += term
            found.append(self._places(total, WORD))
        return found

    def _floor(self, k: int, bits: int) -> int:
        """floor(2^bits F_k), for ties and for what the table does not reach."""
        term = total = Fraction(1)
        for i in range(1, k + 1):
            term *= self.mean / i
            total += term
        return self._places(total, bits)

    def _places(self, total: Fraction, bits: int) -> int:
        """floor(2^bits e^(-mean) total), certified: both ends of a bracket have it."""
        extra = 64
        while True:
            ends = exp_bracket(self.mean, bits + extra)
            low, high = (end * total.numerator // (total.denominator << extra) for end in ends)
            if low == high:
                return low
            extra *= 2

    def _kept(self, most: int, entropy: Entropy) -> list[int]:
        """At most `most` draws: those among 2 most proposals that are kept, in their order."""
        mode, width = self._centre
        kept: list[int] = []
        for proposal in self._proposals.draw(2 * most, entropy):
            x = int(proposal)
            if x >= -mode and PoissonCoin(self.mean, x, width).toss(entropy):
                kept.append(mode + x)
                if len(kept) == most:
                    break
        return kept

    @cached_property
    def _centre(self) -> tuple[int, int]:
        """m = floor(mean) and s = ceil(sqrt(mean))."""
        return math.floor(self.mean), math.isqrt(math.ceil(self.mean) - 1) + 1

    @cached_property
    def _proposals(self) -> DiscreteLaplace:
        from veilsum.privacy.laws.discrete_laplace import (
            DiscreteLaplace,  # whose parts draw Poisson
        )

        return DiscreteLaplace(Fraction(self._centre[1]))


@dataclass(frozen=True)
class PoissonCoin:
    """A coin that shows 1 with probability p(x) = f(x) exp(|x|/s - c) of the module's text."""

    mean: Fraction
    x: int
    width: int

    def floor(self, bits: int) -> int:
        """floor(2^bits p), certified."""
        extra = 32
        while True:
            low, high = (end >> extra for end in self.bracket(bits + extra))
            if low == high:
                return low
            extra *= 2

    def bracket(self, bits: int) -> tuple[int, int]:
        """Integers low <= 2^bits p <= high."""
        tilt = Fraction(2 * abs(self.x) - 2 * self.width - 1, 2 * self.width)  # |x|/s - c
        work = bits + 16
        found = log_ratio_bracket(self.mean, self.x, work)
        if found is None:
            return self._from_product(bits, tilt)
        low, high = (Fraction(end, 2**work) + tilt for end in found)
        return _exp(low, bits)[0], _exp(high, bits)[1]

    def _from_product(self, bits: int, tilt: Fraction) -> tuple[int, int]:
        mode = math.floor(self.mean)
        above = math.prod(range(mode + 1, mode + self.x + 1))
        below = math.prod(range(mode + self.x + 1, mode + 1))
        f = self.mean**self.x * below / above
        room = 16 + max(0, f.numerator.bit_length() - f.denominator.bit_length())
        low, high = _exp(tilt, bits + room)
        scale = f.denominator << room
        return low * f.numerator // scale, -(-high * f.numerator // scale)

    def toss(self, entropy: Entropy) -> bool:
        """[U < p], settled by the first word in which the places of U and p differ."""
        start = 0
        while True:
            drawn = _word(entropy)
            due = self.floor(start + WORD) & ((1 << WORD) - 1)
            if drawn != due:
                return drawn < due
            start += WORD


def _word(entropy: Entropy) -> int:
    return int.from_bytes(read(entropy, WORD // 8), "little")


def _exp(power: Fraction, bits: int) -> tuple[int, int]:
    """Integers around 2^bits exp(power), of either sign."""
    if power <= 0:
        return exp_bracket(-power, bits)
    room = bits + 4 * math.ceil(power) + 16  # exp(-power) > 2^(-2 power)
    low, high = exp_bracket(power, room)
    return (1 << bits + room) // high, -((-1 << bits + room) // low)


def log_bracket(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits log(x) <= high, for x > 0.

    x = 2^e y with y in [1, 2): log x = e log 2 + log y, each as 2 artanh((y - 1)/(y + 1)).
    """
    e = x.numerator.bit_length() - x.denominator.bit_length()
    e -= x < Fraction(2) ** e
    y = x / Fraction(2) ** e
    work = bits + abs(e).bit_length() + 8
    two, of_two = _artanh_third(work)
    rest, of_rest = _artanh((y - 1) / (y + 1), work)
    total, error = 2 * (e * two + rest), 2 * (abs(e) * of_two + of_rest)
    shift = work - bits
    return (total - error) >> shift, -(-(total + error) >> shift)


def _artanh(z: Fraction, work: int) -> tuple[int, int]:
    """An integer near 2^work artanh(z), and its largest error, for 0 <= z <= 1/3.

    The powers z^(2n+1) are cut to integers p_n, each below the true one by at most 9/4 (the
    ratio z^2 <= 1/9 is cut, too); each term p_n/(2n+1) is cut once more. After p_N = 0 the rest is below
    sum_{i>=0} 3 9^-i < 4.
    """
    a = (z.numerator << work) // z.denominator
    square = a * a >> work
    power, total, n = a, 0, 0
    while power:
        total += power // (2 * n + 1)
        power = power * square >> work
        n += 1
    return total, 4 * n + 8


@lru_cache(maxsize=256)
def _artanh_third(work: int) -> tuple[int, int]:
    return _artanh(Fraction(1, 3), work)


_log_public = lru_cache(maxsize=256)(log_bracket)  # of public numbers only: a cache keeps them


def log_ratio_bracket(mean: Fraction, x: int, bits: int) -> tuple[int, int] | None:
    """Integers around 2^bits log(mean^x m!/(m + x)!), m = floor(mean); None if Stirling ends first.

        log G(z) = (z - 1/2) log z - z + log(2 pi)/2 + sum_k B_2k/(2k (2k - 1) z^(2k-1)),

    at z = m + 1 and at z = m + x + 1, G(z) = (z - 1)!; log(2 pi) cancels.
    """
    near, far = math.floor(mean) + 1, math.floor(mean) + x + 1
    room = bits + 16 + max(near, far, mean.numerator).bit_length()
    series = _stirling(near, room), _stirling(far, room)
    if None in series:
        return None
    parts = [
        _times(Fraction(x), _log_public(mean, room + 8)),
        _times(Fraction(2 * near - 1, 2), _log_public(Fraction(near), room + 8)),
        _times(-Fraction(2 * far - 1, 2), log_bracket(Fraction(far), room + 8)),
    ]
    low = high = Fraction(x << (room + 8))  # -near + far
    for one in parts:
        low, high = low + one[0], high + one[1]
    rest = (series[0] or Fraction(0)) - (series[1] or Fraction(0))
    slack = Fraction(2, 2**room)
    scale = Fraction(2 ** (room + 8))
    lower, upper = low / scale + rest - slack, high / scale + rest + slack
    return math.floor(lower * 2**bits), math.ceil(upper * 2**bits)


def _times(factor: Fraction, ends: tuple[int, int]) -> tuple[Fraction, Fraction]:
    low, high = factor * ends[0], factor * ends[1]
    return (low, high) if factor >= 0 else (high, low)


def _stirling(z: int, room: int) -> Fraction | None:
    """sum_k B_2k/(2k (2k - 1) z^(2k-1)), up to an error below 2^-room; None if it cannot be had."""
    total = Fraction(0)
    for k, number in enumerate(BERNOULLI, start=1):
        term = number / (2 * k * (2 * k - 1) * z ** (2 * k - 1))
        if abs(term) * 2**room < 1:
            return total
        total += term
    return None
