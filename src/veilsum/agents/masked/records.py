"""What agents of a masked sum say, signed end to end, and its one encoding.

    frame    "mm" 1 kind sid[32] #label label payload signature[64]
    signed   H(domain, kind, manifest, sid, label, payload), Ed25519, by the key that the manifest pins

    kind         payload
    Present  1   ephemeral key[32] readings[4]
    Roster   2   rho[32] bitmap           bit k of the bitmap is member k, the last byte is not 0
    Commit   3   rho[32] H(z, salt)[32]
    Ready    4   rho[32] gamma[32]
    Masked   5   rho[32] gamma[32] salt[32] z[8 each]
    Withdraw 6   rho[32]

The manifest is signed and not sent: a record under another one has no valid signature here.
Every record has one encoding; sizes are bounded before anything is allocated.
"""

from __future__ import annotations

from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from veilsum.agents.masked.masks import canonical_key, digest
from veilsum.agents.wire import MOST_BYTES, MOST_LABEL, WireError
from veilsum.errors import AgentError
from veilsum.privacy.masked import MOST_COMPONENTS

MAGIC = b"mm\x01"
HASH, SIGNATURE, WORD, COUNT = 32, 64, 8, 4
MOST_BITMAP = 12_500  # bytes: 100,000 members
_HEAD = len(MAGIC) + 1 + HASH + 1  # up to the label


class Present(NamedTuple):
    """A member takes part in a session with this ephemeral key and that many readings."""

    sid: bytes
    label: str
    key: bytes
    readings: int = 1


class Roster(NamedTuple):
    """The proposed members, by their numbers in the manifest; not trusted."""

    sid: bytes
    label: str
    rho: bytes
    members: tuple[int, ...]


class Commit(NamedTuple):
    """A member has prepared its value for this roster."""

    sid: bytes
    label: str
    rho: bytes
    commitment: bytes


class Ready(NamedTuple):
    """A member has seen the commitments of the whole roster."""

    sid: bytes
    label: str
    rho: bytes
    gamma: bytes


class Masked(NamedTuple):
    """A member's masked value, opened."""

    sid: bytes
    label: str
    rho: bytes
    gamma: bytes
    salt: bytes
    words: tuple[int, ...]


class Withdraw(NamedTuple):
    """A member has withdrawn its prepared value, for good."""

    sid: bytes
    label: str
    rho: bytes


Record = Present | Roster | Commit | Ready | Masked | Withdraw
KINDS: tuple[type[Record], ...] = (Present, Roster, Commit, Ready, Masked, Withdraw)


class SignedRecord(NamedTuple):
    """A record and its signature."""

    record: Record
    signature: bytes

    @property
    def place(self) -> tuple[bytes, str, str]:
        """(sid, kind, label): one record each, whatever its bytes."""
        return self.record.sid, type(self.record).__name__, self.record.label


def commitment(sid: bytes, label: str, words: tuple[int, ...], salt: bytes) -> bytes:
    """H(z, salt), bound to the session and the member."""
    return digest(b"commitment", sid, label.encode(), _words(words), salt)


def commitments_digest(rho: bytes, commitments: dict[str, bytes]) -> bytes:
    """gamma = H(all commitments of the roster), in the order of the labels."""
    parts = [part for label in sorted(commitments) for part in (label.encode(), commitments[label])]
    return digest(b"commitments", rho, *parts)


def sign(record: Record, manifest: bytes, key: Ed25519PrivateKey) -> SignedRecord:
    """Sign a record; `AgentError` for fields of a wrong type or size."""
    return SignedRecord(record, key.sign(_signed_bytes(record, manifest)))


def is_valid(signed: SignedRecord, manifest: bytes, key: bytes) -> bool:
    """Whether the signature is that of the pinned key."""
    try:
        text = _signed_bytes(signed.record, manifest)
        Ed25519PublicKey.from_public_bytes(key).verify(signed.signature, text)
    except (InvalidSignature, ValueError, AgentError):
        return False
    return True


def encode_record(signed: SignedRecord) -> bytes:
    """The bytes of a signed record.

    Parameters
    ----------
    signed : SignedRecord
        What is flooded.

    Returns
    -------
    bytes
        At most 65,536.

    Raises
    ------
    AgentError
        For fields of a wrong type or size.
    """
    record, signature = signed
    payload = _payload(record)
    label = record.label.encode()
    if type(signature) is not bytes or len(signature) != SIGNATURE:
        raise AgentError("a signature has 64 bytes")
    kind = bytes([1 + KINDS.index(type(record))])
    head = MAGIC + kind + record.sid + bytes([len(label)]) + label
    frame = head + payload + signature
    if len(frame) > MOST_BYTES:
        raise AgentError(f"a record of {len(frame):,} bytes, at most {MOST_BYTES:,} may be sent")
    return frame


def decode_record(data: bytes) -> SignedRecord:
    """The signed record that `encode_record` wrote as these bytes.

    Parameters
    ----------
    data : bytes
        A frame as it was received.

    Returns
    -------
    SignedRecord
        Its signature is not verified yet.

    Raises
    ------
    WireError
        For all other bytes; the reason quotes none of them.
    """
    if not _HEAD + SIGNATURE < len(data) <= MOST_BYTES:
        raise WireError(f"{len(data):,} bytes are no record")
    if data[:3] != MAGIC:
        raise WireError("not a record of a masked sum of this version")
    kind, length = data[3], data[_HEAD - 1]
    if not 1 <= kind <= len(KINDS):
        raise WireError(f"unknown kind {kind} of record, expected 1 to {len(KINDS)}")
    end = _HEAD + length
    if not 0 < length <= MOST_LABEL or end + SIGNATURE > len(data):
        raise WireError(f"a label of {length} bytes, expected 1 to {MOST_LABEL} and all there")
    try:
        label = data[_HEAD:end].decode()
    except UnicodeDecodeError:
        raise WireError("a label that is not UTF-8") from None
    payload, signature = data[end:-SIGNATURE], data[-SIGNATURE:]
    return SignedRecord(_read(KINDS[kind - 1], data[4 : 4 + HASH], label, payload), signature)


def _signed_bytes(record: Record, manifest: bytes) -> bytes:
    kind = type(record).__name__.encode()
    payload = _payload(record)
    return digest(b"record", kind, manifest, record.sid, record.label.encode(), payload)


def _payload(record: Record) -> bytes:
    """The payload; every field is checked."""
    label = record.label.encode() if type(record.label) is str else b""
    if not 0 < len(label) <= MOST_LABEL:
        raise AgentError(f"a label has 1 to {MOST_LABEL} bytes of UTF-8")
    hashes = [record.sid]
    if isinstance(record, Present):
        if type(record.key) is not bytes or not canonical_key(record.key):
            raise AgentError("an ephemeral key has 32 bytes, below 2^255 - 19")
        if type(record.readings) is not int or not 0 < record.readings < 2 ** (8 * COUNT):
            raise AgentError("a member is present with 1 to 2^32 - 1 readings")
        parts: list[bytes] = [record.key, record.readings.to_bytes(COUNT, "big")]
    else:
        parts = [record.rho]
        if isinstance(record, Roster):
            hashes += parts
            parts = [record.rho, _bitmap(record.members)]
        elif isinstance(record, Commit):
            parts.append(record.commitment)
            hashes += parts
        elif isinstance(record, Ready):
            parts.append(record.gamma)
            hashes += parts
        elif isinstance(record, Masked):
            parts += [record.gamma, record.salt]
            hashes += parts
            parts = [*parts, _words(record.words)]
        elif isinstance(record, Withdraw):
            hashes += parts
        else:
            raise AgentError(f"no record: {type(record).__name__}")
    if any(type(one) is not bytes or len(one) != HASH for one in hashes):
        raise AgentError(f"a {type(record).__name__} has hashes of 32 bytes")
    return b"".join(parts)


def _words(words: tuple[int, ...]) -> bytes:
    if not 0 < len(words) <= MOST_COMPONENTS:
        raise AgentError(f"1 to {MOST_COMPONENTS} components can be sent; found {len(words)}")
    if any(type(word) is not int or not 0 <= word < 2**64 for word in words):
        raise AgentError("components are whole numbers modulo 2^64")
    return b"".join(word.to_bytes(WORD, "big") for word in words)


def _bitmap(members: tuple[int, ...]) -> bytes:
    ordered = all(type(m) is int for m in members) and list(members) == sorted(set(members))
    if not members or not ordered or members[0] < 0 or members[-1] >= 8 * MOST_BITMAP:
        raise AgentError(
            f"a roster has increasing numbers of members below {8 * MOST_BITMAP:,}, at least one"
        )
    bits = bytearray(members[-1] // 8 + 1)
    for member in members:
        bits[member // 8] |= 1 << member % 8
    return bytes(bits)


def _read(kind: type[Record], sid: bytes, label: str, payload: bytes) -> Record:
    first, second, third = (payload[i : i + HASH] for i in range(0, 3 * HASH, HASH))
    if kind is Roster:
        bitmap = payload[HASH:]
        if not 0 < len(bitmap) <= MOST_BITMAP or bitmap[-1] == 0:
            raise WireError("a Roster without members, with too many, or padded")
        members = tuple(
            8 * i + k for i, byte in enumerate(bitmap) for k in range(8) if byte >> k & 1
        )
        return Roster(sid, label, first, members)
    if kind is Masked:
        rest = payload[3 * HASH :]
        if not rest or len(rest) % WORD or len(rest) > WORD * MOST_COMPONENTS:
            raise WireError("a Masked without components, with too many, or cut off")
        words = (rest[i : i + WORD] for i in range(0, len(rest), WORD))
        numbers = tuple(int.from_bytes(word, "big") for word in words)
        return Masked(sid, label, first, second, third, numbers)
    if kind is Present:
        readings = int.from_bytes(payload[HASH:], "big")
        if len(payload) != HASH + COUNT or not canonical_key(first) or not readings:
            raise WireError("a Present with a key that is not canonical, or without readings")
        return Present(sid, label, first, readings)
    count = len(kind._fields) - 2
    if len(payload) != count * HASH:
        raise WireError(f"a {kind.__name__} of {len(payload)} bytes, expected {count * HASH}")
    if kind is Commit:
        return Commit(sid, label, first, second)
    if kind is Ready:
        return Ready(sid, label, first, second)
    return Withdraw(sid, label, first)
