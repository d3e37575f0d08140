"""Central allocation: sum_i eps_i <= n eps, eps_i <= cap_i (App. C.3).

The optimum, by the conditions of Karush, Kuhn and Tucker. With a multiplier theta for the sum and
mu_i >= 0 for the caps, p D_i^p / eps_i^{p+1} = theta + mu_i, and mu_i > 0 only at the cap, so that

    eps_i = min(cap_i, w g_i),    g_i = D_i^{p/(p+1)},

for one water level w: sqrt(D_i) for the overhead, D_i^{2/3} for the variance. Agents reach their
caps in the order of cap_i / g_i; when the first k of them have,

    w_k = (n eps - sum_{capped} cap_i) / sum_{others} g_i,

and the right k is the first whose w_k does not exceed the next cap_i / g_i. If all caps together
are below n eps, every agent gets its cap. The published rule stops at k = 0 and clips: what the
clipped agents leave is lost (erratum 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from veilsum.paper.allocation.problem import (
    OVERHEAD,
    AgentSensitivities,
    Allocation,
    AllocationProblem,
    Floats,
)

SHRINK = 1 - 2.0**-52


def homogeneous(
    sensitivities: AgentSensitivities | ArrayLike,
    epsilon: float,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    simulation_only: bool = False,
) -> Allocation:
    """eps_i = min(cap_i, eps): the same for all, whatever their sensitivities.

    Parameters
    ----------
    sensitivities : AgentSensitivities or array_like
        D_i of every agent; plain numbers are taken for global sensitivities.
    epsilon : float
        The mean epsilon of an agent.
    cap : float or array_like, optional
        The most epsilon of every agent, or of each.
    objective : str
        "overhead", sum D/eps, or "variance", sum (D/eps)^2.
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
        `simulation_only` is not set.

    Examples
    --------
    >>> homogeneous([1.0, 4.0], epsilon=1.0).epsilons.tolist()
    [1.0, 1.0]
    """
    asked = AllocationProblem.of(sensitivities, epsilon, cap, objective, simulation_only)
    return asked.allocation(np.minimum(asked.caps, asked.epsilon), "homogeneous")


def as_published(
    sensitivities: AgentSensitivities | ArrayLike,
    epsilon: float,
    cap: ArrayLike | None = None,
    *,
    simulation_only: bool = False,
) -> Allocation:
    """eps_i = min(cap_i, n eps sqrt(D_i) / sum_j sqrt(D_j)), the paper's rule; caps if they fit.

    Not optimal once a cap binds, and then even worse than equal epsilons at times (erratum 3): use
    `optimal`.

    Parameters
    ----------
    sensitivities : AgentSensitivities or array_like
        D_i of every agent; plain numbers are taken for global sensitivities.
    epsilon : float
        The mean epsilon of an agent.
    cap : float or array_like, optional
        The most epsilon of every agent, or of each.
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
        `simulation_only` is not set.

    Examples
    --------
    >>> as_published([1.0, 1.0, 1.0, 100.0], epsilon=1.0, cap=1.5).epsilons.round(3).tolist()
    [0.308, 0.308, 0.308, 1.5]
    """
    asked = AllocationProblem.of(sensitivities, epsilon, cap, OVERHEAD, simulation_only)
    if math.fsum(asked.caps) < asked.budget:
        return asked.allocation(asked.caps, "as-published")
    root = np.sqrt(asked.D)
    epsilons = np.minimum(asked.caps, asked.budget * root / math.fsum(root))
    return asked.allocation(_within(epsilons, asked.budget), "as-published")


def optimal(
    sensitivities: AgentSensitivities | ArrayLike,
    epsilon: float,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    simulation_only: bool = False,
) -> Allocation:
    """eps_i = min(cap_i, w g_i) with sum_i eps_i = n eps: the exact optimum, by water-filling.

    Parameters
    ----------
    sensitivities : AgentSensitivities or array_like
        D_i of every agent; plain numbers are taken for global sensitivities.
    epsilon : float
        The mean epsilon of an agent.
    cap : float or array_like, optional
        The most epsilon of every agent, or of each.
    objective : str
        "overhead", sum D/eps, or "variance", sum (D/eps)^2.
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
        `simulation_only` is not set.

    Examples
    --------
    >>> optimal([1.0, 1.0, 1.0, 100.0], epsilon=1.0, cap=1.5).epsilons.round(3).tolist()
    [0.833, 0.833, 0.833, 1.5]
    """
    asked = AllocationProblem.of(sensitivities, epsilon, cap, objective, simulation_only)
    if math.fsum(asked.caps) <= asked.budget:
        return asked.allocation(asked.caps, "optimal", gap=0.0)
    g = asked.D ** (asked.p / (asked.p + 1))
    epsilons = np.minimum(asked.caps, water_level(g, asked.caps, asked.budget) * g)
    return asked.allocation(_within(epsilons, asked.budget), "optimal", gap=0.0)


def water_level(g: Floats, caps: Floats, budget: float) -> float:
    """w with sum_i min(cap_i, w g_i) = budget, for a budget below the sum of the caps."""
    order = np.argsort(caps / g, kind="stable")
    full = (caps / g)[order]
    finite = np.where(np.isfinite(caps[order]), caps[order], 0.0)
    capped = np.concatenate([[0.0], np.cumsum(finite)[:-1]])  # used up by the first k
    open_to = np.cumsum(g[order][::-1])[::-1]  # sum of g over the others
    levels = (budget - capped) / open_to
    return float(levels[np.argmax(levels <= full)])


def improvement_bounds(sensitivities: AgentSensitivities | ArrayLike) -> tuple[float, float]:
    """(4 r / (1 + r)^2, 1) with r = sqrt(min D / max D): bounds on optimal / equal overhead.

    Without caps the ratio is (sum sqrt(D))^2 / (n sum D): at most 1 by Cauchy and Schwarz, at
    least 4 r / (1 + r)^2 by the converse of Polya and Szego (1925), which is sharper than the
    paper's min D / max D = r^2. Caps only raise it, so the lower bound always holds; the upper
    one holds for `optimal` whenever every cap is at least epsilon (equal epsilons are allowed
    then), not otherwise, and not for `as_published`.

    Parameters
    ----------
    sensitivities : AgentSensitivities or array_like
        D_i of every agent.

    Returns
    -------
    tuple of float
        The lower and the upper bound.

    Examples
    --------
    >>> improvement_bounds([1.0, 1.0, 1.0, 9.0])
    (0.75, 1.0)
    """
    known = (
        sensitivities
        if isinstance(sensitivities, AgentSensitivities)
        else AgentSensitivities(np.asarray(sensitivities))
    )
    r = math.sqrt(known.values.min() / known.values.max())
    return 4 * r / (1 + r) ** 2, 1.0


def _within(epsilons: Floats, budget: float) -> Floats:
    """The same, less the last bits by which rounding may exceed the budget."""
    while math.fsum(epsilons) > budget:
        epsilons = epsilons * SHRINK
    return epsilons
