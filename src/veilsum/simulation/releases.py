"""What each agent released in a run, as its part of the mean estimate.

Where a statistic leaves its agent with noise once, and nothing else of it does, the mean of all
estimates is the mean over agents of

    z_i = sum_t g_t (xi_it + d_it),

g the response of the algorithm. z_i is computed from released values alone. A run does not record it: the
noise is a function of the problem, and is drawn again here.
"""

from __future__ import annotations

import numpy as np

from veilsum._types import Floats
from veilsum.algorithms.table import response
from veilsum.simulation.problem import Problem
from veilsum.simulation.seeds import noise_key


def releases_once(problem: Problem) -> bool:
    """Whether every agent releases its own statistics with noise, and nothing else needs that noise.

    Not in sums over a roster; nor where noise enters more often than statistics do; nor where weights do not
    conserve the mean; nor under Network DP, whose noise also hides the neighbours' estimates: without
    it the messages would reveal them.
    """
    gains = response(problem.algorithm, problem.rounds)
    apart = problem.algorithm.perturbs_messages or gains.link_noise.any()
    uneven = problem.network.kind != "doubly-stochastic" or problem.algorithm.ratio
    if problem.privacy.summed or problem.privacy.hides_neighbours or apart or uneven:
        return False
    return np.array_equal(gains.statistic, gains.noise)


def released_parts(problem: Problem, e: int = 0) -> Floats:
    """(agents, replicas, components): z_i at one epsilon, where `releases_once` holds."""
    gains = response(problem.algorithm, problem.rounds).statistic
    runs = problem.independent_runs
    run = runs[e] if len(runs) > 1 else problem
    epsilon = problem.run_epsilons[e] if problem.run_epsilons else None
    key = noise_key(run)
    found = np.zeros((problem.network.size, problem.replicas, problem.family.dimension))
    for t in np.flatnonzero(gains).tolist():
        found += gains[t] * _released(run, key, epsilon, t)
    return found


def _released(problem: Problem, key: int, epsilon: float | None, t: int) -> Floats:
    """(agents, replicas or 1, components): xi_t with its noise, as the kernel draws it."""
    from veilsum.simulation import noise  # loading the compiler takes a while

    algorithm, plan = problem.algorithm, problem.plan
    last = max(algorithm.latest(t), 1) if algorithm.online else 1
    first = last - (algorithm.readings(t) if algorithm.online else 1) + 1
    signals = problem.source.signals(first, problem.replicas)
    xi = problem.family.columns(signals)
    for reading in range(first + 1, last + 1):
        signals = problem.source.signals(reading, problem.replicas)
        xi = xi + problem.family.columns(signals)
    if epsilon is None:
        return xi
    n, d = problem.network.size, problem.family.dimension
    agents, streams = np.arange(n, dtype=np.uint32), np.arange(problem.replicas * d)
    if not plan.perturbs_input:
        scale = plan.scale(signals, epsilon, t)
        drawn = noise.laplace(key, t, agents[:, None], streams).reshape(n, -1, d)
        return np.asarray(xi + scale[:, :, None] * drawn)
    made = plan.mechanism(epsilon, t)
    inside, at = made.clip(xi), t if algorithm.online else 1
    u = noise.uniforms(made.uniforms, at, agents, len(streams), noise.key_of(key))
    u = u.reshape(len(u), n, -1, d)
    return np.asarray(made.from_uniforms(np.broadcast_to(inside, u.shape[1:]), u))
