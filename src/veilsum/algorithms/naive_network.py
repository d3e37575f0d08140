"""naive-network: fresh noise in every round of the average (Sec. 3, remark for Network DP).

    nu_0 = xi + d_0,    nu_t = A nu_{t-1} + d_t

The mean of the estimates is a random walk: its error grows like sqrt(t) and never settles, which
is why the paper puts the noise at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.base import Algorithm, Coefficients, Sensitivities


@dataclass(frozen=True)
class NaiveNetwork(Algorithm):
    """nu_t = A nu_{t-1} + d_t.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.NaiveNetwork().diverges is None
    False
    """

    name = "naive-network"
    reference = "Sec. 3, remark for Network DP"
    formula = "nu_t = A nu_{t-1} + d_t,  nu_0 = xi + d_0"
    start = Coefficients(innovation=1.0, noise=1.0)
    diverges = (
        "noise added in every round accumulates, so its error grows like sqrt(t) "
        "(Sec. 3, remark); average adds it once"
    )

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """Mix, then noise."""
        return Coefficients(mixing=1.0, noise=1.0)

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - as the remark has it
        """max(Delta, max_j a_ij) in every round, as the remark has it."""
        return Sensitivities(signal=1.0, network=1.0)
