"""What a privacy budget buys: the interval of an estimate against what is public anyway.

Public bounds alone say that a mean lies in [low, high]. An estimate whose interval covers most of
that says little more, and its epsilon was spent for nothing. With V the variance of the noise in an
agent's estimate, M what mixing leaves and z the normal quantile,

    half width = z sqrt(V) + M,    M = (high - low)/2 max_i sum_j |c_ij - 1/n|,

where c_ij is the weight of agent j's signals in the estimate of i, the agents, readings or epsilon
for a given width follow: V is about 1/(agents readings), and for Laplace noise 1/eps^2. No signal is
read: M is for agents whose signals stay at the ends of the bounds. Where independent signals of a
standard deviation s are assumed, M is at most z s max_i sqrt(sum_j (c_ij - 1/n)^2).

For local noise the normal quantile is an approximation: the noise of few releases has heavier tails. What
agents state with their results, `agents.results.half_width`, is computed from its exact distribution. So
is z for sums over a roster, here too: the noise of all of them together is known (`privacy.laws`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._numbers import rounded_up
from veilsum.algorithms import init, step
from veilsum.errors import NetworkError
from veilsum.families.base import quantile
from veilsum.networks.kernels import for_products
from veilsum.networks.rows import first_rows
from veilsum.simulation import Problem
from veilsum.theory import moments
from veilsum.theory.exact import expected
from veilsum.theory.spectrum import PROMPT_UP_TO

CONFIDENCE = 0.95
MOST = 0.25  # of the range: a half width above covers most of it
ENOUGH = 0.1  # of the range: the half width that a remedy aims at
EPSILONS = 65  # that are tried where noise is not proportional to 1/eps
MOST_AGENTS = 16  # whose estimates are looked at where none is named
LARGEST_EPSILON, MOST_READINGS = 100.0, 5000  # where a search ends

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Precision:
    """The interval of one agent's estimate, and what would make it narrow.

    Attributes
    ----------
    half_width
        Of the 95% interval for the mean of all signals, in units of the statistic; approximately.
    low, high
        What public bounds say of that mean.
    agents, readings, epsilon
        How many agents, how many readings of each, or which epsilon give a half width of a tenth
        of the range, the others unchanged; None where none does.
    mixing
        M, the part of the half width that mixing leaves, whatever the budget.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Normal(sigma=10.0, bounds=(0.0, 100.0))
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 50.0}, 3, seed=1)
    >>> problem = vs.simulation.Problem(
    ...     vs.networks.lazy_metropolis("path:3"), vs.algorithms.Average(), family, source,
    ...     vs.privacy.SignalDP(epsilon=1.0, radius=float("inf")), rounds=60,
    ... )
    >>> found = precision(problem)
    >>> round(found.half_width), found.useful
    (160, False)
    >>> print(found.warning())
    the 95% interval of an estimate, about +- 160, covers all of [0, 100], which is public: this budget \
buys nothing; for +- 10 you need about n = 770 agents or epsilon = 16.01
    """

    half_width: float
    low: float
    high: float
    agents: int | None
    readings: int | None
    epsilon: float | None
    mixing: float = 0.0

    @property
    def useful(self) -> bool:
        """Whether the interval leaves out at least half of what bounds allow."""
        return self.half_width <= MOST * (self.high - self.low)

    def warning(self) -> str:
        """What is wrong and what to do; empty if the estimate is useful."""
        if self.useful:
            return ""
        whole = self.high - self.low
        much = "all" if self.half_width >= whole / 2 else "most"
        ways = [
            *([f"n = {self.agents:,} agents"] if self.agents else []),
            *([f"{self.readings:,} readings of each agent"] if self.readings else []),
            *([f"epsilon = {self.epsilon:g}"] if self.epsilon else []),
        ]
        remedy = (
            f"you need about {' or '.join(ways)}" if ways else "add rounds, or narrow the bounds"
        )
        enough, causes = ENOUGH * whole, []
        if self.half_width - self.mixing > enough:
            causes.append("this budget buys nothing")
        if self.mixing >= enough:
            causes.append(
                f"after so few rounds agents may differ by +- {self.mixing:.3g} at any budget"
            )
        return (
            f"the 95% interval of an estimate, about +- {self.half_width:.3g}, covers {much} of "
            f"[{self.low:g}, {self.high:g}], which is public: {' and '.join(causes)}; for "
            f"+- {enough:.3g} {remedy}"
        )


def precision(problem: Problem, deviation: float | None = None) -> Precision | None:
    """The interval of an agent's estimate after all rounds, from public terms alone.

    Parameters
    ----------
    problem
        What would be run, at the first of its epsilons.
    deviation
        Assumed standard deviation of the statistic; without it, signals may be anywhere in the bounds.

    Returns
    -------
    Precision or None
        None without noise, and where no bounds limit the mean: there is nothing to compare with.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Bernoulli()
    >>> source = vs.simulation.SyntheticSignals(family, {"p": 0.5}, 100, seed=1)
    >>> problem = vs.simulation.Problem(
    ...     vs.networks.metropolis("complete:100"), vs.algorithms.Average(), family, source,
    ...     vs.privacy.SignalDP(epsilon=1.0), rounds=10,
    ... )
    >>> round(precision(problem).half_width, 3)
    0.277
    """
    low, high = narrowest_range(problem.family)
    if not problem.privacy.adds_noise or not math.isfinite(high - low):
        return None
    found = EstimateError.of(problem, problem.run_epsilons[:1], (high - low) / 2, assumed=deviation)
    wanted = ENOUGH * (high - low)
    return Precision(
        half_width=float(found.half_width[-1]),
        low=low,
        high=high,
        agents=_agents(problem, found, wanted),
        readings=_readings(problem, found, wanted) if problem.algorithm.online else None,
        epsilon=_epsilon(problem, found, wanted),
        mixing=float(found.mixing[-1]),
    )


def narrowest_range(family: Any) -> tuple[float, float]:
    """The ends of the narrowest component of the statistic; infinite where nothing bounds it.

    Parameters
    ----------
    family
        With public bounds, or a support that is bounded by itself.

    Returns
    -------
    (float, float)
        What the mean of any signals lies between.
    """
    low, high = family.moves(math.inf).range
    narrowest = int(np.argmin(high - low))
    return float(low[narrowest]), float(high[narrowest])


@dataclass(frozen=True, eq=False)
class EstimateError:
    """The error of one component of one agent's estimate, by round and epsilon."""

    noise: Floats  # (rounds + 1, epsilons): V
    shared: Floats  # the part of V that is in the mean of all agents
    mixing: Floats  # (rounds + 1,): M
    deviation: float
    z: float  # of the noise at the first epsilon in the last round, in standard deviations
    assumed: float | None = None  # standard deviation of the statistic

    @classmethod
    def of(
        cls,
        problem: Problem,
        epsilons: tuple[float, ...],
        deviation: float,
        rounds: int = 0,
        assumed: float | None = None,
    ) -> EstimateError:
        """The expected error of a problem, or of another number of its rounds."""
        made = replace(problem, epsilons=epsilons, rounds=rounds or problem.rounds, horizon=None)
        try:
            found = expected(made, deviation=deviation, exact_up_to=PROMPT_UP_TO)
        except NetworkError:  # weights without a symmetric spectrum: noise in the mean of all
            shared = _shared(made)
            return cls(shared, shared, np.zeros(len(shared)), deviation, quantile(CONFIDENCE))
        each = problem.network.size * problem.family.dimension
        noise, shared = found.privacy**2 / each, found.shared_noise**2 / each
        uneven, spread = _unevenness(made)
        mixing = deviation * uneven
        if assumed is not None:
            mixing = np.minimum(mixing, quantile(CONFIDENCE) * assumed * spread)
        return cls(noise, shared, mixing, deviation, _quantile(made, noise), assumed)

    @property
    def half_width(self) -> Floats:
        """(rounds + 1,): at the first epsilon."""
        return np.asarray(self.z * np.sqrt(self.noise[:, 0]) + self.mixing)

    def room(self, wanted: float) -> float:
        """The variance of the noise that a half width allows in the last round."""
        left = max(wanted - float(self.mixing[-1]), 0.0)
        return (left / self.z) ** 2


def _quantile(problem: Problem, noise: Floats) -> float:
    """z: of a sum over a roster from its exact distribution, otherwise the normal one."""
    width = problem.plan.half_width(problem.run_epsilons[0], problem.rounds, CONFIDENCE)
    return float(quantile(CONFIDENCE)) if width is None else width / math.sqrt(noise[-1, 0])


def _unevenness(problem: Problem) -> tuple[Floats, Floats]:
    """(rounds + 1,): the largest sum_j |c_ij - 1/n| and sqrt(sum_j (c_ij - 1/n)^2) over some agents i.

    c_ij is the weight of agent j in the estimate of i if its signals stay the same, which on
    symmetric weights is the response of j to a signal of i alone.
    """
    n, algorithm = problem.network.size, problem.algorithm
    matrix = for_products(first_rows(problem.network))
    if algorithm.session is not None:  # the roster's mean, once there is one
        gain = np.concatenate(list(moments.response(algorithm, np.ones(1), problem.rounds)))
        mass = algorithm.session.mass
        apart = gain[:, None] * mass - 1 / n
        return np.abs(apart).sum(axis=1), np.sqrt((apart**2).sum(axis=1))
    chosen = np.arange(0, n, max(n // MOST_AGENTS, 1))
    one = np.zeros((n, len(chosen)))
    one[chosen, np.arange(len(chosen))] = 1.0
    state, divisor = init(algorithm, one, 0 * one), moments.divisor(algorithm, problem.rounds)
    worst = [_largest(state.nu / divisor[0] - 1 / n)]
    for t in range(1, problem.rounds + 1):
        entering = one * algorithm.readings(t)
        state = step(algorithm, t, state, matrix @ state.nu, entering, 0 * one)
        worst.append(_largest(state.nu / divisor[t] - 1 / n))
    sums, roots = np.array(worst).T
    return sums, roots


def _largest(apart: Floats) -> tuple[float, float]:
    """The largest sum of absolute values of a column, and root of the sum of squares."""
    return float(np.abs(apart).sum(axis=0).max()), float(np.sqrt((apart**2).sum(axis=0)).max())


def _shared(problem: Problem) -> Floats:
    noise, one = moments.noise_variance(problem), np.ones(1)

    def mean(t: int) -> Floats:
        return np.asarray(noise.at(t).mean(axis=0, keepdims=True))

    found = moments.weighted_variance(problem.algorithm, one, one, problem.rounds, mean)
    return found / problem.network.size


def _agents(problem: Problem, now: EstimateError, wanted: float) -> int | None:
    """More agents divide the noise in their mean, and nothing else.

    Its variance falls with n, and in a sum over a roster, where all of them make up one noise, with n^2.
    """
    shared = now.shared[-1, 0]
    room = now.room(wanted) - (now.noise[-1, 0] - shared)
    if room <= 0:
        return None
    factor = shared / room
    return _about(problem.network.size * (factor**0.5 if problem.privacy.summed else factor))


def _readings(problem: Problem, now: EstimateError, wanted: float) -> int | None:
    """The first round in which the interval is as narrow as wanted."""
    guess = 2 * problem.rounds * (now.half_width[-1] / wanted) ** 2
    rounds = math.ceil(min(max(guess, problem.rounds), MOST_READINGS))
    later = EstimateError.of(problem, problem.run_epsilons[:1], now.deviation, rounds, now.assumed)
    enough = np.flatnonzero(later.half_width[1:] <= wanted)
    return _about(float(enough[0] + 1)) if enough.size else None


def _epsilon(problem: Problem, now: EstimateError, wanted: float) -> float | None:
    """The least epsilon with which the interval is as narrow as wanted."""
    own, noise, room = problem.run_epsilons[0], now.noise[-1, 0], now.room(wanted)
    if room <= 0:
        return None
    if noise <= room:
        return own
    if not (problem.privacy.reads_signals or problem.privacy.perturbs_input):
        return rounded_up(own * math.sqrt(noise / room))
    if own >= LARGEST_EPSILON:
        return None
    tried = tuple(np.geomspace(own, LARGEST_EPSILON, EPSILONS).tolist())
    found = EstimateError.of(problem, tried, now.deviation).noise[-1]
    return next((rounded_up(e) for e, v in zip(tried, found, strict=True) if v <= room), None)


def _about(value: float) -> int:
    """Two significant digits, never less than the value."""
    unit = 10 ** max(math.floor(math.log10(max(value, 1.0))) - 1, 0)
    return int(math.ceil(value / unit - 1e-9) * unit)
