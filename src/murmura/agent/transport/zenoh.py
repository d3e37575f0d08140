"""Messages over zenoh: one session for all agents of a device, no server, TLS on both ends.

Totals are cumulative, so the last ones of a link stand for all before: they are kept, and sent
again when the neighbour comes up, be it late or back. That is all the cache and the recovery that
a link needs. While it stands nothing is lost on it, unless the neighbour has stopped reading and
the queue (thousands of messages) is full: then messages are dropped rather than waited for. Agents
of one device talk to one another without the network.

A message is delivered if the key it came under names its sender, its receiver is here and the two
are neighbours. The key can be trusted: access control admits it only from the device with that
name on its certificate. Without certificates it cannot, which is why that is for loopback only.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

from murmura.agent.events import PeerDown, PeerUp, Received
from murmura.agent.keys import Credentials, check
from murmura.agent.messages import Message, Totals
from murmura.agent.transport import zenoh_inbox as inbox
from murmura.agent.transport import zenoh_names as names
from murmura.agent.transport.base import Arrival, Deliver, Refused
from murmura.agent.transport.zenoh_config import Endpoint, settings
from murmura.agent.transport.zenoh_inbox import Link
from murmura.agent.transport.zenoh_probe import refusal
from murmura.agent.wire import encode
from murmura.errors import AgentError, MissingExtraError

QUEUE = 4096  # messages read off the network before its flow is held back
MOST_TOGETHER = 1000  # messages in one payload
FIRST_LOOK, NEXT_LOOK = 3.0, 10.0  # seconds until missing links are looked into


class ZenohTransport:
    """The links of the agents of one device."""

    only_remote = True  # agents of one device need no network

    def __init__(
        self,
        network: str,
        device: str,
        *,
        listen: Sequence[str] = (),
        connect: Mapping[str, str] | None = None,
        devices: Mapping[str, str],
        credentials: Credentials | None = None,
        insecure: bool = False,
        together: bool = False,
    ) -> None:
        """Describe the session; nothing is opened.

        With `together` messages to one device are held back until `flush`, and sent as one.

        `device` is the name on this device's certificate, `devices` that of every agent's, and
        `connect` says where other devices listen; one end of a link that knows is enough.
        """
        if credentials is None and not insecure:
            raise AgentError(
                f"{device} has no certificate: make one with `murmura keys issue {device}`, or "
                "run with --insecure, which is for the loopback of one machine only"
            )
        if "*" in (device, *devices.values()):
            raise AgentError("a device cannot be called '*', which stands for all of them")
        self._network, self._device, self._devices = network, device, dict(devices)
        self._credentials = None if insecure else credentials
        self._listen = [Endpoint.parse(text, insecure=insecure) for text in listen]
        known = (connect or {}).items()
        self._connect = {name: Endpoint.parse(text, insecure=insecure) for name, text in known}
        for name, endpoint in self._connect.items():
            endpoint.check_nameable(name)
        self._around: dict[str, frozenset[str]] = {}
        self._deliver: Deliver | None = None
        self._zenoh: Any = None
        self._session: Any = None
        self._publishers: dict[Link, Any] = {}
        self._incoming: dict[str, Link] = {}  # by key
        self._last: dict[Link, bytes] = {}  # totals
        self._together = together
        self._held: defaultdict[str, list[bytes]] = defaultdict(list)  # by device
        self._to: dict[str, Any] = {}  # publishers of several messages, by device
        self._presence = inbox.Presence(self._devices)
        self._kept: list[Any] = []  # tokens and subscribers, which end when they are let go
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Name a local agent and who it talks to; before `open`."""
        if self._session is not None:
            raise AgentError(f"{agent} must be attached before the transport is opened")
        for label in (agent, *neighbours):
            if label not in self._devices:
                raise AgentError(f"no device is known for agent {label!r}; add it to the members")
        if self._devices[agent] != self._device:
            raise AgentError(
                f"agent {agent!r} belongs to the certificate {self._devices[agent]!r}, "
                f"and this device's is {self._device!r}"
            )
        self._around[agent] = frozenset(neighbours)

    def open(self, deliver: Deliver) -> None:
        """Listen, and connect in the background; agents of this device are up at once."""
        if self._session is not None or not self._around:
            raise AgentError(f"{self._device} opens its transport once, after attaching agents")
        if self._credentials:
            check(self._credentials, self._device)
        self._zenoh, self._deliver = load_zenoh(), deliver
        self._session = self._open_session()
        self._declare()
        for agent, near in self._around.items():
            for peer in near & self._around.keys():
                self._hand(agent, PeerUp(peer))

    def send(self, message: Message) -> None:
        """Send at once; one that has stopped reading makes this wait 0.2 s, and only once."""
        sender, receiver = link = message[:2]
        if receiver not in self._around.get(sender, ()):
            raise AgentError(f"{sender} has no link to {receiver}; attach it first")
        if self._ended.is_set():
            return
        if self._deliver is None:
            raise AgentError("the transport must be opened before anything is sent")
        if receiver in self._around:
            self._deliver(receiver, Received(message))
            return
        data = encode(message)
        if isinstance(message, Totals):
            self._last[link] = data
        if self._together:
            self._held[self._devices[receiver]].append(data)
        else:
            self._put(self._publishers[link], data)

    def flush(self) -> None:
        """Send what was held back for each device, as few payloads as its size allows."""
        if not self._held:
            return
        held, self._held = self._held, defaultdict(list)
        for device, frames in held.items():
            for k in range(0, len(frames), MOST_TOGETHER):
                self._put(self._to[device], inbox.pack(frames[k : k + MOST_TOGETHER]))

    def close(self) -> None:
        """End the session; neighbours see it at once."""
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
        if self._session is not None:
            self._session.close()

    def _open_session(self) -> Any:
        config = self._zenoh.Config()
        remote = self._remote.devices
        connect = [where for name, where in self._connect.items() if name in remote]
        told = settings(
            self._network, self._device, self._listen, connect, remote, self._credentials
        )
        for key, value in told.items():
            config.insert_json5(key, json.dumps(value))
        try:
            return self._zenoh.open(config)
        except self._zenoh.ZError as problem:
            where = ", ".join(map(str, self._listen)) or "no endpoint"
            raise AgentError(
                f"{self._device} cannot listen on {where}: {problem}; check that the port is free "
                "and that the certificate files can be read"
            ) from None

    def _declare(self) -> None:
        """Subscribe before saying that we are here: who sees us can be heard."""
        session, own = self._session, names.space(self._network, "*", self._device)
        for agent, peer in self._remote.links:
            there = self._devices[peer]
            key = names.data(self._network, self._device, there, agent, peer)
            self._publishers[agent, peer] = session.declare_publisher(
                key, congestion_control=self._zenoh.CongestionControl.DROP
            )
            back = names.data(self._network, there, self._device, peer, agent)
            self._incoming[back] = peer, agent
        for there in self._remote.devices:
            key = names.many(self._network, self._device, there)
            self._to[there] = session.declare_publisher(
                key, congestion_control=self._zenoh.CongestionControl.DROP
            )
        self._read(session, f"{own}/data/**", self._take_data)
        self._read(session, f"{own}/many", self._take_many)
        token = session.liveliness()
        for agent, there in {(a, self._devices[p]) for a, p in self._remote.links}:
            key = names.live(self._network, self._device, there, agent, str(session.zid()))
            self._kept.append(token.declare_token(key))
        self._read(token, f"{own}/live/**", self._take_token, history=True)
        if self._credentials:
            listener = session.info.declare_link_events_listener(self._meet, history=True)
            self._kept.append(listener)
            threading.Thread(target=self._look, daemon=True, name="murmura-look").start()

    def _read(self, source: Any, key: str, take: Any, **options: Any) -> None:
        arriving = source.declare_subscriber(
            key, self._zenoh.handlers.FifoChannel(QUEUE), **options
        )
        self._kept.append(arriving)
        read = threading.Thread(
            target=inbox.drain,
            args=(arriving, take, self._zenoh.ZError),
            daemon=True,
            name="murmura-read",
        )
        read.start()

    def _take_data(self, sample: Any) -> None:
        key = str(sample.key_expr)
        link = self._incoming.get(key)
        if link is None:
            self._hand(next(iter(self._around)), inbox.stranger(key))
        else:
            self._hand(link[1], inbox.judge(link, sample.payload))

    def _take_many(self, sample: Any) -> None:
        source = names.source_of(str(sample.key_expr))
        found = list(inbox.unpack(source, sample.payload, self._remote.incoming))
        with self._lock:
            if self._deliver is not None and not self._ended.is_set():
                for receiver, arrival in found:
                    self._deliver(receiver or next(iter(self._around)), arrival)

    def _take_token(self, sample: Any) -> None:
        alive = sample.kind == self._zenoh.SampleKind.PUT
        changed = self._presence.change(str(sample.key_expr), alive)
        if changed:
            self._tell(*changed)

    def _tell(self, peer: str, up: bool) -> None:
        """A neighbour has come or gone; one that has come is sent the last totals again."""
        for agent in self._remote.hearers.get(peer, ()):
            self._hand(agent, PeerUp(peer) if up else PeerDown(peer))
            last = self._last.get((agent, peer))
            if up and last is not None:
                self._put(self._publishers[agent, peer], last)

    def _meet(self, event: Any) -> None:
        """Name a device that has a certificate of the authority, but no business here."""
        name = event.link.auth_identifier
        if event.kind == self._zenoh.SampleKind.PUT and name not in self._remote.devices:
            text = f"no neighbour of {self._device}: nothing it says is heard"
            self._hand(next(iter(self._around)), Refused(name or event.link.dst, text))

    def _look(self) -> None:
        """Say now and then why a link that should be there is not, once for each reason."""
        said: dict[str, str] = {}
        pause, wanted = FIRST_LOOK, sorted(self._connect.keys() & self._remote.devices)
        while wanted and not self._ended.wait(pause):
            pause, linked = NEXT_LOOK, {link.auth_identifier for link in self._session.info.links()}
            for device in (name for name in wanted if name not in linked):
                assert self._credentials is not None
                reason = refusal(device, self._connect[device], self._credentials)
                if reason and said.get(device) != reason:
                    said[device] = reason
                    for agent, peer in self._remote.links:
                        if self._devices[peer] == device:
                            self._hand(agent, Refused(peer, f"no link to {device}: {reason}"))

    def _put(self, publisher: Any, data: bytes) -> None:
        try:
            publisher.put(data)
        except Exception:
            if not self._ended.is_set():  # a session that is being closed sends no more
                raise

    def _hand(self, agent: str, arrival: Arrival) -> None:
        with self._lock:
            if self._deliver is not None and not self._ended.is_set():
                self._deliver(agent, arrival)

    @cached_property
    def _remote(self) -> inbox.Around:
        """Who is to be reached over the network; what was attached by now."""
        return inbox.Around(self._around, self._devices)


def load_zenoh() -> Any:
    """The package, with its log as RUST_LOG wants it and otherwise silent."""
    try:
        zenoh: Any = import_module("zenoh")
    except ImportError:  # pragma: no cover - the extra is installed where this is tested
        raise MissingExtraError(
            "agents need the package eclipse-zenoh; install it with pip install 'murmura[agents]'"
        ) from None
    zenoh.try_init_log_from_env()
    return zenoh
