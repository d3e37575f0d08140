"""Until when a site's budget is enough: the streams it takes part in are charged ahead, and taken back.

Slots are charged by the ledger's own rules within a savepoint that is rolled back, so that what is said
here is what will happen. After `AHEAD` slots what is left is extended as a straight line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from veilsum.fleet.answers import Posted, questions_on
from veilsum.fleet.budget_units import Spending
from veilsum.fleet.ledger import BudgetSpentError, SiteLedger
from veilsum.fleet.post import Kind, Topic

if TYPE_CHECKING:
    from veilsum.fleet.seat import Seat
    from veilsum.fleet.site import Site

AHEAD = 48  # slots


@dataclass(frozen=True)
class Outlook:
    """How long a budget lasts."""

    slots: int  # that were charged ahead; 0 if the site is in no stream
    refused: bool  # whether the budget refused the one after these
    until: int | None  # UTC seconds; None if no end is in sight


def outlook(site: Site, source: str, ahead: int = AHEAD) -> Outlook:
    """Charge the next slots of all streams of a site, and take it back."""
    streams = [
        _following(site, source, seat, posted)
        for seat in site.seats.values()
        for posted in questions_on(seat.board)
        if posted.question.timetable is not None
    ]
    coming = islice(merge(*streams, key=lambda one: one.end), ahead)
    site.file.db.execute("savepoint outlook")
    try:
        return _charged(site.ledger, source, coming)
    finally:
        site.file.db.execute("rollback to outlook")
        site.file.db.execute("release outlook")


def _following(site: Site, source: str, seat: Seat, posted: Posted) -> Iterator[Spending]:
    """The charges of the slots after the last one that was released, like that one; none before."""
    times = posted.question.timetable
    assert times is not None
    rows = site.file.rows(
        "select readings, at from charges where source = ? and what = ? and board = ? and kind = 'charge'"
        " order by n desc limit 1",
        source, posted.terms.hex(), seat.fleet.hex(),
    )  # fmt: skip
    slot = site.file.released(seat.fleet, Topic(Kind.POOL, posted.terms))[2]
    for readings, at in rows:
        one = Spending(
            source, *times.bounds(slot), readings, posted.question.event, at, posted.terms.hex(),
            seat.fleet.hex(),
        )  # fmt: skip
        while True:
            slot += 1
            start, end = times.bounds(slot)
            yield replace(one, start=start, end=end, at=end + times.tolerance)


def _charged(ledger: SiteLedger, source: str, coming: Iterator[Spending]) -> Outlook:
    first = last = None
    slots = 0
    for one in coming:
        try:
            ledger.charge(one)
        except BudgetSpentError:
            return Outlook(slots, True, one.start)
        slots += 1
        last = one, ledger.left(source, one.start).epsilon
        first = first or last
    if first is None or last is None:
        return Outlook(0, False, None)
    (begin, before), (end, after) = first, last
    if after >= before:
        return Outlook(slots, False, None)
    until = end.start + round((end.start - begin.start) * after / (before - after))
    return Outlook(slots, False, until if until < ledger.budget.unit.span(end)[1] else None)
