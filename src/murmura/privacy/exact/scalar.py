"""One exact draw at a time: Canonne, Kamath and Steinke (2020), algorithms 1 and 2.

    P(X = k) = (1 - r)/(1 + r) r^|k|,    r = exp(-1/scale),    scale > 0 rational.

Only fair bits, integers and comparisons of integers: nothing is rounded, so nothing needs to be
bounded. The vector form in `discrete` gives the same law faster; this one has no limit on the
scale, and each is the other's oracle in the tests.
"""

from __future__ import annotations

from fractions import Fraction

from murmura.privacy.exact.entropy import Entropy, read

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
    """1 with probability exp(-gamma), for a rational gamma >= 0 (algorithm 1).

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


def discrete_laplace(scale: Fraction, entropy: Entropy) -> int:
    """X with P(X = k) proportional to exp(-|k|/scale), scale = a/s (algorithm 2).

    U + a V, U < a accepted with probability exp(-U/a) and V geometric of ratio exp(-1), is
    geometric of ratio exp(-1/a); the s values with one quotient by s carry exp(-s/a) = r of the
    weight of the s before, so the quotient is geometric of ratio r. A fair sign, with -0 refused,
    makes it two-sided.
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
