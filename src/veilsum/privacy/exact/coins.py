"""Coins tossed exactly: of a rational probability, or of one computed from exp.

A rational coin is a comparison of integers (`bernoulli`). An irrational one is

    coin = [U < p],    U = 0.u_1 u_2 u_3 ... uniform on [0, 1),    p = 0.p_1 p_2 p_3 ... in binary.

U < p is settled by the first place at which the expansions differ, and two expansions agree on
their first k places with probability at most 2^-k. So a few random bits settle almost every toss;
the rest draw more bits and ask for more places of p. No place of p is ever approximated: `floor`
brackets p between integers over a power of two and widens the precision until both ends agree.
That ends, because p is not dyadic: exp(-gamma) and every Moebius image of it with rational
coefficients are transcendental for every rational gamma > 0 (Lindemann). The toss is therefore
exact in distribution, not nearly so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from veilsum.privacy.exact.entropy import Entropy, read

WORD = 64
PRECISION = 128  # bits of rational constants
ONE = Fraction(1)


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Uniform on {0, ..., bound - 1}: draw enough bits, and again while they are too large."""
    bits = (bound - 1).bit_length()
    octets = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(read(entropy, octets), "little") >> (8 * octets - bits)
        if drawn < bound:
            return drawn


def bernoulli(p: Fraction, entropy: Entropy) -> bool:
    """1 with probability p: [U < numerator], U uniform below the denominator."""
    return uniform_below(p.denominator, entropy) < p.numerator


def bernoulli_exp(gamma: Fraction, entropy: Entropy) -> bool:
    """1 with probability exp(-gamma), for a rational gamma >= 0.

    Canonne, Kamath and Steinke (2020), algorithm 1.

    For gamma <= 1 toss coins gamma/1, gamma/2, gamma/3, ... until one shows 0. The k-th toss is
    reached with probability gamma^(k-1)/(k-1)!, so it is the last one with probability
    gamma^(k-1)/(k-1)! - gamma^k/k!, and over odd k this adds up to exp(-gamma). A larger gamma is
    a sum of ones and a rest: exp(-gamma) = exp(-1) ... exp(-1) exp(-rest).
    """
    while gamma > 1:
        if not bernoulli_exp(ONE, entropy):
            return False
        gamma -= 1
    last = 1
    while bernoulli(gamma / last, entropy):
        last += 1
    return last % 2 == 1


def exp_bracket(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-gamma) <= high, for gamma >= 0.

    With z = gamma / 2^m <= 1 the series of exp(-z) is summed in integers, then squared m times,
    low rounded down and high rounded up. For gamma >= bits, exp(-gamma) < 2^-gamma <= 2^-bits.
    """
    if gamma >= bits:
        return 0, 1
    halvings = max(0, (gamma.numerator // gamma.denominator).bit_length())
    work = bits + halvings + 16
    low, high = _series(gamma / 2**halvings, work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    shift = work - bits
    return low >> shift, -(-high >> shift)


def below_exp(gamma: Fraction) -> Fraction:
    """A rational number a little below exp(gamma), for gamma >= 0: by 2^-PRECISION of it, or less."""
    bits = PRECISION + 2 * math.ceil(gamma)
    return Fraction(2**bits, exp_bracket(gamma, bits)[1])


def _series(z: Fraction, work: int) -> tuple[int, int]:
    """Integers around 2^work exp(-z), for 0 <= z <= 1.

    Put a = floor(2^work z). The terms T_n = 2^work (a/2^work)^n / n! are cut to integers t_n from
    one to the next, so the cuts add up to e_n <= e_{n-1}/n + 1 <= 2. The sum stops at t_N = 0; as
    the series alternates and falls, the rest is at most T_N <= 2. Hence |sum - 2^work exp(-a/..)|
    <= 2N + 2, and replacing z by a/2^work raises exp(-z) by less than one unit.
    """
    a = (z.numerator << work) // z.denominator
    term, total, n = 1 << work, 0, 0
    while term:
        total += -term if n % 2 else term
        n += 1
        term = (term * a >> work) // n
    slack = 2 * n + 2
    return max(0, total - slack - 1), min(1 << work, total + slack)


@dataclass(frozen=True)
class ExpCoin:
    """A coin that shows 1 with probability p = exp(-gamma), gamma > 0 rational."""

    gamma: Fraction

    def bracket(self, bits: int) -> tuple[int, int]:
        """Integers low <= 2^bits p <= high."""
        return exp_bracket(self.gamma, bits)

    def floor(self, bits: int) -> int:
        """floor(2^bits p), certified: both ends of the bracket have it."""
        extra = 16
        while True:
            low, high = (end >> extra for end in self.bracket(bits + extra))
            if low == high:
                return low
            extra *= 2

    def places(self, start: int, count: int) -> int:
        """Binary places start + 1, ..., start + count of p, as one integer."""
        return self.floor(start + count) & ((1 << count) - 1)

    def toss(self, entropy: Entropy, start: int = 0) -> bool:
        """[U < p], given that U and p agree on their first `start` places."""
        while True:
            drawn = int.from_bytes(read(entropy, WORD // 8), "little")
            due = self.places(start, WORD)
            if drawn != due:
                return drawn < due
            start += WORD


@dataclass(frozen=True)
class DigitCoin(ExpCoin):
    """A coin that shows 1 with probability p = q/(1 + q), q = exp(-gamma): it rises with q."""

    def bracket(self, bits: int) -> tuple[int, int]:
        """Integers low <= 2^bits p <= high."""
        low, high = exp_bracket(self.gamma, bits)
        one = 1 << bits
        return (low << bits) // (one + low), -((-high << bits) // (one + high))


@dataclass(frozen=True)
class WeightCoin(ExpCoin):
    """A coin that shows 1 with probability p = m/(m + n q), q = exp(-gamma): it falls with q.

    m and n are whole numbers above 0: the number of points of weight 1 and of weight q.
    """

    heavy: int
    light: int

    def bracket(self, bits: int) -> tuple[int, int]:
        """Integers low <= 2^bits p <= high."""
        low, high = exp_bracket(self.gamma, bits)
        one = self.heavy << bits
        return (
            (one << bits) // (one + self.light * high),
            -((-one << bits) // (one + self.light * low)),
        )
