"""Exact samplers: the stated distribution itself, from the operating system's entropy.

The laws that are drawn are in `veilsum.privacy.laws`; here are the `coins` under them, the grid that a
release lies on, `Entropy`, where the bits come from, and `support_attack` the attack that
floating-point noise fails and exact noise survives. The mechanisms that use them are in
`veilsum.privacy.mechanisms`.
"""

from __future__ import annotations

from veilsum.privacy.exact.entropy import SYSTEM, Entropy, SystemEntropy
from veilsum.privacy.exact.leak import (
    SupportReport,
    float_sum_support,
    grid_support,
    inversion_support,
    numpy_support,
    support_attack,
)
from veilsum.privacy.exact.poisson import PoissonSampler

__all__ = [
    "SYSTEM",
    "Entropy",
    "PoissonSampler",
    "SupportReport",
    "SystemEntropy",
    "float_sum_support",
    "grid_support",
    "inversion_support",
    "numpy_support",
    "support_attack",
]
