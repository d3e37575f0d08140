"""Two transports over a real socket write to each other in the version that both read."""

import queue
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from veilsum.agents.messages import CumulativeMass, Hello
from veilsum.agents.transport import zenoh
from veilsum.agents.transport.base import Refused
from veilsum.agents.transport.negotiation import LinkVersions
from veilsum.agents.versions import WIRE, Format
from veilsum.agents.wire import encode

DEVICES = {"a": "p", "b": "q"}
HELLO: Any = Hello("a", "b", 1, 0, 1, bytes(32), (b"12345678",) * 34)
BEFORE = Format("wire", WIRE.oldest, WIRE.oldest)


class Pair:
    """The transports of a and b, what arrived at each, and the version that each was written to in."""

    def __init__(self, batched: bool) -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        place = f"tcp/127.0.0.1:{port}"
        more: dict[str, Any] = {"devices": DEVICES, "insecure": True, "batched": batched}
        self.a = zenoh.ZenohTransport("ring", "p", listen=[place], **more)
        self.b = zenoh.ZenohTransport("ring", "q", connect={"p": place}, **more)
        self.arrived: queue.Queue[Any] = queue.Queue()
        self.a.attach("a", ["b"])
        self.b.attach("b", ["a"])

    def open(self) -> "Pair":
        self.a.open(lambda agent, arrival: self.arrived.put((agent, arrival)))
        self.b.open(lambda agent, arrival: self.arrived.put((agent, arrival)))
        self.until(lambda agent, arrival: type(arrival).__name__ == "PeerUp" and agent == "a")
        return self

    def until(self, condition: Any) -> Any:
        end = time.monotonic() + 60
        while True:
            agent, arrival = self.arrived.get(timeout=max(0.1, end - time.monotonic()))
            found = arrival.decode() if hasattr(arrival, "decode") else [(agent, arrival)]
            for receiver, each in found:
                if condition(receiver, each):
                    return each

    def send(self, transport: Any, message: Any) -> Any:
        """Send, and return what arrives; several times, for a subscription may be on its way."""
        for _ in range(200):
            transport.send(message)
            transport.flush()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                try:
                    agent, arrival = self.arrived.get(timeout=0.05)
                except queue.Empty:
                    continue
                found = arrival.decode() if hasattr(arrival, "decode") else [(agent, arrival)]
                for receiver, each in found:
                    if receiver == message.receiver and type(each).__name__.startswith("Rec"):
                        return each
                    assert not isinstance(each, Refused), each
        raise AssertionError("nothing arrived")

    def close(self) -> None:
        self.a.close()
        self.b.close()


@pytest.fixture(params=[False, True], ids=["alone", "batched"])
def pair(request: Any) -> Iterator[Pair]:
    made = Pair(request.param)
    yield made
    made.close()


def version_to(transport: Any, sender: str, receiver: str) -> int:
    mass = CumulativeMass(sender, receiver, 1, 1, 3, 2, (20,), 4)
    return int(transport._versions.encode(mass)[2])


def test_both_speak_the_new_version_after_their_hellos(pair: Pair) -> None:
    pair.open()
    assert version_to(pair.a, "a", "b") == WIRE.oldest
    for transport, sender, receiver in ((pair.a, "a", "b"), (pair.b, "b", "a")):
        hello = HELLO._replace(sender=sender, receiver=receiver)
        arrived = pair.send(transport, hello)
        messages = getattr(arrived, "messages", None) or [arrived.message]
        assert messages == [hello], "as it was sent"
    assert version_to(pair.a, "a", "b") == version_to(pair.b, "b", "a") == WIRE.newest
    mass = CumulativeMass("a", "b", 1, 1, 3, 2, (20,), 4)
    arrived = pair.send(pair.a, mass)
    assert (getattr(arrived, "messages", None) or [arrived.message])[-1] == mass


def test_a_neighbour_of_the_version_before_is_written_to_in_it(pair: Pair) -> None:
    pair.b._versions = LinkVersions(BEFORE)
    pair.open()
    for transport, sender, receiver in ((pair.a, "a", "b"), (pair.b, "b", "a")):
        pair.send(transport, HELLO._replace(sender=sender, receiver=receiver))
    assert version_to(pair.a, "a", "b") == version_to(pair.b, "b", "a") == WIRE.oldest


def test_what_goes_down_is_unknown_again() -> None:
    made = Pair(False)
    try:
        made.open()
        made.send(made.b, HELLO._replace(sender="b", receiver="a"))
        assert version_to(made.a, "a", "b") == WIRE.newest
        made.b.close()
        made.until(lambda _, arrival: type(arrival).__name__ == "PeerDown")
        assert version_to(made.a, "a", "b") == WIRE.oldest
    finally:
        made.close()


def test_a_kind_of_a_later_version_is_skipped_over_a_real_link() -> None:
    """It is reported once, and what comes after it arrives."""
    made = Pair(False)
    try:
        made.open()
        made.send(made.b, HELLO._replace(sender="b", receiver="a"))
        outlet = made.b._outlets["b", "a"]
        for _ in range(3):
            made.b._put(outlet, b"mu\x06\x90later")
        made.b._put(outlet, encode(CumulativeMass("b", "a", 1, 1, 3, 2, (20,), 4)))
        found: list[Any] = []

        def seen(agent: str, arrival: Any) -> bool:
            found.append(arrival)
            return agent == "a" and getattr(getattr(arrival, "message", None), "round", 0) == 3

        made.until(seen)
        skipped = [each for each in found if isinstance(each, Refused)]
        assert [each.peer for each in skipped] == ["b"]
        assert "kind 144, which this version skips" in skipped[0].reason
    finally:
        made.close()
