"""The page for the one who signs: what a scenario would reveal at most.

    sign_off(Scenario.load("scenario.toml"))        before anything is collected

It is made from public terms: no signal is read for it. What was spent afterwards is on the page of an
agent's ledger, `veilsum.agents.ledger_page`.
"""

from __future__ import annotations

from veilsum.reports.periods import PeriodCost, period_costs
from veilsum.reports.sign_off import sign_off
from veilsum.reports.terms import SignOffTerms

__all__ = ["PeriodCost", "SignOffTerms", "period_costs", "sign_off"]
