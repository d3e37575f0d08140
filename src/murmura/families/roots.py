"""Inverses without a closed form, vectorised: the digamma function and a truncated normal mean."""

from __future__ import annotations

import numpy as np

from murmura.families.base import Array

_TAIL = 8.0
_ROUNDS = 60


def inverse_digamma(y: Array) -> Array:
    """x > 0 with digamma(x) = y, by Newton from the start of Minka (2000), appendix C.

    digamma is concave, so that after one step Newton climbs to the root from the left.
    """
    from scipy.special import digamma, polygamma

    y = np.clip(np.asarray(y, dtype=np.float64), -1e300, 700.0)
    x = np.where(y >= -2.22, np.exp(y) + 0.5, -1.0 / np.minimum(y - digamma(1.0), -1e-9))
    for _ in range(8):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return np.asarray(x)


def excess(a: Array) -> tuple[Array, Array]:
    """g(a) = h(a) - a with h(a) = phi(a)/Phi(-a), and its slope -g'(a) = 1 - h(a) g(a).

    h(a) = sqrt(2/pi)/erfcx(a/sqrt(2)). Far out h(a) - a cancels, and the continued fraction
    g(a) = 1/(a + q), q = 2/(a + 3/(a + 4/(a + ...))) takes over, where -g' = g (q - g).
    """
    from scipy.special import erfcx

    near, x, q = np.minimum(a, _TAIL), np.maximum(a, _TAIL), np.zeros_like(a)
    for k in range(40, 1, -1):
        q = k / (x + q)
    tail = 1 / (x + q)
    g = np.where(a > _TAIL, tail, np.sqrt(2 / np.pi) / erfcx(near / np.sqrt(2)) - near)
    return g, np.where(a > _TAIL, tail * (q - tail), 1 - g * (near + g))


def inverse_excess(y: Array) -> Array:
    """a with g(a) = y > 0, by Newton from the left: g is convex and decreasing.

    Both g(a) > -a and, for a > -1, g(a) > (sqrt(a^2 + 8) - a)/4 (Sampford 1953), so that
    a_0 = max(-y, 1/y - 2y) lies left of the root and every step stays there.
    """
    y = np.clip(np.asarray(y, dtype=np.float64), 1e-100, 1e300)
    a = np.maximum(-y, 1 / y - 2 * y)
    for _ in range(_ROUNDS):
        g, slope = excess(a)
        step = (g - y) / slope
        a = a + step
        if np.all(np.abs(step) <= 1e-15 * (1 + np.abs(a))):
            break
    return np.asarray(a)
