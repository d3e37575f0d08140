"""Exact samplers: the stated distribution itself, from the operating system's entropy.

`DiscreteLaplace` is the distribution that additive mechanisms draw from,
`GeneralizedDiscreteLaplace` the parts that several agents draw of one discrete Laplace, `coins` the Bernoulli
trials under it, `Entropy` where the bits come from, and `support_attack` the attack that
floating-point noise fails and exact noise survives. The mechanisms that use them are in
`murmura.privacy.mechanisms`.
"""

from __future__ import annotations

from murmura.privacy.exact.discrete import DiscreteLaplace
from murmura.privacy.exact.entropy import SYSTEM, Entropy, SystemEntropy
from murmura.privacy.exact.leak import (
    SupportReport,
    float_sum_support,
    grid_support,
    inversion_support,
    numpy_support,
    support_attack,
)
from murmura.privacy.exact.poisson import PoissonSampler
from murmura.privacy.exact.shares import GeneralizedDiscreteLaplace

__all__ = [
    "SYSTEM",
    "DiscreteLaplace",
    "Entropy",
    "GeneralizedDiscreteLaplace",
    "PoissonSampler",
    "SupportReport",
    "SystemEntropy",
    "float_sum_support",
    "grid_support",
    "inversion_support",
    "numpy_support",
    "support_attack",
]
