"""What a store does not show although it is there: named once it is late, and no longer on its way.

    release     a member's list names a number that this site is not shown
    gone        an object that this site has read is not listed any more
    question    a member goes on to list releases about a question that this site is not shown

Each is remembered from the step that missed it first. The first two are named `LATE` seconds later if they
are still missing. A question that was over may be listed by members who have not forgotten it yet, so it is
named by a list that was written `LATE` seconds after it was missed: its question was not over then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veilsum.fleet.post import WORDS, Kind, Topic, short

if TYPE_CHECKING:
    from veilsum.fleet.seat import Seat

LATE = 600  # seconds
MOST = 1000  # that are remembered
RELEASE, GONE, QUESTION = "release", "gone", "question"


@dataclass(frozen=True)
class NotShown:
    """What is missing, and who says that it is there: texts, as they are kept."""

    what: str  # one of the three
    kind: str  # of its topic, as terms
    terms: str
    key: str  # empty for a question
    number: int
    by: str  # the key of the member that lists it, or the address of the store

    @property
    def topic(self) -> Topic:
        """What it is about."""
        return Topic(WORDS[self.kind], bytes.fromhex(self.terms))


def named(seat: Seat, now: int) -> list[str]:
    """What is late, in words; the rest is remembered for the next steps."""
    place = f"not shown {short(seat.fleet)}"
    known = {
        NotShown(*fields): since for *fields, since in json.loads(seat.file.get(place) or b"[]")
    }
    missed = {one: at for one, at in seat.traffic.missing.items() if lacks(seat, one)}
    kept = {one: since for one, since in known.items() if one.what != GONE and lacks(seat, one)} | {
        one: known.get(one, now) for one in missed
    }
    late = [
        words(seat, one)
        for one, since in kept.items()
        if (missed.get(one, 0) if one.what == QUESTION else now) >= since + LATE
    ]
    if kept != known:
        rows = [[*vars(one).values(), since] for one, since in list(kept.items())[:MOST]]
        with seat.file.transaction():
            seat.file.set(place, json.dumps(rows).encode())
    return late


def lacks(seat: Seat, one: NotShown) -> bool:
    """Whether it is still missing, and its question not over."""
    asked = Topic(Kind.QUESTION, one.topic.terms) in seat.board.registers
    if one.what == RELEASE:
        held = seat.board.register(one.topic, bytes.fromhex(one.key)).header
        return asked and (held is None or held.number < one.number)
    return asked if one.what == GONE else not asked


def words(seat: Seat, one: NotShown) -> str:
    """For people."""
    names = seat.membership.keys
    if one.what == GONE:
        maker = names[bytes.fromhex(one.key)].name
        return f"{one.by} no longer shows {one.topic.name} of {maker}, which was there before"
    holder = names[bytes.fromhex(one.by)].name
    if one.what == QUESTION:
        return f"{holder} goes on to list {one.topic.name}, whose question is not shown here"
    maker = names[bytes.fromhex(one.key)].name
    return (
        f"{holder} holds number {one.number} of {maker} ({one.topic.name}), which is not shown here"
    )
