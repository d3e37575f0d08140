"""Several messages in one payload: who decodes them, and what is held back."""

import threading
from typing import Any, NamedTuple

import pytest

from veilsum.agents.events import ReceivedBatch
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.transport import payloads, zenoh
from veilsum.agents.transport.base import Refused, Undecoded
from veilsum.agents.transport.payloads import pack
from veilsum.agents.transport.zenoh import MOST_BATCH_BYTES, ZenohTransport
from veilsum.agents.transport.zenoh_config import batch_key
from veilsum.agents.wire import decode, encode

DEVICES = {"a": "p", "b": "q", "c": "q", "x": "r"}


class Sample(NamedTuple):
    """What zenoh hands over."""

    key_expr: str
    payload: bytes
    attachment: None = None


def transport(arrived: Any) -> Any:
    """The device q with two agents, not opened; what arrives is appended."""
    made: Any = ZenohTransport("net", "q", devices=DEVICES, insecure=True, batched=True)
    made.attach("b", ["a", "x"])
    made.attach("c", ["a"])
    made._deliver = lambda label, arrival: arrived.append((label, arrival))
    return made


def sample(*messages: CumulativeMass, source: str = "p") -> Sample:
    return Sample(batch_key("net", source, "q"), pack([encode(message) for message in messages]))


def mass(sender: str, receiver: str, number: int = 1) -> CumulativeMass:
    return CumulativeMass(sender, receiver, 1, 1, number, 0, (5,), 1)


def test_a_payload_is_decoded_by_who_handles_it(monkeypatch: Any) -> None:
    decoded: list[bytes] = []

    def counted(data: bytes) -> Any:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(payloads, "decode", counted)
    arrived: list[Any] = []
    made = transport(arrived)
    said = [mass("a", "b"), mass("a", "c"), mass("a", "b", 2)]
    made._receive_batch(sample(*said))
    ((label, found),) = arrived
    assert (label, decoded) == ("", [])
    assert isinstance(found, Undecoded)
    assert found.decode() == [
        ("b", ReceivedBatch([said[0], said[2]])),
        ("c", ReceivedBatch([said[1]])),
    ]
    assert len(decoded) == 3


def test_a_message_of_another_device_is_refused_after_those_before_it() -> None:
    arrived: list[Any] = []
    made = transport(arrived)
    made._receive_batch(sample(mass("a", "b"), mass("x", "b"), mass("a", "c")))
    (first, refused) = arrived[0][1].decode()
    assert first == ("b", ReceivedBatch([mass("a", "b")]))
    assert isinstance(refused[1], Refused)
    assert "under another's key" in refused[1].reason


def test_a_payload_that_is_too_long_is_refused_at_once() -> None:
    arrived: list[Any] = []
    made = transport(arrived)
    made._receive_batch(Sample(batch_key("net", "p", "q"), bytes(MOST_BATCH_BYTES + 1)))
    ((_, refused),) = arrived
    assert isinstance(refused, Refused)
    assert refused.peer == "p"


@pytest.mark.parametrize("opened", [True, False])
def test_the_network_is_held_back_until_payloads_are_decoded(
    monkeypatch: Any, opened: bool
) -> None:
    monkeypatch.setattr(zenoh, "MOST_UNDECODED", 1)
    arrived: list[Any] = []
    made = transport(arrived)
    made._receive_batch(sample(mass("a", "b")))
    second = threading.Thread(target=made._receive_batch, args=(sample(mass("a", "c")),))
    second.start()
    second.join(0.1)
    assert second.is_alive()
    assert len(arrived) == 1
    if opened:
        arrived[0][1].decode()
    else:
        made.close()
    second.join(10)
    assert not second.is_alive()
    assert len(arrived) == 1 + opened


def test_a_full_queue_does_not_hold_up_who_empties_it() -> None:
    """A member that fills the queue, with such a payload in it, would halt the agent for good."""
    arrived: list[Any] = []
    made = transport(arrived)
    made._receive_batch(sample(mass("a", "b")))
    full, emptied = threading.Event(), threading.Event()

    def wait(_label: str, _arrival: Any) -> None:
        full.set()
        emptied.wait(30)  # as a node lets a thread wait that fills its queue

    made._deliver = wait
    reader = threading.Thread(target=made._notify, args=("b", Refused("a", "one of a flood")))
    node = threading.Thread(target=arrived[0][1].decode)
    reader.start()
    assert full.wait(10)
    node.start()
    node.join(10)
    handled = not node.is_alive()
    emptied.set()
    for each in (reader, node):
        each.join(10)
    assert handled
