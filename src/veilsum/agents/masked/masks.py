"""Pairwise masks: uniform modulo 2^64 each, zero in the sum over a roster.

    z_i = v_i + sum_{j in F} s_ij m_ij  (mod 2^64),    s_ij = +1 if i < j else -1,    m_ij = m_ji,
    m_ij = ChaCha20(K_ij),    K_ij = HKDF(X25519(i, j); manifest, sid, rho, lower label and its key,
                                          higher label and its key).

Labels, both keys, the session and, by rho, the whole roster with its numbers of readings are bound
into K_ij: a member that presents a copy of another one's key shares no mask with anybody else.
Ephemeral keys are in memory only and serve one session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, NoReturn

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from numpy.typing import NDArray

from veilsum.errors import AgentError
from veilsum.privacy.masked import MOST_COMPONENTS

DOMAIN = b"veilsum masked sum 1"
KEY_BYTES = 32
FIELD_PRIME = 2**255 - 19
MOST_CACHED = 1 << 28  # bytes of masks that a process keeps for the other end
_CACHED_ENTRY = 200  # bytes of a mask of one component in memory, about
_NO_SECRET = bytes(KEY_BYTES)
_SHA256, _NO_NONCE = SHA256(), bytes(16)

Words = NDArray[np.uint64]


class MaskError(AgentError):
    """A key that gives no mask; nothing was computed from it."""


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """sha256 of the domain, the purpose and the parts, each with its length: one text, one hash."""
    return hashlib.sha256(_framed(DOMAIN, purpose, *parts)).digest()


def _framed(*parts: bytes) -> bytes:
    return b"".join([text for part in parts for text in (len(part).to_bytes(8, "big"), part)])


def canonical_key(key: bytes) -> bool:
    """Whether 32 bytes are the one encoding of a coordinate: below 2^255 - 19."""
    return len(key) == KEY_BYTES and int.from_bytes(key, "little") < FIELD_PRIME


class Participant(NamedTuple):
    """What a member says of itself in a session: its ephemeral key, and how many readings it adds."""

    key: bytes
    readings: int = 1


def roster_digest(manifest: bytes, sid: bytes, roster: Mapping[str, Participant]) -> bytes:
    """rho = H(manifest, sid, (label, key, readings) of all of F), in the order of the labels."""
    parts = [manifest, sid]
    for label in sorted(roster):
        key, readings = roster[label]
        parts += label.encode(), key, readings.to_bytes(8, "big")
    return digest(b"roster", *parts)


@lru_cache(maxsize=1 << 14)
def _public_key(key: bytes) -> X25519PublicKey:
    if not canonical_key(key):
        raise MaskError("an ephemeral key that is not canonical; expected 32 bytes below p")
    return X25519PublicKey.from_public_bytes(key)


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
        try:
            secret = self._private.exchange(_public_key(theirs))
        except ValueError:
            raise MaskError("an ephemeral key of low order; its secret is known to all") from None
        if secret == _NO_SECRET:
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
    state = _pair_state(manifest, sid, rho).copy()
    state.update(_end(low, low_key) + _end(high, high_key))
    return state.digest()


@lru_cache(maxsize=1 << 14)
def _end(label: str, key: bytes) -> bytes:
    """One end of a pair; it is in as many pairs as there are members."""
    return _framed(label.encode(), key)


@lru_cache(maxsize=16)
def _pair_state(manifest: bytes, sid: bytes, rho: bytes) -> hashlib._Hash:
    """What all pairs of a roster begin with."""
    return hashlib.sha256(_framed(DOMAIN, b"pair", manifest, sid, rho))


def stream(secret: bytes, info: bytes, components: int) -> Words:
    """m_ij: as many words of 64 bits as the statistic has components."""
    key = HKDF(algorithm=_SHA256, length=32, salt=DOMAIN, info=info).derive(secret)
    encryptor = Cipher(algorithms.ChaCha20(key, _NO_NONCE), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * components)), dtype="<u8").astype(
        np.uint64, copy=False
    )


class PairCache:
    """Masks of pairs whose two ends are agents of this process: each is computed once.

    A mask is in memory only, until the other end has used it or the session is over.
    """

    __slots__ = ("_finished", "_labels", "_masks", "_room")

    def __init__(self) -> None:
        """No agent, no mask."""
        self._labels: set[str] = set()
        self._masks: dict[bytes, dict[tuple[bytes, str, str], Words]] = {}
        self._finished: dict[bytes, set[tuple[bytes, str]]] = {}
        self._room = MOST_CACHED

    def enter(self, label: str) -> None:
        """An agent of this process."""
        self._labels.add(label)

    def wants(self, sid: bytes, rho: bytes, label: str) -> bool:
        """Whether an agent is of this process and has yet to compute its pad for a roster."""
        return label in self._labels and (rho, label) not in self._finished.get(sid, ())

    def finish(self, sid: bytes, rho: bytes, label: str) -> None:
        """An agent of this process has computed its pad for a roster."""
        if label in self._labels:
            self._finished.setdefault(sid, set()).add((rho, label))

    def __len__(self) -> int:
        """Masks that wait for the other end."""
        return sum(map(len, self._masks.values()))

    def take(self, sid: bytes, pair: tuple[bytes, str, str]) -> Words | None:
        """The mask of (rho, lower label, higher label) for the second end; it is gone then."""
        waiting = self._masks.get(sid)
        mask = waiting.pop(pair, None) if waiting else None
        if mask is not None:
            self._room += _CACHED_ENTRY + mask.nbytes
        return mask

    def keep(self, sid: bytes, pair: tuple[bytes, str, str], mask: Words) -> None:
        """Keep a mask for the other end, while there is room."""
        if self._room >= _CACHED_ENTRY + mask.nbytes:
            self._room -= _CACHED_ENTRY + mask.nbytes
            self._masks.setdefault(sid, {})[pair] = mask

    def drop(self, sid: bytes) -> None:
        """A session is over for one of its agents; whoever is late computes for itself."""
        self._finished.pop(sid, None)
        for mask in self._masks.pop(sid, {}).values():
            self._room += _CACHED_ENTRY + mask.nbytes

    def __repr__(self) -> str:
        """Show no mask."""
        return f"PairCache({len(self)} in memory)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be written anywhere."""
        raise TypeError("masks are in memory only")


def pad(
    key: EphemeralKey, label: str, roster: Mapping[str, Participant], manifest: bytes, sid: bytes,
    components: int, pairs: PairCache | None = None, rho: bytes = b"",
) -> Words:  # fmt: skip
    """sum_{j in F} s_ij m_ij modulo 2^64, for the member `label` of the roster.

    rho is that of this roster; it is computed if it is not given.
    """
    if label not in roster or roster[label].key != key.public:
        raise MaskError(f"the roster does not have the present key of {label!r}")
    if not 0 < components <= MOST_COMPONENTS:  # not a MaskError: no key is to blame
        raise AgentError(f"1 to {MOST_COMPONENTS} components can be masked; found {components}")
    rho = rho or roster_digest(manifest, sid, roster)
    pairs = PairCache() if pairs is None else pairs
    nothing = np.zeros(components, dtype=np.uint64)
    added, taken_off = [nothing], [nothing]
    for other, (theirs, _) in roster.items():
        if other == label:
            continue
        pair = (rho, label, other) if label < other else (rho, other, label)
        mask = pairs.take(sid, pair)
        if mask is None or mask.size != components:
            info = pair_info(manifest, sid, rho, (label, key.public), (other, theirs))
            mask = stream(key.exchange(theirs), info, components)
            if pairs.wants(sid, rho, other):
                pairs.keep(sid, pair, mask)
        (added if label < other else taken_off).append(mask)
    pairs.finish(sid, rho, label)
    return _sum(added) - _sum(taken_off)


def _sum(masks: list[Words]) -> Words:
    """Modulo 2^64."""
    whole: Words = np.array(masks, dtype=np.uint64).sum(axis=0, dtype=np.uint64)
    return whole


def to_words(values: Iterable[int]) -> Words:
    """Whole numbers modulo 2^64."""
    return np.array([value % 2**64 for value in values], dtype=np.uint64)


def centred(words: Words) -> tuple[int, ...]:
    """The representatives in -2^63 .. 2^63 - 1."""
    return tuple(int(value) for value in words.view(np.int64))
