"""What a day, a month and a year cost, against composition and against a ledger's own rules."""

from __future__ import annotations

import math
from typing import Any

import pytest

from veilsum.agents.config_tables import BudgetTable
from veilsum.algorithms import Learn
from veilsum.errors import PrivacyError
from veilsum.privacy import Batches, SignalDP, guarantee_of
from veilsum.reports import period_costs


def costs(per_day: float | None, last: int | None = None, **budget: object) -> list[float]:
    one = guarantee_of(SignalDP(epsilon=0.25), Learn())
    limit = BudgetTable.model_validate(budget) if budget else None
    return [cost.epsilon for cost in period_costs(one, per_day, last, limit)]


def test_readings_add_up_as_the_guarantee_says() -> None:
    for batches in (None, Batches(growth=2.0, longest=24)):
        one = guarantee_of(SignalDP(epsilon=0.25, batches=batches), Learn())
        for cost in period_costs(one, per_day=24):
            assert cost.readings is not None
            assert cost.epsilon == pytest.approx(one.for_stream(cost.readings).epsilon)


def test_a_run_that_ends_and_one_that_does_not() -> None:
    assert costs(4) == [1.0, 31.0, 366.0]
    assert costs(4, last=10) == [1.0, 2.5, 2.5]
    assert costs(None, last=10) == [2.5, 2.5, 2.5]
    assert costs(None) == [math.inf] * 3
    assert costs(0.1) == [0.25, 1.0, 9.25], "rounded up: a reading every ten days"


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"epsilon": 0.5, "per": "day"}, [0.5, 15.5, 183.0]),
        ({"epsilon": 0.5, "per": "day", "refill": "fixed"}, [0.5, 15.5, 183.0]),
        ({"epsilon": 0.5, "per": "week"}, [0.5, 2.5, 26.5]),
        ({"epsilon": 0.5, "per": "week", "refill": "fixed"}, [0.5, 3.0, 27.0]),
        ({"epsilon": 0.5, "per": "month"}, [0.5, 0.5, 6.0]),
        ({"epsilon": 0.5, "per": "month", "refill": "fixed"}, [0.5, 0.5, 6.0]),
        ({"epsilon": 0.5, "per": "12h"}, [1.0, 31.0, 366.0]),
        ({"epsilon": 0.5, "per": "12h", "refill": "fixed"}, [1.0, 31.0, 366.0]),
        ({"epsilon": 0.5}, [0.5, 0.5, 0.5]),
        ({"epsilon": 0.5, "unit": "event"}, [1.0, 31.0, 366.0]),
        ({"epsilon": 0.5, "unit": "window", "window": 8}, [0.5, 8.0, 91.5]),
        ({"epsilon": 500.0}, [1.0, 31.0, 366.0]),
    ],
)
def test_budgets_limit_them(budget: dict[str, Any], expected: list[float]) -> None:
    assert costs(4, **budget) == expected


def test_a_year_touches_as_many_weeks_and_months_as_stated() -> None:
    """Every month and year of 28 years, the cycle of the calendar, against the table."""
    from datetime import date, timedelta

    from veilsum.agents.ledger.limits import _TOUCHED

    first, days = date(2001, 1, 1), 28 * 365 + 7
    calendar = [first + timedelta(k) for k in range(days)]
    months: dict[tuple[int, int], set[tuple[int, int]]] = {}
    years: dict[int, set[tuple[int, int]]] = {}
    for day in calendar:
        week = day.isocalendar()[:2]
        months.setdefault((day.year, day.month), set()).add(week)
        years.setdefault(day.year, set()).add(week)
    assert max(map(len, months.values())) == _TOUCHED["week"][1]
    assert max(map(len, years.values())) == _TOUCHED["week"][2]


def test_a_number_of_readings_is_above_zero() -> None:
    with pytest.raises(PrivacyError, match="per_day"):
        costs(0)
