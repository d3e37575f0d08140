"""The noise that the simulator really adds: read off its runs, not off the calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmura.engine import Problem, Record, noise, simulate
from murmura.engine.seeds import noise_seed

REPLICAS = 4  # so that one of the draws is not near 0


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same signals in every round."""

    values: np.ndarray  # (agents, ...)
    varies: bool = False
    measured: bool = False

    def signals(self, t, replicas):  # noqa: ARG002 - one set for all
        return self.values[:, None]

    def expected(self, family, rounds):  # noqa: ARG002 - nobody asks
        return np.zeros(family.dimension)

    def check(self, family, rounds):
        pass


def inside(family, agents):
    """A signal of the support for everyone."""
    low, high = family.support.low, family.support.high
    value = np.clip(0.5, low, high)
    value = float(np.ceil(value)) if family.support.integer else float(value)
    return np.full(
        (agents, *family.signal_shape), value + (family.support.open_low and value == low)
    )


def real_scales(problem: Problem):
    """(epsilons, rounds + 1, agents, components): |noise_t| b, what a round's noise multiplies.

    nu_t - keep nu_{t-1} - mix A nu_{t-1} - recall nu_{t-2} is learn xi + noise d: with the run
    without noise subtracted, and divided by the draw, which is known, the scale is left.
    """
    trace = simulate(problem, Record(every=1))
    shift = trace.private - trace.clean[:, :, None]
    clean = trace.clean[:, :, None]
    if problem.law.ratio:
        weight = _weights(problem)[:, :, None, None, None]
        shift, clean = shift * weight, clean * weight
    added, entered = _innovations(problem, shift), _innovations(problem, clean)
    _check_entry(problem, entered)
    draws = _draws(problem)
    best = np.abs(draws).argmax(axis=2)[:, :, None]
    scale = np.abs(np.take_along_axis(added / draws[:, :, None], best[:, :, None], axis=3))
    silent = [problem.law.at(t).noise == 0 for t in range(problem.rounds + 1)]
    assert np.abs(added[silent]).max(initial=0.0) < 1e-9
    scale[silent] = 0.0
    return np.moveaxis(scale[:, :, :, 0], 2, 0)


def _draws(problem):
    """(rounds, agents, replicas, components)."""
    components = problem.family.dimension
    streams = np.arange(problem.replicas * components).reshape(problem.replicas, components)
    agents = np.arange(problem.network.size)[:, None, None]
    seed = noise_seed(problem.seed)
    return np.stack([
        noise.laplace(seed, t, agents, streams[None]) for t in range(problem.rounds + 1)
    ])  # fmt: skip


def _innovations(problem, nu):
    added = nu.copy()
    for t in range(1, problem.rounds + 1):
        keep, mix, recall, *_ = problem.law.at(t)
        A = problem.network.at(t).toarray()
        added[t] -= keep * nu[t - 1] + mix * np.tensordot(A, nu[t - 1], 1)
        if t >= 2:
            added[t] -= recall * nu[t - 2]
    return added


def _check_entry(problem, entered):
    """The statistic enters where the algorithm says, and nothing else does."""
    xi = problem.family.columns(problem.source.signals(1, 1))[:, None]
    for t in range(problem.rounds + 1):
        expected = problem.law.at(t).learn * xi
        assert np.abs(entered[t] - expected).max() < 1e-9 * (1 + np.abs(xi).max())


def _weights(problem):
    """w of a ratio algorithm: its own rule with xi = 1 and no noise."""
    n, out = problem.network.size, []
    now = before = np.zeros(n)
    for t in range(problem.rounds + 1):
        keep, mix, recall, learn, *_ = problem.law.at(t)
        mixed = problem.network.at(t) @ now if t else now
        now, before = keep * now + mix * mixed + recall * before + learn, now
        out.append(now)
    return np.array(out)
