"""Proof of what an agent has said: a token for each of its lives and rounds.

token(life, round) = blake2s(life, round; key = secret), the first 8 bytes. It travels with the
agent's messages, and neighbours say the last one back. Only who was told of a round can name its
token, so a neighbour that says that this agent was further than it remembers proves it with the
token, or is not believed. The secret is made with the ledger and part of every copy of it: an
agent whose ledger was put back to an older copy still recognises its tokens.
"""

from __future__ import annotations

from hashlib import blake2s
from hmac import compare_digest

SIZE = 8


class Tokens:
    """The tokens of one agent; the latest is kept, as it goes to all neighbours."""

    def __init__(self, secret: bytes = b"") -> None:
        """Without a secret every token is empty and every claim is believed."""
        self._secret = secret
        self._last = (-1, -1)
        self._token = b""

    def __bool__(self) -> bool:
        """Whether claims need a proof."""
        return bool(self._secret)

    def of(self, life: int, number: int) -> bytes:
        """The token of a round of a life."""
        if self._secret and self._last != (life, number):
            self._last = life, number
            self._token = self._make(life, number)
        return self._token

    def proves(self, echo: bytes, life: int, number: int) -> bool:
        """Whether the token that a neighbour says back is that of this round."""
        return not self._secret or compare_digest(echo, self._make(life, number))

    def of_start(self, start: int, run: bytes) -> bytes:
        """The proof of a start of this agent's ledger."""
        return self._vouch(b"start", start, run)

    def of_releases(self, count: int, head: bytes) -> bytes:
        """The proof of so many releases with this head."""
        return self._vouch(b"releases", count, head)

    def proves_start(self, proof: bytes, start: int, run: bytes) -> bool:
        """Whether a start was this agent's."""
        return not self._secret or compare_digest(proof, self.of_start(start, run))

    def proves_releases(self, seal: bytes, count: int, head: bytes) -> bool:
        """Whether a head was this agent's."""
        return not self._secret or compare_digest(seal, self.of_releases(count, head))

    def _vouch(self, kind: bytes, number: int, what: bytes) -> bytes:
        if not self._secret:
            return b""
        said = number.to_bytes(8, "big") + what
        return blake2s(said, key=self._secret, digest_size=SIZE, person=kind).digest()

    def _make(self, life: int, number: int) -> bytes:
        said = life.to_bytes(8, "big") + number.to_bytes(8, "big")
        return blake2s(said, key=self._secret, digest_size=SIZE).digest()
