"""average: minimum variance unbiased estimation from one signal each (Alg. 1 and 3).

    nu_0 = xi + d,    nu_t = A nu_{t-1}

A doubly stochastic and aperiodic takes every agent to the mean of what was released. On a
row-stochastic A the same algorithm converges to the mean weighted by the stationary distribution of
A, which is not the minimum variance estimate (App. C.2); push-sum restores the uniform mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.base import DOUBLY, ROW, Algorithm, Coefficients, Sensitivities


@dataclass(frozen=True)
class Average(Algorithm):
    """nu_t = A nu_{t-1}.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.Average().formula
    'nu_t = A nu_{t-1},  nu_0 = xi + d'
    """

    name = "average"
    reference = "Alg. 1 (no noise) and Alg. 3"
    formula = "nu_t = A nu_{t-1},  nu_0 = xi + d"
    start = Coefficients(innovation=1.0, noise=1.0)
    kinds = frozenset({DOUBLY, ROW})
    claims_network_dp = True  # Cor. 1, refuted (erratum 5)
    offered = True

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """Mix and nothing else."""
        return Coefficients(mixing=1.0)

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - noise at the start only
        """max(Delta, max_j a_ij), the noise of Cor. 1: at the start, for the rounds to come."""
        return Sensitivities(signal=1.0, network=1.0)
