"""push-sum: the uniform mean on directed networks.

    S_0 = xi + d, w_0 = 1,    S_t = P S_{t-1}, w_t = P w_{t-1},    nu_t = S_t / w_t

P is column-stochastic: agent j splits what it holds among itself and those it can reach, so the
totals of S and of w never change. Both tend to the same multiple of the Perron vector of P, and
their ratio to sum(xi + d)/n. Kempe, Dobra and Gehrke (2003).

push-sum-learn is its online form: every round adds (xi_t + d_t, 1) to (S, w). The weight always
obeys the recursion of the sum with xi = 1 and d = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.average import Average
from veilsum.algorithms.base import COLUMN, DOUBLY, Algorithm, Coefficients


@dataclass(frozen=True)
class PushSum(Average):
    """S_t = P S_{t-1}, w_t = P w_{t-1}, nu_t = S_t / w_t.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> sorted(algorithms.PushSum().kinds)
    ['column-stochastic', 'doubly-stochastic']
    """

    name = "push-sum"
    reference = "App. C.2, restored; Kempe, Dobra and Gehrke 2003"
    formula = "nu_t = S_t / w_t,  (S, w)_t = P (S, w)_{t-1},  (S, w)_0 = (xi + d, 1)"
    ratio = True
    kinds = frozenset({COLUMN, DOUBLY})
    claims_network_dp = offered = False


@dataclass(frozen=True)
class PushSumLearn(Algorithm):
    """S_t = P S_{t-1} + xi_t + d_t, w_t = P w_{t-1} + 1, nu_t = S_t / w_t.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.PushSumLearn().at(1).innovation
    1.0
    """

    name = "push-sum-learn"
    reference = "beyond the paper: Alg. 4 in ratio form"
    formula = "nu_t = S_t / w_t,  (S, w)_t = P (S, w)_{t-1} + (xi_t + d_t, 1)"
    start = Coefficients()
    online = True
    ratio = True
    kinds = frozenset({COLUMN, DOUBLY})

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """Pass everything on and add what is new."""
        return Coefficients(mixing=1.0, innovation=1.0, noise=1.0)
