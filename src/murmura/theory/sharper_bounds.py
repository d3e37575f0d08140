"""Bounds that need beta* alone, as the paper's do, and are sharper.

The mean of all agents (lambda = 1) is known exactly; on every other eigenvalue the response of a
law is at most its response at the edge of the spectrum, and 1 - 1/n of each variance lies there:

    CoP^2 <= sum_tau sum_j V_{j,tau} (h_{t,tau}(1)^2/n + (1 - 1/n) h_{t,tau}(edge)^2)
    CoD^2 <= sigma^2 (n - 1) P_t(edge)^2                     one signal each
    CoD^2 <= sigma^2 sum_tau (h_{t,tau}(1)^2 + (n - 1) h_{t,tau}(edge)^2)      a stream

For the average: sqrt(sum_j V_j (1/n + (1 - 1/n) beta*^{2t})). The edge is beta* for laws of
nonnegative weights without memory, lambda_2 for chebyshev, which is level on its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmura.engine import Problem
from murmura.errors import LawError
from murmura.laws import Chebyshev
from murmura.theory import moments
from murmura.theory.inputs import noise_of, statistic_of

Floats = NDArray[np.float64]
_ONE = np.ones(1)


@dataclass(frozen=True, eq=False)
class SharperBound:
    """Bounds on the root expected squared norms, for every round; total^2 is the sum of both."""

    privacy: Floats  # (rounds + 1, epsilons)
    decentralisation: Floats  # (rounds + 1,)

    @property
    def total(self) -> Floats:
        """sqrt(privacy^2 + decentralisation^2): the two are uncorrelated."""
        return np.asarray(np.hypot(self.privacy, self.decentralisation[:, None]))


def sharper(problem: Problem, deviation: float | None = None) -> SharperBound:
    """The bounds above for a problem, from beta* (or lambda_2) and n."""
    law, rounds, n = problem.law, problem.rounds, problem.network.size
    edge, rest = np.array([_edge(problem)]), np.array([n - 1.0])
    noise, xi = noise_of(problem), statistic_of(problem, deviation)

    def mean(t: int) -> Floats:
        return np.asarray(noise.at(t).mean(axis=0, keepdims=True))

    def learnt(t: int) -> Floats:
        return np.array([[law.at(t).learn ** 2]])

    privacy = moments.spread(law, _ONE, _ONE, rounds, mean)
    privacy += moments.spread(law, edge, rest, rounds, mean)
    gain, far = (
        np.concatenate(list(moments.statistic(law, at, rounds))) / moments.scale(law, rounds)
        for at in (_ONE, edge)
    )
    if law.online:
        away = moments.spread(law, _ONE, _ONE, rounds, learnt)[:, 0]
        away = xi.variance * (away + moments.spread(law, edge, rest, rounds, learnt)[:, 0])
        away += n * ((gain[:, None] * xi.mean - xi.target) ** 2).sum(axis=1)
    else:
        away = xi.variance * (n - 1) * far**2
    return SharperBound(np.sqrt(problem.family.dimension * privacy), np.sqrt(away))


def sharper_theorem_1(size: int, beta_star: float, rounds: int, noise: float) -> float:
    """sqrt(noise (1/n + (1 - 1/n) beta*^{2t})), the privacy term; noise = sum_j Var d_j."""
    return math.sqrt(noise * (1 / size + (1 - 1 / size) * beta_star ** (2 * rounds)))


def sharper_theorem_2(size: int, beta_star: float, rounds: int, noise: float) -> float:
    """sqrt(noise (1/n + (1 - 1/n)(1 - beta*^{2t})/(t (1 - beta*^2)))/t), the same V every round.

    noise = sum_j Var d_{j,tau} of one round.
    """
    t = rounds
    apart = (1 - beta_star ** (2 * t)) / (t * (1 - beta_star**2))
    return math.sqrt(noise * (1 / size + (1 - 1 / size) * apart) / t)


def _edge(problem: Problem) -> float:
    law, network = problem.law, problem.network
    if isinstance(law, Chebyshev):
        return float(network.lambda_2)
    first = 1 if any(law.start) else 2  # from nothing, the weights of round 1 weigh nothing
    steps = [law.at(t) for t in range(first, problem.rounds + 1)]
    if any(now.keep < 0 or now.mix < 0 or now.recall for now in steps) or not (
        law.online or all(not now.learn for now in steps)
    ):
        raise LawError(
            f"law {law.name} has negative weights or a memory, so its response is not largest at "
            "beta*; use theory.expected, which is exact"
        )
    return float(network.beta_star)
