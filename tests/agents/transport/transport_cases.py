"""What the suites over transports share: networks of devices, and ears that remember."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Any

from veilsum.agents.events import PeerDown, PeerUp, Received
from veilsum.agents.messages import CumulativeMass, Hello
from veilsum.agents.pki import Authority
from veilsum.agents.transport.base import Arrival, Refused, Transport
from veilsum.agents.transport.zenoh import ZenohTransport

KINDS = ("memory", "zenoh", "zenoh-mtls")
PATIENCE = 30.0


class Ears:
    """Everything that was delivered, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Arrival]] = []

    def __call__(self, agent: str, arrival: Arrival) -> None:
        self.heard.append((agent, arrival))

    def messages(self, agent: str) -> list[Any]:
        return [a.message for who, a in self.heard if who == agent and isinstance(a, Received)]

    def refused(self) -> list[Refused]:
        return [a for _, a in self.heard if isinstance(a, Refused)]

    def is_up(self, agent: str, peer: str) -> bool:
        last = None
        for who, arrival in list(self.heard):
            if who == agent and isinstance(arrival, PeerUp | PeerDown) and arrival.peer == peer:
                last = arrival
        return isinstance(last, PeerUp)


def has(ears: Ears, message: Any) -> bool:
    return message in ears.messages(message.receiver)


def wait_for(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> float:
    """Wait until it holds, and say how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience, f"waited {patience} s in vain for {what}"
        time.sleep(0.002)
    return time.monotonic() - began


def free_port() -> int:
    """A port that is free, below those that the system gives to outgoing connections."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as held, suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port


class Devices(AbstractContextManager["Devices"]):
    """Devices that host agents, linked as `links` says, over one kind of transport."""

    def __init__(
        self,
        kind: str,
        hosts: Mapping[str, list[str]],
        links: list[tuple[str, str]],
        authority: Authority,
    ) -> None:
        self.kind, self.hosts, self.authority = kind, hosts, authority
        self.around: dict[str, set[str]] = {a: set() for agents in hosts.values() for a in agents}
        for a, b in links:
            self.around[a].add(b)
            self.around[b].add(a)
        self.ears = {device: Ears() for device in hosts}
        self.ports = {device: free_port() for device in hosts}
        self.transports: dict[str, Transport] = {}
        self.everybody_connects = False
        self.memory: Any = None
        if kind == "memory":
            self.memory = _memory_network()

    def start(self, *devices: str) -> None:
        for device in devices or tuple(self.hosts):
            made = self.make(device)
            for agent in self.hosts[device]:
                made.attach(agent, self.around[agent])
            self.transports[device] = made
            made.open(self.ears[device])

    def make(self, device: str) -> Transport:
        if self.memory is not None:
            made: Transport = self.memory.transport()
            return made
        secure = self.kind == "zenoh-mtls"
        names = list(self.hosts)
        reached = names if self.everybody_connects else names[: names.index(device)]
        return ZenohTransport(
            "test",
            device,
            listen=[f"127.0.0.1:{self.ports[device]}"],
            connect={d: f"127.0.0.1:{self.ports[d]}" for d in reached if d != device},
            devices={a: d for d, agents in self.hosts.items() for a in agents},
            credentials=self.authority.credentials(device) if secure else None,
            insecure=not secure,
        )

    def device_of(self, agent: str) -> str:
        return next(d for d, agents in self.hosts.items() if agent in agents)

    def ears_of(self, agent: str) -> Ears:
        return self.ears[self.device_of(agent)]

    def send(self, message: Hello | CumulativeMass) -> None:
        self.transports[self.device_of(message.sender)].send(message)

    def wait_until_linked(self) -> None:
        for agent, around in self.around.items():
            for peer in around:
                wait_for(partial(self.ears_of(agent).is_up, agent, peer), f"{agent}-{peer}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for transport in self.transports.values():
            transport.close()


def totals(sender: str, receiver: str, now: int = 1) -> CumulativeMass:
    return CumulativeMass(sender, receiver, 1, 1, now, now - 1, (now * 10**20,), now * 10**18)


def hello(sender: str, receiver: str) -> Hello:
    return Hello(sender, receiver, 1, 0, 1, bytes(32), (bytes(8),))


def _memory_network() -> Any:
    import pytest

    memory = pytest.importorskip("veilsum.agents.transport.memory")
    return memory.MemoryNetwork()
