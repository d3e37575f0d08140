"""What an agent may still spend: one function decides, at a cost that does not grow.

A charge is compared with what counts against the same unit of privacy:

    stream           all releases so far: one exact sum;
    period, rolling  those less than a period ago: a queue that old ones leave, and its sum;
    period, fixed    those of the same day, week or month: a sum that begins anew;
    window           the w - 1 readings before: runs of equal cost that old ones leave, and their sum;
    event            nothing: every reading is charged once.

Each release enters and leaves a queue once. Sums are exact integers, so nothing drifts. A batch of n
readings costs n times as much where all of them are protected together (`group_cost`), and as much
as one reading where each is protected by itself.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from murmura.agents.ledger.periods import FIXED, ROLLING, Period
from murmura.agents.ledger.records import (
    EVENT,
    STREAM,
    WINDOW,
    CostSum,
    EpsilonDelta,
    LedgerEntry,
    LedgerIdentity,
    group_cost,
)
from murmura.errors import LedgerError
from murmura.privacy.accounting import (
    Accountant,
    AccountTotals,
    Budget,
    BudgetExceeded,
    Composition,
    ReleaseEvent,
)

SIGNAL = "signal"
NOTHING = CostSum()


class Charge(NamedTuple):
    """A release as the budget sees it: numbers of its readings, time, and cost of each reading."""

    first: int
    last: int
    readings: int
    time: float
    epsilon: float
    delta: float

    @classmethod
    def of(cls, entry: LedgerEntry) -> Charge:
        """That of a stored release."""
        return cls(entry.first, entry.last, entry.readings, entry.time, entry.epsilon, entry.delta)

    @property
    def group(self) -> CostSum:
        """What it costs all readings in it together."""
        return group_cost(self.epsilon, self.delta, self.readings)


Fits = Callable[[CostSum], bool]
Nearby = Callable[[int, int], Iterable[Charge]]  # stored releases that cover a reading in a range


class BudgetStatus(NamedTuple):
    """What is left of a budget now.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    spent, remaining : EpsilonDelta
        What counts against the next reading, and what it may cost.
    unit : str
        "stream", "window" or "event".
    period : str
        Such as "rolling day"; empty without one.
    refills_at : float or None
        When more is available, in seconds since 1970; None if time changes nothing.
    """

    epsilon: float
    delta: float
    spent: EpsilonDelta
    remaining: EpsilonDelta
    unit: str
    period: str
    refills_at: float | None


class Spending(NamedTuple):
    """What was spent of a budget.

    Attributes
    ----------
    spent, remaining : EpsilonDelta
        In total or in this period; in the most expensive window, or on the dearest reading.
    total : EpsilonDelta
        What all releases cost together.
    """

    spent: EpsilonDelta
    remaining: EpsilonDelta
    total: EpsilonDelta


class Meter(Protocol):
    """What counts together in one unit of privacy."""

    def before(self, asked: Charge) -> CostSum:
        """What counts against a release before it is made."""

    def cost(self, asked: Charge) -> CostSum:
        """What the release itself adds."""

    def add(self, made: Charge) -> None:
        """Count a release that was committed."""

    def refills_at(self, fits: Fits) -> float | None:
        """When what then counts fits; None where time alone does not help."""


class StreamMeter:
    """All releases count, for ever."""

    def __init__(self) -> None:
        """Nothing is spent."""
        self._sum = NOTHING

    def start_from(self, total: CostSum) -> None:
        """Count so much as spent before."""
        self._sum = total

    def before(self, asked: Charge) -> CostSum:  # noqa: ARG002 - all count
        """The sum of all."""
        return self._sum

    def cost(self, asked: Charge) -> CostSum:
        """All readings in it are protected together."""
        return asked.group

    def add(self, made: Charge) -> None:
        """Add to the sum."""
        self._sum = self._sum.plus(made.group)

    def refills_at(self, fits: Fits) -> float | None:  # noqa: ARG002
        """Never."""
        return None


class EventMeter:
    """Each reading counts by itself, and is released once."""

    def before(self, asked: Charge) -> CostSum:  # noqa: ARG002
        """Nothing."""
        return NOTHING

    def cost(self, asked: Charge) -> CostSum:
        """Of one reading, in a batch or not."""
        return group_cost(asked.epsilon, asked.delta)

    def add(self, made: Charge) -> None:
        """Nothing to count."""

    def refills_at(self, fits: Fits) -> float | None:  # noqa: ARG002
        """Never."""
        return None


class RollingMeter(StreamMeter):
    """Releases less than a period ago count."""

    def __init__(self, period: Period) -> None:
        """Nothing is spent."""
        super().__init__()
        self._seconds = period.seconds
        self._queue: deque[tuple[float, CostSum]] = deque()

    def before(self, asked: Charge) -> CostSum:
        """The sum of those that have not expired."""
        while self._queue and self._queue[0][0] + self._seconds <= asked.time:
            self._sum = self._sum.minus(self._queue.popleft()[1])
        return self._sum

    def add(self, made: Charge) -> None:
        """Append to the queue."""
        self.before(made)
        super().add(made)
        self._queue.append((made.time, made.group))

    def refills_at(self, fits: Fits) -> float | None:
        """When enough of the oldest releases have expired."""
        left = self._sum
        for time, cost in self._queue:
            left = left.minus(cost)
            if fits(left):
                return time + self._seconds
        return None


class FixedMeter(StreamMeter):
    """Releases of the same period of the calendar count."""

    def __init__(self, period: Period) -> None:
        """Nothing is spent."""
        super().__init__()
        self._period, self._end = period, -math.inf

    def before(self, asked: Charge) -> CostSum:
        """The sum of this period."""
        if asked.time >= self._end:
            self._end, self._sum = self._period.bounds(asked.time)[1], NOTHING
        return self._sum

    def add(self, made: Charge) -> None:
        """Add to the sum of its period."""
        self.before(made)
        super().add(made)

    def refills_at(self, fits: Fits) -> float | None:
        """At the end of the period, if anything is spent."""
        return self._end if self._sum != NOTHING and fits(NOTHING) else None


class WindowMeter:
    """The readings of any w consecutive numbers count.

    With numbers in order only windows that end in a new release can become larger. Runs of equal
    cost are kept as (first number, last number, cost of each). A release out of order (one that was
    passed over and comes after all) is compared with what is stored around it.
    """

    def __init__(self, width: int, nearby: Nearby) -> None:
        """Nothing is spent."""
        self._width, self._nearby = width, nearby
        self._runs: deque[tuple[int, int, CostSum]] = deque()
        self._sum, self._top = NOTHING, 0

    def before(self, asked: Charge) -> CostSum:
        """What the most expensive window that contains it costs without it."""
        after, cost = self._largest(asked), self.cost(asked)
        return CostSum(
            max(0, after.epsilon - cost.epsilon), max(0, after.delta - cost.delta), after.infinite
        )

    def cost(self, asked: Charge) -> CostSum:
        """Of as many of its readings as a window holds."""
        return self._each(asked).times(min(asked.last - asked.first + 1, self._width))

    def add(self, made: Charge) -> None:
        """Append a run, or insert it where it belongs."""
        if made.first > self._top:
            self._move(made.first - 1)
            self._append(made)
            self._move(made.last)
        elif made.last > self._top - self._width:
            self._runs.append((made.first, made.last, self._each(made)))
            self._runs = deque(sorted(self._runs, key=lambda run: run[0]))
            self._sum = self._sum.plus(self._each(made).times(made.last - made.first + 1))
            self._move(self._top)

    def refills_at(self, fits: Fits) -> float | None:  # noqa: ARG002
        """Readings refill it, not time."""
        return None

    def present(self) -> CostSum:
        """What counts against the reading after the last."""
        left = NOTHING
        for first, last, each in self._runs:
            covered = last - max(first, self._top - self._width + 2) + 1
            left = left.plus(each.times(max(0, covered)))
        return left

    def _each(self, charge: Charge) -> CostSum:
        """Per reading: the most per reading that any part of the batch within a window costs."""
        most = min(charge.last - charge.first + 1, self._width)
        group = group_cost(charge.epsilon, charge.delta, most)
        return CostSum(group.epsilon // most, -(-group.delta // most), group.infinite)

    def _append(self, made: Charge) -> None:
        each, first = self._each(made), made.first
        if self._runs and self._runs[-1][1] == first - 1 and self._runs[-1][2] == each:
            first = self._runs.pop()[0]
        self._runs.append((first, made.last, each))
        self._sum = self._sum.plus(each.times(made.last - made.first + 1))

    def _move(self, top: int) -> None:
        """Let the readings leave that share no window with number `top`."""
        self._top, least = top, top - self._width + 1
        while self._runs and self._runs[0][0] < least:
            first, last, each = self._runs.popleft()
            gone = min(last, least - 1) - first + 1
            self._sum = self._sum.minus(each.times(gone))
            if last >= least:
                self._runs.appendleft((least, last, each))

    def _largest(self, asked: Charge) -> CostSum:
        """The most that a window which contains a reading of `asked` costs together with it."""
        own = asked.first, asked.last, self._each(asked)
        if asked.first <= self._top:
            low, high = asked.first - self._width + 1, asked.last + self._width - 1
            others = (c for c in self._nearby(low, high) if c.last != asked.last)
            around = [(c.first, c.last, self._each(c)) for c in others]
            return _largest_window([*around, own], self._width, low, asked.last)
        if asked.first == asked.last:
            self._move(max(self._top, asked.last - 1))
            leaving = self._sum_of(asked.last - self._width)
            return self._sum.minus(leaving).plus(own[2])
        low = asked.first - self._width + 1
        return _largest_window([*self._runs, own], self._width, low, asked.last)

    def _sum_of(self, number: int) -> CostSum:
        if self._runs and self._runs[0][0] <= number <= self._runs[0][1]:
            return self._runs[0][2]
        return NOTHING


def _largest_window(
    runs: list[tuple[int, int, CostSum]], width: int, low: int, high: int
) -> CostSum:
    """The largest sums of `width` consecutive numbers that start in [low, high].

    A sum is piecewise linear in the start, with corners where a run enters or leaves the window.
    """
    corners = {low, high}
    for first, last, _ in runs:
        corners |= {first, last + 1, last - width + 1, first - width}
    best = NOTHING
    for start in corners:
        if low <= start <= high:
            total = NOTHING
            for first, last, each in runs:
                covered = min(last, start + width - 1) - max(first, start) + 1
                total = total.plus(each.times(max(0, covered)))
            best = _larger(best, total)
    return best


def _larger(one: CostSum, other: CostSum) -> CostSum:
    """The larger of each amount."""
    return CostSum(
        max(one.epsilon, other.epsilon), max(one.delta, other.delta), one.infinite or other.infinite
    )


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
        self._meter = _meter(identity, nearby)
        self.total, self._largest = NOTHING, NOTHING

    @classmethod
    def of(cls, identity: LedgerIdentity, entries: Iterable[LedgerEntry]) -> BudgetTracker:
        """The tracker after these releases."""
        charges = [Charge.of(entry) for entry in entries]
        tracker = cls(
            identity,
            lambda low, high: [c for c in charges if c.last >= low and c.first <= high],
        )
        since = tracker.replays_from(charges[-1].time if charges else 0.0)
        tracker.restore(
            Counter(charge[2:3] + charge[4:] for charge in charges),
            (charge for charge in charges if charge.time >= since),
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
        if _covers(budget, before.plus(cost)):
            return
        final = self._identity.unit in (STREAM, EVENT) and self._identity.period is None
        final = final or not _covers(budget, cost)
        kind = "approximate" if asked.delta else "pure"
        together = cost.rounded
        raise BudgetExceeded(
            ReleaseEvent(agent, asked.last, SIGNAL, together.epsilon, together.delta, kind),
            _composition(before),
            budget,
            self._identity.per_what,
            final,
            None
            if final
            else self._meter.refills_at(lambda left: _covers(budget, left.plus(cost))),
        )

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

    def restore(
        self, kinds: Mapping[tuple[int, float, float], int], recent: Iterable[Charge]
    ) -> None:
        """Count the releases that a ledger contains: how many of each (readings, epsilon, delta)."""
        for (readings, epsilon, delta), count in kinds.items():
            self.total = self.total.plus(group_cost(epsilon, delta, readings).times(count))
            if self._identity.unit != WINDOW:
                self._largest = _larger(self._largest, group_cost(epsilon, delta))
        if type(self._meter) is StreamMeter:
            self._meter.start_from(self.total)
        for charge in recent:
            self._replay(charge)

    def _replay(self, made: Charge) -> None:
        after = self._meter.before(made).plus(self._meter.cost(made))
        self._meter.add(made)
        self._largest = _larger(self._largest, after)

    def spent(self, now: float) -> EpsilonDelta:
        """Spent in total, in this period, in the most expensive window or on a reading."""
        if self._identity.budget is None:
            return self.total.rounded
        if self._identity.unit == STREAM:
            return self._meter.before(_at(now)).rounded
        return self._largest.rounded

    def spending(self, now: float) -> Spending:
        """What was spent, what remains, and the total of all releases."""
        spent = self.spent(now)
        return Spending(spent, self._less(spent), self.total.rounded)

    def status(self, now: float) -> BudgetStatus:
        """What is left for the next reading, and when there is more."""
        identity, meter = self._identity, self._meter
        if isinstance(meter, WindowMeter):
            spent = meter.present().rounded
        elif identity.unit == EVENT and identity.budget is not None:
            spent = EpsilonDelta(0.0, 0.0)
        else:
            spent = self.spent(now)
        period = "" if identity.period is None else str(identity.period)
        refills_at = None if identity.budget is None else meter.refills_at(lambda _: True)
        amounts = identity.epsilon, identity.delta, spent, self._less(spent)
        return BudgetStatus(*amounts, identity.unit, period, refills_at)

    def _less(self, spent: EpsilonDelta) -> EpsilonDelta:
        budget = self._identity.budget
        if budget is None:
            return EpsilonDelta(0.0, 0.0)
        left = (budget.epsilon - spent.epsilon, budget.delta - spent.delta)
        return EpsilonDelta(max(0.0, left[0]), max(0.0, left[1]))


def _meter(identity: LedgerIdentity, nearby: Nearby) -> Meter:
    period = identity.period
    if period is not None:
        return {ROLLING: RollingMeter, FIXED: FixedMeter}[period.refill](period)
    if identity.unit == WINDOW:
        return WindowMeter(identity.window, nearby)
    return EventMeter() if identity.unit == EVENT else StreamMeter()


def _at(now: float) -> Charge:
    return Charge(1, 1, 1, now, 0.0, 0.0)


def _composition(cost: CostSum) -> Composition:
    return Composition(*cost.rounded, "basic", 0)


def _covers(budget: Budget, cost: CostSum) -> bool:
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
    for charge in charges:
        one = group_cost(charge.epsilon, charge.delta)
        event = _larger(event, one)
        stream = stream.plus(charge.group)
        within = _larger(within, meter.before(charge).plus(meter.cost(charge)))
        meter.add(charge)
    count = len(charges)
    made = [Composition(*cost.rounded, "basic", count) for cost in (event, within, stream)]
    return AccountTotals(made[0], made[1] if window else None, made[2])
