"""The crash-safe ledger of one agent: its releases, their cost, and the agent's mixing state.

A release is drawn, charged and on disk before anything of it is sent; after a restart the stored
value is used and never drawn again. `Ledger.open` opens a ledger, `verify` checks one,
`read_ledger` reads one.
"""

from __future__ import annotations

from murmura.agents.ledger.budget import BudgetStatus
from murmura.agents.ledger.contents import LedgerContents
from murmura.agents.ledger.ledger import Ledger, ResumePoint
from murmura.agents.ledger.maintenance import BackupReport, amend, backup, restore
from murmura.agents.ledger.queries import OpenQuery
from murmura.agents.ledger.records import (
    EpsilonDelta,
    LedgerChange,
    LedgerEntry,
    LedgerIdentity,
    ReadingOrigin,
    key_of,
    release_terms,
)
from murmura.agents.ledger.sessions import DiskSessionLedger
from murmura.agents.ledger.verification import Verification, read_ledger, stored_epoch, verify

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
