"""What a sensitivity is: how far a statistic can move, how we know, and how sure we are.

    |xi(s) - xi(s')| <= at(s)    for all adjacent s, s', that is |s - s'| <= radius

A constant (`global`, `estimated`) can be published. A sensitivity that is read off the signal
(`smooth`) is as private as the signal: it never leaves the agent, a log or a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError, SignalError
from murmura.families import Family, Support
from murmura.families.support import number
from murmura.privacy.guarantee import Status

Array = NDArray[np.float64]
Rule = Callable[[Array], Array]

Kind = Literal["global", "smooth", "smooth-printed", "estimated", "network", "gradient"]

PROVED, CLAIMED, ESTIMATED = Status.PROVED, Status.CLAIMED, Status.ESTIMATED
REFUTED = Status.REFUTED


@dataclass(frozen=True, eq=False)
class SensitivityBound:
    """The sensitivity of a statistic, for signals that move by at most `radius`.

    kind, status, reason   where the number comes from, its standing, and why
    largest     the worst over the domain: one number, or one per agent (`network`)
    radius      what the signal may move by, in its own units
    rule        s -> S(s) where the sensitivity is read off the signal, None for a constant
    smoothing   gamma: S(s) <= e^gamma S(s') for adjacent s, s'; 0 for a constant
    domain      where signals must lie for the promise to hold, None for anywhere
    spread      (low, high), where `largest` is an estimate
    statistic   the very function that is bounded, where there is one to name
    """

    kind: Kind
    status: Status
    reason: str
    largest: float | Array
    radius: float
    rule: Rule | None = None
    smoothing: float = 0.0
    domain: Support | None = None
    spread: tuple[float, float] | None = None
    statistic: Callable[[Array], ArrayLike] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be a sensitivity."""
        if not self.radius > 0:
            raise PrivacyError(f"radius must be a number above 0; found {self.radius}")
        if not np.all(np.asarray(self.largest) >= 0):
            raise PrivacyError(f"a sensitivity must be at least 0; found {self.largest}")
        if not (np.isfinite(self.smoothing) and self.smoothing >= 0):
            raise PrivacyError(f"smoothing must be at least 0; found {self.smoothing}")
        if self.status == ESTIMATED and self.kind == "estimated" and self.spread is None:
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
        """Say it in a line: the number, its standing, where it comes from."""
        worst = number(float(np.max(self.largest)))
        size = f"at most {worst}" if self.rule or np.ndim(self.largest) else worst
        ends = [number(end) for end in self.spread or ()]
        about = f", between {' and '.join(ends)}," if ends else ""
        return (
            f"sensitivity {size}{about} for moves of up to "
            f"{number(self.radius)} ({self.kind}, {self.status}): {self.reason}"
        )

    def _check(self, s: Array) -> None:
        outside = np.zeros(s.shape, bool) if self.domain is None else self.domain.violations(s)
        if outside.any():
            first = tuple(int(k) for k in np.argwhere(outside)[0])
            raise SignalError(
                f"{int(outside.sum())} of {outside.size} signals lie outside the domain of the "
                f"sensitivity ({self._where()}), the first at index {first}; clip them first"
            )

    def _where(self) -> str:
        return "" if self.domain is None else self.domain.describe()


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
    log density changes by at most sum_k |xi_k(s) - xi_k(s')| eps/Delta <= eps. Where the family's
    author vouches for it (`families.Custom`) it is claimed.
    """
    found = family.sensitivity(radius)
    return SensitivityBound(
        kind="global",
        status=PROVED if family.sensitivity_is_proved else CLAIMED,
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
    smooth sensitivities may be used as well. The standing is that of the signal's sensitivity;
    what a law makes of it (one message, k messages) is for the guarantee to say (erratum 5).
    """
    weights = np.atleast_1d(np.asarray(largest_neighbour_weight, dtype=np.float64))
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise PrivacyError("neighbour weights must be finite and at least 0")
    return SensitivityBound(
        kind="network",
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
    """A finite radius above 0, and at least 1 where signals are whole numbers."""
    _validate.positive(PrivacyError, radius=radius)
    if domain.integer and radius < 1:
        raise PrivacyError(
            f"radius must be at least 1 for whole numbers; found {number(radius)}: "
            "no two signals are adjacent: the promise would be empty"
        )
