"""The crash-safe ledger of one agent: its releases, their cost, and the agent's mixing state.

A release is drawn, charged and on disk before anything of it is sent; after a restart the stored
value is used and never drawn again. `Ledger.open` opens a ledger, `verify` checks one,
`read_ledger` reads one.
"""

from __future__ import annotations

from veilsum.agents.ledger.budget import BudgetStatus
from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.ledger import Ledger, ResumePoint
from veilsum.agents.ledger.maintenance import BackupReport, amend, backup, restore
from veilsum.agents.ledger.queries import OpenQuery
from veilsum.agents.ledger.records import (
    EpsilonDelta,
    LedgerChange,
    LedgerEntry,
    LedgerIdentity,
    ReadingOrigin,
    key_of,
    release_terms,
)
from veilsum.agents.ledger.sessions import DiskSessionLedger
from veilsum.agents.ledger.verification import Verification, read_ledger, stored_epoch, verify

__all__ = [
    "BackupReport",
    "BudgetStatus",
    "DiskSessionLedger",
    "EpsilonDelta",
    "Ledger",
    "LedgerChange",
    "LedgerContents",
    "LedgerEntry",
    "LedgerIdentity",
    "OpenQuery",
    "ReadingOrigin",
    "ResumePoint",
    "Verification",
    "amend",
    "backup",
    "key_of",
    "read_ledger",
    "release_terms",
    "restore",
    "stored_epoch",
    "verify",
]
