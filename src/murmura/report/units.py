"""One error in two units: `run` measures norms over all agents, `plan` errors of one agent.

    RMS error per agent = l2 norm over agents / sqrt(n)

Both are of the statistic xi, all its components together; neither is an MSE.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Errors(NamedTuple):
    """Final errors, mean over replicas: norms over all agents, never an MSE."""

    total: Any
    privacy: Any
    decentralisation: Any


def per_agent(errors: Errors, agents: int) -> Errors:
    """The norms over sqrt(n): what a typical agent is off by."""
    return Errors(*(_over(value, math.sqrt(agents)) for value in errors))


def _over(value: Any, root: float) -> Any:
    return value / root if np.ndim(value) == 0 else np.asarray(value) / root
