"""graph-homomorphic: the private scheme of Rizk et al. (2023), whose noise cancels in the mean.

    nu_0 = xi + d_0,    nu_t = A (nu_{t-1} + q_t) - q_t - eta (nu_{t-1} - xi)

Agent j sends nu_j + q_j to its neighbours, one draw for all of them, and takes its own estimate
with the noise -(1 - a_jj)/a_jj q_j, so that it subtracts q_j in all. What remains of the noise is
(A - I) q_t: its columns add up to 0, so it cancels in the mean of all agents and in no agent by
itself. Nothing is divided by a_jj, which may be 0.

App. B of the paper gives both the noise of agent i the index of the receiver, q_i, and then it
cancels at every agent and hides nothing (erratum 12); `first-order` is that baseline as published.

Privacy. Take what everyone knows, (A m)_i for the messages m_t = nu_{t-1} + q_t, out of agent i's
messages. Then z_1 = m_1 and z_t = m_t + (1 - eta) z_{t-1} are

    z_t = xi + (1 - eta)^{t-1} d_0 + q_t = (1 - eta)^{t-1} (xi + d_0) + c_t xi + q_t,

c_t = 1 - (1 - eta)^{t-1}: given the release xi + d_0, each round reveals c_t times the
statistic with independent noise. They compose, so the budget is divided by T + 1, one part for the
start and one for each round: d_0 has the scale (T + 1) Delta/eps, and q_t has 1 - (1 - eta)^t times that,
which is at least c_t. (The best division of the budget, which depends on the network, is in
`veilsum.paper.baseline`; with it the method tends to the average.)

A gradient step on the noised statistic would need no q at all: it would be
equivalent to the average.

This is about messages. The estimates nu_t are not sent, and nothing protects them: the noise that
messages carry cancels in their mean, which moves by eta times the mean of xi in every round.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.base import Coefficients, Sensitivities
from veilsum.algorithms.first_order import FirstOrder
from veilsum.errors import AlgorithmError


@dataclass(frozen=True)
class GraphHomomorphic(FirstOrder):
    """nu_t = A (nu_{t-1} + q_t) - q_t - eta (nu_{t-1} - xi).

    Parameters
    ----------
    eta : float
        The learning rate, above 0 and at most 1.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.GraphHomomorphic(eta=0.1).perturbs_messages
    True
    """

    name = "graph-homomorphic"
    reference = "Rizk et al. 2023, with a start that is noised"
    formula = "nu_t = -eta nu_{t-1} + A (nu_{t-1} + q_t) - q_t + eta xi,  nu_0 = xi + d_0"
    start = Coefficients(innovation=1.0, noise=1.0)
    perturbs_messages = derives_messages = True

    def __post_init__(self) -> None:
        """A step beyond 1 would overshoot."""
        super().__post_init__()
        if self.eta > 1:
            raise AlgorithmError(f"eta must be at most 1; found {self.eta}")

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """A gradient step after mixing; the own noise is taken off again."""
        return Coefficients(own=-self.eta, mixing=1.0, innovation=self.eta, noise=-1.0)

    def sensitivities(self, t: int) -> Sensitivities:
        """The statistic at the start; then the fraction of it that a round reveals by itself."""
        return Sensitivities(signal=1 - (1 - self.eta) ** t if t else 1.0, network=1.0)
