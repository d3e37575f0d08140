"""Derived draws: the noise and the salt of a release, computed from a secret seed and what is released.

    bits = ChaCha20(SHA-256(seed, terms, number, slots, exact content))        seed <- SHA-256(seed)

A copy of a site that sees the same readings repeats the same bits, and so does a site that was restored to
the state before: one release, twice on the board, is one release. Other content is in the input of the hash,
so that it never shares noise: the difference of two releases would be the difference of two readings. The
seed moves on with every release, so that one that leaks later says nothing of earlier draws.

The law of the draws is that of uniform bits to whoever cannot tell ChaCha20 from them: computational. A
secure sum draws from the operating system (`Fresh`): its bytes are kept, and never computed again.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from veilsum.fleet.post import digest
from veilsum.privacy.exact.entropy import Entropy

SEED = 32


class DerivedEntropy(Entropy):
    """Bits that are a function of a seed and of what is released."""

    def __init__(self, seed: bytes, *parts: bytes) -> None:
        """For one release."""
        key = digest("veilsum draw 1", seed, *parts)
        self._stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def read(self, count: int) -> bytes:
        """The next bytes of the stream."""
        return self._stream.update(bytes(count))


def ratcheted(seed: bytes) -> bytes:
    """The seed of the next release, from which this one cannot be computed."""
    return digest("veilsum seed 1", seed)
