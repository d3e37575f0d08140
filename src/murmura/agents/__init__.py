"""Real agents: one on each site, over a real network, with certificates and a crash-safe ledger.

`Agent` is an agent's state machine, without input or output: events in, actions out. A `Node`
carries out the actions of the agents of one process, over a `Transport`, with a `Ledger` for each.
`up` runs a scenario by real processes on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.agents.config import Setup
    from murmura.agents.ledger import Ledger, verify
    from murmura.agents.local_cluster.cluster import LaunchOptions, up
    from murmura.agents.manifest import Manifest
    from murmura.agents.pki import Authority, Credentials
    from murmura.agents.protocol import Agent, Options
    from murmura.agents.readings import (
        CommandReadings,
        CsvReadings,
        HttpReadings,
        IterableReadings,
        MqttReadings,
        SqlReadings,
    )
    from murmura.agents.release import ReleaseMechanism, guarantee
    from murmura.agents.results import AgentResult
    from murmura.agents.runtime.node import Node
    from murmura.agents.runtime.status import AgentStatus
    from murmura.agents.transport.base import Transport
    from murmura.agents.transport.memory import MemoryTransport
    from murmura.agents.transport.zenoh import ZenohTransport
    from murmura.agents.wire import decode, encode

_WHERE = {
    "Agent": "protocol",
    "AgentResult": "results",
    "AgentStatus": "runtime.status",
    "Authority": "pki",
    "CommandReadings": "readings",
    "Credentials": "pki",
    "CsvReadings": "readings",
    "HttpReadings": "readings",
    "MqttReadings": "readings",
    "SqlReadings": "readings",
    "ReleaseMechanism": "release",
    "IterableReadings": "readings",
    "LaunchOptions": "local_cluster.cluster",
    "Ledger": "ledger",
    "Manifest": "manifest",
    "MemoryTransport": "transport.memory",
    "Node": "runtime.node",
    "Options": "protocol",
    "Setup": "config",
    "Transport": "transport.base",
    "ZenohTransport": "transport.zenoh",
    "decode": "wire",
    "encode": "wire",
    "guarantee": "release",
    "up": "local_cluster.cluster",
    "verify": "ledger",
}

__all__ = [
    "Agent",
    "AgentResult",
    "AgentStatus",
    "Authority",
    "CommandReadings",
    "Credentials",
    "CsvReadings",
    "HttpReadings",
    "IterableReadings",
    "LaunchOptions",
    "Ledger",
    "Manifest",
    "MemoryTransport",
    "MqttReadings",
    "Node",
    "Options",
    "ReleaseMechanism",
    "Setup",
    "SqlReadings",
    "Transport",
    "ZenohTransport",
    "decode",
    "encode",
    "guarantee",
    "up",
    "verify",
]

__getattr__ = lazily(__name__, _WHERE)
