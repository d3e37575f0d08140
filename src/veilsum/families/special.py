"""Special functions in numpy alone, to the last digits: what families need without scipy.

erfcx(x) = e^(x^2) erfc(x) is a Chebyshev series of (1 + 2x) erfcx(x) in (x - 3.5)/(x + 3.5), after
Shepherd and Laframboise (1981); its coefficients were computed with 50 digits. digamma and its
derivative step up to x >= 10 and take Stirling's series there.
"""

from __future__ import annotations

import numpy as np

from veilsum._types import Floats

CENTRE = 3.5
COEFFICIENTS = (
    1.177632731636124, -0.001630177283414629, -0.08733682573463146, 0.05800974837029327,
    -0.024340115396182225, 0.007529483715635749, -0.0017438817577112521, 0.00028269829816555584,
    -2.31849116112635e-05, -2.111766698133041e-06, 8.765760156892822e-07, -6.105702635086118e-08,
    -1.7116664716341917e-08, 3.391360268611259e-09, 2.54661619366046e-10, -1.2482784079516295e-10,
    -2.2122757753433792e-12, 4.4272603638230294e-12, -3.367266128031013e-14,
    -1.6519256000923578e-13, 1.9024103044538835e-15, 6.601187937172832e-15, 2.880282449409004e-17,
    -2.7791709635743296e-16,
)  # fmt: skip
BERNOULLI = (  # B_2, B_4, ...
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
)  # fmt: skip
STEPS = 10  # below it Stirling's series is not exact enough
OVERFLOW = -27.0  # e^(x^2) is infinite from here on
SPLITTER = 2.0**27 + 1  # takes a number apart into halves of 26 bits


def erfcx(x: Floats) -> Floats:
    """e^(x^2) erfc(x); infinite below -26.7."""
    size = np.abs(x)
    u = 1 - 2 * CENTRE / (size + CENTRE)
    last, before = np.zeros_like(size), np.zeros_like(size)
    for c in COEFFICIENTS[:0:-1]:
        last, before = 2 * u * last - before + c, last
    with np.errstate(over="ignore"):
        right = (u * last - before + COEFFICIENTS[0]) / (1 + 2 * size)
        left = 2 * _exp_square(np.clip(x, OVERFLOW, 0.0)) - right
    return np.asarray(np.where(x < 0, left, right))


def _exp_square(x: Floats) -> Floats:
    """e^(x^2), where x^2 = h^2 + (2h + l) l and h^2 is exact."""
    high = SPLITTER * x - (SPLITTER * x - x)
    low = x - high
    return np.asarray(np.exp(high * high) * np.exp((2 * high + low) * low))


def digamma(x: Floats) -> Floats:
    """d/dx log Gamma(x) for x > 0."""
    z, below = np.where(x < STEPS, x + STEPS, x), x < STEPS
    near, total = np.where(below, x, 1.0), np.zeros_like(z)
    for k in range(STEPS - 1, -1, -1):
        total = total + 1 / (near + k)
    w, tail = (1 / z) ** 2, np.zeros_like(z)
    for k in range(len(BERNOULLI), 0, -1):
        tail = w * (BERNOULLI[k - 1] / (2 * k) + tail)
    return np.asarray(np.log(z) - 0.5 / z - tail - np.where(below, total, 0.0))


def trigamma(x: Floats) -> Floats:
    """The derivative of `digamma`, for x > 0; infinite where 1/x^2 is."""
    z, below = np.where(x < STEPS, x + STEPS, x), x < STEPS
    near, total = np.where(below, x, 1.0), np.zeros_like(z)
    with np.errstate(over="ignore"):
        for k in range(STEPS - 1, -1, -1):
            total = total + (1 / (near + k)) ** 2
    w, tail = (1 / z) ** 2, np.zeros_like(z)
    for b in BERNOULLI[::-1]:
        tail = w * (b + tail)
    return np.asarray(1 / z + w / 2 + tail / z + np.where(below, total, 0.0))
