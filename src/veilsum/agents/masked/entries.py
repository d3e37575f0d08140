"""What an agent must not forget about its sessions, and in which order it may change.

    OPENED  ->  PREPARED  ->  SENT  <->  REFUNDED
                          ->  WITHDRAWN

    OPENED     before Present: the view is used up, its key is in memory only
    PREPARED   before Commit: z, salt and roster; epsilon is reserved; `ready` adds gamma before Ready
    SENT       before Masked: the reservation is charged
    WITHDRAWN  before Withdraw: the reservation is released, z is overwritten
    REFUNDED   z is public and always will be, and c + 2 members that it needs have withdrawn: the
               charge is taken back; the attempt stays used. If that was false, it is SENT again

`SessionLedger` is what a session needs of a ledger; every call is durable when it returns. What may
follow on what is decided in `rules` (R1, R5, R6), by the ledger on disk (`veilsum.agents.ledger`) and
by the one in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from veilsum.agents.masked.records import SignedRecord


class Stage(Enum):
    """How far a session of one view has come."""

    OPENED = "opened"
    PREPARED = "prepared"
    SENT = "sent"
    WITHDRAWN = "withdrawn"
    REFUNDED = "refunded"


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
    """One view of one attempt; `present` is what its Present says, public: key[32] readings[4]."""

    attempt: int
    view: int
    sid: bytes
    stage: Stage = Stage.OPENED
    prepared: Prepared | None = None
    commitment: bytes = b""
    rho: bytes = b""
    gamma: bytes = b""
    present: bytes = b""

    @property
    def sent(self) -> bool:
        """Whether its masked value is public, refunded or not."""
        return self.stage in (Stage.SENT, Stage.REFUNDED)


class StoredSum(NamedTuple):
    """The result of a query, as a ledger stores it: public.

    Parameters
    ----------
    query, attempt, view : int
        Which session.
    rho : bytes
        The roster with its keys.
    members : tuple of int
        Whose contributions are in the sum, by their numbers in the manifest.
    readings : tuple of int
        How many readings each of them contributed.
    totals : tuple of int
        One for each component, in grid steps, noise included.
    """

    query: int
    attempt: int
    view: int
    rho: bytes
    members: tuple[int, ...]
    readings: tuple[int, ...]
    totals: tuple[int, ...]


class SessionLedger(Protocol):
    """What a session needs of a ledger."""

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        """Admit a query, if epsilon for all of its attempts is left (R5); again: no effect."""

    def entries(self, query: int) -> tuple[SessionEntry, ...]:
        """Every view of the query, in order; none if it was never admitted."""

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

    def refund(self, query: int, attempt: int, withdraws: tuple[SignedRecord, ...]) -> None:
        """Take the charge of an attempt back; the session has checked the evidence, which is kept."""

    def evidence(self, query: int) -> tuple[SignedRecord, ...]:
        """The withdrawals that refunds of the query rest on, or rested on."""

    def reinstate(self, query: int, attempt: int) -> None:
        """Take a refunded charge again, even beyond the budget."""
