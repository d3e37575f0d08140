"""The most that a budget lets a day, a month and a year cost.

A budget of E per period allows at most E times the number of its periods that a day, month or year can
touch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from veilsum.privacy import PrivacyEvent
from veilsum.privacy.accounting import repeated

if TYPE_CHECKING:
    from veilsum.agents.ledger.periods import Period

DAY = 86_400.0  # seconds
SPANS = (("a day", 1), ("a month", 31), ("a year", 366))  # days, the longest of the calendar
_TOUCHED = {  # periods of the calendar that a day, a month and a year of the calendar can touch
    "day": (1, 31, 366),
    "week": (1, 6, 54),
    "month": (1, 1, 12),
}


class LimitedBudget(Protocol):
    """What a budget says of time: the [budget] of an agent.toml, or the identity of a ledger."""

    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def delta(self) -> float: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def window(self) -> int | None: ...  # noqa: D102
    @property
    def period(self) -> Period | None: ...  # noqa: D102


def budget_limits(budget: LimitedBudget) -> dict[str, tuple[float, float]]:
    """The most that a budget alone lets a day, a month and a year cost.

    Parameters
    ----------
    budget : LimitedBudget
        Of an agent.toml, or the identity of a ledger.

    Returns
    -------
    dict of str to (epsilon, delta)
        By span; infinite where the budget limits each reading, and not their number.

    Examples
    --------
    >>> from veilsum.agents.config_tables import BudgetTable
    >>> limits = budget_limits(BudgetTable(epsilon=2.0, per="day", refill="fixed"))
    >>> [epsilon for epsilon, _ in limits.values()]
    [2.0, 62.0, 732.0]
    """
    found = {}
    for k, (span, days) in enumerate(SPANS):
        most = repeated(
            PrivacyEvent.of(budget.epsilon, budget.delta), times_spent(budget, k, days, None)
        )
        found[span] = most.epsilon, most.delta
    return found


def times_spent(budget: LimitedBudget, k: int, days: int, readings: int | None) -> float:
    """How many budgets can be spent in the span; infinite where it limits each reading only."""
    if budget.unit == "event":
        return math.inf
    if budget.unit == "window":
        return math.inf if readings is None else math.ceil(readings / (budget.window or 1))
    period = budget.period
    return 1.0 if period is None else _periods(period, k, days)


def _periods(period: Period, k: int, days: int) -> int:
    """Rolling: as many as cover the span. Fixed: as many as it can touch."""
    cover = math.ceil(days * DAY / period.seconds)
    if period.refill != "fixed":
        return cover
    return _TOUCHED[period.name][k] if period.name in _TOUCHED else cover + 1
