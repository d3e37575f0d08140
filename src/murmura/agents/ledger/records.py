"""The data of a ledger: identity, entries, the hash chain over them, and the origins of readings.

The hash chain makes a modified ledger detectable:

    h_0 = sha256(identity),    h_k = sha256(h_{k-1}, entry k).

The number of entries and the last hash are stored beside them, so an entry that is altered,
inserted, moved or cut off at the end breaks the chain. Anyone who can write the file can recompute
the chain; only with a key that is stored elsewhere is the seal HMAC-SHA256(key, identity, count,
head, spent, incarnation) out of their reach. A complete older copy is consistent in itself; only
the neighbours, who remember rounds, can detect it.

An origin identifies a reading, so that it is never released twice under different numbers:

    origin(reading) = HMAC-SHA256(key, "key", cells of the key columns)   if the source has a key,
                      HMAC-SHA256(key, "row", number, the whole row)      otherwise,

truncated to 16 bytes. With a key (a time stamp, a message number) the order of rows is irrelevant:
a row whose key was released is skipped wherever it is. Without one, equal rows at different
positions are different readings, so a row is bound to its position: a file whose released rows have
moved is rejected, because a changed row cannot be distinguished from a new one.

The HMAC key is derived from the device's private key, or from the ledger's secret if there is none.
Rows have few possible values, so whoever holds that key can try them all; without it a stolen
ledger reveals nothing of a row. Of a source with a key only the key columns are hashed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from fractions import Fraction
from typing import Any, NamedTuple

from murmura.agents.events import Released
from murmura.agents.manifest import Manifest
from murmura.privacy.accounting import Budget

FORMAT = 3
ORIGIN_BYTES = 16
DEVICE_KEY, LEDGER_SECRET = "device", "ledger"  # what the key of the origins is derived from
RELEASE_FIELDS = (  # what the distribution of a release depends on; members and links are not in it
    "family",
    "dimension",
    "protect",
    "sensitivity",
    "mechanism",
    "epsilon",
    "delta",
    "radius",
    "algorithm",
    "options",
    "unit",
)


class EpsilonDelta(NamedTuple):
    """An amount of privacy budget: spent, or remaining.

    Attributes
    ----------
    epsilon, delta : float
        Epsilon is infinite where nothing is guaranteed.
    """

    epsilon: float
    delta: float


class LedgerIdentity(NamedTuple):
    """The agent a ledger belongs to and the terms it was created for; none of it ever changes.

    Attributes
    ----------
    agent : str
        Label of the agent.
    terms : str
        `release_terms` of the manifest.
    unit : str
        What the budget applies to: "stream", "window" or "event".
    window : int
        Readings per window; 0 without one.
    epsilon, delta : float
        The budget; epsilon is infinite where nothing is guaranteed.
    """

    agent: str
    terms: str
    unit: str
    window: int
    epsilon: float
    delta: float

    @classmethod
    def of(
        cls, agent: str, manifest: Manifest, budget: Budget | None, unit: str, window: int | None
    ) -> LedgerIdentity:
        """The identity of an agent's ledger under a manifest; no budget means no guarantee."""
        epsilon, delta = (math.inf, 0.0) if budget is None else (budget.epsilon, budget.delta)
        return cls(agent, release_terms(manifest), unit, window or 0, float(epsilon), float(delta))

    @property
    def budget(self) -> Budget | None:
        """The budget, or None where nothing is guaranteed."""
        return None if math.isinf(self.epsilon) else Budget(self.epsilon, self.delta)


class LedgerEntry(NamedTuple):
    """One release as stored; `previous` and `hash` chain it to the entry before it.

    Attributes
    ----------
    seq : int
        Position in the ledger, from 1.
    reading, round : int
        Number of the reading, and the round in which it enters.
    epsilon, delta : float
        What it cost.
    sums : tuple of int
        The noised statistic, in units of 2^-unit.
    weight : int
        The number of readings in it (1), in the same units.
    origin : str
        Hash that identifies the reading; empty if only its number does.
    previous, hash : str
        Hash of the entry before, and of this one.
    """

    seq: int
    reading: int
    round: int
    epsilon: float
    delta: float
    sums: tuple[int, ...]
    weight: int
    origin: str
    previous: str
    hash: str

    @property
    def released(self) -> Released:
        """The release as the protocol takes it."""
        return Released(self.reading, self.sums, self.weight)


class CostSum(NamedTuple):
    """The exact sum of all costs; it does not depend on the order of addition."""

    epsilon: Fraction | float = Fraction(0)  # inf where nothing was guaranteed
    delta: Fraction = Fraction(0)

    def plus(self, epsilon: float, delta: float) -> CostSum:
        """The sum with one more cost."""
        more = epsilon if math.isinf(epsilon) else Fraction(epsilon)
        return CostSum(self.epsilon + more, self.delta + Fraction(delta))

    @property
    def rounded(self) -> EpsilonDelta:
        """As floats."""
        return EpsilonDelta(float(self.epsilon), float(self.delta))


def release_terms(manifest: Manifest) -> str:
    """Hash the manifest's fields that determine the distribution of a release.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network. A new epoch with other members has the same release terms.

    Returns
    -------
    str
        sha256 in hexadecimal.
    """
    values = {name: getattr(manifest, name) for name in RELEASE_FIELDS}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=float)
    return hashlib.sha256(text.encode()).hexdigest()


def to_hex(numbers: tuple[int, ...]) -> str:
    """Integers of any size as hexadecimal text."""
    return " ".join(format(number, "x") for number in numbers)


def from_hex(text: str) -> tuple[int, ...]:
    """Read what `to_hex` wrote."""
    return tuple(int(number, 16) for number in text.split())


def key_of(secret: bytes) -> bytes:
    """Derive the key that seals a ledger from the bytes of its key file.

    Parameters
    ----------
    secret : bytes
        Contents of the key file.

    Returns
    -------
    bytes
        32 bytes.

    Examples
    --------
    >>> len(key_of(b"32 bytes from a file"))
    32
    """
    return hashlib.sha256(b"murmura ledger\n" + secret).digest()


def _canonical(*parts: Any) -> bytes:
    plain = [part.hex() if isinstance(part, float) else part for part in parts]
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode()


def genesis_hash(identity: LedgerIdentity) -> str:
    """h_0: a chain belongs to one agent, its terms and its budget."""
    return hashlib.sha256(_canonical("murmura ledger", FORMAT, *identity)).hexdigest()


def entry_hash(
    previous: str,
    seq: int,
    reading: int,
    round: int,
    epsilon: float,
    delta: float,
    sums: tuple[int, ...],
    weight: int,
    origin: str,
) -> str:
    """h_k = sha256(h_{k-1}, entry k)."""
    numbers = to_hex(sums), format(weight, "x")
    row = _canonical(previous, seq, reading, round, epsilon, delta, *numbers, origin)
    return hashlib.sha256(row).hexdigest()


def seal(
    key: bytes | None,
    identity: LedgerIdentity,
    count: int,
    head: str,
    spent: EpsilonDelta,
    incarnation: int,
) -> str:
    """HMAC-SHA256 of what must not be modified; empty without a key."""
    if key is None:
        return ""
    text = _canonical("murmura seal", *identity, count, head, *spent, incarnation)
    return hmac.digest(key, text, "sha256").hex()


def state_checksum(key: bytes | None, state: bytes) -> bytes:
    """Checksum of the mixing state: detects damage, and with a key modification."""
    if key is None:
        return hashlib.sha256(state).digest()
    return hmac.digest(key, b"murmura state" + state, "sha256")


class ReadingOrigin(NamedTuple):
    """What identifies a reading in its source; the text is raw data and stays in memory.

    Attributes
    ----------
    text : str
        Cells of the key columns, or the whole row.
    keyed : bool
        Whether the text is a key, which identifies the reading wherever it is.
    """

    text: str
    keyed: bool = False

    def __repr__(self) -> str:
        """Without the text, which may contain a reading."""
        return f"ReadingOrigin(keyed={self.keyed})"


def derive(secret: bytes, purpose: str, agent: str) -> bytes:
    """HKDF with SHA-256 (RFC 5869), one block: a key for one purpose of one agent."""
    extracted = hmac.digest(b"murmura", secret, "sha256")
    return hmac.digest(extracted, f"{purpose}\n{agent}".encode() + b"\x01", "sha256")


class OriginHasher:
    """Identifies readings by keyed hashes; each agent of a device has its own key."""

    def __init__(self, secret: bytes, agent: str) -> None:
        """Derive the agent's key from the secret."""
        self._key = derive(secret, "origins of readings", agent)

    @property
    def fingerprint(self) -> str:
        """Distinguishes this key from others, and reveals nothing else of it."""
        return hmac.digest(self._key, b"check", "sha256")[:8].hex()

    def hash(self, origin: ReadingOrigin | None, reading: int) -> str:
        """The hash to store; empty if the source identifies readings by number only."""
        if origin is None:
            return ""
        kind = "key" if origin.keyed else f"row {reading}"
        text = f"{kind}\n{origin.text}".encode()
        return hmac.digest(self._key, text, "sha256")[:ORIGIN_BYTES].hex()
