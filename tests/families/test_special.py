"""Special functions in numpy: to the last digits of what mpmath and scipy compute."""

from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy import special as scipy_special

from veilsum.families import special

ULPS = 5.0


def off(found: Any, truth: Any, least: float = 0.0) -> float:
    return float(np.max(np.abs(found - truth) / np.spacing(np.maximum(np.abs(truth), least))))


CASES = (
    (special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), scipy_special.erfcx,
     np.linspace(-26.0, 30.0, 400), 0.0, 1000),
    (special.digamma, mpmath.digamma, scipy_special.digamma, np.geomspace(1e-9, 1e6, 400), 1.0, 10),
    (special.trigamma, lambda x: mpmath.psi(1, x), lambda x: scipy_special.polygamma(1, x),
     np.geomspace(1e-9, 1e6, 400), 0.0, 20),
)  # fmt: skip


@pytest.mark.parametrize(("ours", "exact", "scipys", "points", "least", "scipys_ulps"), CASES)
def test_to_the_last_digits(
    ours: Any, exact: Any, scipys: Any, points: Any, least: float, scipys_ulps: float
) -> None:
    with mpmath.workdps(50):
        truth = np.array([float(exact(mpmath.mpf(x))) for x in points])
    assert off(ours(points), truth, least) <= ULPS
    assert off(scipys(points), truth, least) <= scipys_ulps  # e^(x^2) of a rounded x^2, below 0
    assert off(ours(points) * (1 + 1e-14), truth, least) > ULPS  # the test sees such an error


def test_ends_of_the_line() -> None:
    x = np.array([-np.inf, -30.0, 0.0, 1e300, np.inf])
    assert np.array_equal(special.erfcx(x), scipy_special.erfcx(x))
    assert special.trigamma(np.array([1e-300]))[0] == np.inf
    assert special.digamma(np.array([1e300]))[0] == pytest.approx(np.log(1e300), rel=1e-15)
