"""Fill the status of a fleet: from a seat, the site's ledger and the time (`status` has the model)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from veilsum.errors import FleetError, StoreError, VeilsumError
from veilsum.fleet.answers import BoardAnswer, Posted, questions_on, sites_of
from veilsum.fleet.asking import enough_left
from veilsum.fleet.attention import HOUR, few
from veilsum.fleet.board import Board
from veilsum.fleet.encoding import decode
from veilsum.fleet.membership import KEEPER, SITE, Member, Membership
from veilsum.fleet.outlook import outlook
from veilsum.fleet.pool import PoolRegister
from veilsum.fleet.post import Header, Kind, Topic, public, short
from veilsum.fleet.protocol import consents_of, protocol_of
from veilsum.fleet.release import STOPPED
from veilsum.fleet.running import failed_at
from veilsum.fleet.schedule import Timetable
from veilsum.fleet.seat import Seat
from veilsum.fleet.seen import Seen, seen_name
from veilsum.fleet.site import Site
from veilsum.fleet.status import (
    FleetStatus,
    FoundNumber,
    MemberRelease,
    MemberView,
    OpenKey,
    OwnBudget,
    QuestionStatus,
    SlotFound,
    StoreView,
    Trouble,
    WaitingRelease,
)
from veilsum.questions import Decoded

RELEASES = (Kind.POOL, Kind.DEAL)
QUICK = 64  # lists of others that a look reads at most
ALL = 1 << 30
PATIENCE = 3  # times the median age of lists, from which on a site is silent


def look(site: Site, seat: Seat, now: int, *, everything: bool = False) -> FleetStatus:
    """Read what is new in the stores, and say how the fleet is; nothing is posted."""
    seat.read(sample=ALL if everything else QUICK)
    if seat.board.membership is not None:
        seat.name_withheld(now)
    unread: set[str] = set()
    lists = dict(seat.seen)
    for store in seat.stores:
        try:
            known = seat.file.versions(store.address)
            shown = store.names("seen")
            unread |= {name for name, version in shown.items() if known.get(name) != version}
            own = store.get(seen_name(short(seat.public)))
            if own is not None:
                lists[seat.public] = Seen.parse(own)
        except (StoreError, FleetError):
            continue  # said by `seat.traffic`, or by the next step
    return fleet_status(site, seat, now, lists, unread)


def fleet_status(
    site: Site,
    seat: Seat,
    now: int,
    lists: Mapping[bytes, Seen] | None = None,
    unread: AbstractSet[str] = frozenset(),
) -> FleetStatus:
    """The status, from what is held."""
    board, membership = seat.board, seat.board.membership
    own = None if membership is None else membership.present(seat.public)
    posted = questions_on(board)
    questions = tuple(_question(board, one, now) for one in posted)
    found = FleetStatus(
        at=now,
        fleet=seat.name,
        epoch=0 if membership is None else membership.number,
        authority=seat.fleet.hex(),
        member="" if own is None else own.name,
        key=seat.public.hex(),
        digest=board.digest.hex(),
        questions=questions,
        budgets=_budgets(site, now),
        stores=_stores(seat, membership),
        witnesses=_witnesses(membership),
        outbox=tuple(_outbox(seat)),
        open_keys=tuple(_open_keys(site.folder)),
        troubles=tuple(_troubles(site, seat, own, posted, now)),
        stopped=(site.file.get(STOPPED) or b"").decode(),
    )
    if membership is None:
        return found
    views = _Views(seat, membership, posted, questions, now, lists or seat.seen, unread)
    return replace(found, members=views.members())


# ---- questions


def _question(board: Board, posted: Posted, now: int) -> QuestionStatus:
    question = posted.question
    said = consents_of(board, posted)
    found = QuestionStatus(
        short(posted.terms), short(posted.terms), posted.asker.name, question.protocol, question.label,
        question.epsilon, question.delta, deadline=question.deadline, of=len(sites_of(board)),
        refused={name: one.reason for name, one in said.items() if not one.yes},
        agreed=tuple(name for name, one in said.items() if one.yes),
    )  # fmt: skip
    if question.timetable is not None:
        found = replace(found, every=str(question.timetable.every), zone=question.timetable.zone)
    try:
        found = replace(found, title=question.title())
        return _answered(board, posted, now, found)
    except VeilsumError as error:
        return replace(found, problem=str(error))


def _answered(board: Board, posted: Posted, now: int, found: QuestionStatus) -> QuestionStatus:
    protocol = protocol_of(posted.question.protocol)
    stage = _brief(protocol.stage(board, posted, now))
    answer = protocol.answer(board, posted)
    if answer is None:
        missing = tuple(site.name for site in sites_of(board))
        assert board.membership is not None  # no question is seen without one
        if not enough_left(posted.question, board.membership, found.refused):
            stage = "will not be answered: too few sites agree"
        return replace(found, stage=stage, missing=missing)
    found = replace(
        found, stage=stage, inside=len(answer.sites), missing=answer.missing,
        of=len(answer.sites) + len(answer.missing), left_out=dict(answer.left_out),
        at_odds=answer.at_odds,
        found=_numbers(decode(posted.question, answer.steps, answer.records, answer.draws)),
    )  # fmt: skip
    times = posted.question.timetable
    return found if times is None else _stream(board, posted, answer, times, now, found)


def _brief(stage: str) -> str:
    """Whom a question waits for, with the first ones of many names."""
    said, mark, more = stage.partition("; its")
    start, _, names = said.rpartition(" of " if " of " in said else "for ")
    parts = names.split(", ")
    if len(parts) < 2:
        return stage
    return f"{said[: len(said) - len(names)]}{few(parts)}{mark}{more}" if start else stage


def _numbers(decoded: Sequence[Sequence[Decoded]]) -> tuple[FoundNumber, ...]:
    return tuple(
        FoundNumber(
            one.quantity, _plain(one.value), _plain(one.low), _plain(one.high), tuple(one.labels),
            one.unit, one.detail,
        )
        for part in decoded
        for one in part
    )  # fmt: skip


def _plain(value: Any) -> tuple[float | None, ...]:
    found = np.ravel(np.asarray(value, dtype=float)).tolist()
    return tuple(x if isfinite(x) else None for x in found)


def _stream(
    board: Board, posted: Posted, answer: BoardAnswer, times: Timetable, now: int,
    found: QuestionStatus,
) -> QuestionStatus:  # fmt: skip
    """The newest slot that most sites have, the first one, and how late the fleet is."""
    posts, inside_names = board.opened(Kind.POOL, posted.terms), set(answer.sites)
    newest = [
        max((posts[key] for key in site.keys if key in posts), key=lambda post: post.header.last)
        for site in sites_of(board)
        if site.name in inside_names
    ]
    registers = [
        (post.header, PoolRegister.parse(post.body, posted.question.length)) for post in newest
    ]
    spans = Counter((header.first, header.last) for header, _ in registers)
    if not spans:
        return found
    span = max(spans, key=lambda one: (spans[one], one))
    inside = [one for header, one in registers if (header.first, header.last) == span]
    steps = [sum(column) for column in zip(*(one.last for one in inside), strict=True)]
    records = sum(one.records for one in inside)
    last = decode(posted.question, steps, records, Fraction(len(inside)))
    start, end = times.bounds(span[0])[0], times.bounds(span[1])[1]
    late = times.due(now) - max(header.last for header, _ in registers)
    return replace(
        found, latest=SlotFound(*span, start, end, len(inside), _numbers(last)),
        late=max(0, late) if times.growth == 1.0 else 0,
    )  # fmt: skip


# ---- members


class _Views:
    """The members of a fleet, each beside the others."""

    def __init__(
        self, seat: Seat, membership: Membership, posted: Sequence[Posted],
        questions: Sequence[QuestionStatus], now: int, lists: Mapping[bytes, Seen],
        unread: AbstractSet[str],
    ) -> None:  # fmt: skip
        self.seat, self.board, self.membership, self.now = seat, seat.board, membership, now
        self.lists, self.unread = lists, unread
        self.digest = self.board.digest
        self.left_out = {name: why for one in questions for name, why in one.left_out.items()}
        self.forks: dict[str, list[str]] = {}
        for (topic, key), fork in self.board.forks.items():
            if key in membership.keys:
                said = f"number {fork.one.number} of {topic.name}"
                self.forks.setdefault(membership.keys[key].name, []).append(said)
        self.headers = {
            topic: dict(self._headers(topic))
            for topic in self.board.registers
            if topic.kind in RELEASES
        }
        self.posted = {one.terms: one for one in posted}
        self.common = {
            topic: _common([header.last for header in found.values()])
            for topic, found in self.headers.items()
        }
        ages = [self._age(one) for one in membership.members if one.public != seat.public]
        known = [age for age in ages if age is not None]
        self.patience = max(HOUR, PATIENCE * median(known)) if known else HOUR

    def members(self) -> tuple[MemberView, ...]:
        """All of them, in the order of the membership."""
        return tuple(self._view(member) for member in self.membership.members)

    def _headers(self, topic: Topic) -> Iterator[tuple[str, Header]]:
        """The newest one of each member, under any of its keys."""
        for member in self.membership.members:
            found = [self.board.register(topic, key).header for key in member.keys]
            if headers := [one for one in found if one is not None]:
                yield member.name, max(headers, key=lambda one: one.last)

    def _age(self, member: Member) -> int | None:
        seen = self.lists.get(member.public)
        if seen is None or not member.roles or self._fresh(member):
            return None
        return max(0, self.now - seen.at)

    def _fresh(self, member: Member) -> bool:
        """Whether it has written since its list was read."""
        other = member.public != self.seat.public
        return other and seen_name(short(member.public)) in self.unread

    def _view(self, member: Member) -> MemberView:
        seen, age = self.lists.get(member.public), self._age(member)
        ahead = 0 if seen is None else seen.at - self.now
        releases = tuple(self._releases(member))
        return MemberView(
            member.name, member.roles, short(member.public), member.public == self.seat.public,
            len(member.closed), None if seen is None else seen.at, age,
            heard=member.public == self.seat.public or bool(seen or releases or self._fresh(member)),
            silent=age is not None and age > self.patience,
            ahead=ahead if ahead > self.membership.clock else 0,
            same=seen is not None and seen.digest == self.digest,
            releases=releases, epsilon=self._epsilon(member),
            forks=tuple(self.forks.get(member.name, ())),
            left_out=self.left_out.get(member.name, ""),
        )  # fmt: skip

    def _releases(self, member: Member) -> Iterator[MemberRelease]:
        for topic, found in self.headers.items():
            header = found.get(member.name)
            if header is None:
                continue
            posted = self.posted.get(topic.terms)
            times = None if posted is None else posted.question.timetable
            opened = any(
                post.header.number >= header.number
                for post in self.board.register(topic, header.key).opened
            )
            yield MemberRelease(
                short(topic.terms), header.number, header.last,
                None if times is None else times.bounds(header.last)[1],
                max(0, self.common[topic] - header.last), opened,
            )  # fmt: skip

    def _epsilon(self, member: Member) -> float:
        """What it said of each question and key that it spent so far."""
        found = (
            self.board.register(topic, key).header
            for topic in self.board.registers
            if topic.kind in RELEASES
            for key in member.keys
        )
        return sum(header.epsilon for header in found if header is not None)


def _common(lasts: Sequence[int]) -> int:
    """The last slot that most sites have."""
    counts = Counter(lasts)
    return max(counts, key=lambda last: (counts[last], last), default=0)


# ---- this member


def _budgets(site: Site, now: int) -> tuple[OwnBudget, ...]:
    sources = {source for (source,) in site.file.rows("select distinct source from charges")}
    limit = site.config.budget
    found = []
    for source in sorted(sources | ({"data"} if site.config.data else set())):
        left = site.ledger.left(source, now).epsilon
        found.append(
            OwnBudget(
                source, limit.epsilon - left, left, site.ledger.spent(source).epsilon,
                limit.epsilon, str(limit.unit), outlook(site, source).until,
            )
        )  # fmt: skip
    return tuple(found)


def _stores(seat: Seat, membership: Membership | None) -> tuple[StoreView, ...]:
    by_store = membership is not None and membership.witnesses.store
    failed = list(seat.traffic.failed)
    return tuple(
        StoreView(
            store.address, by_store and k == 0,
            next((text for text in failed if text.startswith(f"{store.address}:")), ""),
        )
        for k, store in enumerate(seat.stores)
    )  # fmt: skip


def _witnesses(membership: Membership | None) -> str:
    if membership is None:
        return ""
    wit = membership.witnesses
    return (
        "the store" if wit.store else f"{wit.needed} of {len(wit.members)}: {few(wit.members, 8)}"
    )


def _open_keys(folder: Path) -> Iterator[OpenKey]:
    for path in sorted(folder.glob("keeper-*.key")):
        with suppress(FileNotFoundError):  # a step that ends now removes it
            yield OpenKey(path.name, int(path.stat().st_mtime))


def _outbox(seat: Seat) -> Iterator[WaitingRelease]:
    membership = seat.board.membership
    for post in seat.file.outbox(seat.fleet):
        header = post.header
        waits = f"a claim at {seat.stores[0].address}"
        if membership is not None and not membership.witnesses.store:
            holding = [
                name
                for name in membership.witnesses.members
                if _holds(seat, membership.member(name), header)
            ]
            others = [name for name in membership.witnesses.members if name not in holding]
            need = membership.witnesses.needed
            waits = f"{len(holding)} of {need} witnesses; {few(others)} still to come"
        yield WaitingRelease(header.topic.name, header.number, waits)


def _holds(seat: Seat, witness: Member, header: Header) -> bool:
    seen = seat.seen.get(witness.public)
    held = None if seen is None else seen.holds(header.topic, header.key)
    return held is not None and held[0] >= header.number


def _troubles(
    site: Site, seat: Seat, own: Member | None, posted: Sequence[Posted], now: int
) -> Iterator[Trouble]:
    membership, traffic = seat.board.membership, seat.traffic
    if membership is None:
        yield Trouble(
            "this site", "no membership has arrived",
            f"the authority begins with veilsum fleet init; this site's key is {public(site.file.key).hex()}",
            "not-admitted",
        )  # fmt: skip
    elif own is None:
        yield Trouble(
            "this site", "is not admitted", "send its line to the authority: "
            f"{site.config.name} {public(site.file.key).hex()}", "not-admitted",
        )  # fmt: skip
    elif not own.roles and not any(one.roles for one in membership.members):
        yield Trouble(
            "this fleet", "is closed: nobody asks, and nobody releases any more",
            "end the timer or cron of this folder", "closed",
        )  # fmt: skip
    elif not own.roles:
        yield Trouble(
            "this site", "was removed by the authority: it is asked nothing, and posts nothing",
            f"it may say veilsum fleet admit {own.name}", "removed",
        )  # fmt: skip
    if membership is None or membership.fork is None:
        yield from (Trouble("this site", text, "", "failed") for text in failed_at(site, seat.name))
    if membership is not None and membership.fork is not None:
        yield Trouble(
            "the authority", f"signed two memberships of one number (up to {membership.number})",
            "nobody releases anything: ask it, and begin a new fleet", "two-epochs",
        )  # fmt: skip
    yield from (Trouble("a store", text, "", "unreachable") for text in traffic.failed)
    yield from (
        Trouble("a store", text, "it went back to an older state: ask who restored it", "rolled-back")
        for text in traffic.rolled_back
    )  # fmt: skip
    yield from (
        Trouble("a store", text, "if it stays so, the store withholds it", "withheld")
        for text in traffic.withheld
    )
    for reason, count in seat.board.dropped.items():
        yield Trouble("a store", f"{count} posts were dropped: {reason}", "", "dropped")
    if own is None or not {SITE, KEEPER} & set(own.roles):
        return
    waiting = [
        one
        for one in posted
        if site.file.decision(seat.fleet, one.terms) is None
        and not (one.question.deadline is not None and now > one.question.deadline)
    ]
    if waiting:
        said = f"{len(waiting)} question{'s wait' if len(waiting) > 1 else ' waits'}"
        yield Trouble("this site", f"{said} for a yes or no", "veilsum fleet inbox", "inbox")
