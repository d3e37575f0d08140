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
    EventKind,
    PrivacyEvent,
    Release,
    ReleaseEvent,
    Span,
    add_kind,
    event_kinds,
)

__all__ = [
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
    "add_kind",
    "compose",
    "event_kinds",
    "repeated",
    "spent",
]
