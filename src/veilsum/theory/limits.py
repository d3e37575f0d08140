"""Limits that no algorithm can beat: polynomials in A, the diameter, a trusted curator.

    min { sum_{i >= 2} P(lambda_i)^2 : deg P <= t, P(1) = 1 }  =  1 / sum_{k <= t} p_k(1)^2

with p_k the polynomials orthonormal for the spectrum below 1: the Christoffel function at 1. Every
gossip algorithm of t rounds with one fixed A is such a polynomial. The p_k come from Lanczos on the spectrum
itself, fully reorthogonalised, and grow steadily at 1, outside it: no digits are lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.networks import hops
from veilsum.simulation import Problem
from veilsum.theory import spectrum
from veilsum.theory.exact import expected
from veilsum.theory.moments import StatisticMoments, laplace_variance, statistic_moments

BREAKDOWN = 1e-12

Floats = NDArray[np.float64]


def best_polynomial(
    network: Any,
    rounds: int,
    probes: int = spectrum.PROBES,
    exact_up_to: int = spectrum.EXACT_UP_TO,
) -> Floats:
    """min over polynomials P of degree t, P(1) = 1, of (sum_{i >= 2} P(lambda_i)^2)^(1/2).

    The least disagreement that t rounds on a network can leave between agents whose statistics
    have variance 1.

    Parameters
    ----------
    network
        Symmetric doubly stochastic weights.
    rounds
        The largest t.
    probes
        Random vectors that represent the spectrum of larger networks.
    exact_up_to
        Agents up to which every eigenvalue is computed: 6,000 take about a minute.

    Returns
    -------
    array of shape (rounds + 1,)
        l2 norms over agents for t = 0, 1, ..., rounds.

    Raises
    ------
    NetworkError
        For weights that change with the round or are not doubly stochastic.

    Examples
    --------
    >>> from veilsum import networks
    >>> best_polynomial(networks.metropolis("ring:9"), rounds=3).round(2).tolist()
    [2.83, 1.41, 0.89, 0.53]
    """
    part = spectrum.part(network, rounds, probes, exact_up_to)
    return np.sqrt(christoffel(part.values, part.weights.mean(axis=0), rounds))


def christoffel(values: Floats, weights: Floats, degree: int) -> Floats:
    """(degree + 1,): min sum_i w_i P(x_i)^2 over polynomials of degree k with P(1) = 1."""
    found = np.zeros(degree + 1)
    if not len(values) or not weights.sum():
        return found
    a, b = _jacobi_matrix(values, weights, degree)
    last, p, total = 0.0, 1 / math.sqrt(weights.sum()), 0.0
    for k in range(len(a)):
        total += p * p
        found[k] = 1 / total
        if k >= len(b) or not math.isfinite(total):
            break
        last, p = p, ((1 - a[k]) * p - (b[k - 1] * last if k else 0.0)) / b[k]
    return found


def _jacobi_matrix(values: Floats, weights: Floats, degree: int) -> tuple[Floats, Floats]:
    """Coefficients of the recurrence of the p_k: Lanczos on diag(values) from sqrt(weights)."""
    q = np.sqrt(weights / weights.sum())
    basis, a, b = [q], [], []
    for _ in range(degree + 1):
        r = values * basis[-1]
        a.append(float(basis[-1] @ r))
        known = np.array(basis)
        for _ in range(2):
            r = r - known.T @ (known @ r)
        size = float(np.linalg.norm(r))
        if size < BREAKDOWN:  # P can vanish on the whole spectrum from here on
            break
        b.append(size)
        basis.append(r / size)
    return np.array(a), np.array(b)


def diameter(network: Any) -> tuple[int, int]:
    """The largest distance between two agents: no algorithm can finish in fewer rounds.

    Parameters
    ----------
    network
        The network.

    Returns
    -------
    tuple of int
        Lower and upper bound; equal unless the limit of 3,000 searches is reached.

    Examples
    --------
    >>> from veilsum import networks
    >>> diameter(networks.metropolis("ring:9"))
    (4, 4)
    """
    return hops.diameter(network.at(1))


def central(problem: Problem, deviation: float | None = None) -> tuple[Floats, float]:
    """Errors of a trusted curator who has every signal, with and without Laplace noise.

    sqrt(n) times the error of one number: Lap(Delta/(n T eps)) on the mean of n agents over T
    rounds (1 offline), and sigma/sqrt(n T), the omniscient error.

    Parameters
    ----------
    problem
        What would be run; its network has no effect.
    deviation
        Assumed standard deviation of the statistic; needed where signals are recorded.

    Returns
    -------
    array of shape (epsilons,)
        With noise.
    float
        Without noise.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> curator, omniscient = central(problem)
    >>> curator.round(3).tolist(), omniscient
    ([1.106], 1.0)
    """
    xi = statistic_moments(problem, deviation)
    n, t = problem.network.size, problem.rounds if problem.algorithm.online else 1
    omniscient = math.sqrt(xi.variance / t)
    if not problem.privacy.adds_noise:
        return np.array([omniscient]), omniscient
    reach = float(problem.family.moves(problem.privacy.reach).l1)
    scale = reach / (n * t * np.array(problem.run_epsilons))
    noise = np.sqrt(problem.family.dimension * n * laplace_variance(scale))
    return np.hypot(noise, omniscient), omniscient


@dataclass(frozen=True, eq=False)
class Headroom:
    """The errors of a run at its last round beside the limits; l2 norms over agents.

    Attributes
    ----------
    disagreement, best_polynomial
        Cost of decentralisation, and the least possible in as many rounds; None for streams.
    truth
        Error against E xi, sampling included, (epsilons,).
    curator, omniscient
        Errors of a trusted curator with noise, (epsilons,), and without.
    rounds, diameter
        Rounds of the run, and lower and upper bound of the diameter.

    Examples
    --------
    >>> found = Headroom(0.2, 0.1, np.array([3.0]), np.array([2.0]), 1.5, rounds=8, diameter=(4, 4))
    >>> found.factors
    {'best_polynomial': 2.0, 'curator': [1.5], 'omniscient': [2.0], 'diameter': 2.0}
    """

    disagreement: float | None
    best_polynomial: float | None
    truth: Floats
    curator: Floats
    omniscient: float
    rounds: int
    diameter: tuple[int, int]

    @property
    def factors(self) -> dict[str, Any]:
        """Each error over its limit; 1 is the limit itself."""
        ours, best = self.disagreement, self.best_polynomial
        ratio = None if ours is None or not best else ours / best
        return {
            "best_polynomial": ratio,
            "curator": (self.truth / self.curator).tolist(),
            "omniscient": (self.truth / self.omniscient).tolist(),
            "diameter": self.rounds / max(self.diameter[1], 1),
        }


def headroom(found: Any, deviation: float | None = None) -> Headroom:
    """Compare a result, or a problem that has not been run, with each limit.

    Parameters
    ----------
    found
        A `Result`, of which measured errors are used (root mean squares over replicas), or a
        `Problem`, of which expected ones are.
    deviation
        Assumed standard deviation of the statistic; needed where signals are recorded.

    Returns
    -------
    Headroom
        Errors and limits; `factors` has the ratios.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> found = headroom(problem)
    >>> found.rounds, found.diameter, round(found.factors["curator"][0], 2)
    (50, (4, 4), 1.57)
    """
    trace = getattr(found, "trace", None)
    problem: Problem = found if trace is None else found.problem
    xi, made = statistic_moments(problem, deviation), expected(problem, deviation=deviation)
    truth = np.sqrt(made.sampling**2 + (made.shared_noise**2 + made.disagreement**2).T).T[-1]
    rest = float(made.decentralisation[-1])
    if trace is not None:
        rest = float(np.sqrt((trace.decentralisation[-1] ** 2).mean()))
        truth = _measured(trace, problem, made.sampling[-1])
    curator, omniscient = central(problem, deviation)
    offline = not problem.algorithm.online
    return Headroom(
        rest if offline else None, _best(problem, xi) if offline else None,
        truth, curator, omniscient, problem.rounds, diameter(problem.network),
    )  # fmt: skip


def _best(problem: Problem, xi: StatisticMoments) -> float:
    return math.sqrt(xi.variance) * float(best_polynomial(problem.network, problem.rounds)[-1])


def _measured(trace: Any, problem: Problem, sampling: float) -> Floats:
    """Root mean square of the total error; offline, sampling joins what is measured without it."""
    errors = trace.total[-1] if problem.run_epsilons else trace.decentralisation[-1][None]
    squares = (errors**2).mean(axis=-1)
    return np.asarray(np.sqrt(squares + (0.0 if problem.algorithm.online else sampling**2)))
