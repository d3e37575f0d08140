"""What becomes of bytes that arrive, and who is there: judged without a network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from murmura.agent.events import Received
from murmura.agent.transport import zenoh_names as names
from murmura.agent.transport.base import Refused
from murmura.agent.wire import MOST_BYTES, WireError, decode

MOST_TOGETHER_BYTES = 1 << 20

Link = tuple[str, str]  # sender, receiver


def judge(link: Link, payload: Any) -> Received | Refused:
    """A message that came under a link's key, if it is one and is of that link."""
    sender, size = link[0], len(payload)
    if size > MOST_BYTES:
        return Refused(sender, f"{size:,} bytes, at most {MOST_BYTES:,} are taken")
    try:
        message = decode(bytes(payload))
    except WireError as problem:
        return Refused(sender, problem.reason)
    if (message.sender, message.receiver) != link:
        text = f"a message from {message.sender!r} to {message.receiver!r} under another's key"
        return Refused(sender, text)
    return Received(message)


def pack(frames: Sequence[bytes]) -> bytes:
    """Several encoded messages as one payload: each after its length in four bytes."""
    return b"".join([part for frame in frames for part in (len(frame).to_bytes(4, "big"), frame)])


def unpack(
    source: str, payload: Any, links: Mapping[Link, str]
) -> Iterator[tuple[str | None, Received | Refused]]:
    """The receiver and the verdict for each message of a payload from a device.

    `links` holds the links to this device, with the device that each sender is on. An honest
    device sends nothing amiss: at the first message that is, the rest is not looked at.
    """
    if len(payload) > MOST_TOGETHER_BYTES:
        yield None, Refused(source, f"{len(payload):,} bytes of messages together")
        return
    data = bytes(payload)
    at, whole = 0, len(data)
    while at < whole:
        start = at + 4
        size = int.from_bytes(data[at:start], "big")
        at = start + size
        if size > MOST_BYTES or at > whole:
            yield None, Refused(source, "several messages, of which one is cut short or too long")
            return
        try:
            message = decode(data[start:at])
        except WireError as problem:
            yield None, Refused(source, problem.reason)
            return
        link = message[:2]  # sender and receiver
        if links.get(link) == source:
            yield link[1], Received(message)
        else:
            text = f"a message from {link[0]!r} to {link[1]!r} under another's key"
            yield None, Refused(source, text)
            return


def stranger(key: str) -> Refused:
    """What came under a key of no link: the name in it is the best that is known."""
    name = names.parse(key)
    peer = f"{name.sender} on {name.source}" if name else "unknown"
    return Refused(peer, "a key of no link of this device")


def drain(arriving: Any, take: Callable[[Any], None], closed: type[Exception]) -> None:
    """Take what arrives until the session is closed, all that is there in one turn.

    The interpreter changes threads less often that way.
    """
    try:
        while True:
            sample = arriving.recv()
            while sample is not None:
                take(sample)
                sample = arriving.try_recv()
    except closed:
        return


class Around:
    """Who is around the agents of a device, and where: a table for each question."""

    def __init__(self, near: Mapping[str, Collection[str]], devices: Mapping[str, str]) -> None:
        """`near` names the neighbours of each local agent, `devices` where every agent is."""
        self.links = [(a, peer) for a, peers in near.items() for peer in peers if peer not in near]
        self.devices = frozenset(devices[peer] for _, peer in self.links)
        self.incoming = {(peer, agent): devices[peer] for agent, peer in self.links}
        self.hearers: dict[str, list[str]] = {}  # the local agents around each remote one
        for agent, peer in self.links:
            self.hearers.setdefault(peer, []).append(agent)


class Presence:
    """The sessions in which each remote agent is alive: it is up while there is one.

    A restarted device may be back before its former session is given up.
    """

    def __init__(self, devices: Mapping[str, str]) -> None:
        """Nobody is up; `devices` says where each agent may be."""
        self._devices = devices
        self._sessions: dict[str, set[str]] = {}

    def change(self, key: str, alive: bool) -> tuple[str, bool] | None:
        """The agent that a token brings up or takes down, if it does."""
        name = names.parse(key)
        if name is None or self._devices.get(name.sender) != name.source:
            return None
        sessions = self._sessions.setdefault(name.sender, set())
        before = bool(sessions)
        (sessions.add if alive else sessions.discard)(name.last)
        return (name.sender, alive) if before != bool(sessions) else None
