"""What an agent may still spend: one function, `BudgetTracker.admit`, decides.

A charge is compared with what counts against the same unit of privacy, which a meter keeps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from veilsum.agents.ledger.meters import (
    NOTHING,
    Charge,
    EventMeter,
    Nearby,
    StreamMeter,
    WindowMeter,
    larger,
    meter_of,
)
from veilsum.agents.ledger.periods import ROLLING
from veilsum.agents.ledger.records import (
    EVENT,
    STREAM,
    WINDOW,
    CostSum,
    EpsilonDelta,
    LedgerEntry,
    LedgerIdentity,
    group_cost,
)
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import (
    Accountant,
    AccountTotals,
    Budget,
    BudgetExceeded,
    Composition,
    ReleaseEvent,
)

SIGNAL = "signal"


class BudgetStatus(NamedTuple):
    """A budget at one moment: whoever shows what was spent or is left asks for this.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    spent : EpsilonDelta
        The most in one unit of the budget: in total or in this period, in the most expensive
        window, on the dearest reading.
    spent_in_all : EpsilonDelta
        What all releases cost together, whatever the budget is for.
    remaining : EpsilonDelta
        What the next reading may cost.
    unit : str
        "stream", "window" or "event".
    period : str
        Such as "rolling day"; empty without one.
    refills_at : float or None
        When more is available, in seconds since 1970; None if time changes nothing.
    reserved : EpsilonDelta
        What an open query may still cost; it is not in `spent`, and not in `remaining`.
    """

    epsilon: float
    delta: float
    spent: EpsilonDelta
    spent_in_all: EpsilonDelta
    remaining: EpsilonDelta
    unit: str
    period: str
    refills_at: float | None
    reserved: EpsilonDelta = EpsilonDelta(0.0, 0.0)

    @property
    def spent_on(self) -> str:
        """What `spent` is for, as in "spent on ..."."""
        if self.unit == EVENT:
            return "the dearest reading"
        if self.unit == WINDOW:
            return "the dearest window"
        return "all readings of this period" if self.period else "all readings"


class BudgetTracker:
    """The budget of one ledger and what is spent of it.

    Parameters
    ----------
    identity : LedgerIdentity
        The budget and its unit; an invalid unit or window raises.
    nearby : callable
        Finds stored releases by the numbers of their readings, for those out of order.
    """

    def __init__(self, identity: LedgerIdentity, nearby: Nearby = lambda *_: ()) -> None:
        """Start with nothing spent."""
        self._identity = identity
        if identity.budget is not None:  # what an accountant refuses is refused
            Accountant(identity.budget, unit=identity.unit, window=identity.window or None)
        self._meter = meter_of(identity, nearby)
        self.total, self._largest = NOTHING, NOTHING
        self._reserved: Charge | None = None

    @classmethod
    def of(
        cls, identity: LedgerIdentity, entries: Iterable[LedgerEntry], nearby: Nearby | None = None
    ) -> BudgetTracker:
        """The tracker after these releases; `nearby` finds them again, and later ones too."""
        charges = [Charge.of(entry) for entry in entries]
        among = lambda low, high: [c for c in charges if c.last >= low and c.first <= high]  # noqa: E731
        tracker = cls(identity, nearby or among)
        since = tracker.replays_from(charges[-1].time if charges else 0.0)
        again = tracker.counts_attempts
        tracker.restore(
            Counter((charge.readings, charge.epsilon, charge.delta) for charge in charges),
            (charge for charge in charges if charge.time >= since or (again and charge.attempt)),
        )
        return tracker

    def admit(self, asked: Charge, guaranteed: bool = True) -> None:
        """Return if the budget covers a release; otherwise raise `BudgetExceeded`.

        `guaranteed` is False for a release without noise, which only a ledger without a budget takes.
        """
        budget, agent = self._identity.budget, self._identity.agent
        if guaranteed != (budget is not None):
            raise LedgerError(
                f"the ledger of {agent} has {'no' if budget is None else 'a'} budget and "
                f"the release {'a' if guaranteed else 'no'} cost; nothing was released; "
                "a ledger without a budget takes only releases that guarantee nothing"
            )
        if budget is None:
            return
        before, cost = self._meter.before(asked), self._meter.cost(asked)
        if covers(budget, before.plus(cost)):
            return
        final = self._identity.unit in (STREAM, EVENT) and self._identity.period is None
        never = not covers(budget, cost)
        final = final or never
        kind = "approximate" if asked.delta else "pure"
        together = cost.rounded
        raise BudgetExceeded(
            ReleaseEvent(agent, asked.last, SIGNAL, together.epsilon, together.delta, kind),
            _composition(before),
            budget,
            self._identity.per_what,
            final,
            None if final else self._meter.refills_at(lambda left: covers(budget, left.plus(cost))),
            _remedy(asked, never, self._identity.unit == EVENT) if final else "",
        )

    def reserve(self, kept: Charge | None) -> None:
        """Set apart what an open query may still cost, or nothing."""
        self._reserved = kept

    def add(self, made: Charge) -> None:
        """Count a release that was admitted and committed."""
        self._replay(made)
        self.total = self.total.plus(made.group)

    def replays_from(self, last: float) -> float:
        """The time from which releases are to be counted one by one; `last` is the latest."""
        period = self._identity.period
        if period is not None:
            return last - period.seconds if period.refill == ROLLING else period.bounds(last)[0]
        return -math.inf if self._identity.unit == WINDOW else math.inf

    @property
    def counts_attempts(self) -> bool:
        """Whether attempts with the same readings are to be counted one by one, however old."""
        return self._identity.unit == EVENT

    def restore(
        self, kinds: Mapping[tuple[int, float, float], int], recent: Iterable[Charge]
    ) -> None:
        """Count the releases that a ledger contains: how many of each (readings, epsilon, delta)."""
        for (readings, epsilon, delta), count in kinds.items():
            self.total = self.total.plus(group_cost(epsilon, delta, readings).times(count))
            if self._identity.unit != WINDOW:
                self._largest = larger(self._largest, group_cost(epsilon, delta))
        if type(self._meter) is StreamMeter:
            self._meter.start_from(self.total)
        for charge in recent:
            self._replay(charge)

    def _replay(self, made: Charge) -> None:
        after = self._meter.before(made).plus(self._meter.cost(made))
        self._meter.add(made)
        self._largest = larger(self._largest, after)

    def status(self, now: float, last: int = 0) -> BudgetStatus:
        """What was spent, what is left for the next reading, and when there is more.

        `last` is the number of the last reading that was passed over or released.
        """
        identity, meter = self._identity, self._meter
        kept = self._reserved if identity.budget is not None else None
        reserved = NOTHING if kept is None else meter.cost(kept)
        period = "" if identity.period is None else str(identity.period)
        refills_at = None if identity.budget is None else meter.refills_at(lambda _: True)
        amounts = self._spent(now).rounded, self.total.rounded, self._less(self._taken(now, last))
        when = identity.unit, period, refills_at
        return BudgetStatus(identity.epsilon, identity.delta, *amounts, *when, reserved.rounded)

    def _spent(self, now: float) -> CostSum:
        """In total, in this period, in the most expensive window or on the dearest reading."""
        if self._identity.budget is None:
            return self.total
        if self._identity.unit == STREAM:
            return self._meter.before(_at(now))
        return self._largest

    def _taken(self, now: float, last: int) -> EpsilonDelta:
        """What the next reading cannot have, because it is spent or reserved."""
        meter, kept = self._meter, self._reserved
        if isinstance(meter, EventMeter):
            return NOTHING.rounded
        if isinstance(meter, WindowMeter):
            return meter.present(last, kept).rounded
        before = meter.before(_at(now))
        return (before if kept is None else before.plus(meter.cost(kept))).rounded

    def _less(self, spent: EpsilonDelta) -> EpsilonDelta:
        budget = self._identity.budget
        if budget is None:
            return EpsilonDelta(0.0, 0.0)
        left = (budget.epsilon - spent.epsilon, budget.delta - spent.delta)
        return EpsilonDelta(max(0.0, left[0]), max(0.0, left[1]))


def _at(now: float) -> Charge:
    return Charge(1, 1, 1, now, 0.0, 0.0)


def _remedy(asked: Charge, never: bool, of_each: bool) -> str:
    """What to do about a release that no later budget covers either: waiting does not help.

    In a budget of each reading a batch costs as much as one.
    """
    larger_budget = (
        "write a larger [budget], and record it with `veilsum ledger amend agent.toml --raise`"
    )
    if not never:
        return f"the budget is not refilled; {larger_budget}"
    if asked.times > 1:
        return (
            f"a query begins only with enough for all of its {asked.times} attempts, and it is never "
            f"enough; {larger_budget}, or agree on a smaller epsilon or on fewer attempts"
        )
    if asked.readings == 1 or of_each:
        return f"it is never enough for one reading; {larger_budget}, or agree on a smaller epsilon"
    return (
        f"it is never enough for a batch of {asked.readings} readings, which costs "
        f'{asked.readings} times the epsilon of one; {larger_budget}, with unit = "event" if it is '
        f"to be for each reading, or agree on a smaller `longest` of batches"
    )


def _composition(cost: CostSum) -> Composition:
    return Composition(*cost.rounded, "basic", 0)


def covers(budget: Budget, cost: CostSum) -> bool:
    """Whether a budget is enough for a cost."""
    return budget.covers(_composition(cost))


def totals(identity: LedgerIdentity, entries: Iterable[LedgerEntry]) -> AccountTotals:
    """What was spent per reading, per window and in total, each reading of a batch by itself."""
    window = identity.window or None
    event, stream, within = NOTHING, NOTHING, NOTHING
    charges = [Charge.of(entry) for entry in entries]
    meter = WindowMeter(
        identity.window or 1,
        lambda low, high: [c for c in charges if c.last >= low and c.first <= high],
    )
    same = EventMeter()
    for charge in charges:
        alike = same.before(charge).plus(same.cost(charge))
        event = larger(event, alike)
        stream = stream.plus(charge.group)
        within = larger(within, meter.before(charge).plus(meter.cost(charge)))
        meter.add(charge)
        same.add(charge)
    count = len(charges)
    made = [Composition(*cost.rounded, "basic", count) for cost in (event, within, stream)]
    return AccountTotals(made[0], made[1] if window else None, made[2])
