"""Budgets allocated by the agents themselves, with messages between neighbours only (App. C.3).

    minimise  sum_i (D_i / eps_i)^p   subject to   (A eps)_i <= eps,  eps_i <= cap_i  at every i

A is symmetric and doubly stochastic, so adding up the rows gives back sum_i eps_i <= n eps. Agent i
holds its budget eps_i and the price lambda_i of its constraint. One iteration, two exchanges:

    eps_i     = min(cap_i, (p D_i^p / (A lambda)_i)^{1/(p+1)})       best answer to nearby prices
    lambda_i <- lambda_i ((A eps)_i / eps)^{p+1}                     dearer where too much is used

There is no step size. Why it climbs: the dual function is sum_j h_j(s_j) - eps sum_i lambda_i with
s = A lambda and h_j(s) = min_{e <= cap_j} (D_j/e)^p + s e, concave, h_j'(s) = eps_j. By Jensen

    h_j((A lambda)_j) >= sum_i (a_ij lambda_i^old / s_j^old) h_j(s_j^old lambda_i / lambda_i^old),

with equality at lambda^old. The right-hand sides add up to one concave function per lambda_i; with
u = lambda_i / lambda_i^old its slope is in proportion to sum_j a_ij h_j'(u s_j) - eps. Since
h_j'(u s) = h_j'(s) u^{-1/(p+1)} without a cap, and lies between that and h_j'(s) with one, the step
u = ((A eps)_i / eps)^{p+1} goes to its maximum, or part of the way: the dual value never falls.

Repair. The iterate may exceed a constraint. Agent i multiplies eps_i by the least eps / (A eps)_j
among itself and its neighbours, and cuts at its cap; then row j is at most
sum_i a_ji eps_i eps / (A eps)_j = eps: feasible at every agent, and slack is used up as well.

Stopping rule. With e the repaired budgets, the gap between primal and dual value is sum_i gamma_i,

    gamma_i = (D_i/e_i)^p - (D_i/eps_i)^p + lambda_i (eps - (A eps)_i),

all of it known to agent i. If gamma_i <= r (D_i/e_i)^p at every i, the overhead is at most
1/(1 - r) times the least possible. The largest ratio spreads by max-consensus on the messages that
are sent anyway: a diameter of rounds after a check everyone knows whether it passed, and uses the
repaired budgets of that check.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.budgets.problem import OVERHEAD, Allocation, Floats, Problem, Sensitivities
from murmura.privacy.budgets.weights import symmetric_weights

CHECK_EVERY = 10  # iterations; a check costs one exchange more
ROOM = 1 - 1e-12  # more than rounding takes in a row of thousands, so that every row holds


@dataclass(frozen=True, eq=False)
class Rule:
    """What an agent does with what it heard: every formula above, for one agent or for all."""

    D: Floats
    epsilon: float
    cap: Floats
    p: int

    def first_prices(self) -> Floats:
        """lambda_i = p D_i^p / eps^{p+1}: the price at which eps_i = eps."""
        return self.p * self.D**self.p / self.epsilon ** (self.p + 1)

    def epsilons(self, nearby: Floats) -> Floats:
        """eps_i = min(cap_i, (p D_i^p / (A lambda)_i)^{1/(p+1)})."""
        with np.errstate(divide="ignore", over="ignore"):  # at no price, the cap
            return np.minimum(self.cap, (self.p * self.D**self.p / nearby) ** (1 / (self.p + 1)))

    def prices(self, prices: Floats, used: Floats) -> Floats:
        """lambda_i <- lambda_i ((A eps)_i / eps)^{p+1}."""
        return prices * (used / self.epsilon) ** (self.p + 1)

    def repaired(self, epsilons: Floats, most_used: Floats) -> Floats:
        """e_i = min(cap_i, eps_i eps / max_{j near i} (A eps)_j)."""
        return np.minimum(self.cap, epsilons * (ROOM * self.epsilon / most_used))

    def ratios(self, prices: Floats, epsilons: Floats, used: Floats, kept: Floats) -> Floats:
        """gamma_i / (D_i / e_i)^p."""
        cost = (self.D / kept) ** self.p
        gamma = cost - (self.D / epsilons) ** self.p + prices * (self.epsilon - used)
        return gamma / cost


def decentralised(
    sensitivities: Sensitivities | ArrayLike,
    epsilon: float,
    network: Any,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    tolerance: float = 0.01,
    max_rounds: int = 20_000,
    simulation_only: bool = False,
) -> Allocation:
    """Budgets of the neighbourhood problem by messages between neighbours, feasible everywhere.

    The overhead is at most (1 + tolerance) times the least possible, as the stopping rule proves;
    `gap` is the bound it proved, `rounds` the exchanges it took.
    """
    asked = Problem.of(sensitivities, epsilon, cap, objective, simulation_only)
    _validate.positive(PrivacyError, tolerance=tolerance)
    _validate.at_least(PrivacyError, 3, max_rounds=max_rounds)
    A = symmetric_weights(network, len(asked.D))
    rule = Rule(asked.D, asked.epsilon, asked.caps, asked.p)
    kept, rounds, ratio = _run(rule, A, tolerance / (1 + tolerance), max_rounds)
    gap = max(0.0, ratio) / (1 - ratio)
    return asked.allocation(kept, "decentralised", rounds=rounds, gap=gap)


def _run(rule: Rule, A: Any, enough: float, max_rounds: int) -> tuple[Floats, int, float]:
    prices = rule.first_prices()
    ratio, rounds, iteration = math.inf, 0, 0
    while rounds + 3 <= max_rounds:
        epsilons = rule.epsilons(A @ prices)
        used = A @ epsilons
        rounds += 2
        if iteration % CHECK_EVERY == 0:
            kept = rule.repaired(epsilons, most_nearby(A, used))
            ratio = float(np.max(rule.ratios(prices, epsilons, used, kept)))
            rounds += 1
            if ratio <= enough:
                return kept, rounds, ratio
        prices = rule.prices(prices, used)
        iteration += 1
    raise PrivacyError(
        f"budgets are not within the tolerance after {rounds} rounds: the proved bound stands at "
        f"{ratio:.3g}, wanted {enough:.3g}; allow more max_rounds or a larger tolerance"
    )


def most_nearby(A: Any, values: Floats) -> Floats:
    """max_j values_j over the j with a_ij > 0: one exchange."""
    return np.maximum.reduceat(values[A.indices], A.indptr[:-1])
