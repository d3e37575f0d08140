"""Every family's sensitivity against 50 digits: never below the true modulus, a few ulp above.

The worst pair is found by the argument of `families.moduli`; `test_sensitivity_brute_force`
checks that argument. Here it is evaluated where floats cancel, underflow and overflow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from veilsum import families as f
from veilsum.families import moduli

mp = mpmath.mp.clone()
mp.prec = 2400  # exact differences of floats from 5e-324 to 1e308, with 50 digits to spare
EXPONENTS = [-323, -300, -100, -30, -11, -3, 0, 1, 6, 16, 100, 200]
RADII = [3.7 * 10.0**k for k in EXPONENTS] + [1e300, 1.0, 0.3, math.inf]
TINY, LARGEST = 5e-324, mp.mpf(np.finfo(float).max)
FEW = 20  # units in the last place


def real(value: float) -> Any:
    """The float as it is, to all digits."""
    return mp.mpf(value)


def step_of(low: float, high: float, radius: float) -> Any:
    """min(radius, high - low)."""
    return min(real(radius), real(high) - real(low))


def linear(low: float, high: float, radius: float) -> Any:
    """xi = s."""
    return step_of(low, high, radius)


def logarithm(low: float, high: float, radius: float) -> Any:
    """xi = log s."""
    if low == 0:
        return mp.inf
    return mp.log1p(step_of(low, high, radius) / real(low))


def logarithm_1p(low: float, high: float, radius: float) -> Any:
    """xi = log(1 + s)."""
    return mp.log1p(step_of(low, high, radius) / (1 + real(low)))


def power(k: float) -> Callable[[float, float, float], Any]:
    """xi = s^k, from its steeper end."""

    def modulus(low: float, high: float, radius: float) -> Any:
        step = step_of(low, high, radius)
        if mp.isinf(step):
            return mp.inf
        if k <= 1:
            return (real(low) + step) ** real(k) - real(low) ** real(k)
        top = mp.inf if math.isinf(high) else real(high) ** real(k)
        return mp.inf if top > LARGEST else top - (real(high) - step) ** real(k)

    return modulus


def both(low: float, high: float, radius: float) -> Any:
    """xi = (s - c, (s - c)^2/w): the best of all candidates for the length of the move."""
    step = step_of(low, high, radius)
    if math.isinf(high):
        return mp.inf
    c, w = (real(number) for number in moduli.centre_and_width(f.Support(low, high)))
    reach = 2 * max(real(high) - c, c - real(low))
    top = (reach / 2) ** 2 / w
    moves = [step, min(step, (w + reach) / 2)]
    return mp.inf if top > LARGEST else max(t + t * (reach - t) / w for t in moves)


def away(centre: float) -> Callable[[float, float, float], Any]:
    """xi = |s - c|."""

    def modulus(low: float, high: float, radius: float) -> Any:
        inside = low <= centre <= high
        ends = abs(real(low) - real(centre)), abs(real(high) - real(centre))
        return min(real(radius), max(ends) if inside else real(high) - real(low))

    return modulus


def intervals(lows: list[float], both_signs: bool = False) -> Iterator[tuple[float, float]]:
    """Bounds: from each low by a hair, a little, a lot, and without end."""
    for low in [*lows, *(-x for x in lows if both_signs and x)]:
        yield low, math.inf
        yield low, math.nextafter(low, math.inf)
        for width in (1e-300, 1e-12, 7.3, 1e6, 1e17, 1e300):
            if math.isfinite(low + width) and low + width > low:
                yield low, low + width


POSITIVE = [5e-324, 1e-300, 1e-160, 1e-20, 1e-3, 0.1, 1.0, 3.3, 1e6, 1e15, 1e150, 1e300]
CASES: list[tuple[str, Callable[..., f.Family], Any, list[float], bool]] = [
    ("normal", lambda b: f.Normal(1.0, bounds=b), linear, [0.0, *POSITIVE], True),
    ("log-normal", lambda b: f.LogNormal(1.0, bounds=b), logarithm, POSITIVE, False),
    ("log-normal-1p", lambda b: f.LogNormal1p(1.0, bounds=b), logarithm_1p, [0, *POSITIVE], False),
    ("exponential", lambda b: f.Exponential(bounds=b), linear, [0.0, *POSITIVE], False),
    ("gamma-known-shape", lambda b: f.GammaKnownShape(2.0, bounds=b), linear, [0.0, 0.1], False),
    ("gamma-known-rate", lambda b: f.GammaKnownRate(2.0, bounds=b), logarithm, POSITIVE, False),
    ("pareto", lambda b: f.Pareto(5e-324, bounds=b), logarithm, POSITIVE, False),
    ("laplace", lambda b: f.Laplace(0.7, bounds=b), away(0.7), [0.0, *POSITIVE], True),
    ("normal-both", lambda b: f.NormalBoth(bounds=b), both, [0.0, *POSITIVE], True),
    *(
        (f"weibull {k:g}", lambda b, k=k: f.Weibull(k, bounds=b), power(k), [0.0, *POSITIVE], False)
        for k in (1e-12, 0.01, 0.5, 0.999, 1.0, 1.001, 2.0, 3.0, 40.0, 1e9)
    ),
]  # fmt: skip


def check(found: float, true: Any, what: Any) -> None:
    """true <= found <= true (1 + a few ulp) + a few of the least floats."""
    if math.isinf(found):
        assert true > LARGEST * (1 - mp.mpf(FEW) * 2**-52), what
        return
    assert found > 0, what
    assert real(found) >= true, (*what, found, mp.nstr(true, 20))
    assert real(found) <= true * (1 + mp.mpf(FEW) * 2**-52) + 8 * real(TINY), (*what, found, true)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "make", "modulus", "lows", "signs"), CASES, ids=[case[0] for case in CASES]
)
def test_never_below_the_true_modulus(
    name: str, make: Any, modulus: Any, lows: list[float], signs: bool
) -> None:
    """Weibull(3, bounds=(0, 1e6)) at a radius of 1e-11 used to need no noise at all."""
    for (low, high), radius in itertools.product(intervals(lows, signs), RADII):
        found = make((low, None if math.isinf(high) else high)).moves(radius).l1
        check(found, modulus(low, high, radius), (name, low, high, radius))


def test_the_grid_has_thousands_of_points() -> None:
    """So that nobody thins it out unseen."""
    count = sum(len(list(intervals(lows, signs))) * len(RADII) for *_, lows, signs in CASES)
    assert count > 15_000


@pytest.mark.parametrize("family", [f.Poisson, f.Geometric])
def test_counts_move_by_whole_steps(family: Any) -> None:
    """min(floor(radius), high - low), exact up to where floats are whole numbers."""
    for high, radius in itertools.product((3, 10**6, 2**60), (1.0, 1.9, 2.5, 1e9, 1e300, math.inf)):
        low = 1 if family is f.Geometric else 0
        true = min(radius if radius > 1e15 else math.floor(radius), high - low)
        check(family(bounds=(low, high)).moves(radius).l1, mp.mpf(true), (high, radius))


def test_vectors_and_categories() -> None:
    """min(radius, d (high - low)) in l1, and 2 for any two categories."""
    sigma = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for (low, high), radius in itertools.product(intervals([0.1, 1e150], True), RADII):
        bounds = (low, None if math.isinf(high) else high)
        found = f.MultivariateNormal(sigma, bounds=bounds).moves(radius).l1
        check(found, min(real(radius), 3 * (real(high) - real(low))), (low, high, radius))
    assert {f.Categorical(3).moves(radius).l1 for radius in RADII} == {2.0}


def test_exact_where_floats_are() -> None:
    """Rounding up must not touch what needs none: a radius of 1 is a sensitivity of 1."""
    assert f.Normal(1.0).moves(1.0).l1 == 1.0
    assert f.Normal(1.0, bounds=(0, 5)).moves(10.0).l1 == 5.0
    assert f.Weibull(1.0).moves(0.3).l1 == 0.3
    assert f.NormalBoth(bounds=(0, 2)).moves(2.0).l1 == 2.0


def test_mean_and_spread_together_move_as_the_mean_alone() -> None:
    """On [30, 42] s and s^2 move by 12 + 42^2 - 30^2 = 876 together, and about the middle by 12."""
    uncentred = f.Custom(
        lambda s: np.stack([s, s**2], axis=-1), f.Support(30.0, 42.0), 876.0, dimension=2
    )
    ends = uncentred.columns(np.array([30.0, 42.0]))
    assert np.abs(ends[1] - ends[0]).sum() == 876.0
    whole = f.NormalBoth(bounds=(30.0, 42.0)).moves(math.inf)
    assert (whole.l1, whole.l2) == (12.0, 12.0)
    assert f.Normal(1.0, bounds=(30.0, 42.0)).moves(math.inf).l1 == 12.0
