"""What families state (range, l1 and l2 norm of a move) against a search and an optimiser.

Never exceeded, and attained: for a radius, and for any two values of the domain.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from tests.families.family_cases import EXAMPLES, bounded
from veilsum import families as f
from veilsum._statistic import Statistic
from veilsum.errors import FamilyError
from veilsum.families import moduli

Floats = Any
WHOLE = math.inf

FAMILIES: list[Any] = [
    *map(bounded, EXAMPLES),
    f.Normal(1.0, bounds=(-2.0, 3.0)),
    f.LogNormal(1.0, bounds=(0.1, 6.0)),
    f.LogNormal1p(1.0, bounds=(0.5, 4.0)),
    f.Bernoulli(),
    f.Poisson(bounds=(2, 9)),
    f.Geometric(bounds=(1, 8)),
    f.Exponential(bounds=(0.0, 3.0)),
    f.GammaKnownShape(2.0, bounds=(0.0, 0.7)),
    f.GammaKnownRate(1.0, bounds=(0.3, 5.0)),
    f.Pareto(0.5, bounds=(0.2, 4.0)),
    f.Weibull(0.4, bounds=(0.0, 3.0)),
    f.Weibull(2.5, bounds=(0.5, 3.0)),
    f.Laplace(1.0, bounds=(0.5, 3.0)),
    f.Laplace(5.0, bounds=(0.0, 2.0)),
    f.NormalBoth(bounds=(-2.0, 3.0)),
    f.NormalBoth(bounds=(-1.0, 1.0)),
    f.NormalBoth(bounds=(30.0, 42.0)),
    f.NormalBoth(bounds=(-9.0, 8.0)),
    f.NormalBoth(bounds=(1.0, 4.0)),
    f.Categorical(7),
    f.MultivariateNormal(np.eye(3), bounds=(-1.0, 0.5)),
]
CASES = [
    (family, radius)
    for family in FAMILIES
    for radius in (0.25, 1.0, 2.5, WHOLE)
    if radius >= 1 or not family.support.integer
]


def test_every_family_is_here() -> None:
    assert {family.name for family in FAMILIES} == set(f.names())


def values(family: Any) -> Floats:
    """Signals all over the support, corners included."""
    low, high = family.support.low, family.support.high
    if family.support.integer:
        return np.arange(low, high + 1)
    if family.signal_shape:
        return np.array(list(itertools.product(np.linspace(low, high, 7), repeat=3)))
    return np.linspace(low, high, 241)


def pairs(family: Any, radius: float) -> tuple[Floats, Floats]:
    """Adjacent signals: all pairs of `values`, and pairs a full radius apart."""
    s = values(family)
    first, second = np.repeat(s, len(s), axis=0), np.tile(s.T, len(s)).T
    if not family.signal_shape and not family.support.integer and math.isfinite(radius):
        low, high = family.support.low, family.support.high
        moved = np.clip(s + radius, low, high)
        first, second = np.append(first, s), np.append(second, moved)
    apart = np.abs(first - second)
    apart = apart.sum(axis=-1) if family.signal_shape else apart
    if family.metric == "discrete":
        apart = np.zeros_like(apart)
    near = apart <= radius * (1 + 1e-12)
    return first[near], second[near]


def norm(family: Any, order: int, first: Floats, second: Floats) -> Floats:
    return np.linalg.norm(family.columns(first) - family.columns(second), ord=order, axis=-1)


def optimised(family: Any, radius: float, order: int, start: tuple[Floats, Floats]) -> float:
    """The largest norm that an optimiser finds from the best pair of the search."""
    low, high = family.support.low, family.support.high
    size = 3 if family.signal_shape else 1

    def lost(x: Floats) -> float:
        s = np.clip(x[:size], low, high)
        move = np.clip(x[size:], low - s, high - s)
        length = float(np.abs(move).sum())
        move = move if length <= radius else move * radius / length
        other = np.clip(s + move, low, high)
        if not family.signal_shape:
            s, other = s[0], other[0]
        return -float(norm(family, order, np.array([s]), np.array([other]))[0])

    x = np.concatenate([np.atleast_1d(start[0]), np.atleast_1d(start[1] - start[0])])
    found = optimize.minimize(
        lost, x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    return -float(found.fun)


@pytest.mark.parametrize(("family", "radius"), CASES, ids=repr)
def test_stated_norms_are_attained_and_never_exceeded(family: Any, radius: float) -> None:
    first, second = pairs(family, radius)
    stated = {1: family.moves(radius).l1, 2: family.moves(radius).l2}
    for order, most in stated.items():
        each = norm(family, order, first, second)
        found, best = float(each.max()), int(each.argmax())
        if not family.support.integer:
            found = max(found, optimised(family, radius, order, (first[best], second[best])))
        assert found <= most * (1 + 1e-12)
        assert found >= (1 - 1e-6) * most


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_stated_ranges_are_attained_and_never_exceeded(family: Any) -> None:
    """The search, and an optimiser from its best values, for each end of each component."""
    s = values(family)
    low, high = family.moves(math.inf).range
    assert low.shape == high.shape == (family.dimension,)
    for sign, ends in ((1, low), (-1, -high)):
        for k in range(family.dimension):
            found = sign * family.columns(s)[:, k]
            least = float(found.min())
            if not family.support.integer and not family.signal_shape:
                near = float(s[found.argmin()])
                span = (max(near - 0.1, family.support.low), min(near + 0.1, family.support.high))
                tried = optimize.minimize_scalar(
                    lambda x, k=k, sign=sign: sign * float(family.columns(x)[k]),
                    bounds=span, method="bounded", options={"xatol": 1e-12},
                )  # fmt: skip
                least = min(least, float(tried.fun))
            assert least >= ends[k] - 1e-12 * abs(ends[k])
            assert least == pytest.approx(ends[k], rel=1e-6, abs=1e-6)


def test_unbounded_families_have_an_infinite_range() -> None:
    assert [e.tolist() for e in f.Poisson().moves(math.inf).range] == [[0.0], [math.inf]]
    assert [e.tolist() for e in f.LogNormal(1.0).moves(math.inf).range] == [[-math.inf], [math.inf]]
    low, high = f.NormalBoth().moves(math.inf).range
    assert (low.tolist(), high.tolist()) == ([-math.inf, 0.0], [math.inf, math.inf])
    assert [e.tolist() for e in f.Laplace(0.0).moves(math.inf).range] == [[0.0], [math.inf]]
    assert f.NormalBoth().moves().l2 == math.inf
    assert f.MultivariateNormal(np.eye(3)).moves(2.0).l2 == 2.0


def test_a_categorical_moves_by_the_root_of_two() -> None:
    for radius in (0.1, 1.0, math.inf):
        assert f.Categorical(400).moves(radius).l2 == pytest.approx(math.sqrt(2), rel=1e-15)


def test_roots_are_rounded_up() -> None:
    from fractions import Fraction

    for exact in (
        Fraction(2),
        Fraction(1, 3),
        Fraction(10) ** 400,
        Fraction(4),
        Fraction(7, 10**300),
    ):
        root = moduli.root(exact)
        assert Fraction(root) ** 2 >= exact
        assert Fraction(math.nextafter(root, 0.0)) ** 2 < exact


def test_a_custom_family_states_its_range_or_has_none() -> None:
    """E xi may lie in [0, 1/3] where xi itself reaches 1: one is not taken for the other."""
    support = f.Support(low=0.0, high=1.0)
    silent = f.Custom(np.square, support, 2.0, mean_domain=(0.0, 1 / 3))
    assert [e.tolist() for e in silent.moves(math.inf).range] == [[-math.inf], [math.inf]]
    stated = f.Custom(np.square, support, 2.0, statistic_range=(0.0, 1.0))
    assert [e.tolist() for e in stated.moves(math.inf).range] == [[0.0], [1.0]]

    def both(s: Any) -> Any:
        return np.stack([s, 1 - s], axis=-1)

    vector = f.Custom(both, support, 2.0, dimension=2)
    assert vector.moves(0.5).l2 == vector.moves(0.5).l1 == 1.0
    known = f.Custom(
        both, support, 2.0, dimension=2, l2_sensitivity=lambda r: math.sqrt(2) * r,
        statistic_range=([0.0, 0.0], 1.0),
    )  # fmt: skip
    assert known.moves(0.5).l2 == pytest.approx(math.sqrt(0.5))
    assert known.moves(math.inf).range[1].tolist() == [1.0, 1.0]
    for wrong in ((1.0, 0.0), 3.0, ([0.0, 1.0, 2.0], 4.0)):
        with pytest.raises(FamilyError, match="statistic_range"):
            f.Custom(both, support, 2.0, dimension=2, statistic_range=wrong)  # type: ignore[arg-type]


def test_a_changed_statistic_does_not_inherit_a_range() -> None:
    class Cube(f.Normal):
        def _xi(self, s: Any) -> Any:
            return s**3

    class Stated(Cube):
        def _moves(self, radius: float) -> Statistic:
            del radius
            return Statistic(8.0, low=0.0, high=8.0)

    assert Cube(1.0, bounds=(0.0, 2.0)).moves(math.inf).range[1].tolist() == [math.inf]
    assert Stated(1.0, bounds=(0.0, 2.0)).moves(math.inf).range[1].tolist() == [8.0]

    class Pair(f.Categorical):
        def _xi(self, s: Any) -> Any:
            return 2 * super()._xi(s)

    assert Pair(3).moves().l2 == Pair(3).moves().l1
