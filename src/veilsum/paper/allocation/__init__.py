"""Allocation: the epsilon of each agent, so that the noise of all together costs least."""

from __future__ import annotations

from veilsum.paper.allocation.central import (
    as_published,
    homogeneous,
    improvement_bounds,
    optimal,
)
from veilsum.paper.allocation.neighbourhood import decentralised
from veilsum.paper.allocation.problem import AgentSensitivities, Allocation

__all__ = [
    "AgentSensitivities",
    "Allocation",
    "as_published",
    "decentralised",
    "homogeneous",
    "improvement_bounds",
    "optimal",
]
