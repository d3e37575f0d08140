"""Decentralised allocation, by messages between neighbours only (App. C.3).

    minimise  sum_i (D_i / eps_i)^p   subject to   (A eps)_i <= eps,  eps_i <= cap_i  at every i

A is symmetric and doubly stochastic, so adding up the rows gives back sum_i eps_i <= n eps. Agent i
stores its eps_i and the multiplier lambda_i of its constraint. One iteration, two exchanges:

    eps_i     = min(cap_i, (p D_i^p / (A lambda)_i)^{1/(p+1)})   best for neighbours' multipliers
    lambda_i <- lambda_i ((A eps)_i / eps)^{p+1}                 larger where too much is used

There is no step size. Why it ascends: the dual function is sum_j h_j(s_j) - eps sum_i lambda_i with
s = A lambda and h_j(s) = min_{e <= cap_j} (D_j/e)^p + s e, concave, h_j'(s) = eps_j. By Jensen

    h_j((A lambda)_j) >= sum_i (a_ij lambda_i^old / s_j^old) h_j(s_j^old lambda_i / lambda_i^old),

with equality at lambda^old. The right-hand sides add up to one concave function per lambda_i; with
u = lambda_i / lambda_i^old its slope is in proportion to sum_j a_ij h_j'(u s_j) - eps. Since
h_j'(u s) = h_j'(s) u^{-1/(p+1)} without a cap, and lies between that and h_j'(s) with one, the step
u = ((A eps)_i / eps)^{p+1} goes to its maximum, or part of the way: the dual value never falls.

Repair. The iterate may exceed a constraint. Agent i multiplies eps_i by the least eps / (A eps)_j
among itself and its neighbours, and cuts at its cap; then row j is at most
sum_i a_ji eps_i eps / (A eps)_j = eps: feasible at every agent, and slack is used up as well.

Stopping update. With e the repaired epsilons, the gap between primal and dual value is sum_i gamma_i,

    gamma_i = (D_i/e_i)^p - (D_i/eps_i)^p + lambda_i (eps - (A eps)_i),

all of it known to agent i. If gamma_i <= r (D_i/e_i)^p at every i, the overhead is at most
1/(1 - r) times the least possible. The largest ratio spreads by max-consensus on the messages that
are sent anyway: a diameter of rounds after a check every agent knows whether it passed, and uses
the repaired epsilons of that check.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.paper.allocation.problem import (
    OVERHEAD,
    AgentSensitivities,
    Allocation,
    AllocationProblem,
    Floats,
    symmetric_weights,
)

CHECK_EVERY = 10  # iterations; a check costs one exchange more
ROOM = 1 - 1e-12  # more than rounding takes in a row of thousands, so that every row holds


@dataclass(frozen=True, eq=False)
class AgentUpdate:
    """What an agent computes from its neighbours' values: the formulas above, for one or all."""

    D: Floats
    epsilon: float
    cap: Floats
    p: int

    def first_multipliers(self) -> Floats:
        """lambda_i = p D_i^p / eps^{p+1}: the multiplier at which eps_i = eps."""
        return self.p * self.D**self.p / self.epsilon ** (self.p + 1)

    def epsilons(self, nearby: Floats) -> Floats:
        """eps_i = min(cap_i, (p D_i^p / (A lambda)_i)^{1/(p+1)})."""
        with np.errstate(divide="ignore", over="ignore"):  # at a multiplier of 0, the cap
            return np.minimum(self.cap, (self.p * self.D**self.p / nearby) ** (1 / (self.p + 1)))

    def multipliers(self, multipliers: Floats, used: Floats) -> Floats:
        """lambda_i <- lambda_i ((A eps)_i / eps)^{p+1}."""
        return multipliers * (used / self.epsilon) ** (self.p + 1)

    def repaired(self, epsilons: Floats, most_used: Floats) -> Floats:
        """e_i = min(cap_i, eps_i eps / max_{j near i} (A eps)_j)."""
        return np.minimum(self.cap, epsilons * (ROOM * self.epsilon / most_used))

    def ratios(
        self, multipliers: Floats, epsilons: Floats, used: Floats, repaired: Floats
    ) -> Floats:
        """gamma_i / (D_i / e_i)^p."""
        cost = (self.D / repaired) ** self.p
        gamma = cost - (self.D / epsilons) ** self.p + multipliers * (self.epsilon - used)
        return gamma / cost


def decentralised(
    sensitivities: AgentSensitivities | ArrayLike,
    epsilon: float,
    network: Any,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    tolerance: float = 0.01,
    max_rounds: int = 20_000,
    simulation_only: bool = False,
) -> Allocation:
    """Solve the neighbourhood problem by messages between neighbours; feasible at every agent.

    The overhead is at most (1 + tolerance) times the least possible, as the stopping rule proves;
    `gap` is the bound it proved, `rounds` the exchanges it took.

    Parameters
    ----------
    sensitivities : AgentSensitivities or array_like
        D_i of every agent; plain numbers are taken for global sensitivities.
    epsilon : float
        The mean epsilon of an agent.
    network : Mixing or matrix
        Symmetric, doubly stochastic weights that do not change from round to round.
    cap : float or array_like, optional
        The most epsilon of every agent, or of each.
    objective : str
        "overhead", sum D/eps, or "variance", sum (D/eps)^2.
    tolerance : float
        The relative gap to stop at.
    max_rounds : int
        The most exchanges.
    simulation_only : bool
        Whether sensitivities computed from signals are accepted, for a simulation.

    Returns
    -------
    Allocation
        The epsilons, and what the noise costs with them.

    Raises
    ------
    PrivacyError
        If a number is outside its range, or the sensitivities depend on data and
        `simulation_only` is not set; or if the gap is not reached in `max_rounds`.

    Examples
    --------
    >>> A = np.full((2, 2), 0.5)
    >>> found = decentralised([1.0, 4.0], 1.0, A, tolerance=1e-6)
    >>> found.epsilons.round(3).tolist(), bool(found.gap <= 1e-6)
    ([0.667, 1.333], True)
    """
    asked = AllocationProblem.of(sensitivities, epsilon, cap, objective, simulation_only)
    _validate.positive(PrivacyError, tolerance=tolerance)
    _validate.at_least(PrivacyError, 3, max_rounds=max_rounds)
    A = symmetric_weights(network, len(asked.D))
    update = AgentUpdate(asked.D, asked.epsilon, asked.caps, asked.p)
    repaired, rounds, ratio = _run(update, A, tolerance / (1 + tolerance), max_rounds)
    gap = max(0.0, ratio) / (1 - ratio)
    return asked.allocation(repaired, "decentralised", rounds=rounds, gap=gap)


def _run(update: AgentUpdate, A: Any, enough: float, max_rounds: int) -> tuple[Floats, int, float]:
    multipliers = update.first_multipliers()
    ratio, rounds, iteration = math.inf, 0, 0
    while rounds + 3 <= max_rounds:
        epsilons = update.epsilons(A @ multipliers)
        used = A @ epsilons
        rounds += 2
        if iteration % CHECK_EVERY == 0:
            repaired = update.repaired(epsilons, most_nearby(A, used))
            ratio = float(np.max(update.ratios(multipliers, epsilons, used, repaired)))
            rounds += 1
            if ratio <= enough:
                return repaired, rounds, ratio
        multipliers = update.multipliers(multipliers, used)
        iteration += 1
    raise PrivacyError(
        f"epsilons are not within the tolerance after {rounds} rounds: the proved bound is "
        f"{ratio:.3g}, expected {enough:.3g}; allow more max_rounds or a larger tolerance"
    )


def most_nearby(A: Any, values: Floats) -> Floats:
    """max_j values_j over the j with a_ij > 0: one exchange."""
    return np.maximum.reduceat(values[A.indices], A.indptr[:-1])
