"""Mechanisms: noise with a guarantee, a mean and a variance, and the choice between them.

    laplace, discrete-laplace, staircase, gaussian    additive, fixed sensitivity
    duchi, piecewise, hybrid                          local, a value of [low, high]
    unary, subset                                     local, one of k categories
    smooth-laplace, student-t                         scaled by a smooth sensitivity
    secure-sum, masked                                a part of one noise, in a sum
    best(statistic, epsilon)                          the least worst-case variance

One file each, which registers itself (`MECHANISMS`). Each has `sample`, fast and for simulation only,
and `release`, exact, for what leaves an agent.
"""

from __future__ import annotations

from veilsum.privacy.mechanisms.base import MECHANISMS, IdentityMechanism, Mechanism
from veilsum.privacy.mechanisms.choose import Choice, best, make, names
from veilsum.privacy.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from veilsum.privacy.mechanisms.duchi import DuchiMechanism
from veilsum.privacy.mechanisms.hybrid import HYBRID_FROM, HybridMechanism
from veilsum.privacy.mechanisms.laplace import LaplaceMechanism
from veilsum.privacy.mechanisms.masked import MaskedMechanism
from veilsum.privacy.mechanisms.piecewise import PiecewiseMechanism
from veilsum.privacy.mechanisms.secure import SecureMechanism
from veilsum.privacy.mechanisms.smooth_laplace import (
    SmoothLaplaceMechanism,
    laplace_delta,
    laplace_factor,
    smooth_laplace_delta,
)
from veilsum.privacy.mechanisms.staircase import StaircaseMechanism, staircase_variance
from veilsum.privacy.mechanisms.student_t import (
    StudentTMechanism,
    best_degrees,
    student_t_loss,
    student_t_multiple,
)
from veilsum.privacy.mechanisms.subset import SubsetMechanism
from veilsum.privacy.mechanisms.unary import UnaryMechanism

__all__ = [
    "HYBRID_FROM",
    "MECHANISMS",
    "Choice",
    "DiscreteLaplaceMechanism",
    "DuchiMechanism",
    "HybridMechanism",
    "IdentityMechanism",
    "LaplaceMechanism",
    "MaskedMechanism",
    "Mechanism",
    "PiecewiseMechanism",
    "SecureMechanism",
    "SmoothLaplaceMechanism",
    "StaircaseMechanism",
    "StudentTMechanism",
    "SubsetMechanism",
    "UnaryMechanism",
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
