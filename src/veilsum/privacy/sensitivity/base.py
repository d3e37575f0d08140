"""Bounds on how far a statistic can move, with their origin and their status.

    |xi(s) - xi(s')| <= at(s)    for all adjacent s, s', that is |s - s'| <= radius

A constant (`global`, `estimated`) can be published. A sensitivity that is computed from the signal
(`smooth`) is as private as the signal: it is never sent, logged or written to a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum._types import Family
from veilsum.errors import PrivacyError, SignalError
from veilsum.families import Support
from veilsum.families.support import number
from veilsum.privacy.guarantee import Status

Array = NDArray[np.float64]
Rule = Callable[[Array], Array]


class SensitivityOrigin(StrEnum):
    """Where a sensitivity comes from.

    Examples
    --------
    >>> SensitivityOrigin("smooth") is SensitivityOrigin.SMOOTH
    True
    """

    GLOBAL = "global"
    SMOOTH = "smooth"
    SMOOTH_AS_PUBLISHED = "smooth-as-published"
    ESTIMATED = "estimated"
    NETWORK = "network"
    GRADIENT = "gradient"


@dataclass(frozen=True, eq=False)
class SensitivityBound:
    """The sensitivity of a statistic, for signals that move by at most `radius`.

    Parameters
    ----------
    kind : SensitivityOrigin
        Where the number comes from.
    status : Status
        Whether it is proved.
    reason : str
        Why.
    largest : float or ndarray
        The maximum over the domain: one number, or one per agent.
    radius : float
        By how much the signal may move, in its own units.
    rule : callable, optional
        s -> S(s) where the sensitivity is computed from the signal; None for a constant.
    smoothing : float
        gamma: S(s) <= e^gamma S(s') for adjacent s, s'; 0 for a constant.
    domain : Support, optional
        Where signals must lie for the bound to hold; None for anywhere.
    spread : tuple of float, optional
        (low, high), where `largest` is an estimate.
    statistic : callable, optional
        The function that is bounded.
    least : float
        The minimum over the domain, or less, for the grid of an exact release; 0 where none is derived.

    Raises
    ------
    PrivacyError
        If a number cannot be a sensitivity, or an estimate has no spread.

    Examples
    --------
    >>> from veilsum.families import Normal
    >>> bound = from_family(Normal(sigma=1.0), radius=0.5)
    >>> bound.largest, bound.at([3.0, 4.0]).tolist(), bound.reads_signals
    (0.5, [0.5, 0.5], False)
    """

    kind: SensitivityOrigin
    status: Status
    reason: str
    largest: float | Array
    radius: float
    rule: Rule | None = None
    smoothing: float = 0.0
    domain: Support | None = None
    spread: tuple[float, float] | None = None
    statistic: Callable[[Array], ArrayLike] | None = None
    least: float = 0.0

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.one_of(PrivacyError, list(SensitivityOrigin), kind=self.kind)
        object.__setattr__(self, "kind", SensitivityOrigin(self.kind))
        object.__setattr__(self, "status", Status(self.status))
        if not self.radius > 0:
            raise PrivacyError(f"radius must be a number above 0; found {self.radius}")
        if not np.all(np.asarray(self.largest) >= 0):
            raise PrivacyError(f"a sensitivity must be at least 0; found {self.largest}")
        if not (np.isfinite(self.smoothing) and self.smoothing >= 0):
            raise PrivacyError(f"smoothing must be at least 0; found {self.smoothing}")
        estimated = self.kind is SensitivityOrigin.ESTIMATED and self.status is Status.ESTIMATED
        if estimated and self.spread is None:
            raise PrivacyError("an estimated sensitivity must come with its spread")

    @property
    def reads_signals(self) -> bool:
        """Whether `at` depends on the signal, and so is private itself."""
        return self.rule is not None

    @property
    def finite(self) -> bool:
        """Whether some finite noise is enough for every signal of the domain."""
        return bool(np.all(np.isfinite(self.largest)))

    def at(self, signals: ArrayLike) -> Array:
        """S(s) for every signal; agents along the first axis where there is one number each."""
        s = np.asarray(signals, dtype=np.float64)
        self._check(s)
        if self.rule is not None:
            return np.asarray(self.rule(s), dtype=np.float64)
        return np.broadcast_to(per_agent(self.largest, s), s.shape).copy()

    def __str__(self) -> str:
        """Describe the bound in a line: the number, its kind, its status and the reason."""
        worst = number(float(np.max(self.largest)))
        size = f"at most {worst}" if self.rule or np.ndim(self.largest) else worst
        ends = [number(end) for end in self.spread or ()]
        about = f", between {' and '.join(ends)}," if ends else ""
        return (
            f"sensitivity {size}{about} for moves of up to "
            f"{number(self.radius)} ({self.kind}, {self.status}): {self.reason}"
        )

    def _check(self, s: Array) -> None:
        if self.domain is None:
            return
        outside = self.domain.violations(s)
        if outside.any():
            first = tuple(int(k) for k in np.argwhere(outside)[0])
            raise SignalError(
                f"{int(outside.sum())} of {outside.size} signals lie outside the domain of the "
                f"sensitivity ({self.domain.describe()}), the first at index {first}; clip them "
                "first"
            )


def per_agent(value: float | Array, s: Array) -> Array:
    """The value with axes appended until it broadcasts against (agents, ...)."""
    v = np.asarray(value, dtype=np.float64)
    if v.ndim and (s.ndim == 0 or s.shape[0] != v.shape[0]):
        raise PrivacyError(
            f"the sensitivity has one number for each of {v.shape[0]} agents; "
            f"found signals of shape {s.shape}: put the agents along the first axis"
        )
    return v.reshape(v.shape + (1,) * (s.ndim - v.ndim))


def from_family(family: Family, radius: float = 1.0) -> SensitivityBound:
    """Delta = sup ||xi(s) - xi(s')||_1 over the support: the family's exact modulus.

    It is a bound for every s at once, so Lap(Delta/eps) on each coordinate hides any move: the
    log density changes by at most sum_k |xi_k(s) - xi_k(s')| eps/Delta <= eps. Where it is stated
    by the author of a custom family (`families.Custom`) it is claimed.

    Parameters
    ----------
    family : Family
        The family of the signals.
    radius : float
        By how much a signal may move, in its own units.

    Returns
    -------
    SensitivityBound
        A constant.

    Examples
    --------
    >>> from veilsum.families import Normal
    >>> from_family(Normal(sigma=1.0), radius=2.0).largest
    2.0
    """
    found = family.sensitivity(radius)
    return SensitivityBound(
        kind=SensitivityOrigin.GLOBAL,
        status=Status.PROVED if family.sensitivity_is_proved else Status.CLAIMED,
        reason=found.reason,
        largest=found.value,
        radius=radius,
        domain=family.support,
    )


@dataclass(frozen=True)
class _Larger:
    weights: Array
    signal: SensitivityBound

    def __call__(self, s: Array) -> Array:
        return np.maximum(per_agent(self.weights, s), self.signal.at(s))


def network(largest_neighbour_weight: ArrayLike, signal: SensitivityBound) -> SensitivityBound:
    """Delta_i = max(max_{j != i} a_ij, Delta):  what one message of agent i can move by.

    Agent i releases sum_j a_ij nu_j + xi_i + d_i. A neighbour's estimate that moves by 1 moves
    it by a_ij, a signal that moves by `radius` by at most Delta (or S(s_i)): noise for the larger
    hides either, one at a time. The larger of a constant and a gamma-smooth S is gamma-smooth, so
    smooth sensitivities may be used as well. The status is that of the signal's sensitivity; what
    it protects (one message, k messages) is stated by the algorithm's guarantee (erratum 5).

    Parameters
    ----------
    largest_neighbour_weight : array_like
        max_{j != i} a_ij of every agent.
    signal : SensitivityBound
        Of the statistic.

    Returns
    -------
    SensitivityBound
        One number per agent.

    Raises
    ------
    PrivacyError
        If a weight is negative or not finite.

    Examples
    --------
    >>> from veilsum.families import Normal
    >>> signal = from_family(Normal(sigma=1.0), radius=0.25)
    >>> network([0.5, 0.125], signal).largest.tolist()
    [0.5, 0.25]
    """
    weights = np.atleast_1d(np.asarray(largest_neighbour_weight, dtype=np.float64))
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise PrivacyError("neighbour weights must be finite and at least 0")
    return SensitivityBound(
        kind=SensitivityOrigin.NETWORK,
        status=signal.status,
        reason=f"the larger of the neighbours' weight and the signal's move: {signal.reason}",
        largest=np.maximum(weights, signal.largest),
        radius=signal.radius,
        rule=_Larger(weights, signal) if signal.reads_signals else None,
        smoothing=signal.smoothing,
        domain=signal.domain,
        spread=signal.spread,
    )


def check_radius(radius: float, domain: Support) -> None:
    """Raise unless the radius is finite and above 0, and at least 1 where signals are integers."""
    _validate.positive(PrivacyError, radius=radius)
    if domain.integer and radius < 1:
        raise PrivacyError(
            f"radius must be at least 1 for whole numbers; found {number(radius)}: "
            "no two signals are adjacent, so the guarantee would be empty"
        )
