"""Queries of a masked sum and their sessions, as the ledger's file stores them.

    queries    one row for each question: what it may cost, its readings, how it ended
    sessions   one row for each view of an attempt; a masked value that was sent moves to the releases

Rows are chained in order; number and last hash are in the metadata. Of `sessions` only the last row
ever changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.records import LedgerEntry, names_of, row_hash
from veilsum.agents.masked.entries import Prepared, SessionEntry, Stage, StoredSum

WORD = 8  # bytes
SESSION_TABLES = (
    "CREATE TABLE queries (number INTEGER PRIMARY KEY, run TEXT NOT NULL, query INTEGER NOT NULL, "
    "attempts INTEGER NOT NULL, readings INTEGER NOT NULL, last INTEGER NOT NULL, "
    "time REAL NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, origins TEXT NOT NULL, "
    "reason TEXT NOT NULL, summed TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, "
    "UNIQUE (run, query))",
    "CREATE TABLE sessions (number INTEGER PRIMARY KEY, query INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, view INTEGER NOT NULL, sid BLOB NOT NULL, stage TEXT NOT NULL, "
    "rho BLOB NOT NULL, members BLOB NOT NULL, words BLOB NOT NULL, salt BLOB NOT NULL, "
    "commitment BLOB NOT NULL, gamma BLOB NOT NULL, present BLOB NOT NULL, "
    "previous TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (query, attempt, view))",
)


class QueryRow(NamedTuple):
    """One query.

    Attributes
    ----------
    number : int
        Position in the ledger, from 1.
    run : str
        Hash of the manifest and the nonce that it was asked under.
    query : int
        Its number under these.
    attempts : int
        How many sessions it may send in; 0 if this agent contributed nothing.
    readings, last : int
        How many readings are in it, and the number of the last.
    time : float
        When it began, in seconds since 1970.
    epsilon, delta : float
        What one attempt costs each reading.
    origins : str
        Hashes of the readings' origins.
    reason : str
        How it ended; empty while it is open.
    summed : str
        The sum as JSON; empty without one.
    previous, hash : str
        Hash of the row before, and of this one.
    """

    number: int
    run: str
    query: int
    attempts: int
    readings: int
    last: int
    time: float
    epsilon: float
    delta: float
    origins: str
    reason: str = ""
    summed: str = ""
    previous: str = ""
    hash: str = ""

    def after(self, previous: str) -> Self:
        """Chained to the row before."""
        row = self._replace(previous=previous, hash="")
        return row._replace(hash=row_hash("query", row))

    def charge(self, times: int) -> Charge:
        """What so many attempts cost, for the budget."""
        span = max(self.readings, len(self.origins.split()))
        place = self.last - span + 1, self.last, self.readings
        return Charge(*place, self.time, self.epsilon, self.delta, 1, times)

    @property
    def names(self) -> tuple[str, ...]:
        """The origins, one by one."""
        return names_of(self.origins)

    @property
    def result(self) -> StoredSum | None:
        """The sum, if there is one."""
        if not self.summed:
            return None
        found = json.loads(self.summed)
        lists = (tuple(found[name]) for name in ("members", "readings", "totals"))
        return StoredSum(
            self.query, found["attempt"], found["view"], bytes.fromhex(found["rho"]), *lists
        )


def reservation(queries: Sequence[QueryRow], sent: Mapping[int, int]) -> Charge | None:
    """What an open query, the last, may still cost; `sent` counts its masked values by number."""
    if not queries or queries[-1].reason:
        return None
    return queries[-1].charge(queries[-1].attempts - sent.get(queries[-1].number, 0))


def sum_text(summed: StoredSum | None) -> str:
    """A sum as `QueryRow.summed` stores it."""
    if summed is None:
        return ""
    found: dict[str, Any] = summed._asdict()
    del found["query"]
    return json.dumps({**found, "rho": summed.rho.hex()})


class SessionRow(NamedTuple):
    """One view of one attempt.

    Attributes
    ----------
    number : int
        Position in the ledger, from 1.
    query : int
        `QueryRow.number`.
    attempt, view : int
        Which session.
    sid : bytes
        Its name.
    stage : str
        "opened", "prepared", "sent" or "withdrawn".
    rho, members : bytes
        Its roster: the digest, and a bitmap over the members of the manifest.
    words, salt : bytes
        The masked value while it is prepared; the salt stays if it is sent.
    commitment, gamma : bytes
        What this agent committed to, and which commitments it is ready for.
    present : bytes
        What its Present says: the public half of the ephemeral key, and the readings.
    previous, hash : str
        Hash of the row before, and of this one.
    """

    number: int
    query: int
    attempt: int
    view: int
    sid: bytes
    stage: str
    rho: bytes = b""
    members: bytes = b""
    words: bytes = b""
    salt: bytes = b""
    commitment: bytes = b""
    gamma: bytes = b""
    present: bytes = b""
    previous: str = ""
    hash: str = ""

    @classmethod
    def of(cls, number: int, query: int, entry: SessionEntry) -> Self:
        """The row of an entry; a value that was sent is not in it."""
        prepared, members, words, salt = entry.prepared, b"", b"", b""
        if prepared is not None:
            members, salt = to_bitmap(prepared.members), prepared.salt
        if prepared is not None and entry.stage is Stage.PREPARED:
            words = b"".join(word.to_bytes(WORD, "big") for word in prepared.words)
        place = number, query, entry.attempt, entry.view, entry.sid, entry.stage.value
        said = entry.commitment, entry.gamma, entry.present
        return cls(*place, entry.rho, members, words, salt, *said)

    def after(self, previous: str) -> Self:
        """Chained to the row before."""
        row = self._replace(previous=previous, hash="")
        return row._replace(hash=row_hash("session", row))

    def entry(self, sent: LedgerEntry | None = None, refunded: bool = False) -> SessionEntry:
        """As a session takes it; `sent` is its release."""
        stage = Stage.REFUNDED if refunded else Stage(self.stage)
        words = None if sent is None else sent.sums
        if self.words:
            size = range(0, len(self.words), WORD)
            words = tuple(int.from_bytes(self.words[i : i + WORD], "big") for i in size)
        prepared = None
        if words is not None:
            members = from_bitmap(self.members)
            prepared = Prepared(self.sid, self.rho, members, words, self.salt, self.commitment)
        place = self.attempt, self.view, self.sid, stage
        said = self.commitment, self.rho, self.gamma, self.present
        return SessionEntry(*place, prepared, *said)


def to_bitmap(members: tuple[int, ...]) -> bytes:
    """Bit k of the bytes is member k."""
    bits = bytearray(max(members, default=-1) // 8 + 1)
    for member in members:
        bits[member // 8] |= 1 << member % 8
    return bytes(bits)


def from_bitmap(bits: bytes) -> tuple[int, ...]:
    """Read what `to_bitmap` wrote."""
    return tuple(8 * i + k for i, byte in enumerate(bits) for k in range(8) if byte >> k & 1)
