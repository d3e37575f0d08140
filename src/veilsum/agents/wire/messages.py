"""The four messages that members exchange, each as bytes and back.

A decoder is given a frame whose first four bytes are its own; the frame's size is bounded.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from veilsum.agents.messages import (
    Attendance,
    CumulativeMass,
    Hello,
    PeerStatus,
    RangeReport,
    RecordExchange,
    Register,
)
from veilsum.agents.wire.extensions import (
    EXTENSIBLE,
    SPEAKS,
    decode_speaks,
    encode_speaks,
    read_end,
    read_extensions,
)
from veilsum.agents.wire.frames import (
    MOST_COUNT,
    NO_HEAD,
    NO_TAG,
    WireError,
    check_counts,
    check_head,
    check_names,
    check_tags,
    labels_of,
    read_labels,
    read_tag,
)

MOST_INTEGER = 64  # bytes: numbers below 2^511 in size
MOST_FIELDS = 64
MOST_SUMS = 1024  # components of a CumulativeMass
BUCKETS, NAME = 256, 8  # of records, and bytes that name one within its bucket

_HELLO = Struct(">4s4Q32s8s8s" + 2 * "2Q8s8s16s8s" + "2B")
_MASS = Struct(">4s8QB8s8s8s16s8s8s3H")
_ATTENDANCE = Struct(">4s2Q8sB6HB")
_EXCHANGE = Struct(">4s2Q8s8sB2HI")
_NAMES = Struct(">BH")
_FIELD = 8
_integer = int.from_bytes
_make = tuple.__new__  # of a NamedTuple, all fields given: half the time of calling it
_NO_REPORT = RangeReport()
_LENGTHS = [bytes([length]) for length in range(MOST_INTEGER + 1)]


def encode_hello(message: Hello, start: bytes) -> bytes:
    """A Hello as bytes that begin with `start`."""
    sender, receiver, incarnation, peer_incarnation, epoch, manifest, fields = message[:7]
    acknowledged, tag, echo, own, known, asks, speaks = message[7:]
    fields, extension = encode_speaks(start[2], fields, speaks)
    if len(manifest) != 32 or len(fields) > MOST_FIELDS or any(len(f) != _FIELD for f in fields):
        raise ValueError
    check_counts(incarnation, peer_incarnation, epoch, acknowledged)
    check_tags(tag, echo)
    if type(asks) is not bool:
        raise TypeError
    statuses = *_pack_status(own), *_pack_status(known)
    head = _HELLO.pack(
        start, incarnation, peer_incarnation, epoch, acknowledged, manifest, tag, echo, *statuses,
        asks, len(fields),
    )  # fmt: skip
    return b"".join((head, labels_of(sender, receiver), *fields, extension))


def _pack_status(status: PeerStatus) -> tuple[int | bytes, ...]:
    if type(status) is not PeerStatus:
        raise TypeError
    start, run, start_proof, releases, head, head_proof = status
    check_counts(start, releases, 0)
    check_tags(run, start_proof)
    check_head(head, head_proof)
    return start, releases, run, start_proof, head, head_proof


def decode_hello(frame: bytes) -> Hello:
    """A Hello from the bytes of its frame."""
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
    sender, receiver, at = read_labels(frame, _HELLO.size)
    end = at + fields * _FIELD
    extensions = read_end(frame, end, "a Hello", (SPEAKS,))
    digests = tuple(frame[k : k + _FIELD] for k in range(at, end, _FIELD))
    digests, speaks = decode_speaks(frame[2], digests, extensions)
    return Hello(
        sender, receiver, incarnation, peer_incarnation, epoch, manifest, digests, acknowledged,
        read_tag(tag), read_tag(echo), _read_status(both[:6]), _read_status(both[6:]), asks == 1, speaks,
    )  # fmt: skip


def _read_status(parts: list[Any]) -> PeerStatus:
    start, releases, run, start_proof, head, head_proof = parts
    if start | releases > MOST_COUNT:
        raise WireError("a Hello with a count beyond 2^63")
    head = b"" if head == NO_HEAD else head
    return PeerStatus(
        start, read_tag(run), read_tag(start_proof), releases, head, read_tag(head_proof)
    )


def encode_mass(message: CumulativeMass, start: bytes) -> bytes:
    """A CumulativeMass as bytes that begin with `start`."""
    (
        sender, receiver, incarnation, peer_incarnation, now, acknowledged, sums, weight, report,
        leaving, done, tag, echo, run, releases, top, head_proof, view,
    ) = message  # fmt: skip
    phase, depth, low, high, stop = report
    check_counts(incarnation, peer_incarnation, now, acknowledged, phase, depth, stop, releases)
    check_tags(tag, echo)
    check_names(run, view, top, head_proof)
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
        labels_of(sender, receiver),
    ]  # fmt: skip
    for number in numbers:
        if type(number) is not int:
            raise TypeError
        length = number.bit_length() // 8 + 1 if number else 0
        parts.append(_LENGTHS[length])
        parts.append(number.to_bytes(length, "big", signed=True))
    return b"".join(parts)


def decode_mass(frame: bytes) -> CumulativeMass:
    """A CumulativeMass from the bytes of its frame."""
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
    sender, receiver, at = read_labels(frame, _MASS.size)
    numbers = _read_numbers(frame, at, 1 + sums + low + high)
    report, totals = _NO_REPORT, numbers[1:]
    if phase or depth or stop or low or high:
        first, second = 1 + sums, 1 + sums + low
        totals = numbers[1:first]
        report = RangeReport(phase, depth, numbers[first:second], numbers[second:], stop)
    return _make(CumulativeMass, (
        sender, receiver, incarnation, peer_incarnation, now, acknowledged, totals, numbers[0],
        report, flags & 1 == 1, flags > 1,
        b"" if tag == NO_TAG else tag, b"" if echo == NO_TAG else echo,
        b"" if run == NO_TAG else run, releases, b"" if top == NO_HEAD else top,
        b"" if head_proof == NO_TAG else head_proof, b"" if view == NO_TAG else view,
    ))  # fmt: skip


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
        read_extensions(frame, at)
    return tuple(found)


def encode_attendance(message: Attendance, start: bytes) -> bytes:
    """An Attendance as bytes that begin with `start`."""
    sender, receiver, incarnation, run, register, asks = message
    if type(register) is not Register or type(asks) is not bool:
        raise TypeError
    generation, dropped, present, contributing, finished, ended, readings = register
    check_counts(incarnation, generation, 0)
    check_tags(run)
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
    return b"".join((head, labels_of(sender, receiver), *sets, counts))


def _set(found: int) -> bytes:
    """A set as a number, in as few bytes as it takes."""
    if type(found) is not int:
        raise TypeError
    return found.to_bytes((found.bit_length() + 7) // 8, "big")


def decode_attendance(frame: bytes) -> Attendance:
    """An Attendance from the bytes of its frame."""
    if len(frame) < _ATTENDANCE.size:
        raise WireError("an Attendance that ends within its head")
    _, incarnation, generation, run, asks, *sizes, count, width = _ATTENDANCE.unpack_from(frame)
    if incarnation | generation > MOST_COUNT:
        raise WireError("an Attendance with a count beyond 2^63")
    if asks > 1:
        raise WireError(f"an Attendance that asks {asks}, expected 0 or 1")
    sender, receiver, at = read_labels(frame, _ATTENDANCE.size)
    end = at + sum(sizes) + count * width
    read_end(frame, end, "an Attendance")
    sets: list[Any] = []
    for size in sizes:
        if size and not frame[at]:
            raise WireError("a set of an Attendance that is padded")
        sets.append(_integer(frame[at : at + size], "big"))
        at += size
    readings = _read_counts(frame, at, count, width)
    register = _make(Register, (generation, *sets, readings))
    return Attendance(sender, receiver, incarnation, read_tag(run), register, asks == 1)


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


def encode_exchange(message: RecordExchange, start: bytes) -> bytes:
    """A RecordExchange as bytes that begin with `start`."""
    sender, receiver, run, query, concluded, done, heard, digests, names, chunk, echo = message
    check_counts(query, concluded, 0)
    check_tags(run, echo)
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
    return b"".join((head, labels_of(sender, receiver), digests, *parts, chunk))


def decode_exchange(frame: bytes) -> RecordExchange:
    """A RecordExchange from the bytes of its frame."""
    if len(frame) < _EXCHANGE.size:
        raise WireError("a RecordExchange that ends within its head")
    _, query, concluded, run, echo, flags, size, count, rest = _EXCHANGE.unpack_from(frame)
    if query | concluded > MOST_COUNT:
        raise WireError("a RecordExchange with a count beyond 2^63")
    if flags > 3:
        raise WireError(f"a RecordExchange with flags {flags}, expected 0 to 3")
    if size not in (0, BUCKETS * NAME) or count > BUCKETS:
        raise WireError(f"a RecordExchange with {size} bytes of digests and {count} buckets")
    sender, receiver, at = read_labels(frame, _EXCHANGE.size)
    digests, at = frame[at : at + size], at + size
    names, at = _read_names(frame, at, count)
    end = at + rest
    read_end(frame, end, "a RecordExchange")
    return _make(RecordExchange, (
        sender, receiver, read_tag(run), query, concluded, flags & 1 == 1, flags > 1, digests, names,
        frame[at:end], read_tag(echo),
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
