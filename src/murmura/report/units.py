"""One error in two units: `run` measures norms over all agents, `plan` errors of one agent.

    RMS error per agent = l2 norm over agents / sqrt(n)

Both are of the statistic xi, all its components together; neither is an MSE.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from murmura.report.result import Result

NORM, PER_AGENT = "l2 norm over agents", "RMS error per agent"


class Errors(NamedTuple):
    """Final errors, mean over replicas: norms over all agents, never an MSE."""

    total: Any
    privacy: Any
    decentralisation: Any


def per_agent(errors: Errors, agents: int) -> Errors:
    """The norms over sqrt(n): what a typical agent is off by."""
    return Errors(*(_over(value, math.sqrt(agents)) for value in errors))


def in_both_units(result: Result) -> dict[str, Errors]:
    """The errors of a result, by the name of the unit."""
    return {NORM: result.errors, PER_AGENT: per_agent(result.errors, result.problem.network.size)}


def _over(value: Any, root: float) -> Any:
    return value / root if np.ndim(value) == 0 else np.asarray(value) / root
