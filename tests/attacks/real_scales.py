"""The noise that the simulator really adds: read off its runs, not off the calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum.simulation import Problem, Record, noise, simulate
from veilsum.simulation.seeds import noise_seed

REPLICAS = 4  # so that one of the draws is not near 0


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same signals in every round."""

    values: np.ndarray  # (agents, ...)
    varies: bool = False
    measured: bool = False

    def signals(self, t: Any, replicas: Any) -> Any:  # noqa: ARG002 - one set for all
        return self.values[:, None]

    def expected(self, family: Any, rounds: Any) -> Any:  # noqa: ARG002 - nobody asks
        return np.zeros(family.dimension)

    def check(self, family: Any, rounds: Any) -> None:
        pass


def inside(family: Any, agents: Any) -> Any:
    """A signal of the support for everyone."""
    low, high = family.support.low, family.support.high
    value = np.clip(0.5, low, high)
    value = float(np.ceil(value)) if family.support.integer else float(value)
    return np.full(
        (agents, *family.signal_shape), value + (family.support.open_low and value == low)
    )


def real_scales(problem: Problem) -> Any:
    """(epsilons, rounds + 1, agents, components): |noise_t| b, what a round's noise multiplies.

    nu_t - own nu_{t-1} - mixing A nu_{t-1} - momentum nu_{t-2} is innovation xi + noise d: with the
    noiseless run subtracted, and divided by the draw, which is known, the scale is left.
    """
    trace = simulate(problem, Record(every=1))
    assert trace.private is not None
    assert trace.noiseless is not None
    shift = trace.private - trace.noiseless[:, :, None]
    clean = trace.noiseless[:, :, None]
    if problem.algorithm.ratio:
        weight = _weights(problem)[:, :, None, None, None]
        shift, clean = shift * weight, clean * weight
    added, entered = _innovations(problem, shift), _innovations(problem, clean)
    _check_entry(problem, entered)
    draws = _draws(problem)
    best = np.abs(draws).argmax(axis=2)[:, :, None]
    scale = np.abs(np.take_along_axis(added / draws[:, :, None], best[:, :, None], axis=3))
    silent = [problem.algorithm.at(t).noise == 0 for t in range(problem.rounds + 1)]
    assert np.abs(added[silent]).max(initial=0.0) < 1e-9
    scale[silent] = 0.0
    return np.moveaxis(scale[:, :, :, 0], 2, 0)


def _draws(problem: Any) -> Any:
    """(rounds, agents, replicas, components)."""
    components = problem.family.dimension
    streams = np.arange(problem.replicas * components).reshape(problem.replicas, components)
    agents = np.arange(problem.network.size)[:, None, None]
    seed = noise_seed(problem.seed)
    return np.stack([
        noise.laplace(seed, t, agents, streams[None]) for t in range(problem.rounds + 1)
    ])  # fmt: skip


def _innovations(problem: Any, nu: Any) -> Any:
    added = nu.copy()
    for t in range(1, problem.rounds + 1):
        own, mixing, momentum, *_ = problem.algorithm.at(t)
        A = problem.network.at(t).toarray()
        added[t] -= own * nu[t - 1] + mixing * np.tensordot(A, nu[t - 1], 1)
        if t >= 2:
            added[t] -= momentum * nu[t - 2]
    return added


def _check_entry(problem: Any, entered: Any) -> None:
    """The statistic enters where the algorithm says, and nothing else does."""
    xi = problem.family.columns(problem.source.signals(1, 1))[:, None]
    for t in range(problem.rounds + 1):
        expected = problem.algorithm.at(t).innovation * xi
        assert np.abs(entered[t] - expected).max() < 1e-9 * (1 + np.abs(xi).max())


def _weights(problem: Any) -> Any:
    """w of a ratio algorithm: its own rule with xi = 1 and no noise."""
    n, out = problem.network.size, []
    now = before = np.zeros(n)
    for t in range(problem.rounds + 1):
        own, mixing, momentum, innovation, *_ = problem.algorithm.at(t)
        mixed = problem.network.at(t) @ now if t else now
        now, before = own * now + mixing * mixed + momentum * before + innovation, now
        out.append(now)
    return np.array(out)
