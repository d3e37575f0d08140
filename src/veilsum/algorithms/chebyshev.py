"""chebyshev: the average, accelerated for a known spectrum.

    nu_t = P_t(A) nu_0,    P_t(x) = T_t((x - c)/r) / T_t((1 - c)/r)

with [c - r, c + r] = [lambda_n, lambda_2]. P_t(1) = 1, and no polynomial of degree t with that
value is smaller on the interval: disagreement falls by about 1 - sqrt(2 gap) a round instead of
1 - gap. Dividing T_{t+1} = 2 x T_t - T_{t-1} by T_{t+1}(z), with z = (1-c)/r, gives

    nu_t = omega_t (A - c I)/(1-c) nu_{t-1} + (1 - omega_t) nu_{t-2},
    omega_t = 2 z T_{t-1}(z) / T_t(z),    omega_1 = 1.

Golub and Varga (1961). All of it is post-processing of nu_0 and costs no epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from veilsum._types import Network, SymmetricNetwork
from veilsum.algorithms.average import Average
from veilsum.algorithms.base import DOUBLY, Coefficients
from veilsum.errors import AlgorithmError


@dataclass(frozen=True)
class Chebyshev(Average):
    """nu_t = T_t((A - c)/r) / T_t((1 - c)/r) nu_0.

    Parameters
    ----------
    lambda_2 : float
        The largest eigenvalue below 1; `get` reads it from the network.
    lambda_n : float
        The smallest eigenvalue, likewise.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.Chebyshev(lambda_2=0.9, lambda_n=-0.9).at(1).mixing
    1.0
    """

    lambda_2: float
    lambda_n: float

    name = "chebyshev"
    reference = "beyond the paper; Golub and Varga 1961"
    formula = "nu_t = w_t (A - c)/(1-c) nu_{t-1} + (1 - w_t) nu_{t-2},  nu_0 = xi + d"
    static_only = fitted = largest_at_lambda_2 = True
    kinds = frozenset({DOUBLY})
    claims_network_dp = False

    def __post_init__(self) -> None:
        """Check that the interval lies inside (-1, 1)."""
        if not -1 <= self.lambda_n <= self.lambda_2 < 1:
            raise AlgorithmError(
                "chebyshev needs -1 <= lambda_n <= lambda_2 < 1; found "
                f"lambda_2 = {self.lambda_2}, lambda_n = {self.lambda_n}"
            )

    @classmethod
    def for_network(cls, network: Network, **options: Any) -> Chebyshev:
        """Read the spectrum from the network unless it is given."""
        symmetric = cast("SymmetricNetwork", network)  # `fits` has checked it
        for name in {"lambda_2", "lambda_n"} - options.keys():
            options[name] = getattr(symmetric, name)
        return cls(**options)

    def coefficients(self, t: int) -> Coefficients:
        """Give the numbers of the three-term recurrence."""
        c = (self.lambda_2 + self.lambda_n) / 2
        omega = _omega(t, r=(self.lambda_2 - self.lambda_n) / (2 * (1 - c)))
        return Coefficients(own=-c * omega / (1 - c), mixing=omega / (1 - c), momentum=1 - omega)


def _omega(t: int, r: float) -> float:
    """2 z T_{t-1}(z) / T_t(z) at z = 1/r; T_t(z) = cosh(t phi) with cosh(phi) = z."""
    if t == 1 or r == 0:
        return 1.0
    phi = math.acosh(1 / r)
    fade = (1 + math.exp(-2 * (t - 1) * phi)) / (1 + math.exp(-2 * t * phi))
    return 2 / r * math.exp(-phi) * fade
