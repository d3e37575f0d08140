"""Asking questions of a table that one holder has: one exact draw, charged to the data's budget.

    asked = ask("households.csv", questions.mean("kwh", between=(0, 40)), epsilon=1)

table ── units ── one pass ──> vectors ── budget: charge, draw, keep (one transaction) ──> answers
"""

from __future__ import annotations

from veilsum.asking.engine import Reply, ask
from veilsum.asking.forecasting import Forecasts, forecasts
from veilsum.asking.tables import Table, open_table

__all__ = ["Forecasts", "Reply", "Table", "ask", "forecasts", "open_table"]
