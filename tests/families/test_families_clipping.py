"""The bias that bounds bring, against a long average of draws and against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from veilsum import families as f
from veilsum.families.clipping import drawn_clipping

DRAWS = 400_000
CASES: list[tuple[f.Family, dict[str, Any]]] = [
    (f.Normal(1.5, bounds=(-1.0, 1.0)), {"mu": 0.7}),
    (f.LogNormal(0.8, bounds=(0.5, 3.0)), {"mu": 0.3}),
    (f.LogNormal1p(1.0, bounds=(0.2, 3.0)), {"mu": 0.4}),
    (f.Bernoulli(bounds=(0, 1)), {"p": 0.3}),
    (f.Poisson(bounds=(0, 5)), {"rate": 4.0}),
    (f.Poisson(bounds=(2, 5)), {"rate": 4.0}),
    (f.Geometric(bounds=(1, 4)), {"p": 0.2}),
    (f.Exponential(bounds=(0.1, 1.0)), {"rate": 1.5}),
    (f.GammaKnownShape(2.2, bounds=(0.5, 3.0)), {"rate": 0.9}),
    (f.GammaKnownRate(1.7, bounds=(0.3, 2.0)), {"shape": 1.3}),
    (f.Pareto(1.0, bounds=(1.0, 4.0)), {"alpha": 2.8}),
    (f.Weibull(0.7, bounds=(0.1, 3.0)), {"scale": 1.0}),
    (f.Weibull(2.0, bounds=(0.1, 1.0)), {"scale": 1.0}),
    (f.Laplace(0.5, bounds=(-1.0, 1.0)), {"scale": 1.2}),
    (f.NormalBoth(bounds=(-1.0, 2.0)), {"mu": 1.1, "sigma": 0.7}),
    (
        f.MultivariateNormal([[2.0, 0.5], [0.5, 1.0]], bounds=(-1.0, 1.0)),
        {"mu": [1.0, -2.0]},
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "parameters"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_bias_is_that_of_draws(family: f.Family, parameters: dict[str, Any]) -> None:
    """Within 6.5 standard errors: 26 coordinates and fractions together fail once in 10^8 seeds."""
    s = family.sample(np.random.default_rng(5), (DRAWS,), **parameters)
    gap = family.raw_columns(family.support.clip(s)) - family.raw_columns(s)
    found = drawn_clipping(family, parameters)
    assert found is not None
    error = 6.5 * gap.std(axis=0) / math.sqrt(DRAWS)
    assert (np.abs(found.bias - gap.mean(axis=0)) <= error + 1e-12).all(), found
    if s.ndim == 1:
        assert found.below == pytest.approx((s < family.support.low).mean(), abs=5.5e-3)
        assert found.above == pytest.approx((s > family.support.high).mean(), abs=5.5e-3)


def test_poisson_by_hand() -> None:
    """Poisson(4) within (0, 5): E min(s, 5) - 4 = -0.4103..., which used to pass in silence."""
    p = [math.exp(-4) * 4**k / math.factorial(k) for k in range(6)]
    true = sum(k * q for k, q in enumerate(p)) + 5 * (1 - sum(p)) - 4
    found = drawn_clipping(f.Poisson(bounds=(0, 5)), {"rate": 4.0})
    assert found is not None
    assert found.bias == pytest.approx([true], rel=1e-10)
    assert found.bias == pytest.approx([-0.4103], abs=1e-4)


def test_far_bounds_are_no_bias_to_speak_of() -> None:
    """phi and Phi: E (s - b)^+ = phi(b) - b sf(b), here 5.3e-8."""
    found = drawn_clipping(f.Normal(1.0, bounds=(-50.0, 5.0)), {"mu": 0.0})
    assert found is not None
    true = -(math.exp(-12.5) / math.sqrt(2 * math.pi) - 5 * 0.5 * math.erfc(5 / math.sqrt(2)))
    assert found.bias == pytest.approx([true], rel=1e-6)


def test_without_bounds_there_is_nothing_to_say() -> None:
    assert drawn_clipping(f.Normal(1.0), {"mu": 0.0}) is None


def test_a_custom_family_is_drawn_from() -> None:
    own = f.Custom(
        lambda s: s, f.Support(), 1.0, sampler=lambda rng, size, mean: rng.normal(mean, 1, size),
        bounds=(-1.0, 1.0), name="poisson",
    )  # fmt: skip
    found = drawn_clipping(own, {"mean": 0.5})
    known = drawn_clipping(f.Normal(1.0, bounds=(-1.0, 1.0)), {"mu": 0.5})
    assert found is not None
    assert known is not None
    assert found.bias == pytest.approx(known.bias, abs=0.01)
