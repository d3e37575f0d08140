"""jacobi: polynomial gossip for graphs of a given spectral dimension.

    nu_t = P_t(A) nu_0,    P_t(x) = J_t^{(d/2, 0)}(x) / J_t^{(d/2, 0)}(1)

On graphs that look d-dimensional, the eigenvalues near 1 have density (1 - x)^{d/2 - 1}; the
polynomials orthogonal for (1 - x)^{d/2} then nearly minimise the disagreement at every t, with no
spectral gap to know. Dividing the recurrence of the Jacobi polynomials (DLMF 18.9.2, beta = 0,
alpha = d/2) by their values at 1 gives, with s = 2t - 2 + alpha for round t,

    mixing   = (s+1)(s+2) / (2 (t+alpha)^2)
    own      = alpha^2 (s+1) / (2 (t+alpha)^2 s)
    momentum = -(t-1)^2 (s+2) / ((t+alpha)^2 s)

Berthier, Bach and Gaillard (2020). Post-processing of nu_0: it costs no epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum import _validate
from veilsum.algorithms.average import Average
from veilsum.algorithms.base import DOUBLY, Coefficients
from veilsum.errors import AlgorithmError


@dataclass(frozen=True)
class Jacobi(Average):
    """nu_t = J_t(A)/J_t(1) nu_0.

    Parameters
    ----------
    dimension : float
        The spectral dimension of the graph: 2 for grids and geometric graphs in the plane.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.Jacobi(dimension=2).at(1).mixing
    0.75
    """

    dimension: float = 2.0

    name = "jacobi"
    reference = "beyond the paper; Berthier, Bach and Gaillard 2020"
    formula = "nu_t = b_t nu_{t-1} + a_t A nu_{t-1} + c_t nu_{t-2},  nu_0 = xi + d"
    static_only = True
    kinds = frozenset({DOUBLY})
    claims_network_dp = False

    def __post_init__(self) -> None:
        """Check the dimension."""
        _validate.positive(AlgorithmError, dimension=self.dimension)

    def coefficients(self, t: int) -> Coefficients:
        """Give the numbers of the three-term recurrence."""
        alpha = self.dimension / 2
        s, scale = 2 * t - 2 + alpha, (t + alpha) ** 2
        return Coefficients(
            own=alpha**2 * (s + 1) / (2 * scale * s),
            mixing=(s + 1) * (s + 2) / (2 * scale),
            momentum=-((t - 1) ** 2) * (s + 2) / (scale * s),
        )
