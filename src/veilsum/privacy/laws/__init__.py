"""Laws of noise on the integers: exact draws, parts that add up, costs, tails and intervals."""

from __future__ import annotations

from veilsum.privacy.laws.base import Law
from veilsum.privacy.laws.discrete_laplace import DiscreteLaplace
from veilsum.privacy.laws.shares import GeneralizedDiscreteLaplace
from veilsum.privacy.laws.skellam import Skellam, SkellamCost, skellam_variance

__all__ = [
    "DiscreteLaplace",
    "GeneralizedDiscreteLaplace",
    "Law",
    "Skellam",
    "SkellamCost",
    "skellam_variance",
]
