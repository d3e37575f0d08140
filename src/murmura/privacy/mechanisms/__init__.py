"""Mechanisms: noise with a promise, a mean and a variance, and the choice between them.

Laplace, DiscreteLaplace, Staircase     additive, for a fixed sensitivity
Duchi, Piecewise, Hybrid                local, any two values of [low, high]
StudentT, SmoothLaplace                 in proportion to a smooth sensitivity
best(epsilon, domain)                   the least worst-case variance, and by how much
"""

from __future__ import annotations

from murmura.privacy.mechanisms.additive import DiscreteLaplace, Laplace
from murmura.privacy.mechanisms.base import AdditiveNoise, Mechanism
from murmura.privacy.mechanisms.choose import (
    Alternative,
    BoundedSignal,
    Choice,
    Domain,
    IntegerStatistic,
    RealStatistic,
    best,
)
from murmura.privacy.mechanisms.local import (
    HYBRID_FROM,
    Duchi,
    Hybrid,
    LocalMechanism,
    Piecewise,
)
from murmura.privacy.mechanisms.smooth import (
    SmoothNoise,
    StudentT,
    best_degrees,
    student_t_loss,
    student_t_multiple,
)
from murmura.privacy.mechanisms.smooth_laplace import (
    SmoothLaplace,
    laplace_delta,
    laplace_factor,
    smooth_laplace_delta,
)
from murmura.privacy.mechanisms.staircase import Staircase, staircase_variance

__all__ = [
    "HYBRID_FROM",
    "AdditiveNoise",
    "Alternative",
    "BoundedSignal",
    "Choice",
    "DiscreteLaplace",
    "Domain",
    "Duchi",
    "Hybrid",
    "IntegerStatistic",
    "Laplace",
    "LocalMechanism",
    "Mechanism",
    "Piecewise",
    "RealStatistic",
    "SmoothLaplace",
    "SmoothNoise",
    "Staircase",
    "StudentT",
    "best",
    "best_degrees",
    "laplace_delta",
    "laplace_factor",
    "smooth_laplace_delta",
    "staircase_variance",
    "student_t_loss",
    "student_t_multiple",
]
