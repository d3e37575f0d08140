"""What the runtime needs of a ledger in a masked sum: `Ledger.sessions` gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from veilsum.agents.masked.entries import SessionLedger, StoredSum
from veilsum.privacy import PrivacyEvent


class OpenReadings(Protocol):
    """What a ledger knows of the readings of an open query.

    Attributes
    ----------
    query, readings : int
        Which one, and how many readings are in it.
    last : int
        The place of the last one among all readings of the source.
    origins : tuple of str
        Their origin hashes by place, up to `last`; empty for one that is not in it.
    """

    @property
    def query(self) -> int: ...  # noqa: D102

    @property
    def readings(self) -> int: ...  # noqa: D102

    @property
    def last(self) -> int: ...  # noqa: D102

    @property
    def origins(self) -> tuple[str, ...]: ...  # noqa: D102


class QueryLedger(SessionLedger, Protocol):
    """The queries of one agent, on disk.

    Attributes
    ----------
    last_query : int
        The last one that is concluded; 0 if none is.
    last_reason : str
        Why that one ended; empty if none is concluded.
    continued : bool
        Whether the ledger has queries of an earlier run.
    """

    @property
    def last_query(self) -> int: ...  # noqa: D102

    @property
    def last_reason(self) -> str: ...  # noqa: D102

    @property
    def continued(self) -> bool: ...  # noqa: D102

    def begin_query(
        self,
        query: int,
        cost: PrivacyEvent,
        attempts: int,
        *,
        readings: int = 1,
        last: int,
        origins: Sequence[str] = (),
    ) -> None:
        """Admit a query if the budget suffices for all of its attempts, else `BudgetExceeded`."""

    def open_query(self) -> OpenReadings | None:
        """The query that was begun and is not concluded."""

    def conclude_query(self, query: int, reason: str, summed: StoredSum | None) -> None:
        """Store that a query is over: its readings are settled."""

    def concluded(self) -> tuple[StoredSum, ...]:
        """The results of all queries that have one."""
