"""The allocation problems solved by cvxpy: an oracle that shares only the checked numbers with ours."""

from typing import Any

import numpy as np
import pytest

from veilsum.paper.allocation import Allocation
from veilsum.paper.allocation.problem import OVERHEAD, AllocationProblem, symmetric_weights


def optimal(D: Any, epsilon: float, cap: Any = None, objective: str = OVERHEAD) -> Allocation:
    """The problem of `allocation.optimal`."""
    asked = AllocationProblem.of(D, epsilon, cap, objective, simulation_only=False)
    return _solved(asked, np.full((1, len(asked.D)), 1 / len(asked.D)))


def decentralised(
    D: Any, epsilon: float, network: Any, cap: Any = None, objective: str = OVERHEAD
) -> Allocation:
    """The problem of `allocation.decentralised`."""
    asked = AllocationProblem.of(D, epsilon, cap, objective, simulation_only=False)
    return _solved(asked, symmetric_weights(network, len(asked.D)))


def _solved(asked: AllocationProblem, rows: Any) -> Allocation:
    """Minimise sum (D/eps)^p subject to rows @ eps <= epsilon, eps <= caps.

    In units of epsilon, and with squares of 1/eps, not powers -2 of eps: the quadratic form is the
    better conditioned.
    """
    cp = pytest.importorskip("cvxpy")
    e = cp.Variable(len(asked.D))
    scales = cp.multiply(asked.D / asked.D.mean(), cp.inv_pos(e))
    cost = cp.sum(scales) if asked.p == 1 else cp.sum_squares(scales)
    capped = np.flatnonzero(np.isfinite(asked.caps))
    limits = [rows @ e <= 1]
    if capped.size:
        limits.append(e[capped] <= asked.caps[capped] / asked.epsilon)
    problem = cp.Problem(cp.Minimize(cost), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    assert problem.status == "optimal"
    return asked.allocation(np.asarray(e.value) * asked.epsilon, "oracle")
