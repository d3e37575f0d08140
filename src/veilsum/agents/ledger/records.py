"""The data of a ledger: identity, entries, the hash chain over them, and the origins of readings.

The hash chain makes a modified ledger detectable:

    h_0 = sha256(identity),    h_k = sha256(h_{k-1}, entry k),

where an entry is a release, a change of the ledger's terms, or a refund. The number of releases and
the last hash are stored beside them, so an entry that is altered, inserted, moved or cut off at the
end breaks the chain. Origins of readings that were passed over, queries of a masked sum and their
sessions have chains of their own, whose lengths and last hashes are stored as well. All metadata is
under one seal, and so is every row of the other tables: a sha256, or with a key that is stored
elsewhere an HMAC-SHA256, out of reach of those who can only write the file. A complete older copy is
consistent in itself; only the neighbours, who remember rounds, can detect it.

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
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from veilsum.agents.events import Released
from veilsum.agents.ledger.periods import Period
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import PeerStatus
from veilsum.agents.versions import LEDGER
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import Budget, PrivacyEvent
from veilsum.privacy.mechanisms import MaskedMechanism

FORMAT = LEDGER.newest
LOG_EMPTIED = "2"  # `closed` of a ledger in use (0, and 1 if it is not) whose log was just emptied
ORIGIN_BYTES = 16
STREAM, WINDOW, EVENT = "stream", "window", "event"
BUDGET_CHANGE, RESTORED, REFUND, REINSTATED, MIGRATED = (
    "budget",
    "restored",
    "refund",
    "reinstated",
    "migrated",
)  # changes
SEALS = ("sha256", "hmac-sha256")  # without a key, and with one
UNIT = 1 << 1074  # every float is a whole multiple of 1/UNIT
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
NETWORK_OPTIONS = ("hops", "members")  # of a masked sum: they follow from who the members are


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
    """The agent a ledger belongs to, the terms of its releases, and its budget.

    Agent and terms never change; the budget only by an entry in the chain.

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
    per, refill, zone : str
        The period after which the budget is refilled (`Period`); empty without one.
    """

    agent: str
    terms: str
    unit: str
    window: int
    epsilon: float
    delta: float
    per: str = ""
    refill: str = ""
    zone: str = ""

    @classmethod
    def of(
        cls,
        agent: str,
        manifest: Manifest,
        budget: Budget | None,
        unit: str,
        window: int | None,
        period: Period | None = None,
    ) -> LedgerIdentity:
        """The identity of an agent's ledger under a manifest; no budget means no guarantee."""
        epsilon, delta = (math.inf, 0.0) if budget is None else (budget.epsilon, budget.delta)
        if period is not None and unit != STREAM:
            raise PrivacyError(
                f"a budget per {period.name} is for all readings released in that time, and "
                f'unit = "{unit}" is for fewer; leave out one of the two'
            )
        numbers = window or 0, float(epsilon), float(delta)
        return cls(agent, release_terms(manifest), unit, *numbers, *(period or ("", "", "")))

    @property
    def budget(self) -> Budget | None:
        """The budget, or None where nothing is guaranteed."""
        return None if math.isinf(self.epsilon) else Budget(self.epsilon, self.delta)

    @property
    def period(self) -> Period | None:
        """The period after which the budget is refilled, if there is one."""
        return Period(self.per, self.refill, self.zone) if self.per else None

    @property
    def per_what(self) -> str:
        """What the budget is for, as in "epsilon = 1 per ..."."""
        if self.period is not None:
            return str(self.period)
        return f"window of {self.window} readings" if self.unit == WINDOW else self.unit

    @property
    def words(self) -> str:
        """The budget in one phrase."""
        if self.budget is None:
            return "none: nothing is guaranteed"
        delta = f" and delta = {self.delta:.3g}" if self.delta else ""
        return f"epsilon = {self.epsilon:.6g}{delta} per {self.per_what}"

    @property
    def terms_of_budget(self) -> tuple[Any, ...]:
        """All but the agent and the terms of its releases."""
        return self[2:]


class LedgerEntry(NamedTuple):
    """One release as stored; `previous` and `hash` chain it to the entry before it.

    Attributes
    ----------
    seq : int
        Position in the ledger, from 1.
    reading : int
        Number of the release: that of the reading, where each is released by itself; of a masked
        value the number of its query in the ledger.
    attempt : int
        0 for a release with local noise; of a masked value which attempt of its query, from 1.
    last : int
        Number of the last reading in it.
    readings : int
        How many readings are in it: 1, or the length of a batch.
    round : int
        The round in which it enters; of a masked value its view.
    time : float
        When it was released, in seconds since 1970; never less than before.
    epsilon, delta : float
        What it cost each reading in it.
    sums : tuple of int
        The noised statistic, in units of 2^-unit, or a masked value, modulo 2^64.
    weight : int
        The number of readings in it, in the same units; 0 of a masked value.
    origins : tuple of str
        Hashes that identify the readings up to number `last`, in order; empty if only their
        numbers do. One that is empty was not released or has no origin.
    previous, hash : str
        Hash of the entry before, and of this one.
    """

    seq: int
    reading: int
    attempt: int
    last: int
    readings: int
    round: int
    time: float
    epsilon: float
    delta: float
    sums: tuple[int, ...]
    weight: int
    origins: tuple[str, ...]
    previous: str
    hash: str

    @property
    def released(self) -> Released:
        """The release as the protocol takes it."""
        return Released(self.reading, self.sums, self.weight)

    @property
    def first(self) -> int:
        """Number of the first reading that it covers."""
        return self.last - max(self.readings, len(self.origins)) + 1

    @property
    def row(self) -> tuple[Any, ...]:
        """As the file stores it."""
        origins = names_text(self.origins)
        numbers = to_hex(self.sums), format(self.weight, "x")
        return (*self[:9], *numbers, origins, self.previous, self.hash)

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> LedgerEntry:
        """Read what `row` wrote."""
        origins = names_of(row[11])
        made = (*row[:9], from_hex(row[9]), int(row[10], 16), origins, *row[12:])
        return cls._make(made)


class LedgerChange(NamedTuple):
    """A change of a ledger's terms, or a refund, chained like a release.

    Attributes
    ----------
    number : int
        From 1.
    after : int
        Number of releases before it.
    time : float
        When, in seconds since 1970.
    kind : str
        "budget"; "restored" where the ledger continues from a backup; "refund"; "reinstated" where
        a refund was false; "migrated" to another format.
    by, reason : str
        Who changed it, and why.
    before, now : str
        The terms before and after, as JSON; of a refund the charge, and the signed records that
        prove it; of what is reinstated the charge, and nothing.
    previous, hash : str
        Hash of the entry before, and of this one.
    """

    number: int
    after: int
    time: float
    kind: str
    by: str
    reason: str
    before: str
    now: str
    previous: str
    hash: str


class CostSum(NamedTuple):
    """An exact sum of costs, in whole multiples of 1/UNIT; independent of the order of addition."""

    epsilon: int = 0
    delta: int = 0
    infinite: bool = False  # where nothing was guaranteed

    def plus(self, other: CostSum) -> CostSum:
        """The sum of both."""
        return CostSum(
            self.epsilon + other.epsilon, self.delta + other.delta, self.infinite or other.infinite
        )

    def minus(self, other: CostSum) -> CostSum:
        """The difference."""
        return CostSum(self.epsilon - other.epsilon, self.delta - other.delta, self.infinite)

    def times(self, count: int) -> CostSum:
        """So many times the cost."""
        return CostSum(self.epsilon * count, self.delta * count, self.infinite)

    @property
    def rounded(self) -> EpsilonDelta:
        """As floats."""
        return EpsilonDelta(math.inf if self.infinite else self.epsilon / UNIT, self.delta / UNIT)


@lru_cache(maxsize=1024)
def group_cost(epsilon: float, delta: float, count: int = 1) -> CostSum:
    """What a release costs `count` of the readings in it together (`PrivacyEvent.times`)."""
    if math.isinf(epsilon):
        return CostSum(0, 0, infinite=True)
    cost = PrivacyEvent.of(epsilon, delta).times(count)
    return CostSum(_exact(cost.epsilon), _exact(cost.delta))


def _exact(number: float) -> int:
    above, below = number.as_integer_ratio()
    return above * (UNIT // below)


def release_terms(manifest: Manifest) -> str:
    """The manifest's fields that determine the distribution of a release, as text.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network. A new epoch with other members has the same release terms.

    Returns
    -------
    str
        JSON, by the names in `RELEASE_FIELDS`.
    """
    values = {name: getattr(manifest, name) for name in RELEASE_FIELDS}
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=float)


def same_terms(one: str, other: str) -> bool:
    """Whether two texts of `release_terms` are of the same distribution of releases.

    Parameters
    ----------
    one, other : str
        As `release_terms` returns them. Of a masked sum's options, what describes the network (its
        members and hops) is left out: each member's noise follows from the manifest of the epoch.
    """
    return one == other or _without_network(one) == _without_network(other)


def _without_network(terms: str) -> object:
    found = json.loads(terms)
    if found.get("mechanism") == MaskedMechanism.name:
        found["options"] = [one for one in found["options"] if one[0] not in NETWORK_OPTIONS]
    return found


def names_text(origins: tuple[str, ...]) -> str:
    """Origins as text, with a dash where there is none."""
    return " ".join(origin or "-" for origin in origins)


def names_of(text: str) -> tuple[str, ...]:
    """Read what `names_text` wrote."""
    return tuple("" if name == "-" else name for name in text.split())


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
    return hashlib.sha256(b"veilsum ledger\n" + secret).digest()


def _canonical(*parts: Any) -> bytes:
    plain = [part.hex() if isinstance(part, float) else part for part in parts]
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode()


def genesis_hash(identity: LedgerIdentity, version: int = FORMAT) -> str:
    """h_0: a chain belongs to one agent, its terms, its first budget and its first format."""
    return hashlib.sha256(_canonical("veilsum ledger", version, *identity)).hexdigest()


def entry_hash(previous: str, row: tuple[Any, ...]) -> str:
    """h_k = sha256(h_{k-1}, entry k), of a release as the file stores it.

    Fields are separated by line feeds, which none contains: another division into fields would need
    another number of them.
    """
    seq, reading, attempt, last, readings, round, time, epsilon, delta, sums, weight, origins = row[
        :12
    ]
    text = (
        f"release\n{previous}\n{seq}\n{reading}\n{attempt}\n{last}\n{readings}\n{round}\n{time!r}\n"
        f"{epsilon!r}\n{delta!r}\n{sums}\n{weight}\n{origins}"
    )
    return hashlib.sha256(text.encode()).hexdigest()


def passed_hash(previous: str, number: int, origin: str) -> str:
    """The chain of the readings that were passed over, empty before the first of them."""
    return hashlib.sha256(f"passed\n{previous}\n{number}\n{origin}".encode()).hexdigest()


def change_hash(previous: str, change: tuple[Any, ...]) -> str:
    """h_k of a change of terms."""
    return hashlib.sha256(_canonical("change", previous, *change[:8])).hexdigest()


def row_hash(table: str, row: tuple[Any, ...]) -> str:
    """The chain of a table whose rows end in the hash of the row before and their own."""
    plain = [part.hex() if isinstance(part, bytes) else part for part in row[:-1]]
    return hashlib.sha256(_canonical(table, *plain)).hexdigest()


def refunded(changes: Iterable[LedgerChange]) -> frozenset[int]:
    """The releases whose charges were taken back, and not again since, by `seq`."""
    found: set[int] = set()
    for change in changes:
        if change.kind == REFUND:
            found.add(json.loads(change.before)["release"])
        elif change.kind == REINSTATED:
            found.discard(json.loads(change.before)["release"])
    return frozenset(found)


def seal(key: bytes | None, meta: dict[str, str]) -> str:
    """The seal of all metadata: HMAC-SHA256, or sha256 without a key."""
    rows = sorted(item for item in meta.items() if item[0] != "seal")
    return f"{SEALS[key is not None]} {_checksum(key, 'veilsum seal', rows).hex()}"


def state_checksum(key: bytes | None, incarnation: int, round: int, state: bytes) -> bytes:
    """Checksum of the mixing state: detects damage, and with a key modification."""
    digest = hashlib.sha256(state).hexdigest()
    return _checksum(key, "veilsum state", incarnation, round, digest)


def peer_checksum(key: bytes | None, member: str, status: PeerStatus) -> bytes:
    """Checksum of what is remembered of a neighbour."""
    plain = [part.hex() if isinstance(part, bytes) else part for part in status]
    return _checksum(key, "veilsum peer", member, *plain)


def _checksum(key: bytes | None, *parts: Any) -> bytes:
    text = _canonical(*parts)
    return hashlib.sha256(text).digest() if key is None else hmac.digest(key, text, "sha256")


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
    extracted = hmac.digest(b"veilsum", secret, "sha256")
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
