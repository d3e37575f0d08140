"""Test tools: a simulated network, faults for real ones, virtual time, seeded entropy, a check of algorithms.

The simulated network and the seeded entropy must not run in production: noise that can be predicted
protects nobody. The transport in memory is that of `murmura.agents.transport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.agents.transport.memory import Faults, MemoryNetwork, MemoryTransport
    from murmura.testing.clock import VirtualClock, VirtualTime
    from murmura.testing.contract import AlgorithmCheck, check_algorithm
    from murmura.testing.entropy import PredictableEntropy
    from murmura.testing.lossy import LossyTransport
    from murmura.testing.network import SimulatedAgent, SimulatedNetwork
    from murmura.testing.proxy import FaultyProxy

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
