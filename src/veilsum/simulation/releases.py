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
from veilsum.privacy import BoundedSignal
from veilsum.simulation.problem import Problem
from veilsum.simulation.seeds import noise_key


def releases_once(problem: Problem) -> bool:
    """Whether every agent releases its own statistics with noise, and nothing else needs that noise.

    Not in masked sums; nor where noise enters more often than statistics do; nor where weights do not
    conserve the mean; nor under Network DP, whose noise also hides the neighbours' estimates: without
    it the messages would reveal them.
    """
    gains = response(problem.algorithm, problem.rounds)
    apart = problem.algorithm.perturbs_messages or gains.link_noise.any()
    uneven = problem.network.kind != "doubly-stochastic" or problem.algorithm.ratio
    if problem.privacy.masked or problem.privacy.hides_neighbours or apart or uneven:
        return False
    return np.array_equal(gains.statistic, gains.noise)


def released_parts(problem: Problem, e: int = 0, replica: int = 0) -> Floats:
    """(agents, components): z_i of one run, for problems of which `releases_once` holds."""
    gains = response(problem.algorithm, problem.rounds)
    runs = problem.independent_runs
    run = runs[e] if len(runs) > 1 else problem
    epsilon = problem.run_epsilons[e] if problem.run_epsilons else None
    key = noise_key(run)
    found = np.zeros((problem.network.size, problem.family.dimension))
    for t in np.flatnonzero(gains.statistic).tolist():
        found += gains.statistic[t] * _released(run, key, epsilon, replica, t)
    return found


def _released(problem: Problem, key: int, epsilon: float | None, replica: int, t: int) -> Floats:
    """(agents, components): xi_t with its noise, as the kernel draws it."""
    from veilsum.simulation import noise  # loading the compiler takes a while

    n, d, calibration = problem.network.size, problem.family.dimension, problem.calibration
    last = max(problem.algorithm.latest(t), 1) if problem.algorithm.online else 1
    count = problem.algorithm.readings(t) if problem.algorithm.online else 1
    xi = np.zeros((n, d))
    for reading in range(last - count + 1, last + 1):
        drawn = problem.source.signals(reading, problem.replicas)
        place = min(replica, drawn.shape[1] - 1)
        signals = drawn[:, place : place + 1]
        xi += problem.family.columns(signals)[:, 0]
    if epsilon is None:
        return xi
    agents, streams = np.arange(n, dtype=np.uint32), replica * d + np.arange(d)
    if not calibration.perturbs_input:
        scale = calibration.scale(signals, epsilon, t)
        return np.asarray(xi + scale * noise.laplace(key, t, agents[:, None], streams))
    made = calibration.mechanism(epsilon, 1)
    domain, at = made.domain, t if problem.algorithm.online else 1
    inside = np.clip(xi, domain.low, domain.high) if isinstance(domain, BoundedSignal) else xi
    u = noise.uniforms(made.uniforms, at, agents, int(streams[-1]) + 1, noise.key_of(key))
    return np.asarray(made.from_uniforms(inside, u[:, :, streams]))
