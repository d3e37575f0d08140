"""What a run errs by in expectation, without sampling: most verdicts are judged by this.

Statistics of the drawn places are normal, log s ~ N(mu, sigma^2), or max(log s, log floor) where a
run has a public floor. Noise enters through its variance alone, so a scale that follows the signal
counts by its second moment, here in closed form: with the printed sensitivity b = max(a, c/s),

    E b^2 = a^2 P(X < log a) + E[e^{2X}; log a < X < cap] + e^{2 cap} P(X > cap),

X = log c - log s ~ N(log c - mu, sigma^2), a what Network DP asks, cap = log(c/floor).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura import laws, theory
from murmura.engine import Drawn, Problem
from murmura.families import Normal
from murmura.paper.settings import PLACES, PRINTED, Run, family, law, network, want
from murmura.privacy import NoPrivacy, SignalDP, calibrate
from murmura.theory import Expected

Floats = NDArray[np.float64]
MOST_AGENTS = 2000  # with scales that differ between agents all eigenvectors are needed


def moments(run: Run) -> tuple[float, float]:
    """Mean and standard deviation of the statistic."""
    place = PLACES[run.place]
    assert place.mu is not None
    if not run.bounded:
        return place.mu, place.sigma
    assert place.floor is not None
    return clipped(place.mu, place.sigma, math.log(place.floor))


def clipped(mu: float, sigma: float, low: float) -> tuple[float, float]:
    """Mean and standard deviation of max(X, low), X ~ N(mu, sigma^2)."""
    from scipy.stats import norm

    z = (mu - low) / sigma
    above, at = float(norm.cdf(z)), float(norm.pdf(z))
    first = (mu - low) * above + sigma * at  # E (X - low)+
    second = ((mu - low) ** 2 + sigma**2) * above + (mu - low) * sigma * at
    return low + first, math.sqrt(second - first**2)


def squared_scale(a: Any, c: Any, mu: float, sigma: float, floor: float = 0.0) -> Floats:
    """E max(a, c/max(s, floor))^2 for log s ~ N(mu, sigma^2); a and c may be arrays."""
    from scipy.stats import norm

    a, c = np.broadcast_arrays(np.asarray(a, float), np.asarray(c, float))
    m = np.log(c) - mu
    with np.errstate(divide="ignore"):
        low = np.log(a)
    cap = np.log(c / floor) if floor else np.full_like(m, math.inf)
    cap = np.maximum(cap, low)
    shifted = m + 2 * sigma**2
    between = norm.cdf((cap - shifted) / sigma) - norm.cdf((low - shifted) / sigma)
    found = a**2 * norm.cdf((low - m) / sigma) + np.exp(2 * m + 2 * sigma**2) * between
    top = np.exp(2 * np.where(np.isfinite(cap), cap, 0.0))
    return np.asarray(found + np.where(np.isfinite(cap), top * norm.sf((cap - m) / sigma), 0.0))


def scales(run: Run) -> Floats:
    """(agents, epsilons): the root mean square of every agent's scale in a round with noise."""
    where, made_law = network(run.place), _law(run)
    made = calibrate(want(run), made_law, family(run), where, run.rounds)
    assert made is not None
    epsilons, place = np.array(run.epsilons), PLACES[run.place]
    if run.sensitivity != PRINTED:
        ones = np.ones((where.size, 1))
        return np.concatenate([made.scale(ones, e, 1) for e in run.epsilons], axis=1)
    assert place.mu is not None
    a = made.network[:, None] * made.per_network(epsilons, 1)
    c = made.want.radius * made.per_signal(epsilons, 1)[None]
    floor = place.floor if run.bounded and place.floor else 0.0
    return np.sqrt(squared_scale(a, c, place.mu, place.sigma, floor))


def expected(run: Run, quick: bool = False) -> Expected | None:
    """Expected errors of a run in every round, or None where only sampling is affordable."""
    return _expected(replace(run.sketch(quick), name="", replicas=1))


@lru_cache(maxsize=64)
def _expected(run: Run) -> Expected | None:
    where = network(run.place)
    mean, deviation = moments(run)
    normal = Normal(sigma=deviation)
    todo = Problem(
        where, _law(run), normal, Drawn(normal, {"mu": mean}, where.size, 0),
        NoPrivacy() if run.protects == "nothing" else SignalDP(run.epsilons[0]),
        run.rounds, () if run.protects == "nothing" else run.epsilons,
    )  # fmt: skip
    if run.protects == "nothing":
        return theory.expected(todo)
    each = scales(run)
    if where.size > MOST_AGENTS and not (each == each[0]).all():
        return None
    return theory.expected(todo, scales=each)


def truth(found: Expected) -> tuple[Floats, Floats]:
    """Errors against E xi, without noise and with it: (rounds + 1,), (rounds + 1, epsilons).

    Offline, a run measures against the mean of the signals that there are; E xi is what both
    kinds of algorithm are after, and the signals' own sampling error counts.
    """
    with_noise = found.sampling[:, None] ** 2 + found.shared_noise**2 + found.disagreement**2
    clean = with_noise[:, 0] - found.privacy[:, 0] ** 2
    return np.sqrt(np.maximum(clean, 0.0)), np.sqrt(with_noise)


def largest(run: Run) -> float:
    """E M_n = E max_i |xi_i|: the integral of 1 - P(|xi| <= x)^n."""
    from scipy.integrate import quad
    from scipy.stats import norm

    n, (mean, deviation) = network(run.place).size, moments(run)

    def tail(x: float) -> float:
        inside = norm.cdf((x - mean) / deviation) - norm.cdf((-x - mean) / deviation)
        return float(1 - inside**n)

    high = abs(mean) + 12 * deviation
    return float(quad(tail, 0.0, high, points=[abs(mean) + k * deviation for k in (2, 4, 6)])[0])


def _law(run: Run) -> Any:
    return laws.get(law(run), network(run.place))
