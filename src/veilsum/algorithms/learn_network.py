"""learn-network: online learning that hides the neighbours' estimates as well (Alg. 5).

    nu_0 = 0,    nu_t = (1 - 2/t) nu_{t-1} + 1/t A nu_{t-1} + 1/t (xi_t + d_t)

Neighbours enter with weight 1/t, like the signal, so noise of a constant scale hides both and
still averages out. In sums, S_t = t nu_t obeys S_t = ((t-2) I + A)/(t-1) S_{t-1} + xi_t + d_t.

Agents must be alike: with means m_i of their own nu_t tends to (2I - A)^-1 m, not to their mean, for
every number of readings (erratum 20); `learn` tends to the mean.

With A_t in place of A this is also the online rule for dynamic networks. The rule published for
them (App. C.1, eq. time_varying) keeps (t-1)/t instead of (t-2)/t; its weights add up to 1 + 1/t,
and it grows like the harmonic numbers (erratum 1). It is included to show that it diverges.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.base import Algorithm, Coefficients


@dataclass(frozen=True)
class LearnNetwork(Algorithm):
    """nu_t = (t-2)/t nu_{t-1} + 1/t A nu_{t-1} + 1/t (xi_t + d_t).

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.LearnNetwork().at(4).own
    0.5
    """

    name = "learn-network"
    reference = "Alg. 5"
    formula = "nu_t = (1-2/t) nu_{t-1} + 1/t A nu_{t-1} + 1/t (xi_t + d_t),  nu_0 = 0"
    start = Coefficients()
    online = offered = True

    def coefficients(self, t: int) -> Coefficients:
        """Neighbours and signal by 1/t, its own estimate by the rest."""
        return Coefficients(own=(t - 2) / t, mixing=1 / t, innovation=1 / t, noise=1 / t)


@dataclass(frozen=True)
class LearnDynamic(LearnNetwork):
    """The dynamic online rule with its weights corrected (erratum 1): Alg. 5 with A_t.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.LearnDynamic().at(4).own
    0.5
    """

    name = "learn-dynamic"
    reference = "App. C.1, corrected by erratum 1"
    formula = "nu_t = (t-2)/t nu_{t-1} + 1/t A_t nu_{t-1} + 1/t (xi_t + d_t),  nu_0 = 0"
    offered = False


@dataclass(frozen=True)
class LearnDynamicAsPublished(LearnNetwork):
    """The dynamic online rule as published: it diverges.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.LearnDynamicAsPublished().at(4).own
    0.75
    """

    name = "learn-dynamic-as-published"
    reference = "App. C.1, eq. time_varying, as published"
    formula = "nu_t = (t-1)/t nu_{t-1} + 1/t A_t nu_{t-1} + 1/t (xi_t + d_t),  nu_0 = 0"
    offered = False
    diverges = (
        "its weights add up to 1 + 1/t, so it grows like the harmonic numbers (erratum 1); "
        "learn-dynamic is the corrected rule"
    )

    def coefficients(self, t: int) -> Coefficients:
        """As published: one 1/t too much."""
        return Coefficients(own=(t - 1) / t, mixing=1 / t, innovation=1 / t, noise=1 / t)
