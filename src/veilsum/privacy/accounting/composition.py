"""Composition: what several releases about the same data cost together.

    basic      sum eps_l, sum delta_l
    optimal    the most that any mechanisms of these costs can reveal, in closed form
    advanced   a bound for unequal epsilons, in closed form
    renyi      what these mechanisms reveal, from their Renyi divergences
    tight      what these mechanisms reveal, from privacy loss distributions (extra `accounting`)

All of them are upper bounds, so for a given delta the least epsilon holds: `compose` returns it,
and the method that found it.

`spent` is the one price of releases: simulation, accountant, guarantee, ledger and reports ask it.

Closed forms
    Whatever the mechanism, an (eps, delta)-DP release is a post-processing of randomised response
    that, with probability delta, reveals the secret (Kairouz, Oh and Viswanath 2017). So k of them
    are at worst k coins, and their loss is (k - 2l) eps with probability

        P_l = C(k, l) e^{(k-l) eps} / (1 + e^eps)^k        under one input,
        Q_l = C(k, l) e^{l eps}     / (1 + e^eps)^k        under the other.

    The best test at level eps' is a half-line of losses, l < i, so that

        delta(eps') = max_i U_i - e^{eps'} L_i,     U_i = sum_{l<i} P_l,   L_i = sum_{l<i} Q_l,

    and solving for eps' at a given delta,

        eps'(delta) = max_i log((U_i - delta) / L_i),   at least 0.

    This is the optimal homogeneous composition theorem at every delta, not only at its corners
    (eps' = (k - 2i) eps). The deltas of the releases compose separately: 1 - prod(1 - delta_l).

Renyi divergences
    Those of independent releases add up at every order alpha (`EventKind.renyi`), and give

        eps' = sum eps(alpha) + log(1 - 1/alpha) - (log delta + log alpha)/(alpha - 1),

    the least over whole orders (Canonne, Kamath and Steinke 2020, proposition 12). Deltas that are not
    in a divergence compose separately, as above. Where several releases are one of the same kind (Gaussian
    noise: 1/z^2 adds up), they are composed as that one (`EventKind.together`).

Privacy loss distributions
    The loss log(dP/dQ) of independent releases adds up, so its distribution is a convolution, and
    delta(eps') = E_P[(1 - e^{eps' - loss})_+]. dp_accounting rounds losses pessimistically onto a
    grid: what it returns is an upper bound.

    The exact sampler's discrete Laplace has a sensitivity of some 2^40 steps, too many to tabulate.
    A coarser grid is an upper bound. With q = e^{-a} on the fine grid and Q = q^c on every c-th
    point,

        DL(q) = DL(Q) + U - U',    U, U' independent on 0..c-1 with P(u) ~ q^u,

    because the characteristic functions (1-q)^2/|1 - q e^{it}|^2 and (1-Q)^2/|1 - Q e^{ict}|^2
    differ by the factor |sum_u q^u e^{iut}|^2 up to its value at 0. So the fine mechanism is a
    post-processing of the coarse one, and rounding the sensitivity up to whole coarse steps only
    adds to the loss (the noise is log-concave: the best test is a half-line, and a larger shift is
    easier to distinguish).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum._extras import install_command
from veilsum.errors import MissingExtraError, PrivacyError
from veilsum.privacy.accounting.events import (
    LARGEST_EXPONENT,
    PrivacyEvent,
    Release,
    ReleaseEvent,
)

Floats = NDArray[np.float64]

BASIC, OPTIMAL, ADVANCED, RENYI, TIGHT = "basic", "optimal", "advanced", "renyi", "tight"
BEST = "best"
METHODS = (BEST, BASIC, OPTIMAL, ADVANCED, RENYI, TIGHT)
ORDERS = (*range(2, 64), *(2**i for i in range(6, 21)))  # of Renyi divergences

# Rounding errors must never guarantee too much. They stay below these: relative to delta, and in
# the logarithms of sums over k coins, per coin.
ROUNDING, LOG_ROUNDING = 1e-7, 1e-14

INTERVAL = 1e-4  # of the grid of losses; finer where epsilons are small
POINTS = 1_000_000  # and never more than this many of them


@dataclass(frozen=True)
class Composition:
    """(epsilon, delta) of `count` releases together, and the method that found it.

    Attributes
    ----------
    epsilon, delta : float
        What the releases cost together.
    method : str
        "basic", "optimal", "advanced", "renyi" or "tight".
    count : int
        How many releases were composed.

    Examples
    --------
    >>> Composition(0.3, 0.0, "basic", 3).to_dict()
    {'epsilon': 0.3, 'delta': 0.0, 'method': 'basic', 'count': 3}
    """

    epsilon: float
    delta: float
    method: str
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


def compose(
    events: Iterable[PrivacyEvent], delta: float | None = None, *, method: str = BEST
) -> Composition:
    """Compose events about the same data: what they cost together.

    Parameters
    ----------
    events : iterable of PrivacyEvent, or Counter of them
        The events, in any order.
    delta : float, optional
        Without it, the result is (sum eps, sum delta); with it, the least epsilon at that delta.
    method : str
        "best" tries every method (without dp_accounting, all but "tight"); or one of "basic",
        "optimal", "advanced", "renyi", "tight".

    Returns
    -------
    Composition
        The total, and the method that found it.

    Raises
    ------
    PrivacyError
        If the deltas of the events alone exceed `delta`, or a method other than "basic" has no
        delta.
    MissingExtraError
        If the method is "tight" and dp_accounting is not installed.

    Examples
    --------
    >>> compose([PrivacyEvent(0.1)] * 4).epsilon
    0.4
    >>> round(compose([PrivacyEvent(0.1)] * 400, delta=1e-6, method="optimal").epsilon, 2)
    10.92
    """
    _validate.one_of(PrivacyError, METHODS, method=method)
    counts = Counter(events)
    if delta is None:
        if method not in (BEST, BASIC):
            raise PrivacyError(f"method {method} needs a delta to compose at, such as 1e-6")
        return _basic(counts)
    _validate.probability(PrivacyError, delta=delta)
    has_pld = method in (BEST, TIGHT) and has_dp_accounting()
    return _compose_counts(frozenset(counts.items()), delta, method, has_pld)


def spent(
    releases: Iterable[Release | ReleaseEvent],
    readings: range | None = None,
    delta: float | None = None,
) -> Composition:
    """Return what releases cost for readings that move together: the one price of releases.

        compose(event.times(number of its readings that move), for every release that has one)

    Parameters
    ----------
    releases : iterable of Release or ReleaseEvent, or Counter of them
        Everything that was released about one agent's readings, in any order.
    readings : range, optional
        The rounds of the readings that move; without it, all.
    delta : float, optional
        Without it, the result is (sum eps, sum delta); with it, the least epsilon at that delta.

    Returns
    -------
    Composition
        The cost; its `count` is the number of releases that have a reading which moves.

    Raises
    ------
    PrivacyError
        As `compose`.

    Examples
    --------
    >>> batch, single = Release(PrivacyEvent(0.1), 1, 4), Release(PrivacyEvent(0.5), 5, 5)
    >>> spent([batch, single]).epsilon, spent([batch, single], range(4, 6)).epsilon
    (0.9, 0.6)
    >>> spent([batch, single], range(9, 12)).epsilon
    0.0
    """
    counts: Counter[PrivacyEvent] = Counter()
    for release, copies in Counter(releases).items():
        about = release.release if isinstance(release, ReleaseEvent) else release
        moved = about.moved(readings)
        if moved:
            counts[about.event.times(moved)] += copies
    return compose(counts, delta)


def repeated(event: PrivacyEvent, times: float) -> Composition:
    """Return what an event costs that happens so many times, added up.

    Examples
    --------
    >>> repeated(PrivacyEvent(0.25), 24).epsilon
    6.0
    """
    if math.isinf(times):
        return Composition(math.inf, float(event.delta > 0), BASIC, 0)
    total = compose(Counter({event: int(times)}))
    return replace(total, delta=min(total.delta, 1.0))


@lru_cache(maxsize=4096)
def _compose_counts(
    items: frozenset[tuple[PrivacyEvent, int]], delta: float, method: str, has_pld: bool
) -> Composition:
    counts = Counter(dict(items))
    if not counts:
        return Composition(0.0, delta, BASIC, 0)
    merged = _merged(counts, delta) if method == BEST and delta else counts
    known = has_pld and max(event.epsilon for event in merged) < LARGEST_EXPONENT
    candidates = _candidates(method, delta, known)
    found = {name: _BY_METHOD[name](merged, delta) for name in candidates}
    if merged != counts:
        found[RENYI] = min(found[RENYI], found[BASIC])
        found[BASIC] = _basic_at(counts, delta)
    name = min(found, key=lambda one: found[one])
    if math.isinf(found[name]):
        raise PrivacyError(
            f"{counts.total()} releases do not compose to delta = {delta:g} by method {method}: "
            f"their own deltas add up to {_basic(counts).delta:g}; allow a larger delta"
        )
    return Composition(found[name], delta, name, counts.total())


def _merged(counts: Counter[PrivacyEvent], delta: float) -> Counter[PrivacyEvent]:
    """Several events of a kind whose divergences add up as one, at the delta that others leave."""
    kinds = Counter(event.mechanism for event in counts.elements())
    for name in (name for name, count in kinds.items() if count > 1):
        same = Counter({event: n for event, n in counts.items() if event.mechanism == name})
        others = counts - same
        left = delta - math.fsum(event.delta * n for event, n in others.items())
        one = next(iter(same)).kind.together(same, left) if left > 0 else None
        if one is not None:
            counts = others + Counter({one: 1})
    return counts


def _candidates(method: str, delta: float, has_pld: bool) -> tuple[str, ...]:
    """At delta = 0 nothing beats the sum: randomised response attains it."""
    if method != BEST:
        return (method,)
    if delta == 0:
        return (BASIC,)
    closed = (BASIC, OPTIMAL, ADVANCED, RENYI)
    return (*closed, TIGHT) if has_pld else closed


def added(parts: Iterable[Composition]) -> Composition:
    """The sums of epsilons and deltas that were composed before: basic composition again."""
    found = list(parts)
    return Composition(
        math.fsum(one.epsilon for one in found),
        math.fsum(one.delta for one in found),
        BASIC,
        sum(one.count for one in found),
    )


def _basic(counts: Counter[PrivacyEvent]) -> Composition:
    epsilon, delta = (
        sum((Fraction(part) * n for part, n in parts), Fraction(0))
        for parts in (
            [(event.epsilon, n) for event, n in counts.items()],
            [(event.delta, n) for event, n in counts.items()],
        )
    )
    return Composition(float(epsilon), float(delta), BASIC, counts.total())


def _basic_at(counts: Counter[PrivacyEvent], delta: float) -> float:
    found = _basic(counts)
    return found.epsilon if found.delta <= delta else math.inf


def optimal(epsilons: Sequence[float], deltas: Sequence[float], delta: float) -> float:
    """eps'(delta) = max_i log((U_i - delta) / L_i): exact for equal epsilons, else at the largest.

    Infinite where the deltas of the releases alone exceed `delta`.
    """
    left = _left_over(deltas, delta)
    if left <= 0:
        return math.inf
    k, epsilon = len(epsilons), max(epsilons)
    log_upper, log_lower = _half_lines(k, epsilon)
    inside = log_upper > math.log(left)
    with np.errstate(divide="ignore"):  # U_i = delta to the last bit: never the largest
        above = log_upper[inside] + np.log1p(-left * np.exp(-log_upper[inside]))
    found = float(np.max(above - log_lower[inside])) + LOG_ROUNDING * (1 + k * (1 + epsilon))
    return max(0.0, found)


def advanced(epsilons: Sequence[float], deltas: Sequence[float], delta: float) -> float:
    """sum eps tanh(eps/2) + sqrt(2 ln(1/delta) sum eps^2) (Kairouz, Oh and Viswanath, Th. 3.5)."""
    left = _left_over(deltas, delta)
    if left <= 0:
        return math.inf
    eps = np.asarray(epsilons, dtype=np.float64)
    mean = float(np.sum(eps * np.tanh(eps / 2)))
    return mean + math.sqrt(2 * math.log(1 / left) * float(np.sum(eps**2)))


def _left_over(deltas: Sequence[float], delta: float) -> float:
    """The delta that is left for the coins: 1 - (1 - delta) / prod(1 - delta_l)."""
    log_kept = math.fsum(math.log1p(-d) for d in deltas)
    return -math.expm1(math.log1p(-delta) - log_kept) * (1 - ROUNDING)


def _half_lines(k: int, epsilon: float) -> tuple[Floats, Floats]:
    """log U_i and log L_i for i = 1..k+1, by cumulative sums in logarithms."""
    level = np.arange(1, k + 1, dtype=np.float64)
    choose = np.concatenate([[0.0], np.cumsum(np.log((k + 1 - level) / level))])
    lost = np.arange(k + 1) * epsilon
    log_total = k * np.logaddexp(0, epsilon)
    log_p = choose + k * epsilon - lost - log_total
    log_q = choose + lost - log_total
    upper = np.logaddexp.accumulate(log_p)
    return np.asarray(upper), np.asarray(np.logaddexp.accumulate(log_q))


def renyi(counts: Counter[PrivacyEvent], delta: float) -> float:
    """The least epsilon at `delta` by the sum of the Renyi divergences, over whole orders."""
    left = _left_over([event.kind.apart(event) for event in counts.elements()], delta)
    if left <= 0:
        return math.inf
    return epsilon_of(
        lambda a: math.fsum(n * event.kind.renyi(event, a) for event, n in counts.items()), left
    )


def epsilon_of(divergence: Callable[[int], float], delta: float) -> float:
    """The least epsilon at `delta` that a Renyi divergence at whole orders allows."""
    found = (
        divergence(a) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
        for a in ORDERS
    )
    return max(0.0, float(min(found)))


def tight(counts: Counter[PrivacyEvent], delta: float) -> float:
    """The least epsilon at `delta` of all the releases together, as an upper bound."""
    module = _dp_accounting()
    interval = _interval(counts)
    together: Any = None
    for event, count in sorted(counts.items(), key=lambda item: repr(item[0])):
        alone = event.kind.loss(module, event, interval)
        repeated = alone.self_compose(count) if count > 1 else alone
        together = repeated if together is None else together.compose(repeated)
    return float(together.get_epsilon_for_delta(delta))


def has_dp_accounting() -> bool:
    """Whether dp_accounting can be imported."""
    try:
        _dp_accounting()
    except MissingExtraError:
        return False
    return True


def _dp_accounting() -> Any:
    try:
        return import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise MissingExtraError(
            f"tight composition needs dp_accounting: {install_command('accounting')}; "
            "method='optimal' needs nothing"
        ) from error


def _interval(counts: Counter[PrivacyEvent]) -> float:
    total = math.fsum(event.epsilon * count for event, count in counts.items())
    least = min(event.epsilon for event in counts)
    return max(total / POINTS, min(INTERVAL, least / 100))


def _closed(form: Callable[[list[float], list[float], float], float]) -> _Method:
    def at(counts: Counter[PrivacyEvent], delta: float) -> float:
        if delta == 0:
            return _basic_at(counts, delta)
        events = list(counts.elements())
        return form([event.epsilon for event in events], [event.delta for event in events], delta)

    return at


_Method = Callable[[Counter[PrivacyEvent], float], float]
_BY_METHOD: dict[str, _Method] = {
    BASIC: _basic_at,
    OPTIMAL: _closed(optimal),
    ADVANCED: _closed(advanced),
    RENYI: renyi,
    TIGHT: tight,
}
