"""The weights of a network, as the neighbourhood problem needs them: symmetric, rows of sum 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmura.errors import PrivacyError

CLOSE = 1e-9


def symmetric_weights(network: Any, agents: int) -> Any:
    """A of a `Mixing`, or a matrix of one's own, as a csr array without stored zeros.

    Refused unless A >= 0, A = A' and A 1 = 1: only then do the neighbourhood constraints bound
    the sum of all budgets, and does every message travel along a link.
    """
    from scipy.sparse import csr_array

    if getattr(network, "dynamic", False):
        raise PrivacyError("budgets need one fixed network; this one changes from round to round")
    A = csr_array(_matrix(network), dtype=np.float64, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    if A.shape != (agents, agents):
        raise PrivacyError(f"network has {A.shape[0]} agents, sensitivities are for {agents}")
    fair = bool(np.all(A.data > 0)) and np.allclose(A.sum(axis=1), 1, rtol=0, atol=CLOSE)
    if not fair or abs(A - A.T).max() > CLOSE:
        raise PrivacyError(
            "neighbourhood budgets bound the total only if weights are symmetric and doubly "
            "stochastic; these are not; try network.metropolis(graph)"
        )
    return A


def _matrix(network: Any) -> Any:
    """`.weights`, or `.at(1)`, or the matrix itself."""
    if hasattr(network, "weights"):
        return network.weights
    return network.at(1) if hasattr(network, "at") else network
