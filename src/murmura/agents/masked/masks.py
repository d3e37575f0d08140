"""Pairwise masks: uniform modulo 2^64 each, zero in the sum over a roster.

    z_i = v_i + sum_{j in F} s_ij m_ij  (mod 2^64),    s_ij = +1 if i < j else -1,    m_ij = m_ji,
    m_ij = ChaCha20(K_ij),    K_ij = HKDF(X25519(i, j); manifest, sid, rho, lower label and its key,
                                          higher label and its key).

Labels, both keys, the session and the roster are bound into K_ij: a member that presents a copy of
another one's key shares no mask with anybody else. Ephemeral keys are in memory only and serve one
session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from numpy.typing import NDArray

from murmura.errors import AgentError

DOMAIN = b"murmura masked sum 1"
KEY_BYTES = 32
FIELD_PRIME = 2**255 - 19
MOST_COMPONENTS = 1024

Words = NDArray[np.uint64]


class MaskError(AgentError):
    """A key that gives no mask; nothing was computed from it."""


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """sha256 of the domain, the purpose and the parts, each with its length: one text, one hash."""
    state = hashlib.sha256()
    for part in (DOMAIN, purpose, *parts):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def canonical_key(key: bytes) -> bool:
    """Whether 32 bytes are the one encoding of a coordinate: below 2^255 - 19."""
    return len(key) == KEY_BYTES and int.from_bytes(key, "little") < FIELD_PRIME


def roster_digest(manifest: bytes, sid: bytes, keys: Mapping[str, bytes]) -> bytes:
    """rho = H(manifest, sid, (label, ephemeral key) of all of F), in the order of the labels."""
    parts = [part for label in sorted(keys) for part in (label.encode(), keys[label])]
    return digest(b"roster", manifest, sid, *parts)


class EphemeralKey:
    """A fresh X25519 key for one session: never written, never shown, dropped after use."""

    __slots__ = ("_private", "public")

    def __init__(self) -> None:
        """Draw a key from the operating system."""
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def exchange(self, theirs: bytes) -> bytes:
        """The shared secret; keys of low order and other encodings of a key are refused."""
        if self._private is None:
            raise MaskError("the ephemeral key of this session was dropped; begin another one")
        if not canonical_key(theirs):
            raise MaskError("an ephemeral key that is not canonical; expected 32 bytes below p")
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise MaskError("an ephemeral key of low order; its secret is known to all") from None
        if not any(secret):
            raise MaskError("an ephemeral key of low order; its secret is known to all")
        return secret

    def drop(self) -> None:
        """Forget the private half."""
        self._private = None

    @property
    def dropped(self) -> bool:
        """Whether the private half is gone."""
        return self._private is None

    def __repr__(self) -> str:
        """Show nothing of the private half."""
        return f"EphemeralKey({'dropped' if self.dropped else 'in memory'})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be written anywhere."""
        raise TypeError("an ephemeral key is in memory only")


def pair_info(
    manifest: bytes, sid: bytes, rho: bytes, one: tuple[str, bytes], other: tuple[str, bytes]
) -> bytes:
    """What K_ij is bound to, the same at both ends."""
    (low, low_key), (high, high_key) = sorted((one, other))
    parts = manifest, sid, rho, low.encode(), low_key, high.encode(), high_key
    return digest(b"pair", *parts)


def stream(secret: bytes, info: bytes, components: int) -> Words:
    """m_ij: as many words of 64 bits as the statistic has components."""
    key = HKDF(algorithm=SHA256(), length=32, salt=DOMAIN, info=info).derive(secret)
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * components)), dtype="<u8").astype(np.uint64)


def pad(
    key: EphemeralKey, label: str, keys: Mapping[str, bytes], manifest: bytes, sid: bytes,
    components: int,
) -> Words:  # fmt: skip
    """sum_{j in F} s_ij m_ij modulo 2^64, for the member `label` of the roster `keys`."""
    if keys.get(label) != key.public:
        raise MaskError(f"the roster does not have the present key of {label!r}")
    if not 0 < components <= MOST_COMPONENTS:
        raise MaskError(f"1 to {MOST_COMPONENTS} components can be masked; found {components}")
    rho = roster_digest(manifest, sid, keys)
    total = np.zeros(components, dtype=np.uint64)
    for other, theirs in keys.items():
        if other == label:
            continue
        info = pair_info(manifest, sid, rho, (label, key.public), (other, theirs))
        mask = stream(key.exchange(theirs), info, components)
        total = total + mask if label < other else total - mask
    return total


def to_words(values: Iterable[int]) -> Words:
    """Whole numbers modulo 2^64."""
    return np.array([value % 2**64 for value in values], dtype=np.uint64)


def centred(words: Words) -> tuple[int, ...]:
    """The representatives in -2^63 .. 2^63 - 1."""
    return tuple(int(value) for value in words.view(np.int64))
