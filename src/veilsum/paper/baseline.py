"""The first-order method of Rizk et al. (2023): as the authors' code has it, and a fair baseline.

The fair baseline, `graph-homomorphic`, is the scheme of its own authors made private: it starts
from the noised statistic and its noise cancels in the mean of all agents. Both methods protect a
signal s >= floor, with noise for the same global sensitivity Delta = log(1 + 1/floor) of the same
statistic log s. The baseline is tuned: it uses the step eta and the division of its budget with the
least expected error for the network, the budget and the rounds.

The best division of the budget. Release 0 is xi + d_0, and message t shows c_t xi + q_t, c_t =
1 - (1 - eta)^{t-1} (see `veilsum.algorithms.graph_homomorphic`). They compose: with
d_0 ~ Lap(Delta/eps_0) and q_t ~ Lap(c_t Delta/eps_t) they cost eps_0 + ... + eps_T = eps in all.
Noise of release k is in the last estimates with the gain (A - eta I)^T for d_0 and
(A - I)(A - eta I)^{T-t} for q_t, so the expected square of the cost of privacy is sum_k w_k/eps_k^2,

    w_0 = 2 Delta^2 sum_i (lambda_i - eta)^{2T},
    w_t = 2 Delta^2 c_t^2 sum_i (1 - lambda_i)^2 (lambda_i - eta)^{2(T-t)},

lambda the eigenvalues of A. Lagrange: the derivatives -2 w_k/eps_k^3 are equal, so eps_k is in
proportion to w_k^{1/3}, and the least value is (sum_k w_k^{1/3})^3/eps^2. As eta falls, so do c_t
and w_t: the budget goes to the start, the messages need no noise, and the method tends to Alg. 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum import theory
from veilsum.algorithms import Algorithm, GraphHomomorphic
from veilsum.algorithms.base import Sensitivities
from veilsum.algorithms.first_order import FirstOrder, FirstOrderOnline
from veilsum.families import Normal
from veilsum.paper.tabulate import moments
from veilsum.privacy import SignalDP
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.theory import Expected, spectrum

if TYPE_CHECKING:
    from veilsum.scenario import Job

Floats = NDArray[np.float64]
ETAS = tuple(float(eta) for eta in np.geomspace(1e-9, 1.0, 10))


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

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002
        """max(max_j a_ij, eta S(eps/T)) in units of S(eps)."""
        return Sensitivities(signal=self.eta * self.rounds, network=1.0)


def as_coded(job: Job) -> Job:
    """The job with the noise of the authors' code, if its name asks for it."""
    problem = job.problem
    if not job.name.startswith("first-order-as-coded."):
        return job
    kind = FirstOrderOnlineAsCoded if problem.algorithm.online else FirstOrderAsCoded
    return replace(job, problem=replace(problem, algorithm=kind(rounds=problem.rounds)))


def compare(average: Problem, theirs: Problem) -> list[dict[str, Any]]:
    """Expected total errors offline with Signal DP: of Alg. 3, and theirs with the best step.

    `equal` divides the budget equally over all releases, `tuned` in the best way.
    """
    errors, reach = _expected(average, average.algorithm), _reach(average)
    tried = {eta: _expected(theirs, GraphHomomorphic(eta=eta)) for eta in ETAS}
    least = {
        eta: np.cbrt(release_weights(theirs.network, eta, theirs.rounds, reach)).sum() ** 1.5
        for eta in ETAS
    }
    rows = []
    for k, epsilon in enumerate(average.run_epsilons):
        equal = {eta: float(found.total[-1, k]) for eta, found in tried.items()}
        tuned = {
            eta: math.hypot(least[eta] / epsilon, found.decentralisation[-1])
            for eta, found in tried.items()
        }
        best, step = min(equal, key=equal.__getitem__), min(tuned, key=tuned.__getitem__)
        rows.append(
            {"epsilon": epsilon, "rounds": average.rounds, "average": errors.total[-1, k],
             "equal": equal[best], "eta_equal": best, "tuned": tuned[step], "eta": step}
        )  # fmt: skip
    return rows


def release_weights(network: Any, eta: float, rounds: int, sensitivity: float) -> Floats:
    """w_k of the start and every message: the squared error is sum_k w_k/eps_k^2.

    Parameters
    ----------
    network
        Symmetric doubly stochastic weights.
    eta
        The step.
    rounds
        T.
    sensitivity
        Delta.

    Returns
    -------
    ndarray, shape (rounds + 1,)
        Release by release.
    """
    part = spectrum.part(network, rounds, spectrum.PROBES)
    values, counts = part.values, part.weights.mean(axis=0)
    t = np.arange(1, rounds + 1)
    start = (1 - eta) ** (2 * rounds) + counts @ (values - eta) ** (2 * rounds)
    gain, messages = counts * (1 - values) ** 2, np.empty(rounds)
    for k in reversed(range(rounds)):  # of message k + 1, T - 1 - k rounds before the end
        messages[k] = gain.sum()
        gain = gain * (values - eta) ** 2
    shown = 1 - (1 - eta) ** (t - 1)
    return np.asarray(2 * sensitivity**2 * np.concatenate([[start], shown**2 * messages]))


def _expected(problem: Problem, algorithm: Algorithm) -> Expected:
    """Expected errors in every round for the normal statistic log s, s >= floor."""
    mean, deviation = moments(problem)
    normal = Normal(sigma=deviation)
    source = SyntheticSignals(normal, {"mu": mean}, problem.network.size, 0)
    request = SignalDP(1.0, radius=_reach(problem))  # a normal statistic moves as far as the signal
    return theory.expected(
        replace(problem, algorithm=algorithm, family=normal, source=source, privacy=request)
    )


def _reach(problem: Problem) -> float:
    """Delta: how far log s moves with s."""
    return float(problem.family.moves(1.0).l1)


def described(table: Any) -> str:
    """The comparison at epsilon 1 in words."""
    row = table[table.epsilon == 1.0].iloc[0]
    releases = int(row.rounds) + 1
    edge = ", the least that was tried" if row.eta == min(ETAS) else ""
    return (
        "A fair comparison offline (Rizk et al. as they have it: noise that cancels in the mean, "
        "a noised start, the best step; the same global sensitivity for both), at epsilon = 1, after "
        f"{int(row.rounds):,} rounds: with the budget divided equally over T + 1 = {releases:,} "
        f"releases the noise of the start is T + 1 times that of Alg. 3 by construction, and their error "
        f"{row.equal / row.average:.3g} times that of Alg. 3 (eta = {row.eta_equal:.2g}). With its own "
        f"best division it is {row.tuned / row.average:.3f} times that of Alg. 3 (eta = {row.eta:.2g}"
        f"{edge}): as eta tends to 0 the baseline is Alg. 3. Its budget covers the messages; the final "
        "estimates, which are not sent, it does not cover."
    )
