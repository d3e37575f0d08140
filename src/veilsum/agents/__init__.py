"""Real agents: one on each site, over a real network, with certificates and a crash-safe ledger.

`Agent` is an agent's state machine, without input or output: events in, actions out. A `Node`
carries out the actions of the agents of one process, over a `Transport`, with a `Ledger` for each.
`up` runs a scenario by real processes on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.agents.config import Setup
    from veilsum.agents.ledger import Ledger, verify
    from veilsum.agents.ledger.page import ledger_page
    from veilsum.agents.local_cluster.cluster import LaunchOptions, up
    from veilsum.agents.manifest import Manifest
    from veilsum.agents.pki import Authority, Credentials
    from veilsum.agents.protocol import Agent, Options
    from veilsum.agents.readings import (
        CommandReadings,
        CsvReadings,
        HttpReadings,
        IterableReadings,
        MqttReadings,
        SqlReadings,
    )
    from veilsum.agents.release import ReleaseMechanism, guarantee
    from veilsum.agents.results import AgentResult
    from veilsum.agents.runtime.node import Node
    from veilsum.agents.runtime.status import AgentStatus
    from veilsum.agents.transport.base import Transport
    from veilsum.agents.transport.memory import MemoryTransport
    from veilsum.agents.transport.zenoh import ZenohTransport
    from veilsum.agents.wire import decode, encode

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
    "ledger_page": "ledger.page",
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
    "ledger_page",
    "up",
    "verify",
]

__getattr__ = lazily(__name__, _WHERE)
