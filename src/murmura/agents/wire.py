"""Messages as bytes: `encode` refuses what it does not know, and `decode` trusts nothing.

A frame is a fixed header (numbers big-endian, counts last), then the labels of sender and receiver,
each a length and UTF-8, then integers, each a length and two's complement in bit_length // 8 + 1
bytes (0 in none):

    Hello           "mu" 6 1 incarnation peer_incarnation epoch acknowledged manifest[32] tag[8]
                    echo[8] own known asks #fields
                    | sender receiver | 8 bytes each
    CumulativeMass  "mu" 6 2 incarnation peer_incarnation round acknowledged phase depth stop
                    releases flags tag[8] echo[8] run[8] head[16] head_proof[8] view[8]
                    #sums #low #high
                    | sender receiver | weight sums low high
    Attendance      "mu" 6 3 incarnation generation run[8] asks size of each set[5] #readings width
                    | sender receiver | dropped present contributing finished ended | readings
    RecordExchange  "mu" 6 4 query concluded run[8] echo[8] flags size of digests #names size of chunk
                    | sender receiver | digests | names, each a bucket and #8 bytes each | chunk
    StatusMessage   "mu" 6 5 sequence size of text
                    | sender receiver | text in UTF-8

`own` and `known` are each start releases run[8] start_proof[8] head[16] head_proof[8]. The flags
are leaving (1) and done (2), of a RecordExchange done (1) and heard_done (2). An absent tag, echo,
run, head, proof or view is as many bytes of 0. A set is a number in as few bytes as it takes, and each
count of readings takes `width` bytes, as few as the largest needs.

Every message has one encoding in each version, so encode(decode(b), version of b) == b where b has no
extension that is skipped. Sizes and counts are bounded before anything is allocated. There are no
floats: NaN and infinities cannot be expressed.

Versions (`versions.WIRE`). The third byte is the version. Version 6 adds to 5 what later versions need:

- a frame may end in extensions, in ascending order of their numbers: number[1] size[2] and so many
  bytes. An extension from 128 on that the reader does not know is skipped; with an unknown one below
  128 the whole frame is refused, because it would mean something else without it.
- a frame of a kind from 128 on that the reader does not know is skipped (`SkippedFrameError`); of another
  unknown kind it is refused.

A field that is added is an extension, so that readers of the version before go on reading the frame.
A Hello says which version its sender speaks (`Hello.speaks`): extension 1, in version 5, which has no
extensions, one more field of 8 bytes, "mu-wire" and the version. Readers of version 5 use fields only
to find where two manifests differ, and only as many as they have themselves.

Members exchange the first four. A StatusMessage is for observers and has functions of its own: `encode`
and `decode`, which links of members use, know it no more than any other bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

from murmura.agents.messages import (
    Attendance,
    CumulativeMass,
    Hello,
    Message,
    PeerStatus,
    RangeReport,
    RecordExchange,
    Register,
    StatusMessage,
)
from murmura.agents.versions import WIRE
from murmura.errors import AgentError

MAGIC = b"mu"
OLDEST, VERSION = WIRE.oldest, WIRE.newest
EXTENSIBLE = 6  # the first version whose frames may end in extensions
OPTIONAL = 128  # extensions and kinds from here on are skipped by those who do not know them
SPEAKS = 1  # the extension of a Hello that says which version its sender speaks
MOST_BYTES = 65_536  # of a frame
MOST_LABEL = 200  # bytes of UTF-8
MOST_INTEGER = 64  # bytes: numbers below 2^511 in size
MOST_FIELDS = 64
MOST_SUMS = 1024  # components of a CumulativeMass
BUCKETS, NAME = 256, 8  # of records, and bytes that name one within its bucket
MOST_COUNT = 2**63 - 1  # of incarnations, rounds and the like

_KINDS: dict[type, int] = {
    Hello: 1, CumulativeMass: 2, Attendance: 3, RecordExchange: 4, StatusMessage: 5
}  # fmt: skip
_STARTS: dict[tuple[type, int], bytes] = {  # by type and version
    (kind, version): MAGIC + bytes([version, number])
    for kind, number in _KINDS.items()
    for version in range(OLDEST, VERSION + 1)
}
_HELLO = Struct(">4s4Q32s8s8s" + 2 * "2Q8s8s16s8s" + "2B")
_MASS = Struct(">4s8QB8s8s8s16s8s8s3H")
_ATTENDANCE = Struct(">4s2Q8sB6HB")
_EXCHANGE = Struct(">4s2Q8s8sB2HI")
_STATUS = Struct(">4sQI")
_NAMES = Struct(">BH")
_EXTENSION = Struct(">BH")
_FIELD = 8
_SPEAKS_FIELD = b"mu-wire"  # and the version: the last field of a Hello of version 5
_NO_TAG, _NO_HEAD = bytes(8), bytes(16)
_integer = int.from_bytes
_make = tuple.__new__  # of a NamedTuple, all fields given: half the time of calling it
_NO_REPORT = RangeReport()
_LENGTHS = [bytes([length]) for length in range(MOST_INTEGER + 1)]


class WireError(AgentError):
    """Bytes that are not a message of this version; `reason` says why and quotes none of them."""

    @property
    def reason(self) -> str:
        """What was wrong."""
        return str(self)


class SkippedFrameError(WireError):
    """A message of a kind that this version does not know and need not know; `kind` is its number."""

    def __init__(self, kind: int) -> None:
        """Of a kind from 128 on."""
        super().__init__(f"a message of kind {kind}, which this version skips")
        self.kind = kind


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
    >>> from murmura.agents.messages import CumulativeMass
    >>> message = CumulativeMass("a", "b", 1, 1, round=3, acknowledged=2, sums=(20,), weight=4)
    >>> decode(encode(message)) == message
    True
    """
    kind = type(message)
    start = _STARTS.get((kind, version), b"")
    try:
        if not start and kind in _KINDS:
            raise AgentError(WIRE.refusal(version))
        if kind is CumulativeMass:
            data = _encode_mass(message, start)  # type: ignore[arg-type]
        elif kind is Hello:
            data = _encode_hello(message, start)  # type: ignore[arg-type]
        elif kind is Attendance:
            data = _encode_attendance(message, start)  # type: ignore[arg-type]
        elif kind is RecordExchange:
            data = _encode_exchange(message, start)  # type: ignore[arg-type]
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
    murmura.agents.wire.WireError: 2 bytes are too short for a message
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
        return WireError("not a message of murmura")
    if not WIRE.reads(start[2]):
        return WireError(WIRE.refusal(start[2]))
    if start[3] == _KINDS[StatusMessage]:
        return WireError("a status, which is for observers; members exchange none")
    if start[3] >= OPTIONAL and start[2] >= EXTENSIBLE:
        return SkippedFrameError(start[3])
    return WireError(
        f"unknown kind {start[3]}, expected 1 (Hello), 2 (CumulativeMass), 3 (Attendance) or "
        "4 (RecordExchange)"
    )


def _read_extensions(frame: bytes, at: int, known: tuple[int, ...] = ()) -> dict[int, bytes]:
    """The extensions from `at` to the end of a frame, of those that are known; others are checked."""
    size, found, last = len(frame), {}, 0
    while at < size:
        if at + _EXTENSION.size > size:
            raise WireError("an extension that is cut off")
        number, length = _EXTENSION.unpack_from(frame, at)
        start, at = at + _EXTENSION.size, at + _EXTENSION.size + length
        if number <= last or at > size:
            raise WireError("extensions that are cut off or out of order")
        if number in known:
            found[number] = frame[start:at]
        elif number < OPTIONAL:
            raise WireError(
                f"extension {number}, without which the message means something else, and which this "
                "version does not know"
            )
        last = number
    return found


def _check_end(frame: bytes, at: int, what: str) -> None:
    """A frame ends where its contents do, or has extensions that may be skipped."""
    if len(frame) == at:
        return
    if len(frame) < at or frame[2] < EXTENSIBLE:
        raise WireError(f"{what} of {len(frame)} bytes, expected {at}")
    _read_extensions(frame, at)


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
        _check_counts(sequence, 0, 0)
        encoded = text.encode()
        head = _STATUS.pack(_STARTS[StatusMessage, version], sequence, len(encoded))
        data = b"".join((head, _labels(sender, receiver), encoded))
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
    murmura.agents.wire.WireError: 2 bytes are too short for a message
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
    sender, receiver, at = _read_labels(frame, _STATUS.size)
    end = at + length
    _check_end(frame, end, "a StatusMessage")
    try:
        return StatusMessage(sender, receiver, sequence, str(frame[at:end], "utf-8"))
    except UnicodeDecodeError:
        raise WireError("a status that is not UTF-8") from None


def _encode_hello(message: Hello, start: bytes) -> bytes:
    sender, receiver, incarnation, peer_incarnation, epoch, manifest, fields = message[:7]
    acknowledged, tag, echo, own, known, asks, speaks = message[7:]
    end = _speaks_extension(speaks) if start[2] >= EXTENSIBLE else b""
    if start[2] < EXTENSIBLE:
        fields = _with_speaks(fields, speaks)
    if len(manifest) != 32 or len(fields) > MOST_FIELDS or any(len(f) != _FIELD for f in fields):
        raise ValueError
    _check_counts(incarnation, peer_incarnation, epoch, acknowledged)
    _check_tags(tag, echo)
    if type(asks) is not bool:
        raise TypeError
    statuses = *_pack_status(own), *_pack_status(known)
    head = _HELLO.pack(
        start, incarnation, peer_incarnation, epoch, acknowledged, manifest, tag, echo, *statuses,
        asks, len(fields),
    )  # fmt: skip
    return b"".join((head, _labels(sender, receiver), *fields, end))


def _speaks_extension(speaks: int) -> bytes:
    if type(speaks) is not int:
        raise TypeError
    return _EXTENSION.pack(SPEAKS, 1) + bytes([speaks]) if speaks else b""


def _with_speaks(fields: tuple[bytes, ...], speaks: int) -> tuple[bytes, ...]:
    """The fields of a Hello of version 5; none of a manifest's may look like the one that is added."""
    if type(speaks) is not int:
        raise TypeError
    if fields and fields[-1].startswith(_SPEAKS_FIELD):
        raise ValueError
    return (*fields, _SPEAKS_FIELD + bytes([speaks])) if speaks else fields


def _pack_status(status: PeerStatus) -> tuple[int | bytes, ...]:
    if type(status) is not PeerStatus:
        raise TypeError
    start, run, start_proof, releases, head, head_proof = status
    _check_counts(start, releases, 0)
    _check_tags(run, start_proof)
    _check_head(head, head_proof)
    return start, releases, run, start_proof, head, head_proof


def _read_status(parts: list[Any]) -> PeerStatus:
    start, releases, run, start_proof, head, head_proof = parts
    if start | releases > MOST_COUNT:
        raise WireError("a Hello with a count beyond 2^63")
    head = b"" if head == _NO_HEAD else head
    return PeerStatus(start, _some(run), _some(start_proof), releases, head, _some(head_proof))


def _some(tag: bytes) -> bytes:
    return b"" if tag == _NO_TAG else tag


def _encode_mass(message: CumulativeMass, start: bytes) -> bytes:
    (
        sender, receiver, incarnation, peer_incarnation, now, acknowledged, sums, weight, report,
        leaving, done, tag, echo, run, releases, top, head_proof, view,
    ) = message  # fmt: skip
    phase, depth, low, high, stop = report
    _check_counts(incarnation, peer_incarnation, now, acknowledged, phase, depth, stop, releases)
    _check_tags(tag, echo)
    _check_names(run, view, top, head_proof)
    if type(report) is not RangeReport:
        raise ValueError
    if not type(leaving) is type(done) is bool:
        raise TypeError
    numbers = (weight, *sums, *low, *high) if low or high else (weight, *sums)
    if len(numbers) > MOST_SUMS and max(len(sums), len(low), len(high)) > MOST_SUMS:
        raise ValueError
    parts = [
        _MASS.pack(
            start, incarnation, peer_incarnation, now, acknowledged, phase, depth, stop,
            releases, leaving + 2 * done, tag, echo, run, top, head_proof, view, len(sums),
            len(low), len(high),
        ),
        _labels(sender, receiver),
    ]  # fmt: skip
    for number in numbers:
        if type(number) is not int:
            raise TypeError
        length = number.bit_length() // 8 + 1 if number else 0
        parts.append(_LENGTHS[length])
        parts.append(number.to_bytes(length, "big", signed=True))
    return b"".join(parts)


def _check_counts(
    a: int, b: int, c: int, d: int = 0, e: int = 0, f: int = 0, g: int = 0, h: int = 0
) -> None:
    """Whole numbers in 0..MOST_COUNT, which is all ones: so is every bit of theirs."""
    first = type(a) is type(b) is type(c) is type(d) is int
    if not (first and type(e) is type(f) is type(g) is type(h) is int):
        raise TypeError
    if not 0 <= a | b | c | d | e | f | g | h <= MOST_COUNT:
        raise ValueError


def _check_tags(tag: bytes, echo: bytes = b"") -> None:
    """Bytes, 8 of them or none, and not 8 zeros, which stand for none."""
    if not type(tag) is type(echo) is bytes:
        raise TypeError
    if len(tag) not in (0, 8) or len(echo) not in (0, 8) or _NO_TAG in (tag, echo):
        raise ValueError


@lru_cache(maxsize=4096)
def _check_names(run: bytes, view: bytes, head: bytes, head_proof: bytes) -> None:
    """What most messages of an agent have in common is checked once."""
    _check_tags(run, view)
    _check_head(head, head_proof)


def _check_head(head: bytes, head_proof: bytes) -> None:
    """A head of 16 bytes or none, and its proof of 8."""
    _check_tags(head_proof)
    if type(head) is not bytes:
        raise TypeError
    if len(head) not in (0, 16) or head == _NO_HEAD:
        raise ValueError


@lru_cache(maxsize=4096)
def _labels(sender: str, receiver: str) -> bytes:
    """Those of a link are encoded once."""
    return _label(sender) + _label(receiver)


def _label(text: str) -> bytes:
    encoded = text.encode()
    if not 0 < len(encoded) <= MOST_LABEL:
        raise ValueError
    return len(encoded).to_bytes(1, "big") + encoded


def _decode_hello(frame: bytes) -> Hello:
    if len(frame) < _HELLO.size:
        raise WireError("a Hello that ends within its head")
    (
        _, incarnation, peer_incarnation, epoch, acknowledged, manifest, tag, echo, *both, asks,
        fields,
    ) = _HELLO.unpack_from(frame)  # fmt: skip
    if incarnation | peer_incarnation | epoch | acknowledged > MOST_COUNT:
        raise WireError("a Hello with a count beyond 2^63")
    if asks > 1:
        raise WireError(f"a Hello that asks {asks}, expected 0 or 1")
    if fields > MOST_FIELDS:
        raise WireError(f"a Hello with {fields} fields, at most {MOST_FIELDS} are accepted")
    sender, receiver, at = _read_labels(frame, _HELLO.size)
    end = at + fields * _FIELD
    if len(frame) < end or (len(frame) > end and frame[2] < EXTENSIBLE):
        raise WireError(f"a Hello of {len(frame)} bytes, expected {end}")
    digests = tuple(frame[k : k + _FIELD] for k in range(at, end, _FIELD))
    digests, speaks = _read_speaks(frame, digests, end)
    return Hello(
        sender, receiver, incarnation, peer_incarnation, epoch, manifest, digests, acknowledged,
        _some(tag), _some(echo), _read_status(both[:6]), _read_status(both[6:]), asks == 1, speaks,
    )  # fmt: skip


def _read_speaks(
    frame: bytes, fields: tuple[bytes, ...], end: int
) -> tuple[tuple[bytes, ...], int]:
    """The fields of a manifest, and which version the sender speaks; 0 if it does not say."""
    said = b""
    if frame[2] >= EXTENSIBLE:
        found = _read_extensions(frame, end, (SPEAKS,))
        if SPEAKS not in found:
            return fields, 0
        said = found[SPEAKS]
    elif fields and fields[-1].startswith(_SPEAKS_FIELD):
        fields, said = fields[:-1], fields[-1][len(_SPEAKS_FIELD) :]
        if fields and fields[-1].startswith(_SPEAKS_FIELD):
            raise WireError("a Hello that says twice which version it speaks")
    else:
        return fields, 0
    if len(said) != 1 or not said[0]:
        raise WireError("a Hello that speaks no version")
    return fields, said[0]


def _decode_mass(frame: bytes) -> CumulativeMass:
    if len(frame) < _MASS.size:
        raise WireError("a CumulativeMass that ends within its head")
    (
        _, incarnation, peer_incarnation, now, acknowledged, phase, depth, stop, releases, flags,
        tag, echo, run, top, head_proof, view, sums, low, high,
    ) = _MASS.unpack_from(frame)  # fmt: skip
    counts = incarnation | peer_incarnation | now | acknowledged | phase | depth | stop | releases
    if counts > MOST_COUNT:
        raise WireError("a CumulativeMass with a count beyond 2^63")
    if flags > 3:
        raise WireError(f"a CumulativeMass with flags {flags}, expected 0 to 3")
    if sums > MOST_SUMS or low > MOST_SUMS or high > MOST_SUMS:
        raise WireError(f"a CumulativeMass with more than {MOST_SUMS:,} components")
    sender, receiver, at = _read_labels(frame, _MASS.size)
    numbers = _read_numbers(frame, at, 1 + sums + low + high)
    report, totals = _NO_REPORT, numbers[1:]
    if phase or depth or stop or low or high:
        first, second = 1 + sums, 1 + sums + low
        totals = numbers[1:first]
        report = RangeReport(phase, depth, numbers[first:second], numbers[second:], stop)
    return _make(CumulativeMass, (
        sender, receiver, incarnation, peer_incarnation, now, acknowledged, totals, numbers[0],
        report, flags & 1 == 1, flags > 1,
        b"" if tag == _NO_TAG else tag, b"" if echo == _NO_TAG else echo,
        b"" if run == _NO_TAG else run, releases, b"" if top == _NO_HEAD else top,
        b"" if head_proof == _NO_TAG else head_proof, b"" if view == _NO_TAG else view,
    ))  # fmt: skip


def _encode_attendance(message: Attendance, start: bytes) -> bytes:
    sender, receiver, incarnation, run, register, asks = message
    if type(register) is not Register or type(asks) is not bool:
        raise TypeError
    generation, dropped, present, contributing, finished, ended, readings = register
    _check_counts(incarnation, generation, 0)
    _check_tags(run)
    sets = [_set(found) for found in (dropped, present, contributing, finished, ended)]
    width = 0
    if readings:
        if any(type(count) is not int or count < 0 for count in readings):
            raise TypeError
        largest = max(readings)
        if largest > MOST_COUNT:
            raise ValueError
        width = max(1, (largest.bit_length() + 7) // 8)
    head = _ATTENDANCE.pack(
        start, incarnation, generation, run, asks, *map(len, sets), len(readings), width
    )
    counts = b"".join([count.to_bytes(width, "big") for count in readings])
    return b"".join((head, _labels(sender, receiver), *sets, counts))


def _set(found: int) -> bytes:
    """A set as a number, in as few bytes as it takes."""
    if type(found) is not int:
        raise TypeError
    return found.to_bytes((found.bit_length() + 7) // 8, "big")


def _decode_attendance(frame: bytes) -> Attendance:
    if len(frame) < _ATTENDANCE.size:
        raise WireError("an Attendance that ends within its head")
    _, incarnation, generation, run, asks, *sizes, count, width = _ATTENDANCE.unpack_from(frame)
    if incarnation | generation > MOST_COUNT:
        raise WireError("an Attendance with a count beyond 2^63")
    if asks > 1:
        raise WireError(f"an Attendance that asks {asks}, expected 0 or 1")
    sender, receiver, at = _read_labels(frame, _ATTENDANCE.size)
    end = at + sum(sizes) + count * width
    _check_end(frame, end, "an Attendance")
    sets: list[Any] = []
    for size in sizes:
        if size and not frame[at]:
            raise WireError("a set of an Attendance that is padded")
        sets.append(_integer(frame[at : at + size], "big"))
        at += size
    readings = _read_counts(frame, at, count, width)
    register = _make(Register, (generation, *sets, readings))
    return Attendance(sender, receiver, incarnation, _some(run), register, asks == 1)


def _read_counts(frame: bytes, at: int, count: int, width: int) -> tuple[int, ...]:
    """`count` counts of readings, in as few bytes each as the largest needs."""
    if not count and not width:
        return ()
    if not (count and 0 < width <= 8):
        raise WireError(f"an Attendance with {count} counts of {width} bytes, expected 1 to 8")
    found = tuple(
        [_integer(frame[k : k + width], "big") for k in range(at, at + count * width, width)]
    )
    if max(found) > MOST_COUNT or max(1, (max(found).bit_length() + 7) // 8) != width:
        raise WireError("an Attendance with a count that is padded or beyond 2^63")
    return found


def _encode_exchange(message: RecordExchange, start: bytes) -> bytes:
    sender, receiver, run, query, concluded, done, heard, digests, names, chunk, echo = message
    _check_counts(query, concluded, 0)
    _check_tags(run, echo)
    if not (type(done) is type(heard) is bool and type(digests) is type(chunk) is bytes):
        raise TypeError
    if len(digests) not in (0, BUCKETS * NAME):
        raise ValueError
    parts: list[bytes] = []
    last = -1
    for bucket, found in names:
        if type(bucket) is not int or type(found) is not bytes:
            raise TypeError
        if not last < bucket < BUCKETS or len(found) % NAME:
            raise ValueError
        last = bucket
        parts += _NAMES.pack(bucket, len(found) // NAME), found
    head = _EXCHANGE.pack(
        start, query, concluded, run, echo, done + 2 * heard, len(digests), len(names),
        len(chunk),
    )  # fmt: skip
    return b"".join((head, _labels(sender, receiver), digests, *parts, chunk))


def _decode_exchange(frame: bytes) -> RecordExchange:
    if len(frame) < _EXCHANGE.size:
        raise WireError("a RecordExchange that ends within its head")
    _, query, concluded, run, echo, flags, size, count, rest = _EXCHANGE.unpack_from(frame)
    if query | concluded > MOST_COUNT:
        raise WireError("a RecordExchange with a count beyond 2^63")
    if flags > 3:
        raise WireError(f"a RecordExchange with flags {flags}, expected 0 to 3")
    if size not in (0, BUCKETS * NAME) or count > BUCKETS:
        raise WireError(f"a RecordExchange with {size} bytes of digests and {count} buckets")
    sender, receiver, at = _read_labels(frame, _EXCHANGE.size)
    digests, at = frame[at : at + size], at + size
    names, at = _read_names(frame, at, count)
    end = at + rest
    _check_end(frame, end, "a RecordExchange")
    return _make(RecordExchange, (
        sender, receiver, _some(run), query, concluded, flags & 1 == 1, flags > 1, digests, names,
        frame[at:end], _some(echo),
    ))  # fmt: skip


def _read_names(frame: bytes, at: int, count: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """`count` buckets in order with the names in them, and where they end."""
    found, last = [], -1
    for _ in range(count):
        if at + _NAMES.size > len(frame):
            raise WireError("a RecordExchange that ends before its names do")
        bucket, many = _NAMES.unpack_from(frame, at)
        start, at = at + _NAMES.size, at + _NAMES.size + many * NAME
        if bucket <= last or at > len(frame):
            raise WireError("names that are cut off, or buckets out of order")
        found.append((bucket, frame[start:at]))
        last = bucket
    return tuple(found), at


def _read_labels(frame: bytes, at: int) -> tuple[str, str, int]:
    size = len(frame)
    between = at + 1 + frame[at] if at < size else size
    end = between + 1 + frame[between] if between < size else size
    return *_split(frame[at:end]), end


def _end_of_label(frame: bytes, at: int) -> int:
    if at >= len(frame):
        raise WireError("a message that ends before its labels")
    length = frame[at]
    end = at + 1 + length
    if not 0 < length <= MOST_LABEL or end > len(frame):
        raise WireError(f"a label of {length} bytes, expected 1 to {MOST_LABEL} and all there")
    return end


@lru_cache(maxsize=4096)
def _split(labels: bytes) -> tuple[str, str]:
    """Sender and receiver; those of a link are checked once."""
    between = _end_of_label(labels, 0)
    end = _end_of_label(labels, between)
    try:
        return str(labels[1:between], "utf-8"), str(labels[between + 1 : end], "utf-8")
    except UnicodeDecodeError:
        raise WireError("a label that is not UTF-8") from None


def _read_numbers(frame: bytes, at: int, count: int) -> tuple[int, ...]:
    """`count` numbers without padding, which end where the frame or its extensions do."""
    size, found = len(frame), []
    for _ in range(count):
        if at >= size:
            raise WireError("a CumulativeMass that ends before its numbers do")
        length = frame[at]
        start, at = at + 1, at + 1 + length
        number = _integer(frame[start:at], "big", signed=True)
        needed = number.bit_length() // 8 + 1 if number else 0
        if length != needed or length > MOST_INTEGER or at > size:
            raise WireError("a number that is cut off, too long or padded")
        found.append(number)
    if at != size:
        if frame[2] < EXTENSIBLE:
            raise WireError(f"{size - at} bytes after the last number")
        _read_extensions(frame, at)
    return tuple(found)


_DECODERS: dict[bytes, Callable[[bytes], Message]] = {
    _STARTS[kind, version]: reader
    for version in range(OLDEST, VERSION + 1)
    for kind, reader in (
        (CumulativeMass, _decode_mass),
        (Attendance, _decode_attendance),
        (Hello, _decode_hello),
        (RecordExchange, _decode_exchange),
    )
}
_STATUS_STARTS = {_STARTS[StatusMessage, version] for version in range(OLDEST, VERSION + 1)}
