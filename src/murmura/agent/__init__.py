"""Real agents: one on each site, over a real network, with certificates and a crash-safe ledger.

`Core` decides and touches nothing: events in, actions out. A `Node` carries out what the cores of
one process ask for, over a `Transport`, with a `Ledger` for each agent. `murmura.agent.fleet.up`
runs a scenario by real processes on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.agent.config import Setup
    from murmura.agent.core import Core, Options
    from murmura.agent.fleet.launch import Terms, up
    from murmura.agent.keys import Authority, Credentials
    from murmura.agent.ledger import Ledger, verify
    from murmura.agent.manifest import Manifest
    from murmura.agent.node.node import Node
    from murmura.agent.node.readings import Command, Follow, Given
    from murmura.agent.release import Drawer, guarantee
    from murmura.agent.transport.base import Transport
    from murmura.agent.transport.memory import MemoryTransport
    from murmura.agent.transport.zenoh import ZenohTransport
    from murmura.agent.wire import decode, encode

_WHERE = {
    "Authority": "keys",
    "Command": "node.readings",
    "Core": "core",
    "Credentials": "keys",
    "Drawer": "release",
    "Follow": "node.readings",
    "Given": "node.readings",
    "Ledger": "ledger",
    "Manifest": "manifest",
    "MemoryTransport": "transport.memory",
    "Node": "node.node",
    "Options": "core",
    "Setup": "config",
    "Terms": "fleet.launch",
    "Transport": "transport.base",
    "ZenohTransport": "transport.zenoh",
    "decode": "wire",
    "encode": "wire",
    "guarantee": "release",
    "up": "fleet.launch",
    "verify": "ledger",
}

__all__ = [
    "Authority",
    "Command",
    "Core",
    "Credentials",
    "Drawer",
    "Follow",
    "Given",
    "Ledger",
    "Manifest",
    "MemoryTransport",
    "Node",
    "Options",
    "Setup",
    "Terms",
    "Transport",
    "ZenohTransport",
    "decode",
    "encode",
    "guarantee",
    "up",
    "verify",
]

__getattr__ = lazily(__name__, _WHERE)
