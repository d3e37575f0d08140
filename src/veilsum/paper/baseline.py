"""The first-order method of Rizk et al. (2023): as the authors' code has it, and a fair baseline.

The fair baseline, `graph-homomorphic`, is the scheme of its own authors made private: it starts
from the noised statistic, its noise cancels in the mean of all agents, and it uses the step eta
with the least expected error for the network, the budget and the rounds. Both methods protect a
signal s >= floor, with noise for the same global sensitivity log(1 + 1/floor) of the same statistic
log s. The noise of the baseline is proportional to the number of rounds, so it may also stop
earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import theory
from veilsum.algorithms import Algorithm, GraphHomomorphic
from veilsum.algorithms.base import Sensitivities
from veilsum.algorithms.first_order import FirstOrder, FirstOrderOnline
from veilsum.families import Normal
from veilsum.paper.tabulate import moments
from veilsum.privacy import SignalDP
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.theory import Expected

if TYPE_CHECKING:
    from veilsum.scenario import Job

ETAS = tuple(float(eta) for eta in np.geomspace(1e-6, 1.0, 13))


@dataclass(frozen=True)
class FirstOrderAsCoded(FirstOrder):
    """First-order with the smooth sensitivity at the budget eps/T of a round, as the authors' code.

    S is proportional to 1/eps, so d_t is T times larger than with S at the whole budget, which is
    how veilsum reads App. B: Lap(eta T S(eps/T)/eps) = Lap(eta T^2 S(eps)/eps).
    """

    rounds: int = 1

    name = "first-order-as-coded"

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """max(max_j a_ij, eta S(eps/T)) in units of S(eps)."""
        return Sensitivities(signal=self.eta * self.rounds, network=1.0)


@dataclass(frozen=True)
class FirstOrderOnlineAsCoded(FirstOrderOnline):
    """The same noise on a stream (the authors' code plots the offline method there)."""

    rounds: int = 1

    name = "first-order-online-as-coded"

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """max(max_j a_ij, eta S(eps/T)) in units of S(eps)."""
        return Sensitivities(signal=self.eta * self.rounds, network=1.0)


def as_coded(job: Job) -> Job:
    """The job with the noise of the authors' code, if its name asks for it."""
    problem = job.problem
    if not job.name.startswith("first-order-as-coded."):
        return job
    kind = FirstOrderOnlineAsCoded if problem.algorithm.online else FirstOrderAsCoded
    return replace(job, problem=replace(problem, algorithm=kind(rounds=problem.rounds)))


def compare(ours: Problem, theirs: Problem) -> list[dict[str, Any]]:
    """Expected total errors offline with Signal DP: ours, and theirs with the best step and rounds."""
    errors = _expected(ours, ours.algorithm)
    tried = {eta: _expected(theirs, GraphHomomorphic(eta=eta)) for eta in ETAS}
    rows = []
    for k, epsilon in enumerate(ours.run_epsilons):
        best = min(ETAS, key=lambda eta: tried[eta].total[-1, k])
        eta, rounds, least = _stopped(tried, k)
        rows.append(
            {"epsilon": epsilon, "rounds": ours.rounds, "ours": errors.total[-1, k],
             "theirs": tried[best].total[-1, k], "eta": best,
             "theirs_stopped": least, "eta_stopped": eta, "rounds_stopped": rounds,
             "ours_stopped": errors.total[rounds, k]}
        )  # fmt: skip
    return rows


def _expected(problem: Problem, algorithm: Algorithm) -> Expected:
    """Expected errors in every round for the normal statistic log s, s >= floor."""
    mean, deviation = moments(problem)
    normal, reach = Normal(sigma=deviation), float(problem.family.sensitivity(1.0).value)
    source = SyntheticSignals(normal, {"mu": mean}, problem.network.size, 0)
    request = SignalDP(1.0, radius=reach)  # a normal statistic moves as far as the signal
    return theory.expected(
        replace(problem, algorithm=algorithm, family=normal, source=source, privacy=request)
    )


def _stopped(tried: dict[float, Expected], k: int) -> tuple[float, int, float]:
    """The step and the number of rounds t with the least error: (t + 1) releases make the noise."""
    best = (0.0, 0, np.inf)
    for eta, found in tried.items():
        fractions = (np.arange(len(found.total)) + 1) / len(found.total)
        totals = np.hypot(fractions * found.privacy[:, k], found.decentralisation)
        t = int(totals[1:].argmin()) + 1
        if totals[t] < best[2]:
            best = (eta, t, float(totals[t]))
    return best


def described(table: Any) -> str:
    """The comparison at epsilon 1 in words."""
    row = table[table.epsilon == 1.0].iloc[0]
    return (
        "A fair comparison offline (Rizk et al. as they have it: noise that cancels in the mean, "
        "a noised start, the best step; the same global sensitivity for both): at epsilon = 1 "
        f"their error is {row.theirs / row.ours:.3g} times ours after {int(row.rounds):,} rounds "
        f"(eta = {row.eta:.2g}), and {row.theirs_stopped / row.ours:.3g} times ours when it stops "
        f"at its best round, {int(row.rounds_stopped)}."
    )
