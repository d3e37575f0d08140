"""What a run leaves behind: plain arrays, from which every report is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.engine.problem import Columns, Problem
from murmura.laws.response import response
from murmura.privacy import Calibration

Floats = NDArray[np.float64]

PART = 1_000_000  # agents


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What a run leaves: plain arrays, axes as named.

    Errors are norms over agents and components, for every round from the start on.
    """

    total: Floats  # (round, epsilon, replica)
    privacy: Floats  # (round, epsilon, replica)
    decentralisation: Floats  # (round, replica or 1)
    target: Floats  # (replica or 1, component)
    kept: list[int]
    rows: list[int] | slice
    private: Floats | None  # (kept, agent, epsilon, replica, component)
    clean: Floats | None  # (kept, agent, replica or 1, component)
    final: Floats | None  # (agent, epsilon or 1, replica, component): what all agents hold at last
    mean: Floats  # (epsilon, replica, component): of the final estimates, clean if none is private
    disagreement: Floats  # their variance over agents, same axes
    noise_variance: Floats  # of their mean, from the scales, same axes
    statistic_share: float  # variance of the mean estimate per variance of the statistic


def assemble(
    problem: Problem,
    columns: Columns,
    calibration: Calibration | None,
    target: Floats,
    sums: Floats,
    kept: list[int],
    rows: list[int] | slice,
    stored: list[Floats],
    held: Floats,
) -> Trace:
    """Make a trace of the sums of squares (round, 3, column), what was stored and what is held."""
    d, e, r, first = columns.components, len(problem.budgets), problem.replicas, columns.clean
    norms = np.sqrt(sums[:, :2, first:].reshape(len(sums), 2, e, r, d).sum(axis=-1))
    clean = np.sqrt(sums[:, 0, :first].reshape(len(sums), -1, d).sum(axis=-1))
    final = held[:, first:].reshape(len(held), e, r, d) if e else held.reshape(len(held), 1, -1, d)
    both = np.stack(stored) if stored else None
    return Trace(
        total=norms[:, 0],
        privacy=norms[:, 1],
        decentralisation=clean,
        target=target.reshape(-1, d),
        kept=kept,
        rows=rows,
        private=None if both is None else both[..., first:].reshape(*both.shape[:2], e, r, d),
        clean=None if both is None else both[..., :first].reshape(*both.shape[:2], -1, d),
        final=final if stored else None,
        mean=final.mean(axis=0),
        disagreement=_variance(final),
        noise_variance=_noise_variance(problem, columns, calibration, sums[:, 2, first:]),
        statistic_share=_statistic_share(problem),
    )


def joined(parts: Sequence[Trace]) -> Trace:
    """The trace of a problem with the epsilons of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]

    def beside(name: str, axis: int) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis=axis)

    axes = {
        "total": 1, "privacy": 1, "private": 2, "final": 1, "mean": 0, "disagreement": 0,
        "noise_variance": 0,
    }  # fmt: skip
    return replace(parts[0], **{name: beside(name, axis) for name, axis in axes.items()})


def _variance(final: Floats) -> Floats:
    """Variance over agents, a part at a time where a copy of them all would count."""
    if len(final) <= PART:
        return np.asarray(final.var(axis=0))
    mean, total = final.mean(axis=0), 0.0
    for first in range(0, len(final), PART):
        total = total + ((final[first : first + PART] - mean) ** 2).sum(axis=0)
    return np.asarray(total / len(final))


def _statistic_share(problem: Problem) -> float:
    """Variance of the mean estimate per variance of xi: sum over agents of mass^2, times

    (sum of shares)^2 where all rounds use one signal, sum of shares^2 where each has its own.
    """
    shares = response(problem.law, problem.rounds).statistic
    rounds = (shares**2).sum() if problem.law.online else shares.sum() ** 2
    mass = problem.mass
    return float(rounds * (mass @ mass))


def _noise_variance(
    problem: Problem, columns: Columns, calibration: Calibration | None, spent: Floats
) -> Floats:
    """Variance of the mean estimate that comes from noise: 2 b^2 of every draw, times its share."""
    d, e, r = columns.components, len(problem.budgets), problem.replicas
    if calibration is None:
        return np.zeros((1, columns.clean // d, d))
    shares = response(problem.law, problem.rounds)
    own = np.einsum("t,tc->c", shares.noise**2, 2 * spent)
    links = 2 * calibration.per_edge(columns.epsilons(problem)) ** 2
    return np.asarray(own + links * _link_share(problem, shares.edge)).reshape(e, r, d)


def _link_share(problem: Problem, shares: Floats) -> float:
    """sum over rounds of share^2 sum_ij (mass_i a_ij)^2: what noise on links adds to the mean."""
    mass, total = problem.mass, 0.0
    for t in np.flatnonzero(shares):
        squares = problem.network.at(int(t)).power(2).sum(axis=1)
        total += shares[t] ** 2 * float((mass**2 * squares).sum())
    return total
