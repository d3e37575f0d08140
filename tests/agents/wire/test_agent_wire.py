"""The wire: what may leave, one encoding for each message, and a decoder that nothing surprises."""

from __future__ import annotations

import random
import tracemalloc
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.agents import wire
from veilsum.agents.events import Released
from veilsum.agents.messages import (
    Attendance,
    CumulativeMass,
    Hello,
    PeerStatus,
    RangeReport,
    RecordExchange,
    Register,
    StatusMessage,
)
from veilsum.agents.wire import (
    MOST_BYTES,
    MOST_COUNT,
    WireError,
    decode,
    decode_status,
    encode,
    encode_status,
    frames,
    messages,
)
from veilsum.errors import AgentError

LARGEST = 2**511 - 1
LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
COUNTS = st.integers(0, MOST_COUNT)
NUMBERS = st.integers(-LARGEST, LARGEST)
SUMS = st.lists(NUMBERS, max_size=5).map(tuple)
TAGS = st.one_of(st.just(b""), st.binary(min_size=8, max_size=8).filter(any))
HEADS = st.one_of(st.just(b""), st.binary(min_size=16, max_size=16).filter(any))
STATUSES = st.builds(PeerStatus, COUNTS, TAGS, TAGS, COUNTS, HEADS, TAGS)
HELLOS = st.builds(
    Hello, LABELS, LABELS, COUNTS, COUNTS, COUNTS, st.binary(min_size=32, max_size=32),
    st.lists(st.binary(min_size=8, max_size=8), max_size=20).map(tuple), COUNTS, TAGS, TAGS,
    STATUSES, STATUSES, st.booleans(), st.integers(0, 255),
)  # fmt: skip
VERSIONS = st.sampled_from(range(wire.OLDEST, wire.VERSION + 1))
MASSES = st.builds(
    CumulativeMass, LABELS, LABELS, COUNTS, COUNTS, COUNTS, COUNTS, SUMS, NUMBERS,
    st.builds(RangeReport, COUNTS, COUNTS, SUMS, SUMS, COUNTS), st.booleans(), st.booleans(), TAGS,
    TAGS, TAGS, COUNTS, HEADS, TAGS, TAGS,
)  # fmt: skip
SETS = st.integers(0, 2**80)
REGISTERS = st.builds(
    Register, COUNTS, SETS, SETS, SETS, SETS, SETS,
    st.one_of(st.lists(st.integers(0, 300), max_size=9), st.lists(COUNTS, max_size=9)).map(tuple),
)  # fmt: skip
ATTENDANCES = st.builds(Attendance, LABELS, LABELS, COUNTS, TAGS, REGISTERS, st.booleans())
NAMES = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 3).map(lambda k: b"12345678" * k)),
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(lambda names: tuple(sorted(names)))
EXCHANGES = st.builds(
    RecordExchange, LABELS, LABELS, TAGS, COUNTS, COUNTS, st.booleans(), st.booleans(),
    st.sampled_from([b"", bytes(2048)]), NAMES, st.binary(max_size=60), TAGS,
)  # fmt: skip
REPORTED = st.builds(
    StatusMessage,
    LABELS,
    LABELS,
    COUNTS,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)
REPORT: Any = StatusMessage("Medici", "control-room", 7, '{"state": "läuft"}')
MESSAGES = st.one_of(HELLOS, MASSES, ATTENDANCES, EXCHANGES)
GOOD: Any = CumulativeMass(
    "Medici",
    "Strozzi",
    3,
    2,
    57,
    56,
    (-(10**30), 0, 7),
    10**20,
    RangeReport(1, 2, (3,)),
    tag=b"t" * 8,
    run=b"r" * 8,
    releases=12,
    head=b"h" * 16,
    head_proof=b"s" * 8,
    view=b"v" * 8,
)
REGISTER: Any = Register(2, 0b101, 0b1110, 0b110, 0b10, 0b1, (0, 3, 300, 7))
ATTENDANCE: Any = Attendance("Medici", "Strozzi", 3, b"r" * 8, REGISTER, True)
EXCHANGE: Any = RecordExchange(
    "Medici",
    "Strozzi",
    b"r" * 8,
    3,
    2,
    True,
    False,
    b"",
    ((0, b"n" * 16), (7, b"")),
    b"chunk",
    b"e" * 8,
)
STATUS: Any = PeerStatus(4, b"r" * 8, b"p" * 8, 12, b"h" * 16, b"s" * 8)
HELLO: Any = Hello(
    "Medici", "Strozzi", 3, 2, 1, bytes(range(32)), (b"abcdefgh",) * 20, 9, b"t" * 8, b"e" * 8,
    STATUS, STATUS._replace(start=9),
)  # fmt: skip


def check_canonical(message: Any, data: Any) -> None:
    """The frame is the one encoding of the message, and extensions that may be skipped."""
    write = encode_status if type(message) is StatusMessage else encode
    again = write(message, data[2])
    rest = bytes(data[len(again) :])
    assert bytes(data) == again + rest
    assert not rest or (data[2] >= wire.EXTENSIBLE and rest[0] >= wire.OPTIONAL)


@pytest.mark.thorough
@given(MESSAGES, VERSIONS)
def test_there_and_back(message: Any, version: Any) -> None:
    data = encode(message, version)
    again = decode(data)
    assert again == message
    assert type(again) is type(message)
    assert encode(again, version) == data
    assert decode(memoryview(data)) == message


@pytest.mark.thorough
@given(MESSAGES, VERSIONS, st.data())
def test_no_other_bytes_mean_the_same(message: Any, version: Any, data: Any) -> None:
    """Canonical: change any byte, and it is another message, another version or none."""
    frame = bytearray(encode(message, version))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    try:
        changed = decode(frame)
    except WireError:
        return
    assert (changed, frame[2]) != (message, version)
    check_canonical(changed, frame)


@given(REPORTED)
def test_a_status_there_and_back(message: Any) -> None:
    data = encode_status(message)
    again = decode_status(data)
    assert again == message
    assert type(again) is StatusMessage
    assert decode_status(memoryview(data)) == message


@given(REPORTED, st.data())
def test_no_other_bytes_mean_the_same_status(message: Any, data: Any) -> None:
    frame = bytearray(encode_status(message))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    try:
        changed = decode_status(frame)
    except WireError:
        return
    assert (changed, frame[2]) != (message, wire.OLDEST)
    check_canonical(changed, frame)


@pytest.mark.parametrize(
    "message",
    [
        None,
        "{}",
        tuple(REPORT),
        HELLO,
        REPORT._replace(sender=""),
        REPORT._replace(receiver="x" * 201),
        REPORT._replace(sequence=-1),
        REPORT._replace(sequence=2**63),
        REPORT._replace(sequence=True),
        REPORT._replace(text=b"{}"),
        REPORT._replace(text={"state": "running"}),
        REPORT._replace(text="\ud800"),
        REPORT._replace(text="x" * MOST_BYTES),
    ],
    ids=lambda message: message.__class__.__name__,
)
def test_no_other_status_leaves(message: Any) -> None:
    with pytest.raises(AgentError):
        encode_status(message)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"xx\x05\x05", "not a message"),
        (b"mu\x04\x05", "version 4"),
        (b"mu\x05\x07", "unknown kind 7"),
        (b"mu\x05\x05", "within its head"),
        (encode_status(REPORT)[:-1], "expected"),
        (encode_status(REPORT) + b"}", "expected"),
        (encode_status(REPORT).replace("ä".encode(), b"\xff\xfe"), "not UTF-8"),
        (b"mu\x05\x05" + b"\xff" * 12 + encode_status(REPORT)[16:], "beyond 2\\^63"),
        (bytes(MOST_BYTES + 1), "65,537 bytes"),
        (encode(HELLO), "for members"),
    ],
)
def test_reasons_of_a_status(data: Any, reason: Any) -> None:
    with pytest.raises(WireError, match=reason):
        decode_status(data)


def test_members_know_no_status_and_observers_nothing_else() -> None:
    """Links of members use `encode` and `decode`: a status neither leaves nor enters over them."""
    with pytest.raises(AgentError, match="found StatusMessage"):
        encode(REPORT)
    with pytest.raises(WireError, match="for observers; members exchange none"):
        decode(encode_status(REPORT))


def _fuzz_status(count: Any) -> Any:
    taken = refused = 0
    draw, good = random.Random(21), encode_status(REPORT)
    for k in range(count):
        base = bytearray(good)
        match k % 4:
            case 0:
                base = bytearray(b"mu\x05\x05" + draw.randbytes(draw.randrange(60)))
            case 1:
                for _ in range(draw.randrange(1, 5)):
                    base[draw.randrange(len(base))] = draw.randrange(256)
            case 2:
                base = base[: draw.randrange(len(base))]
            case _:
                base += draw.randbytes(draw.randrange(1, 9))
        try:
            message = decode_status(base)
        except WireError:
            refused += 1
        else:
            taken += 1
            check_canonical(message, base)
    return taken, refused


def test_ten_thousand_wrong_statuses() -> None:
    taken, refused = _fuzz_status(10_000)
    assert refused > 6_000
    assert taken > 100


def test_the_fuzzer_catches_a_status_decoder_that_trusts_lengths(monkeypatch: Any) -> None:
    monkeypatch.setattr(frames, "_end_of_label", lambda frame, at: at + 1 + frame[at])
    frames._split.cache_clear()
    with pytest.raises((IndexError, UnicodeDecodeError, AssertionError, AgentError)):
        _fuzz_status(10_000)
    frames._split.cache_clear()


@pytest.mark.parametrize(
    "message",
    [
        None,
        (1.0,),
        "signal",
        np.arange(3.0),
        Released(1, (5,), 1),
        tuple(GOOD),
        type("CumulativeMass", (CumulativeMass,), {})(*GOOD),
        GOOD._replace(sums=(0.5,)),
        GOOD._replace(sums=(float("nan"),)),
        GOOD._replace(sums=(Fraction(1, 2),)),
        GOOD._replace(sums=(np.int64(5),)),
        GOOD._replace(sums=(True,)),
        GOOD._replace(sums=(LARGEST + 1,)),
        GOOD._replace(sums=(1,) * 1025),
        GOOD._replace(sums=None),
        GOOD._replace(weight=1e308),
        GOOD._replace(weight=None),
        GOOD._replace(round=-1),
        GOOD._replace(round=2.0),
        GOOD._replace(round=2**63),
        GOOD._replace(leaving=1),
        GOOD._replace(done=1),
        GOOD._replace(tag=bytes(8)),  # stands for none
        GOOD._replace(tag=b"1234567"),
        GOOD._replace(echo=b"123456789"),
        GOOD._replace(echo="12345678"),
        GOOD._replace(echo=None),
        GOOD._replace(run=b"1234567"),
        GOOD._replace(releases=-1),
        GOOD._replace(releases=2**63),
        GOOD._replace(head=b"h" * 8),
        GOOD._replace(head=bytes(16)),
        GOOD._replace(head="h" * 16),
        GOOD._replace(head_proof=None),
        HELLO._replace(own=tuple(STATUS)),
        HELLO._replace(known=None),
        HELLO._replace(asks=1),
        HELLO._replace(own=STATUS._replace(start=2**63)),
        HELLO._replace(known=STATUS._replace(run=bytes(8))),
        HELLO._replace(known=STATUS._replace(head=b"")._replace(releases=0.0)),
        GOOD._replace(view=b"short"),
        GOOD._replace(view=bytes(8)),
        ATTENDANCE._replace(register=tuple(REGISTER)),
        ATTENDANCE._replace(asks=1),
        ATTENDANCE._replace(run=b"short"),
        ATTENDANCE._replace(incarnation=-1),
        ATTENDANCE._replace(register=REGISTER._replace(generation=2**63)),
        ATTENDANCE._replace(register=REGISTER._replace(present=-1)),
        ATTENDANCE._replace(register=REGISTER._replace(present=True)),
        ATTENDANCE._replace(register=REGISTER._replace(dropped=2**600_000)),
        ATTENDANCE._replace(register=REGISTER._replace(readings=(1, -1))),
        ATTENDANCE._replace(register=REGISTER._replace(readings=(0.5,))),
        ATTENDANCE._replace(register=REGISTER._replace(readings=(2**63,))),
        EXCHANGE._replace(run=b"short"),
        EXCHANGE._replace(query=-1),
        EXCHANGE._replace(concluded=2**63),
        EXCHANGE._replace(done=1),
        EXCHANGE._replace(heard_done=None),
        EXCHANGE._replace(digests=bytes(2047)),
        EXCHANGE._replace(digests="x" * 2048),
        EXCHANGE._replace(names=((256, b""),)),
        EXCHANGE._replace(names=((1, b""), (1, b""))),
        EXCHANGE._replace(names=((2, b""), (1, b""))),
        EXCHANGE._replace(names=((1, b"seven.."),)),
        EXCHANGE._replace(names=((True, b""),)),
        EXCHANGE._replace(names=None),
        EXCHANGE._replace(chunk=[1.0]),
        EXCHANGE._replace(chunk=bytes(MOST_BYTES)),
        GOOD._replace(sender=""),
        GOOD._replace(sender="x" * 201),
        GOOD._replace(sender="\ud800"),
        GOOD._replace(sender=b"bytes"),
        GOOD._replace(range_report=(0, 0, (), (), 0)),
        GOOD._replace(range_report=None),
        GOOD._replace(sums=(LARGEST,) * 1024),  # too long as a whole
        HELLO._replace(manifest=bytes(31)),
        HELLO._replace(fields=(b"short",)),
        HELLO._replace(fields=(bytes(8),) * 65),
        HELLO._replace(incarnation=True),
        HELLO._replace(acknowledged=-1),
        HELLO._replace(tag=b"short"),
        HELLO._replace(echo=bytes(8)),
    ],
    ids=lambda message: message.__class__.__name__,
)
def test_nothing_else_leaves(message: Any) -> None:
    with pytest.raises(AgentError) as refused:
        encode(message)
    assert "1e+308" not in str(refused.value)  # an error quotes no value
    assert "nan" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"xx\x05\x02", "not a message"),
        (b"mu\x01\x02", "version 1"),
        (b"mu\x05\x07", "unknown kind 7"),
        (b"mu\x05\x01", "within its head"),
        (b"mu\x05\x02", "within its head"),
        (b"mu\x05\x03", "within its head"),
        (b"mu\x05\x04", "within its head"),
        (encode(EXCHANGE)[:-1], "expected"),
        (encode(EXCHANGE, 5) + b"\0", "expected"),
        (encode(EXCHANGE) + b"\0", "cut off"),
        (encode(EXCHANGE._replace(chunk=b""))[:-1], "before its names"),
        (encode(EXCHANGE._replace(names=((7, b"n" * 8),), chunk=b""))[:-1], "cut off"),
        (encode(EXCHANGE).replace(b"\x07\0\0", b"\0\0\0"), "out of order"),
        (encode(ATTENDANCE)[:-1], "expected"),
        (encode(ATTENDANCE, 5) + b"\0", "expected"),
        (encode(ATTENDANCE) + b"\x80\0\1", "cut off or out of order"),
        (bytes(MOST_BYTES + 1), "65,537 bytes"),
        (encode(GOOD, 5) + b"\0", "after the last number"),
        (encode(GOOD) + b"\1\0\0", "extension 1"),
        (encode(GOOD)[:-1], "cut off"),
        (encode(HELLO)[:-1], "expected"),
        (encode(GOOD).replace(b"Medici", b"\xff\xfeedic"), "not UTF-8"),
    ],
)
def test_reasons(data: Any, reason: Any) -> None:
    with pytest.raises(WireError, match=reason) as refused:
        decode(data)
    assert refused.value.reason == str(refused.value)


def test_two_forms_of_one_number_are_not_both_taken() -> None:
    frame = encode(GOOD._replace(sums=(), range_report=RangeReport(), weight=5))
    assert frame.endswith(b"\x01\x05")
    with pytest.raises(WireError, match="padded"):
        decode(frame[:-2] + b"\x02\x00\x05")


def test_two_forms_of_one_register_are_not_both_taken(monkeypatch: Any) -> None:
    """No set and no count with leading zeros, and no width without counts."""
    few = Attendance("a", "b", 1, b"r" * 8, Register(present=5, readings=(1, 2)))
    frame = encode(few)
    head = messages._ATTENDANCE.size + 4
    padded = bytearray(frame[:head] + b"\0" + frame[head:])
    padded[32] = 2  # bytes of the set of those present
    with pytest.raises(WireError, match="padded"):
        decode(padded)
    wider = bytearray(frame[:-2] + b"\0\1\0\2")
    wider[messages._ATTENDANCE.size - 1] = 2
    with pytest.raises(WireError, match="padded"):
        decode(wider)
    with monkeypatch.context() as patched:
        patched.setattr(messages, "_read_counts", _trusting_counts)
        assert decode(wider) == few  # a decoder that trusts widths takes both
    none = bytearray(encode(few._replace(register=Register(present=5))))
    none[messages._ATTENDANCE.size - 1] = 1
    with pytest.raises(WireError, match="0 counts of 1 bytes"):
        decode(none)


LONG = GOOD._replace(sums=tuple(range(-40, 40)))


def _inputs(count: Any, draw: Any) -> Any:
    """Random bytes, and good messages that were changed, cut, lengthened or spliced."""
    sent = (GOOD, HELLO._replace(speaks=6), ATTENDANCE, EXCHANGE, LONG)
    good = [encode(m, 5 + k % 2) for k, m in enumerate(sent)]
    for k in range(count):
        base = bytearray(good[k // 6 % 5])
        match k % 6:
            case 0:
                yield draw.randbytes(draw.randrange(200))
            case 1:
                start = bytes([draw.choice((5, 6)), draw.randrange(1, 5)])
                yield b"mu" + start + draw.randbytes(draw.randrange(250))
            case 2:
                for _ in range(draw.randrange(1, 5)):
                    base[draw.randrange(len(base))] = draw.randrange(256)
                yield bytes(base)
            case 3:
                yield bytes(base[: draw.randrange(len(base))])
            case 4:
                yield bytes(base) + draw.randbytes(draw.randrange(1, 20))
            case _:
                cut = draw.randrange(len(base))
                yield bytes(base[:cut]) + good[(k // 6 + 1) % 5][cut:]


def _fuzz(count: Any) -> Any:
    """How many were taken and how many refused; any other outcome raises."""
    taken = refused = 0
    for data in _inputs(count, random.Random(20)):
        try:
            message = decode(data)
        except WireError:
            refused += 1
        else:
            taken += 1
            check_canonical(message, data)
    return taken, refused


@pytest.mark.thorough
def test_a_hundred_thousand_wrong_inputs() -> None:
    """Nothing but WireError; what is taken after all is a message in its one encoding."""
    taken, refused = _fuzz(120_000)
    assert refused > 80_000
    assert taken > 100  # the fuzzer reaches the inside of messages


def _trusting_end(frame: Any, at: Any) -> Any:
    return at + 1 + frame[at]


def _trusting_counts(frame: Any, at: Any, count: Any, width: Any) -> Any:
    return tuple(int.from_bytes(frame[at + k * width :][:width], "big") for k in range(count))


def _trusting_numbers(frame: Any, at: Any, count: Any) -> Any:
    found = []
    for _ in range(count):
        end = at + 1 + frame[at]
        found.append(int.from_bytes(frame[at + 1 : end], "big", signed=True))
        at = end
    return tuple(found)


def _trusting_names(frame: Any, at: Any, count: Any) -> Any:
    found = []
    for _ in range(count):
        end = at + 3 + 8 * int.from_bytes(frame[at + 1 : at + 3], "big")
        found.append((frame[at], frame[at + 3 : end]))
        at = end
    return tuple(found), at


@pytest.mark.parametrize(
    ("module", "part", "weakened"),
    [
        (frames, "_end_of_label", _trusting_end),
        (messages, "_read_numbers", _trusting_numbers),
        (messages, "_read_names", _trusting_names),
    ],
)
def test_the_fuzzer_catches_a_decoder_that_trusts_lengths(
    module: Any, part: Any, weakened: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, part, weakened)
    with pytest.raises((IndexError, UnicodeDecodeError, AssertionError)):
        _fuzz(20_000)


def test_a_claim_of_much_allocates_little() -> None:
    head = messages._MASS.pack(
        b"mu\x05\x02",
        *[MOST_COUNT] * 8,
        1,
        b"1" * 8,
        b"2" * 8,
        b"3" * 8,
        b"4" * 16,
        b"5" * 8,
        b"6" * 8,
        1024,
        1024,
        1024,
    )
    tracemalloc.start()
    with pytest.raises(WireError):
        decode(head + b"\x01a\x01b" + b"\x00" * 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_it_is_quick() -> None:
    message = GOOD._replace(sums=(10**30,))
    best = min(_time(message) for _ in range(20))
    assert best < 60e-6  # 7 us on a machine of 2024


def _time(message: Any, repeats: Any = 200) -> Any:
    began = perf_counter()
    for _ in range(repeats):
        decode(encode(message))
    return (perf_counter() - began) / repeats
