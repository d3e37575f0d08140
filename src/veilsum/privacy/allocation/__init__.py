"""Allocation: the epsilon of each agent, so that the noise of all together costs least."""

from __future__ import annotations

from veilsum.privacy.allocation.central import (
    as_published,
    homogeneous,
    improvement_bounds,
    optimal,
    optimal_oracle,
)
from veilsum.privacy.allocation.neighbourhood import decentralised, decentralised_oracle
from veilsum.privacy.allocation.problem import AgentSensitivities, Allocation

__all__ = [
    "AgentSensitivities",
    "Allocation",
    "as_published",
    "decentralised",
    "decentralised_oracle",
    "homogeneous",
    "improvement_bounds",
    "optimal",
    "optimal_oracle",
]
