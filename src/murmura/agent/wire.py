"""Messages as bytes: what `encode` does not know cannot leave, and `decode` trusts nothing.

A frame is a fixed head (numbers big-endian, counts last), then the labels of sender and receiver,
each a length and UTF-8, then whole numbers, each a length and two's complement in
bit_length // 8 + 1 bytes (0 in none):

    Hello   "mu" 3 1 life peer_life epoch heard manifest[32] token[8] echo[8] own known asks #fields
            | sender receiver | 8 bytes each
    Totals  "mu" 3 2 life peer_life round heard phase depth stop releases flags token[8] echo[8]
            run[8] head[16] seal[8] #sums #low #high | sender receiver | weight sums low high

`own` and `known` are each start releases run[8] proof[8] head[16] seal[8]. The flags are bye (1)
and done (2). No token, run, proof, head or seal is as many bytes of 0, which is none.

Every message has one encoding, so encode(decode(b)) == b. Sizes and counts are bounded before
anything is allocated. There are no floats: NaN and infinities cannot be said.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from struct import Struct
from typing import Any

from murmura.agent.messages import Extremes, Hello, Message, Standing, Totals
from murmura.errors import AgentError

MAGIC, VERSION = b"mu", 3
MOST_BYTES = 65_536  # of a frame
MOST_LABEL = 200  # bytes of UTF-8
MOST_INTEGER = 64  # bytes: numbers below 2^511 in size
MOST_COMPONENTS = 1024
MOST_FIELDS = 64
MOST_COUNT = 2**63 - 1  # of lives, rounds and the like

_HELLO_START, _TOTALS_START = MAGIC + bytes([VERSION, 1]), MAGIC + bytes([VERSION, 2])
_HELLO = Struct(">4s4Q32s8s8s" + 2 * "2Q8s8s16s8s" + "2B")
_TOTALS = Struct(">4s8QB8s8s8s16s8s3H")
_FIELD = 8
_NO_TOKEN, _NO_HEAD = bytes(8), bytes(16)
_integer = int.from_bytes
_make = tuple.__new__  # of a NamedTuple, all fields given: half the time of calling it
_NO_EXTREMES = Extremes()
_LENGTHS = [bytes([length]) for length in range(MOST_INTEGER + 1)]


class WireError(AgentError):
    """Bytes that are no message of this version; `reason` says why and quotes none of them."""

    @property
    def reason(self) -> str:
        """What was wrong."""
        return str(self)


def encode(message: Message) -> bytes:
    """The bytes of a Hello or a Totals; AgentError for anything else."""
    kind = type(message)
    try:
        if kind is Totals:
            data = _encode_totals(message)  # type: ignore[arg-type]
        elif kind is Hello:
            data = _encode_hello(message)  # type: ignore[arg-type]
        else:
            raise AgentError(f"only Hello and Totals may leave an agent, found {kind.__name__}")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise AgentError(
            f"this {kind.__name__} holds a value of the wrong type or size; expected labels, "
            f"counts below 2^63 and whole numbers below 2^{8 * MOST_INTEGER - 1}"
        ) from None
    if len(data) > MOST_BYTES:
        raise AgentError(
            f"this {kind.__name__} takes {len(data):,} bytes, at most {MOST_BYTES:,} may be sent; "
            "use fewer components"
        )
    return data


def decode(data: bytes | memoryview) -> Message:
    """The message that `encode` made into these bytes; WireError for all others."""
    size = len(data)
    if size > MOST_BYTES:
        raise WireError(f"{size:,} bytes, at most {MOST_BYTES:,} are taken")
    frame = data if type(data) is bytes else bytes(data)
    start = frame[:4]
    if start == _TOTALS_START:
        return _decode_totals(frame, size)
    if start == _HELLO_START:
        return _decode_hello(frame)
    raise WireError(_unknown(start))


def _unknown(start: bytes) -> str:
    if len(start) < 4:
        return f"{len(start)} bytes are too short for a message"
    if start[:2] != MAGIC:
        return "not a message of murmura"
    if start[2] != VERSION:
        return f"version {start[2]} of the wire, expected {VERSION}"
    return f"unknown kind {start[3]}, expected 1 (Hello) or 2 (Totals)"


def _encode_hello(message: Hello) -> bytes:
    sender, receiver, life, peer_life, epoch, manifest, fields, heard, token, echo, *both, asks = (
        message
    )
    if len(manifest) != 32 or len(fields) > MOST_FIELDS or any(len(f) != _FIELD for f in fields):
        raise ValueError
    _check_counts(life, peer_life, epoch, heard)
    _check_tokens(token, echo)
    if type(asks) is not bool:
        raise TypeError
    standings = [part for one in both for part in _pack_standing(one)]
    head = _HELLO.pack(
        _HELLO_START,
        life,
        peer_life,
        epoch,
        heard,
        manifest,
        token,
        echo,
        *standings,
        asks,
        len(fields),
    )
    return b"".join((head, _labels(sender, receiver), *fields))


def _pack_standing(standing: Standing) -> tuple[int | bytes, ...]:
    if type(standing) is not Standing:
        raise TypeError
    start, run, proof, releases, head, seal = standing
    _check_counts(start, releases, 0)
    _check_tokens(run, proof)
    _check_head(head, seal)
    return start, releases, run, proof, head, seal


def _read_standing(parts: list[Any]) -> Standing:
    start, releases, run, proof, head, seal = parts
    if start | releases > MOST_COUNT:
        raise WireError("a Hello with a count beyond 2^63")
    return Standing(
        start, _some(run), _some(proof), releases, b"" if head == _NO_HEAD else head, _some(seal)
    )


def _some(token: bytes) -> bytes:
    return b"" if token == _NO_TOKEN else token


def _encode_totals(message: Totals) -> bytes:
    sender, receiver, life, peer_life, now, heard, sums, weight, extremes = message[:9]
    bye, done, token, echo, run, releases, top, seal = message[9:]
    phase, depth, low, high, stop = extremes
    counts = life, peer_life, now, heard, phase, depth, stop, releases
    _check_counts(*counts)
    _check_tokens(token, echo)
    _check_tokens(run)
    _check_head(top, seal)
    sizes = len(sums), len(low), len(high)
    if max(sizes) > MOST_COMPONENTS or type(extremes) is not Extremes:
        raise ValueError
    if not type(bye) is type(done) is bool:
        raise TypeError
    head = _TOTALS.pack(_TOTALS_START, *counts, bye + 2 * done, token, echo, run, top, seal, *sizes)
    parts = [head, _labels(sender, receiver)]
    for number in (weight, *sums, *low, *high):
        if type(number) is not int:
            raise TypeError
        length = number.bit_length() // 8 + 1 if number else 0
        parts += _LENGTHS[length], number.to_bytes(length, "big", signed=True)
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


def _check_tokens(token: bytes, echo: bytes = b"") -> None:
    """Bytes, 8 of them or none, and not 8 zeros, which stand for none."""
    if not type(token) is type(echo) is bytes:
        raise TypeError
    if len(token) not in (0, 8) or len(echo) not in (0, 8) or _NO_TOKEN in (token, echo):
        raise ValueError


@lru_cache(maxsize=4096)
def _check_head(head: bytes, seal: bytes) -> None:
    """A head of 16 bytes or none, and its seal of 8."""
    _check_tokens(seal)
    if type(head) is not bytes:
        raise TypeError
    if len(head) not in (0, 16) or head == _NO_HEAD:
        raise ValueError


def _labels(sender: str, receiver: str) -> bytes:
    return _label(sender) + _label(receiver)


def _label(text: str) -> bytes:
    encoded = text.encode()
    if not 0 < len(encoded) <= MOST_LABEL:
        raise ValueError
    return len(encoded).to_bytes(1, "big") + encoded


def _decode_hello(frame: bytes) -> Hello:
    if len(frame) < _HELLO.size:
        raise WireError("a Hello that ends within its head")
    _, life, peer_life, epoch, heard, manifest, token, echo, *both, asks, fields = (
        _HELLO.unpack_from(frame)
    )
    if life | peer_life | epoch | heard > MOST_COUNT:
        raise WireError("a Hello with a count beyond 2^63")
    if asks > 1:
        raise WireError(f"a Hello that asks {asks}, expected 0 or 1")
    if fields > MOST_FIELDS:
        raise WireError(f"a Hello with {fields} fields, at most {MOST_FIELDS} are taken")
    sender, receiver, at = _read_labels(frame, _HELLO.size)
    if len(frame) != at + fields * _FIELD:
        raise WireError(f"a Hello of {len(frame)} bytes, expected {at + fields * _FIELD}")
    digests = tuple(frame[k : k + _FIELD] for k in range(at, len(frame), _FIELD))
    return Hello(
        sender, receiver, life, peer_life, epoch, manifest, digests, heard, _some(token),
        _some(echo), _read_standing(both[:6]), _read_standing(both[6:]), asks == 1,
    )  # fmt: skip


def _decode_totals(frame: bytes, size: int) -> Totals:
    if size < _TOTALS.size:
        raise WireError("a Totals that ends within its head")
    (
        _, life, peer_life, now, heard, phase, depth, stop, releases, flags, token, echo, run, top,
        seal, sums, low, high,
    ) = _TOTALS.unpack_from(frame)  # fmt: skip
    if life | peer_life | now | heard | phase | depth | stop | releases > MOST_COUNT:
        raise WireError("a Totals with a count beyond 2^63")
    if flags > 3:
        raise WireError(f"a Totals with flags {flags}, expected 0 to 3")
    if max(sums, low, high) > MOST_COMPONENTS:
        raise WireError(f"a Totals with more than {MOST_COMPONENTS:,} components")
    sender, receiver, at = _read_labels(frame, _TOTALS.size)
    numbers = _read_numbers(frame, at, 1 + sums + low + high)
    first, second = 1 + sums, 1 + sums + low
    extremes = _NO_EXTREMES
    if phase or depth or stop or low or high:
        extremes = Extremes(phase, depth, numbers[first:second], numbers[second:], stop)
    return _make(Totals, (
        sender, receiver, life, peer_life, now, heard, numbers[1:first], numbers[0], extremes,
        flags & 1 == 1, flags > 1, _some(token), _some(echo), _some(run), releases,
        b"" if top == _NO_HEAD else top, _some(seal),
    ))  # fmt: skip


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
            raise WireError("a Totals that ends before its numbers do")
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
