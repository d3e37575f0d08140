"""What a day, a month and a year cost: readings add up, and a budget limits them.

The readings of a member cost what they add up to (`Guarantee.for_stream`), in batches or not. A
budget of E per period allows at most E times the number of its periods that a day, month or year
can touch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from veilsum import _validate
from veilsum.agents.ledger.limits import SPANS, times_spent
from veilsum.errors import PrivacyError
from veilsum.privacy import Guarantee, PrivacyEvent, Status
from veilsum.privacy.accounting import repeated

if TYPE_CHECKING:
    from veilsum.agents.config_tables import BudgetTable


class PeriodCost(NamedTuple):
    """What the readings of one member cost together.

    Attributes
    ----------
    span : str
        "a day", "a month" or "a year".
    readings : int or None
        How many there are in it at most; None where nothing limits them.
    epsilon, delta : float
        The cost; infinite where nothing limits it.
    by_budget : bool
        Whether the budget is what limits it.

    Examples
    --------
    >>> PeriodCost("a day", 24, 2.4, 0.0).readings
    24
    """

    span: str
    readings: int | None
    epsilon: float
    delta: float
    by_budget: bool = False


def period_costs(
    guarantee: Guarantee,
    per_day: float | None,
    last: int | None = None,
    budget: BudgetTable | None = None,
) -> list[PeriodCost]:
    """The cost of a day, a month and a year of readings of one member.

    Parameters
    ----------
    guarantee : Guarantee
        For one reading, or for one run over one signal of each member.
    per_day : float or None
        How many readings or runs there are a day; None if that is not known.
    last : int, optional
        The number of readings after which a run ends.
    budget : BudgetTable, optional
        What the agent may spend, from its agent.toml.

    Returns
    -------
    list of PeriodCost
        Three; none where nothing is guaranteed.

    Raises
    ------
    PrivacyError
        If the number of readings is not above 0.

    Examples
    --------
    >>> from veilsum.algorithms import Learn
    >>> from veilsum.privacy import SignalDP, guarantee_of
    >>> hourly = guarantee_of(SignalDP(epsilon=0.1), Learn())
    >>> [round(cost.epsilon, 1) for cost in period_costs(hourly, per_day=24)]
    [2.4, 74.4, 878.4]
    """
    if guarantee.status is Status.NONE:
        return []
    if per_day is not None:
        _validate.positive(PrivacyError, per_day=per_day)
    return [
        _cost(guarantee, k, span, days, per_day, last, budget)
        for k, (span, days) in enumerate(SPANS)
    ]


def _cost(
    guarantee: Guarantee,
    k: int,
    span: str,
    days: int,
    per_day: float | None,
    last: int | None,
    budget: BudgetTable | None,
) -> PeriodCost:
    known = [math.ceil(per_day * days - 1e-9)] if per_day is not None else []
    known += [last] if last is not None else []
    readings = min(known, default=None)
    epsilon, delta = (math.inf, 0.0) if readings is None else _together(guarantee, readings)
    if budget is None:
        return PeriodCost(span, readings, epsilon, delta)
    limit = repeated(
        PrivacyEvent.of(budget.epsilon, budget.delta), times_spent(budget, k, days, readings)
    )
    if not limit.epsilon < epsilon:
        return PeriodCost(span, readings, epsilon, delta)
    allowed = math.floor(limit.epsilon / guarantee.epsilon + 1e-9)
    return PeriodCost(span, allowed, limit.epsilon, limit.delta, by_budget=True)


def _together(guarantee: Guarantee, readings: int) -> tuple[float, float]:
    """(epsilon, delta) of so many readings of a stream, or of so many runs."""
    if guarantee.unit.online and guarantee.runs:
        total = guarantee.for_stream(readings)
        return (math.inf, 1.0) if total.status is Status.NONE else (total.epsilon, total.delta)
    cost = repeated(guarantee.cost, readings)
    return cost.epsilon, cost.delta
