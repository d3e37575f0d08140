"""Sensitivity in several dimensions, from the derivatives of the statistic.

Signals s in R^k are adjacent when ||s - s'||_1 <= radius; xi(s) in R^m has the Jacobian J(s),
rows for the statistic, columns for the signal. On a box (or any convex domain)

    ||xi(s) - xi(s')||_1 <= integral ||J(s + t v) v||_1 dt <= radius max_s max_j sum_i |J_ij(s)|

since ||J v||_1 <= sum_j |v_j| ||J e_j||_1: the largest column sum. It is this l1 norm that counts
under independent Laplace noise of one scale b, whose log density moves by ||xi - xi'||_1/b.

- m = 1, a scalar statistic of a vector signal: the largest absolute partial derivative,
  ||grad xi||_inf, as the paper says (Sec. 3).
- k = 1, a vector statistic of a scalar signal: sum_i |xi_i'|. The largest partial derivative
  would be too small, by a factor of up to m.

Both are attained along a coordinate axis, so they are the least Lipschitz constants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.families.support import number
from murmura.privacy.guarantee import Status
from murmura.privacy.sensitivity.base import CLAIMED, ESTIMATED, Array, SensitivityBound

Jacobian = Callable[[Array], ArrayLike]

MOST_POINTS = 1 << 20


def column_sums(jacobian: ArrayLike) -> Array:
    """max_j sum_i |J_ij| for Jacobians (..., m, k): the norm of J from l1 to l1."""
    return np.asarray(np.abs(np.asarray(jacobian, dtype=np.float64)).sum(axis=-2).max(axis=-1))


def gradient(
    jacobian: Jacobian,
    low: ArrayLike,
    high: ArrayLike,
    *,
    radius: float = 1.0,
    change: float | None = None,
    points: int = 1 << 14,
) -> SensitivityBound:
    """Delta = radius max_s max_j sum_i |J_ij(s)| over the box low <= s <= high.

    jacobian   (p, k) signals -> (p, k) gradients of a scalar statistic, or (p, m, k) Jacobians
    change     a bound on how much the column sums change per unit of ||s||_1, which the author
               vouches for: with it the value on the lattice plus change x (half a cell) is an
               upper bound, claimed; without it the largest value on the lattice is polished, and
               estimated
    """
    a, b = _box(low, high)
    _validate.positive(PrivacyError, radius=radius)
    lattice, half = _lattice(a, b, points)
    steepest = _norms(jacobian, lattice)
    if change is not None:
        _validate.positive(PrivacyError, change=change)
        worst = float(steepest.max()) + change * half
        how = f"column sums that change by at most {number(change)} per unit as stated"
        return _bound(worst * radius, radius, how, CLAIMED)
    worst = _polish(jacobian, a, b, lattice[np.argsort(steepest)[-8:]])
    return _bound(worst * radius, radius, "the steepest place that a search found", ESTIMATED)


def _bound(value: float, radius: float, how: str, status: Status) -> SensitivityBound:
    return SensitivityBound(
        kind="gradient",
        status=status,
        reason=f"{how}: at most {number(value / radius)} per unit in l1 norm",
        largest=value,
        radius=radius,
    )


def _box(low: ArrayLike, high: ArrayLike) -> tuple[Array, Array]:
    ends = np.broadcast_arrays(
        np.atleast_1d(np.asarray(low, dtype=np.float64)),
        np.atleast_1d(np.asarray(high, dtype=np.float64)),
    )
    a, b = (np.array(end) for end in ends)
    if a.ndim != 1 or not (np.isfinite(a).all() and np.isfinite(b).all() and (a < b).all()):
        raise PrivacyError(
            "a box needs finite ends with low < high in every coordinate; "
            f"found low={a.tolist()}, high={b.tolist()}"
        )
    return a, b


def _lattice(a: Array, b: Array, points: int) -> tuple[Array, float]:
    """Lattice points of the box, and the l1 distance to the nearest one at most."""
    k = a.size
    if 2**k > MOST_POINTS:
        raise PrivacyError(f"a lattice in {k} dimensions has too many corners; bound J by hand")
    _validate.at_least(PrivacyError, 2, points=points)
    each = max(2, math.floor(min(points, MOST_POINTS) ** (1 / k) + 1e-9))
    axes = [np.linspace(low, high, each) for low, high in zip(a, b, strict=True)]
    grid = np.array(list(itertools.product(*axes)))
    return grid, float(((b - a) / (each - 1)).sum() / 2)


def _norms(jacobian: Jacobian, s: Array) -> Array:
    J = np.asarray(jacobian(s), dtype=np.float64)
    J = J[:, None, :] if J.ndim == 2 else J
    if J.ndim != 3 or J.shape[0] != s.shape[0] or J.shape[2] != s.shape[1]:
        raise PrivacyError(
            f"the jacobian must map (p, k) = {s.shape} signals to (p, k) or (p, m, k); "
            f"found {J.shape}"
        )
    norms = column_sums(J)
    if not np.isfinite(norms).all():
        raise PrivacyError("the derivative is not finite on the whole box; give narrower bounds")
    return norms


def _polish(jacobian: Jacobian, a: Array, b: Array, starts: Array) -> float:
    """The largest column sum near the best lattice points, by a pattern search in the box."""
    best, at, step = _norms(jacobian, starts), starts.copy(), (b - a) / 4
    moves = np.concatenate([np.eye(a.size), -np.eye(a.size)])
    while (step > 1e-12 * (b - a)).any():
        near = np.clip(at[:, None, :] + moves * step, a, b)
        found = _norms(jacobian, near.reshape(-1, a.size)).reshape(near.shape[:2])
        k = found.argmax(axis=1)
        row = np.arange(at.shape[0])
        better = found[row, k] > best
        at[better], best[better] = near[row, k][better], found[row, k][better]
        step = step if better.any() else step / 2
    return float(best.max())
