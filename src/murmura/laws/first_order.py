"""first-order: the gradient method of Rizk et al. (2023), the paper's baseline (App. B).

    nu_0 = xi,    nu_t = A nu_{t-1} - eta (nu_{t-1} - xi) + d_t

with graph-homomorphic noise as printed, which cancels at every agent (erratum 12; the scheme of
Rizk et al. is `graph-homomorphic`), and before that simplification

    nu_t = A nu_{t-1} + sum_j a_ij g_ij,t - eta (nu_{t-1} - xi) + d_t

with noise g of its own for every link (the own one included) and round. Noise enters in every
round, so a budget of epsilon is split over the T rounds: d_t hides eta xi in each (Lap(eta T
Delta / eps)) or, with Network DP, the neighbours too (Lap(T max(max_j a_ij, eta Delta) / eps));
g_ij,t hides an estimate that moves by 1, so Lap(T / eps).

As stated the method starts from nu_0 = xi, and its first message is that statistic without any
noise: murmura runs it as a baseline and promises nothing for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from murmura import _validate
from murmura.errors import LawError
from murmura.laws.base import Coefficients, Law, Sensitivities


@dataclass(frozen=True)
class FirstOrder(Law):
    """nu_t = (A - eta I) nu_{t-1} + eta xi + d_t."""

    eta: float = 0.001

    name: ClassVar[str] = "first-order"
    reference: ClassVar[str] = "App. B (Rizk et al. 2023), as printed"
    formula: ClassVar[str] = "nu_t = -eta nu_{t-1} + A nu_{t-1} + eta xi + d_t,  nu_0 = xi"
    start: ClassVar[Coefficients] = Coefficients(learn=1.0)
    splits_budget: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the learning rate."""
        _validate.positive(LawError, eta=self.eta)

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """One gradient step of (m - xi)^2 / 2 after mixing."""
        return Coefficients(keep=-self.eta, mix=1.0, learn=self.eta, noise=1.0)


@dataclass(frozen=True)
class FirstOrderOnline(FirstOrder):
    """The same step on a fresh signal in every round."""

    name: ClassVar[str] = "first-order-online"
    reference: ClassVar[str] = "App. B (Rizk et al. 2023), applied to a stream"
    formula: ClassVar[str] = "nu_t = -eta nu_{t-1} + A nu_{t-1} + eta xi_t + d_t,  nu_0 = 0"
    start: ClassVar[Coefficients] = Coefficients()
    online: ClassVar[bool] = True


@dataclass(frozen=True)
class FirstOrderEdges(FirstOrder):
    """The method before the simplification: noise of its own for every link and round."""

    name: ClassVar[str] = "first-order-edges"
    reference: ClassVar[str] = "App. B (Rizk et al. 2023), noise per link and round"
    formula: ClassVar[str] = (
        "nu_t = -eta nu_{t-1} + A nu_{t-1} + sum_j a_ij g_ij,t + eta xi + d_t,  nu_0 = xi"
    )
    noises_links: ClassVar[bool] = True

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the same in every round
        """As first-order, with the links' noise beside d_t."""
        return Coefficients(keep=-self.eta, mix=1.0, learn=self.eta, noise=1.0, edge=1.0)

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """d_t hides the signal alone: the neighbours have the links' noise."""
        return Sensitivities(signal=self.eta, network=0.0)
