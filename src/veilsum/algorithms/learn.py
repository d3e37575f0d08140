"""learn: online learning of expected values (Alg. 2 and 4).

    nu_0 = 0,    nu_t = (t-1)/t A nu_{t-1} + 1/t (xi_t + d_t)

In sums, S_t = t nu_t obeys S_t = A S_{t-1} + xi_t + d_t: the total of S is the total released. With
A_t in place of A it is the rule for streams on changing networks, and agents may differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum._types import Network
from veilsum.algorithms.base import Algorithm, Coefficients


@dataclass(frozen=True)
class Learn(Algorithm):
    """nu_t = (t-1)/t A nu_{t-1} + 1/t (xi_t + d_t).

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.Learn().at(4).innovation
    0.25
    """

    name = "learn"
    reference = "Alg. 2 (no noise) and Alg. 4"
    formula = "nu_t = (t-1)/t A nu_{t-1} + 1/t (xi_t + d_t),  nu_0 = 0"
    start = Coefficients()
    online = offered = True

    def divergence(self, network: Network, hides_neighbours: bool) -> str | None:
        """Noise of round t must hide (t-1)/t A nu_{t-1} behind 1/t d_t, and so grows with t.

        Its scale is (t - 1) max_j a_ij / eps. In sums S_t = S_{t-1} + xi_t + d_t on average, whose
        variance is that of d_1 + ... + d_t, of the order of t^3: that of nu_t = S_t/t grows with t.
        """
        if not hides_neighbours:
            return super().divergence(network, hides_neighbours)
        return (
            "under Network DP each round's noise must hide all of the neighbours' estimates, and the "
            "mean of all agents keeps it: the error grows like sqrt(t); learn-network and "
            "push-sum-learn converge"
        )

    def coefficients(self, t: int) -> Coefficients:
        """Weigh the past by t - 1 rounds and the new signal by one."""
        return Coefficients(mixing=(t - 1) / t, innovation=1 / t, noise=1 / t)
