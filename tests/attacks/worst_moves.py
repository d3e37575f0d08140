"""How far a statistic can really be moved: brute force over pairs of signals, no formula."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np

from veilsum import families as f
from veilsum.errors import FamilyError

PARTS = (1.0, 0.999, 0.9, 0.75, 0.5, 1 / 3, 0.25, 0.1, 0.01)  # of the radius, for humps inside it


def specimens() -> Any:
    """Families with and without bounds: wide, narrow, off centre, across 0, and fractional."""
    yield from (f.Normal(1.5), f.Normal(1.0, bounds=(-2.0, 0.7)), f.Normal(1.0, bounds=(5.0, 9.5)))
    yield from (f.LogNormal(0.8, bounds=(0.1, None)), f.LogNormal(0.8, bounds=(0.5, 8.0)))
    yield from (f.LogNormal1p(1.04), f.LogNormal1p(1.0, bounds=(0.4, 3.0)))
    yield from (f.Bernoulli(), f.Poisson(), f.Poisson(bounds=(0.5, 7.3)), f.Geometric())
    yield from (f.Exponential(), f.Exponential(bounds=(0.2, 4.0)), f.GammaKnownShape(2.2))
    yield from (f.GammaKnownRate(1.7, bounds=(0.3, None)), f.GammaKnownRate(1.0, bounds=(0.2, 5.0)))
    yield from (f.Pareto(2.0), f.Pareto(0.5, bounds=(1.0, 6.0)))
    yield from (f.Weibull(0.6), f.Weibull(2.5, bounds=(0.0, 3.0)), f.Weibull(1.5, bounds=(1, 4)))
    yield from (f.Laplace(0.5), f.Laplace(0.5, bounds=(-1.0, 4.0)), f.Laplace(9.0, bounds=(0, 2)))
    yield from (f.Categorical(4), f.Categorical(2))
    for bounds in ((-3.0, 5.0), (2.0, 3.0), (-0.4, 0.3), (-2.0, -0.1), (-0.6, 4.0)):
        yield f.NormalBoth(bounds=bounds)
    sigma = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.2), (0.0, -0.2, 0.5))
    yield from (f.MultivariateNormal(sigma), f.MultivariateNormal(sigma, bounds=(-1.0, 0.5)))


RADII = (0.3, 1.0, 2.7, math.inf)


@cache
def attacks() -> Any:
    """(family, radius, worst move) wherever the family guarantees a finite sensitivity."""
    made = []
    for family, radius in itertools.product(specimens(), RADII):
        try:
            if family.moves(radius).finite:
                made.append((family, radius, worst_move(family, radius)))
        except FamilyError:  # no two signals are that near
            continue
    return made


def worst_move(family: Any, radius: Any) -> Any:
    """max ||xi(s) - xi(s')||_1 over pairs of the support at most `radius` apart."""
    if family.signal_shape:
        return _worst_vector(family, radius)
    xi = pairs_of_statistics(family, radius)
    return float(np.abs(xi[:, 0] - xi[:, 1]).sum(axis=-1).max())


def pairs_of_statistics(family: Any, radius: Any) -> Any:
    """(pairs, 2, components): xi of pairs of scalar signals at most `radius` apart."""
    if family.name == "categorical":  # any two
        s = np.arange(family.categories, dtype=float)
        pairs = np.array(list(itertools.product(s, s)))
    else:
        pairs = _pairs(family.support, radius)
    return family.columns(pairs).reshape(len(pairs), 2, -1)


def _pairs(support: Any, radius: Any) -> Any:
    starts = _grid(support)
    if math.isinf(radius):
        return np.array(list(itertools.product((starts.min(), starts.max()), starts)))
    steps = [math.floor(radius)] if support.integer else [part * radius for part in PARTS]
    low, high = starts[:, None], np.minimum(starts[:, None] + steps, support.high)
    down = np.maximum(starts[:, None] - steps, support.low)
    both = [np.stack([low + 0 * high, high], axis=-1), np.stack([low + 0 * down, down], axis=-1)]
    pairs = np.concatenate([b.reshape(-1, 2) for b in both])
    near = np.abs(pairs[:, 0] - pairs[:, 1]) <= radius
    return pairs[near & ~support.violations(pairs).any(axis=1)]


def _grid(support: Any) -> Any:
    """Edges, a fine grid, and points ever nearer to the edges."""
    low = support.low if math.isfinite(support.low) else -50.0
    high = support.high if math.isfinite(support.high) else max(low, 0.0) + 200.0
    near = 10.0 ** np.arange(-12, 2.0, 0.5)
    grid = np.concatenate(
        [
            [low, high],
            np.linspace(low, high, 2001),
            np.arange(np.ceil(low), high, 0.5),
            low + near,
            high - near,
        ]
    )
    if support.integer:
        grid = np.arange(low, high + 1)
    return np.unique(grid[~support.violations(grid)])


def _worst_vector(family: Any, radius: Any) -> Any:
    """Moves of l1 length `radius` shared over coordinates in many ways, from corners and inside."""
    (d,), rng = family.signal_shape, np.random.default_rng(1)
    low, high = (x if math.isfinite(x) else y for x, y in
                 ((family.support.low, -5.0), (family.support.high, 5.0)))  # fmt: skip
    ways = np.concatenate([np.eye(d), -np.eye(d), rng.dirichlet(np.ones(d), 200),
                           np.ones((1, d)) / d])  # fmt: skip
    length = min(radius, d * (high - low))
    starts = np.array(list(itertools.product((low, (low + high) / 2, high), repeat=d)))
    ends = np.clip(starts[:, None] + length * ways[None], low, high)
    moved = np.abs(family.statistic(ends) - family.statistic(starts)[:, None]).sum(axis=-1)
    return float(moved[np.abs(ends - starts[:, None]).sum(axis=-1) <= radius].max())
