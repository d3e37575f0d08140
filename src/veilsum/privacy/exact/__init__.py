"""Exact samplers: the stated distribution itself, from the operating system's entropy.

`DiscreteLaplace` is the distribution that additive mechanisms draw from,
`GeneralizedDiscreteLaplace` the parts that several agents draw of one discrete Laplace, `coins` the Bernoulli
trials under it, and `Entropy` where the bits come from. The mechanisms that use them are in
`veilsum.privacy.mechanisms`; `veilsum.auditing.support_attack` is the attack that floating-point
noise fails and exact noise survives.
"""

from __future__ import annotations

from veilsum.privacy.exact.discrete import DiscreteLaplace
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, SystemEntropy
from veilsum.privacy.exact.poisson import PoissonSampler
from veilsum.privacy.exact.shares import GeneralizedDiscreteLaplace

__all__ = [
    "SYSTEM",
    "DiscreteLaplace",
    "Entropy",
    "GeneralizedDiscreteLaplace",
    "PoissonSampler",
    "SystemEntropy",
]
