"""Noise that may leave an agent: the stated law itself, from the operating system's entropy.

`ExactLaplace` and `ExactDiscreteLaplace` are the mechanisms, `DiscreteLaplace` the law they draw
from, and `support_attack` the attack that floating-point noise does not survive and they do.
"""

from __future__ import annotations

from murmura.privacy.exact.discrete import DiscreteLaplace
from murmura.privacy.exact.entropy import SYSTEM, Entropy, PredictableEntropy, SystemEntropy
from murmura.privacy.exact.laplace import ExactDiscreteLaplace, ExactLaplace
from murmura.privacy.exact.leak import (
    SupportReport,
    float_sum_support,
    grid_support,
    inversion_support,
    numpy_support,
    support_attack,
)

__all__ = [
    "SYSTEM",
    "DiscreteLaplace",
    "Entropy",
    "ExactDiscreteLaplace",
    "ExactLaplace",
    "PredictableEntropy",
    "SupportReport",
    "SystemEntropy",
    "float_sum_support",
    "grid_support",
    "inversion_support",
    "numpy_support",
    "support_attack",
]
