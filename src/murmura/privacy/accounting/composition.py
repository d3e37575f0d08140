"""Composition: what several releases about the same thing cost together.

    basic      sum eps_l, sum delta_l
    optimal    the worst that any mechanisms with these prices can do (closed_forms)
    advanced   a bound for mixed epsilons (closed_forms)
    tight      what these mechanisms do (distributions; extra `accounting`)

All of them hold, so for a wanted delta the least epsilon holds: `compose` reports it, and which
it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.accounting import closed_forms, distributions
from murmura.privacy.accounting.losses import Loss, Release

BASIC, OPTIMAL, ADVANCED, TIGHT, BEST = "basic", "optimal", "advanced", "tight", "best"
METHODS = (BEST, BASIC, OPTIMAL, ADVANCED, TIGHT)


@dataclass(frozen=True)
class Composition:
    """(epsilon, delta) of `count` releases together, and the method that found it."""

    epsilon: float
    delta: float
    method: str
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return asdict(self)


NOTHING = Composition(0.0, 0.0, BASIC, 0)


def compose(
    releases: Iterable[Loss | Release], delta: float | None = None, *, method: str = BEST
) -> Composition:
    """The price of all releases together.

    Without `delta`: (sum eps, sum delta). With it: the least epsilon at that delta among the
    methods (of which `tight` needs dp_accounting, and is left out where that is not installed),
    or the epsilon of the one method asked for.
    """
    _validate.one_of(PrivacyError, METHODS, method=method)
    counts = Counter(r.loss if isinstance(r, Release) else r for r in releases)
    if delta is None:
        if method not in (BEST, BASIC):
            raise PrivacyError(f"method {method} needs a delta to compose at, such as 1e-6")
        return _basic(counts)
    _validate.probability(PrivacyError, delta=delta)
    return compose_counts(counts, delta, method)


def compose_counts(counts: Counter[Loss], delta: float, method: str = BEST) -> Composition:
    """`compose` for losses that are already counted, remembered from call to call."""
    has_pld = method in (BEST, TIGHT) and distributions.available()
    return _remembered(frozenset(counts.items()), delta, method, has_pld)


@lru_cache(maxsize=4096)
def _remembered(
    items: frozenset[tuple[Loss, int]], delta: float, method: str, has_pld: bool
) -> Composition:
    counts = Counter(dict(items))
    if not counts:
        return Composition(0.0, delta, BASIC, 0)
    wanted = _wanted(method, delta, has_pld)
    found = {name: _BY_METHOD[name](counts, delta) for name in wanted}
    name = min(found, key=lambda one: found[one])
    if math.isinf(found[name]):
        raise PrivacyError(
            f"{counts.total()} releases do not compose to delta = {delta:g} by method {method}: "
            f"their own deltas add up to {_basic(counts).delta:g}; allow a larger delta"
        )
    return Composition(found[name], delta, name, counts.total())


def _wanted(method: str, delta: float, has_pld: bool) -> tuple[str, ...]:
    """At delta = 0 nothing beats the sum: randomised response attains it."""
    if method != BEST:
        return (method,)
    if delta == 0:
        return (BASIC,)
    return (BASIC, OPTIMAL, ADVANCED, TIGHT) if has_pld else (BASIC, OPTIMAL, ADVANCED)


def _basic(counts: Counter[Loss]) -> Composition:
    epsilon, delta = (
        sum((Fraction(part) * n for part, n in parts), Fraction(0))
        for parts in (
            [(loss.epsilon, n) for loss, n in counts.items()],
            [(loss.delta, n) for loss, n in counts.items()],
        )
    )
    return Composition(float(epsilon), float(delta), BASIC, counts.total())


def _basic_at(counts: Counter[Loss], delta: float) -> float:
    found = _basic(counts)
    return found.epsilon if found.delta <= delta else math.inf


def _closed(form: Callable[[list[float], list[float], float], float]) -> _Method:
    def at(counts: Counter[Loss], delta: float) -> float:
        if delta == 0:
            return _basic_at(counts, delta)
        losses = list(counts.elements())
        return form([loss.epsilon for loss in losses], [loss.delta for loss in losses], delta)

    return at


_Method = Callable[[Counter[Loss], float], float]
_BY_METHOD: dict[str, _Method] = {
    BASIC: _basic_at,
    OPTIMAL: _closed(closed_forms.optimal),
    ADVANCED: _closed(closed_forms.advanced),
    TIGHT: distributions.tight,
}
