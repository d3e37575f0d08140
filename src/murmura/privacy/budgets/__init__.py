"""Budgets: how much epsilon each agent may spend, so that all together lose least to noise."""

from __future__ import annotations

from murmura.privacy.budgets.central import homogeneous, improvement_bounds, optimal, printed
from murmura.privacy.budgets.neighbourhood import decentralised
from murmura.privacy.budgets.oracle import decentralised_oracle, optimal_oracle
from murmura.privacy.budgets.problem import Allocation, Sensitivities

__all__ = [
    "Allocation",
    "Sensitivities",
    "decentralised",
    "decentralised_oracle",
    "homogeneous",
    "improvement_bounds",
    "optimal",
    "optimal_oracle",
    "printed",
]
