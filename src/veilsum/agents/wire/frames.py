"""What all frames have in common: limits, errors, how they begin, counts, tags and labels.

Checks of `encode` raise TypeError or ValueError, which it turns into one error for all of a message.
"""

from __future__ import annotations

from functools import lru_cache

from veilsum.agents.messages import (
    Attendance,
    CumulativeMass,
    Hello,
    RecordExchange,
    StatusMessage,
)
from veilsum.agents.versions import WIRE
from veilsum.errors import AgentError

MAGIC = b"mu"
OLDEST, VERSION = WIRE.oldest, WIRE.newest
MOST_BYTES = 65_536  # of a frame
MOST_LABEL = 200  # bytes of UTF-8
MOST_COUNT = 2**63 - 1  # of incarnations, rounds and the like
NO_TAG, NO_HEAD = bytes(8), bytes(16)

KINDS: dict[type, int] = {
    Hello: 1, CumulativeMass: 2, Attendance: 3, RecordExchange: 4, StatusMessage: 5
}  # fmt: skip
STARTS: dict[tuple[type, int], bytes] = {  # by type and version
    (kind, version): MAGIC + bytes([version, number])
    for kind, number in KINDS.items()
    for version in range(OLDEST, VERSION + 1)
}


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


def check_counts(
    a: int, b: int, c: int, d: int = 0, e: int = 0, f: int = 0, g: int = 0, h: int = 0
) -> None:
    """Whole numbers in 0..MOST_COUNT, which is all ones: so is every bit of theirs."""
    first = type(a) is type(b) is type(c) is type(d) is int
    if not (first and type(e) is type(f) is type(g) is type(h) is int):
        raise TypeError
    if not 0 <= a | b | c | d | e | f | g | h <= MOST_COUNT:
        raise ValueError


def check_tags(tag: bytes, echo: bytes = b"") -> None:
    """Bytes, 8 of them or none, and not 8 zeros, which stand for none."""
    if not type(tag) is type(echo) is bytes:
        raise TypeError
    if len(tag) not in (0, 8) or len(echo) not in (0, 8) or NO_TAG in (tag, echo):
        raise ValueError


@lru_cache(maxsize=4096)
def check_names(run: bytes, view: bytes, head: bytes, head_proof: bytes) -> None:
    """What most messages of an agent have in common is checked once."""
    check_tags(run, view)
    check_head(head, head_proof)


def check_head(head: bytes, head_proof: bytes) -> None:
    """A head of 16 bytes or none, and its proof of 8."""
    check_tags(head_proof)
    if type(head) is not bytes:
        raise TypeError
    if len(head) not in (0, 16) or head == NO_HEAD:
        raise ValueError


def read_tag(tag: bytes) -> bytes:
    """A tag of a frame; 8 zeros stand for none."""
    return b"" if tag == NO_TAG else tag


@lru_cache(maxsize=4096)
def labels_of(sender: str, receiver: str) -> bytes:
    """Those of a link are encoded once."""
    return _label(sender) + _label(receiver)


def _label(text: str) -> bytes:
    encoded = text.encode()
    if not 0 < len(encoded) <= MOST_LABEL:
        raise ValueError
    return len(encoded).to_bytes(1, "big") + encoded


def read_labels(frame: bytes, at: int) -> tuple[str, str, int]:
    """Sender and receiver, and where they end."""
    size = len(frame)
    between = at + 1 + frame[at] if at < size else size
    end = between + 1 + frame[between] if between < size else size
    return *_split(frame[at:end]), end


@lru_cache(maxsize=4096)
def _split(labels: bytes) -> tuple[str, str]:
    """Sender and receiver; those of a link are checked once."""
    between = _end_of_label(labels, 0)
    end = _end_of_label(labels, between)
    try:
        return str(labels[1:between], "utf-8"), str(labels[between + 1 : end], "utf-8")
    except UnicodeDecodeError:
        raise WireError("a label that is not UTF-8") from None


def _end_of_label(frame: bytes, at: int) -> int:
    if at >= len(frame):
        raise WireError("a message that ends before its labels")
    length = frame[at]
    end = at + 1 + length
    if not 0 < length <= MOST_LABEL or end > len(frame):
        raise WireError(f"a label of {length} bytes, expected 1 to {MOST_LABEL} and all there")
    return end
