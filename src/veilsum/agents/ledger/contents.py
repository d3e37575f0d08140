"""What a ledger contains, as read from its file; unverified."""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetStatus, BudgetTracker
from veilsum.agents.ledger.clock import MACHINE
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.records import LedgerChange, LedgerEntry, LedgerIdentity
from veilsum.agents.ledger.session_rows import QueryRow, SessionRow, reservation
from veilsum.agents.ledger.store import Store
from veilsum.agents.versions import LEDGER
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import BudgetExceeded, PrivacyEvent

SECRET_BYTES = 32  # proves to the agent what it sent before; never printed


class LedgerContents(NamedTuple):
    """Everything in a ledger except the mixing state.

    Attributes
    ----------
    identity : LedgerIdentity
        Agent, terms and budget.
    manifest : str
        sha256 of the manifest, in hexadecimal.
    name : str
        Name of the network.
    epoch, incarnation : int
        Epoch of the manifest, and incarnation of the agent.
    closed : bool
        Whether the agent closed it.
    sealed : bool
        Whether it is sealed with a key.
    entries : tuple of LedgerEntry
        The releases, in order.
    changes : tuple of LedgerChange
        Changes of its terms and refunds, in order.
    meta : dict
        Other metadata as text.
    queries : tuple of QueryRow
        The queries of a masked sum, in order.
    sessions : tuple of SessionRow
        Their sessions, in order.
    """

    identity: LedgerIdentity
    manifest: str
    name: str
    epoch: int
    incarnation: int
    closed: bool
    sealed: bool
    entries: tuple[LedgerEntry, ...]
    changes: tuple[LedgerChange, ...]
    meta: dict[str, str]
    queries: tuple[QueryRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()

    @property
    def charged(self) -> tuple[LedgerEntry, ...]:
        """The releases whose charges were not taken back."""
        gone = records.refunded(self.changes)
        return tuple(entry for entry in self.entries if entry.seq not in gone)

    @property
    def now(self) -> float:
        """The present time, or the ledger's last if that is later."""
        return max(MACHINE.wall(), float(self.meta["time"]))

    @property
    def status(self) -> BudgetStatus:
        """What was spent of the budget, and what is left of it now."""
        return self._tracker.status(self.now, int(self.meta["passed"]))

    @property
    def last_number(self) -> int:
        """Number of the last reading that was released or passed over, or is in an open query."""
        released = max((entry.last for entry in self.entries), default=0)
        asked = max((row.last for row in self.queries), default=0)
        return max(int(self.meta["passed"]), released, asked)

    def refusal(self, cost: PrivacyEvent, readings: int, attempts: int) -> BudgetExceeded | None:
        """Why the next readings could not be paid for now; None if they can.

        Parameters
        ----------
        cost : PrivacyEvent
            What one attempt costs each reading.
        readings : int
            How many readings are released together.
        attempts : int
            How many sessions their query may take; 0 for a release with local noise.

        Returns
        -------
        BudgetExceeded or None
            What `begin_query` or `charge` would raise.
        """
        place = self.last_number + 1, self.last_number + readings, readings, self.now
        paid = float(cost.epsilon), float(cost.delta)
        asked = Charge(*place, *paid, min(attempts, 1), max(attempts, 1))
        try:
            self._tracker.admit(asked)
        except BudgetExceeded as problem:
            return problem
        return None

    @property
    def _tracker(self) -> BudgetTracker:
        tracker = BudgetTracker.of(self.identity, self.charged)
        tracker.reserve(reservation(self.queries, Counter(e.reading for e in self.entries)))
        return tracker


def header_of(store: Store) -> LedgerContents:
    """Everything in a store but its secret and its releases, unverified."""
    meta = store.meta()
    if not LEDGER.reads(int(meta["format"])):
        raise LedgerError(_other_format(meta["agent"], int(meta["format"])))
    if len(bytes.fromhex(meta.pop("secret"))) != SECRET_BYTES:
        raise ValueError
    return LedgerContents(
        identity_of(meta),
        meta["manifest"],
        meta["name"],
        int(meta["epoch"]),
        int(meta["incarnation"]),
        meta["closed"] == "1",
        meta["sealed"] == "1",
        (),
        tuple(store.changes()),
        meta,
    )


def _other_format(agent: str, found: int) -> str:
    """Why a ledger of another format is not read, and what to do."""
    remedy = (
        "use the version of veilsum that wrote it; to go back to this one, restore the backup that "
        "was made beside the ledger before it was migrated, with `veilsum ledger restore`"
        if found > LEDGER.newest
        else f"start its agent once with a version of veilsum that reads format {found} and writes "
        f"{LEDGER.oldest}, then with this one"
    )
    formats = f"{LEDGER.oldest} and {LEDGER.newest}"
    return (
        f"the ledger of {agent} has format {found} and this version of veilsum reads {formats}; "
        f"nothing was released; {remedy}"
    )


def first_format(header: LedgerContents) -> int:
    """The format that the ledger was created with, which its chain begins with."""
    return int(header.meta.get("first_format", header.meta["format"]))


def contents_of(store: Store) -> LedgerContents:
    """Everything in a store but its secret, unverified."""
    rows = tuple(store.queries()), tuple(store.sessions())
    entries = tuple(store.entries())
    return header_of(store)._replace(entries=entries, queries=rows[0], sessions=rows[1])


def identity_of(meta: dict[str, str]) -> LedgerIdentity:
    """Agent, terms and budget from metadata."""
    return LedgerIdentity(
        meta["agent"], meta["terms"], meta["unit"], int(meta["window"]), float(meta["epsilon"]),
        float(meta["delta"]), meta["per"], meta["refill"], meta["zone"],
    )  # fmt: skip


def first_identity(header: LedgerContents) -> LedgerIdentity:
    """The identity that the ledger was created with, before all changes of its budget."""
    for change in header.changes:
        if change.kind == records.BUDGET_CHANGE:
            return LedgerIdentity(*header.identity[:2], *json.loads(change.before))
    return header.identity
