"""Pages for the one who signs: what a scenario would reveal at most, and what a ledger has spent.

    sign_off(Scenario.load("scenario.toml"))        before anything is collected
    ledger_page(contents, found)                    afterwards, from one agent's ledger

Both are made from public terms: no signal is read for them.
"""

from __future__ import annotations

from veilsum.reports.ledger_page import ledger_page
from veilsum.reports.periods import PeriodCost, period_costs
from veilsum.reports.sign_off import sign_off
from veilsum.reports.terms import SignOffTerms

__all__ = ["PeriodCost", "SignOffTerms", "ledger_page", "period_costs", "sign_off"]
