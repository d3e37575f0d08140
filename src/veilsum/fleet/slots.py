"""Which slots of a stream a site releases next, and what their readings add up to.

    covered | empty ... empty | first data ... last data, as far as budget and most_records go | rest

A site that was away releases all slots that are due at once: one draw of noise, one post. The newest slot
may be empty because its readings are late: it waits until the next one is over. Slots that the budget does
not cover, and never will, are passed over as soon as a later one is covered: until then the stream stands
still and says when it goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from veilsum.errors import FleetError
from veilsum.fleet.budget_units import Spending
from veilsum.fleet.encoding import EncodedSite
from veilsum.fleet.ledger import BudgetSpentError
from veilsum.fleet.protocol import Work
from veilsum.fleet.schedule import Timetable

LONGEST = 1000  # slots that are looked through, and released after a site was away, together


@dataclass(frozen=True)
class SlotRelease:
    """Slots and what they add up to; secret but for the slots and what they cost."""

    first: int
    last: int
    steps: list[int]
    records: int
    spending: Spending

    def __repr__(self) -> str:
        """Without a number of readings."""
        return f"SlotRelease({self.first}, {self.last})"


def next_release(work: Work, times: Timetable, covered: int) -> SlotRelease | None:
    """What a site releases next; None if nothing is due.

    A BudgetSpentError says that something is, and that the budget covers none of it.
    """
    assert work.data is not None
    first = times.slot_at(work.since)
    refused: BudgetSpentError | None = None
    for batch in batches(times, first, max(covered, first - 1), work.now):
        bounds = times.bounds(batch[0])[0], times.bounds(batch[-1])[1]
        if work.data.present(*bounds, work.now):
            try:
                return _Filled.of(work, times, batch).release(max(covered, first - 1))
            except BudgetSpentError as error:
                refused = error
        elif batch[-1] >= times.due(work.now):
            break
    if refused is not None:
        raise refused
    return None


@dataclass(frozen=True)
class _Filled:
    """Slots of a batch that have readings, and where a release of them may end."""

    work: Work
    times: Timetable
    batch: range
    slots: Sequence[int]
    sites: Sequence[EncodedSite]
    end: int

    @classmethod
    def of(cls, work: Work, times: Timetable, batch: range) -> _Filled:
        assert work.data is not None
        slots, sites, end = [], [], batch[0] - 1
        for slot in batch:
            found = work.data.readings(work.posted.question, *times.bounds(slot), work.now)
            if found is not None:
                slots.append(slot)
                sites.append(found)
            elif slot >= times.due(work.now):
                break
            end = slot
        return cls(work, times, batch, slots, sites, end)

    def release(self, covered: int) -> SlotRelease | None:
        """The whole batch if batches grow; else from the first slot that can be paid, as many as can be."""
        if not self.slots:
            return None
        if self.times.growth > 1.0:
            return self._whole(covered)
        place, refused = 0, None
        while place < len(self.slots):
            try:
                self._check(place, place + 1)
            except BudgetSpentError as error:
                refused, place = error, self._later(place, error)
            else:
                return self._made(place, self._most(place), covered if refused is None else None)
        assert refused is not None
        raise refused

    def _whole(self, covered: int) -> SlotRelease | None:
        if self.end < self.batch[-1]:
            return None
        most = self.work.posted.question.most_records
        if sum(site.units for site in self.sites) > most:
            raise FleetError(
                f"{len(self.batch):,} slots have more than the {most:,} records that this question takes "
                "from one release: ask with a larger most_records, or with longest in the schedule"
            )
        self._check(0, len(self.slots))
        return self._made(0, len(self.slots), covered)

    def _later(self, place: int, error: BudgetSpentError) -> int:
        """The next slot that may be paid: none that begins before the budget refills."""
        if error.refills_at is None:
            return place + 1
        after = bisect_left(
            self.slots, error.refills_at, key=lambda slot: self.times.bounds(slot)[0]
        )
        return max(place + 1, after)

    def _most(self, place: int) -> int:
        """The end of the longest run of slots that can be paid and is no more than a release may have."""
        most = self.work.posted.question.most_records
        units = list(accumulate(site.units for site in self.sites[place:]))
        longest = max(1, bisect_left(units, most + 1))
        if self._covered(place, place + longest):
            return place + longest
        return place + bisect_left(
            range(1, longest + 1), True, key=lambda count: not self._covered(place, place + count)
        )

    def _covered(self, start: int, end: int) -> bool:
        try:
            self._check(start, end)
        except BudgetSpentError:
            return False
        return True

    def _check(self, start: int, end: int) -> None:
        self.work.releases.ledger.check(self._spending(start, end))

    def _spending(self, start: int, end: int) -> Spending:
        units = sum(site.units for site in self.sites[start:end])
        first, last = self.slots[start], self.slots[end - 1]
        return self.work.spending(
            max(units, 1), self.times.bounds(first)[0], self.times.bounds(last)[1]
        )

    def _made(self, start: int, end: int, covered: int | None) -> SlotRelease:
        sites = self.sites[start:end]
        return SlotRelease(
            self.slots[start] if covered is None else covered + 1,
            self.end if end == len(self.slots) else self.slots[end] - 1,
            [sum(column) for column in zip(*(site.steps for site in sites), strict=True)],
            sum(site.records for site in sites),
            self._spending(start, end),
        )


def batches(times: Timetable, first: int, covered: int, now: int) -> Iterator[range]:
    """What may be released next, of what is due: so many slots at once, or whole growing batches."""
    due, number = times.due(now), 1
    if times.growth == 1.0:
        for start in range(covered + 1, due + 1, LONGEST):
            yield range(start, min(start + LONGEST, due + 1))
        return
    while times.slots(number, first)[-1] <= covered:  # the first batch that is not covered
        number *= 2
    number = 1 + bisect_left(
        range(1, number), True, key=lambda m: times.slots(m, first)[-1] > covered
    )
    while times.slots(number, first)[-1] <= due:
        batch = times.slots(number, first)
        yield range(max(batch[0], covered + 1), batch[-1] + 1)
        number += 1
