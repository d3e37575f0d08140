"""Where to draw the sites of a fleet, with numpy alone: an observer has no scipy.

Positions that come with the network are kept. Others start from pivot MDS (Brandes and Pich 2007) and
are moved by springs along links and by repulsion (Fruchterman and Reingold 1991), against all sites of
a small fleet and against a sample of a large one: 2,000 sites take about a second. The same links give
the same picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PIVOTS = 32
STEPS = 60  # of the springs
SAMPLE = 160  # sites that push each one in a large fleet
MARGIN = 0.04

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def place(size: int, links: Any, given: Any = None) -> list[list[float]]:
    """Positions within the unit square, x to the right and y upwards.

    Parameters
    ----------
    size : int
        The number of sites.
    links : array_like of int, shape (m, 2)
        Pairs of sites.
    given : array_like of float, shape (size, 2), optional
        Positions that are known, in any units.

    Returns
    -------
    list of [float, float]
        One for each site; proportions of given positions are kept.

    Examples
    --------
    >>> place(2, [(0, 1)], given=[(10.0, 20.0), (30.0, 20.0)])
    [[0.04, 0.5], [0.96, 0.5]]
    """
    pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
    if given is not None:
        placed = np.asarray(given, dtype=np.float64)
    else:
        placed = _turned(_springs(_pivots(size, pairs), pairs))
    return [[round(float(x), 4), round(float(y), 4)] for x, y in _fitted(placed)]


def _fitted(placed: Floats) -> Floats:
    """Scaled by one factor and centred."""
    low, high = placed.min(axis=0), placed.max(axis=0)
    width = float((high - low).max()) or 1.0
    scaled = (placed - (low + high) / 2) / width
    return np.asarray(0.5 + scaled * (1 - 2 * MARGIN))


def _turned(placed: Floats) -> Floats:
    """Turned so that the longer axis lies flat: screens are wider than high."""
    centred = placed - placed.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ axes[:, ::-1])


def _pivots(size: int, pairs: Ints) -> Floats:
    """Two principal axes of the hops to a few far-apart sites, doubly centred."""
    neighbours, begins = _adjacency(size, pairs)
    columns: list[Floats] = []
    nearest, pivot = np.full(size, np.inf), 0
    for _ in range(min(PIVOTS, size)):
        hops = _hops(size, neighbours, begins, pivot)
        hops[np.isinf(hops)] = 2 * hops[np.isfinite(hops)].max() + 2  # another component
        columns.append(hops)
        nearest = np.minimum(nearest, hops)
        pivot = int(nearest.argmax())
    C = -0.5 * np.stack(columns, axis=1) ** 2
    C = C - C.mean(axis=0) - C.mean(axis=1, keepdims=True) + C.mean()
    _, vectors = np.linalg.eigh(C.T @ C)
    axes = C @ vectors[:, :-3:-1]
    spread = np.abs(axes).max()
    jitter = np.random.default_rng(0).normal(size=(size, 2))
    return np.asarray((axes / spread if spread > 0 else axes[:, :1] * 0) + 0.02 * jitter)


def _adjacency(size: int, pairs: Ints) -> tuple[Ints, Ints]:
    """Neighbours of all sites one after the other, and where those of each begin."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return both[:, 1], np.searchsorted(both[:, 0], np.arange(size + 1))


def _hops(size: int, neighbours: Ints, begins: Ints, start: int) -> Floats:
    """Hops from one site to every other, breadth first; infinite where there is no way."""
    hops = np.full(size, np.inf)
    hops[start], frontier, far = 0, np.array([start]), 0
    while len(frontier):
        far += 1
        reached = np.concatenate([neighbours[begins[i] : begins[i + 1]] for i in frontier])
        frontier = np.unique(reached[np.isinf(hops[reached])])
        hops[frontier] = far
    return hops


def _springs(placed: Floats, pairs: Ints) -> Floats:
    """Links pull by d^2/k, sites push by k^2/d; steps shrink."""
    size = len(placed)
    ideal, rng = 1 / np.sqrt(size), np.random.default_rng(1)
    placed = placed / (np.abs(placed).max() or 1.0) / 2
    for step in range(STEPS):
        others = np.arange(size) if size <= 2 * SAMPLE else rng.choice(size, SAMPLE, False)
        away = placed[:, None] - placed[others][None]
        square = (away**2).sum(axis=2) + 1e-9
        push = (away / square[:, :, None]).sum(axis=1) * ideal**2 * size / len(others)
        along = placed[pairs[:, 1]] - placed[pairs[:, 0]]
        pull = along * np.sqrt((along**2).sum(axis=1, keepdims=True)) / ideal
        np.add.at(push, pairs[:, 0], pull)
        np.add.at(push, pairs[:, 1], -pull)
        length = np.sqrt((push**2).sum(axis=1, keepdims=True)) + 1e-12
        most = min(0.08, 2 * ideal) * (1 - step / STEPS) ** 1.5 + 1e-4
        placed = placed + push / length * np.minimum(length, most)
    return placed
