"""The stated sensitivity against a search over all pairs of a dense grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.families.family_cases import EXAMPLES, bounded
from veilsum import families as f
from veilsum.errors import FamilyError

BOUNDED = [
    *(bounded(example) for example in EXAMPLES if not example.family.signal_shape),
    f.Normal(1.0, bounds=(-2.0, 3.0)),
    f.LogNormal(1.0, bounds=(0.1, 6.0)),
    f.LogNormal(1.0, bounds=(2.0, 2.5)),
    f.LogNormal1p(1.0),
    f.LogNormal1p(1.0, bounds=(0.5, 4.0)),
    f.Bernoulli(),
    f.Poisson(),
    f.Poisson(bounds=(2, 4)),
    f.Geometric(),
    f.Exponential(),
    f.GammaKnownShape(2.0, bounds=(0.0, 0.7)),
    f.GammaKnownRate(1.0, bounds=(0.3, None)),
    f.Pareto(0.5),
    f.Pareto(0.5, bounds=(1.5, 4.0)),
    f.Weibull(0.4),
    f.Weibull(0.4, bounds=(0.2, None)),
    f.Weibull(1.0),
    f.Weibull(2.5, bounds=(0.5, 3.0)),
    f.Laplace(1.0),
    f.Laplace(1.0, bounds=(0.5, 3.0)),
    f.Laplace(5.0, bounds=(0.0, 2.0)),
    f.NormalBoth(bounds=(-2.0, 3.0)),
    f.NormalBoth(bounds=(-3.0, 2.0)),
    f.NormalBoth(bounds=(-1.0, 1.0)),
    f.NormalBoth(bounds=(-0.2, 0.1)),
    f.NormalBoth(bounds=(1.0, 4.0)),
    f.NormalBoth(bounds=(-4.0, -0.5)),
]


def brute_force(family: f.Family, radius: float) -> float:
    """max ||xi(s) - xi(s')||_1 over a grid of s and of moves; open ends cut at 20."""
    low = family.support.low if math.isfinite(family.support.low) else -20.0
    high = family.support.high if math.isfinite(family.support.high) else 20.0
    step = min(radius, high - low)
    if family.support.integer:
        s, moves = np.arange(low, high + 1), np.arange(0.0, math.floor(step) + 1)
    else:
        s, moves = np.linspace(low, high, 801), np.linspace(0, step, 401)
    there = np.clip(s[:, None] + np.concatenate([-moves, moves]), low, high)
    return float(np.abs(family.columns(there) - family.columns(s)[:, None]).sum(-1).max())


PAIRS = [
    (family, radius)
    for family in BOUNDED
    for radius in (0.25, 1.0, 2.5, 8.0)
    if radius >= 1 or not family.support.integer
]


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "radius"), PAIRS, ids=repr)
def test_sensitivity_is_the_exact_modulus(family: f.Family, radius: float) -> None:
    stated = family.moves(radius)
    found = brute_force(family, radius)
    assert stated.finite
    assert stated.reason
    assert found <= stated.l1 * (1 + 1e-9)
    assert found >= 0.999 * stated.l1


@pytest.mark.parametrize("family", [x for x in BOUNDED if math.isfinite(x.support.high)], ids=repr)
def test_an_infinite_radius_is_the_whole_range(family: f.Family) -> None:
    whole = brute_force(family, 1e9)
    assert family.moves(math.inf).l1 == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "near"),
    [
        (f.LogNormal(1.0), [1e-3, 1e-30, 1e-300]),
        (f.LogNormal(1.0, bounds=(0, None)), [1e-3, 1e-30, 1e-300]),
        (f.GammaKnownRate(1.0), [1e-3, 1e-30, 1e-300]),
        (f.Weibull(2.0), [1e1, 1e3, 1e5]),
        (f.NormalBoth(), [1e1, 1e3, 1e5]),
        (f.NormalBoth(bounds=(0, None)), [1e1, 1e3, 1e5]),
    ],
    ids=repr,
)
def test_an_infinite_sensitivity_shows_growth_and_a_remedy(
    family: f.Family, near: list[float]
) -> None:
    stated = family.moves(1.0)
    assert stated.l1 == math.inf
    assert not stated.finite
    assert "bounds" in stated.reason
    moves = [np.abs(family.columns(s + 1.0) - family.columns(s)).sum() for s in near]
    assert moves[0] < moves[1] < moves[2]
    assert moves[2] > 100


def test_closed_forms() -> None:
    assert f.LogNormal(1.0, bounds=(1.0, None)).moves().l1 == pytest.approx(math.log(2))
    assert f.LogNormal1p(1.0).moves(3.0).l1 == pytest.approx(math.log(4))
    assert f.Weibull(0.5).moves(4.0).l1 == pytest.approx(2.0)
    assert f.Weibull(2.0, bounds=(0, 10)).moves(1.0).l1 == pytest.approx(19.0)
    assert f.Pareto(4.0).moves(2.0).l1 == pytest.approx(math.log(1.5))
    assert f.Poisson().moves(2.9).l1 == 2.0
    assert f.Bernoulli().moves(5).l1 == 1.0
    assert f.NormalBoth(bounds=(-2, 2)).moves(1.0).l1 == pytest.approx(2 - 1 / 4)
    assert f.NormalBoth(bounds=(-2, 2)).moves(4.0).l1 == pytest.approx(4.0)
    for a, most in (
        (0.5, 2.0),
        (1.0, 2.25),
    ):  # (u, a u^2) on [-1, 1]: 1 + a + 1/(4 a) from a = 1/2 on
        u = np.linspace(-1, 1, 2001)
        moved = np.abs(u[:, None] - u) + a * np.abs(u[:, None] ** 2 - u**2)
        assert moved.max() == pytest.approx(most, rel=1e-6)


def test_categorical_moves_two_coordinates() -> None:
    family = f.Categorical(3)
    xi = family.statistic(np.arange(3))
    worst = max(np.abs(a - b).sum() for a in xi for b in xi)
    assert worst == family.moves(0.1).l1 == family.moves(math.inf).l1 == 2.0


def test_vector_signals_move_in_l1() -> None:
    """The l1 ball of radius r maps to itself; the corners of a box cap it."""
    family = f.MultivariateNormal(np.eye(2), bounds=(0.0, 1.0))
    corners = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert np.abs(np.diff(family.statistic(corners), axis=0)).sum() == 2.0
    assert family.moves(5.0).l1 == 2.0
    assert family.moves(0.5).l1 == 0.5
    assert f.MultivariateNormal(np.eye(2)).moves(5.0).l1 == 5.0
    assert not f.MultivariateNormal(np.eye(2)).moves(math.inf).finite


@pytest.mark.parametrize("family", [f.Poisson(), f.Bernoulli(), f.Geometric()], ids=repr)
def test_a_radius_below_one_guarantees_nothing_for_counts(family: f.Family) -> None:
    with pytest.raises(FamilyError, match="no two signals are adjacent: the guarantee would be"):
        family.moves(0.5)


@pytest.mark.parametrize(
    "family",
    [f.Normal(1.0), f.LogNormal1p(1.0), f.Poisson(), f.Laplace(0.0), f.Pareto(1.0), f.Weibull(0.5)],
    ids=repr,
)
def test_any_two_values_of_an_unbounded_domain_cannot_be_hidden(family: f.Family) -> None:
    assert family.moves(math.inf).l1 == math.inf
    assert "bounds" in family.moves(math.inf).reason
