"""Versions of the wire: both ends find one, and what a later version adds is skipped or refused."""

from typing import Any

import pytest

from veilsum.agents import wire
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, RecordExchange, StatusMessage
from veilsum.agents.transport.base import Refused
from veilsum.agents.transport.negotiation import LinkVersions
from veilsum.agents.transport.payloads import check_message, pack, unpack
from veilsum.agents.versions import FORMATS, WIRE, Format
from veilsum.agents.wire import SkippedFrameError, WireError, decode, encode
from veilsum.errors import AgentError

HELLO: Any = Hello("a", "b", 1, 0, 1, bytes(32), (b"12345678",) * 34)
MASS = CumulativeMass("a", "b", 1, 1, 3, 2, (20,), 4)
SENT: Any = [HELLO, MASS, Attendance("a", "b", 1, b"r" * 8), RecordExchange("a", "b", b"r" * 8, 1)]
NEW_KIND = b"mu\x06\x80whatever a later version says"


def extension(number: int, data: bytes = b"new") -> bytes:
    return bytes([number]) + len(data).to_bytes(2, "big") + data


@pytest.mark.parametrize("message", SENT, ids=lambda m: type(m).__name__)
def test_an_extension_that_need_not_be_known_is_skipped(message: Any) -> None:
    frame = encode(message)
    for more in (extension(128), extension(200, b""), extension(130) + extension(255, bytes(900))):
        assert decode(frame + more) == message


@pytest.mark.parametrize("message", SENT, ids=lambda m: type(m).__name__)
def test_one_that_must_be_known_is_refused(message: Any) -> None:
    frame = encode(message)
    with pytest.raises(WireError, match="extension 127, without which the message means something"):
        decode(frame + extension(127))
    for wrong in (
        extension(130) + extension(129),
        extension(129) * 2,
        extension(129)[:-1],
        b"\x80",
    ):
        with pytest.raises(WireError, match=r"cut off|out of order"):
            decode(frame + wrong)


@pytest.mark.parametrize("message", SENT, ids=lambda m: type(m).__name__)
def test_the_version_before_has_no_extensions(message: Any) -> None:
    with pytest.raises(WireError, match=r"expected|after the last number"):
        decode(encode(message, 5) + extension(128))


def test_a_decoder_that_skips_everything_would_be_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(wire.extensions, "OPTIONAL", 0)
    with pytest.raises(pytest.fail.Exception):
        test_one_that_must_be_known_is_refused(MASS)


def test_a_kind_that_need_not_be_known_is_skipped_and_reported_once() -> None:
    with pytest.raises(SkippedFrameError) as skipped:
        decode(NEW_KIND)
    assert skipped.value.kind == 128
    with pytest.raises(SkippedFrameError):
        check_message(("a", "b"), NEW_KIND)
    links, known = {("a", "b"): "device"}, set[tuple[str, int]]()
    frames = pack([encode(MASS), NEW_KIND, encode(MASS._replace(round=4))])
    batches, refused = unpack("device", frames, links, skipped=known)
    assert [message.round for message in batches["b"]] == [3, 4]  # type: ignore[union-attr]
    assert isinstance(refused, Refused)
    assert "kind 128" in refused.reason
    assert unpack("device", frames, links, skipped=known)[1] is None
    for other in (b"mu\x06\x07", b"mu\x05\x80"):
        with pytest.raises(WireError, match="unknown kind"):
            decode(other)
    with pytest.raises(SkippedFrameError):
        wire.decode_status(NEW_KIND)


@pytest.mark.parametrize("version", [5, 6])
def test_a_hello_says_which_version_its_sender_speaks(version: int) -> None:
    for speaks in (0, 5, 6, 7, 255):
        frame = encode(HELLO._replace(speaks=speaks), version)
        assert decode(frame).speaks == speaks  # type: ignore[union-attr]
        assert decode(frame).fields == HELLO.fields  # type: ignore[union-attr]
    for wrong in (256, -1, 6.0, None, True):
        with pytest.raises(AgentError, match="wrong type or size"):
            encode(HELLO._replace(speaks=wrong), version)


def test_what_says_so_cannot_be_mistaken_for_a_manifest() -> None:
    said = HELLO._replace(fields=(*HELLO.fields, b"mu-wire\x06"))
    with pytest.raises(AgentError):
        encode(said, 5)
    twice = encode(HELLO._replace(speaks=6), 5) + b"mu-wire\x06"
    at = twice.index(b"\x01a\x01b") - 1
    with pytest.raises(WireError, match="twice"):
        decode(twice[:at] + bytes([twice[at] + 1]) + twice[at + 1 :])
    with pytest.raises(WireError, match="speaks no version"):
        decode(encode(HELLO._replace(speaks=6), 5)[:-1] + b"\0")


class End:
    """One end of a link, which speaks these versions."""

    def __init__(self, label: str, oldest: int, newest: int) -> None:
        self.label, self.spoken = label, Format("wire", oldest, newest)
        self.versions = LinkVersions(self.spoken)

    def frame(self, message: Any) -> bytes:
        """As `versions.encode` writes it, in versions that are not there yet too."""
        if self.spoken.newest <= WIRE.newest:
            return self.versions.encode(message)
        if isinstance(message, Hello):
            message = message._replace(speaks=self.spoken.newest)
        found = self.versions._peers.get(message.receiver, self.spoken.oldest)
        frame = bytearray(encode(message, min(found, WIRE.newest)))
        frame[2] = found
        return bytes(frame)

    def greet(self, other: "End") -> None:
        frame = self.frame(HELLO._replace(sender=self.label, receiver=other.label))
        if other.spoken.reads(frame[2]):
            hello: Any = decode(frame if frame[2] < 7 else frame[:2] + b"\x06" + frame[3:])
            other.versions.hear(hello, frame[2])


@pytest.mark.parametrize(
    ("one", "other", "agreed"),
    [
        ((5, 6), (5, 6), 6),
        ((5, 6), (5, 5), 5),
        ((5, 5), (5, 6), 5),
        ((6, 7), (5, 6), 6),
        ((5, 6), (6, 7), 6),
        ((6, 7), (6, 7), 7),
    ],
)
def test_two_ends_find_the_latest_version_that_both_speak(
    one: Any, other: Any, agreed: int
) -> None:
    a, b = End("a", *one), End("b", *other)
    for sender, receiver in ((a, b), (b, a)):
        mass = MASS._replace(sender=sender.label, receiver=receiver.label)
        assert sender.frame(mass)[2] == sender.spoken.oldest, "before a Hello, the oldest"
    for _ in range(2):  # a Hello that was not understood is answered by the other's
        b.greet(a)
        a.greet(b)
    for sender, receiver in ((a, b), (b, a)):
        mass = MASS._replace(sender=sender.label, receiver=receiver.label)
        assert sender.frame(mass)[2] == agreed
    a.versions.forget("b")
    assert a.frame(MASS)[2] == a.spoken.oldest, "it may come back as an earlier version"


def test_a_neighbour_that_comes_back_as_an_earlier_version_is_written_to_in_it() -> None:
    versions = LinkVersions()
    versions.hear(HELLO._replace(sender="b", speaks=6), 5)
    assert versions.encode(MASS)[2] == 6
    versions.hear(HELLO._replace(sender="b"), 5)
    assert versions.encode(MASS)[2] == 5


def test_two_versions_apart_nobody_is_understood() -> None:
    with pytest.raises(WireError, match="version 7 of the wire, written by a later veilsum"):
        decode(b"mu\x07" + encode(MASS)[3:])
    with pytest.raises(WireError, match="version 4 of the wire, written by an earlier veilsum"):
        decode(b"mu\x04" + encode(MASS)[3:])
    with pytest.raises(AgentError, match="this one reads versions 5 and 6"):
        encode(MASS, 7)


def test_statuses_are_written_in_the_version_that_every_observer_reads() -> None:
    status = StatusMessage("a", "control-room", 1, "{}")
    assert wire.encode_status(status)[2] == WIRE.oldest
    assert wire.decode_status(wire.encode_status(status, 6) + extension(128)) == status


def test_every_format_reads_the_version_before() -> None:
    for found in FORMATS:
        assert found.reads(found.newest)
        assert found.newest == 1 or found.reads(found.newest - 1), found
        assert not found.reads(found.newest + 1)
