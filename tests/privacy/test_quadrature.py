"""Integrals by Gauss-Legendre panels, against closed forms and scipy's quadrature."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from veilsum.errors import PrivacyError
from veilsum.privacy.laws import shares
from veilsum.privacy.laws.quadrature import integral


@pytest.mark.parametrize(
    ("f", "low", "high", "exact"),
    [
        (np.exp, 0.0, 1.0, math.e - 1),
        (lambda x: 1 / (1e-6 + x * x), -1.0, 1.0, 2e3 * math.atan(1e3)),
        (lambda x: -np.sin(x), 0.0, 40.0, math.cos(40.0) - 1),
    ],
)
def test_closed_forms(f: Any, low: float, high: float, exact: float) -> None:
    value, error = integral(f, low, high)
    assert abs(value - exact) <= max(error, 1e-14 * abs(exact))
    assert error <= 1e-11 * abs(exact)


def test_what_no_panels_can_integrate_is_an_error() -> None:
    with pytest.raises(PrivacyError, match="5000 panels"):
        integral(lambda x: np.sin(1e9 * x) ** 2, 0.0, 1.0)


@pytest.mark.parametrize("beta", [0.01, 0.5, 0.99, 1 - 1e-7])
@pytest.mark.parametrize(("steps", "t"), [(0, 1.0), (1, 0.01), (4096, 4096.0), (64, 2.0**30)])
def test_weights_of_masked_noise_are_scipys(beta: float, steps: int, t: float) -> None:
    """The quadrature with an algebraic weight, and s = e^y beyond."""
    near, far = min(1.0, t, t / max(steps, 1)), 800 * t / max(beta, float(steps))

    def smooth(s: float) -> float:
        rise = math.expm1(s / t) / s if s else 1 / t
        return float((rise * -math.expm1(-(2 + s) / t)) ** -beta * math.exp(-steps * s / t))

    first = quad(smooth, 0, near, weight="alg", wvar=(-beta, 0), epsrel=1e-12)[0]
    ends = np.linspace(math.log(near), math.log(far), 17)
    parts = [
        quad(lambda y: _beyond(math.exp(y), beta, steps, t), a, b, epsabs=0, epsrel=1e-12)[0]
        for a, b in pairwise(ends)
    ]
    found, error = shares._weight(beta, steps, t)
    expected = first + math.fsum(parts)
    assert abs(found - expected) <= 1e-12 * expected
    assert 0 < error <= 2e-12 * expected


def _beyond(s: float, beta: float, steps: int, t: float) -> float:
    log = s / t + math.log(-math.expm1(-s / t)) + math.log(-math.expm1(-(2 + s) / t))
    return math.exp(math.log(s) - beta * log - steps * s / t)
