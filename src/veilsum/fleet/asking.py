"""Asking a fleet: post a question, wait for what sites say and post, read the answer.

    words ── FleetQuestion ──> board ── steps of this member and of the sites ──> answer ── reply ──> a sheet

The same question again is the same post: it is found on the board, goes on or is answered already, and costs
nothing. What it is compared by is all of it but its deadline and its nonce.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted, questions_on, sites_of
from veilsum.fleet.database import SiteBusyError
from veilsum.fleet.encoding import reply
from veilsum.fleet.joining import config_fleet
from veilsum.fleet.membership import ASKER, SITE, Membership
from veilsum.fleet.post import Kind
from veilsum.fleet.promise import guarantee_of
from veilsum.fleet.protocol import consents_of, protocol_of
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import POOL, SECURE_SUM
from veilsum.fleet.secure_sum.numbers import FEWEST
from veilsum.fleet.site import Site
from veilsum.fleet.step import step
from veilsum.fleet.sum_posts import bound_of, numbers_of

if TYPE_CHECKING:
    from veilsum.asking import Reply
    from veilsum.asking.codebook_contents import Codebook
    from veilsum.fleet.seat import Seat

WEEK = 7 * 86_400  # seconds to the deadline of a question, unless said
SOONEST, LATEST = 0.2, 5.0  # seconds between two looks


@dataclass(frozen=True)
class FleetReply:
    """An answered question."""

    reply: Reply
    answer: BoardAnswer
    fleet: str

    @property
    def facts(self) -> dict[str, Any]:
        """What a program needs besides the answers, by name."""
        found, question = self.answer, self.answer.question
        return {
            "fleet": self.fleet, "question": question.digest.hex(), "protocol": question.protocol,
            "sites": list(found.sites), "missing": list(found.missing),
            "left_out": dict(found.left_out), "at_odds": list(found.at_odds),
            "records": self.reply.records, "unit": self.reply.unit, "epsilon": self.reply.event.epsilon,
            "delta": self.reply.event.delta, "stored": self.reply.stored,
        }  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """Where a question is."""

    done: FleetReply | None
    stage: str = ""  # what it waits for, for whom
    so_far: FleetReply | None = None  # an answer that more sites may join


class Asking:
    """A member that asks, in its folder."""

    def __init__(self, folder: Path, address: str, opening: Callable[[Path], Site] = Site) -> None:
        """Without opening it."""
        self.folder, self._opening = folder, opening
        self.address = config_fleet(folder, address)

    @contextmanager
    def seated(self) -> Iterator[Seat]:
        """The seat, with what the board shows now."""
        with self._opening(self.folder) as site:
            seat = site.seat(self.address)
            seat.read()
            if seat.board.membership is None and seat.traffic.failed:
                raise FleetError(next(iter(seat.traffic.failed)))
            seat.check_membership()
            if ASKER not in seat.member.roles:
                raise FleetError(
                    f"{seat.member.name} may not ask {seat.name}: ask where the fleet began, or let the "
                    f"authority call veilsum fleet admit {seat.member.name} --role asker"
                )
            yield seat

    def membership(self) -> Membership:
        """Who is in now."""
        with self.seated() as seat:
            if not seat.membership.having(SITE):
                raise FleetError(
                    f"{seat.name} has no site yet: veilsum fleet join on each, then veilsum fleet admit here"
                )
            return seat.membership

    def post(
        self, question: FleetQuestion, now: int, *, fresh: bool = False
    ) -> tuple[Posted, bool]:
        """Post a question, or find it on the board; the second part says whether it is new."""
        with self.seated() as seat:
            known = None if fresh else found_on(seat, question)
            if known is not None:
                over = known.question.deadline is not None and now > known.question.deadline
                if over and protocol_of(known.question.protocol).answer(seat.board, known) is None:
                    raise FleetError(
                        "this question was asked before, its deadline is over, and too few sites answered: "
                        "--fresh asks it anew, which those who answered pay once more"
                    )
                return known, False
            made = replace(question, nonce=str(now), settles="") if fresh else question
            seat.publish(Kind.QUESTION, made.digest, made.canonical(), now)
            seat.write(now)
            if seat.traffic.failed:
                raise FleetError(
                    f"{next(iter(seat.traffic.failed))}. It is kept here: the same line again posts it"
                )
            return Posted(made, seat.member), True

    def look(self, posted: Posted, now: int, codebook: Codebook | None = None) -> Progress:
        """Take a step, and say where a question is."""
        with self._opening(self.folder) as site:
            reports = step(site, now)
            seat = site.seat(self.address)
            found = progress(seat, posted, now, codebook)
            problems = [text for report in reports for text in report.problems]
            if found.done is None and problems:
                return replace(found, stage=f"{found.stage} ({problems[0]})")
            return found

    def wait(
        self, posted: Posted, *, say: Callable[[str], None], clock: Callable[[], float],
        sleep: Callable[[float], None], codebook: Codebook | None = None,
    ) -> FleetReply:  # fmt: skip
        """Step until a question is answered; `say` takes what it waits for, each time."""
        pause, before = SOONEST, ""
        while True:
            try:
                found = self.look(posted, int(clock()), codebook)
            except SiteBusyError:
                found = Progress(None, before)
            if found.done is not None:
                return found.done
            say(found.stage)
            pause = SOONEST if found.stage != before else min(LATEST, 1.5 * pause)
            before = found.stage
            sleep(pause)


def found_on(seat: Seat, question: FleetQuestion) -> Posted | None:
    """The same question of this member on a board, the latest of several."""
    wanted = _compared(question)
    same = [
        one
        for one in questions_on(seat.board)
        if one.asker.public == seat.public and _compared(one.question) == wanted
    ]
    return max(
        same,
        key=lambda one: (one.question.deadline or 0, one.question.nonce, one.terms),
        default=None,
    )


def _compared(question: FleetQuestion) -> dict[str, Any]:
    return {**question.data(), "deadline": None, "nonce": ""}


def usual_protocol(membership: Membership) -> str:
    """A secure sum where there are sites enough for one."""
    return SECURE_SUM if len(membership.having(SITE)) >= FEWEST else POOL


def check_asked(question: FleetQuestion, membership: Membership) -> None:
    """Raise before anything is posted if no site could answer."""
    if question.protocol == SECURE_SUM:
        if question.timetable is not None:
            raise FleetError(
                "a secure sum is asked once; a question that repeats is a pool: --protocol pool"
            )
        bound_of(question, numbers_of(membership))


def progress(seat: Seat, posted: Posted, now: int, codebook: Codebook | None = None) -> Progress:
    """Where a question is, on the board that a member holds."""
    protocol, question = protocol_of(posted.question.protocol), posted.question
    answer, stage = protocol.answer(seat.board, posted), protocol.stage(seat.board, posted, now)
    said = consents_of(seat.board, posted)
    refused = {name: one.reason for name, one in said.items() if not one.yes}
    made = None if answer is None else replied(seat, posted, answer, refused, codebook)
    if made is not None and _complete(question, made.answer, stage, refused, now):
        return Progress(made)
    if made is None:
        _check_refused(question, seat.membership, refused)
    waiting = stage
    silent = [site.name for site in sites_of(seat.board) if site.name not in said]
    if silent and question.protocol == POOL:
        waiting = f"waits for a yes or no of {', '.join(silent)}"
    if refused:
        waiting += f"; {', '.join(refused)} said no"
    return Progress(None, waiting, made)


def _complete(
    question: FleetQuestion, answer: BoardAnswer, stage: str, refused: dict[str, str], now: int
) -> bool:
    """Whether an answer is final: nobody is missing, or whoever asked said that so much is enough."""
    if not stage or set(answer.missing) <= set(refused) | set(answer.left_out):
        return True
    if question.quorum is not None and len(answer.sites) >= question.quorum:
        return True
    return question.deadline is not None and now > question.deadline


def enough_left(question: FleetQuestion, membership: Membership, refused: Collection[str]) -> bool:
    """Whether those that did not say no are enough for an answer."""
    yes = len([one for one in membership.having(SITE) if one.name not in refused])
    if question.protocol != SECURE_SUM:
        return yes > 0
    try:
        return yes >= max(FEWEST, numbers_of(membership).smallest)
    except FleetError:
        return False


def _check_refused(
    question: FleetQuestion, membership: Membership, refused: dict[str, str]
) -> None:
    """Raise where too many said no for any answer."""
    if not enough_left(question, membership, refused):
        said = "; ".join(f"{name}: {reason or 'no reason'}" for name, reason in refused.items())
        raise FleetError(f"this will not be answered, as too few sites agree. {said}")


def replied(
    seat: Seat, posted: Posted, answer: BoardAnswer, refused: dict[str, str],
    codebook: Codebook | None = None,
) -> FleetReply:  # fmt: skip
    """An answer of a board as a reply."""
    notes = []
    silent = [
        name for name in answer.missing if name not in refused and name not in answer.left_out
    ]
    if silent:
        notes.append(f"Not in it: {', '.join(silent)}.")
    notes += [
        f"{name} said no{reason and f': {reason}'}." for name, reason in sorted(refused.items())
    ]
    notes += [f"{name} is left out: {why}." for name, why in sorted(answer.left_out.items())]
    if answer.at_odds:
        notes.append(
            f"Keepers whose answers disagree with the others: {', '.join(answer.at_odds)}."
        )
    if any(topic.terms == posted.terms for topic, _ in seat.board.forks):
        notes.append("A member signed two posts of one number: veilsum fleet status names it.")
    made = reply(
        answer.question, answer.steps, answer.records, answer.draws,
        who=f"{answer.covers} of {seat.name}", promise=guarantee_of(answer.question, answer.numbers),
        notes=notes, codebook=codebook,
    )  # fmt: skip
    return FleetReply(made, answer, seat.name)
