"""The crash-safe ledger of one agent: what it released, what that cost, and where it stands.

A release is drawn, charged and on disk before anyone sees it; after a restart the same value is
found again and never drawn anew. `Ledger.open` gives one, `verify` judges one, `look` reads one.
"""

from __future__ import annotations

from murmura.agent.ledger.chain import key_of
from murmura.agent.ledger.check import Contents, Verification, look, verify
from murmura.agent.ledger.ledger import Ledger, Resumed
from murmura.agent.ledger.origins import Origin
from murmura.agent.ledger.records import Entry, Identity, Spent, release_terms

__all__ = [
    "Contents",
    "Entry",
    "Identity",
    "Ledger",
    "Origin",
    "Resumed",
    "Spent",
    "Verification",
    "key_of",
    "look",
    "release_terms",
    "verify",
]
