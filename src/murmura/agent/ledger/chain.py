"""What makes a changed ledger look changed.

    h_0 = sha256(identity),    h_k = sha256(h_{k-1}, row k),

and the number of rows and the last hash are kept beside them, so a row that is altered, inserted,
moved or cut off at the end breaks the chain. Whoever may write the file can also compute it all
again: only with a key, which lies elsewhere, is the seal HMAC-SHA256(key, identity, count, head,
spent, life) out of their reach. A whole older copy is sound in itself; the neighbours, who
remember rounds, are the ones to notice it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from murmura.agent.ledger.records import Entry, Identity, Spent, words

FORMAT = 2


def _canonical(*parts: Any) -> bytes:
    plain = [part.hex() if isinstance(part, float) else part for part in parts]
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode()


def key_of(secret: bytes) -> bytes:
    """The key of a ledger, from the bytes of its secret file."""
    return hashlib.sha256(b"murmura ledger\n" + secret).digest()


def genesis(identity: Identity) -> str:
    """h_0: a chain belongs to one agent, its terms and its budget."""
    return hashlib.sha256(_canonical("murmura ledger", FORMAT, *identity)).hexdigest()


def link(
    before: str,
    seq: int,
    reading: int,
    round: int,
    epsilon: float,
    delta: float,
    sums: tuple[int, ...],
    weight: int,
    origin: str,
) -> str:
    """h_k = sha256(h_{k-1}, row k)."""
    numbers = words(sums), format(weight, "x")
    row = _canonical(before, seq, reading, round, epsilon, delta, *numbers, origin)
    return hashlib.sha256(row).hexdigest()


def follow(
    before: str,
    seq: int,
    reading: int,
    round: int,
    epsilon: float,
    delta: float,
    sums: tuple[int, ...],
    weight: int,
    origin: str,
) -> Entry:
    """The entry that comes after the one with the hash `before`."""
    linked = link(before, seq, reading, round, epsilon, delta, sums, weight, origin)
    return Entry(seq, reading, round, epsilon, delta, sums, weight, origin, before, linked)


def seal(
    key: bytes | None, identity: Identity, count: int, head: str, spent: Spent, life: int
) -> str:
    """HMAC-SHA256 of what must not be changed; empty without a key."""
    if key is None:
        return ""
    text = _canonical("murmura seal", *identity, count, head, *spent, life)
    return hmac.digest(key, text, "sha256").hex()


def mark(key: bytes | None, state: bytes) -> bytes:
    """Checksum of the state of mixing: against damage, and with a key against change."""
    if key is None:
        return hashlib.sha256(state).digest()
    return hmac.digest(key, b"murmura state" + state, "sha256")
