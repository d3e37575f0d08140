"""Messages as bytes: `encode` refuses what it does not know, and `decode` trusts nothing.

A frame is a fixed header (numbers big-endian, counts last), then the labels of sender and receiver,
each a length and UTF-8, then integers, each a length and two's complement in bit_length // 8 + 1
bytes (0 in none):

    Hello           "mu" 5 1 incarnation peer_incarnation epoch acknowledged manifest[32] tag[8]
                    echo[8] own known asks #fields
                    | sender receiver | 8 bytes each
    CumulativeMass  "mu" 5 2 incarnation peer_incarnation round acknowledged phase depth stop
                    releases flags tag[8] echo[8] run[8] head[16] head_proof[8] view[8]
                    #sums #low #high
                    | sender receiver | weight sums low high
    Attendance      "mu" 5 3 incarnation generation run[8] asks size of each set[5] #readings width
                    | sender receiver | dropped present contributing finished ended | readings
    RecordExchange  "mu" 5 4 query concluded run[8] echo[8] flags size of digests #names size of chunk
                    | sender receiver | digests | names, each a bucket and #8 bytes each | chunk
    StatusMessage   "mu" 5 5 sequence size of text
                    | sender receiver | text in UTF-8

`own` and `known` are each start releases run[8] start_proof[8] head[16] head_proof[8]. The flags
are leaving (1) and done (2), of a RecordExchange done (1) and heard_done (2). An absent tag, echo,
run, head, proof or view is as many bytes of 0. A set is a number in as few bytes as it takes, and each
count of readings takes `width` bytes, as few as the largest needs.

Every message has one encoding, so encode(decode(b)) == b. Sizes and counts are bounded before
anything is allocated. There are no floats: NaN and infinities cannot be expressed.

Members exchange the first four. A StatusMessage is for observers and has functions of its own: `encode`
and `decode`, which links of members use, know it no more than any other bytes.
"""

from __future__ import annotations

import struct
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
from murmura.errors import AgentError

MAGIC, VERSION = b"mu", 5
MOST_BYTES = 65_536  # of a frame
MOST_LABEL = 200  # bytes of UTF-8
MOST_INTEGER = 64  # bytes: numbers below 2^511 in size
MOST_FIELDS = 64
MOST_SUMS = 1024  # components of a CumulativeMass
BUCKETS, NAME = 256, 8  # of records, and bytes that name one within its bucket
MOST_COUNT = 2**63 - 1  # of incarnations, rounds and the like

_HELLO_START, _MASS_START = MAGIC + bytes([VERSION, 1]), MAGIC + bytes([VERSION, 2])
_ATTENDANCE_START = MAGIC + bytes([VERSION, 3])
_EXCHANGE_START = MAGIC + bytes([VERSION, 4])
_STATUS_START = MAGIC + bytes([VERSION, 5])
_HELLO = Struct(">4s4Q32s8s8s" + 2 * "2Q8s8s16s8s" + "2B")
_MASS = Struct(">4s8QB8s8s8s16s8s8s3H")
_ATTENDANCE = Struct(">4s2Q8sB6HB")
_EXCHANGE = Struct(">4s2Q8s8sB2HI")
_STATUS = Struct(">4sQI")
_NAMES = Struct(">BH")
_FIELD = 8
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


def encode(message: Message) -> bytes:
    """The bytes of a message.

    Parameters
    ----------
    message : Hello, CumulativeMass, Attendance or RecordExchange
        What is sent.

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
    try:
        if kind is CumulativeMass:
            data = _encode_mass(message)  # type: ignore[arg-type]
        elif kind is Hello:
            data = _encode_hello(message)  # type: ignore[arg-type]
        elif kind is Attendance:
            data = _encode_attendance(message)  # type: ignore[arg-type]
        elif kind is RecordExchange:
            data = _encode_exchange(message)  # type: ignore[arg-type]
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
        For all other bytes; the reason quotes none of them.

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
    start = frame[:4]
    if start == _MASS_START:
        return _decode_mass(frame, size)
    if start == _ATTENDANCE_START:
        return _decode_attendance(frame)
    if start == _HELLO_START:
        return _decode_hello(frame)
    if start == _EXCHANGE_START:
        return _decode_exchange(frame)
    raise WireError(_unknown(start))


def _unknown(start: bytes) -> str:
    if len(start) < 4:
        return f"{len(start)} bytes are too short for a message"
    if start[:2] != MAGIC:
        return "not a message of murmura"
    if start[2] != VERSION:
        return f"version {start[2]} of the wire, expected {VERSION}"
    if start == _STATUS_START:
        return "a status, which is for observers; members exchange none"
    return (
        f"unknown kind {start[3]}, expected 1 (Hello), 2 (CumulativeMass), 3 (Attendance) or "
        "4 (RecordExchange)"
    )


def encode_status(message: StatusMessage) -> bytes:
    """The bytes of a status for an observer.

    Parameters
    ----------
    message : StatusMessage
        What is sent.

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
        head = _STATUS.pack(_STATUS_START, sequence, len(encoded))
        data = b"".join((head, _labels(sender, receiver), encoded))
    except (AttributeError, TypeError, ValueError, struct.error):
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
    if start != _STATUS_START:
        known = start in (_HELLO_START, _MASS_START, _ATTENDANCE_START, _EXCHANGE_START)
        raise WireError(
            "a message for members; observers accept none" if known else _unknown(start)
        )
    if size < _STATUS.size:
        raise WireError("a StatusMessage that ends within its head")
    _, sequence, length = _STATUS.unpack_from(frame)
    if sequence > MOST_COUNT:
        raise WireError("a StatusMessage with a count beyond 2^63")
    sender, receiver, at = _read_labels(frame, _STATUS.size)
    if size != at + length:
        raise WireError(f"a StatusMessage of {size} bytes, expected {at + length}")
    try:
        return StatusMessage(sender, receiver, sequence, str(frame[at:], "utf-8"))
    except UnicodeDecodeError:
        raise WireError("a status that is not UTF-8") from None


def _encode_hello(message: Hello) -> bytes:
    sender, receiver, incarnation, peer_incarnation, epoch, manifest, fields = message[:7]
    acknowledged, tag, echo, own, known, asks = message[7:]
    if len(manifest) != 32 or len(fields) > MOST_FIELDS or any(len(f) != _FIELD for f in fields):
        raise ValueError
    _check_counts(incarnation, peer_incarnation, epoch, acknowledged)
    _check_tags(tag, echo)
    if type(asks) is not bool:
        raise TypeError
    statuses = *_pack_status(own), *_pack_status(known)
    head = _HELLO.pack(
        _HELLO_START, incarnation, peer_incarnation, epoch, acknowledged, manifest, tag, echo,
        *statuses, asks, len(fields),
    )  # fmt: skip
    return b"".join((head, _labels(sender, receiver), *fields))


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


def _encode_mass(message: CumulativeMass) -> bytes:
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
            _MASS_START, incarnation, peer_incarnation, now, acknowledged, phase, depth, stop,
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
    if len(frame) != at + fields * _FIELD:
        raise WireError(f"a Hello of {len(frame)} bytes, expected {at + fields * _FIELD}")
    digests = tuple(frame[k : k + _FIELD] for k in range(at, len(frame), _FIELD))
    return Hello(
        sender, receiver, incarnation, peer_incarnation, epoch, manifest, digests, acknowledged,
        _some(tag), _some(echo), _read_status(both[:6]), _read_status(both[6:]), asks == 1,
    )  # fmt: skip


def _decode_mass(frame: bytes, size: int) -> CumulativeMass:
    if size < _MASS.size:
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


def _encode_attendance(message: Attendance) -> bytes:
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
        _ATTENDANCE_START, incarnation, generation, run, asks, *map(len, sets), len(readings), width
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
    if len(frame) != end:
        raise WireError(f"an Attendance of {len(frame)} bytes, expected {end}")
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


def _encode_exchange(message: RecordExchange) -> bytes:
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
        _EXCHANGE_START, query, concluded, run, echo, done + 2 * heard, len(digests), len(names),
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
    if len(frame) != at + rest:
        raise WireError(f"a RecordExchange of {len(frame)} bytes, expected {at + rest}")
    return _make(RecordExchange, (
        sender, receiver, _some(run), query, concluded, flags & 1 == 1, flags > 1, digests, names,
        frame[at:], _some(echo),
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
    """`count` numbers without padding, which end where the frame does."""
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
        raise WireError(f"{size - at} bytes after the last number")
    return tuple(found)
