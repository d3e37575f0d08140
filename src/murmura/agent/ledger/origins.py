"""What a reading is known by, so that the same one is never released twice under another number.

    origin(reading) = HMAC-SHA256(key, "key", cells of the key columns)   if the source has a key,
                      HMAC-SHA256(key, "row", number, the whole row)      otherwise,

the first 16 bytes. With a key (a time stamp, the number of a message) the order of rows does not
matter: a row whose key was released is passed over wherever it stands. Without one, equal rows at
different places are different readings, so a row is bound to its place: a file whose released rows
are not where they were is refused, since nobody can tell a row that was changed from a new one.

The HMAC's key comes from the device's private key, or where there is none from the secret of the
ledger. Rows have few possible values, so whoever has that key can try them all: without it a stolen
ledger says nothing of a row, and of a source with a key only what its key columns hold is bound.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

SIZE = 16  # bytes of an origin
DEVICE, OWN = "device", "ledger"  # where the key comes from


class Origin(NamedTuple):
    """What a source knows a reading by; the text is raw and stays in memory."""

    text: str
    keyed: bool = False  # the cells of its key columns, and not the whole row

    def __repr__(self) -> str:
        """No text: it may be a reading."""
        return f"Origin(keyed={self.keyed})"


def derive(secret: bytes, purpose: str, agent: str) -> bytes:
    """HKDF with SHA-256 (RFC 5869), one block: a key for one purpose of one agent."""
    extracted = hmac.digest(b"murmura", secret, "sha256")
    return hmac.digest(extracted, f"{purpose}\n{agent}".encode() + b"\x01", "sha256")


class Origins:
    """Names readings by keyed hashes."""

    def __init__(self, secret: bytes, agent: str) -> None:
        """One key for each agent of a device."""
        self._key = derive(secret, "origins of readings", agent)

    @property
    def check(self) -> str:
        """Tells this key from others, and nothing else of it."""
        return hmac.digest(self._key, b"check", "sha256")[:8].hex()

    def name(self, origin: Origin | None, reading: int) -> str:
        """The name to be written down; empty where the source knows no more than a number."""
        if origin is None:
            return ""
        kind = "key" if origin.keyed else f"row {reading}"
        said = f"{kind}\n{origin.text}".encode()
        return hmac.digest(self._key, said, "sha256")[:SIZE].hex()
