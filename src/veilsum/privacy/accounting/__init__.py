"""Accounting: what releases cost together, and a budget that is never exceeded."""

from __future__ import annotations

from veilsum.privacy.accounting.accountant import (
    Accountant,
    AccountTotals,
    Budget,
    BudgetExceeded,
)
from veilsum.privacy.accounting.composition import Composition, compose, repeated, spent
from veilsum.privacy.accounting.events import (
    EVENT_KINDS,
    EventKind,
    PrivacyEvent,
    Release,
    ReleaseEvent,
    Span,
)

__all__ = [
    "EVENT_KINDS",
    "AccountTotals",
    "Accountant",
    "Budget",
    "BudgetExceeded",
    "Composition",
    "EventKind",
    "PrivacyEvent",
    "Release",
    "ReleaseEvent",
    "Span",
    "compose",
    "repeated",
    "spent",
]
