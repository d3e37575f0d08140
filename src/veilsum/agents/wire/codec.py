"""`encode` and `decode` for links of members; `encode_status` and `decode_status` for observers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct

from veilsum.agents.messages import (
    Attendance,
    CumulativeMass,
    Hello,
    Message,
    RecordExchange,
    StatusMessage,
)
from veilsum.agents.versions import WIRE
from veilsum.agents.wire.extensions import EXTENSIBLE, OPTIONAL, read_end
from veilsum.agents.wire.frames import (
    KINDS,
    MAGIC,
    MOST_BYTES,
    MOST_COUNT,
    OLDEST,
    STARTS,
    VERSION,
    SkippedFrameError,
    WireError,
    check_counts,
    labels_of,
    read_labels,
)
from veilsum.agents.wire.messages import (
    MOST_INTEGER,
    decode_attendance,
    decode_exchange,
    decode_hello,
    decode_mass,
    encode_attendance,
    encode_exchange,
    encode_hello,
    encode_mass,
)
from veilsum.errors import AgentError

_STATUS = Struct(">4sQI")
_start_of = STARTS.get  # bound once: a method of an imported name takes longer to call
_DECODERS: dict[bytes, Callable[[bytes], Message]] = {
    STARTS[kind, version]: reader
    for version in range(OLDEST, VERSION + 1)
    for kind, reader in (
        (CumulativeMass, decode_mass),
        (Attendance, decode_attendance),
        (Hello, decode_hello),
        (RecordExchange, decode_exchange),
    )
}
_STATUS_STARTS = {STARTS[StatusMessage, version] for version in range(OLDEST, VERSION + 1)}


def encode(message: Message, version: int = VERSION) -> bytes:
    """The bytes of a message.

    Parameters
    ----------
    message : Hello, CumulativeMass, Attendance or RecordExchange
        What is sent.
    version : int
        One of `versions.WIRE`, which the receiver reads.

    Returns
    -------
    bytes
        At most 65,536.

    Raises
    ------
    AgentError
        For any other type, and for values that do not fit.

    Examples
    --------
    >>> from veilsum.agents.messages import CumulativeMass
    >>> message = CumulativeMass("a", "b", 1, 1, round=3, acknowledged=2, sums=(20,), weight=4)
    >>> decode(encode(message)) == message
    True
    """
    kind = type(message)
    start = _start_of((kind, version), b"")
    try:
        if not start and kind in KINDS:
            raise AgentError(WIRE.refusal(version))
        if kind is CumulativeMass:
            data = encode_mass(message, start)  # type: ignore[arg-type]
        elif kind is Hello:
            data = encode_hello(message, start)  # type: ignore[arg-type]
        elif kind is Attendance:
            data = encode_attendance(message, start)  # type: ignore[arg-type]
        elif kind is RecordExchange:
            data = encode_exchange(message, start)  # type: ignore[arg-type]
        else:
            raise AgentError(
                "only Hello, CumulativeMass, Attendance and RecordExchange may leave an agent, "
                f"found {kind.__name__}"
            )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise AgentError(
            f"this {kind.__name__} contains a value of the wrong type or size; expected labels, "
            f"counts below 2^63 and integers below 2^{8 * MOST_INTEGER - 1}"
        ) from None
    if len(data) > MOST_BYTES:
        raise AgentError(
            f"this {kind.__name__} takes {len(data):,} bytes, at most {MOST_BYTES:,} may be sent; "
            "use fewer components or members"
        )
    return data


def decode(data: bytes | bytearray | memoryview) -> Message:
    """The message that `encode` wrote as these bytes.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        A frame as it was received.

    Returns
    -------
    Hello, CumulativeMass, Attendance or RecordExchange
        The message.

    Raises
    ------
    WireError
        For all other bytes; the reason quotes none of them. `SkippedFrameError` for a kind that need not
        be known.

    Examples
    --------
    >>> decode(b"mu")
    Traceback (most recent call last):
    ...
    veilsum.agents.wire.frames.WireError: 2 bytes are too short for a message
    """
    size = len(data)
    if size > MOST_BYTES:
        raise WireError(f"{size:,} bytes, at most {MOST_BYTES:,} are accepted")
    frame = data if type(data) is bytes else bytes(data)
    reader = _DECODERS.get(frame[:4])
    if reader is None:
        raise _unknown(frame[:4])
    return reader(frame)


def _unknown(start: bytes) -> WireError:
    """Why a frame that begins so is read by nothing."""
    if len(start) < 4:
        return WireError(f"{len(start)} bytes are too short for a message")
    if start[:2] != MAGIC:
        return WireError("not a message of veilsum")
    if not WIRE.reads(start[2]):
        return WireError(WIRE.refusal(start[2]))
    if start[3] == KINDS[StatusMessage]:
        return WireError("a status, which is for observers; members exchange none")
    if start[3] >= OPTIONAL and start[2] >= EXTENSIBLE:
        return SkippedFrameError(start[3])
    return WireError(
        f"unknown kind {start[3]}, expected 1 (Hello), 2 (CumulativeMass), 3 (Attendance) or "
        "4 (RecordExchange)"
    )


def encode_status(message: StatusMessage, version: int = OLDEST) -> bytes:
    """The bytes of a status for an observer.

    Parameters
    ----------
    message : StatusMessage
        What is sent.
    version : int
        An observer only reads, and cannot say which version: the oldest is for all.

    Returns
    -------
    bytes
        At most 65,536.

    Raises
    ------
    AgentError
        For any other type, and for values that do not fit.

    Examples
    --------
    >>> message = StatusMessage("north", "control-room", 1, "{}")
    >>> decode_status(encode_status(message)) == message
    True
    """
    if type(message) is not StatusMessage:
        raise AgentError(
            f"only a StatusMessage is sent to an observer, found {type(message).__name__}"
        )
    sender, receiver, sequence, text = message
    try:
        check_counts(sequence, 0, 0)
        encoded = text.encode()
        head = _STATUS.pack(STARTS[StatusMessage, version], sequence, len(encoded))
        data = b"".join((head, labels_of(sender, receiver), encoded))
    except (AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise AgentError(
            "this StatusMessage contains a value of the wrong type or size; expected labels, a count "
            "below 2^63 and text"
        ) from None
    if len(data) > MOST_BYTES:
        raise AgentError(
            f"this status takes {len(data):,} bytes, at most {MOST_BYTES:,} may be sent"
        )
    return data


def decode_status(data: bytes | bytearray | memoryview) -> StatusMessage:
    """The status that `encode_status` wrote as these bytes.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        A frame as it was received.

    Returns
    -------
    StatusMessage
        The message; its text is not parsed.

    Raises
    ------
    WireError
        For all other bytes; the reason quotes none of them.

    Examples
    --------
    >>> decode_status(b"mu")
    Traceback (most recent call last):
    ...
    veilsum.agents.wire.frames.WireError: 2 bytes are too short for a message
    """
    size = len(data)
    if size > MOST_BYTES:
        raise WireError(f"{size:,} bytes, at most {MOST_BYTES:,} are accepted")
    frame = data if type(data) is bytes else bytes(data)
    start = frame[:4]
    if start not in _STATUS_STARTS:
        if start in _DECODERS:
            raise WireError("a message for members; observers accept none")
        raise _unknown(start)
    if size < _STATUS.size:
        raise WireError("a StatusMessage that ends within its head")
    _, sequence, length = _STATUS.unpack_from(frame)
    if sequence > MOST_COUNT:
        raise WireError("a StatusMessage with a count beyond 2^63")
    sender, receiver, at = read_labels(frame, _STATUS.size)
    end = at + length
    read_end(frame, end, "a StatusMessage")
    try:
        return StatusMessage(sender, receiver, sequence, str(frame[at:end], "utf-8"))
    except UnicodeDecodeError:
        raise WireError("a status that is not UTF-8") from None
