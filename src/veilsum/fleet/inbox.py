"""What is asked of a site: what waits for a person, what it would cost and say, and yes or no.

A yes is a row of site.db; the next step posts it and does what is due. Until then nothing leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from veilsum.errors import FleetError
from veilsum.fleet.answers import Posted, questions_on
from veilsum.fleet.consent import LONGEST_REASON, Preview, impossible, preview
from veilsum.fleet.membership import KEEPER, SITE
from veilsum.fleet.post import Kind, short
from veilsum.fleet.promise import guarantee_of
from veilsum.fleet.release_rules import SECURE_SUM
from veilsum.fleet.seat import Seat
from veilsum.fleet.site import Site
from veilsum.fleet.step import NO, PERSON, YES, closed, facts_of
from veilsum.fleet.sum_posts import numbers_of

SHOWN = 8  # digits of a question


@dataclass(frozen=True)
class InboxItem:
    """A question to this site."""

    seat: Seat
    posted: Posted
    verdict: str = ""  # "yes", "no", or empty: it waits for a person
    by: str = ""  # "policy" or "person"

    @property
    def mark(self) -> str:
        """What `approve` takes."""
        return short(self.posted.terms)[:SHOWN]

    def line(self) -> str:
        """In a list."""
        question = self.posted.question
        cost = f"epsilon {question.event.epsilon:g}"
        if question.timetable is not None:
            cost += f" each {question.timetable.every}"
        return f"{self.posted.asker.name} asks {question.title()} ({question.protocol}, {cost})"


def items(site: Site, now: int, everything: bool = False) -> list[InboxItem]:
    """What waits for a person at a site; all questions that are open with `everything`."""
    found = []
    for seat in site.seats.values():
        member = None if seat.board.membership is None else seat.membership.present(seat.public)
        if member is None or not {SITE, KEEPER} & set(member.roles):
            continue
        for posted in questions_on(seat.board):
            if closed(posted, now):
                continue
            known = site.file.decision(seat.fleet, posted.terms)
            deadline = posted.question.deadline
            over = deadline is not None and now > deadline
            if known is None and not over:
                found.append(InboxItem(seat, posted))
            elif known is not None and everything:
                found.append(InboxItem(seat, posted, known[0], known[2]))
    return found


def shown(site: Site, item: InboxItem, now: int) -> Preview:
    """What a person is shown before yes."""
    question = item.posted.question
    draws, share, numbers = Fraction(0), Fraction(1), None
    sites = len(item.seat.membership.having(SITE))
    if question.protocol == SECURE_SUM:
        numbers = numbers_of(item.seat.membership)
        draws, share = Fraction(sites, numbers.honest), Fraction(1, numbers.honest)
    data = site.data
    left = (0.0, 0.0) if data is None else tuple(site.ledger.left(data.source, now))
    return preview(
        question, promise=guarantee_of(question, numbers), sites=sites, draws=draws or sites,
        share=share, left=(left[0], left[1]),
    )  # fmt: skip


def found(site: Site, prefix: str, now: int) -> InboxItem:
    """The question whose digest begins so."""
    wanted = prefix.strip().lower()
    known = items(site, now, everything=True)
    same = [one for one in known if wanted and one.posted.terms.hex().startswith(wanted)]
    if len(same) == 1:
        return same[0]
    marks = ", ".join(one.mark for one in known) or "none"
    if same:
        raise FleetError(f"{len(same)} questions begin with {wanted}: give more digits ({marks})")
    raise FleetError(
        f"no open question begins with {wanted}; there are {marks}. veilsum fleet step reads the board again"
    )


def approve(site: Site, item: InboxItem, now: int) -> None:
    """Say yes: the next step posts it and answers."""
    reason = impossible(item.posted.question, facts_of(site, item.posted, now))
    if reason:
        raise FleetError(f"this cannot be approved: {reason}")
    _decide(site, item, YES, "", now)


def refuse(site: Site, item: InboxItem, reason: str, now: int) -> None:
    """Say no; the reason is posted with it, and may be empty."""
    for kind in (Kind.POOL, Kind.DEAL):
        if (
            item.seat.board.register_of(kind, item.posted.terms, item.seat.public).header
            is not None
        ):
            raise FleetError(
                "this site has answered already: what left cannot be taken back, and nothing more is asked "
                "of it but a question that repeats, which ends by a smaller [budget] in site.toml"
            )
    if len(reason) > LONGEST_REASON:
        raise FleetError(f"a reason has at most {LONGEST_REASON} characters; found {len(reason)}")
    _decide(site, item, NO, reason, now)


def _decide(site: Site, item: InboxItem, verdict: str, reason: str, now: int) -> None:
    with site.file.transaction():
        site.file.decide(item.seat.fleet, item.posted.terms, verdict, reason, PERSON, now)
