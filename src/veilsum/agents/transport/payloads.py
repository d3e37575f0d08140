"""What a payload from the network contains: one message under its link's key, or several from a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from veilsum.agents.events import Received
from veilsum.agents.messages import Hello, Message
from veilsum.agents.transport.base import Refused
from veilsum.agents.transport.negotiation import Heard
from veilsum.agents.wire import MOST_BYTES, SkippedFrameError, WireError, decode

Direction = tuple[str, str]  # sender, receiver


def check_message(
    direction: Direction, payload: bytes, heard: Heard = lambda _hello, _version: None
) -> Received | Refused:
    """A message that came under a link's key, if it is one and belongs to that link.

    `heard` takes a Hello and the version that it came in. Raises `SkippedFrameError` for a message of a
    kind that need not be known.
    """
    sender = direction[0]
    try:
        message = decode(payload)
    except SkippedFrameError:
        raise
    except WireError as problem:
        return Refused(sender, problem.reason)
    if (message.sender, message.receiver) != direction:
        text = f"a message from {message.sender!r} to {message.receiver!r} under another's key"
        return Refused(sender, text)
    if type(message) is Hello:
        heard(message, payload[2])
        message = message._replace(speaks=0)  # which is the transport's, and not the agents'
    return Received(message)


def pack(frames: Sequence[bytes]) -> bytes:
    """Several encoded messages as one payload: each after its length in four bytes."""
    return b"".join([part for frame in frames for part in (len(frame).to_bytes(4, "big"), frame)])


def unpack(
    source: str,
    data: bytes,
    links: Mapping[Direction, str],
    heard: Heard = lambda _hello, _version: None,
    skipped: set[tuple[str, int]] | None = None,
) -> tuple[dict[str, list[Message]], Refused | None]:
    """The messages of a payload from a device by receiver, in order, and what was refused.

    `links` holds the links to this device, with the device of each sender; `heard` takes Hellos, and
    `skipped` has what was reported of kinds that need not be known. An honest device sends no invalid
    message: after the first one, the rest is ignored.
    """
    batches: dict[str, list[Message]] = {}
    known = set() if skipped is None else skipped
    refused = None
    at, whole = 0, len(data)
    while at < whole:
        start = at + 4
        size = int.from_bytes(data[at:start], "big")
        at = start + size
        if size > MOST_BYTES or at > whole:
            text = "several messages, of which one is cut short or too long"
            return batches, Refused(source, text)
        try:
            message = decode(data[start:at])
        except SkippedFrameError as problem:
            if (source, problem.kind) not in known:
                known.add((source, problem.kind))
                refused = Refused(source, f"{problem.reason}; reported once")
            continue
        except WireError as problem:
            return batches, Refused(source, problem.reason)
        direction = message[:2]  # sender and receiver
        if links.get(direction) != source:
            text = f"a message from {direction[0]!r} to {direction[1]!r} under another's key"
            return batches, Refused(source, text)
        if type(message) is Hello:
            heard(message, data[start + 2])
            message = message._replace(speaks=0)
        found = batches.get(direction[1])
        if found is None:
            batches[direction[1]] = [message]
        else:
            found.append(message)
    return batches, refused
