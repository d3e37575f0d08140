"""Mechanisms: noise with a guarantee, a mean and a variance, and the choice between them.

    LaplaceMechanism, DiscreteLaplaceMechanism, StaircaseMechanism    additive, fixed sensitivity
    DuchiMechanism, PiecewiseMechanism, HybridMechanism               local, a value of [low, high]
    SmoothLaplaceMechanism, StudentTMechanism                         scaled by a smooth sensitivity
    MaskedMechanism                                                   a part of one noise, in a sum
    best(epsilon, domain)                                             the least worst-case variance

Each has `sample`, fast and for simulation only, and `release`, exact, for what leaves an agent.
"""

from __future__ import annotations

from veilsum.privacy.mechanisms.additive import (
    DiscreteLaplaceMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
    staircase_variance,
)
from veilsum.privacy.mechanisms.base import (
    BoundedSignal,
    Domain,
    IdentityMechanism,
    IntegerStatistic,
    Mechanism,
    RealStatistic,
)
from veilsum.privacy.mechanisms.choose import Alternative, Choice, best, make, names
from veilsum.privacy.mechanisms.local import (
    HYBRID_FROM,
    DuchiMechanism,
    HybridMechanism,
    PiecewiseMechanism,
)
from veilsum.privacy.mechanisms.masked import MaskedMechanism
from veilsum.privacy.mechanisms.smooth import (
    SmoothLaplaceMechanism,
    StudentTMechanism,
    best_degrees,
    laplace_delta,
    laplace_factor,
    smooth_laplace_delta,
    student_t_loss,
    student_t_multiple,
)

__all__ = [
    "HYBRID_FROM",
    "Alternative",
    "BoundedSignal",
    "Choice",
    "DiscreteLaplaceMechanism",
    "Domain",
    "DuchiMechanism",
    "HybridMechanism",
    "IdentityMechanism",
    "IntegerStatistic",
    "LaplaceMechanism",
    "MaskedMechanism",
    "Mechanism",
    "PiecewiseMechanism",
    "RealStatistic",
    "SmoothLaplaceMechanism",
    "StaircaseMechanism",
    "StudentTMechanism",
    "best",
    "best_degrees",
    "laplace_delta",
    "laplace_factor",
    "make",
    "names",
    "smooth_laplace_delta",
    "staircase_variance",
    "student_t_loss",
    "student_t_multiple",
]
