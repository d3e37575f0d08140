"""What counts together in one unit of privacy, at a cost that does not grow.

    stream           all releases so far: one exact sum;
    period, rolling  those less than a period ago: a queue that old ones leave, and its sum;
    period, fixed    those of the same day, week or month: a sum that begins anew;
    window           the w - 1 readings before: runs of equal cost that old ones leave, and their sum;
    event            what the same readings cost before: only a masked sum charges them again,
                     in its next attempt.

Each release enters and leaves a queue once. Sums are exact integers, so nothing drifts. A batch of n
readings costs n times as much where all of them are protected together (`group_cost`), and as much
as one reading where each is protected by itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from veilsum.agents.ledger.periods import FIXED, ROLLING, Period
from veilsum.agents.ledger.records import (
    EVENT,
    WINDOW,
    CostSum,
    LedgerEntry,
    LedgerIdentity,
    group_cost,
)

NOTHING = CostSum()


class Charge(NamedTuple):
    """A release as the budget sees it: numbers of its readings, time, and cost of each reading.

    `attempt` is that of a masked value, or 0. With `times` above 1 it stands for so many attempts.
    """

    first: int
    last: int
    readings: int
    time: float
    epsilon: float
    delta: float
    attempt: int = 0
    times: int = 1

    @classmethod
    def of(cls, entry: LedgerEntry) -> Charge:
        """That of a stored release."""
        place = entry.first, entry.last, entry.readings, entry.time
        return cls(*place, entry.epsilon, entry.delta, entry.attempt)

    @property
    def group(self) -> CostSum:
        """What it costs all readings in it together."""
        return group_cost(self.epsilon, self.delta, self.readings).times(self.times)

    @property
    def one(self) -> CostSum:
        """What it costs each reading in it."""
        return group_cost(self.epsilon, self.delta).times(self.times)


Fits = Callable[[CostSum], bool]
Nearby = Callable[[int, int], Iterable[Charge]]  # stored releases that cover a reading in a range


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
    """Each reading counts by itself; the attempts of a query come one after the other."""

    def __init__(self) -> None:
        """Nothing is spent."""
        self._last, self._sum = 0, NOTHING

    def before(self, asked: Charge) -> CostSum:
        """What earlier attempts with the same readings cost."""
        return self._sum if asked.attempt and asked.last == self._last else NOTHING

    def cost(self, asked: Charge) -> CostSum:
        """Of one reading, in a batch or not."""
        return asked.one

    def add(self, made: Charge) -> None:
        """Count it for its readings."""
        self._last, self._sum = made.last, self.before(made).plus(made.one)

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
        """Append a run, add to the last one, or insert it where it belongs."""
        if made.attempt and made.last == self._top and self._runs:
            self._add_to_last(made)
        elif made.first > self._top:
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

    def present(self, last: int = 0, reserved: Charge | None = None) -> CostSum:
        """What counts against the reading after the last, a reservation included."""
        runs, top = list(self._runs), max(last, self._top)
        if reserved is not None:
            runs.append((reserved.first, reserved.last, self._each(reserved)))
            top = max(top, reserved.last)
        left = NOTHING
        for first, last, each in runs:
            covered = last - max(first, top - self._width + 2) + 1
            left = left.plus(each.times(max(0, covered)))
        return left

    def _add_to_last(self, made: Charge) -> None:
        """A further attempt of the query that came last."""
        first, last, each = self._runs.pop()
        again = max(first, made.first)  # what is left of it in the window
        if first < again:
            self._runs.append((first, again - 1, each))
        more = self._each(made)
        self._runs.append((again, last, each.plus(more)))
        self._sum = self._sum.plus(more.times(last - again + 1))

    def _each(self, charge: Charge) -> CostSum:
        """Per reading: the most per reading that any part of the batch within a window costs."""
        most = min(charge.last - charge.first + 1, self._width)
        group = group_cost(charge.epsilon, charge.delta, most).times(charge.times)
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
            itself = asked.last, asked.attempt
            others = (c for c in self._nearby(low, high) if (c.last, c.attempt) != itself)
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
            best = larger(best, total)
    return best


def larger(one: CostSum, other: CostSum) -> CostSum:
    """The larger of each amount."""
    return CostSum(
        max(one.epsilon, other.epsilon), max(one.delta, other.delta), one.infinite or other.infinite
    )


def meter_of(identity: LedgerIdentity, nearby: Nearby) -> Meter:
    """The meter for the unit and period of a budget."""
    period = identity.period
    if period is not None:
        return {ROLLING: RollingMeter, FIXED: FixedMeter}[period.refill](period)
    if identity.unit == WINDOW:
        return WindowMeter(identity.window, nearby)
    return EventMeter() if identity.unit == EVENT else StreamMeter()
