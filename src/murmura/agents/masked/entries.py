"""What an agent must not forget about its sessions, and in which order it may change.

    OPENED  ->  PREPARED  ->  SENT
                          ->  WITHDRAWN

    OPENED     before Present: the view is used up, its key is in memory only
    PREPARED   before Commit: z, salt and roster; epsilon is reserved; `ready` adds gamma before Ready
    SENT       before Masked: the reservation is charged
    WITHDRAWN  before Withdraw: the reservation is released, z is overwritten

`SessionLedger` is what a session needs of a ledger; every call is durable when it returns.
`MemorySessionLedger` has the rules R1, R5 and R6 and no disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import NamedTuple, Protocol

from murmura.errors import LedgerError


class Stage(Enum):
    """How far a session of one view has come."""

    OPENED = "opened"
    PREPARED = "prepared"
    SENT = "sent"
    WITHDRAWN = "withdrawn"


class Prepared(NamedTuple):
    """A masked value that waits: its session, roster, words and salt. Never x + eta."""

    sid: bytes
    rho: bytes
    members: tuple[int, ...]
    words: tuple[int, ...]
    salt: bytes
    commitment: bytes


@dataclass(frozen=True)
class SessionEntry:
    """One view of one attempt."""

    attempt: int
    view: int
    sid: bytes
    stage: Stage = Stage.OPENED
    prepared: Prepared | None = None
    commitment: bytes = b""
    rho: bytes = b""
    gamma: bytes = b""


class SessionLedger(Protocol):
    """What a session needs of a ledger."""

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        """Admit a query, if epsilon for all of its attempts is left (R5); again: no effect."""

    def entries(self, query: int) -> tuple[SessionEntry, ...]:
        """Every view of the query, in order."""

    def open(self, query: int, entry: SessionEntry) -> None:
        """A new view."""

    def prepare(self, query: int, prepared: Prepared) -> None:
        """Reserve epsilon and store the masked value."""

    def ready(self, query: int, gamma: bytes) -> None:
        """Store which commitments this agent is ready for."""

    def send(self, query: int) -> Prepared:
        """Charge the reservation; what is returned may be sent, now and for ever."""

    def withdraw(self, query: int) -> None:
        """Release the reservation and overwrite the masked value."""


@dataclass
class _Query:
    epsilon: Fraction
    attempts: int
    entries: tuple[SessionEntry, ...] = ()


class MemorySessionLedger:
    """A ledger in memory, for tests and simulations.

    Parameters
    ----------
    budget : Fraction
        What may be charged and reserved in all.

    Examples
    --------
    >>> ledger = MemorySessionLedger(Fraction(1))
    >>> ledger.begin(1, Fraction(1, 2), attempts=2)
    >>> ledger.charged, ledger.reserved
    (Fraction(0, 1), Fraction(0, 1))
    """

    def __init__(self, budget: Fraction) -> None:
        """Nothing is charged yet."""
        self.budget = budget
        self._queries: dict[int, _Query] = {}

    @property
    def charged(self) -> Fraction:
        """Epsilon of every session in which a masked value was sent."""
        return self._total(Stage.SENT)

    @property
    def reserved(self) -> Fraction:
        """Epsilon of the prepared sessions."""
        return self._total(Stage.PREPARED)

    def _total(self, stage: Stage) -> Fraction:
        return sum(
            (q.epsilon for q in self._queries.values() for e in q.entries if e.stage is stage),
            Fraction(0),
        )

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        """R5: a query starts only if epsilon for all of its attempts is left."""
        if query in self._queries:
            return
        left = self.budget - self.charged - self.reserved
        if attempts * epsilon > left:
            raise LedgerError(
                f"query {query} may cost {attempts} times epsilon = {float(epsilon):g}, and "
                f"{float(left):g} is left; nothing was drawn; raise the budget or ask for less"
            )
        self._queries[query] = _Query(epsilon, attempts)

    def entries(self, query: int) -> tuple[SessionEntry, ...]:
        """Every view of the query, in order."""
        return self._queries[query].entries

    def open(self, query: int, entry: SessionEntry) -> None:
        """R5: attempts in order and at most A, one open at a time; a view is never used twice."""
        found = self._queries[query]
        if not 0 <= entry.attempt < found.attempts:
            raise LedgerError(
                f"attempt {entry.attempt + 1} of query {query}, which has {found.attempts}"
            )
        if found.entries:
            last = found.entries[-1]
            if (entry.attempt, entry.view) <= (last.attempt, last.view):
                raise LedgerError(f"view {entry.view} of query {query} was used before")
            if last.stage is Stage.PREPARED:
                raise LedgerError("a prepared session is open; withdraw it first")
            if entry.attempt == last.attempt and last.stage is Stage.SENT:
                raise LedgerError("this attempt has sent its value; begin the next attempt")
        fresh = SessionEntry(entry.attempt, entry.view, entry.sid)
        found.entries = (*found.entries, fresh)

    def prepare(self, query: int, prepared: Prepared) -> None:
        """R6: one Commit per session."""
        last = self._last(query, Stage.OPENED)
        if prepared.sid != last.sid:
            raise LedgerError("the prepared value is of another session")
        self._replace(
            query, stage=Stage.PREPARED, prepared=prepared, commitment=prepared.commitment,
            rho=prepared.rho,
        )  # fmt: skip

    def ready(self, query: int, gamma: bytes) -> None:
        """R6: one Ready per session."""
        if self._last(query, Stage.PREPARED).gamma not in (b"", gamma):
            raise LedgerError("this session was ready for other commitments")
        self._replace(query, gamma=gamma)

    def send(self, query: int) -> Prepared:
        """R1: the one masked value of this attempt; a second one has no way here."""
        last = self._last(query, Stage.PREPARED)
        sent = [e for e in self.entries(query) if e.stage is Stage.SENT]
        if not last.gamma or last.prepared is None:
            raise LedgerError("a value is sent only after Ready")
        if any(entry.attempt == last.attempt for entry in sent):
            raise LedgerError(f"attempt {last.attempt + 1} of query {query} has sent a value")
        self._replace(query, stage=Stage.SENT)
        return last.prepared

    def withdraw(self, query: int) -> None:
        """R1: what is withdrawn is gone."""
        self._last(query, Stage.PREPARED)
        self._replace(query, stage=Stage.WITHDRAWN, prepared=None)

    def _last(self, query: int, stage: Stage) -> SessionEntry:
        entries = self.entries(query)
        if not entries or entries[-1].stage is not stage:
            found = entries[-1].stage.value if entries else "nothing"
            raise LedgerError(f"query {query} is {found}, expected {stage.value}")
        return entries[-1]

    def _replace(self, query: int, **changes: object) -> None:
        entries = self.entries(query)
        self._queries[query].entries = (*entries[:-1], replace(entries[-1], **changes))  # type: ignore[arg-type]
