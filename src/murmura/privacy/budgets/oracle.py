"""The same problems given to a convex solver (cvxpy, Clarabel): what the tests compare with."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from murmura.errors import MissingExtraError, PrivacyError
from murmura.privacy.budgets.problem import OVERHEAD, Allocation, Problem, Sensitivities
from murmura.privacy.budgets.weights import symmetric_weights


def optimal_oracle(
    sensitivities: Sensitivities | ArrayLike,
    epsilon: float,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    simulation_only: bool = False,
) -> Allocation:
    """The problem of `optimal`, to the solver's precision. Needs cvxpy."""
    asked = Problem.of(sensitivities, epsilon, cap, objective, simulation_only)
    return _solved(asked, np.full((1, len(asked.D)), 1 / len(asked.D)))


def decentralised_oracle(
    sensitivities: Sensitivities | ArrayLike,
    epsilon: float,
    network: Any,
    cap: ArrayLike | None = None,
    *,
    objective: str = OVERHEAD,
    simulation_only: bool = False,
) -> Allocation:
    """The problem of `decentralised`, to the solver's precision. Needs cvxpy."""
    asked = Problem.of(sensitivities, epsilon, cap, objective, simulation_only)
    return _solved(asked, symmetric_weights(network, len(asked.D)))


def _solved(asked: Problem, rows: Any) -> Allocation:
    """minimise sum (D/eps)^p subject to rows @ eps <= epsilon, eps <= caps; in units of epsilon.

    Squares of 1/eps, not powers -2 of eps: the quadratic form is the better conditioned.
    """
    cp = _cvxpy()
    e = cp.Variable(len(asked.D))
    scales = cp.multiply(asked.D / asked.D.mean(), cp.inv_pos(e))
    cost = cp.sum(scales) if asked.p == 1 else cp.sum_squares(scales)
    capped = np.flatnonzero(np.isfinite(asked.caps))
    limits = [rows @ e <= 1]
    if capped.size:
        limits.append(e[capped] <= asked.caps[capped] / asked.epsilon)
    problem = cp.Problem(cp.Minimize(cost), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    if problem.status != "optimal":
        raise PrivacyError(f"the solver found no budgets: it says {problem.status!r}")
    return asked.allocation(np.asarray(e.value) * asked.epsilon, "oracle")


def _cvxpy() -> Any:
    try:
        return import_module("cvxpy")
    except ImportError as error:
        raise MissingExtraError(
            "the solver's budgets need cvxpy: pip install 'murmura[solvers]'; "
            "budgets.optimal and budgets.decentralised need nothing"
        ) from error
