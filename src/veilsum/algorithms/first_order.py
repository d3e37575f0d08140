"""first-order: the gradient method of Rizk et al. (2023), the paper's baseline (App. B).

    nu_0 = xi,    nu_t = A nu_{t-1} - eta (nu_{t-1} - xi) + d_t

with graph-homomorphic noise as published, which cancels at every agent (erratum 12; the scheme of
Rizk et al. is `graph-homomorphic`), and before that simplification

    nu_t = A nu_{t-1} + sum_j a_ij g_ij,t - eta (nu_{t-1} - xi) + d_t

with independent noise g for every link (an agent's link to itself included) and round. Noise enters in every
round, so a budget of epsilon is split over the T rounds: d_t hides eta xi in each (Lap(eta T
Delta / eps)) or, with Network DP, the neighbours too (Lap(T max(max_j a_ij, eta Delta) / eps));
g_ij,t hides an estimate that moves by 1, so Lap(T / eps).

As stated the method starts from nu_0 = xi, and its first message is that statistic without any
noise: veilsum runs it as a baseline and guarantees nothing for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum import _validate
from veilsum._types import Network
from veilsum.algorithms.base import Algorithm, Coefficients, Sensitivities
from veilsum.errors import AlgorithmError


@dataclass(frozen=True)
class FirstOrder(Algorithm):
    """nu_t = (A - eta I) nu_{t-1} + eta xi + d_t.

    Parameters
    ----------
    eta : float
        The learning rate, above 0.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.FirstOrder(eta=0.1).starts_without_noise
    True
    """

    eta: float = 0.001

    name = "first-order"
    reference = "App. B (Rizk et al. 2023), as published"
    formula = "nu_t = -eta nu_{t-1} + A nu_{t-1} + eta xi + d_t,  nu_0 = xi"
    start = Coefficients(innovation=1.0)
    splits_budget = True
    bare_erratum = 9

    def __post_init__(self) -> None:
        """Check the learning rate."""
        _validate.positive(AlgorithmError, eta=self.eta)

    def divergence(self, network: Network, hides_neighbours: bool) -> str | None:
        """A - eta I has the eigenvalues lambda - eta, none of which may be beyond -1: eta <= 1 + lambda_n."""
        largest = 1 + float(getattr(network, "lambda_n", 1.0))  # at most 2, whatever the network
        if self.eta <= largest:
            return super().divergence(network, hides_neighbours)
        return (
            f"each round multiplies an error by up to {1 + self.eta - largest:.4g} with eta = "
            f"{self.eta:g}; on this network eta must be at most {largest:.4g}"
        )

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """One gradient step of (m - xi)^2 / 2 after mixing."""
        return Coefficients(own=-self.eta, mixing=1.0, innovation=self.eta, noise=1.0)


@dataclass(frozen=True)
class FirstOrderOnline(FirstOrder):
    """nu_t = (A - eta I) nu_{t-1} + eta xi_t + d_t: the same step on a new signal in every round.

    Parameters
    ----------
    eta : float
        The learning rate, above 0.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.FirstOrderOnline(eta=0.1).online
    True
    """

    name = "first-order-online"
    reference = "App. B (Rizk et al. 2023), applied to a stream"
    formula = "nu_t = -eta nu_{t-1} + A nu_{t-1} + eta xi_t + d_t,  nu_0 = 0"
    start = Coefficients()
    online = fades = True


@dataclass(frozen=True)
class FirstOrderEdges(FirstOrder):
    """The method before the simplification: independent noise for every link and round.

    Parameters
    ----------
    eta : float
        The learning rate, above 0.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.FirstOrderEdges(eta=0.1).at(1).link_noise
    1.0
    """

    name = "first-order-edges"
    reference = "App. B (Rizk et al. 2023), noise per link and round"
    formula = "nu_t = -eta nu_{t-1} + A nu_{t-1} + sum_j a_ij g_ij,t + eta xi + d_t,  nu_0 = xi"
    perturbs_links = True

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """As first-order, with the links' noise in addition to d_t."""
        return Coefficients(
            own=-self.eta, mixing=1.0, innovation=self.eta, noise=1.0, link_noise=1.0
        )

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """d_t hides the signal alone: the neighbours have the links' noise."""
        return Sensitivities(signal=self.eta, network=0.0)
