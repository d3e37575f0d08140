"""Accounting: what releases cost together, and a budget that is never exceeded."""

from __future__ import annotations

from murmura.privacy.accounting.accountant import Accountant, Budget, BudgetExceeded, Totals
from murmura.privacy.accounting.composition import Composition, compose
from murmura.privacy.accounting.losses import MECHANISMS, Loss, Release

__all__ = [
    "MECHANISMS",
    "Accountant",
    "Budget",
    "BudgetExceeded",
    "Composition",
    "Loss",
    "Release",
    "Totals",
    "compose",
]
