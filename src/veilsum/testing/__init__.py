"""Test tools: a simulated network, faults for real ones, virtual time, seeded entropy, a check of algorithms.

The simulated network and the seeded entropy must not run in production: noise that can be predicted
protects nobody. The transport in memory is that of `veilsum.agents.transport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.agents.transport.memory import Faults, MemoryNetwork, MemoryTransport
    from veilsum.testing.clock import VirtualClock, VirtualTime
    from veilsum.testing.contract import AlgorithmCheck, check_algorithm
    from veilsum.testing.entropy import PredictableEntropy
    from veilsum.testing.lossy import LossyTransport
    from veilsum.testing.network import SimulatedAgent, SimulatedNetwork
    from veilsum.testing.proxy import FaultyProxy

_WHERE = {
    "AlgorithmCheck": "contract",
    "Faults": "network",
    "FaultyProxy": "proxy",
    "LossyTransport": "lossy",
    "MemoryNetwork": "network",
    "MemoryTransport": "network",
    "PredictableEntropy": "entropy",
    "SimulatedAgent": "network",
    "SimulatedNetwork": "network",
    "VirtualClock": "clock",
    "VirtualTime": "clock",
    "check_algorithm": "contract",
}

__all__ = [
    "AlgorithmCheck",
    "Faults",
    "FaultyProxy",
    "LossyTransport",
    "MemoryNetwork",
    "MemoryTransport",
    "PredictableEntropy",
    "SimulatedAgent",
    "SimulatedNetwork",
    "VirtualClock",
    "VirtualTime",
    "check_algorithm",
]

__getattr__ = lazily(__name__, _WHERE)
